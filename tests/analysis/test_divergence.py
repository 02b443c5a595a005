"""Oracles: scipy's entropy, the double sum over both counts, a simulation, numpy's median of the repeated values."""

import doctest
import math

import numpy as np
import pytest
from scipy.stats import binom, entropy

from referent_probe.analysis import divergence
from referent_probe.analysis.divergence import (
    bernoulli_kl_bits,
    divergence_from_unprimed,
    expected_smoothed_kl_bits,
    largest_smoothed_kl_bits,
    weighted_medians,
)
from referent_probe.errors import OptionError

RNG = np.random.default_rng(0)
P, Q = RNG.random((2, 50))


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(divergence).failed == 0


# Exact


def test_kl_is_scipys_entropy() -> None:
    expected = [entropy([p, 1 - p], [q, 1 - q], base=2) for p, q in zip(P, Q, strict=True)]
    assert bernoulli_kl_bits(P, Q) == pytest.approx(expected, rel=1e-12)


def test_kl_by_hand() -> None:
    assert bernoulli_kl_bits(0.75, 0.25) == pytest.approx(0.5 * math.log2(3))
    assert bernoulli_kl_bits(1.0, 0.125) == 3.0
    assert bernoulli_kl_bits(0.999, 1e-6) == pytest.approx(19.9, abs=0.05)


def test_kl_knows_no_gender() -> None:
    assert bernoulli_kl_bits(1 - P, 1 - Q) == pytest.approx(bernoulli_kl_bits(P, Q), rel=1e-9)


def test_kl_is_zero_for_equals_and_never_negative() -> None:
    near = np.linspace(0.01, 0.99, 999)
    assert (bernoulli_kl_bits(near, near) == 0).all()
    assert (bernoulli_kl_bits(near, near * (1 + 1e-9)) >= 0).all()


def test_kl_at_the_ends() -> None:
    p, q = [0.0, 1.0, 0.0, 1.0, 0.5, 0.5, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.5]
    assert bernoulli_kl_bits(p, q).tolist() == [0, 0, math.inf, math.inf, math.inf, math.inf, 1]


def test_kl_broadcasts_and_passes_nan() -> None:
    assert bernoulli_kl_bits(P[:, None], Q).shape == (50, 50)
    assert bernoulli_kl_bits([], []).shape == (0,)
    assert np.isnan(bernoulli_kl_bits([math.nan, 0.5], [0.5, math.nan])).all()


@pytest.mark.parametrize(("p", "q", "message"), [(1.5, 0.5, "p = 1.5"), (0.5, [0.1, -0.1], "q = -0.1")])
def test_what_is_no_probability_is_refused(p: float, q: float, message: str) -> None:
    for divergence_bits in bernoulli_kl_bits, expected_smoothed_kl_bits:
        with pytest.raises(OptionError, match=f"^{message} is no probability: give values from 0 to 1"):
            divergence_bits(p, q)


# Expected, of smoothed draws


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_expected_kl_is_the_double_sum(n: int) -> None:
    counts = np.arange(n + 1)
    shares = (counts + 0.5) / (n + 1)
    table = bernoulli_kl_bits(shares[:, None], shares)
    p, q = np.append(P[:8], [0, 1, 0, 1, 1]), np.append(Q[:8], [0, 1, 1, 0.5, 1 - 1e-9])
    double_sum = [binom.pmf(counts, n, a) @ table @ binom.pmf(counts, n, b) for a, b in zip(p, q, strict=True)]
    assert expected_smoothed_kl_bits(p, q, n) == pytest.approx(double_sum, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("p", "q"), [(0.3, 0.3), (0.999, 1e-6), (0.5, 0.9)])
def test_expected_kl_is_the_mean_over_draws(p: float, q: float) -> None:
    rng, repeats = np.random.default_rng(1), 100_000
    share_p, share_q = ((rng.binomial(200, x, repeats) + 0.5) / 201 for x in (p, q))
    drawn = bernoulli_kl_bits(share_p, share_q)
    error = drawn.std() / math.sqrt(repeats)
    assert expected_smoothed_kl_bits(p, q) == pytest.approx(drawn.mean(), abs=4 * error)


