"""Oracles: the table of the design written as nested questions, rows by hand, simulated models."""

import doctest
from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from referent_probe.analysis.conflation import verdict as module
from referent_probe.analysis.conflation.intervals import studentized
from referent_probe.analysis.conflation.states import State, margin, quantities
from referent_probe.analysis.conflation.verdict import MEANINGS, Levels, decide, graded, judged, verdict
from referent_probe.analysis.held_out import halves

OCCUPATIONS = [f"role {i:02}" for i in range(60)]


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def asked_in_turn(o: str, s: str, t: str, d: str) -> str:
    """The table, as somebody would read it aloud."""
    if o == "U":
        return "undecided"
    if o == "Z":
        if s == "P":
            return "faithful" if t in ("Z", "U") else "mixed"
        if s == "Z":
            return {"Z": "insensitive", "U": "undecided"}.get(t, "mixed")
        return "undecided" if s == "U" else "mixed"
    if t == "U" or d == "U":
        return "undecided"
    if o == "P" and t == "Z":
        if d != "P":
            return "undecided"
        return {"P": "conflating", "U": "undecided"}.get(s, "misbinding")
    if o == "N" and t == "Z":
        return "contrasting" if d == "N" else "undecided"
    if d == "Z":
        if o == t:
            return "repeating" if o == "P" else "avoiding"
        return "undecided"
    return "mixed"


def test_the_table_covers_all_256_combinations() -> None:
    names = set()
    for o, s, t, d in product("ZPNU", repeat=4):
        found = decide({"O": o, "S": s, "T": t, "D": d})
        assert found == asked_in_turn(o, s, t, d), (o, s, t, d)
        names.add(found)
    assert names == set(MEANINGS)


ROWS = [
    ("UPZP", "undecided"),
    ("ZPZZ", "faithful"),
    ("ZPUU", "faithful"),
    ("ZZZZ", "insensitive"),
    ("ZUZZ", "undecided"),
    ("ZZUU", "undecided"),
    ("ZPPN", "mixed"),
    ("ZNZZ", "mixed"),
    ("PPUU", "undecided"),
    ("PPPU", "undecided"),
    ("PPZP", "conflating"),
    ("PZZP", "misbinding"),
    ("PNZP", "misbinding"),
    ("PUZP", "undecided"),
    ("PPPZ", "repeating"),
    ("PZPZ", "repeating"),
    ("NPZN", "contrasting"),
    ("NNNZ", "avoiding"),
    ("PPPP", "mixed"),
    ("PPNP", "mixed"),
    ("NPPN", "mixed"),
    ("PPZZ", "undecided"),
    ("PPNZ", "undecided"),
]


@pytest.mark.parametrize(("letters", "expected"), ROWS)
def test_rows_by_hand(letters: str, expected: str) -> None:
    o, s, t, d = letters
    assert decide({"O": o, "S": s, "T": t, "D": d}) == expected


CONFLATING: Mapping[str, State] = {"O": "P", "S": "P", "T": "Z", "D": "P", "M": "U"}
REPEATING: Mapping[str, State] = {"O": "P", "S": "P", "T": "P", "D": "Z"}


def test_grades_by_hand() -> None:
    grades: dict[State, str] = {"Z": "full", "P": "partial", "N": "over", "U": "ungraded"}
    assert {x: graded({**CONFLATING, "S - O": x}) for x in grades} == grades
    expected = {
        ("Z", "P"): "token level",
        ("Z", "Z"): "person level",
        ("P", "P"): "with a faithful part, token level",
        ("P", "Z"): "with a faithful part, person level",
        ("P", "U"): "with a faithful part",
        ("Z", "U"): None,
        ("N", "N"): None,
    }
    found = {(x, m): graded({**REPEATING, "S - O": x, "M": m}) for x, m in expected}
    assert found == expected
    assert graded({"O": "N", "S": "N", "T": "N", "D": "Z", "S - O": "Z", "M": "P"}) is None


