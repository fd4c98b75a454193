"""Read shows the right window of anything that is text, and says the right thing about everything else, quickly."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import struct
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.core.ports import ToolRecord
from cowork.tools import converter
from cowork.tools.base import Tool
from cowork.tools.files.media import MAX_IMAGE, cells
from cowork.tools.files.read import MAX_LINE, PAGE_BYTES, PAGE_LINES, read, window
from tests.fakes.effort import bytes_read
from tests.tools.conftest import Agent


def code(record: ToolRecord) -> str:
    return record.error["code"] if record.error else record.status


async def test_lines_come_numbered_and_exact(agent: Agent, folder: Path) -> None:
    (folder / "a.py").write_text("def f():\n\treturn  1 \n\nlast")
    record = await agent.call(read, file_path="a.py")
    assert record.text == "1\tdef f():\n2\t\treturn  1 \n3\t\n4\tlast"
    assert record.status == "success"
    assert record.data == {
        "path": "a.py",
        "offset": 1,
        "lines": 4,
        "total_lines": 4,
        "truncated": False,
        "encoding": "utf-8",
        "bytes": 26,
    }
    assert record.display["summary"] == "4 lines"


async def test_a_window_says_how_to_go_on(agent: Agent, folder: Path) -> None:
    (folder / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    record = await agent.call(read, file_path="a.txt", offset=10, limit=2)
    assert record.text == "10\tline 10\n11\tline 11\n\n[Lines 10-11 of 100. Go on with offset=12.]"
    assert record.status == "success"
    last = await agent.call(read, file_path="a.txt", offset=100, limit=50)
    assert last.text == "100\tline 100"


async def test_a_long_file_is_partial_and_stays_within_the_clipping(agent: Agent, folder: Path) -> None:
    (folder / "a.txt").write_text("x\n" * 5000)
    record = await agent.call(read, file_path="a.txt")
    assert record.status == "partial"
    assert record.text.endswith("[Lines 1-1996 of 5000. Go on with offset=1997.]")
    assert record.text.count("\n") < 2000
    (folder / "b.txt").write_text("é" * 900 + "\n" + ("ü" * 900 + "\n") * 200)
    record = await agent.call(read, file_path="b.txt")
    assert record.status == "partial"
    assert len(record.text.encode()) < 50_000
    assert "Go on with offset=27." in record.text


async def test_paging_through_a_file_gives_all_of_it(agent: Agent, folder: Path) -> None:
    lines = [f"{n} " + "é" * (n % 300) for n in range(4000)]
    (folder / "a.txt").write_text("\n".join(lines))
    got: list[str] = []
    while len(got) < len(lines):
        record = await agent.call(read, file_path="a.txt", offset=len(got) + 1)
        page = record.text.split("\n\n[")[0].split("\n")
        assert page[0].startswith(f"{len(got) + 1}\t")
        got += [line.split("\t", 1)[1] for line in page]
    assert got == lines


async def test_an_offset_past_the_end_is_refused(agent: Agent, folder: Path) -> None:
    (folder / "a.txt").write_text("one\ntwo\n")
    record = await agent.call(read, file_path="a.txt", offset=3)
    assert code(record) == "INVALID_PARAM"
    assert "has 2 lines" in record.text
    assert code(await agent.call(read, file_path="a.txt", offset=-1)) == "INVALID_PARAM"
    assert (await agent.call(read, file_path="a.txt", offset=0)).text == "1\tone\n2\ttwo"


async def test_an_empty_file_is_said_to_be_empty(agent: Agent, folder: Path) -> None:
    (folder / "a.txt").touch()
    assert (await agent.call(read, file_path="a.txt")).text == "a.txt is empty (0 bytes)."
    (folder / "b.txt").write_bytes(b"\xef\xbb\xbf")
    assert (await agent.call(read, file_path="b.txt")).text == "b.txt is empty (only a byte order mark)."


async def test_a_long_line_is_clipped_with_a_note(agent: Agent, folder: Path) -> None:
    (folder / "a.txt").write_text("é" * 3000 + "\nshort\n")
    record = await agent.call(read, file_path="a.txt")
    first, second, *_ = record.text.split("\n")
    assert first == "1\t" + "é" * MAX_LINE + " … [2000 more bytes]"
    assert second == "2\tshort"
    assert record.status == "partial"
    assert "clipped" in record.text


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("größe ☃\n".encode(), "utf-8"),
        ("\ufeffgröße ☃\n".encode(), "utf-8 with BOM"),
        ("\ufeffgröße ☃\r\n".encode("utf-16-le"), "utf-16-le with BOM"),
        ("\ufeffgröße ☃\n".encode("utf-16-be"), "utf-16-be with BOM"),
        ("\ufeffgröße ☃\n".encode("utf-32-le"), "utf-32-le with BOM"),
        ("größe €\n".encode("cp1252"), "cp1252"),
        ("größe \x81\n".encode("latin-1"), "latin-1"),
    ],
)
async def test_encodings_are_told_apart(agent: Agent, folder: Path, data: bytes, name: str) -> None:
    (folder / "a.txt").write_bytes(data)
    record = await agent.call(read, file_path="a.txt")
    assert record.data["encoding"] == name
    assert record.text.startswith("1\tgröße ")
    assert ("Edit keeps that" in record.text) == (name != "utf-8")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\0" * 100, "is binary, not text"),
        (b"\x7fELF" + bytes(60), "is binary (ELF program)"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "is binary (gzip)"),
        (bytes(range(1, 32)) * 20, "is binary, not text"),
        (b"\xff\xfe" + b"\x00\xd8" * 20, "is binary, not text"),
        (b"\xff\xfeab\0", "is binary, not text"),
    ],
)
async def test_binary_files_are_named_as_such(agent: Agent, folder: Path, data: bytes, said: str) -> None:
    (folder / "blob").write_bytes(data)
    record = await agent.call(read, file_path="blob")
    assert code(record) == "BINARY_FILE"
    assert said in record.text


async def test_a_directory_is_not_a_file(agent: Agent) -> None:
    assert code(await agent.call(read, file_path=".")) == "IS_DIRECTORY"


async def test_a_missing_file_brings_the_nearest_names(agent: Agent, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "parser.py").touch()
    (folder / "README.md").touch()
    assert (await agent.call(read, file_path="readme.md")).data["nearest"] == ["README.md"]
    assert (await agent.call(read, file_path="src/parsers.py")).data["nearest"] == ["src/parser.py"]
    assert (await agent.call(read, file_path="lib/parser.py")).data["nearest"] == ["src/parser.py"]
    assert (await agent.call(read, file_path="scr/x.py")).data["nearest"] == ["src"]
    assert code(await agent.call(read, file_path="README.md/x")) == "NOT_FOUND"
    assert code(await agent.call(read, file_path="x" * 300)) in ("INVALID_PARAM", "NOT_FOUND")


async def test_names_outside_the_workspace_are_not_told(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "secret-plan.txt").touch()
    record = await agent.call(read, file_path="../secret-plans.txt")
    assert code(record) == "ACCESS_DENIED"
    assert "secret-plan.txt" not in record.text.replace("secret-plans.txt", "")


async def test_special_files_answer_at_once(agent: Agent, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        with contextlib.chdir(folder):  # socket paths must be short
            server.bind("sock")
        for name in ("pipe", "sock", "/dev/zero", "/dev/tty", "/dev/stdin", "/dev/full"):
            record = await agent.call(read, file_path=name)
            assert code(record) in ("ACCESS_DENIED", "NOT_FOUND"), record.text


async def test_reading_does_not_wake_a_writer_that_waits_on_a_pipe(agent: Agent, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    await agent.call(read, file_path="pipe")
    with pytest.raises(OSError):
        os.open(folder / "pipe", os.O_WRONLY | os.O_NONBLOCK)  # nobody reads


async def test_windows_into_the_system_stay_shut(agent: Agent) -> None:
    names = ["/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/kmsg", "/proc/self/mem", "/dev/fd/0", "/sys"]
    codes = [code(await agent.call(read, file_path=name)) for name in names]
    assert set(codes) == {"ACCESS_DENIED"}


async def test_a_loop_of_links_is_an_answer(agent: Agent, folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    assert code(await agent.call(read, file_path="a")) in ("NOT_FOUND", "ACCESS_DENIED")


async def test_a_sparse_file_of_ten_gigabytes_costs_nothing(agent: Agent, folder: Path) -> None:
    with open(folder / "sparse", "wb") as file:
        file.truncate(10 << 30)
    before = bytes_read()
    assert code(await agent.call(read, file_path="sparse")) == "BINARY_FILE"
    assert bytes_read() - before < 1 << 20
    with open(folder / "text", "wb") as file:
        file.write(b"first\n" * 5000)
        file.truncate(10 << 30)
    tracemalloc.start()
    record = await agent.call(read, file_path="text", limit=3)
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()
    assert record.text.startswith("1\tfirst\n2\tfirst\n3\tfirst\n")
    assert record.data["total_lines"] is None


async def test_a_line_of_a_hundred_megabytes_is_bounded(agent: Agent, folder: Path) -> None:
    path = folder / "long"
    with open(path, "wb") as file:
        piece = b"x" * (1 << 20)
        for _ in range(100):
            file.write(piece)
        file.write(b"\nlast\n")
    tracemalloc.start()
    record = await agent.call(read, file_path="long")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    path.unlink()
    assert peak < 30_000_000
    assert record.status == "partial"
    assert len(record.text) < 3000
    assert "use Bash to change it" in record.text


async def test_a_window_deep_in_a_large_file(agent: Agent, folder: Path) -> None:
    path = folder / "big.log"
    with open(path, "wb") as file:
        for start in range(0, 3_000_000, 50_000):
            file.write(b"".join(b"entry %d\n" % n for n in range(start, start + 50_000)))
    record = await agent.call(read, file_path="big.log", offset=2_999_999, limit=10)
    assert record.text.startswith("2999999\tentry 2999998\n3000000\tentry 2999999\n\n[")
    assert record.data["total_lines"] == 3_000_000
    assert code(await agent.call(read, file_path="big.log", offset=3_000_001)) == "INVALID_PARAM"
    path.unlink()


@pytest.mark.parametrize("encoding", ["utf-16-le", "cp1252", "utf-8"])
async def test_a_large_file_of_any_encoding_is_paged(agent: Agent, folder: Path, encoding: str) -> None:
    path = folder / "big.txt"
    bom = "\ufeff" if encoding == "utf-16-le" else ""
    text = "".join(f"zeile {n} größe, {'länge' * 10}\r\n" for n in range(320_000))
    path.write_bytes((bom + text).encode(encoding))
    assert path.stat().st_size > 20_000_000
    record = await agent.call(read, file_path="big.txt", offset=300_000, limit=2)
    path.unlink()
    assert record.text.split("\n")[:2] == [f"{n + 1}\tzeile {n} größe, {'länge' * 10}" for n in (299_999, 300_000)]


CHUNKS = st.lists(st.binary(max_size=12).map(lambda b: b.translate(bytes(b"ab\n\r"[i % 4] for i in range(256)))))


@given(CHUNKS, st.integers(1, 8), st.integers(1, 8))
def test_a_window_is_the_same_however_the_bytes_arrive(chunks: list[bytes], first: int, limit: int) -> None:
    data = b"".join(chunks)
    lines = data.decode().split("\n")
    lines = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    taken = window(iter(chunks), "utf-8", first, limit, budget=1 << 30)
    assert taken.lines == lines[first - 1 : first - 1 + limit]
    assert taken.total == len(lines)
    assert taken.ended


@given(st.text(max_size=60), st.integers(1, 5))
def test_wide_encodings_may_be_cut_anywhere(text: str, size: int) -> None:
    text = text.replace("\r", "")
    data = text.encode("utf-16-le", "replace")
    chunks = [data[i : i + size] for i in range(0, len(data), size)]
    taken = window(iter(chunks), "utf-16-le", 1, 1000, budget=1 << 30)
    shown = data.decode("utf-16-le").replace("\0", "�")
    assert "\n".join(taken.lines) == shown.removesuffix("\n")


def test_a_page_never_exceeds_its_room() -> None:
    taken = window(iter([b"y" * 1999 + b"\n"] * 500), "utf-8", 1, PAGE_LINES, budget=1 << 30)
    assert sum(len(line) + 8 for line in taken.lines) <= PAGE_BYTES
    assert taken.room < 0
    assert taken.total == 500


# ---------------------------------------------------------------- images


def png(width: int, height: int, padding: int = 0) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(min(height, 100))))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"tEXt", bytes(padding))
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    b"\xff\xc0\x00\x11\x08\x00\x20\x00\x40\x03\x01\x22\0\x02\x11\x01\x03\x11\x01" + bytes(40) + b"\xff\xd9"
)
GIF = b"GIF89a" + struct.pack("<HH", 3, 5) + bytes(30) + b";"
WEBP = b"RIFF" + struct.pack("<I", 30) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\x0f\0\0\x1f\0\0" + bytes(8)
WEBP_LOSSLESS = WEBP[:12] + b"VP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 15 | 31 << 14) + bytes(13)
WEBP_LOSSY = WEBP[:12] + b"VP8 " + bytes(10) + struct.pack("<HH", 16, 32) + bytes(8)


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (png(20, 10), "image/png", (20, 10)),
        (JPEG, "image/jpeg", (64, 32)),
        (GIF, "image/gif", (3, 5)),
        (WEBP, "image/webp", (16, 32)),
        (WEBP_LOSSLESS, "image/webp", (16, 32)),
        (WEBP_LOSSY, "image/webp", (16, 32)),
    ],
)
async def test_an_image_is_shown_by_what_it_is_not_by_its_name(
    agent: Agent, folder: Path, data: bytes, kind: str, size: tuple[int, int]
) -> None:
    (folder / "picture.dat").write_bytes(data)
    record = await agent.call(read, file_path="picture.dat")
    assert record.status == "success", record.text
    (image,) = record.images
    assert (image.media_type, base64.b64decode(image.data)) == (kind, data)
    assert (record.data["width"], record.data["height"]) == size


@pytest.mark.parametrize(
    ("data", "expected", "said"),
    [
        (png(20, 10, MAX_IMAGE), "INVALID_PARAM", "at most 3.75 MB"),
        (png(9000, 10), "INVALID_PARAM", "9000×10 pixels"),
        (png(20, 10)[:-20], "BINARY_FILE", "damaged"),
        (b"\x89PNG\r\n\x1a\n", "BINARY_FILE", "damaged"),
        (JPEG[:60], "BINARY_FILE", "damaged"),
        (b"\xff\xd8\xff", "BINARY_FILE", "damaged"),
        (WEBP[:-4], "BINARY_FILE", "damaged"),
        (b"GIF89a", "BINARY_FILE", "damaged"),
    ],
)
async def test_an_image_the_model_could_not_take_is_refused(
    agent: Agent, folder: Path, data: bytes, expected: str, said: str
) -> None:
    (folder / "picture.png").write_bytes(data)
    record = await agent.call(read, file_path="picture.png")
    assert code(record) == expected
    assert said in record.text
    assert record.images == ()


# ---------------------------------------------------------------- notebooks and PDFs

NOTEBOOK = {
    "nbformat": 4,
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "source": "print('hi')\nplot()",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["hi\n"]},
                {"output_type": "display_data", "data": {"image/png": base64.b64encode(png(4, 4)).decode()}},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mboom\x1b[0m"]},
                {"output_type": "execute_result", "data": {"text/plain": ["x" * 9000]}},
            ],
        },
    ],
}


async def test_a_notebook_is_shown_as_cells(agent: Agent, folder: Path) -> None:
    (folder / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    record = await agent.call(read, file_path="n.ipynb")
    assert record.text.startswith(
        "# cell 1: markdown\n# Title\nwords\n\n# cell 2: code (run 3)\nprint('hi')\nplot()\n# output\nhi\n"
        "# output\n(an image)\n# output\nboom\n# output\nxxx"
    )
    assert "… 6000 more characters of output" in record.text
    assert [image.media_type for image in record.images] == ["image/png"]
    assert record.data["total_cells"] == 2
    second = await agent.call(read, file_path="n.ipynb", offset=2, limit=1)
    assert second.text.startswith("# cell 2")
    assert code(await agent.call(read, file_path="n.ipynb", offset=3)) == "INVALID_PARAM"


@pytest.mark.parametrize("text", ["not json", "[1]", '{"cells": 3}'])
async def test_a_broken_notebook_is_shown_as_text(agent: Agent, folder: Path, text: str) -> None:
    (folder / "n.ipynb").write_text(text)
    assert (await agent.call(read, file_path="n.ipynb")).text == f"1\t{text}"


KEYS = st.sampled_from(["cells", "source", "outputs", "output_type", "data", "text", "image/png", "traceback"])
ANY = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@given(ANY)
def test_no_json_breaks_the_notebook_view(value: object) -> None:
    cells(json.dumps(value))
    cells(json.dumps({"cells": [value, {"outputs": [value], "source": value}]}))


def make_pdf(*pages: str) -> bytes:
    """A small real PDF with one line of text a page."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents {5 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    return (out + f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n").encode()


