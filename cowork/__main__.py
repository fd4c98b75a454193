"""`python -m cowork` and the installed command. `--version` is answered before anything is loaded, and signals are
caught before the rest is."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] in (["--version"], ["-V"]) and _print_version():
        return
    from cowork.core import signals

    signals.catch()
    try:
        from cowork.cli.main import run

        run()
    except signals.Stopped as stop:
        from cowork.cli.main import report_stop

        sys.exit(report_stop(sys.argv[1:], stop))


def _print_version() -> bool:
    """Whether it could be written; the long way tells why not."""
    from cowork import __version__

    try:
        return os.write(1, f"cowork {__version__}\n".encode()) > 0
    except OSError:
        return False


if __name__ == "__main__":
    main()
