"""Oracles: the normal approximation of a mean over many clusters, and hand-made statistics."""

import doctest
import math

import numpy as np
import pytest

from referent_probe.analysis import resampling
from referent_probe.analysis.resampling import resampled_intervals, shuffled_over_roles


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(resampling).failed == 0


def test_resampled_intervals_of_a_mean_are_those_of_its_bootstrap_distribution() -> None:
    values = np.random.default_rng(0).normal(size=(2, 400))
    found = resampled_intervals(lambda times: values @ times.T / 400, 400, n_resamples=4000, seed=0, unit="logits")
    for interval, row in zip(found, values, strict=True):
        half = 1.96 * row.std() / 20
        assert interval.mean == pytest.approx(row.mean())
        assert [interval.low, interval.high] == pytest.approx([row.mean() - half, row.mean() + half], abs=0.01)


@pytest.mark.parametrize(("infinite", "low", "high"), [(0.01, 0, 0), (0.3, 0, math.inf), (0.99, math.inf, math.inf)])
def test_an_end_may_be_infinite_and_is_never_lost(infinite: float, low: float, high: float) -> None:
    """A statistic that is infinite in a share of its resamples, and 0 in the others."""

    def statistic(times: np.ndarray) -> np.ndarray:
        first = np.random.default_rng(1).random(len(times)) < infinite
        return np.where(first, math.inf, 0.0)[None]

    (found,) = resampled_intervals(statistic, 9, seed=0, unit="bits")
    assert (found.low, found.high) == (min(low, found.mean), max(high, found.mean))


def test_undefined_resamples_are_left_out_and_the_estimate_is_held() -> None:
    (found,) = resampled_intervals(
        lambda times: np.where(times[:, 0] > 0, times[:, 0] + 10.0 * (times[:, 0] > 1), math.nan)[None],
        2,
        n_resamples=99,
        seed=0,
        unit="draws",
    )
    assert (found.mean, found.low, found.high) == (1, 1, 12)
    (never,) = resampled_intervals(lambda times: np.full((1, len(times)), math.nan), 3, seed=0, unit="draws")
    assert np.isnan([never.mean, never.low, never.high]).all()
    (alone,) = resampled_intervals(lambda times: times[:, 0][None] * 1.0, 1, seed=0, unit="draws")
    assert (alone.mean, math.isnan(alone.low), alone.n) == (1, True, 1)


def test_shuffles_stay_among_roles_of_one_size() -> None:
    scale, sizes = np.arange(6.0), np.array([3, 9, 3, 30, 9, 3])
    shuffled = shuffled_over_roles(scale, sizes, 200, seed=0)
    assert {tuple(row) for row in shuffled[:, [0, 2, 5]]} == {
        (a, b, c) for a in (0, 2, 5) for b in (0, 2, 5) for c in (0, 2, 5) if len({a, b, c}) == 3
    }
    assert {tuple(row) for row in shuffled[:, [1, 4]]} == {(1, 4), (4, 1)}
    assert (shuffled[:, 3] == 3).all()
    assert scale.tolist() == [0, 1, 2, 3, 4, 5]
