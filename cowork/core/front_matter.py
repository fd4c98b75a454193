"""Texts that people write: heads of `key: value` lines, files named as `@path`, and notes that import others so."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json
from cowork.core.frozen import frozen
from cowork.core.secret_names import sensitive
from cowork.core.workspace import parse_json, start_of

MAX_FILE = 256 * 1024
MAX_FILES = 500
MAX_DEPTH = 20
# A name behind `@` goes on to the next blank, or stands in quotes; `@` in it, as in icon@2x.png, ends no name.
AT = r"(?:^|(?<=[\s(\[\"'`]))@"
BARE = r"(?!\")(?:[^\s@]|(?<![.,;:!?)\]\"'`])@)"
_MENTION = re.compile(rf'{AT}(?:"([^"\n]+)"|({BARE}+))')
_AFTER = ".,;:!?)]\"'`"  # belongs to the sentence, not to the name
_FENCED = r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)"
# In Markdown: code, emphasis, bars of tables.
_NO_NAME = re.compile(rf"{_FENCED}|`[^`\n]+`|\*+|\|", re.MULTILINE | re.DOTALL)
# A line `@path` of notes stands for the text of another file of the same folder tree; a sentence adds it at the end.
_LINE = re.compile(rf"{_FENCED}|^[^\n]*@[^\n]*", re.MULTILINE | re.DOTALL)
_IMPORT_DEPTH = 5
_IMPORT_BYTES = 1_000_000
_IMPORT_FILES = 100


@frozen
class Problem:
    """Something wrong with a file, where, and how to mend it."""

    path: Path
    line: int
    message: str
    fatal: bool = True  # the file was not loaded
    unknown_tool: bool = False
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.message}" + (f". {self.hint}" if self.hint else "")


class BadFile(Exception):
    """A file that cannot be loaded, the line that says why, and perhaps how to mend it."""

    def __init__(self, line: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.line, self.message, self.hint = line, message, hint

    def problem(self, path: Path) -> Problem:
        return Problem(path, self.line, self.message, hint=self.hint)


@frozen
class Marked:
    """A file's front matter, as text and as it is read, and the text below."""

    matter: dict[str, Any]
    head: str
    body: str

    def line(self, key: str) -> int:
        """The line a key stands in."""
        found = re.search(rf"^{re.escape(key)}\s*:", self.head, re.MULTILINE)
        return self.head.count("\n", 0, found.start()) + 2 if found else 1


def text_of_file(path: Path, most: int = MAX_FILE) -> str:
    """The text of a plain file; BadFile when it is too large, no text or cannot be read."""
    try:
        raw = start_of(path, most + 1)
        if len(raw) > most:
            raise BadFile(1, f"the file is larger than {most // 1024} KB", "Move what is long into files beside it")
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadFile(1, "the file is not UTF-8", "Store it as UTF-8") from error
    except OSError as error:
        raise BadFile(1, f"cannot be read: {error.strerror or error}") from error


