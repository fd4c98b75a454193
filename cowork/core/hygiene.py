"""What may reach a terminal, a log or a child process: text made visible, secrets taken out, environments cleaned.

`visible` judges each character by itself and never parses an escape sequence: without its introducer (ESC, a C1
byte, BEL …) a sequence is plain text, and the introducer is one character. So no split of a stream into chunks can
hide one, and no state is needed to be safe. Only three harmless things depend on the neighbours: CRLF, a joiner inside
an emoji or a script that needs it, and a surrogate pair cut in two; `Visible` puts those right in a stream.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

# Kept joiners: between emoji (family, flags) and between letters of scripts whose spelling needs them (Arabic to
# Sinhala). Anywhere else a joiner only serves to make two texts look alike.
_EMOJI = "\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001fbff\ufe0f\u20e3"
_LETTERS = "\u0600-\u0604\u0606-\u061b\u061d-\u0dff\u1780-\u17b3\u17b6-\u17ff"
_HIDDEN = re.compile(
    "\r\n"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # C0 but tab and newline, DEL, 8-bit C1
    "|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0]"  # drawn as nothing
    "|[\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"  # zero width, bidi, separators
    "|[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"  # cannot be encoded, or no character at all
    "|[\ufe00-\ufe0d\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # selectors, tags
    f"|(?<![{_EMOJI}{_LETTERS}])[\u200c\u200d]|[\u200c\u200d](?![{_EMOJI}{_LETTERS}])"
)
_JOINABLE = re.compile(f"[{_EMOJI}{_LETTERS}]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HELD = re.compile(f"(?:\r|[\ud800-\udbff]|(?<=[{_EMOJI}{_LETTERS}])[\u200c\u200d])\\Z")

REDACTED = "[redacted]"
_SHORTEST_SECRET = 6  # a shorter one would blank out ordinary words

_SECRET_NAME = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIAL|(?:^|_)(?:TOKEN|PAT|PASS|KEY|AUTH)S?$"
    r"|_TOKEN_|^(?:LLM|LIGHT_LLM|AWS|AZURE|GOOGLE|GCP|GCLOUD|ANTHROPIC|OPENAI|OPENROUTER|HF|COWORK)_"
    r"|^(?:DATABASE_URL|REDIS_URL|MONGO(?:DB)?_UR[IL]|KUBECONFIG|NETRC|VAULT_ADDR|DOCKER_AUTH_CONFIG)$",
    re.IGNORECASE,
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
    return _HIDDEN.sub(_escaped, text)


class Visible:
    """`visible` for a stream: also joins what a chunk border cut in two. `end` gives what was held back."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""  # the character before, when a joiner may follow it

    def feed(self, chunk: str) -> str:
        """What of the stream may be drawn now."""
        text = self._last + _PAIR.sub(_joined, self._held + chunk)
        held = _HELD.search(text)
        cut = len(text) if held is None else held.start()
        return self._draw(text, cut)

    def end(self) -> str:
        """What was held back, when no more will come."""
        text = self._last + self._held
        return self._draw(text, len(text))

    def _draw(self, text: str, cut: int) -> str:
        drawn = visible(text[:cut])[len(self._last) :]
        self._held = text[cut:]
        self._last = text[cut - 1] if cut and _JOINABLE.match(text[cut - 1]) else ""
        return drawn


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text with every known secret, also as JSON, URL or base64 would spell it, replaced."""
    for spelling in _spellings(secrets):
        if spelling in text:
            text = text.replace(spelling, REDACTED)
    return text


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


def _escaped(match: re.Match[str]) -> str:
    found = match.group()
    if found == "\r\n":
        return "\n"
    code = ord(found)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _joined(match: re.Match[str]) -> str:
    return match.group().encode("utf-16", "surrogatepass").decode("utf-16")


def _spellings(secrets: Iterable[str]) -> list[str]:
    found: set[str] = set()
    for secret in secrets:
        if len(secret) < _SHORTEST_SECRET:
            continue
        raw = secret.encode("utf-8", "surrogateescape")
        found |= {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(raw, safe="")}
        found |= {base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")}
    return sorted(found, key=lambda spelling: (-len(spelling), spelling))
