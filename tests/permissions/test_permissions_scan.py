"""The scanner behind deny rules finds every command, and judging takes little time whatever the text."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable

import pytest
import tree_sitter
import tree_sitter_bash
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.judge import hostile_texts
from cowork.core.workspace import Workspace
from cowork.permissions.shell.judge import judge
from cowork.permissions.shell.scan import MAX_CHARS, scan
from cowork.permissions.shell.words import names
from tests.permissions.test_permissions_shell_table import ROWS

HIDING = [
    "rm x",
    "ls; rm x",
    "ls && rm x",
    "ls | rm x",
    "ls & rm x",
    "ls\nrm x",
    "(rm x)",
    "{ rm x; }",
    "! rm x",
    "time rm x",
    "coproc rm x",
    "if true; then rm x; fi",
    "if rm x; then true; fi",
    "if true; then true; elif rm x; then true; else true; fi",
    "while rm x; do true; done",
    "until true; do rm x; done",
    "for i in a; do rm x; done",
    "for ((i=0;i<1;i++)); do rm x; done",
    "select i in a; do rm x; done",
    "case a in a) rm x;; esac",
    "case a in (a) rm x;; esac",
    "case a in a|b) ls;; *) rm x;; esac",
    "f() { rm x; }; f",
    "function f { rm x; }; f",
    "function f() { rm x; }",
    "f() (rm x)",
    "echo $(rm x)",
    "echo `rm x`",
    "echo `echo \\`rm x\\``",
    'echo "$(rm x)"',
    'echo "a $(echo "$(rm x)") b"',
    'echo "$(case a in a) rm x;; esac)"',
    'echo "`rm x`"',
    "echo ${y:-$(rm x)}",
    'echo "${y:-$(rm x)}"',
    "echo ${y:-`rm x`}",
    "echo $((1 + $(rm x)))",
    "echo $(( a[$(rm x)] ))",
    "((a = $(rm x)))",
    "(( 1 << 2 ))\nrm x",
    "((x<<EOF))\nrm x",
    "cat <(rm x)",
    "cat > >(rm x)",
    "a=$(rm x)",
    "a=(1 $(rm x))",
    "a[$(rm x)]=1",
    "export a=$(rm x)",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<EOF\n`rm x`\nEOF",
    "cat <<EOF\nhi\nEOF\nrm x",
    "cat <<'EOF'\n$(ls)\nEOF\nrm x",
    "cat <<-EOF\n\thi\n\tEOF\nrm x",
    'cat <<"E F"\nhi\nE F\nrm x',
    "cat <<A <<B\n1\nA\n2\nB\nrm x",
    "cat <<< hi; rm x",
    "cat <<< $(rm x)",
    ">out rm x",
    "2>&1 rm x",
    "<in rm x",
    "ls >a; rm x",
    "ls &>a; rm x",
    "ls 2>&1; rm x",
    "ls >&2; rm x",
    "A=1 B=2 rm x",
    "A='b c' rm x",
    "A=$(ls) rm x",
    "[[ a == b ]] && rm x",
    "[[ a ]] || rm x",
    "[ a ] && rm x",
    "ls # comment\nrm x",
    "ls #; ls\nrm x",
    "ls a#b; rm x",
    "echo 'a\nb'; rm x",
    'echo "a\nb"; rm x',
    "echo \\\nrm; rm x",
    "echo a\\;; rm x",
    "echo 'it'\\''s'; rm x",
    "echo $'it\\'s'; rm x",
    'echo "a\\"b"; rm x',
    "echo '$('; rm x",
    'echo "\\$("; rm x',
    "echo ${#x}; rm x",
    "echo ${x#y}; rm x",
    "echo ${x%%'}'}; rm x",
    'echo ${x:-"}"}; rm x',
    "echo $#; rm x",
    "echo $$; rm x",
    "echo {a,b}; rm x",
    "echo }; rm x",
    "echo ]]; rm x",
    "ls |& rm x",
    "ls &&\n\nrm x",
    "ls;;rm x",
    "\nrm x",
    "\trm x",
    "r''m x",
    "\\rm x",
    "'rm' x",
    "$'rm' x",
    "$'\\x72\\155' x",
    "$'\\u0072m' x",
    '"r"m x',
    "r\\\nm x",
    "if ((1)); then rm x; fi",
    "while read a; do rm x; done < y",
    "{ ls; } > y; rm x",
    "trap 'rm x' EXIT",
    "eval 'rm x'",
    "eval rm x",
    "sh -c 'rm x'",
    "bash -ec 'rm x'",
    "bash -c -- 'rm x'",
    "bash <<EOF\nrm x\nEOF",
    "bash <<< 'rm x'",
    "echo $(echo $(echo $(rm x)))",
    "gdb --args rm x",
    "lldb -- rm x",
    "gpg --photo-viewer 'rm x' --list-keys",
    "zip -T -TT 'rm x' a b",
]


def programs(text: str, workspace: Workspace) -> list[list[str]]:
    judged = judge(text, workspace, workspace.root, trusted=True)
    return [[word.text for word in command.words] for command in judged.commands]


@pytest.mark.parametrize("text", HIDING)
def test_a_hidden_command_is_found(text: str, workspace: Workspace) -> None:
    assert ["rm", "x"] in [words[:2] for words in programs(text, workspace)]


def test_quoted_words_are_not_commands(workspace: Workspace) -> None:
    for text in [
        "echo 'rm x'",
        'echo "rm x"',
        "echo \\; rm",
        "cat <<'EOF'\nrm x\nEOF",
        "ls # rm x",
        "git commit -m 'a; rm x'",
    ]:
        assert ["rm", "x"] not in programs(text, workspace), text


RESERVED = names("if then elif else fi do done while until for case esac in select function time coproc")


def tree_commands(text: str) -> list[str] | None:
    """The command names a grammar of bash finds; None when it does not understand the text."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    root = parser.parse(text.encode()).root_node
    if root.has_error:
        return None
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        if node.type == "command_name" and node.text.isalpha():
            found.append(node.text.decode())
        stack.extend(node.children)
    return found