def json_of_file(path: Path, most: int = MAX_FILE, *, comments: bool = False) -> tuple[Json, str]:
    """The object in a JSON file, and its text; BadFile when it is none. `comments`: whole lines of them are allowed."""
    text = text_of_file(path, most)
    try:
        found = parse_json(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE) if comments else text)
    except json.JSONDecodeError as error:
        raise BadFile(error.lineno, f"is not JSON: {error.msg}") from error
    except ValueError as error:
        raise BadFile(1, f"is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadFile(1, "must be a JSON object")
    return found, text


def line_of(text: str, key: object, otherwise: int = 1) -> int:
    """The line of a JSON text on which a string stands first."""
    at = text.find(json.dumps(str(key)))
    return otherwise if at < 0 else text.count("\n", 0, at) + 1


def mentions(text: str, *, markdown: bool = False) -> list[str]:
    """The names of files that stand behind `@` in a text, each once; those in the code of `markdown` are none."""
    found = _MENTION.findall(_NO_NAME.sub(" ", text) if markdown else text)
    return [*dict.fromkeys(filter(None, (quoted or bare.rstrip(_AFTER) for quoted, bare in found)))]


def mention(path: str) -> str:
    """A file as a text names it: in quotes where its name would not be read to its end, else without `@`."""
    named = (text for text in (f"@{path}", f'@"{path}"') if mentions(text) == [path])
    return next(named, json.dumps(path, ensure_ascii=False).replace("@", r"\u0040"))


def files_below(folder: Path, pattern: str = "*.md") -> list[Path]:
    """The files below a folder that match, in a stable order, bounded; no link to a folder is followed."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        if place.count(os.sep) - str(folder).count(os.sep) >= MAX_DEPTH:
            folders.clear()
        paths = (os.path.join(place, name) for name in names if fnmatchcase(name, pattern))
        found += [path for path in paths if os.path.isfile(path)]
    return [Path(name) for name in sorted(found)[:MAX_FILES]]


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a link takes a file out of the folder it was found in, or it is none that can be."""
    try:
        return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except ValueError:  # characters that no path has
        return True


def split(text: str) -> Marked:
    """The parts of a file's text; BadFile where there is no head, or none that can be read.

    Values that want quotes, such as `Use when: …` and `*`, are read as they were meant.
    """
    if not text.startswith("---\n"):
        raise BadFile(1, "does not start with front matter (a line of ---)")
    end = re.search(r"^---[ \t]*$", text[4:], re.MULTILINE)
    if end is None:
        raise BadFile(1, "the front matter has no closing line of ---")
    head, body = text[4 : 4 + end.start()], text[4 + end.end() :]
    if not head.strip():
        return Marked({}, head, body)
    try:
        return Marked(_plain(head) or _yaml(head), head, body)
    except BadFile:
        quoted = _UNQUOTED.sub(lambda m: f"{m[1]}: {json.dumps(m[2], ensure_ascii=False)}", head)
        if quoted == head:
            raise
        return Marked(_yaml(quoted), head, body)


# What YAML takes for plain text or a simple quoted one; anything else is left to YAML, which is much slower.
_PLAIN_LINE = re.compile(
    r"([A-Za-z_][A-Za-z_-]*): (?:([A-Za-z](?:[^\s:#]|:(?=\S)|(?<=\S)#| (?=[^ \t#]))*)|\"([^\"\\]+)\"|'([^']+)')"
)
_UNQUOTED = re.compile(r"^([A-Za-z_][\w-]*): (\*|(?![\"'|>{&*!%@`]).*?(?::[ ]|\][ ]).*)[ ]*$", re.MULTILINE)
_LISTED = re.compile(r"[^\s,()\[\]\"']+(?:\([^)]*\))?")
_YAML_WORDS = frozenset(["true", "false", "yes", "no", "on", "off", "null", "y", "n"])


def words_of_list(text: str) -> list[str]:
    """The words of a list of tools with commas or spaces, without a comment; `Bash(git add, git log)` is one."""
    return _LISTED.findall(text.partition(" #")[0])


def _plain(head: str) -> dict[str, Any] | None:
    """The front matter when each line is `key: plain words`, which needs no YAML; else None."""
    found: dict[str, Any] = {}
    for line in head.split("\n")[:-1] if head.endswith("\n") else head.split("\n"):
        match = _PLAIN_LINE.fullmatch(line)
        if match is None or not line.isprintable() or match[1] in found:
            return None
        if match[1].lower() in _YAML_WORDS or (match[2] and match[2].lower() in _YAML_WORDS):
            return None
        found[match[1]] = match[2] or match[3] or match[4]
    return found


def _yaml(head: str) -> dict[str, Any]:
    import yaml  # only front matter that is more than plain lines pays for it

    class Loader(yaml.SafeLoader):
        """Safe, without aliases (they make bombs), duplicate keys and deep nesting."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise BadFile(self.line + 2, "aliases are not allowed")
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise BadFile(parent.start_mark.line + 2, "nested too deeply")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if str(key.value) in seen:
                    raise BadFile(key.start_mark.line + 2, f"{key.value}: is given twice")
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

    try:
        found = yaml.load(head, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "context_mark", None) or getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        raise BadFile(line, f"is not valid YAML: {getattr(error, 'problem', None) or error}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise BadFile(1, f"is not valid YAML: {error}") from error
    if not isinstance(found, dict):
        raise BadFile(1, "the front matter must be `key: value` lines")
    return found


def with_imports(path: Path, may_tell: Callable[[Path], bool] = lambda path: True) -> tuple[str, dict[Path, bytes]]:
    """The text of a notes file with its imports in their places, and what each file it was made of holds.

    A file that looks like it holds secrets is none of them, whatever its name leads to: nobody was asked about it.
    """
    read: dict[Path, bytes] = {}
    base = Path(os.path.realpath(path.parent))

    def text_of(file: Path, depth: int) -> str:
        real = Path(os.path.realpath(file))
        if sensitive(real) or not may_tell(real):
            return f"[{file.name} was left out: it may not be read unasked]"
        try:
            raw = start_of(real, _IMPORT_BYTES + 1)
        except OSError:
            return ""
        read[real] = raw
        if len(raw) > _IMPORT_BYTES:
            return f"[{file.name} is too large and was left out]"
        folder, behind = file.parent, list[str]()  # what sentences name comes last: the notes are not cut for it

        def include(match: re.Match[str]) -> str:
            line = match[0]
            names = () if match[1] else mentions(line, markdown=True)
            found = {name: text for name in names if (text := imported(name)) is not None}
            if len(names) == 1 and found and line.strip() == mention(names[0]):
                return found[names[0]]
            behind.extend(f'<file path="{name}">\n{text}\n</file>' for name, text in found.items())
            return line

        def imported(name: str) -> str | None:
            if depth >= _IMPORT_DEPTH or len(read) >= _IMPORT_FILES or not os.path.isfile(folder / name):
                return None
            target = Path(os.path.realpath(folder / name))
            return text_of(target, depth + 1) if target.is_relative_to(base) and target not in read else None

        text = _LINE.sub(include, raw.decode("utf-8", "replace").replace("\r\n", "\n"))
        return "\n\n".join((text, *behind))

    return text_of(path, 0), read
