"""Oracles: hand-worked data, the two-halves rule written out."""

import doctest

import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.conflation import states
from referent_probe.analysis.conflation.intervals import studentized
from referent_probe.analysis.conflation.states import margin, quantities, state
from referent_probe.analysis.held_out import halves

OCCUPATIONS = [f"role {i:02}" for i in range(40)]


def about(mean: float, sd: float, seed: int = 0, n: int = 40) -> "pd.Series[float]":
    """Values with exactly this mean and standard deviation."""
    drawn = np.random.default_rng(seed).normal(size=n)
    return pd.Series(mean + sd * (drawn - drawn.mean()) / drawn.std(ddof=1), index=OCCUPATIONS[:n])


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(states).failed == 0


@pytest.mark.parametrize(
    ("mean", "sd", "expected"),
    [
        (0.0, 0.5, "Z"),
        (0.1, 0.01, "Z"),  # within the margin comes before above zero
        (0.3, 0.5, "P"),
        (-0.3, 0.5, "N"),
        (0.1, 2.0, "U"),
        (3.0, 0.5, "P"),
    ],
)
def test_states_by_hand(mean: float, sd: float, expected: str) -> None:
    assert state(about(mean, sd), 0.25, seed=0) == expected


def test_zero_begins_just_above_the_interval() -> None:
    estimate = quantities(pd.DataFrame({"other": about(0.1, 0.5)}), seed=0)["O"]
    interval = estimate.interval(0.9)
    end = max(abs(interval.low), abs(interval.high))
    assert estimate.zero_above() == end
    assert (estimate.state(end), estimate.state(end * 1.0001)) == ("U", "Z")
    assert estimate.standard_deviation == pytest.approx(0.5)


def test_quantities_are_paired_and_leave_out_what_is_not_known() -> None:
    effects = pd.DataFrame(
        {"same": [4.0, 6.0, np.nan], "other": [3.0, 1.0, 5.0], "third": [1.0, np.nan, 3.0]},
        index=["cook", "nurse", "guard"],
    )
    found = quantities(effects, seed=0)
    means = {name: one.distribution.estimate[0] for name, one in found.items()}
    assert means["O"] == 3.0
    assert means["S"] == 5.0
    assert means["T"] == 2.0
    assert means["D"] == 2.0  # cook and guard alone
    assert means["S - O"] == 3.0  # cook and nurse alone
    assert np.isnan(means["M"])
    assert {name: one.distribution.n for name, one in found.items()} == {
        "O": 3,
        "S": 2,
        "T": 2,
        "D": 2,
        "S - O": 2,
        "M": 0,
    }
    assert found["M"].state(0.2) == "U"
    assert found["D"].state(0.2) == "P"  # both give 2
    assert found["S - O"].state(0.2) == "U"  # 1 and 5, and two occupations are no interval


def test_the_order_of_rows_changes_nothing() -> None:
    effects = pd.DataFrame({"same": about(2.0, 1.0), "other": about(1.0, 1.0, seed=1)})
    one, other = (quantities(e, seed=0) for e in (effects, effects.sample(frac=1, random_state=0)))
    assert all(one[name].interval().low == other[name].interval().low for name in ("S", "O", "S - O"))
    assert margin(effects["same"], seed=0) == margin(effects["same"].sample(frac=1, random_state=1), seed=0)


def test_an_occupation_that_comes_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'cook' comes twice"):
        quantities(pd.DataFrame({"same": [1.0, 2.0]}, index=["cook", "cook"]), seed=0)


def test_the_margin_is_the_two_halves_rule_written_out() -> None:
    same = about(4.0, 1.5)
    lows = []
    for half in halves(same.index, 3):
        values = same.loc[list(half)].to_numpy()[:, None]
        lows.append(studentized(values, seed=3).interval()[0, 0])
    assert margin(same, seed=3) == pytest.approx(0.25 * np.mean(lows))
    assert 0.7 < margin(same, seed=3) < 0.9


def test_the_margin_never_falls_under_its_floor() -> None:
    assert margin(about(0.0, 1.0), seed=0) == 0.2
    assert margin(about(-4.0, 1.0), seed=0) == 0.2
    assert margin(about(4.0, 1.0, n=11), seed=0) < 0.25 * 4  # one half has five occupations and counts as 0
    assert margin(about(4.0, 1.0, n=8), seed=0) == 0.2
    assert margin(pd.Series(np.nan, index=OCCUPATIONS), seed=0) == 0.2
    assert margin(pd.Series(3.0, index=OCCUPATIONS), seed=0) == 0.75  # the planted models: no noise at all