def test_no_cell_shows_more_than_the_cap() -> None:
    assert largest_smoothed_kl_bits() == pytest.approx(8.604, abs=5e-4)  # 8.6 in the paper
    assert largest_smoothed_kl_bits() == pytest.approx(float(bernoulli_kl_bits(200.5 / 201, 0.5 / 201)))
    for n in 1, 20, 200:
        grid = np.linspace(0, 1, 41)
        found = expected_smoothed_kl_bits(grid[:, None], grid, n)
        corners = [found.max(), found[0, -1], found[-1, 0]]
        assert corners == pytest.approx([largest_smoothed_kl_bits(n)] * 3)
        assert (found >= 0).all()


def test_draws_of_equals_differ_by_chance_and_more_draws_come_near_the_exact_value() -> None:
    assert expected_smoothed_kl_bits(0.5, 0.5, 200) == pytest.approx(1 / (200 * math.log(2)), rel=0.02)
    far = [float(expected_smoothed_kl_bits(0.2, 0.6, n) - bernoulli_kl_bits(0.2, 0.6)) for n in (50, 500, 5000)]
    assert abs(far[0]) > abs(far[1]) > abs(far[2])
    assert far[2] == pytest.approx(0, abs=1e-3)


def test_expected_kl_broadcasts_and_passes_nan() -> None:
    assert expected_smoothed_kl_bits(P[:, None], Q).shape == (50, 50)
    assert expected_smoothed_kl_bits(0.5, 0.5).shape == ()
    assert np.isnan(expected_smoothed_kl_bits([math.nan, 0.5], [0.5, math.nan])).all()


def test_no_draws_are_refused() -> None:
    with pytest.raises(OptionError, match="cannot smooth 0 draws"):
        expected_smoothed_kl_bits(0.5, 0.5, 0)


# Over templates


def test_weighted_medians_are_the_medians_of_the_repeated_values() -> None:
    values, weights = np.append(RNG.random(11).round(1), math.inf), RNG.integers(0, 3, (200, 12))
    weights[0] = 0
    found = weighted_medians(values, weights)
    assert math.isnan(found[0])
    assert found[1:].tolist() == [np.median(np.repeat(values, times)) for times in weights[1:]]


def test_three_columns() -> None:
    occupations = [f"o{i // 5}" for i in range(50)]
    found = divergence_from_unprimed(P, Q, occupations, n_resamples=999, seed=0)
    exact = bernoulli_kl_bits(P, Q)
    assert found.exact_mean.mean == pytest.approx(exact.mean())
    assert found.exact_median.mean == np.median(exact)
    assert found.smoothed_mean.mean == pytest.approx(expected_smoothed_kl_bits(P, Q).mean())
    for interval in found.exact_mean, found.exact_median, found.smoothed_mean:
        assert 0 <= interval.low < interval.mean < interval.high
        assert (interval.n, interval.n_of, interval.unit) == (10, "occupations", "bits")


def test_infinite_divergences_are_counted_and_only_the_exact_mean_goes_without() -> None:
    p, q = np.append(P, [0.5, math.nan, 0.0]), np.append(Q, [1.0, 0.5, 0.0])
    found = divergence_from_unprimed(p, q, list(range(53)), n_resamples=99, seed=0)
    exact = np.append(bernoulli_kl_bits(P, Q), 0.0)
    assert (found.n_templates, found.n_infinite, found.n_left_out) == (52, 1, 1)
    assert (found.exact_mean.mean, found.exact_mean.n) == (pytest.approx(exact.mean()), 51)
    assert (found.exact_median.mean, found.exact_median.n) == (np.median(np.append(exact, math.inf)), 52)
    assert math.isfinite(found.smoothed_mean.mean)


@pytest.mark.parametrize("p", [[], [math.nan, math.nan]])
def test_without_probabilities_there_is_no_divergence(p: list[float]) -> None:
    found = divergence_from_unprimed(p, p, ["cook", "nurse"][: len(p)], seed=0)
    assert (found.n_templates, found.n_left_out, found.exact_median.n) == (0, len(p), 0)
    assert np.isnan([found.exact_mean.mean, found.exact_median.mean, found.smoothed_mean.low]).all()


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="give one of each"):
        divergence_from_unprimed([0.5, 0.5], [0.5, 0.5], ["cook"], seed=0)
