"""Draws docs/chat.svg from a real run of the chat: `python -m tests.e2e.picture`."""

from __future__ import annotations

import os
import sys
import tempfile
from html import escape
from pathlib import Path

from pyte.screens import Char

from tests.e2e.terminal import ROOT, Screen, Terminal

PICTURE = ROOT / "docs" / "chat.svg"
CELL, ROW, MARGIN = 8.4, 18, 14
BACK, FRONT = "#14161a", "#d8dbe0"

SCRIPT = """
model: claude-sonnet-4-5
price: {input: 3, output: 15}
main:
  - say: "I'll send out four: two look at the code, one reads the tests, one checks the webhook."
    calls:
      - Task: {description: guest checkout flow, prompt: "How do guests check out?", subagent_type: explore}
      - Task: {description: how refunds are made, prompt: "How are refunds made?", subagent_type: explore}
      - Task: {description: run the refund tests, prompt: "Run the refund tests.", subagent_type: general-purpose}
      - Task: {description: webhook handler, prompt: "Read the webhook handler.", subagent_type: explore}
  - say: done
agents:
  explore:
    - match: guests
      turns:
        - call: {Grep: {pattern: "guest"}}
        - call: {Read: {file_path: shop/checkout.py}}
        - {delay_ms: 9000, say: "word by word"}
    - match: refunds
      turns:
        - call: {Glob: {pattern: "**/*.py"}}
        - call: {Read: {file_path: shop/refunds.py}}
        - call: {Grep: {pattern: "user_id"}}
        - {delay_ms: 9000, say: "word by word"}
    - match: webhook
      turns:
        - call: {Read: {file_path: shop/refunds.py}}
        - {delay_ms: 9000, say: "word by word"}
  general-purpose:
    - call: {Read: {file_path: shop/refunds.py}}
    - call: {Bash: {command: "pytest -q tests/test_refunds.py"}}
    - {delay_ms: 9000, say: "word by word"}
"""


def main() -> None:
    """Run the chat in a scratch repository and draw the screen when the children are at work."""
    with tempfile.TemporaryDirectory() as folder:
        repo = Path(folder) / "home" / "src" / "shop"
        (repo / "shop").mkdir(parents=True)
        (repo / "shop" / "checkout.py").write_text("def guest_checkout(order):\n    return order\n" * 40)
        (repo / "shop" / "refunds.py").write_text("def refund(order):\n    return order.user_id\n" * 30)
        script = Path(folder) / "script.yaml"
        script.write_text(SCRIPT)
        env = {"HOME": str(Path(folder) / "home"), "PATH": os.environ["PATH"]}
        command = [str(Path(sys.executable).with_name("cowork")), "--script", str(script)]
        with Terminal(command, cwd=repo, columns=110, rows=34, env=env) as terminal:
            terminal.wait_for("/help", 30)
            terminal.type("why do refunds fail for guest orders?", "<Enter>")
            terminal.wait_for("Esc interrupt", 30)
            terminal.wait_for("4 children", 30)
            terminal.type("<Tab>", "<Tab>", "<Right>")
            terminal.wait_for("← folds")
            terminal.settle(1.2)
            PICTURE.write_text(svg(terminal.screen_))
    print(f"wrote {PICTURE.relative_to(ROOT)}")


def svg(screen: Screen) -> str:
    """The screen as an SVG without scripts or fonts of its own."""
    used = 1 + max(row for row in range(screen.lines) if screen.display[row].strip())
    wide, high = screen.columns * CELL + 2 * MARGIN, used * ROW + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" width="{wide:.0f}" height="{high}" '
        'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="14">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACK}"/>',
    ]
    for number in range(used):
        for start, cells in _runs([screen.buffer[number][x] for x in range(screen.columns)]):
            out.append(_run(start, number, cells))
    return "\n".join([*out, "</svg>"]) + "\n"


def _run(start: int, row: int, cells: list[Char]) -> str:
    first = cells[0]
    x, y = MARGIN + start * CELL, MARGIN + row * ROW
    back = ""
    if first.bg != "default":
        back = f'<rect x="{x:.1f}" y="{y}" width="{len(cells) * CELL:.1f}" height="{ROW}" fill="#{first.bg}"/>'
    text = "".join(c.data for c in cells)
    if not text.strip():
        return back
    color = FRONT if first.fg == "default" else f"#{first.fg}"
    weight = ' font-weight="bold"' if first.bold else ""
    width = f'{len(cells) * CELL:.1f}" lengthAdjust="spacingAndGlyphs'
    return (
        f'{back}<text x="{x:.1f}" y="{y + 13}" fill="{color}"{weight} textLength="{width}" xml:space="preserve">'
        f"{escape(text)}</text>"
    )


def _runs(cells: list[Char]) -> list[tuple[int, list[Char]]]:
    """Neighbouring cells of one look."""
    out: list[tuple[int, list[Char]]] = []
    for place, cell in enumerate(cells):
        look = (cell.fg, cell.bg, cell.bold)
        if out and (out[-1][1][0].fg, out[-1][1][0].bg, out[-1][1][0].bold) == look:
            out[-1][1].append(cell)
        else:
            out.append((place, [cell]))
    return out


if __name__ == "__main__":
    main()
