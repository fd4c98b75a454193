"""`make bench`: every measurement, or those named: `python -m benchmarks run task`."""

from __future__ import annotations

import importlib
import sys

PARTS = ("run", "task", "search", "sessions", "sizes", "long", "judge", "boxes", "flows", "repl", "mcp")


def main() -> None:
    """Run the parts asked for, all by default."""
    for name in sys.argv[1:] or PARTS:
        print(f"\n== {name}")
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
