"""Every function that draws, given hostile text: what it gives is already harmless, before the theme looks at it.

The functions are found by what they return, and the printing places by what they call: a new one fails here until it
has a case.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

import cowork
from cowork.core import events
from cowork.core.blocks import Text, Thinking
from cowork.core.events import AgentEnded, AgentStarted, Event, Notice, PromptAdded
from cowork.core.hygiene import inert
from cowork.core.ports import Question
from cowork.frontends import repl
from cowork.frontends.host import Choose, CommandResult, ContextUse, FileChange, Row, Status
from cowork.frontends.repl.input import completion, dialogs, picker
from cowork.frontends.repl.input.composer import input_lines
from cowork.frontends.repl.turns import Sent
from cowork.frontends.repl.view import frame, notes, panels, scene, tool_lines
from cowork.frontends.repl.view.status_line import status_line
from cowork.frontends.repl.view.stream import MarkdownStream, markdown_lines
from cowork.frontends.repl.view.viewer import Viewer, tree
from cowork.frontends.styled import Kind, Line, Theme
from tests.fakes.calls import started
from tests.fakes.repl_host import chat_on
from tests.permissions.test_permissions_hygiene import PAYLOADS

THEME = Theme()
# A few that stand for all: which characters are escaped is tested elsewhere, here it is where they are.
PIECES = ["\x1b[2J \x9b2J", "ok\rEVIL\b\x00\x7f", "\u202e\u200b\ud83d\U000e0041", "a\nb\tc", "e" + "\u0301" * 40]
SPELLED = [f"<http://x/{quote(p, errors='replace')}>" for p in PAYLOADS] + [f"&#{ord(p[0])};" for p in PAYLOADS]


def given(text: str) -> dict[str, Any]:
    """An input, a record or a display in which everything is hostile."""
    names = ("file_path", "path", "command", "pattern", "glob", "description", "label", "text", "message", "hint",
             "reason", "output", "summary", "content", "activeForm", "short_result", "verdict", "why", "code",
             "subagent_id")  # fmt: skip
    return dict.fromkeys(names, text) | {"diff": f"@@ -1 +1 @@\n-{text}\n+{text} b\n"}


def filled(kind: type[Event], text: str, **fixed: Any) -> Event:
    """An event with the text wherever one can be."""
    values: dict[str, Any] = {}
    for name, hint in kind.__annotations__.items():
        if hint == "str":
            values[name] = "t" if name == "tool_use_id" else text
        elif hint == "Json":
            values[name] = given(text) | {"status": "error", "error": given(text), "data": given(text)}
        elif hint == "tuple[str, ...]":
            values[name] = (text, text)
        elif hint == "tuple[Json, ...]":
            values[name] = (given(text), given(text) | {"status": "in_progress"})
        elif hint == "tuple[Block, ...]":
            values[name] = (Thinking(text), Text(text))
    return kind(**values | fixed)


KINDS = sorted((k for k in vars(events).values() if inspect.isclass(k) and issubclass(k, Event)), key=lambda k: k.type)


def story(text: str) -> list[Event]:
    """Every kind of event, of the main agent and of a child, in which a call and a child are left at work."""
    child = AgentStarted("s", "main", "t", text, text, text, text, text, agent="main/x-1", color=text)
    shown = [events.ToolEnded("t", name, {"status": "success", "text": text}, {**given(text), "kind": kind})
             for name, kind in (("Read", "text"), ("Edit", "diff"), ("Bash", "terminal"), (text, "files"))]  # fmt: skip
    plain = [filled(kind, text) for kind in KINDS if kind not in (AgentStarted, AgentEnded)]
    inside = [filled(kind, text, agent="main/x-1") for kind in KINDS if kind not in (AgentStarted, AgentEnded)]
    first = [child, *inside, filled(AgentEnded, text, agent="main/x-1"), *shown, *plain]
    return [*first, *(filled(k, text) for k in (events.ToolStarted, events.ToolOutput, events.RetryScheduled)), child,
            *inside[:-1], filled(events.ThinkingDelta, text), filled(events.TextDelta, text)]  # fmt: skip


def played(text: str) -> scene.Scene:
    made = scene.Scene(clock=lambda: 14.0)
    made.begin()
    for event in story(text):
        made.apply(event)
    made.begin()
    return made


def waiting(text: str) -> list[Line]:
    chat = chat_on(played(text))
    chat.turns.queue.append(Sent(text))
    chat.turns.steering.append(text)
    chat.expanded = True
    return frame.live_lines(chat, 80, 60, 80)


def looked(text: str) -> list[Line]:
    made = scene.Scene()
    for number in range(3):
        made.apply(started(str(number), "Read", given(text)))
        made.apply(events.ToolEnded(str(number), "Read", {"status": "success"}, given(text)))
    return made.look_lines(80, THEME)


def questions(text: str) -> list[Question]:
    displays: list[dict[str, Any]] = [{"kind": kind} | given(text) for kind in ("diff", "path", "text", "terminal")]
    displays.append({"kind": "command", "parts": [given(text), given(text)]})
    asked = [Question("permission", text, text, tool, given(text), text, text, text, display,
                      family=family, line=text)
             for display in displays
             for tool, family in (("Bash", "exec"), ("Read", "read"), (text, "other"))]  # fmt: skip
    steps = {"questions": [{"question": text, "options": [text]}]}
    others = [Question("questions", text, text, input=steps), Question("plan", text, text, options=(text,))]
    return [*asked, *others, Question("trust", text, text, reason=text)]


def dialog(question: Question, **changes: str) -> dialogs.Dialog:
    loop = asyncio.new_event_loop()
    made = dialogs.Dialog(question, dialogs.steps_of(question), loop.create_future(), **changes)  # type: ignore[arg-type]
    loop.close()
    return made


def picking(text: str, query: str = "") -> picker.Picking:
    async def then(row: Row) -> CommandResult:
        return None

    rows = [Row(text, text, text, text), Row("v", text, "", f"# {text}\n\n- {text}")]
    loop = asyncio.new_event_loop()
    made = picker.Picking(Choose(text, rows, then), loop.create_future(), query=query)
    loop.close()
    return made


def written(text: str) -> list[Line]:
    buffer = Buffer(multiline=True, document=Document(text, len(text)))
    return [line for drawn in (False, True) for line in input_lines(buffer, 60, 20, "> ", drawn_cursor=drawn)[0]]


def streamed(text: str) -> list[Line]:
    stream, out = MarkdownStream(), []
    for letter in f"{text}\n\n{text}":
        stream.feed(letter)
        out += [*stream.tail(70, 20, THEME), *stream.take(70, THEME)]
    return [*out, *stream.end(70, THEME)]


def viewed(text: str) -> list[Line]:
    viewer = Viewer("t", lambda: tree(story(text)), at_end=False)
    viewer.lines(80, 400, THEME)
    viewer.key("e")
    return viewer.lines(80, 400, THEME)


def shown(text: str) -> Status:
    return Status(text, text, text, False, text, text, text, 90.0, 0.1, 1, 1, (text,), (text,))


def _panels(text: str, rows: int) -> list[Line]:
    return panels.panels_lines(list(played(text).panels.values()), 80, rows, 14.0, THEME, expanded=True)


def _ended(text: str) -> list[Line]:
    panel = panels.new_child(AgentStarted("s", "main", "t", text, text, text, text, text), 0.0)
    return [
        line
        for width in (40, 400)
        for state in ("completed", "error")
        for line in panels.ended_line(panel, AgentEnded("s", state, {"error": given(text)}), width, THEME)
    ]


def _every(draw: Callable[..., Iterable[Line]], kind: Any, text: str) -> list[Line]:
    return list(draw(filled(kind, text), 80))


# name of the function -> what it draws of a hostile text
CASES: dict[str, Callable[[str], Iterable[Line]]] = {
    "completion.Menu.lines": lambda t: completion.Menu(
        [completion.Item(t, t), completion.Item(t, t, "agent")]
    ).lines(70),
    "dialogs.dialog_lines": lambda t: [
        line for q in questions(t) for changes in ({}, {"text": t})
        for line in dialogs.dialog_lines(dialog(q, **changes), [q], 80, 60)
    ],
    "dialogs.why_lines": lambda t: dialogs.why_lines(t, "outside", 40),
    "dialogs.what_lines": lambda t: [line for q in questions(t) for line in dialogs.what_lines(q, 40)],
    "tool_lines.diff_lines": lambda t: tool_lines.diff_lines(given(t)["diff"], 60),
    "tool_lines.changes_lines": lambda t: tool_lines.changes_lines([FileChange(t, given(t)["diff"], t)], 60),
    "tool_lines.command_lines": lambda t: [x for w in (40, 300) for x in tool_lines.command_lines([given(t)], w)],
    "composer.input_lines": written,
    "frame.live_lines": waiting,
    "notes.note_lines": lambda t: [
        *(line for kind in (events.ContextCompacted, Notice, events.SessionRewound, events.TurnEnded)
          for line in _every(notes.note_lines, kind, t)),
        *(line for source in ("user", "steer", "system")
          for line in notes.note_lines(PromptAdded(t, source=source, label=t if source == "system" else ""), 80)),
    ],
    "notes.retry_line": lambda t: [notes.retry_line(filled(events.RetryScheduled, t), 3, 80)],  # type: ignore[arg-type]
    "notes.todo_change": lambda t: notes.todo_change((), ({"content": t, "status": "completed"},), 80),
    "notes.context_lines": lambda t: notes.context_lines(ContextUse([(t, 9)], 9, 99), 80, THEME),
    "notes.todo_line": lambda t: [notes.todo_line(({"content": t},), 80)],
    "notes.todo_summary": lambda t: notes.todo_summary(({"content": t, "activeForm": t},), 80),
    "notes.thought_line": lambda t: [notes.thought_line(t, 3.0, 80)],
    "notes.todo_lines": lambda t: notes.todo_lines(filled(events.TodoUpdated, t).todos, 80),  # type: ignore[attr-defined]
    "panels.ended_line": _ended,
    "panels.panels_lines": lambda t: [*_panels(t, 1), *_panels(t, 60)],
    "picker.picker_lines": lambda t: [
        line for query in ("", t[:2], "\x1b\u202e")
        for line in picker.picker_lines(picking(t, query), 80, 40, THEME)
    ],
    "scene.Scene.look_lines": looked,
    "scene.Scene.take": lambda t: played(t).take(80, THEME),
    "stream.markdown_lines": lambda t: markdown_lines(f"# {t}\n\n- {t}\n\n| {t} |\n|---|\n| {t} |\n", 80, THEME),
    "notes.banner_lines": lambda t: notes.banner_lines(shown(t), 80),
    "status_line.status_line": lambda t: [status_line(shown(t), 200)],
    "stream.MarkdownStream": streamed,
    "tool_lines.finished_lines": lambda t: [
        line for name in ("Read", "Edit", "Bash", "Grep", "Glob", t) for state in ("success", "error", "partial")
        for kind in ("diff", "terminal", "files")
        for line in tool_lines.finished_lines(
            started("1", name, given(t), cwd="/w"), {"status": state, "error": given(t)},
            given(t) | {"kind": kind, "summary": ""}, 80)
    ],
    "tool_lines.looks_line": lambda t: [tool_lines.looks_line(["Read", t], 80)],
    "tool_lines.output_lines": lambda t: tool_lines.output_lines(t, 80, 5),
    "viewer.Viewer.lines": viewed,
}  # fmt: skip
# These put lines together that others drew, or are drawn by one that has a case.
JOINS = {
    "panels._Roster.panel", "panels._Roster.row",
    "frame.compose", "markdown.code_lines", "markdown.render", "repl.Repl.compose",
    "stream.MarkdownStream.end", "stream.MarkdownStream.tail", "stream.MarkdownStream.take",
    "tool_lines.head_line", "tool_lines.running_line",
}  # fmt: skip


def drawing() -> Iterator[str]:
    """The public functions and methods that give lines or a frame."""
    for found in pkgutil.walk_packages(repl.__path__, f"{repl.__name__}."):
        module = importlib.import_module(found.name)
        own = {n: o for n, o in vars(module).items() if getattr(o, "__module__", "") == module.__name__}
        own |= {f"{n}.{m}": f for n, o in list(own.items()) if inspect.isclass(o) for m, f in vars(o).items()}
        for name, thing in own.items():
            gives = str(getattr(thing, "__annotations__", {}).get("return", "")) if inspect.isfunction(thing) else ""
            if ("Line" in gives or gives == "Frame") and not name.rpartition(".")[2].startswith("_"):
                yield f"{found.name.rpartition('.')[2]}.{name}"


def test_every_function_that_draws_has_a_case() -> None:
    assert sorted(set(drawing()) - set(CASES) - JOINS) == []
    assert sorted(JOINS - set(drawing())) == []


@pytest.mark.parametrize("name", CASES)
def test_what_is_drawn_is_harmless_before_the_theme(name: str) -> None:
    drawn = 0
    for text in [*PIECES, *SPELLED] if name == "stream.markdown_lines" else PIECES:
        for line in CASES[name](text):
            for _, span in line:
                assert span == inert(span).replace("\n", " "), (name, text, span)
                drawn += 1
    assert drawn


def test_the_theme_lets_nothing_through_but_its_own_colours() -> None:
    for payload in (*PAYLOADS, "a\nb", "a\tb"):
        for kind in get_args(Kind):
            assert Theme(kind, None).encode([("", payload)]) == inert(payload).replace("\n", " ").replace("\t", " ")


# What may reach a terminal past the standard streams, through which nothing steers: each is harmless by itself.
PAST = {
    ("app/chat/bang_command.py", "os.write"),  # what is typed, to the command that runs
    ("cli/config_commands.py", "sys.stdout.buffer"),  # a path, only where no terminal reads it
    ("cli/config_commands.py", "typer.prompt"),
    ("cli/typer_help.py", "input"),
    ("frontends/prompt.py", "os.write"),  # in the function that makes it inert
    ("frontends/repl/painter.py", "self.output.write_raw"),  # what the theme encoded
    ("frontends/repl/repl.py", "self._output.write_raw"),  # the sequences of terminal.py
    ("__main__.py", "os.write"),  # the version
}
NEVER = {"echo", "secho", "confirm", "getpass", "print_formatted_text"}
FILES = {"core/spawn.py", "flows/journal.py", "frontends/repl/input/composer.py"}  # write to files and pipes


def test_nothing_else_writes_past_the_streams() -> None:
    root, found = Path(cowork.__file__).parent, set()
    for path in sorted(root.rglob("*.py")):
        where = str(path.relative_to(root))
        if where in FILES or where.split("/")[0] in ("tools", "sessions", "providers", "permissions", "config"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            name = ast.unparse(node) if isinstance(node, ast.Attribute) and node.attr == "buffer" else name
            last, direct = name.rpartition(".")[2], name in ("os.write", "typer.prompt", "input")
            if direct or last in NEVER or last == "write_raw" or (last == "buffer" and "std" in name):
                found.add((where, name))
    assert found == PAST
