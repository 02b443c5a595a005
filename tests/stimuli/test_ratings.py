import csv
import doctest
import os
from importlib.resources import files
from pathlib import Path

import pytest

from referent_probe.errors import OptionError, StimuliError
from referent_probe.stimuli import ratings
from referent_probe.stimuli.ratings import (
    AUTHORS_ODD_CHOICES,
    RatingsMapping,
    check_roles,
    load_ratings,
    rating,
    role_ratings,
)
from referent_probe.stimuli.small_file import SIZE_LIMIT
from referent_probe.stimuli.templates import StimulusSet

DATA = Path(__file__).parents[3] / "shared" / "data"
SOURCE = DATA / "misersky_2014_english.csv"
WINOPRON_SOURCE = DATA / "winopron_role_ratings.csv"


def shipped() -> list[dict[str, str]]:
    text = files("referent_probe.stimuli").joinpath("data/winopron_ratings.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(ratings).failed == 0


@pytest.mark.parametrize(
    ("role", "share"), [("accountant", 0.37), ("administrative worker", 0.59), ("Carpenter", 0.25)]
)
def test_ratings_of_the_norms(role: str, share: float) -> None:
    assert rating(role) == share


@pytest.mark.parametrize("role", ["wombat keeper", "", "accountants"])
def test_other_nouns_have_none(role: str) -> None:
    assert rating(role) is None


def test_the_table_holds_shares_of_lower_case_nouns() -> None:
    text = files("referent_probe.stimuli").joinpath("data/misersky_2014.csv").read_text(encoding="utf-8")
    roles = [row["role"] for row in csv.DictReader(text.splitlines())]
    assert len(roles) == len(set(roles)) == 422
    for role in roles:
        share = rating(role)
        assert role == role.lower()
        assert share is not None
        assert 0 <= share <= 1


def test_the_table_is_the_source() -> None:
    if not SOURCE.exists():
        pytest.skip(f"the norms are not at {SOURCE}")
    for row in csv.DictReader(SOURCE.read_text(encoding="utf-8").splitlines()):
        assert rating(row["role_noun_singular"]) == float(row["mean_prop_female"])


# WinoPron's roles


@pytest.mark.parametrize(("mapping", "n"), [("authors", 61), ("exact", 38)])
def test_counts_of_rated_roles(mapping: RatingsMapping, n: int) -> None:
    found = role_ratings(mapping)
    assert len(found) == n
    assert all(0 <= share <= 1 and role == role.lower() for role, share in found.items())


@pytest.mark.parametrize(("mapping", "n"), [("authors", 279), ("exact", 201)])
def test_counts_of_rated_templates(mapping: RatingsMapping, n: int, winopron: StimulusSet) -> None:
    templates = [template for pair in winopron.pairs for template in pair.members]
    assert len(templates) == 360
    assert sum(template.antecedent_noun in role_ratings(mapping) for template in templates) == n


def test_the_roles_are_winoprons(winopron: StimulusSet) -> None:
    nouns = {noun for pair in winopron.pairs for noun in (pair.occupation, pair.participant)}
    assert {row["role"] for row in shipped()} == nouns
    assert len(nouns) == len(shipped()) == 84


def test_exact_is_the_norms_own_number() -> None:
    assert role_ratings("exact") == {row["role"]: rating(row["role"]) for row in shipped() if rating(row["role"])}


def test_the_mappings_are_the_source() -> None:
    if not WINOPRON_SOURCE.exists():
        pytest.skip(f"the roles are not at {WINOPRON_SOURCE}")
    rows = list(csv.DictReader(WINOPRON_SOURCE.read_text(encoding="utf-8").splitlines()))
    for mapping, column in ("authors", "authors_mean"), ("exact", "exact_singular_match_mean"):
        assert role_ratings(mapping) == {row["role"]: float(row[column]) for row in rows if row[column]}
    inferred = {row["role"] for row in rows if row["authors_source"].endswith("(inferred)")}
    assert {row["role"] for row in shipped() if row["authors_noun_inferred"] == "1"} == inferred


def test_every_number_of_the_authors_that_is_not_the_norms_is_called_odd() -> None:
    known = role_ratings("authors")
    for row in (row for row in shipped() if row["authors"]):
        share, odd = known[row["role"]], {choice.role for choice in AUTHORS_ODD_CHOICES}
        assert share in (rating(row["authors_noun"]), None) or row["role"] in odd
        assert rating(row["role"]) in (share, None) or row["role"] in odd


@pytest.mark.parametrize("choice", AUTHORS_ODD_CHOICES, ids=lambda choice: choice.role)
def test_odd_choices_have_both_numbers(choice: ratings.OddChoice) -> None:
    (row,) = [row for row in shipped() if row["role"] == choice.role]
    assert (row["authors_noun"], float(row["authors"])) == (choice.noun, choice.rating)
    assert choice.other_rating == (rating(choice.other_noun) if choice.other_noun else None)


def test_odd_choices_read_as_text() -> None:
    lines = {choice.role: str(choice) for choice in AUTHORS_ODD_CHOICES}
    assert lines["worker"] == "worker: 0.19 from 'construction worker' (the norms have 0.42 for 'worker')"
    assert lines["visitor"] == "visitor: 0.49 from 'hotel guest' (the norms have nothing nearer)"


def test_ratings_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        role_ratings("authors")["worker"] = 0.5  # type: ignore[index]


def test_another_mapping_is_refused() -> None:
    with pytest.raises(OptionError, match="no ratings 'mine': give 'authors' or 'exact'"):
        role_ratings("mine")  # type: ignore[arg-type]


# A user's file


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "mine.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        "role,rating\nnurse,0.74\ncook,0\n",
        "rating,note,role\r\n0.74,x,Nurse\r\n0,,cook\r\n",
        "\ufeffrole,rating\n nurse , 0.74\n\ncook,0.0",
        'role,rating\n"nurse","0.74"\n"cook",0e5\n',
    ],
)
def test_ratings_of_a_file(tmp_path: Path, content: str) -> None:
    assert list(load_ratings(write(tmp_path, content)).items()) == [("nurse", 0.74), ("cook", 0.0)]


