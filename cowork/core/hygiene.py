"""What may reach a terminal, a log or a child process: text made visible, secrets taken out, environments cleaned.

`visible` judges each character by itself and never parses an escape sequence: without its introducer (ESC, a C1
byte, BEL …) a sequence is plain text, and the introducer is one character. So no split of a stream into chunks can
hide one, and no state is needed to be safe. Only four harmless things depend on the neighbours: CRLF, a joiner inside
an emoji or a script that needs it, a flood of marks on one character, and a surrogate pair cut in two; `Visible` puts
those right in a stream. `inert` is the last step before a terminal, whatever was done before.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

# Kept joiners: between emoji (family, flags) and between letters of scripts whose spelling needs them (Arabic to
# Sinhala). Anywhere else a joiner only serves to make two texts look alike.
_EMOJI = "\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001fbff\ufe0f\u20e3"
_LETTERS = "\u0600-\u0604\u0606-\u061b\u061d-\u0dff\u1780-\u17b3\u17b6-\u17ff"
# Marks that are drawn over the character before them: the blocks that have them, without the letters in those.
_MARK = (
    r"(?!\w)[\u0300-\u1fff\u20d0-\u20ff\u2cef-\u2cf1\u2d7f\u2de0-\u2dff\u302a-\u302f\u3099\u309a\ua66f-\uabed\ufb1e"
    r"\ufe0e\ufe0f\ufe20-\ufe2f\U000101fd-\U00011fff\U00013440-\U00016fe4\U0001bc9d\U0001bc9e"
    r"\U0001cf00-\U0001cf46\U0001d165-\U0001d244\U0001da00-\U0001e94a]"
)
_MARKS = 8  # on one character; no spelling needs as many, and a flood of them covers the lines around it
_STEERS = (
    "\r\n"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # C0 but tab and newline, DEL, 8-bit C1
    "|[\u00ad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0]"  # drawn as nothing
    "|[\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb]"  # zero width, bidi, separators
    "|[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"  # cannot be encoded, or no character at all
    "|[\ufe00-\ufe0d\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# What only text beyond ASCII needs is compiled when the first comes: it would be a good part of a start.
_HIDDEN = (
    f"{_STEERS}|(?<![{_EMOJI}{_LETTERS}])[\u200c\u200d]|[\u200c\u200d](?![{_EMOJI}{_LETTERS}])"
    f"|{_MARK}(?<={f'(?:{_MARK})' * (_MARKS + 1)})"
)
_CONTROLS = re.compile("\r\n|[\x00-\x08\x0b-\x1f\x7f]")  # all there is in ASCII, which most text is
_HELD = f"(?:\r|[\ud800-\udbff]|(?<=[{_EMOJI}{_LETTERS}])[\u200c\u200d])\\Z"
_BEFORE = f"(?:[{_EMOJI}{_LETTERS}]|(?:{_MARK}){{1,{_MARKS}}})\\Z"  # what the next character is judged by

REDACTED = "[redacted]"
_SHORTEST_SECRET = 6  # a shorter one would blank out ordinary words

_KEY_NAME = (
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIAL|(?:^|_)(?:TOKEN|PAT|PASS|KEY|AUTH)S?$"
    r"|_TOKEN_|^OTEL_EXPORTER_OTLP_(?:\w+_)?HEADERS$"
    r"|^(?:DATABASE_URL|REDIS_URL|MONGO(?:DB)?_UR[IL]|KUBECONFIG|NETRC|VAULT_ADDR|DOCKER_AUTH_CONFIG)$"
)
_KEYS = re.compile(_KEY_NAME, re.IGNORECASE)
_SECRET_NAME = re.compile(
    rf"{_KEY_NAME}|^(?:LLM|LIGHT_LLM|AWS|AZURE|GOOGLE|GCP|GCLOUD|ANTHROPIC|OPENAI|OPENROUTER|HF|COWORK)_", re.IGNORECASE
)
_LOGIN = re.compile(r"://[^/\s@]*:[^/\s@]+@")
# Variables that make a shell, the loader, an interpreter or git run something of their own in every child.
_CODE_NAME = re.compile(
    r"^(?:BASH_ENV|ENV|BASH_FUNC_.*|BASHOPTS|SHELLOPTS|PROMPT_COMMAND|PS4|BASH_XTRACEFD|CDPATH|GLOBIGNORE|IFS|ZDOTDIR"
    r"|FIGNORE|EXECIGNORE|LD_(?:PRELOAD|AUDIT|DEBUG_OUTPUT|PROFILE.*)|DYLD_.*|GCONV_PATH|LOCPATH|NLSPATH|MALLOC_TRACE"
    r"|PERL5OPT|PERL5DB|PERL5LIB|PERLLIB|RUBYOPT|RUBYLIB|NODE_OPTIONS|PYTHONSTARTUP|PYTHONINSPECT|PYTHONWARNINGS"
    r"|PYTHONHOME|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|LESSOPEN|LESSCLOSE|GREP_OPTIONS|RIPGREP_CONFIG_PATH"
    r"|GIT_(?:EXTERNAL_DIFF|CONFIG.*|SSH|SSH_COMMAND|PAGER|EDITOR|SEQUENCE_EDITOR|ASKPASS|PROXY_COMMAND|EXEC_PATH"
    r"|TEMPLATE_DIR|DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|COMMON_DIR|NAMESPACE|ALTERNATE_OBJECT_DIRECTORIES|TRACE.*)"
    r"|SSH_ASKPASS|SUDO_ASKPASS|PAGER|MANPAGER|LS_OPTIONS|TAR_OPTIONS|ZIPOPT|MAKEFLAGS|MFLAGS|GNUMAKEFLAGS"
    r"|TREE_SITTER_.*|_RLD_.*|FZF_DEFAULT_COMMAND|FD_.*OPTIONS)$"
)

# git reads without running what a repository's configuration names, without writing its index and without a prompt.
_GIT_READS = {
    "core.fsmonitor": "false",
    "safe.bareRepository": "explicit",
    "log.showSignature": "false",
    "diff.autoRefreshIndex": "false",
}


def visible(text: str) -> str:
    r"""The text with everything that could steer a terminal or hide itself shown as `\x1b`, `\u202e` …"""
    return _CONTROLS.sub(_escape, text) if text.isascii() else re.sub(_HIDDEN, _escape, text)


def visible_line(text: str) -> str:
    """The same in one line: a name with a newline in it must not look like a line of ours."""
    return visible(text).replace("\n", "\\n")


def inert(text: str) -> str:
    """The text without anything a terminal would act on; no neighbour is looked at, so a line may come in pieces."""
    return _CONTROLS.sub(_escape, text) if text.isascii() else re.sub(_STEERS, _escape, text)


def ascii_json(value: object, **options: Any) -> str:
    """JSON without any byte a terminal would act on, whichever way it is shown."""
    return json.dumps(value, ensure_ascii=True, **options).replace("\x7f", "\\u007f")


class Visible:
    """`visible` for a stream: also joins what a chunk border cut in two. `end` gives what was held back."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""  # the characters before, where the next is judged by them

    def feed(self, chunk: str) -> str:
        """What of the stream may be drawn now."""
        if chunk.isascii() and chunk and not self._held and chunk[-1] != "\r":
            self._last = ""
            return visible(chunk)
        joined = (self._held + chunk).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        text = self._last + joined
        held = re.search(_HELD, text)
        cut = len(text) if held is None else held.start()
        return self._draw(text, cut)

    def end(self) -> str:
        """What was held back, when no more will come."""
        text = self._last + self._held
        return self._draw(text, len(text))

    def _draw(self, text: str, cut: int) -> str:
        drawn = visible(text[:cut])[len(visible(self._last)) :]
        self._held = text[cut:]
        before = re.search(_BEFORE, text[max(0, cut - _MARKS) : cut])
        self._last = before.group() if before else ""
        return drawn


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text with every known secret, also as JSON, URL or base64 would spell it, replaced."""
    for spelling in _spellings(secrets):
        if spelling in text:
            text = text.replace(spelling, REDACTED)
    return text


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """The values of an environment that no file may hold: those named as keys are, and addresses with a password."""
    return [value for name, value in environ.items() if _KEYS.search(name) or has_password(value)]


def has_password(text: str) -> bool:
    """Whether a text holds an address with a password in it."""
    return bool(_LOGIN.search(text))


def clean_environ(environ: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """What child processes may see: no keys by name or value, nothing that runs code in every child, a tame git."""
    spellings = _spellings(secrets)
    kept = {
        name: value
        for name, value in environ.items()
        if not _SECRET_NAME.search(name)
        and not _CODE_NAME.match(name)
        and not value.startswith("() {")
        and not has_password(value)
        and not any(spelling in value for spelling in spellings)
    }
    if "PATH" in kept:  # an empty or relative entry would run programs of whatever folder one is in
        kept["PATH"] = os.pathsep.join(place for place in kept["PATH"].split(os.pathsep) if os.path.isabs(place))
    for number, (key, value) in enumerate(_GIT_READS.items()):
        kept |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return kept | {"GIT_CONFIG_COUNT": str(len(_GIT_READS)), "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def _escape(match: re.Match[str]) -> str:
    found = match.group()
    if found == "\r\n":
        return "\n"
    code = ord(found)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _spellings(secrets: Iterable[str]) -> list[str]:
    found: set[str] = set()
    for secret in secrets:
        if len(secret) < _SHORTEST_SECRET:
            continue
        raw = secret.encode("utf-8", "surrogateescape")
        found |= {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(raw, safe="")}
        found |= {base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")}
    return sorted(found, key=lambda spelling: (-len(spelling), spelling))


def conceal() -> None:
    """No other process of the user may read our memory or environment, and a crash leaves no core of it (Linux)."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE; not passed on to what we start
