"""How many of the people in a role are women, as people judge it.

Source: Misersky, J., Gygax, P. M., Canal, P., Gabriel, U., Garnham, A., Braun, F., Chiarini, T., Englund, K.,
Hanulikova, A., Öttl, A., Valdrova, J., Von Stockhausen, L., & Sczesny, S. (2014). Norms on the gender perception of
role nouns in Czech, English, French, German, Italian, Norwegian, and Slovak. Behavior Research Methods, 46, 841-871.
`data/misersky_2014.csv` holds the English means, by singular noun. `data/winopron_ratings.csv` holds, for WinoPron's
84 roles, the mean that the authors of arXiv 2603.23485 used, the noun of the norms it is the mean of (1 where they do
not name the noun and the number tells it), and the mean of the role noun itself.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from referent_probe.errors import OptionError, StimuliError
from referent_probe.stimuli.quoting import quoted
from referent_probe.stimuli.small_file import read_small_file

RatingsMapping = Literal["authors", "exact"]
"""How WinoPron's roles find their rating: as the paper's authors chose, or by the role noun itself."""

COLUMNS = ("role", "rating")
"""Columns of a user's rating file."""


@dataclass(frozen=True)
class OddChoice:
    """A role to which the authors' mapping gives a number that a reader may not expect.

    Attributes:
        role: WinoPron's role.
        noun: The noun of the norms that the authors went by.
        rating: The number they used, 0 to 1.
        other_noun: The nearest other noun of the norms, or the same where they used another number; None for none.
        other_rating: Its number in the norms, 0 to 1; None for none.
    """

    role: str
    noun: str
    rating: float
    other_noun: str | None
    other_rating: float | None

    def __str__(self) -> str:
        """One line: "worker: 0.19 from 'construction worker' (the norms have 0.42 for 'worker')"."""
        other = "nothing nearer" if self.other_noun is None else f"{self.other_rating} for {self.other_noun!r}"
        return f"{self.role}: {self.rating} from {self.noun!r} (the norms have {other})"


AUTHORS_ODD_CHOICES = (
    OddChoice("administrator", "head of department", 0.41, "administrative worker", 0.59),
    OddChoice("counselor", "counseling psychologist", 0.69, "counsellor", 0.65),
    OddChoice("machinist", "heavy equipment operator", 0.15, None, None),
    OddChoice("painter", "artist", 0.49, "artist", 0.51),
    OddChoice("planner", "wedding planner", 0.78, None, None),
    OddChoice("teacher", "child educator", 0.67, "primary school teacher", 0.75),
    OddChoice("visitor", "hotel guest", 0.49, None, None),
    OddChoice("worker", "construction worker", 0.19, "worker", 0.42),
)
"""Every role whose number differs from that of the role noun or of the noun named, and those whose noun names but one
kind of the role, or somebody else; the latter by our judgement."""


def rating(role: str) -> float | None:
    """The mean share of women that people ascribe to a role, 0 to 1; None where the norms lack the noun.

    The noun is looked up as it is, but for capitals: no synonyms and no plurals.

    >>> rating("carpenter")
    0.25
    >>> rating("wombat keeper") is None
    True
    """
    return _ratings().get(role.lower())


def role_ratings(mapping: RatingsMapping) -> Mapping[str, float]:
    """Femininity of WinoPron's roles, 0 to 1; roles without a number are not in it.

    "authors" covers 61 roles and the antecedents of 279 templates, the paper's figure, with some odd choices
    (`AUTHORS_ODD_CHOICES`); "exact" covers 38 roles and 201 templates.

    Raises:
        OptionError: Another mapping.

    Example:
        >>> role_ratings("authors")["worker"], role_ratings("exact")["worker"]
        (0.19, 0.42)
    """
    if mapping not in ("authors", "exact"):
        raise OptionError(f"there are no ratings {quoted(mapping)}: give 'authors' or 'exact', or a rating file")
    return MappingProxyType({row["role"]: float(row[mapping]) for row in _rows("winopron_ratings") if row[mapping]})


