"""What judging a command costs a processor, the best of three tries: ordinary ones at p99, hostile ones at worst."""

from __future__ import annotations

import ast
import tempfile
import time
from pathlib import Path

from cowork.core.ports import Effect
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.shell.parse import MAX_CHARS
from tests.fakes.calls import TOOLS

TABLE = Path(__file__).parent.parent / "tests/permissions/commands.txt"
HOSTILE = TABLE.with_name("hostile.txt")
P99_MS, WORST_MS = 5.0, 100.0


def main() -> int:
    """Print the figures; 1 when one is over its promise."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        permit = Permissions(
            workspace=workspace, trusted=True, allow=["Bash(npm test:*)"], deny=["Bash(curl:*)", "Read(.env)"]
        )
        ordinary = sorted(min(_milliseconds(permit, command) for _ in range(3)) for command in _commands())
        p99 = ordinary[int(len(ordinary) * 0.99)]
        texts = hostile_texts()
        worst = max(min(_milliseconds(permit, text) for _ in range(3)) for text in texts)
    median = ordinary[len(ordinary) // 2]
    print(f"judge: {len(ordinary):,} commands, median {median:.2f} ms, p99 {p99:.2f} ms (< {P99_MS:g})")
    print(f"judge: {len(texts)} hostile texts up to 1 MB, worst {worst:.1f} ms (< {WORST_MS:g})")
    return int(p99 >= P99_MS or worst >= WORST_MS)


def hostile_texts() -> list[str]:
    """Pieces of shell repeated to the longest text that is read, and to a megabyte."""
    lines = HOSTILE.read_text(encoding="ascii").splitlines()
    pieces = [ast.literal_eval(line) for line in lines if line and not line.startswith("#")]
    return [(piece * (size // len(piece) + 1))[:size] for piece in pieces for size in (MAX_CHARS, 1_000_000)]


def _commands() -> list[str]:
    rows = (line.partition("\t")[2] for line in TABLE.read_text(encoding="utf-8").splitlines() if "\t" in line)
    return [row.replace("\\n", "\n") for row in rows]


def _milliseconds(permit: Permissions, command: str) -> float:
    start = time.process_time()
    permit.judge("main", TOOLS["Bash"], {"command": command}, [Effect("exec", command)])
    return (time.process_time() - start) * 1000


if __name__ == "__main__":
    raise SystemExit(main())
