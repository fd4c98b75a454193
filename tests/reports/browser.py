"""Chromium without a window, spoken to over a pipe: opens pages, runs scripts in them, keeps their complaints."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
    "--hide-scrollbars",
    "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One process with one page; `problems` are its errors, `requests` the addresses it asked for."""

    def __init__(self, folder: Path) -> None:
        down_read, self._down = os.pipe()
        self._up, up_write = os.pipe()
        script = f'exec "$0" "$@" 3<&{down_read} 4>&{up_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, str(CHROMIUM), *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            env=os.environ | {"HOME": str(folder)},  # it leaves folders there
            pass_fds=[down_read, up_write],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(down_read)
        os.close(up_write)
        self._ids = itertools.count(1)
        self._buffer = b""
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        self._target = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._target = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def open(self, url: str, width: int = 1600, height: int = 1000, scheme: str = "light") -> None:
        """Show a page at a size; the lists of problems and requests start anew."""
        self.problems, self.requests, self._loaded = [], [], False
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        self.wait(lambda: self._loaded)

    def run(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(json.dumps(found["exceptionDetails"])[:800])
        return found["result"].get("value")

    def until(self, script: str, seconds: float = 60) -> None:
        """Wait until an expression is true."""
        self.wait(lambda: bool(self.run(script)), seconds)

    def settle(self) -> None:
        """Let two frames be drawn."""
        self.run("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(1))))")

    def press(self, key: str) -> None:
        """Press a key of one character."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" and len(key) == 1 else ""
            )

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Keep what is on the screen, or the whole page, as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def call(self, method: str, **params: Any) -> Any:
        """One command of the protocol and its answer."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._target:
            message["sessionId"] = self._target
        os.write(self._down, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            got = self._next(deadline)
            if got.get("id") == number:
                if "error" in got:
                    raise AssertionError(f"{method}: {got['error']}")
                return got["result"]

    def wait(self, done: Any, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError("the page did not get there in time")
            with contextlib.suppress(TimeoutError):
                self._next(min(deadline, time.monotonic() + 0.05))

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._up)
        os.close(self._down)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._up], [], [], left)[0]:
                raise TimeoutError("no word from the browser")
            chunk = os.read(self._up, 1 << 20)
            if not chunk:
                raise AssertionError("the browser is gone")
            self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        got: dict[str, Any] = json.loads(raw)
        self._note(got)
        return got

    def _note(self, got: dict[str, Any]) -> None:
        params = got.get("params", {})
        match got.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"])[:600])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.problems.append(json.dumps(params["args"])[:600])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.problems.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.problems.append(f"dialog: {params['message']}")