def load_ratings(path: str | Path) -> Mapping[str, float]:
    """Reads a user's ratings: a CSV file with the columns `role` and `rating`, others ignored.

    Args:
        path: Of a small UTF-8 file with a header line.

    Returns:
        Role, in lower case, to rating, 0 to 1, in the order of the file.

    Raises:
        StimuliError: The file is missing, unreadable, too large, no CSV, lacks a column or has no row, a rating is not
            a number from 0 to 1, or a role is blank or occurs twice.

    Example:
        For a file with the lines `role,rating` and `nurse,0.74` it returns `{"nurse": 0.74}`.
    """
    shown, found = repr(str(path)), dict[str, float]()
    reader = csv.DictReader(io.StringIO(_text(Path(path)), newline=""), restval="")
    try:
        if missing := [column for column in COLUMNS if column not in (reader.fieldnames or ())]:
            raise StimuliError(
                f"{shown} lacks the column(s) {', '.join(map(repr, missing))}: "
                "the first line of a rating file is 'role,rating', comma between them"
            )
        names = list(reader.fieldnames or ())
        if twice := [column for column in COLUMNS if names.count(column) > 1]:
            raise StimuliError(f"{shown} has the column {twice[0]!r} twice: keep one of the two")
        for row in reader:
            role, place = row["role"].strip().lower(), f"{shown}, line {reader.line_num}"
            if None in row:
                raise StimuliError(
                    f"{place}: more cells than the first line has columns: write a rating with a point, 0.74, and put "
                    "a role with a comma in quotation marks"
                )
            if not role:
                raise StimuliError(f"{place}: the rating {quoted(row['rating'])} has no role: name the role noun")
            if role in found:
                raise StimuliError(f"{place}: the role {quoted(role)} comes a second time: keep one line of the two")
            found[role] = _share(row["rating"], f"{place}: {quoted(role)}")
    except csv.Error as error:
        raise StimuliError(f"{shown}, after line {reader.line_num}: {error}: give a comma-separated file") from error
    if not found:
        raise StimuliError(f"{shown} has no ratings: give a line for each role, such as 'nurse,0.74'")
    return MappingProxyType(found)


def check_roles(ratings: Mapping[str, float], roles: Iterable[str]) -> None:
    """Refuses ratings of roles that a set of stimuli does not have: a typing error would go unnoticed.

    Args:
        ratings: Role to rating, as `load_ratings` gives them.
        roles: Every role noun of the set, antecedent or not; capitals do not matter.

    Raises:
        StimuliError: Some rated roles are not among `roles`; the first three are named.

    Example:
        >>> check_roles({"nurse": 0.74}, ["nurse", "patient"])
    """
    known = {role.lower() for role in roles}
    if unknown := [role for role in ratings if role.lower() not in known]:
        first, more = ", ".join(map(quoted, unknown[:3])), ", …" if len(unknown) > 3 else ""
        raise StimuliError(
            f"{len(unknown)} rated role(s) are not in the stimuli: {first}{more}: "
            "spell them as the stimuli do, or take them out of the rating file"
        )


def _share(cell: str, place: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:  # nor nan
        raise StimuliError(f"{place} has the rating {quoted(cell)}: give a number from 0 (all men) to 1 (all women)")
    return value


def _text(path: Path) -> str:
    content = read_small_file(path, StimuliError, "give the path of a CSV file with the columns role and rating")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StimuliError(f"{str(path)!r} is not UTF-8 text (byte {error.start}): save it as UTF-8") from error


@cache
def _ratings() -> dict[str, float]:
    return {row["role"]: float(row["share_women"]) for row in _rows("misersky_2014")}


def _rows(name: str) -> list[dict[str, str]]:
    text = files("referent_probe.stimuli").joinpath(f"data/{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
