"""Terminal and secret hygiene: hostile payloads under every chunk split, and environments of children."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cowork.core.hygiene import REDACTED, Visible, ascii_json, clean_environ, inert, redact, secrets_of, visible

INTRODUCERS = {"csi": "\x1b[", "osc": "\x1b]", "dcs": "\x1bP", "apc": "\x1b_", "pm": "\x1b^", "sos": "\x1bX"}
INTRODUCERS |= {
    "c1-csi": "\x9b",
    "c1-osc": "\x9d",
    "c1-dcs": "\x90",
    "c1-apc": "\x9f",
    "c1-pm": "\x9e",
    "c1-sos": "\x98",
}
BODIES = ["31m", "2J", "6n", "?1049h", "?2004h", "0;title\x07", "8;;http://x\x1b\\", "52;c;ZXZpbA==\x07"]
BODIES += ["9;note\x07", "777;notify;a;b\x1b\\", "$q\x1b\\", "1337;File=:QQ==\x07", "3J", "999D", "1A\x1b[2K"]
SINGLES = [chr(code) for code in range(0x20) if chr(code) not in "\t\n"] + [chr(code) for code in range(0x7F, 0xA0)]
SINGLES += list(
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e"
)
SINGLES += list(
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u206f\u3164\ufe00\ufeff\uffa0\ufff9\ufffa\ufffb\uffff"
)
SINGLES += ["\U000e0001", "\U000e0041", "\U000e007f", "\U000e0100", "\U0001d173", "\ud83d", "\udc00"]
SINGLES += ["\u070f", "\U00013430", "\ufff0", "e" + "\u0301" * 30, "\ufe0f" * 20]
MIXED = ["ok\rEVIL", "a\b\b\bxyz", "abc\x1bc", "\x1b(0lqk", "\x1b7\x1b8", "\x1bM", "\x1b#8", "x\x1b[1;1H\x1b[Jroot#"]
PAYLOADS = [start + body for start in INTRODUCERS.values() for body in BODIES] + SINGLES + MIXED

KEPT = [
    "plain ascii\twith a tab\nand lines\n",
    "naïve café — “quotes” … 日本語 한국어 Ελληνικά עברית العربية",
    "e\u0301 a\u0308 combining, 👍🏽 👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 ❤️ ✔︎ 1️⃣",
    "می‌خواهم क्‍ष",
    "┌─┐ │ ▏█ ⠋ ✓ → \ue0b0 nbsp\u00a0here",
]


def harmless(text: str) -> bool:
    """No character is left that a terminal acts on or that hides itself."""
    return not any(
        (ord(c) < 0x20 and c not in "\t\n")
        or 0x7F <= ord(c) < 0xA0
        or c in "\u202e\u2066\u200b\ufeff"
        or 0xD800 <= ord(c) < 0xE000
        for c in text
    )


def test_there_are_enough_payloads() -> None:
    assert len(set(PAYLOADS)) >= 150


@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
def test_a_payload_is_shown_escaped_under_every_chunk_split(payload: str) -> None:
    text = f"before {payload} after"
    whole = visible(text)
    assert harmless(whole)
    assert "\\" in whole
    for cut in range(len(text) + 1):
        assert harmless(visible(text[:cut]) + visible(text[cut:]))
        stream = Visible()
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.end() == whole


@pytest.mark.parametrize("text", KEPT)
def test_honest_text_is_kept_under_every_chunk_split(text: str) -> None:
    assert visible(text) == text
    for cut in range(len(text) + 1):
        stream = Visible()
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.end() == text


def test_crlf_is_a_newline_and_a_lone_return_is_shown() -> None:
    assert visible("a\r\nb") == "a\nb"
    assert visible("a\rb\r") == "a\\x0db\\x0d"


def test_escapes_are_spelled_by_width() -> None:
    assert visible("\x1b\u202e\U000e0041") == "\\x1b\\u202e\\U000e0041"


def test_whatever_is_drawn_as_nothing_is_shown() -> None:
    seen = "\t\n" + "".join(map(chr, (*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)))  # signs
    formats = [chr(c) for c in range(sys.maxunicode + 1) if category(chr(c)) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert [c for c in formats if visible(c) == c] == list(seen)


def test_a_flood_of_marks_is_shown_and_any_spelling_is_kept() -> None:
    marks = [chr(c) for c in range(0x300, sys.maxunicode + 1) if category(chr(c)) in ("Mn", "Me")]
    assert [m for m in marks if len(visible(f"a{m * 30}b")) < 100] == []
    assert visible("e" + "\u0301" * 9) == "e" + "\u0301" * 8 + "\\u0301"
    assert visible("─" * 40 + "🎉" * 40 + "。" * 40) == "─" * 40 + "🎉" * 40 + "。" * 40


@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
def test_pieces_of_a_line_are_inert_whatever_is_around_them(payload: str) -> None:
    for cut in range(len(payload) + 1):
        assert harmless(inert(payload[:cut]) + inert(payload[cut:]))


def test_joined_letters_stay_joined_where_a_line_is_drawn_in_pieces() -> None:
    for text in KEPT:
        assert "".join(map(inert, text)) == text


def test_json_holds_no_byte_a_terminal_acts_on_and_means_the_same() -> None:
    text = ascii_json({p: [p] for p in PAYLOADS}, indent=1)
    assert harmless(text)
    assert text.isascii()
    assert json.loads(text) == {p: [p] for p in PAYLOADS}


def test_a_surrogate_pair_cut_in_two_is_joined_again() -> None:
    stream = Visible()
    assert stream.feed("a\ud83d") + stream.feed("\ude00b") + stream.end() == "a😀b"


@given(
    st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\r\n\x1b\u200d👩💻\ud83d\u0301\u034f")), max_size=60),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_any_split_draws_the_same_harmless_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    stream = Visible()
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    out = "".join(stream.feed(part) for part in parts) + stream.end()
    assert harmless(out)
    assert harmless("".join(visible(part) for part in parts))
    out.encode()


def test_a_megabyte_takes_a_moment() -> None:
    start = time.process_time()
    visible("plain text of a log line\n" * 40_000)
    visible("\x1b[31m" * 200_000)
    assert time.process_time() - start < 2


SECRET = 'sk-ant-"odd\\key/é+='


@pytest.mark.parametrize(
    "text",
    [
        f"key={SECRET}!",
        json.dumps({"a": SECRET}),
        json.dumps({"a": SECRET}, ensure_ascii=False),
        "https://x/?k=sk-ant-%22odd%5Ckey%2F%C3%A9%2B%3D&b",
        base64.b64encode(SECRET.encode()).decode(),
        f"{SECRET}{SECRET}",
    ],
)
def test_a_secret_is_taken_out_in_every_spelling(text: str) -> None:
    out = redact(text, [SECRET])
    assert REDACTED in out
    assert "odd" not in out


def test_a_short_or_empty_secret_ruins_no_text() -> None:
    assert redact("a b c", ["", "a"]) == "a b c"


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert redact("abcdef-more", ["abcdef", "abcdef-more"]) == REDACTED


DROPPED = "ANTHROPIC_API_KEY OPENAI_API_KEY LLM_API_KEY LIGHT_LLM_MODEL_ID GITHUB_TOKEN GH_TOKEN NPM_TOKEN AWS_PROFILE"
DROPPED += (
    " AWS_SECRET_ACCESS_KEY AZURE_CLIENT_ID GOOGLE_APPLICATION_CREDENTIALS MY_SECRET_THING DB_PASSWORD PGPASSWORD"
)
DROPPED += (
    " DATABASE_URL KUBECONFIG BASH_ENV ENV LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES PROMPT_COMMAND PS4 SHELLOPTS"
)
DROPPED += " NODE_OPTIONS PYTHONSTARTUP PERL5OPT RUBYOPT GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT GIT_SSH_COMMAND CDPATH IFS"
DROPPED += (
    " BASH_FUNC_ls%% RIPGREP_CONFIG_PATH COWORK_HOME GIT_DIR LESSOPEN npm_config_token SOME_TOKEN_FILE STRIPE_KEY"
)
STAY = "PATH HOME LANG LC_ALL TERM USER SHELL TMPDIR VIRTUAL_ENV EDITOR GOPATH CARGO_HOME JAVA_HOME CI SSH_AUTH_SOCK"
STAY += " XDG_CONFIG_HOME KEYBOARD MONKEY TOKENIZERS_PARALLELISM LD_LIBRARY_PATH PYTHONPATH COLUMNS"


def test_a_child_sees_no_keys_and_nothing_that_runs_code() -> None:
    environ = dict.fromkeys([*DROPPED.split(), *STAY.split()], "x")
    assert sorted(n for n in clean_environ(environ) if not n.startswith("GIT_")) == sorted(STAY.split())


def test_a_secret_is_found_by_its_value_too() -> None:
    environ = {"HARMLESS": f"https://u:{SECRET}@h", "PATH": "/bin", "F": "() { :; }; evil"}
    assert {n: v for n, v in clean_environ(environ, [SECRET]).items() if not n.startswith("GIT_")} == {"PATH": "/bin"}


def test_the_real_environment_keeps_its_path() -> None:
    assert clean_environ(os.environ)["PATH"] == os.environ["PATH"]


def test_an_address_with_a_password_is_no_childs_business() -> None:
    environ = {
        "HTTPS_PROXY": "http://me:pw@proxy:1",
        "PIP_INDEX_URL": "https://:tok@host/simple",
        "URL": "http://h:80/@a",
    }
    kept = {name for name in clean_environ(environ) if not name.startswith("GIT_")}
    assert kept == {"URL"}


def test_what_no_file_may_hold_of_an_environment() -> None:
    environ = {"MY_PASSWORD": "a1", "DATABASE_URL": "b2", "GITHUB_TOKEN": "c3", "PROXY": "http://me:d4@proxy"}
    assert secrets_of(environ | {"HOME": "/home/ada", "LLM_PROVIDER": "openai"}) == list(environ.values())
