"""A slow stand-in for ripgrep, run as a script of its own so that it can be killed like the real one.

It understands the options `rg.py` passes, prints what rg would print, and imports the standard library only.
"""

from __future__ import annotations

import argparse
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
_MAX_FILE = 64 * 1024 * 1024  # a larger file is not read into memory


def main(argv: list[str]) -> int:
    """Search or list as told; 0 found, 1 nothing found, 2 something could not be read or understood."""
    options = _parser().parse_args(argv)
    try:
        wanted = _wanted(options)
        flags = (re.IGNORECASE if options.i else 0) | (re.DOTALL | re.MULTILINE if options.U else 0)
        pattern = re.compile((options.e or "").encode(), flags)
    except (re.error, ValueError) as error:
        sys.stderr.write(f"rg: regex parse error:\nerror: {error}\n")
        return 2
    excluded = [Rule(glob[1:], "") for glob in options.g if glob.startswith("!")]
    found, failed = False, False
    for path in _paths(options, excluded):
        if wanted is not None and not wanted.match(os.path.basename(path)):
            continue
        if options.files:
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
        close = glob.find("]", i + 2)
        if char == "[" and close > 0:
            body = glob[i + 1 : close]
            negated = body[0] in "!^"
            body = re.escape(body[1:] if negated else body).replace(r"\-", "-")
            out, i = out + f"[{'^' if negated else ''}{body}]", close + 1
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("no-config", "no-require-git", "no-ignore-global", "hidden", "no-heading", "null", "no-messages"):
        parser.add_argument(f"--{flag}", action="store_true")
    for flag in ("max-columns-preview", "no-context-separator", "multiline-dotall", "files", "text"):
        parser.add_argument(f"--{flag}", action="store_true")
    for flag in ("-i", "-n", "-H", "-U", "-l", "-c"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--color", "--engine", "-e"):
        parser.add_argument(flag)
    for flag in ("-A", "-B", "-C", "-M"):
        parser.add_argument(flag, type=int, default=0)
    parser.add_argument("--max-depth", type=int)
    for flag in ("-g", "-t", "--type-add"):
        parser.add_argument(flag, action="append", default=[])
    parser.add_argument("paths", nargs="+")
    return parser


def _wanted(options: argparse.Namespace) -> re.Pattern[str] | None:
    types: dict[str, tuple[str, ...]] = dict(TYPES)
    for added in options.type_add:
        name, _, glob = added.partition(":")
        types[name] = (*types.get(name, ()), glob)
    globs: list[str] = []
    for name in options.t:
        if name not in types:
            raise ValueError(f"unrecognized file type: {name}")
        globs += types[name]
    return re.compile("|".join(f"(?:{translate(g)})\\Z" for g in globs)) if options.t else None


def _paths(options: argparse.Namespace, excluded: list[Rule]) -> Iterator[str]:
    for path in options.paths:
        if os.path.isdir(path):
            yield from walk(path, excluded, options.max_depth)
        else:
            yield path


def _search(path: str, pattern: re.Pattern[bytes], options: argparse.Namespace) -> bool:
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
            _write(name + (b"\0" if options.l else b"\x001\n" if options.c else b": binary file matches\n"))
        return explicit
    lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
    hits = _hits(content, lines, pattern, multiline=options.U)
    if not hits:
        return False
    if options.l:
        _write(name + b"\0")
    elif options.c:
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


def _print(name: bytes, lines: list[bytes], hits: list[int], options: argparse.Namespace) -> None:
    before, after = options.B or options.C, options.A or options.C
    matched, shown = set(hits), -1
    for hit in hits:
        for i in range(max(shown + 1, hit - before), min(len(lines), hit + after + 1)):
            line = lines[i]
            if options.M and len(line) > options.M:
                line = line[: options.M] + b" [... omitted end of long line]"
            place = name + b"\0%d" % (i + 1) + (b":" if i in matched else b"-")
            _write((place if options.H else b"") + line + b"\n")
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
