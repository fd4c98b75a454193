"""Read by every Python whose PYTHONPATH names this folder: the ports where model servers usually listen are closed."""

from __future__ import annotations

import socket
from typing import Any

USUAL = {11434, 1234, 8080, 8000}


class _Quiet(socket.socket):
    def connect(self, address: Any, /) -> None:
        if isinstance(address, tuple) and address[1] in USUAL:
            raise ConnectionRefusedError(111, "Connection refused")
        super().connect(address)


socket.socket = _Quiet  # type: ignore[misc]