def test_a_file_of_what_is_shipped_gives_it_back(tmp_path: Path) -> None:
    lines = "".join(f"{role},{share}\n" for role, share in role_ratings("authors").items())
    assert load_ratings(write(tmp_path, "role,rating\n" + lines)) == role_ratings("authors")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"mine.csv' lacks the column\(s\) 'role', 'rating'"),
        ("nurse,0.74\n", r"lacks the column\(s\) 'role', 'rating': the first line"),
        ("role\trating\nnurse\t0.74\n", r"lacks the column\(s\)"),
        ("role,share\nnurse,0.74\n", r"lacks the column\(s\) 'rating'"),
        ("role,rating\n", "has no ratings: give a line for each role"),
        ("role,rating\nnurse,high\n", "line 2: 'nurse' has the rating 'high': give a number from 0"),
        ("role,rating\ncook,0.1\nnurse,74\n", "line 3: 'nurse' has the rating '74'"),
        ("role,rating\nnurse,-0.01\n", "'-0.01'"),
        ("role,rating\nnurse,nan\n", "'nan'"),
        ("role,rating\nnurse\n", "'nurse' has the rating ''"),
        ("role,rating\n,0.5\n", "line 2: the rating '0.5' has no role"),
        ("role,rating\nnurse,0.7\nNurse,0.8\n", "line 3: the role 'nurse' comes a second time"),
        (b"role,rating\nn\xfcrse,0.7\n", r"is not UTF-8 text \(byte 13\)"),
        (b"role,rating,rating\nnurse,0.1,0.9", "has the column 'rating' twice: keep one of the two"),
        (b"role,rating\nx" + b"y" * SIZE_LIMIT, f"is larger than {SIZE_LIMIT} bytes"),
        ("role,rating\n" + "x" * 200_000 + ",0.5\n", "after line 1: field larger than field limit"),
        ("role,rating\nnurse\x1b[1m,x\n", r"'nurse\\x1b\[1m' has the rating 'x'"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(StimuliError, match=message) as caught:
        load_ratings(write(tmp_path, content))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["missing.csv", ".", "a\0b"])
def test_no_file_no_ratings(tmp_path: Path, name: str) -> None:
    with pytest.raises(StimuliError, match="give the path of a CSV file") as caught:
        load_ratings(tmp_path / name)
    assert str(caught.value).isprintable()


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StimuliError, match="not a regular file"):
        load_ratings(tmp_path / "pipe")


def test_unknown_roles_are_named() -> None:
    check_roles({"Nurse": 0.7}, ["nurse", "Cook"])
    check_roles({}, [])
    with pytest.raises(StimuliError, match=r"^1 rated role\(s\) are not in the stimuli: 'nurrse': spell"):
        check_roles({"nurse": 0.7, "nurrse": 0.7}, ["nurse"])
    with pytest.raises(StimuliError, match=r"^4 rated .*: 'a', 'b', 'c', …: spell"):
        check_roles(dict.fromkeys("abcd", 0.5), ["nurse"])


def test_a_decimal_comma_is_no_second_cell(tmp_path: Path) -> None:
    """Its digits would be dropped, and the rating be 0."""
    path = tmp_path / "mine.csv"
    path.write_text("role,rating\nnurse,0,74\n", encoding="utf-8")
    with pytest.raises(StimuliError, match="line 2: more cells than the first line has columns"):
        load_ratings(path)
