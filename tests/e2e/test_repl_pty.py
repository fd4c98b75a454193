"""The chat in a pty, read from the screen as a person would."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal, demo

READY = "/help"  # at the end of the status line while nothing runs
BUSY = "Esc interrupt"


@pytest.fixture
def chat() -> Iterator[Terminal]:
    with demo() as terminal:
        terminal.wait_for(READY, 20)
        yield terminal


def finish(chat: Terminal, text: str) -> None:
    chat.wait_for(text, 20)
    chat.wait_for(READY)


def test_the_prompt_comes_with_who_where_and_with_what(chat: Terminal) -> None:
    rows = chat.screen()
    assert rows[0] == " cowork 0.1 · /home/ada/src/shop  main ✓trusted"
    assert "model claude-sonnet-4-5 (light: haiku-4-5) · mode ask · AGENTS.md read · 6 agents" in rows[1]
    assert rows[3].startswith("❯")
    assert rows[4].startswith(" ask ⇧⇥   context 3 %   $0.00")
    assert b"\x1b[?1049h" not in chat.raw  # inline: the scrollback is the terminal's own


def test_an_answer_streams_and_every_finished_line_is_kept_once_and_in_order(chat: Terminal) -> None:
    chat.type("lines 120", "<Enter>")
    chat.wait_for("paragraph number 0003")
    chat.wait_for(BUSY)
    finish(chat, "number 0119")
    found = re.findall(r"paragraph number (\d+)", "\n".join(chat.scrollback()))
    assert [int(n) for n in found] == list(range(120))
    assert sum(row.startswith("❯ lines 120") for row in chat.scrollback()) == 1


def test_a_resize_in_the_middle_of_a_stream_leaves_no_debris(chat: Terminal) -> None:
    chat.type("panels 3 0.2", "<Enter>")
    chat.wait_for("refund service")
    for columns, rows in ((72, 30), (60, 24), (110, 30), (90, 26)):
        chat.resize(columns, rows)
        chat.settle(0.15)
    finish(chat, "requires order.user_id")
    chat.type("lines 40", "<Enter>")
    chat.wait_for("number 0005")
    chat.resize(61, 25)
    finish(chat, "number 0039")
    rows = chat.scrollback()
    assert not [row for row in rows if row.startswith(("╭", "│", "╰"))]
    assert [int(n) for n in re.findall(r"paragraph number (\d+)", "\n".join(rows))] == list(range(40))
    assert sum("guest checkout flow" in row for row in rows) == 1


def test_a_terminal_that_reflows_keeps_no_old_frames_either() -> None:
    with demo(reflow=True) as chat:
        chat.wait_for(READY, 20)
        chat.type("panels 3 0.2", "<Enter>")
        chat.wait_for("webhook handler")
        for columns in (80, 55, 100):
            chat.resize(columns, 30)
            chat.settle(0.2)
        finish(chat, "requires order.user_id")
        assert not [row for row in chat.scrollback() if re.search("[╭╰]", row)]


def test_children_are_rows_that_open_with_a_key_and_end_as_one_line(chat: Terminal) -> None:
    chat.type("panels 3 0.6", "<Enter>")
    row = r"  \S explore-1 guest checkout flow  .* \d/10  light · 0:0\d · +[\d.]+k? · <?\$0\.00\d$"
    chat.wait_for_pattern(row)
    chat.type("<Ctrl+O>")
    chat.wait_for("╭─ ")
    chat.wait_for('✓ Grep "guest" → 31 in 9 files')
    chat.wait_for_pattern(r"explore-1  guest checkout flow ─+ light · 0:0\d · [\d.]+k? · <?\$0\.00\d ─╮")
    chat.wait_for_pattern(r"╰─ turn \d of 10")
    chat.type("<Ctrl+O>")
    chat.wait_for_pattern(row)
    finish(chat, "requires order.user_id")
    rows = chat.scrollback()
    assert sum(row.startswith("✓ explore-1  guest checkout flow") for row in rows) == 1
    assert sum(row.startswith("✗ bash-3     webhook handler") and "timed out after 60 s" in row for row in rows) == 1
    assert not any("╭" in row for row in rows)


def test_each_of_many_children_has_a_row_with_its_facts() -> None:
    with demo(columns=80, rows=24) as chat:
        chat.wait_for(READY, 20)
        chat.type("panels 7 5", "<Enter>")
        chat.wait_for("explore-7")
        facts = [row for row in chat.screen() if re.search(r" 0:0\d +\d+ +<?\$0\.00", row)]
        assert len(facts) == 7
        chat.type("<Tab>", "<Tab>", "<Right>")
        chat.wait_for_pattern(r"explore-2  refund service ─+ light · 0:0\d · ")
        chat.wait_until(  # an open panel keeps its facts
            lambda: sum(bool(re.search(r" 0:0\d ", row)) for row in chat.screen()) == 7, what="facts of seven"
        )
        chat.wait_for("Enter opens · m message · x stops · ← folds")
        chat.type("<Left>")
        chat.wait_for_pattern(r"^❯ \S explore-2 refund servi")
        chat.type("<Esc>", "<Esc>")
        chat.wait_for("interrupted")


def test_a_child_that_asks_waits_for_you_and_names_itself(chat: Terminal) -> None:
    chat.type("family", "<Enter>")
    chat.wait_for("asked by bash-2")
    chat.wait_for_pattern(r"  \? bash-2 +run the tests +waits for you")
    chat.wait_for_pattern(r"  └ \S explore-4 callers of loads")
    chat.wait_for("4 children · 1 waits for you")
    rows = chat.screen()
    nested = next(n for n, row in enumerate(rows) if "explore-4" in row)
    assert "explore-1" in rows[nested - 1]
    chat.settle(0.5)
    chat.type("y")
    finish(chat, "family done")


def test_a_panel_can_be_chosen_opened_told_something_and_stopped(chat: Terminal) -> None:
    chat.type("panels 2 0.6", "<Enter>")
    chat.wait_for("refund service")
    chat.type("<Tab>", "<Tab>")
    chat.wait_for_pattern(r"explore-2  refund service ─")
    chat.type("<Enter>")
    chat.wait_until(lambda: chat.screen_.alternate, what="the viewer")
    chat.wait_for(" explore-2 · refund service")
    chat.wait_for("refund service, please")
    chat.type("q")
    chat.wait_until(lambda: not chat.screen_.alternate, what="the end of the viewer")
    chat.type("m")
    chat.wait_for("to explore-2 ❯")
    chat.type("look at guests too", "<Enter>")
    chat.wait_for("told explore-2")
    chat.type("<Tab>", "m")
    chat.wait_for("to explore-1 ❯")
    chat.type("at members too", "<Ctrl+S>")
    chat.wait_for("told explore-1")
    chat.type("<Tab>")
    chat.wait_for_pattern(r"explore-1  guest checkout flow ─")
    chat.paste("pasted while it\nwas chosen")
    chat.wait_for("  was chosen")
    chat.type("<Ctrl+J>", "\x7f" * 30, "<Tab>", "<Tab>", "x")
    chat.wait_for("stopping, x again ends it")
    chat.wait_for("◐ explore")
    finish(chat, "requires order.user_id")


def test_an_approval_shows_what_it_grants_and_takes_the_answer(chat: Terminal) -> None:
    answers = {
        "1": "Done, allowed once.",
        "2": "Done, allowed session.",
        "3": "Done, allowed always.",
        "n": "Not allowed: no reason",
    }
    for key, said in answers.items():
        chat.type("edit", "<Enter>")
        chat.wait_for("↑↓ Enter · y · n · digits")
        shown = chat.text()
        assert "73 │-        user = self.users.get(order.user_id)" in shown
        assert "Yes, edits in shop/refunds/** for this session" in shown
        assert "Always: adds rule Edit(shop/refunds/**)" in shown
        assert "asked by main" in shown
        chat.type(key)
        finish(chat, said)
        assert "╭" not in "".join(chat.scrollback())


def test_a_denial_can_say_why(chat: Terminal) -> None:
    chat.type("edit", "<Enter>")
    chat.wait_for("↑↓ Enter")
    chat.type("<Up>", "<Enter>")
    chat.wait_for("What should it do instead?")
    chat.type("use the e-mail instead", "<Enter>")
    finish(chat, "Not allowed: use the e-mail instead.")


def test_questions_of_parallel_children_queue_in_one_place(chat: Terminal) -> None:
    chat.type("many", "<Enter>")
    chat.wait_for("2 more waiting (explore-1, explore-2)")
    chat.wait_for("2 git commit -m")
    for key, left in (("y", "1 more waiting (explore-2)"), ("n", "asked by explore-2")):
        chat.wait_for("y · n · digits")
        chat.type(key)
        chat.wait_for(left)
    chat.wait_for("y · n · digits")
    chat.type("2")
    finish(chat, "answers: once no session")


def test_typing_when_a_question_pops_up_is_not_an_answer(chat: Terminal) -> None:
    chat.type("edit\ryes y 1 yes")  # in one write: on a busy machine the letters must not come late
    chat.wait_for("↑↓ Enter")
    chat.type("y")
    finish(chat, "Done, allowed once.")
    assert any(row.startswith("❯ yes y 1 yes") for row in chat.screen())


def test_a_message_typed_at_an_open_question_is_a_message(chat: Terminal) -> None:
    chat.type("edit", "<Enter>")
    chat.wait_for("y · n · digits")
    chat.type("my idea: why not use tox 1 y")
    chat.wait_for("❯ my idea: why not use tox 1 y")
    chat.wait_for("you are writing: ↑↓ or Esc to answer")
    chat.settle(0.7)  # longer than any key is waited for
    assert "Allow this edit?" in chat.text()
    chat.type("<Enter>")  # sends the message; the question stays
    chat.wait_for("my idea: why not use tox 1 y  queued")
    chat.wait_for("y · n · digits")
    chat.type("y", "<Enter>")
    chat.wait_for("Done, allowed once.")
    finish(chat, "You said: my idea: why not use tox 1 y")


def test_an_arrow_or_esc_goes_back_from_the_input_to_the_question(chat: Terminal) -> None:
    chat.type("edit", "<Enter>")
    chat.wait_for("y · n · digits")
    chat.type("hm")
    chat.wait_for("you are writing")
    chat.type("<Down>")
    chat.wait_for("y · n · digits")
    chat.type("<Down>", "<Enter>")
    finish(chat, "Done, allowed session.")
    assert any(row.startswith("❯ hm") for row in chat.screen())


@pytest.mark.parametrize("key", ["<Esc>", "<Ctrl+C>"])
def test_an_interrupt_in_any_phase_gives_the_prompt_back_at_once(chat: Terminal, key: str) -> None:
    phases = {
        "slow": "thinking",
        "lines 2000": "number 0009",
        "panels 3 2": "bash-3",
        "bash": "⠋ Bash",
        "retry": "Trying",
    }
    if key == "<Ctrl+C>":
        phases["edit"] = "↑↓ Enter"  # there Esc answers the question
    for number, (script, seen) in enumerate(phases.items()):
        chat.type(script, "<Enter>")
        chat.wait_for(seen.replace("⠋ ", ""))
        started = time.monotonic()
        chat.type(key)
        chat.wait_until(lambda: READY in chat.text() or "Ctrl-C again" in chat.text(), 10, "the prompt")
        took = time.monotonic() - started
        assert took < 5.0, script  # under 0.3 s on a quiet machine, which the benchmark measures
        told = sum("⊘ interrupted" in row for row in chat.scrollback())
        assert told == number + 1, script
        chat.type("still here", "<Enter>")
        finish(chat, "You said: still here")


def test_messages_typed_while_it_works_queue_can_be_taken_back_and_are_sent_in_order(chat: Terminal) -> None:
    chat.type("wait 1.5", "<Enter>")
    chat.wait_for(BUSY)
    chat.type("first", "<Enter>", "second", "<Enter>", "thrid", "<Enter>")
    chat.wait_for("3 queued")
    chat.type("<Up>")
    chat.wait_for("2 queued")
    chat.type("\x7f" * 5, "third", "<Enter>")
    chat.wait_for("3 queued")
    finish(chat, "You said: third")
    said = [row for row in chat.scrollback() if row.startswith("● You said")]
    assert said == ["● You said: first", "● You said: second", "● You said: third"]


def test_an_interrupt_gives_queued_messages_back_instead_of_sending_them(chat: Terminal) -> None:
    chat.type("slow", "<Enter>")
    chat.wait_for("thinking")
    chat.type("do not lose me", "<Enter>")
    chat.wait_for("1 queued")
    chat.type("<Esc>")
    chat.wait_for("interrupted")
    chat.wait_for("❯ do not lose me")
    chat.type("<Enter>")
    finish(chat, "You said: do not lose me")


def test_steering_is_heard_before_the_turn_ends(chat: Terminal) -> None:
    chat.type("slow", "<Enter>")
    chat.wait_for("thinking")
    chat.type("mind the guests", "<Ctrl+S>")
    chat.wait_for("↪ mind the guests")
    chat.wait_gone("before the next step")
    chat.type("<Esc>")
    chat.wait_for("interrupted")


def test_keys_are_told_and_commands_complete_with_their_help_and_run(chat: Terminal) -> None:
    chat.type("?")
    chat.wait_for_pattern(r"Ctrl\+R +search the history")
    chat.type("why?")
    chat.wait_for("❯ why?")  # only the first was a key
    chat.wait_gone("search the history")
    assert not any("in an empty input: this list" in row for row in chat.scrollback())
    chat.type("<Ctrl+C>", "?")
    chat.wait_for("search the history")
    chat.type("<Esc>")
    chat.wait_gone("search the history")
    chat.type("<Ctrl+C>", "/")
    chat.wait_for("/compact  [focus] summarise the conversation")
    chat.type("cos")
    chat.wait_gone("/compact")
    chat.type("<Enter>")
    chat.wait_for("haiku   $0.02")
    chat.type("/model ")
    chat.wait_for("❯ main")
    chat.type("<Down>", "<Tab>", "<Enter>")
    finish(chat, "model light")
    chat.type("/nope", "<Enter>")
    chat.wait_for("There is no command /nope.")
    chat.type("/comapct", "<Enter>")
    chat.wait_for("Did you mean /compact?")
    chat.type("/init", "<Enter>")
    finish(chat, "You said: Explore this repository and write AGENTS.md")


def test_files_and_agents_complete_after_an_at_sign() -> None:
    with demo(env={"DEMO_FILES": "50000"}) as chat:
        chat.wait_for(READY, 20)
        chat.type("look at @ref")
        chat.wait_for("❯ @shop/refunds/service.py")
        chat.type("<Tab>", "and @pla")
        chat.wait_for("❯ @plan")
        chat.wait_for("agent · thinks a change through")
        chat.type("<Tab>", "please", "<Enter>")
        finish(chat, "You said: look at @shop/refunds/service.py and @plan please")


def test_history_lasts_across_restarts_and_can_be_searched(tmp_path: Path) -> None:
    env = {"DEMO_HISTORY": str(tmp_path / "history")}
    with demo(env=env) as chat:
        chat.wait_for(READY, 20)
        for text in ("the first question", "another thing", "a third one"):
            chat.type(text, "<Enter>")
            finish(chat, f"You said: {text}")
        chat.type("<Ctrl+D>")
        assert chat.wait_exit() == 0
    with demo(env=env) as chat:
        chat.wait_for(READY, 20)
        chat.type("draft", "<Up>", "<Up>")
        chat.wait_for("❯ another thing")
        chat.type("<Down>", "<Down>")
        chat.wait_for("❯ draft")
        chat.type("<Ctrl+C>", "<Ctrl+R>", "nowhere")
        chat.wait_for("history, no match ❯ nowhere")
        chat.type("<Enter>")
        chat.wait_for("\n❯ nowhere")  # in the input, not sent
        chat.type("<Ctrl+C>", "<Ctrl+R>", "quest")
        chat.wait_for("❯ the first question")
        chat.type("<Enter>", "<Enter>")
        finish(chat, "You said: the first question")
        assert "You said: nowhere" not in chat.text()


def test_a_message_can_have_several_lines_and_a_large_paste_is_sent_whole(chat: Terminal) -> None:
    chat.type("one", "<Alt+Enter>", "two", "<Ctrl+J>", "three", "\\", "<Enter>", "four ")
    chat.wait_for("  three")
    chat.paste("".join(f"pasted row {n}\n" for n in range(300)))
    chat.wait_for("four [pasted 300 lines]")
    chat.type("<Enter>")
    finish(chat, "pasted row 299")
    rows = chat.scrollback()
    assert rows[rows.index("❯ one") + 1 : rows.index("❯ one") + 4] == ["  two", "  three", "  four pasted row 0"]
    assert any("… 291 more lines" in row for row in rows)
    assert any("pasted row 299" in row for row in rows)  # the echoing model got all of it


def test_a_large_paste_is_sent_whole_although_a_queue_came_back_above_it(chat: Terminal) -> None:
    chat.type("slow", "<Enter>")
    chat.wait_for("thinking")
    chat.type("queued", "<Enter>")
    chat.wait_for("1 queued")
    chat.paste("".join(f"pasted row {n}\n" for n in range(20)))
    chat.wait_for("[pasted 20 lines]")
    chat.type("<Esc>")
    chat.wait_for_pattern(r"❯ queued\n  \[pasted 20 lines\]")
    chat.type("<Enter>")
    finish(chat, "pasted row 19")


def test_backspace_beside_a_question_takes_a_chip_away_whole(chat: Terminal) -> None:
    chat.type("edit", "<Enter>")
    chat.wait_for("↑↓ Enter")
    chat.paste("row\n" * 20)
    chat.wait_for("[pasted 20 lines]")
    chat.type("<Up>")
    chat.wait_for("↑↓ Enter")
    chat.type("<Backspace>", "still here")
    chat.wait_for("❯ still here")


def test_a_pasted_text_is_a_message_whatever_it_begins_with(chat: Terminal) -> None:
    for first in (" ! [rejected]  main -> main", "#!/bin/bash", "/* a comment"):
        chat.paste(f"{first}\nand row two")
        chat.wait_for("  and row two")
        chat.type("<Enter>")
        finish(chat, f"You said:  {first.strip()}")
    assert not any("Bash" in row or "AGENTS.md" in row for row in chat.scrollback()[8:])


def test_a_shell_line_and_a_note(chat: Terminal) -> None:
    chat.type("!ls -l", "<Enter>")
    finish(chat, "● Bash $ ls -l · 1 line")
    chat.type("# tests live in tests/", "<Enter>")
    finish(chat, "added to AGENTS.md: tests live in tests/")


def test_shift_tab_cycles_the_mode(chat: Terminal) -> None:
    chat.type("<BackTab>")
    chat.wait_for(" accept-edits ⇧⇥")
    chat.type("<BackTab>")
    chat.wait_for(" auto ⇧⇥")
    chat.type("<BackTab>")
    chat.wait_for(" plan ⇧⇥")


def test_ctrl_c_twice_leaves_with_130_and_once_only_clears(chat: Terminal) -> None:
    chat.type("some text", "<Ctrl+C>")
    chat.wait_for("Ctrl-C again leaves")
    assert "some text" not in chat.text()
    chat.type("x", "<Backspace>", "<Ctrl+C>")
    chat.wait_for("Ctrl-C again leaves")
    chat.type("<Ctrl+C>")
    assert chat.wait_exit() == 130
    assert b"\x1b[?2004l" in chat.raw
    assert chat.raw.rfind(b"\x1b[?25h") > chat.raw.rfind(b"\x1b[?25l")  # the cursor can be seen again


def test_the_viewer_shows_the_conversation_finds_text_and_goes_away(chat: Terminal) -> None:
    chat.type("bash", "<Enter>")
    finish(chat, "All green.")
    before = chat.scrollback()
    chat.type("<Ctrl+O>")
    chat.wait_until(lambda: chat.screen_.alternate, what="the viewer")
    chat.wait_for("● All green.")
    chat.type("/", "hope.py", "<Enter>")
    chat.wait_for_pattern(r"❯ .*Nearest: hope\.py")
    chat.type("q")
    chat.wait_until(lambda: not chat.screen_.alternate, what="the end of the viewer")
    assert chat.scrollback() == before


def test_what_models_and_tools_write_cannot_steer_the_terminal(chat: Terminal) -> None:
    chat.type("hostile", "<Enter>")
    finish(chat, "bidi and")
    assert "owned" not in "".join(chat.screen_.titles)
    assert chat.screen()[0].startswith(" cowork 0.1")  # nothing cleared the screen
    assert b"\x1b[2J" not in chat.raw
    assert "\u202e" not in "".join(chat.scrollback())


def test_a_light_background_is_found_out_by_asking_the_terminal() -> None:
    with demo(background="ffff/ffff/ffff") as chat:
        chat.wait_for(READY, 20)
        chat.type("hi", "<Enter>")
        finish(chat, "You said: hi")
        assert b"38;2;143;90;0" in chat.raw  # the light palette's accent
        assert "rgb" not in "".join(chat.scrollback())


def test_no_color_means_no_colour() -> None:
    with demo(env={"NO_COLOR": "1"}) as chat:
        chat.wait_for(READY, 20)
        chat.type("edit", "<Enter>")
        chat.wait_for("↑↓ Enter")
        chat.type("y")
        finish(chat, "Done, allowed once.")
        assert not re.search(rb"\x1b\[[0-9;]*[34]8;", bytes(chat.raw))
        assert not re.search(rb"\x1b\[(?:[0-9;]*;)?[349][0-7]m", bytes(chat.raw))


def test_a_dumb_terminal_gets_plain_lines() -> None:
    with demo(env={"TERM": "dumb"}) as chat:
        chat.wait_for("\n>", 20)
        chat.type("answer\n")
        chat.wait_for("Shall I fix it?")
        chat.type("many\n")
        for who in ("main", "explore-1", "explore-2"):
            chat.wait_for(f"(asked by {who})")
            chat.type("1\n")
        chat.wait_for("answers: once once once")
        assert b"\x1b" not in chat.raw
        chat.type("<Ctrl+D>")
        assert chat.wait_exit() == 0


@pytest.mark.parametrize("columns", [20, 33])
def test_a_narrow_terminal_still_works(columns: int) -> None:
    with demo(columns=columns, rows=16) as chat:
        chat.wait_for("❯", 20)
        chat.type("panels 2 0.2", "<Enter>")
        chat.wait_for("explore")
        chat.wait_for("Refunds fail", 20)
        chat.type("edit", "<Enter>")
        chat.wait_for("1 Yes, once")
        chat.wait_for("↑↓ Enter")
        chat.type("y")
        chat.wait_for("Done, allowed")


def test_vi_keys_edit_and_escape_still_interrupts() -> None:
    with demo(env={"DEMO_KEYS": "vi"}) as chat:
        chat.wait_for(READY, 20)
        chat.type("hello wrld")
        chat.type("<Esc>")
        chat.wait_for("❮ hello wrld")
        chat.type("hhio")
        chat.wait_for("hello worl")
        chat.type("<Enter>")
        finish(chat, "You said: hello world")
        chat.type("draft", "<Esc>", "k")
        chat.wait_for("❮ hello world")
        chat.type("j")
        chat.wait_for("❮ draft")
        chat.type("<Ctrl+C>")
        chat.wait_gone("draft")
        chat.type("islow", "<Enter>")
        chat.wait_for("thinking")
        chat.type("<Esc>")
        chat.wait_for("interrupted")


def test_a_message_can_be_written_in_the_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "%s and more" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    with demo(env={"EDITOR": str(editor), "VISUAL": ""}) as chat:
        chat.wait_for(READY, 20)
        chat.type("some text", "<Ctrl+G>")
        chat.wait_for("❯ some text and more")
        chat.type("<Enter>")
        finish(chat, "You said: some text and more")
