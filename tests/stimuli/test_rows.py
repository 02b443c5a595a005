import hashlib
import io
import os
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from referent_probe.errors import StimuliError
from referent_probe.stimuli import rows
from referent_probe.stimuli.rows import COLUMNS, SIZE_LIMIT, WINOPRON_PASSWORD, read_table
from referent_probe.stimuli.templates import load_stimuli

Tsv = Callable[[list[list[str]]], bytes]
Write = Callable[[list[list[str]]], Path]
Pack = Callable[[dict[str, bytes]], Path]
Encrypt = Callable[[bytes, str], Path]


def save(folder: Path, content: bytes) -> Path:
    path = folder / "mine.tsv"
    path.write_bytes(content)
    return path


def test_reads_the_cells_and_counts_lines_as_an_editor(cells: list[list[str]], write: Write) -> None:
    table = read_table(write(cells))
    assert table.name == "mine"
    assert [row.line for row in table.rows] == [2, 3, 4, 5]
    assert [
        [row.occupation, row.participant, row.answer, row.pronoun_type, row.template] for row in table.rows
    ] == cells


# Each quirk of WinoPron's raw file, and a few of editors, leaves the rows as they are.
QUIRKS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "CR": lambda content: content.replace(b"\n", b"\r"),
    "byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "unnamed trailing columns": lambda content: content.replace(b"\n", b"\t\t\n"),
    "named further column": lambda content: content.replace(b"\n", b"\tsingle_version\n", 1),
    "regular expression and canary": lambda content: content.replace(b"air.\n", b'air.\t(a\\$|"b)+\tcanary\n'),
    "very long stray cell": lambda content: content.replace(b"air.\n", b"air.\t" + b"x" * 120_000 + b"\n"),
    "no line end at the end": lambda content: content.removesuffix(b"\n"),
    "white space round cells": lambda content: content.replace(b"\t", b" \t "),
}


@pytest.mark.parametrize("quirk", QUIRKS)
def test_survives_quirk(quirk: str, cells: list[list[str]], tsv: Tsv, tmp_path: Path) -> None:
    plain = tsv(cells)
    spoiled = QUIRKS[quirk](plain)
    assert spoiled != plain
    assert read_table(save(tmp_path, spoiled)).rows == read_table(save(tmp_path, plain)).rows


@pytest.mark.parametrize(
    "ending", [" in the air..", " in the air; it and its echo rang.", ' in the "air".', " à l'air."]
)
def test_keeps_the_text_as_it_is(ending: str, cells: list[list[str]], write: Write) -> None:
    cells[0][4] = cells[0][4].replace(" in the air.", ending)
    assert load_stimuli(write(cells)).pairs[0].members[0].text.endswith(ending)


def test_blank_lines_count_but_are_no_rows(cells: list[list[str]], tsv: Tsv, tmp_path: Path) -> None:
    table = read_table(save(tmp_path, tsv(cells).replace(b"\ntailor", b"\n\n\t\t\t\t\ntailor", 1)))
    assert [row.line for row in table.rows] == [2, 3, 6, 7]


def test_a_short_line_has_empty_cells(cells: list[list[str]], write: Write) -> None:
    assert read_table(write([*cells, ["tailor", "rower"]])).rows[4].template == ""


