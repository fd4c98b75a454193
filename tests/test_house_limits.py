"""The limits that keep the code easy to read: short functions, files and constructors, small folders, unique names."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[1]
FILES = sorted((TOP / "cowork").rglob("*.py"))
FUNCTION_LINES, FILE_LINES, PARAMETERS, MODULES = 50, 400, 8, 18

Function = ast.FunctionDef | ast.AsyncFunctionDef
Block = ast.stmt | ast.excepthandler | ast.match_case


@cache
def definitions() -> list[tuple[str, ast.stmt]]:
    """Every function and class of the package, with its file."""
    found: list[tuple[str, ast.stmt]] = []
    for file in FILES:
        waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
        while waiting:
            inside = [
                node for node in ast.iter_child_nodes(waiting.pop()) if isinstance(node, ast.stmt | ast.excepthandler)
            ]
            waiting += inside
            where = str(file.relative_to(TOP))
            found += [(where, node) for node in inside if isinstance(node, Function | ast.ClassDef)]
    return found


def test_no_function_is_longer_than_a_screen() -> None:
    found = [(name, node) for name, node in definitions() if isinstance(node, Function)]
    lengths = {f"{name}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1 for name, node in found}
    assert {where: n for where, n in lengths.items() if n > FUNCTION_LINES} == {}


def test_no_file_holds_two_things() -> None:
    lengths = {str(file.relative_to(TOP)): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {name: n for name, n in lengths.items() if n > FILE_LINES} == {}


def test_no_constructor_takes_more_than_a_reader_can_hold() -> None:
    made = [(name, node) for name, node in definitions() if isinstance(node, Function) and node.name == "__init__"]
    counts = {f"{name}:{node.lineno}": len(node.args.args) + len(node.args.kwonlyargs) - 1 for name, node in made}
    assert {name: n for name, n in counts.items() if n > PARAMETERS} == {}


def test_no_folder_is_too_full_to_look_through() -> None:
    folders = {file.parent for file in FILES}
    counts = {str(folder.relative_to(TOP)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: n for name, n in counts.items() if n > MODULES} == {}


def test_a_class_name_means_one_class() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for name, node in definitions():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            homes[node.name].append(name)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
