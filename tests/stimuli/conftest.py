"""A small sound table of our own, ways to write and to pack it, and WinoPron's zip where it is at hand."""

import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from referent_probe.stimuli.rows import COLUMNS
from referent_probe.stimuli.templates import StimulusSet, load_stimuli

WINOPRON = Path(__file__).parents[3] / "shared" / "data" / "winopron-data.zip"

Cells = list[str]
SOUND: tuple[tuple[str, ...], ...] = (
    (
        "baker",
        "juggler",
        "1",
        "$NOM_PRONOUN",
        "The $OCCUPATION clapped for the $PARTICIPANT because $NOM_PRONOUN had kept five clubs in the air.",
    ),
    (
        "baker",
        "juggler",
        "0",
        "$NOM_PRONOUN",
        "The $OCCUPATION clapped for the $PARTICIPANT because $NOM_PRONOUN loved any circus.",
    ),
    (
        "tailor",
        "rower",
        "0",
        "$POSS_PRONOUN",
        "The $PARTICIPANT met the $OCCUPATION to see $POSS_PRONOUN sewing machine at work.",
    ),
    (
        "tailor",
        "rower",
        "1",
        "$POSS_PRONOUN",
        "The $PARTICIPANT met the $OCCUPATION to see $POSS_PRONOUN torn team jacket mended.",
    ),
)


@pytest.fixture
def cells() -> list[Cells]:
    """Two sound pairs, lines 2 to 5 of a file, to be spoiled at will."""
    return [list(row) for row in SOUND]


@pytest.fixture
def tsv() -> Callable[[list[Cells]], bytes]:
    """Rows to the bytes of a file."""
    return lambda rows: "".join("\t".join(row) + "\n" for row in [list(COLUMNS), *rows]).encode()


@pytest.fixture
def write(tmp_path: Path, tsv: Callable[[list[Cells]], bytes]) -> Callable[[list[Cells]], Path]:
    """Rows to a file."""

    def write_rows(rows: list[Cells]) -> Path:
        path = tmp_path / "mine.tsv"
        path.write_bytes(tsv(rows))
        return path

    return write_rows


@pytest.fixture
def pack(tmp_path: Path) -> Callable[[dict[str, bytes]], Path]:
    """Members to a plain zip."""

    def pack_members(members: dict[str, bytes]) -> Path:
        path = tmp_path / "mine.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return pack_members


@pytest.fixture
def encrypt(tmp_path: Path) -> Callable[[bytes, str], Path]:
    """Content to a zip with standard zip encryption (PKWARE's APPNOTE, 6.1), which zipfile reads but cannot write."""

    def table(byte: int) -> int:
        for _ in range(8):
            byte = byte >> 1 ^ (0xEDB88320 if byte & 1 else 0)
        return byte

    crc_table = [table(byte) for byte in range(256)]

    def encrypt_content(content: bytes, password: str) -> Path:
        keys = [0x12345678, 0x23456789, 0x34567890]

        def update(byte: int) -> None:
            keys[0] = keys[0] >> 8 ^ crc_table[(keys[0] ^ byte) & 255]
            keys[1] = ((keys[1] + (keys[0] & 255)) * 134775813 + 1) & 0xFFFFFFFF
            keys[2] = keys[2] >> 8 ^ crc_table[(keys[2] ^ keys[1] >> 24) & 255]

        for byte in password.encode():
            update(byte)
        crc = zlib.crc32(content)
        cipher = bytearray()
        for byte in random.Random(0).randbytes(11) + bytes([crc >> 24]) + content:
            key = keys[2] | 2
            cipher.append(byte ^ (key * (key ^ 1) >> 8 & 255))
            update(byte)
        path = tmp_path / "locked.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("mine.tsv", bytes(cipher))
        packed = bytearray(path.read_bytes())
        for start, flags in (0, 6), (packed.index(b"PK\x01\x02"), 8):
            struct.pack_into("<H", packed, start + flags, 1)
            struct.pack_into("<III", packed, start + flags + 8, crc, len(cipher), len(content))
        path.write_bytes(packed)
        return path

    return encrypt_content


@pytest.fixture(scope="session")
def builtin() -> StimulusSet:
    return load_stimuli()


@pytest.fixture(scope="session")
def winopron_zip() -> Path:
    if not WINOPRON.exists():
        pytest.skip(f"WinoPron's zip is not at {WINOPRON}")
    return WINOPRON


@pytest.fixture(scope="session")
def winopron(winopron_zip: Path) -> StimulusSet:
    return load_stimuli(winopron_zip)