def test_the_scanner_finds_what_a_grammar_of_bash_finds() -> None:
    for text in [*HIDING, *(command for _, command in ROWS)]:
        try:
            expected = tree_commands(text)
        except UnicodeEncodeError:
            continue
        found = {command.words[0].text for command in scan(text).commands if command.words}
        if re.search(r"\\\n|[^\n\t -~]", text):  # which the grammar takes for a space
            continue
        assert expected is None or set(expected) - RESERVED <= found, text


PIECES = [
    "ls",
    "rm",
    "x",
    " ",
    " ",
    ";",
    "&&",
    "|",
    "$(",
    ")",
    "`",
    '"',
    "'",
    "(",
    "{ ",
    "; }",
    "\n",
    "<<E\n",
    "\nE\n",
    ">",
    "<",
]
PIECES += [
    "if ",
    "then ",
    "fi",
    "do ",
    "done",
    "case x in ",
    "a) ",
    ";; ",
    "esac",
    "${x:-",
    "}",
    "$x",
    "\\",
    "#",
    "((",
    "))",
    "=",
    "a=(",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@settings(max_examples=20_000 if os.environ.get("COWORK_SOAK") else 400, deadline=None)
def test_no_text_makes_the_scanner_miss_what_the_grammar_finds(text: str) -> None:
    found = scan(text)
    programs = {word.text for command in found.commands for word in command.words[:1]}
    expected = tree_commands(text)
    if expected is not None and not found.broken and "\\\n" not in text:
        assert set(expected) - RESERVED <= programs


@pytest.mark.parametrize("text", hostile_texts(), ids=lambda text: ascii(text[:12]) + str(len(text)))
def test_hostile_text_is_judged_in_no_time_and_never_as_reading(text: str, workspace: Workspace) -> None:
    ratios = []
    while len(ratios) < 5 and min(ratios, default=9.0) >= 1:
        allowed = max(0.1, 20 * spent(lambda: deque(range(400_000), 0)))  # where a processor is shared, all is slower
        ratios.append(spent(lambda: judge(text, workspace, workspace.root, trusted=True)) / allowed)
    judged = judge(text, workspace, workspace.root, trusted=True)
    assert not judged.read_only
    assert judged.limited or len(text) <= MAX_CHARS
    assert min(ratios) < 1


def spent(work: Callable[[], object]) -> float:
    """Seconds of a processor."""
    start = time.process_time()
    work()
    return time.process_time() - start
