"""Whatever the file's shape, an Edit changes the bytes it was asked to change and no others."""

from __future__ import annotations

import codecs
import os
import stat
from itertools import product
from pathlib import Path

import pytest

from cowork.tools.files.edit import edit, multi_edit, write
from cowork.tools.files.read import read
from tests.tools.conftest import Agent

NEWLINES = {"lf": ["\n"], "crlf": ["\r\n"], "mixed": ["\r\n", "\n", "\n"], "cr": ["\r"]}
ENCODINGS = {
    "utf8": ("utf-8", b""),
    "utf8-bom": ("utf-8", codecs.BOM_UTF8),
    "utf16le": ("utf-16-le", codecs.BOM_UTF16_LE),
    "utf16be": ("utf-16-be", codecs.BOM_UTF16_BE),
    "utf32le": ("utf-32-le", codecs.BOM_UTF32_LE),
    "cp1252": ("cp1252", b""),
    "latin1": ("latin-1", b""),
}
LINES = ["first line", "naïve café", "\tthe target line", "after  it ", "last"]


def shaped(newlines: list[str], encoding: str, bom: bytes, final: bool, target: str) -> bytes:
    """The sample file with this target line in this shape."""
    lines = [target if line == "\tthe target line" else line for line in LINES]
    if encoding == "latin-1":
        lines[1] += "\x81"  # a byte that cp1252 does not have
    ends = [newlines[i % len(newlines)] for i in range(len(lines))]
    ends[-1] = ends[-1] if final else ""
    text = "".join(line + end for line, end in zip(lines, ends, strict=True))
    return bom + text.encode(encoding)


SHAPES = list(product(NEWLINES, ENCODINGS, [True, False]))
MODES = [0o644, 0o600, 0o755, 0o664, 0o444 | 0o200]


@pytest.mark.parametrize(("newline", "encoding", "final"), SHAPES)
@pytest.mark.parametrize("link", ["plain", "symlink", "hardlink"])
async def test_only_the_intended_bytes_differ(
    agent: Agent, folder: Path, newline: str, encoding: str, final: bool, link: str
) -> None:
    codec, bom = ENCODINGS[encoding]
    before = shaped(NEWLINES[newline], codec, bom, final, "\tthe target line")
    after = shaped(NEWLINES[newline], codec, bom, final, "\tthe new liné")
    mode = MODES[SHAPES.index((newline, encoding, final)) % len(MODES)]
    real, name = folder / "real.txt", folder / "name.txt"
    real.write_bytes(before)
    real.chmod(mode)
    match link:
        case "symlink":
            name.symlink_to("real.txt")
        case "hardlink":
            os.link(real, name)
        case _:
            name = real

    await agent.call(read, file_path=str(name))
    record = await agent.call(edit, file_path=str(name), old_string="the target line", new_string="the new liné")

    assert record.status == "success", record.text
    assert name.read_bytes() == after
    assert stat.S_IMODE(name.stat().st_mode) == mode
    assert name.is_symlink() == (link == "symlink")
    assert real.read_bytes() == (before if link == "hardlink" else after)
    assert sorted(p.name for p in folder.iterdir()) == sorted({"real.txt", name.name})


@pytest.mark.parametrize(("newline", "encoding"), list(product(["lf", "crlf", "mixed"], ENCODINGS)))
async def test_new_lines_take_the_newline_of_their_place(
    agent: Agent, folder: Path, newline: str, encoding: str
) -> None:
    codec, bom = ENCODINGS[encoding]
    path = folder / "file.txt"
    path.write_bytes(shaped(NEWLINES[newline], codec, bom, True, "\tthe target line"))
    await agent.call(read, file_path="file.txt")

    record = await agent.call(
        edit,
        file_path="file.txt",
        old_string="\tthe target line\nafter  it \n",
        new_string="\tthe target line\nadded\nafter  it \n",
    )

    assert record.status == "success", record.text
    style = NEWLINES[newline]
    expected = shaped(style, codec, bom, True, "\tthe target line").split("after".encode(codec))
    added = "added" + style[2 % len(style)]
    assert path.read_bytes() == expected[0] + added.encode(codec) + "after".encode(codec) + expected[1]