async def test_a_pdf_gives_its_pages(agent: Agent, folder: Path) -> None:
    pytest.importorskip("pypdf")
    (folder / "a.pdf").write_bytes(make_pdf("Hello one", "Hello two", ""))
    record = await agent.call(read, file_path="a.pdf")
    assert record.text == "# page 1\nHello one\n\n# page 2\nHello two\n\n# page 3\n(no text on this page)"
    second = await agent.call(read, file_path="a.pdf", offset=2, limit=1)
    assert second.text == "# page 2\nHello two\n\n[Pages 2-2 of 3. Go on with offset=3.]"
    assert code(await agent.call(read, file_path="a.pdf", offset=4)) == "INVALID_PARAM"


async def test_a_damaged_pdf_is_an_error_and_no_crash(agent: Agent, folder: Path) -> None:
    pytest.importorskip("pypdf")
    (folder / "a.pdf").write_bytes(b"%PDF-1.4\n" + os.urandom(500))
    assert code(await agent.call(read, file_path="a.pdf")) == "EXECUTION_ERROR"


async def test_without_pypdf_a_pdf_says_what_is_missing(
    agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.pdf").write_bytes(make_pdf("x"))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    monkeypatch.setattr(converter.importlib.util, "find_spec", lambda name: None)
    record = await agent.call(read, file_path="a.pdf")
    assert code(record) == "EXECUTION_ERROR"
    assert "pip install 'cowork[pdf]'" in record.text


async def test_a_module_in_the_folder_is_never_run(agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pypdf")
    (folder / "pypdf.py").write_text("open('ran', 'w')")
    (folder / "a.pdf").write_bytes(make_pdf("Hello"))
    monkeypatch.chdir(folder)
    assert "Hello" in (await agent.call(read, file_path="a.pdf")).text
    assert not (folder / "ran").exists()


def test_reading_may_run_beside_other_calls() -> None:
    assert isinstance(read, Tool)
    assert read.reads
