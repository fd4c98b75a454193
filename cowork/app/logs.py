"""Diagnostic lines: `COWORK_LOG=info` or `cowork.subagents=debug,cowork.engine=warning`, to stderr or a file."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from cowork.core.errors import UserError, os_error_as

LEVELS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "off": 100}


def set_up(wanted: str, file: str = "") -> None:
    """Silent unless asked; each filter names a logger and its level, a bare level means all of cowork."""
    root = logging.getLogger("cowork")
    root.propagate = False
    root.setLevel(LEVELS["off"])
    root.handlers = [logging.NullHandler()]
    loop = logging.getLogger("asyncio")  # it warns of processes that were stopped as they ended, into the screen
    loop.propagate, loop.handlers = False, root.handlers
    if wanted or file:  # a file that cannot be written is said at once, not when the first line is due
        root.handlers = loop.handlers = [_handler(file)]
    for part in filter(None, (p.strip() for p in wanted.split(","))):
        name, _, level = part.rpartition("=")
        if level.lower() not in LEVELS or (name and name.split(".")[0] != "cowork"):
            raise UserError(
                f"COWORK_LOG: {part!r} is not a filter.", "Use info, or a logger such as cowork.subagents=debug."
            )
        logging.getLogger(name or "cowork").setLevel(LEVELS[level.lower()])


def _handler(file: str) -> logging.Handler:
    stream = None
    if file:
        with os_error_as(f"The log file {file} cannot be opened", "Give another --log-file."):
            fd = os.open(Path(file).expanduser(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        stream = os.fdopen(fd, "a", encoding="utf-8")
    handler = logging.StreamHandler(stream)
    formatter = logging.Formatter("time=%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    return handler