@pytest.mark.parametrize("owner", [(1234, 4321)])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_owner_and_attributes_stay(agent: Agent, folder: Path, owner: tuple[int, int]) -> None:
    path = folder / "a.txt"
    path.write_text("one\n")
    os.chown(path, *owner)
    path.chmod(0o4750)
    try:
        os.setxattr(path, "user.note", b"keep me")
        attributes = {"user.note": b"keep me"}
    except OSError:  # a file system without them
        attributes = {}
    await agent.call(read, file_path="a.txt")

    await agent.call(edit, file_path="a.txt", old_string="one", new_string="two")

    now = path.stat()
    assert path.read_text() == "two\n"
    assert (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == (*owner, 0o4750)
    assert {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith("user.")} == attributes


async def test_bytes_that_are_no_utf8_survive_an_edit_elsewhere(agent: Agent, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_bytes("größe – ünïcode ☃\n".encode() + b"stray \xff\xfe byte\nend\n")
    shown = await agent.call(read, file_path="a.txt")
    assert "stray �� byte" in shown.text
    assert "größe – ünïcode ☃" in shown.text

    await agent.call(edit, file_path="a.txt", old_string="end", new_string="Ende")

    assert path.read_bytes() == "größe – ünïcode ☃\n".encode() + b"stray \xff\xfe byte\nEnde\n"


async def test_an_edit_never_smuggles_raw_bytes_in(agent: Agent, folder: Path) -> None:
    (folder / "a.txt").write_bytes("ä ö ü\n".encode() + b"\xff\n")
    await agent.call(read, file_path="a.txt")
    record = await agent.call(edit, file_path="a.txt", old_string="ä", new_string="\udcff")
    assert record.error == {"code": "INVALID_PARAM", "message": record.text}
    assert "lone surrogate" in record.text


async def test_a_character_the_encoding_lacks_is_refused_and_named(agent: Agent, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_bytes("café\n".encode("cp1252"))
    await agent.call(read, file_path="a.txt")

    record = await agent.call(edit, file_path="a.txt", old_string="caf", new_string="→")

    assert record.status == "error"
    assert "cp1252" in record.text
    assert "U+2192" in record.text
    assert path.read_bytes() == "café\n".encode("cp1252")


async def test_write_turns_a_file_into_utf8_when_it_must_and_says_so(agent: Agent, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_bytes("café\n".encode("cp1252"))
    await agent.call(read, file_path="a.txt")

    record = await agent.call(write, file_path="a.txt", content="café → ☕\n")

    assert path.read_bytes() == "café → ☕\n".encode()
    assert "now UTF-8" in record.text


@pytest.mark.parametrize(("encoding", "final"), list(product(ENCODINGS, [True, False])))
async def test_write_keeps_newlines_mark_encoding_and_final_newline(
    agent: Agent, folder: Path, encoding: str, final: bool
) -> None:
    codec, bom = ENCODINGS[encoding]
    path = folder / "a.txt"
    path.write_bytes(shaped(["\r\n"], codec, bom, final, "x"))
    path.chmod(0o640)
    await agent.call(read, file_path="a.txt")

    await agent.call(write, file_path="a.txt", content="häl\x81lo\nthere" if codec == "latin-1" else "hällo\nthere")

    end = "\r\n" if final else ""
    hello = "häl\x81lo" if codec == "latin-1" else "hällo"
    assert path.read_bytes() == bom + f"{hello}\r\nthere{end}".encode(codec)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


async def test_a_multi_edit_of_a_mixed_file_touches_only_its_places(agent: Agent, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_bytes(b"a\r\nb\nc\r\nd\ne")
    await agent.call(read, file_path="a.txt")

    record = await agent.call(
        multi_edit,
        file_path="a.txt",
        edits=[{"old_string": "a\nb", "new_string": "A\nB"}, {"old_string": "d\ne", "new_string": "d\ne\nf"}],
    )

    assert record.status == "success", record.text
    assert path.read_bytes() == b"A\r\nB\nc\r\nd\ne\nf"
