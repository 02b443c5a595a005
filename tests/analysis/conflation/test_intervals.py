"""Oracles: a loop over resamples that are written out, and coverage of known means and ratios."""

import doctest

import numpy as np
import pytest
from numpy.typing import NDArray

from referent_probe.analysis.conflation import intervals
from referent_probe.analysis.conflation.intervals import studentized
from referent_probe.randomness import generator

N_SIMULATIONS = 2000


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(intervals).failed == 0


def test_means_are_the_studentised_bootstrap_written_out() -> None:
    values = np.random.default_rng(0).lognormal(size=9)
    times = generator(5, "studentized").multinomial(9, np.full(9, 1 / 9), size=199)
    draws = []
    for row in times:
        sample = np.repeat(values, row)
        draws.append((sample.mean() - values.mean()) / (sample.std(ddof=1) / 3))
    error = values.std(ddof=1) / 3
    found = studentized(values[:, None], n_resamples=199, seed=5)
    assert found.draws[:, 0] == pytest.approx(draws)
    # With 199 resamples the tails of 95 % are the fifth smallest and the fifth largest.
    ordered = np.sort(draws)
    assert found.interval()[:, 0] == pytest.approx(values.mean() - ordered[[194, 4]] * error)


def test_ratios_have_the_linearised_error_written_out() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, 5, size=12).astype(float)
    values = rng.binomial(sizes.astype(int), 0.4).astype(float)
    times = generator(2, "studentized").multinomial(12, np.full(12, 1 / 12), size=99)
    ratio, draws = values.sum() / sizes.sum(), []
    for row in times:
        y, n = np.repeat(values, row), np.repeat(sizes, row)
        own = y.sum() / n.sum()
        draws.append((own - ratio) / (np.sqrt(12 * np.var(y - own * n, ddof=1)) / n.sum()))
    found = studentized(values[:, None], sizes[:, None], n_resamples=99, seed=2)
    assert found.estimate[0] == ratio
    assert found.draws[:, 0] == pytest.approx(draws)
    assert found.error[0] == pytest.approx(np.sqrt(12 * np.var(values - ratio * sizes, ddof=1)) / sizes.sum())


def test_intervals_and_p_values_say_the_same() -> None:
    values = np.random.default_rng(3).normal(0.2, 0.5, size=(20, 200))
    found = studentized(values, n_resamples=999, seed=0)
    low, high = found.interval(0.95)
    assert ((low > 0) | (high < 0)).tolist() == (found.p_difference() <= 0.05).tolist()
    low, high = found.interval(0.9)
    within = (low > -0.4) & (high < 0.4)
    assert within.tolist() == (found.p_equivalence(0.4) <= 0.05).tolist()
    assert 0 < within.sum() < 200
    assert found.p_above(0.2) + found.p_below(0.2) == pytest.approx(1 + 1 / 1000)


def test_where_all_agree_the_interval_has_no_width_and_p_is_extreme() -> None:
    found = studentized([[0.1, 0.0, 3.0]] * 8, n_resamples=99, seed=0)
    assert found.interval() == pytest.approx(np.array([[0.1, 0.0, 3.0]] * 2), abs=1e-15)
    assert found.p_difference() == pytest.approx([0.02, 1.0, 0.02])
    assert found.p_equivalence(1.0) == pytest.approx([0.01, 0.01, 1.0])


def test_with_few_clusters_there_is_no_interval_unless_they_agree() -> None:
    five = studentized(np.arange(5.0)[:, None], seed=0)
    assert five.estimate[0] == 2.0
    assert np.isnan(five.interval()).all()
    assert np.isnan(five.p_difference()).all()
    assert np.isnan(studentized([[1.0]], seed=0).interval()).all()
    nothing = studentized(np.zeros((0, 2)), seed=0)
    assert np.isnan(nothing.estimate).all()
    assert np.isnan(nothing.interval()).all()
    # Twelve occupations, five of them with a pair to speak of.
    sizes = np.repeat([[1.0], [0.0]], [5, 7], axis=0)
    assert np.isnan(studentized(sizes * np.arange(12.0)[:, None], sizes, seed=0).interval()).all()


