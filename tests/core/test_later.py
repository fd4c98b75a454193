"""Imports that are put off."""

from __future__ import annotations

import builtins
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cowork.core.later import later


def test_a_thread_that_puts_imports_off_does_not_end_that_of_another() -> None:
    before, inside, left = builtins.__import__, threading.Event(), threading.Event()

    def put_off_too() -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "theirs"}
        with later("theirs"):
            inside.set()
            left.wait(10)
            exec("from no_such_module import anything", names)
        return names

    with ThreadPoolExecutor() as threads:
        with later("ours"):
            other = threads.submit(put_off_too)
            inside.wait(0.2)  # it may have to wait for us
        left.set()
        assert "anything" in other.result(10)
    assert builtins.__import__ is before
