"""Writing a message: chips, history, the menu under the input, and where the cursor stands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from cowork.core.front_matter import mention, mentions
from cowork.frontends.host import Command, Host
from cowork.frontends.repl.input.completion import (
    Completer,
    FileIndex,
    Item,
    Menu,
    agents_and_files,
    context_of,
    match_agents,
    match_commands,
)
from cowork.frontends.repl.input.composer import Composer, History, input_lines
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.styled import line_width, plain
from tests.fakes.repl_host import chat_on


async def nothing(rest: str) -> None:
    return None


def test_a_large_paste_is_a_chip_and_is_sent_whole() -> None:
    composer = Composer(History(None))
    text = "".join(f"line {n}\r\n" for n in range(200))
    composer.buffer.insert_text("look: ")
    composer.paste(text)
    assert composer.text == "look: [pasted 200 lines]"
    sent, images = composer.take()
    assert sent == ("look: " + text.replace("\r\n", "\n")).strip()
    assert images == ()
    assert composer.text == ""


def test_two_pastes_of_one_size_are_kept_apart() -> None:
    composer = Composer(History(None))
    composer.paste("a\n" * 20)
    composer.paste("b\n" * 20)
    sent, _ = composer.take()
    assert sent.count("a") == 20
    assert sent.count("b") == 20


def test_a_small_paste_is_plain_text() -> None:
    composer = Composer(History(None))
    composer.paste("two\nlines")
    assert composer.text == "two\nlines"


def test_backspace_behind_a_chip_takes_it_away_whole() -> None:
    composer = Composer(History(None))
    composer.paste("x\n" * 50)
    composer.backspace()
    assert composer.text == ""
    composer.buffer.insert_text("ab")
    composer.backspace()
    assert composer.text == "a"


def test_the_path_of_an_image_becomes_an_image(tmp_path: Path) -> None:
    picture = tmp_path / "shot one.png"
    picture.write_bytes(b"x")
    composer = Composer(History(None))
    composer.paste(str(picture).replace(" ", "\\ "))
    assert composer.text == "[image shot one.png]"
    assert composer.take()[1] == (picture,)
    composer.set(f"look: [image {picture}] [image /gone.png]")  # a message that waited comes back
    assert composer.text == "look: [image shot one.png] [no image: /gone.png is gone]"
    assert composer.take()[1] == (picture,)


def test_two_images_of_one_name_are_kept_apart_and_come_back_from_the_history_of_an_earlier_chat(
    tmp_path: Path,
) -> None:
    shots = [tmp_path / "before" / "shot[1].png", tmp_path / "after" / "shot[1].png"]
    for shot in shots:
        shot.parent.mkdir()
        shot.write_bytes(b"x")
    composer = Composer(History(tmp_path / "history"))
    for shot in (shots[0], shots[1], shots[0]):
        composer.paste(str(shot))
    assert composer.text == "[image shot[1].png][image shot[1].png #2][image shot[1].png]"
    text, images = composer.take()
    assert images == tuple(shots)
    later = Composer(History(tmp_path / "history"))
    later.browse(-1)
    assert later.text == "[image shot[1].png][image shot[1].png #2][image shot[1].png]"
    assert later.take() == (text, images)
    shots[1].unlink()
    later.set(f"{'row' * 9_000}{text}")  # a large text that came back is folded, and still has its images
    assert later.text == "[pasted 1 line]"
    text, images = later.take()
    assert (images, text[-len(str(shots[0])) - 8 :]) == ((shots[0],), f"[image {shots[0]}]")
    assert f"[no image: {shots[1]} is gone]" in text


def test_a_large_paste_stays_whole_while_other_texts_come_and_go() -> None:
    history = History(None)
    history.add("an earlier one")
    composer = Composer(history)
    completer = Completer(cast(Host, None), composer, list, lambda: None)
    composer.buffer.insert_text("why? " + "typed\n" * 20)  # it has no chip: it was not pasted
    composer.paste("row\n" * 20)
    composer.browse(-1)
    assert composer.text == "an earlier one"
    composer.browse(1)
    completer.search_history()
    composer.buffer.insert_text("earlier")
    completer.close()
    completer.search_history()
    completer.accept()  # nothing matches: it stays written
    composer.set("typed while it worked", draft=f"\n{composer.text}")
    assert composer.text == "typed while it worked\nwhy? " + "typed\n" * 20 + "[pasted 20 lines]"
    assert composer.take()[0].count("row") == 20
    composer.buffer.insert_text("[pasted 20 lines]")  # as undo brings it back
    assert composer.take()[0].count("row") == 20


@pytest.mark.parametrize(
    ("typed", "pasted", "sent"),
    [
        ("", "!ls", "!ls"),  # one line, as if typed
        ("", "!ls\n", "!ls"),
        ("", "# one\ntwo", " # one\ntwo"),
        ("", "/review\nthat", " /review\nthat"),
        ("", " ! [rejected]  main -> main\nerror", " ! [rejected]  main -> main\nerror"),
        ("", "#!/bin/sh\n" + "row\n" * 20, " #!/bin/sh\n" + "row\n" * 19 + "row"),
        ("!", "for n in 1 2; do\n echo $n\ndone", "!for n in 1 2; do\n echo $n\ndone"),
        ("! ", "row\n" * 20, "! " + "row\n" * 19 + "row"),
        (" !ls", "", " !ls"),
    ],
)
def test_a_mark_counts_only_where_it_was_typed_at_the_very_start(typed: str, pasted: str, sent: str) -> None:
    history = History(None)
    composer = Composer(history)
    composer.buffer.insert_text(typed)
    composer.paste(pasted)
    assert composer.take()[0] == sent
    composer.browse(-1)
    assert composer.take()[0] == sent  # and it is the same when it comes back


def test_history_survives_a_restart_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    first = History(path)
    first.add("one")
    first.add("two\nlines")
    first.add("two\nlines")
    first.add("also\u2028two")
    assert History(path).entries == ["one", "two\nlines", "also\u2028two"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_history_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text('{"text": "good"}\n{"text": "to\nnot json\n[1]\n{"text": "later"}\n')
    assert History(path).entries == ["good", "later"]


def test_a_history_that_cannot_be_written_does_not_stop_anything(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    history = History(blocked / "below" / "history")
    history.add("said")
    assert history.entries == ["said"]


def test_going_through_the_history_keeps_what_was_being_written() -> None:
    history = History(None)
    for text in ("one", "two"):
        history.add(text)
    composer = Composer(history)
    composer.buffer.insert_text("draft")
    seen = []
    for step in (-1, -1, -1, 1, 1, 1):
        composer.browse(step)
        seen.append(composer.text)
    assert seen == ["two", "one", "one", "two", "draft", "draft"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("/", ("command", "", "")),
        ("/co", ("command", "co", "")),
        ("/model l", ("argument", "l", "model")),
        ("look at @ser", ("at", "ser", "")),
        ("(@shop/re", ("at", "shop/re", "")),
        ('see @"docs dir/my', ("at", '"docs dir/my', "")),
        ("@packages/@sco", ("at", "packages/@sco", "")),
        ('see @"docs dir/my notes.md"', None),
        ("mail me@example", None),
        ("/model @ser", ("argument", "@ser", "model")),
        ("a /path", None),
        ("plain", None),
    ],
)
def test_what_is_completed_depends_on_the_text_before_the_cursor(
    before: str, expected: tuple[str, str, str] | None
) -> None:
    assert context_of(before) == expected


def test_commands_that_start_with_the_letters_come_first() -> None:
    commands = [Command(name, name, nothing) for name in ("context", "cost", "compact", "doctor", "exit")]
    assert [i.text for i in match_commands(commands, "co")] == ["/compact", "/context", "/cost", "/doctor"]
    assert [i.text for i in match_commands(commands, "ct")] == ["/compact", "/context", "/cost", "/doctor"]
    assert [i.text for i in match_commands(commands, "zz")] == []


def test_choices_are_looked_up_while_typing_but_not_for_what_comes_from_the_history_or_the_menu() -> None:
    looked: list[str] = []

    def ids() -> list[str]:
        looked.append("at the disk")
        return ["abc", "abd"]

    history = History(None)
    history.add("/resume ab")
    composer, command = Composer(history), Command("resume", "", nothing, "[id]", ids)
    completer = Completer(cast(Host, None), composer, lambda: [command], lambda: None)
    completer.quiet(lambda: composer.browse(-1))
    assert (composer.text, completer.menu.items, looked) == ("/resume ab", [], [])
    composer.buffer.delete_before_cursor(1)
    assert [item.text for item in completer.menu.items] == ["abc", "abd"]
    completer.accept()
    assert (composer.text, completer.menu.items, len(looked)) == ("/resume abc ", [], 1)


def test_the_only_argument_that_is_left_is_sent_unless_more_must_follow() -> None:
    composer = Composer(History(None))
    commands = [
        Command("resume", "", nothing, "[id]", lambda: ("abc", "xyz")),
        Command("permissions", "", nothing, "[allow RULE|try …]", lambda: ("allow", "try")),
    ]
    completer = Completer(cast(Host, None), composer, lambda: commands, lambda: None)

    def enter(text: str) -> tuple[bool, str]:
        composer.set(text)
        return completer.accept(), composer.text

    assert enter("/resume yz") == (True, "/resume xyz ")
    assert enter("/resume ") == (False, "/resume abc ")
    assert enter("/permissions al") == (False, "/permissions allow ")


def test_a_draft_below_a_shell_line_that_came_back_is_not_run_with_it() -> None:
    composer = Composer(History(None))
    composer.set("!ls", draft="\nthen clean up")
    assert composer.take()[0] == " !ls\nthen clean up"
    composer.set("!ls")
    assert composer.take()[0] == "!ls"


async def test_files_are_found_by_name_then_path_then_letters() -> None:
    index = FileIndex(["shop/service.py", "service/readme.md", "tests/test_service.py", "a/s/e/r/v.txt", "other.py"])
    assert await index.search("serv") == [
        "shop/service.py",
        "tests/test_service.py",
        "service/readme.md",
        "a/s/e/r/v.txt",
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [("au", ["@auth.py", "@general-purpose"]), ("purp", ["@general-purpose"]), ("", ["@auth.py", "@general-purpose"])],
)
async def test_an_agent_that_is_named_comes_before_files_and_one_that_only_has_the_letters_behind(
    query: str, expected: list[str]
) -> None:
    files = [Item(f"@{path}", "", "file") for path in await FileIndex(["auth.py"]).search(query)]
    agents = match_agents([("general-purpose", "does all")], query)
    assert [item.text for item in agents_and_files(agents, files, query)] == expected


@settings(deadline=None)
@given(
    st.lists(st.text(alphabet="ab/._-[(", min_size=1, max_size=12), max_size=30),
    st.text(alphabet="ab.[(\\^", max_size=5),
)
def test_every_hit_holds_the_letters_in_order(paths: list[str], query: str) -> None:
    for hit in asyncio.run(FileIndex(paths).search(query)):
        letters = iter(hit.lower())
        assert all(letter in letters for letter in query)


@given(st.text(alphabet="ab/@ .[)'(,", min_size=1, max_size=8).filter(lambda path: path == path.strip()))
def test_a_file_that_is_named_is_read_back(path: str) -> None:
    assert mentions(f"see {mention(path)} then") == [path]


@pytest.mark.parametrize("path", ['a" @~/.ssh/id_rsa', "a\n@.env", 'b "c" d'])
def test_a_file_that_cannot_be_named_names_no_other(path: str) -> None:
    assert mentions(f"see {mention(path)} then") == []


async def test_fifty_thousand_files_leave_room_for_keys() -> None:
    index = FileIndex(f"pkg{n % 97}/sub{n % 13}/module_{n:05}.py" for n in range(50_000))
    turns = 0
    searching = asyncio.ensure_future(index.search("qzx"))  # nothing matches: every path is looked at in every way
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 50  # a thousand paths, a few ms, between two chances for a key
    assert "module_4999" in (await index.search("module_4999"))[0]
    assert len(await index.search("pkg7mod9")) > 0


def test_a_file_name_cannot_steer_the_terminal() -> None:
    lines = Menu([Item("@evil\x1b[2J\u202e.py")]).lines(60)
    assert [plain(line) for line in lines] == ["❯ @evil\\x1b[2J\\u202e.py"]


def test_a_menu_scrolls_with_its_choice_and_stays_in_the_width() -> None:
    menu = Menu([Item(f"@{'deep/' * 30}file{n}.py", "help " * 30) for n in range(30)])
    menu.move(-1)
    lines = menu.lines(40)
    assert max(map(line_width, lines)) <= 40
    assert any("file29.py" in plain(line) for line in lines)


@settings(deadline=None)
@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=120),
    st.integers(20, 90),
    st.data(),
)
def test_the_cursor_is_always_inside_the_drawn_input(text: str, columns: int, data: st.DataObject) -> None:
    buffer = Buffer(multiline=True)
    position = data.draw(st.integers(0, len(text)))
    buffer.document = Document(text, position)
    lines, (row, column) = input_lines(buffer, columns, 6, "❯ ")
    assert 0 <= row < len(lines) <= 6
    assert 2 <= column <= columns
    assert all(line_width(line) <= columns for line in lines)


async def test_an_editor_that_fails_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf '\\377' > \"$1\"\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    repl, told = chat_on(Scene()), asyncio.Event()
    failures: list[object] = []

    def report(loop: object, context: dict[str, object]) -> None:
        failures.append(context["exception"])
        told.set()

    monkeypatch.setattr(repl, "_report_bug", report)
    with create_pipe_input() as keys:
        running = asyncio.ensure_future(repl.run(keys, DummyOutput()))
        keys.send_text("\x07")  # Ctrl+G
        await asyncio.wait_for(told.wait(), 20)
        await asyncio.sleep(0.05)
        repl.leave(0)
        await running
    assert list(map(type, failures)) == [UnicodeDecodeError]
