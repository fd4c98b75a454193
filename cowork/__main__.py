"""`python -m cowork` and the installed command. `--version` is answered before anything is loaded."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.exit(_version())
    from cowork.cli.main import run

    run()


def _version() -> int:
    from cowork import __version__

    try:
        os.write(1, f"cowork {__version__}\n".encode())
    except OSError:  # nobody reads
        return 141
    return 0


if __name__ == "__main__":
    main()