def test_a_ratio_of_nothing_is_not_known() -> None:
    found = studentized(np.zeros((8, 1)), np.zeros((8, 1)), seed=0)
    assert np.isnan(found.estimate).all()
    assert np.isnan(found.bounded_interval(0.0, 1.0)).all()


def test_shares_end_where_shares_end_and_agreement_is_not_certainty() -> None:
    all_stop = studentized(np.ones((10, 1)), np.ones((10, 1)), seed=0)
    low, high = all_stop.bounded_interval(0.0, 1.0)[:, 0]
    assert (low, high) == pytest.approx((0.025 ** (1 / 10), 1.0))  # Clopper and Pearson, ten of ten
    none_stop = studentized(np.zeros((10, 1)), np.ones((10, 1)), seed=0)
    assert none_stop.bounded_interval(0.0, 1.0)[:, 0] == pytest.approx([0.0, 1 - 0.025 ** (1 / 10)])
    one_stops = studentized(np.eye(10)[:, :1], np.ones((10, 1)), seed=0)
    assert one_stops.interval()[0, 0] < 0 <= one_stops.bounded_interval(0.0, 1.0)[0, 0]


def test_a_value_out_of_order_is_no_value() -> None:
    with pytest.raises(ValueError, match="not finite"):
        studentized([[np.nan], [1.0]], seed=0)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        studentized([1.0, 2.0, 3.0], seed=0)


def test_the_unit_is_nothing_and_the_sign_turns_the_interval() -> None:
    values = np.random.default_rng(4).lognormal(size=(15, 3))
    one, scaled, turned = (studentized(values * c, n_resamples=999, seed=0).interval() for c in (1, 1e-6, -1))
    assert scaled * 1e6 == pytest.approx(one)
    assert turned == pytest.approx(-one[::-1])


def drawn(kind: str, n: int) -> tuple[NDArray[np.float64], float]:
    """`[n, N_SIMULATIONS]`, and their true mean."""
    rng, shape = generator(7, kind, n), (n, N_SIMULATIONS)
    if kind == "normal":
        return rng.normal(1.0, 1.5, shape), 1.0
    if kind == "lognormal":
        return rng.lognormal(0.0, 0.5, shape), float(np.exp(0.125))
    if kind == "exponential":
        return rng.exponential(size=shape), 1.0
    # A third of occupations carry the effect, the others next to nothing.
    return np.where(rng.random(shape) < 0.35, rng.normal(3.0, 1.0, shape), rng.normal(0.0, 0.5, shape)), 1.05


@pytest.mark.parametrize("n", [60, 24, 12])
@pytest.mark.parametrize("kind", ["normal", "lognormal", "exponential", "mixture"])
def test_intervals_cover(kind: str, n: int) -> None:
    values, truth = drawn(kind, n)
    low, high = studentized(values, n_resamples=999, seed=0).interval(0.95)
    assert 0.92 <= np.mean((low <= truth) & (truth <= high)) <= 0.98


@pytest.mark.parametrize("n", [60, 24])
@pytest.mark.parametrize("phi", [0.2, 0.5, 0.8])
def test_intervals_of_shares_of_pairs_cover(phi: float, n: int) -> None:
    """Occupations differ in how many pairs are contextual and in what these depend on."""
    rng, shape = generator(8, n, int(10 * phi)), (n, N_SIMULATIONS)
    contextual = rng.binomial(6, rng.beta(1.5, 1.5, shape))
    depend = rng.binomial(contextual, rng.beta(4 * phi, 4 * (1 - phi), shape))
    low, high = studentized(depend, contextual, n_resamples=999, seed=0).bounded_interval(-0.5, 1.0)
    assert 0.92 <= np.mean((low <= phi) & (phi <= high)) <= 0.98


@pytest.mark.parametrize("n", [60, 24, 12])
@pytest.mark.parametrize("phi", [0.2, 0.8])
def test_intervals_of_relative_strength_cover(phi: float, n: int) -> None:
    rng, shape = generator(9, n, int(10 * phi)), (n, N_SIMULATIONS)
    before = rng.gamma(4.0, 0.5, shape)
    gone = before * (phi + rng.normal(0.0, 0.4, shape))
    low, high = studentized(gone, before, n_resamples=999, seed=0).interval()
    assert 0.92 <= np.mean((low <= phi) & (phi <= high)) <= 0.98
