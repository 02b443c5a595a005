import csv
from importlib.resources import files
from pathlib import Path

import pytest

from referent_probe.stimuli.ratings import rating

SOURCE = Path(__file__).parents[3] / "shared" / "data" / "misersky_2014_english.csv"


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