@pytest.mark.parametrize(
    ("filling", "message"),
    [(b"\n", "over 200000 lines"), (b"\r\n", "over 200000 lines"), (b"\r", "over 200000 lines"), (b"\t", "cells")],
)
def test_a_small_zip_of_a_huge_table_is_refused_at_once(filling: bytes, message: str, pack: Pack) -> None:
    path = pack({"mine.tsv": "\t".join(COLUMNS).encode() + b"\n" + filling * (60_000_000 // len(filling))})
    started = time.monotonic()
    with pytest.raises(StimuliError, match=message) as caught:
        read_table(path)
    assert time.monotonic() - started < 5
    assert "give a stimuli file" in str(caught.value)


def test_a_wide_header_costs_no_memory_a_row(tsv: Tsv, cells: list[list[str]], tmp_path: Path) -> None:
    header, rest = tsv(cells).split(b"\n", 1)
    wide = save(tmp_path, header + b"\tx" * 1_000_000 + b"\n" + rest + b"a\n" * 100_000)
    assert len(read_table(wide).rows) == len(cells) + 100_000


def test_a_set_has_a_short_printable_name(tsv: Tsv, cells: list[list[str]], tmp_path: Path) -> None:
    for stem in "n" * 250, os.fsdecode(b"\xff"), "a\x1bb":
        path = tmp_path / f"{stem}.tsv"
        path.write_bytes(tsv(cells))
        name = read_table(path).name
        assert name.isprintable()
        assert len(name) <= 60


@pytest.mark.parametrize("column", COLUMNS)
def test_names_the_missing_column(column: str, cells: list[list[str]], tsv: Tsv, tmp_path: Path) -> None:
    content = tsv(cells).replace(column.encode(), b"other", 1)
    with pytest.raises(StimuliError, match=r"mine\.tsv.*lacks the column") as caught:
        read_table(save(tmp_path, content))
    assert repr(column) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n\n", "is empty"),
        ("\t".join(COLUMNS).encode(), "no rows"),
        (bytes(range(256)), "not UTF-8"),
        ("é".encode("latin-1"), "not UTF-8"),
        ("\t".join(COLUMNS).encode("utf-16"), "not UTF-8"),
        (b"\0\0\0\0", "lacks the column"),
        (b"<!DOCTYPE html>", "lacks the column"),
        (",".join(COLUMNS).encode(), "lacks the column"),
        (b"x" * 200_000, "field larger"),
        (b"PK\x03\x04" + bytes(100), "damaged or unsupported zip"),
    ],
)
def test_refuses_what_is_no_table(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(StimuliError, match=message) as caught:
        read_table(save(tmp_path, content))
    assert "mine.tsv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [("absent.tsv", "there is no file"), (".", "is a folder"), ("", "is a folder"), ("a\0b", "there is no file")],
)
def test_refuses_what_is_no_file(path: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StimuliError, match=message):
        read_table(path)


def test_refuses_an_unreadable_path() -> None:
    with pytest.raises(StimuliError, match="cannot read"):
        read_table("x" * 5000)


def test_a_zip_reads_as_its_table(cells: list[list[str]], tsv: Tsv, write: Write, pack: Pack) -> None:
    packed = read_table(pack({"deep/mine.tsv": tsv(cells), "README.md": b"", "__MACOSX/deep/._mine.tsv": b"junk"}))
    assert packed == read_table(write(cells))
    assert packed.sha256 == hashlib.sha256(tsv(cells)).hexdigest()


def test_a_zip_of_several_tables_gives_the_new_templates(cells: list[list[str]], tsv: Tsv, pack: Pack) -> None:
    path = pack({"old_templates.tsv": b"", "data/new_templates.tsv": tsv(cells)})
    assert len(read_table(path).rows) == len(cells)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "holds 0 .tsv"),
        (["a.txt"], "holds 0 .tsv"),
        (["a.tsv", "b.tsv"], "holds 2 .tsv"),
        (["../a.tsv"], "unsafe path"),
        (["a.tsv", "b/../../c"], "unsafe path"),
        (["/a.tsv"], "unsafe path"),
        (["..\\a.tsv"], "unsafe path"),
        (["C:a.tsv"], "unsafe path"),
    ],
)
def test_refuses_zip(names: list[str], message: str, cells: list[list[str]], tsv: Tsv, pack: Pack) -> None:
    with pytest.raises(StimuliError, match=message):
        read_table(pack(dict.fromkeys(names, tsv(cells))))


def test_refuses_what_is_too_large(
    cells: list[list[str]], tsv: Tsv, write: Write, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SIZE_LIMIT == 64 * 1024 * 1024
    monkeypatch.setattr(rows, "SIZE_LIMIT", 2000)
    packed = pack({"mine.tsv": tsv(cells) + b"\n" * 5000})
    assert packed.stat().st_size < 2000
    with pytest.raises(StimuliError, match="unpacks to over 2000 bytes"):
        read_table(packed)
    with pytest.raises(StimuliError, match="larger than 2000 bytes"):
        read_table(write(cells * 10))


def test_a_zip_that_understates_its_size_is_damaged(cells: list[list[str]], tsv: Tsv, pack: Pack) -> None:
    path = pack({"mine.tsv": tsv(cells)})
    size = len(tsv(cells)).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (100).to_bytes(4, "little")))
    with pytest.raises(StimuliError, match="damaged"):
        read_table(path)


@pytest.mark.parametrize("password", [WINOPRON_PASSWORD, "our own"])
def test_opens_an_encrypted_zip(password: str, cells: list[list[str]], tsv: Tsv, encrypt: Encrypt) -> None:
    path = encrypt(tsv(cells), password)
    assert len(read_table(path, None if password == WINOPRON_PASSWORD else password).rows) == len(cells)


def test_refuses_an_encrypted_zip_without_its_password(cells: list[list[str]], tsv: Tsv, encrypt: Encrypt) -> None:
    path = encrypt(tsv(cells), "our own")
    with pytest.raises(StimuliError, match="is encrypted"):
        read_table(path)
    for number in range(300):  # one wrong password in 256 passes the header's test
        with pytest.raises(StimuliError, match="password given does not open"):
            read_table(path, f"wrong {number}")


def test_winopron_is_known_by_its_bytes(winopron_zip: Path) -> None:
    table = read_table(winopron_zip)
    assert (table.name, len(table.rows)) == ("winopron", 360)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"PK\x03\x04", "\t".join(COLUMNS).encode() + b"\n"]))
def test_junk_gives_a_stimuli_error(junk: bytes, start: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.raises(StimuliError):
        load_stimuli(save(Path(folder), start + junk))


def sound_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mine.tsv", "\t".join(COLUMNS))
    return stream.getvalue()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_zip_gives_a_stimuli_error(data: st.DataObject) -> None:
    content = bytearray(sound_zip())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder), bytes(content[: data.draw(st.integers(4, len(content)))]))
        with pytest.raises(StimuliError) as caught:  # even undamaged, it holds no row
            load_stimuli(path)
    assert "\n" not in str(caught.value)
