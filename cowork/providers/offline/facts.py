"""What a project declares of itself: dependencies, versions, licence, commands; and where it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cowork.core.frozen import frozen
from cowork.providers.offline import found, words
from cowork.providers.offline.answer import code, plural, shortened
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.manifests import Item, items, of_language, scripts
from cowork.providers.offline.plan import Plan, Steps, bash, glob, grep, read
from cowork.providers.offline.project import Files, declared, look
from cowork.providers.offline.rank import is_source, is_test, place_weight

_MOST_SHOWN = 30


@frozen
class Group:
    """A sort of dependencies: how a question names it, and the tables it stands in."""

    name: str
    asked: str
    tables: str


_DEV = r"(?:dev|develop|development|tests?|testing|docs?|lint|typing|ci|bench)"
GROUPS = (
    Group("development", r"\b(?:dev|development|develop|tests?|testing|docs?|lint)\b",
          rf"dev-?dependencies|dev-packages|dev-requirements|tests_require|require-dev|dependency-groups\.[\w-]+"
          rf"|group\.[\w-]+\.dependencies|(?:optional-dependencies|extras_require)\.{_DEV}[\w-]*"),
    Group("optional", r"\b(?:optional|extras?|peer|features?)\b",
          r"(?:optional-dependencies|extras_require)\.[\w-]+|(?:peer|optional)dependencies"),
    Group("build", r"\b(?:build|building|compile)\b", r"build-system\.requires|build-dependencies|setup_requires"),
    Group("runtime", r"\b(?:runtime|production|prod|main|direct)\b",
          r"dependencies|install_requires|requires-dist|requirements|require|packages"),
)  # fmt: skip


def manifest(intent: Intent) -> Plan:
    """Dependencies, version, license, author: the entries of the manifests that say so."""
    files = yield from look(intent.path)
    said = intent.subject.lower()
    entries = of_language(declared(files), said)
    if not entries:
        entries = of_language((yield from _below()), said)
    fact = next((fact for fact in FACTS if re.search(fact.asked, said)), None)
    own = {item.value.strip("\"'").lower() for item in entries if item.key == "name"}
    named = [item for item in entries if _group(item) and _named(item, intent.subject) and item.key.lower() not in own]
    if named and (fact is None or fact.name == "version"):
        rows = "\n".join(f"- `{item.at}` {_shown(item)} ({_group(item)})" for item in named[:8])
        return f"Declared:\n\n{rows}"
    if fact is None:
        return _dependencies(entries, said, files)
    rows_ = [f"- `{i.at}` {_shown(i)}" for i in entries if re.search(fact.keys, _keyed(i), re.IGNORECASE)]
    rows_ = [*rows_[:_MOST_SHOWN], *(yield from fact_elsewhere(fact.name, rows_))]
    if rows_:
        return f"The {fact.name}:\n\n" + "\n".join(rows_)
    return f"I looked in {', '.join(files.texts) or 'the top folder'} and found no {fact.name}."


@frozen
class Fact:
    """Something a manifest says: how a question names it, and the entries that say it, as `path = value`."""

    name: str
    asked: str
    keys: str


FACTS = (
    Fact("license", r"\blicen[cs]", r"(?:^|\.)licen[cs]e(?:-?files?|-expression)?\b|= License ::"),
    Fact("version supported", r"\b(?:python|node|rust|go|ruby|java|minimum|supported|supports?"
                              r"|compatible)\b.*\bversions?\b"
         r"|\bversions? of (?:python|node|rust|go)\b|\brequires?-python\b|\b(?:which|what) pythons?\b|\bmsrv\b"
         r"|\bedition\b"
         r"|\bsupports? (?:for )?(?:python|node|rust|go) ?\d",
         r"requires?[-_.](?:python|dist\.python)|python_requires|rust-version|edition|^engines\b|^go ="
         r"|dependencies\.python ="
         r"|= Programming Language :: \w+ :: \d"),
    Fact("version", r"\bversion", r"^(?:(?:tool\.)?(?:project|package|metadata|poetry|workspace\.package)\.)?version\b"
         r"|^(?:tool\.poetry|tool\.hatch|tool\.setuptools(?:\.dynamic|_scm)?|setup)\.version\b|^version\b"),
    Fact("author", r"\bauthors?\b|\bwrote\b|\bmaintain", r"author|maintainer|contributors"),
    Fact("address", r"\b(?:homepage|urls?|website|repository|docs? site|bug tracker|issue tracker)\b",
         r"homepage|repository|\burls?\b|bugs|documentation"),
    Fact("script", r"\bscripts\b", r"^scripts\.|^tool\.\w+\.scripts\."),
    Fact("keywords", r"\bkeywords\b|\bclassifiers\b", r"keywords|classifiers"),
    Fact("name", r"\bname\b|\b(?:called|named)$", r"^(?:(?:tool\.)?(?:project|package|metadata|poetry)\.)?name\b"
                 r"|^module\b"),
    Fact("description", r"\bdescription\b|\bsummary\b", r"(?:^|\.)(?:description|summary)\b"),
)  # fmt: skip
_VERSION_LINE = (
    r"^\s*(?:export\s+)?(?:const\s+|let\s+)?_*version(?:_info|_tuple)?_*\s*(?::\s*[\w\[\], .]+)?=\s*[\"'(\w]"
)


def fact_elsewhere(name: str, known: Sequence[str]) -> Steps[list[str]]:
    """What stands outside of manifests: a version in code or in tags, a licence in its own file."""
    if name == "version":
        (told,) = yield [grep(_VERSION_LINE, ignore_case=True, glob="*.py,*.js,*.ts,*.go,*.rs,*.rb,*.h", head_limit=40)]
        hits = sorted(
            (h for h in found.lines(told) if is_source(h.path)), key=lambda h: (-place_weight(h.path), h.path)
        )
        rows = [f"- `{h.at}` {code(shortened(h.text))}" for h in hits[:4]]
        if known or rows:
            return rows
        (tag,) = yield [bash("git describe --tags --always", "Show the latest tag")]
        shown = tag.text.strip().splitlines()[:1]
        return [f"- {code(shown[0])}, the latest tag (`git describe`)"] if shown and "fatal" not in shown[0] else []
    if name != "license":
        return []
    (kept,) = yield [glob("{LICENSE,LICENSE.*,LICENCE,LICENCE.*,COPYING,COPYING.*,UNLICENSE,LICENSE-*,licenses/*}")]
    if not (paths := sorted(found.paths(kept))):
        return []
    pages = yield [read(path, limit=5) for path in paths[:3]]
    firsts = [next((t for t in found.numbered(page).values() if t.strip()), "") for page in pages]
    return [f"- `{path}:1` {code(shortened(first.strip()))}" for path, first in zip(paths, firsts, strict=False)]


def _below() -> Steps[list[Item]]:
    """The manifests of parts, where the top has none."""
    (result,) = yield [
        glob("{*,*/*}/{pyproject.toml,setup.cfg,setup.py,package.json,Cargo.toml,go.mod,*requirements*.txt}")
    ]
    paths = sorted((p for p in found.paths(result) if not is_test(p)), key=lambda p: (p.count("/"), p))[:6]
    pages = (yield [read(path, limit=400) for path in paths]) if paths else []
    return [item for path, page in zip(paths, pages, strict=True) for item in items(path, found.numbered(page))]


def _group(item: Item) -> str:
    """The group of dependencies an entry belongs to, if it is one."""
    section = item.section.lower()
    if item.key.lower() in ("python", "include-group") or not re.match(r"[@\w]", item.key):
        return ""
    return next((g.name for g in GROUPS if re.search(rf"(?:^|[.']){'(?:' + g.tables + ')'}$", section)), "")


def _named(item: Item, question: str) -> bool:
    said = {word.lower() for word in re.findall(r"[\w@/.-]+", question)}
    return len(item.key) > 2 and item.key.lower() in said and item.key.lower() not in words.STOP


def _keyed(item: Item) -> str:
    return f"{item.path} = {item.value}"


def _shown(item: Item) -> str:
    """An entry as it is written, never a piece of it."""
    value = item.value
    if not value or value in ("[", "{", "("):
        return code(item.key)
    if value.strip("\"'").startswith(item.key):
        return code(shortened(value.strip("\"'") if value.count(value[0]) == 2 else value))
    return code(shortened(f"{item.key} = {value}"))


def _dependencies(entries: Sequence[Item], said: str, files: Files) -> str:
    groups: dict[str, list[Item]] = {}
    for item in entries:
        if group := _group(item):
            known = groups.setdefault(group, [])
            if not any(other.file == item.file and other.path == item.path for other in known):
                known.append(item)
    if not groups:
        return f"I looked in {', '.join(files.texts) or 'the top folder'} and found no list of dependencies."
    asked = [g.name for g in GROUPS if re.search(g.asked, said) and g.name in groups]
    if "development" in asked:
        asked += [name for name in ("optional",) if name in groups and name not in asked]
    first = asked or [name for name in ("runtime",) if name in groups] or list(groups)
    parts = [_listed(name, groups[name]) for name in first]
    others = [
        f"{name} ({', '.join(code(item.key) for item in groups[name][:12])})" for name in groups if name not in first
    ]
    return "\n\n".join(parts + (["Also declared: " + "; ".join(others) + "."] if others else []))


def _listed(name: str, entries: Sequence[Item]) -> str:
    noun = plural(len(entries), f"{name} dependency")
    rows = [f"- `{item.at}` {_shown(item)}{_extra(item)}" for item in entries[:_MOST_SHOWN]]
    more = [f"- and {len(entries) - _MOST_SHOWN} more"] if len(entries) > _MOST_SHOWN else []
    return f"{noun}:\n" + "\n".join(rows + more)


def _extra(item: Item) -> str:
    """The extra or the group that brings it."""
    table, _, name = item.section.rpartition(".")
    return f" ({name})" if table and re.search(r"optional-dependencies|extras_require|dependency-groups", table) else ""


def entry(intent: Intent) -> Plan:
    """Where execution begins."""
    files = yield from look(intent.path)
    mains, blocks = yield [
        glob("**/{__main__.py,main.py,main.go,main.rs,index.js,index.ts,cli.py,app.py,manage.py,main.c,Main.java}"),
        grep(
            r"^if __name__ == .__main__.|^func main\(\)|^(?:pub )?(?:async )?fn main\(|^int main\(|static void main\(",
            head_limit=60,
        ),
    ]
    commands = scripts(declared(files))
    rows = [f"- `{item.at}` declares the command {code(item.key)}: {code(item.value)}" for item in commands]
    for target in dict.fromkeys(item.value for item in commands[:4]):
        rows += yield from _started(target)
    for item in declared(files):
        if (
            item.file == "package.json"
            and re.match(r"(?:main|bin|module|exports)\b", item.path)
            and item.value not in "{["
        ):
            rows.append(f"- `{item.at}` {item.path}: {code(item.value)}")
        if item.file == "Cargo.toml" and re.match(r"(?:bin|lib)\.(?:path|name)$", item.path):
            rows.append(f"- `{item.at}` {item.path} = {code(item.value)}")
    code_lines = sorted(found.lines(blocks), key=lambda h: (-place_weight(h.path), h.path))
    rows += [f"- `{h.at}` {code(shortened(h.text))}" for h in code_lines[:5] if not is_test(h.path)]
    named = sorted((p for p in found.paths(mains) if not is_test(p)), key=lambda p: (-place_weight(p), p))
    rows += [f"- `{p}:1`" for p in named[:4] if p not in "\n".join(rows)]
    if not rows:
        return "I looked for console scripts, main functions and files called main, and found none."
    return "Entry points:\n\n" + "\n".join(rows[:_MOST_SHOWN])


def _started(target: str) -> Steps[list[str]]:
    """The function a console script calls."""
    module, _, function = target.partition(":")
    (hit,) = yield [
        grep(
            rf"^\s*(?:async )?def {re.escape(function)}\b|^{re.escape(function)}\s*="
            rf"|import .*\b{re.escape(function)}\b",
            glob=f"**/{module.replace('.', '/')}.py,**/{module.replace('.', '/')}/__init__.py",
            head_limit=5,
        )
    ]
    return [f"- `{line.at}` {code(shortened(line.text))}" for line in found.lines(hit)[:1]]


def script_module(files: Files, name: str) -> str:
    """The module behind a console script, as a path without its ending."""
    found_ = [item.value for item in scripts(declared(files)) if item.key == name]
    return found_[0].split(":")[0].replace(".", "/") if found_ else ""
