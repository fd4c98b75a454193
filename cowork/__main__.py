"""`python -m cowork` and the installed command. `--version` is answered before anything is loaded."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from cowork import __version__

        print(f"cowork {__version__}")
        return
    from cowork.cli.main import run

    run()


if __name__ == "__main__":
    main()
