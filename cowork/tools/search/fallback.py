"""A slow stand-in for ripgrep, run as a script of its own so that it can be killed like the real one.

It understands the options `rg.py` passes, prints what rg would print, and imports the standard library only.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

TYPES = {
    "c": ("*.c", "*.h"),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.h"),
    "css": ("*.css", "*.scss"),
    "go": ("*.go",),
    "html": ("*.html", "*.htm"),
    "java": ("*.java",),
    "js": ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue"),
    "json": ("*.json",),
    "md": ("*.md", "*.markdown", "*.mdx"),
    "php": ("*.php",),
    "py": ("*.py", "*.pyi"),
    "ruby": ("*.rb", "Gemfile", "Rakefile"),
    "rust": ("*.rs",),
    "sh": ("*.sh", "*.bash", "*.zsh"),
    "sql": ("*.sql",),
    "toml": ("*.toml", "Cargo.lock"),
    "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "txt": ("*.txt",),
    "xml": ("*.xml", "*.svg"),
    "yaml": ("*.yaml", "*.yml"),
}
_MAX_GLOB = 4_096
_MAX_FILE = 64 * 1024 * 1024  # a larger file is not read into memory


def main(argv: list[str]) -> int:
    """Search or list as told; 0 found, 1 nothing found, 2 something could not be read or understood."""
    options = Options(argv)
    try:
        wanted = _wanted(options)
        excluded = [Rule(glob[1:], "") for glob in options.values.get("-g", []) if glob.startswith("!")]
    except (re.error, ValueError) as error:
        sys.stderr.write(f"rg: {error}\n")
        return 2
    flags = (re.IGNORECASE if "-i" in options.flags else 0) | (re.DOTALL | re.MULTILINE if "-U" in options.flags else 0)
    try:
        wanted_text = options.values.get("-e", [""])[0]
        pattern = re.compile((re.escape(wanted_text) if "-F" in options.flags else wanted_text).encode(), flags)
    except re.error as error:
        sys.stderr.write(f"rg: regex parse error:\nerror: {error}\n")
        return 2
    found, failed = False, False
    for path in _paths(options, excluded):
        if wanted is not None and not wanted.match(os.path.basename(path)):
            continue
        if "--files" in options.flags:
            _write(os.fsencode(path) + b"\0")
            found = True
            continue
        try:
            found = _search(path, pattern, options) or found
        except OSError:
            failed = True
    return 2 if failed else 0 if found else 1


def translate(glob: str) -> str:
    """The regular expression of a glob: `*` and `?` stay within a folder, `**` does not, `{a,b}` is either."""
    if len(glob) > _MAX_GLOB:
        raise ValueError(f"a glob has at most {_MAX_GLOB:,} characters")
    out, i, depth = "", 0, 0
    while i < len(glob):
        char = glob[i]
        if glob.startswith("**", i):
            end = i + 2
            whole = (i == 0 or glob[i - 1] in "/{,") and (end == len(glob) or glob[end] in "/},")
            if whole and glob.startswith("/", end):
                out, i = out + "(?:.*/)?", end + 1
            else:
                out, i = out + ".*", end
            continue
        first = i + 2 if glob[i + 1 : i + 2] in ("!", "^") else i + 1
        close = glob.find("]", first + 1)
        if char == "[" and close > 0:
            body = re.escape(glob[first:close]).replace(r"\-", "-")
            out, i = out + f"[{'^' if first == i + 2 else ''}{body}]", close + 1
            continue
        if char == "\\" and i + 1 < len(glob):
            i += 1
            out += re.escape(glob[i])
        elif char == "{":
            depth, out = depth + 1, out + "(?:"
        elif char == "}" and depth:
            depth, out = depth - 1, out + ")"
        elif char == "," and depth:
            out += "|"
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char)
        i += 1
    if depth:
        raise ValueError(f"error parsing glob '{glob}': unclosed alternate group; missing '}}'")
    return out


class Rule:
    """One line of an ignore file that lies in `base` (relative to the repository, empty for its top)."""

    __slots__ = ("base", "folders_only", "negated", "regex")

    def __init__(self, line: str, base: str) -> None:
        self.base = base
        self.negated = line.startswith("!")
        line = line.removeprefix("!")
        self.folders_only = line.endswith("/")
        line = line.rstrip("/")
        body = translate(line.removeprefix("/"))
        self.regex = re.compile(body if "/" in line else f"(?:.*/)?{body}")

    def matches(self, path: str, *, folder: bool) -> bool:
        if self.folders_only and not folder:
            return False
        if self.base and not path.startswith(self.base + "/"):
            return False
        inner = path[len(self.base) + 1 :] if self.base else path
        return self.regex.fullmatch(inner) is not None


def walk(root: str, excluded: list[Rule], depth: int | None = None) -> Iterator[str]:
    """The files under a folder that no ignore file leaves out, without following links."""
    top, rules = _outer_rules(os.path.realpath(root))
    prefix = os.path.relpath(os.path.realpath(root), top)
    prefix = "" if prefix == "." else prefix
    yield from _walk(root, prefix, rules, excluded, depth)


def _walk(folder: str, shown: str, rules: list[Rule], excluded: list[Rule], depth: int | None) -> Iterator[str]:
    rules = rules + _read_rules(folder, shown)
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except OSError:
        return
    for entry in entries:
        path = f"{shown}/{entry.name}" if shown else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if any(rule.matches(path, folder=is_folder) for rule in excluded) or _ignored(rules, path, is_folder):
            continue
        here = os.path.join(folder, entry.name)
        if entry.is_file(follow_symlinks=False):
            yield here
        elif is_folder and (depth is None or depth > 1):
            yield from _walk(here, path, rules, excluded, None if depth is None else depth - 1)


def _ignored(rules: list[Rule], path: str, is_folder: bool) -> bool:
    for rule in reversed(rules):
        if rule.matches(path, folder=is_folder):
            return not rule.negated
    return False


def _read_rules(folder: str, base: str) -> list[Rule]:
    rules = []
    for name in (".gitignore", ".ignore"):
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                lines = file.read(1 << 20).splitlines()
        except OSError:
            continue
        for line in (line.rstrip() for line in lines):
            if line and not line.startswith("#"):
                try:
                    rules.append(Rule(line, base))
                except (ValueError, re.error):  # as rg does: a bad line is skipped, the others count
                    continue
    return rules


def _outer_rules(root: str) -> tuple[str, list[Rule]]:
    """The repository's top folder and the rules of the folders between it and `root`."""
    top = root
    while not os.path.exists(os.path.join(top, ".git")):
        if os.path.dirname(top) == top:
            return root, []
        top = os.path.dirname(top)
    rules: list[Rule] = []
    between = os.path.relpath(root, top).split(os.sep) if top != root else []
    for i in range(len(between)):
        base = "/".join(between[:i])
        rules += _read_rules(os.path.join(top, base), base)
    return top, rules