def effects(same: float, other: float, third: float, sd: float, seed: int = 0, n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    means = {"same": same, "other": other, "third": third}
    return pd.DataFrame({p: m + sd * rng.normal(size=n) for p, m in means.items()}, index=OCCUPATIONS[:n])


@pytest.mark.parametrize("sd", [0.0, 0.01, 0.6])
@pytest.mark.parametrize(
    ("same", "other", "third", "expected"),
    [
        (4.0, 0.0, 0.0, "faithful"),
        (4.0, 4.0, 0.0, "conflating"),
        (4.0, 4.0, 4.0, "repeating"),
        (0.0, -4.0, 0.0, "contrasting"),
        (-4.0, -4.0, -4.0, "avoiding"),
        (0.0, 0.0, 0.0, "insensitive"),
        (5.0, 5.0, 3.0, "mixed"),
        (0.0, 4.0, 0.0, "misbinding"),
    ],
)
def test_planted_behaviour_gets_its_name(same: float, other: float, third: float, expected: str, sd: float) -> None:
    if sd == 0.6 and same <= 0:
        sd = 0.4  # without a legitimate cue the margin is 0.2
    found = verdict(effects(same, other, third, sd), seed=0)
    assert (found.name, found.words.startswith(expected)) == (expected, True)
    if expected == "conflating":
        assert found.grade == "full"
        assert (found.delta == 1.0) if sd == 0 else (0.85 < found.delta < 1.0)


def test_partial_and_over_conflation_are_told_apart() -> None:
    assert verdict(effects(4.0, 2.0, 0.0, 0.3), seed=0).grade == "partial"
    assert verdict(effects(2.0, 4.0, 0.0, 0.3), seed=0).grade == "over"


def test_what_was_not_measured_is_undecided_and_said_so() -> None:
    whole = effects(4.0, 4.0, 0.0, 0.5)
    without = verdict(whole.drop(columns="third"), seed=0)
    assert (without.name, without.states["T"], without.states["D"]) == ("undecided", "U", "U")
    assert "T has 0 occupations" in without.words
    nothing = verdict(pd.DataFrame(index=OCCUPATIONS), seed=0)
    assert (nothing.name, nothing.delta, nothing.flips_at) == ("undecided", 0.2, (None, None))
    assert "No effect was measured" in nothing.words


def test_an_undecided_verdict_says_how_many_occupations_it_takes() -> None:
    found = verdict(effects(4.0, 4.0, 0.3, 3.0, n=12), seed=0)
    assert found.name == "undecided"
    assert "T is undecided: with 12 occupations and an SD of" in found.words
    assert "80 % takes" in found.words


def test_mixed_prints_the_difference_and_the_third_persons_effect() -> None:
    words = verdict(effects(5.0, 5.0, 3.0, 0.0), seed=0).words
    assert "O - T = 2.00" in words
    assert "T = 3.0" in words
    assert "S =" not in words


def test_flips_are_those_of_a_fine_grid() -> None:
    seen = set()
    for seed, (same, other, third) in enumerate([(4, 4, 0.4), (4, 3, 2), (3, 0.5, 0.2), (4, 4, 3.7), (0.3, 0.2, 0.1)]):
        estimates = quantities(effects(same, other, third, 1.0, seed), seed=0, n_resamples=499)
        delta = margin(effects(same, other, third, 1.0, seed)["same"], seed=0, n_resamples=499)
        found = judged(estimates, delta)
        grid = np.geomspace(0.01, 10, 400)
        names = [decide({q: one.state(float(tried)) for q, one in estimates.items()}) for tried in grid]
        below = [i for i, x in enumerate(grid) if x < delta and names[i] != found.name]
        above = [i for i, x in enumerate(grid) if x >= delta and names[i] != found.name]
        for flip, i, side in ((found.flips_at[0], below[-1:], 0), (found.flips_at[1], above[:1], 1)):
            assert (flip is None) == (not i), (seed, side)
            if flip is not None:
                assert flip.name == names[i[0]]
                assert grid[i[0]] == pytest.approx(flip.margin, rel=0.02)
                assert f"{flip.margin:.2f}" in found.words
                seen.add(side)
    assert seen == {0, 1}


def test_stricter_levels_decide_less() -> None:
    estimates = quantities(effects(4.0, 4.0, 0.45, 1.5), seed=0)
    assert judged(estimates, 0.85).name == "conflating"
    strict = {q: Levels(zero=0.0005, sign=0.001) for q in estimates}
    assert judged(estimates, 0.85, strict).name != "conflating"


def names_of_many(
    same: NDArray[np.float64], other: NDArray[np.float64], third: NDArray[np.float64], n_resamples: int
) -> NDArray[np.str_]:
    """Verdicts on many simulated models, `[n_occupations, n_models]` each, all at once."""
    occupations = OCCUPATIONS[: len(same)]
    lows = [
        np.nan_to_num(
            studentized(same[[occupations.index(o) for o in half]], n_resamples=n_resamples, seed=0).interval()[0]
        )
        for half in halves(occupations, 0)
    ]
    delta = np.maximum(0.2, 0.25 * np.maximum(0.0, lows).mean(axis=0))
    states = []
    for values in (other, same, third, other - third):
        found = studentized(values, n_resamples=n_resamples, seed=0)
        low, high = found.interval(0.95)
        is_zero = np.abs(found.interval(0.9)).max(axis=0) < delta
        states.append(np.select([is_zero, low > 0, high < 0], ["Z", "P", "N"], "U"))
    return np.array([decide(dict(zip("OSTD", letters, strict=True))) for letters in zip(*states, strict=True)])


def simulated(n: int, n_models: int, sd: float, *means: float, seed: int = 0) -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    return [mean + sd * rng.normal(size=(n, n_models)) for mean in means]


def test_many_at_once_are_what_each_is_by_itself() -> None:
    models = simulated(20, 12, 1.5, 3.0, 3.0, 0.5)
    alone = [
        verdict(
            pd.DataFrame(
                dict(zip(("same", "other", "third"), (x[:, i] for x in models), strict=True)), OCCUPATIONS[:20]
            ),
            seed=0,
            n_resamples=499,
        ).name
        for i in range(12)
    ]
    assert names_of_many(*models, n_resamples=499).tolist() == alone
    assert len(set(alone)) > 1


@pytest.mark.parametrize(
    ("means", "sd"),
    [
        ((4.0, 4.0, 1.0), 1.5),  # third does a quarter of what same does
        ((0.5, 1.0, 0.2), 0.5),  # the same at the floor of the margin
        ((4.0, 4.0, 4.0), 1.5),  # a full repeater
        ((4.0, 1.0, 1.0), 1.5),  # a weak one, at the margin
    ],
)
def test_at_the_margin_few_are_called_conflating(means: tuple[float, float, float], sd: float) -> None:
    names = names_of_many(*simulated(60, 2000, sd, *means), n_resamples=999)
    false = int((names == "conflating").sum())
    # One-sided at 99 %: more than so many would not be had at 5 %.
    assert false <= binom.ppf(0.99, 2000, 0.05), false / 2000


def test_full_conflaters_are_found() -> None:
    names = names_of_many(*simulated(60, 2000, 1.5, 4.0, 4.0, 0.0), n_resamples=999)
    assert (names == "conflating").mean() >= 0.95
    noisier = names_of_many(*simulated(60, 2000, 2.0, 4.0, 4.0, 0.0), n_resamples=999)
    assert 0.8 <= (noisier == "conflating").mean() <= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("n", [24, 12])
@pytest.mark.parametrize("means", [(4.0, 4.0, 1.0), (0.5, 1.0, 0.2), (4.0, 1.0, 1.0)])
def test_fewer_occupations_decide_less_and_err_no_more(means: tuple[float, float, float], n: int) -> None:
    sd = 1.5 if means[0] == 4.0 else 0.5
    names = names_of_many(*simulated(n, 2000, sd, *means), n_resamples=999)
    assert (names == "conflating").sum() <= binom.ppf(0.99, 2000, 0.05)
    assert (names == "undecided").mean() > 0.05
