"""From a file or a zip to the raw rows of a stimuli table, whatever its bytes hold.

The format is WinoPron's (Gautam et al. 2024): tab-separated UTF-8 text without quoting, the five columns of `COLUMNS`,
further columns ignored. Nothing here judges what the cells say; `check` does.
"""

import csv
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PureWindowsPath

from referent_probe.errors import StimuliError
from referent_probe.stimuli.options import Case
from referent_probe.stimuli.quoting import printable, shown_path

COLUMNS = ("occupation(0)", "other-participant(1)", "answer", "pronoun_type", "template")
OCCUPATION = "$OCCUPATION"
PARTICIPANT = "$PARTICIPANT"
BLANKS: Mapping[str, Case] = {
    "$NOM_PRONOUN": Case.NOMINATIVE,
    "$ACC_PRONOUN": Case.ACCUSATIVE,
    "$POSS_PRONOUN": Case.POSSESSIVE,
}
PLACEHOLDER = r"\$[A-Za-z_]+"

SIZE_LIMIT = 64 * 2**20
"""The most bytes that a stimuli file may have, packed or unpacked."""

LINE_LIMIT = 200_000
CELL_LIMIT = 20 * LINE_LIMIT
"""The most lines and cells that a stimuli file may have: a small zip may unpack to tens of millions."""

NAME_LIMIT = 60
"""The most characters of a file's name that name its table, and with it the folder of a run."""

# Printed in WinoPron's README; it keeps crawlers out, not readers.
WINOPRON_PASSWORD = "vogelbeobachtung131719"
WINOPRON_SHA256 = "ca592bb220e2d0a54bc4391222da1d6e6ef327814f105e71171824dcdbdc5352"
WINOPRON_MEMBER = "new_templates.tsv"


@dataclass(frozen=True)
class Row:
    """One template as the file spells it, cells stripped; `line` counts as an editor does (the header is line 1)."""

    line: int
    occupation: str
    participant: str
    answer: str
    pronoun_type: str
    template: str


@dataclass(frozen=True)
class Table:
    """The rows of one file, with the sha256 of the TSV's bytes (unpacked, so zip and TSV agree)."""

    name: str
    sha256: str
    rows: tuple[Row, ...]


def read_table(source: str | Path = "builtin", password: str | None = None) -> Table:
    """Reads the rows of a stimuli file.

    Args:
        source: "builtin", or the path of a TSV file or of a zip that holds one.
        password: of an encrypted zip; WinoPron's published one is tried first.

    Returns:
        The table, named "builtin", "winopron" (when the TSV's bytes are the published ones) or after the file
        (its first `NAME_LIMIT` characters, bytes that are no UTF-8 written out).

    Raises:
        StimuliError: the file is missing, unreadable, too large or too long, not UTF-8 text, or lacks a column or any
            row.
    """
    if source == "builtin":
        name, content = "builtin", files("referent_probe.stimuli").joinpath("data/builtin.tsv").read_bytes()
    else:
        name, content = printable(Path(source).stem)[:NAME_LIMIT], _read_file(Path(source))
    if content[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        content = _unzip(content, str(source), password)
    sha256 = hashlib.sha256(content).hexdigest()
    return Table("winopron" if sha256 == WINOPRON_SHA256 else name, sha256, _parse(content, str(source)))


def _read_file(path: Path) -> bytes:
    shown = shown_path(path)
    try:
        if path.is_dir():
            raise StimuliError(f"{shown} is a folder: give the path of a .tsv or .zip file in it")
        if not path.is_file():
            raise StimuliError(f"there is no file {shown}: give 'builtin', or the path of a .tsv or .zip file")
        if path.stat().st_size > SIZE_LIMIT:
            raise StimuliError(f"{shown} is larger than {SIZE_LIMIT} bytes: give a stimuli file")
        return path.read_bytes()
    except OSError as error:
        raise StimuliError(f"cannot read {shown} ({error.strerror}): check the path and its permissions") from error


def _unzip(content: bytes, source: str, password: str | None) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            member = _choose_member(archive, source)
            if not member.flag_bits & 1:
                return _read_member(archive, member, None)
            for candidate in (WINOPRON_PASSWORD, password or ""):
                try:
                    return _read_member(archive, member, candidate.encode())
                except Exception:  # one wrong password in 256 passes zip's test and fails later, in any of several ways
                    continue
    except StimuliError:
        raise
    except Exception as error:  # zipfile answers damaged bytes with many kinds of exception
        raise StimuliError(
            f"{source!r} is a damaged or unsupported zip ({type(error).__name__}): fetch it again, or give the .tsv"
        ) from error
    if password is None:
        raise StimuliError(f"{source!r} is encrypted, and not with WinoPron's published password: give its password")
    raise StimuliError(f"the password given does not open {source!r}: check it, or unpack the zip and give the .tsv")


def _choose_member(archive: zipfile.ZipFile, source: str) -> zipfile.ZipInfo:
    members = archive.infolist()
    for member in members:
        path = PureWindowsPath(member.filename)  # knows both kinds of slash, and drives
        if path.anchor or ".." in path.parts:
            raise StimuliError(f"{source!r} holds the unsafe path {member.filename!r}: give a zip that you trust")
    tables = [m for m in members if m.filename.endswith(".tsv") and not m.filename.startswith("__MACOSX/")]
    chosen = [m for m in tables if Path(m.filename).name == WINOPRON_MEMBER] or tables
    if len(chosen) != 1:
        raise StimuliError(f"{source!r} holds {len(chosen)} .tsv files: give a zip with one, or the .tsv itself")
    if chosen[0].file_size > SIZE_LIMIT:
        raise StimuliError(f"{chosen[0].filename!r} in {source!r} unpacks to over {SIZE_LIMIT} bytes: give another zip")
    return chosen[0]


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, password: bytes | None) -> bytes:
    # Never inflates beyond the declared size, which _choose_member has checked.
    with archive.open(member, pwd=password) as stream:
        return stream.read()


def _parse(content: bytes, source: str) -> tuple[Row, ...]:
    for what, limit, marks in ("lines", LINE_LIMIT, (b"\n", b"\r")), ("cells", CELL_LIMIT, (b"\t",)):
        # Counts CRLF twice, which a file of real templates never comes near.
        if sum(map(content.count, marks)) > limit:
            raise StimuliError(f"{source!r} has over {limit} {what}: give a stimuli file, two rows for each pair")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StimuliError(f"{source!r} is not UTF-8 text (byte {error.start}): save it as UTF-8") from error
    if not text.strip():
        raise StimuliError(f"{source!r} is empty: give a stimuli file with the columns {', '.join(COLUMNS)}")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as error:
        raise StimuliError(f"{source!r}, line {reader.line_num}: {error}: give a tab-separated file") from error
    header = lines[0][1]
    if missing := [column for column in COLUMNS if column not in header]:
        raise StimuliError(
            f"{source!r} lacks the column(s) {', '.join(map(repr, missing))}: "
            "the first line of a stimuli file names its columns, separated by tabs"
        )
    places = [header.index(column) for column in COLUMNS]
    # Short lines are filled up, so that `check` can name what they lack.
    filled = [(line, cells + [""] * (max(places) + 1 - len(cells))) for line, cells in lines[1:] if any(cells)]
    if not filled:
        raise StimuliError(f"{source!r} has a header but no rows: add templates, two rows for each pair")
    return tuple(Row(line, *(cells[place] for place in places)) for line, cells in filled)
