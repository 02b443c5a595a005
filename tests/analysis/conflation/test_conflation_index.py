"""Oracles: the quadratic of Fieller solved by looking for the ends, coverage of known ratios."""

import doctest

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import t as student_t

from referent_probe.analysis.conflation import index
from referent_probe.analysis.conflation.index import conflation_index


def frame(same: "np.ndarray[tuple[int], np.dtype[np.float64]]", other: object) -> pd.DataFrame:
    return pd.DataFrame({"same": same, "other": other}, index=[f"role {i:02}" for i in range(len(same))])


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(index).failed == 0


def test_the_ends_are_the_ratios_that_a_paired_t_test_just_lets_pass() -> None:
    rng = np.random.default_rng(0)
    same = rng.normal(3.0, 1.0, 20)
    other = 0.6 * same + rng.normal(0.0, 0.8, 20)

    def beyond(ratio: float) -> float:
        rest = other - ratio * same
        return float(abs(rest.mean()) / (rest.std(ddof=1) / np.sqrt(20)) - student_t.ppf(0.975, 19))

    found = conflation_index(frame(same, other), seed=0).interval
    assert found is not None
    assert found.mean == pytest.approx(other.mean() / same.mean())
    assert found.low == pytest.approx(brentq(beyond, -1.0, found.mean))
    assert found.high == pytest.approx(brentq(beyond, found.mean, 3.0))


def test_it_is_undefined_where_the_own_pronoun_does_nothing() -> None:
    rng = np.random.default_rng(1)
    found = conflation_index(frame(rng.normal(0.1, 1.0, 20), rng.normal(1.0, 1.0, 20)), seed=0)
    assert found.interval is None
    assert found.reason is not None
    assert found.reason.startswith("the interval of S covers 0: S = ")
    one = conflation_index(frame(np.array([1.0]), 1.0), seed=0)
    assert (one.interval, one.reason) == (None, "1 occupations with both effects")
    few = conflation_index(frame(np.array([1.0, 2.0, 3.0]), 1.0), seed=0)
    assert few.interval is None
    assert few.reason == "S = 2.00 logits (no interval), n = 3 occupations"


def test_occupations_with_both_effects_count() -> None:
    same = np.array([4.0, 4.0, np.nan, 4.0])
    found = conflation_index(frame(same, [2.0, 2.0, 9.0, np.nan]), seed=0).interval
    assert found is not None
    assert (found.mean, found.low, found.high, found.n) == (0.5, 0.5, 0.5, 2)


def test_units_and_signs_cancel() -> None:
    rng = np.random.default_rng(2)
    effects = frame(rng.normal(3.0, 1.0, 12), rng.normal(2.0, 1.0, 12))
    one, turned = (conflation_index(e, seed=0).interval for e in (effects, effects * -2.5))
    assert one is not None
    assert turned is not None
    assert (one.mean, one.low, one.high) == pytest.approx((turned.mean, turned.low, turned.high))


def covered(n: int, ratio: float, n_simulations: int, skewed: bool) -> float:
    rng, hits, defined = np.random.default_rng(n), 0, 0
    for _ in range(n_simulations):
        shared = rng.lognormal(0.0, 0.5, n) / np.exp(0.125) if skewed else rng.normal(1.0, 0.3, n)
        same, other = 3.0 * shared + rng.normal(0.0, 1.0, n), 3.0 * ratio * shared + rng.normal(0.0, 1.0, n)
        found = conflation_index(frame(same, other), seed=0, n_resamples=99).interval
        if found is not None:
            defined += 1
            hits += found.low <= ratio <= found.high
    assert defined >= 0.98 * n_simulations
    return hits / defined


@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_cover_in_small(skewed: bool) -> None:
    assert 0.9 <= covered(24, 0.5, 300, skewed) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 24, 12])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_cover(n: int, ratio: float, skewed: bool) -> None:
    assert 0.92 <= covered(n, ratio, 2000, skewed) <= 0.98