class Options:
    """The part of rg's command line that `rg.py` uses."""

    def __init__(self, argv: list[str]) -> None:
        self.flags: set[str] = set()
        self.values: dict[str, list[str]] = {}
        for i, word in enumerate(argv):
            if word == "--":
                self.paths = argv[i + 1 :]
                return
            name, _, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
            if value:
                self.values.setdefault(name, []).append(value)
            else:
                self.flags.add(name)
        raise ValueError("no path")

    def number(self, *names: str) -> int:
        return max(int(value) for name in names for value in self.values.get(name, ["0"]))


def _wanted(options: Options) -> re.Pattern[str] | None:
    types: dict[str, tuple[str, ...]] = dict(TYPES)
    for added in options.values.get("--type-add", []):
        name, _, glob = added.partition(":")
        types[name] = (*types.get(name, ()), glob)
    globs: list[str] = []
    chosen = options.values.get("-t", [])
    for name in chosen:
        if name not in types:
            raise ValueError(f"unrecognized file type: {name}")
        globs += types[name]
    return re.compile("|".join(f"(?:{translate(g)})\\Z" for g in globs)) if chosen else None


def _paths(options: Options, excluded: list[Rule]) -> Iterator[str]:
    found = _unsorted(options, excluded)
    if "--sortr" in options.values:
        yield from sorted(found, key=_changed, reverse=True)
    else:
        yield from found


def _changed(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _unsorted(options: Options, excluded: list[Rule]) -> Iterator[str]:
    for path in options.paths:
        if os.path.isdir(path):
            yield from walk(path, excluded, options.number("--max-depth") or None)
        else:
            yield path


def _search(path: str, pattern: re.Pattern[bytes], options: Options) -> bool:
    with open(0 if path == "-" else path, "rb") as file:
        if os.fstat(file.fileno()).st_size > _MAX_FILE:
            raise OSError("too large")
        content = file.read()
    name = os.fsencode(path)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        content = content.decode("utf-16", "replace").encode()
    elif b"\0" in content:
        explicit = path in options.paths and pattern.search(content) is not None
        if explicit:
            _write(name + (b"\0" if "-l" in options.flags else b": binary file matches\n"))
        return explicit
    lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
    hits = _hits(content, lines, pattern, multiline="-U" in options.flags)
    if not hits:
        return False
    if "-l" in options.flags:
        _write(name + b"\0")
    elif "-c" in options.flags:
        _write(name + b"\0%d\n" % len(hits))
    else:
        _print(name, lines, hits, options)
    return True


def _hits(content: bytes, lines: list[bytes], pattern: re.Pattern[bytes], *, multiline: bool) -> list[int]:
    if not multiline:
        return [i for i, line in enumerate(lines) if pattern.search(line)]
    hits: set[int] = set()
    for match in pattern.finditer(content):
        first = content.count(b"\n", 0, match.start())
        hits.update(range(first, min(len(lines), first + match.group().rstrip(b"\n").count(b"\n") + 1)))
    return sorted(hits)


def _print(name: bytes, lines: list[bytes], hits: list[int], options: Options) -> None:
    before, after, width = options.number("-B"), options.number("-A"), options.number("-M")
    matched, shown = set(hits), -1
    for hit in hits:
        for i in range(max(shown + 1, hit - before), min(len(lines), hit + after + 1)):
            line = lines[i]
            if width and len(line) > width:
                line = line[:width] + b" [... omitted end of long line]"
            place = name + b"\0%d" % (i + 1) + (b":" if i in matched else b"-")
            _write((place if "-H" in options.flags else b"") + line + b"\n")
            shown = i


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        code = 1
    os._exit(code)
