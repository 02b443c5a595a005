"""Oracles: scikit-learn's estimator on rows repeated in exact proportion, the chain rule, hand counts."""

import doctest
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import mutual_info_score

from referent_probe.analysis import information
from referent_probe.analysis.information import (
    binary_entropy_bits,
    conditional_information_bits,
    information_bits,
    sampled_information_bits,
)
from referent_probe.analysis.resampling import resampled_intervals
from referent_probe.errors import OptionError

# 12 occupations of 4 templates, each with 2 primes.
TEMPLATES = [f"t{i // 2}" for i in range(96)]
OCCUPATIONS = [f"o{i // 8}" for i in range(96)]
PRIMES = ["she", "he"] * 48
CASES = ["nominative", "nominative", "accusative", "accusative"] * 24
P = np.random.default_rng(0).integers(0, 101, 96) / 100


def expanded(p: NDArray[np.float64], factor: list[str]) -> float:
    """100 answers a row in exact proportion, by scikit-learn, in bits."""
    feminine = np.rint(p * 100).astype(int)
    answers = np.concatenate([np.repeat([1, 0], [k, 100 - k]) for k in feminine])
    return float(mutual_info_score(answers, np.repeat(factor, 100)) / math.log(2))


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(information).failed == 0


def test_entropy_by_hand() -> None:
    assert binary_entropy_bits([0.25, 0.75]) == pytest.approx([2 - 0.75 * math.log2(3)] * 2)
    assert math.isnan(binary_entropy_bits(math.nan))


# Pooled


@pytest.mark.parametrize("factor", [PRIMES, CASES, TEMPLATES, OCCUPATIONS])
def test_pooled_information_is_scikit_learns_on_exact_proportions(factor: list[str]) -> None:
    found = information_bits(P, factor, OCCUPATIONS, n_resamples=99, seed=0)
    assert found.bits.mean == pytest.approx(expanded(P, factor), abs=1e-9)
    assert (found.n_rows, found.n_left_out, found.n_values) == (96, 0, len(set(factor)))
    assert (found.bits.n, found.bits.unit, found.bits.n_of) == (12, "bits", "occupations")
    assert 0 <= found.bits.low <= found.bits.mean <= found.bits.high <= 1


def test_pooled_information_by_hand() -> None:
    # Half of the rows at 3/4, half at 1/4: H(1/2) - H(1/4).
    p, order = np.tile([0.75, 0.25], 48), ["mf", "fm"] * 48
    found = information_bits(p, order, OCCUPATIONS, n_resamples=99, seed=0).bits
    assert [found.mean, found.low, found.high] == pytest.approx([0.75 * math.log2(3) - 1] * 3)


def test_a_factor_that_says_nothing() -> None:
    assert information_bits(P, ["same"] * 96, OCCUPATIONS, n_resamples=9, seed=0).bits.high < 1e-12
    assert information_bits(np.full(96, 0.3), PRIMES, OCCUPATIONS, n_resamples=9, seed=0).bits.high < 1e-12


def test_the_interval_resamples_occupations() -> None:
    found = information_bits(P, PRIMES, OCCUPATIONS, n_resamples=199, seed=0).bits
    rows = {name: [i for i, o in enumerate(OCCUPATIONS) if o == name] for name in sorted(set(OCCUPATIONS))}

    def by_repetition(times: NDArray[np.int_]) -> NDArray[np.float64]:
        drawn = [[i for name, k in zip(rows, row, strict=True) for i in rows[name] * k] for row in times]
        return np.array([[expanded(P[kept], [PRIMES[i] for i in kept]) for kept in drawn]])

    (expected,) = resampled_intervals(by_repetition, 12, n_resamples=199, seed=0, unit="bits")
    assert [found.mean, found.low, found.high] == pytest.approx([expected.mean, expected.low, expected.high], abs=1e-9)


def test_gender_names_and_order_of_rows_are_nothing() -> None:
    order = np.random.default_rng(1).permutation(96)
    found = information_bits(P, PRIMES, OCCUPATIONS, n_resamples=99, seed=0).bits
    for p, rows in (1 - P, np.arange(96)), (P, order):
        names = [{"she": 1, "he": 0}[PRIMES[i]] for i in rows]
        other = information_bits(p[rows], names, [OCCUPATIONS[i] for i in rows], n_resamples=99, seed=0).bits
        assert [other.mean, other.low, other.high] == pytest.approx([found.mean, found.low, found.high], abs=1e-12)


# Conditional on the template


@pytest.mark.parametrize("rows", [slice(None), slice(0, 75)], ids=["balanced", "unbalanced"])
def test_chain_rule(rows: slice) -> None:
    p, primes, templates, occupations = P[rows], PRIMES[rows], TEMPLATES[rows], OCCUPATIONS[rows]
    options = {"n_resamples": 9, "seed": 0}
    both = information_bits(p, list(zip(templates, primes, strict=True)), occupations, **options).bits.mean
    template = information_bits(p, templates, occupations, **options).bits.mean
    prime = conditional_information_bits(p, primes, templates, occupations, **options).bits.mean
    assert both == pytest.approx(template + prime, abs=1e-12)


def test_the_template_is_the_ceiling_of_what_it_fixes() -> None:
    ceiling = information_bits(P, TEMPLATES, OCCUPATIONS, n_resamples=9, seed=0).bits.mean
    for fixed in CASES, OCCUPATIONS:
        assert information_bits(P, fixed, OCCUPATIONS, n_resamples=9, seed=0).bits.mean <= ceiling
        assert conditional_information_bits(P, fixed, TEMPLATES, OCCUPATIONS, n_resamples=9, seed=0).bits.mean == 0


def test_a_balanced_factor_says_no_less_where_the_template_is_known() -> None:
    for seed in range(20):
        p = np.random.default_rng(seed).random(96)
        pooled = information_bits(p, PRIMES, OCCUPATIONS, n_resamples=9, seed=0).bits.mean
        known = conditional_information_bits(p, PRIMES, TEMPLATES, OCCUPATIONS, n_resamples=9, seed=0).bits.mean
        assert 0 <= pooled <= known + 1e-12


def test_conditional_information_is_the_mean_over_templates() -> None:
    found = conditional_information_bits(P, PRIMES, TEMPLATES, OCCUPATIONS, n_resamples=199, seed=0)
    single = [expanded(P[i : i + 2], PRIMES[i : i + 2]) for i in range(0, 96, 2)]
    assert found.bits.mean == pytest.approx(np.mean(single), abs=1e-9)
    assert found.bits.low < found.bits.mean < found.bits.high
    assert (found.n_rows, found.n_values, found.bits.n) == (96, 2, 12)


def test_a_template_has_one_cluster() -> None:
    with pytest.raises(ValueError, match="rows in two clusters"):
        conditional_information_bits([0.1, 0.2], ["she", "he"], ["t0", "t0"], ["cook", "nurse"], seed=0)


# Rows left out


def test_rows_without_probability_are_left_out_and_counted() -> None:
    spoiled, kept = P.copy(), np.arange(96) != 40
    spoiled[40] = math.nan
    columns = [[x for x, k in zip(column, kept, strict=True) if k] for column in (PRIMES, TEMPLATES, OCCUPATIONS)]
    found = information_bits(spoiled, PRIMES, OCCUPATIONS, n_resamples=99, seed=0)
    assert found.bits == information_bits(P[kept], columns[0], columns[2], n_resamples=99, seed=0).bits
    known = conditional_information_bits(spoiled, PRIMES, TEMPLATES, OCCUPATIONS, n_resamples=99, seed=0)
    assert known.bits == conditional_information_bits(P[kept], *columns, n_resamples=99, seed=0).bits
    assert (found.n_rows, found.n_left_out, known.n_left_out) == (95, 1, 1)


@pytest.mark.parametrize("n", [0, 3])
def test_without_probabilities_there_is_no_information(n: int) -> None:
    p, names = [math.nan] * n, ["a", "b", "c"][:n]
    results = [
        information_bits(p, names, names, seed=0),
        conditional_information_bits(p, names, names, names, seed=0),
        sampled_information_bits([0] * n, [0] * n, names, names, seed=0),
    ]
    for found in results:
        assert math.isnan(found.bits.mean)
        assert (found.n_rows, found.n_left_out, found.bits.n) == (0, n, 0)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="1 factor for p of shape"):
        information_bits([0.1, 0.2], ["she"], ["cook", "cook"], seed=0)


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^p = 1\.2 is no probability"):
        information_bits([0.1, 1.2], ["she", "he"], ["cook", "cook"], seed=0)


# Draws


def test_information_of_draws_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    feminine, masculine = rng.integers(0, 50, (2, 96))
    answers_drawn = np.concatenate([np.repeat([1, 0], k) for k in zip(feminine, masculine, strict=True)])
    expected = mutual_info_score(answers_drawn, np.repeat(PRIMES, feminine + masculine)) / math.log(2)
    found = sampled_information_bits(feminine, masculine, PRIMES, OCCUPATIONS, n_resamples=99, seed=0)
    assert found.bits.mean == pytest.approx(expected)
    assert found.bits.low <= found.bits.mean <= found.bits.high


def test_equally_many_draws_in_exact_proportion_give_the_exact_information() -> None:
    feminine = np.rint(P * 100)
    found = sampled_information_bits(feminine, 100 - feminine, CASES, OCCUPATIONS, n_resamples=99, seed=0)
    exact = information_bits(P, CASES, OCCUPATIONS, n_resamples=99, seed=0)
    assert [found.bits.mean, found.bits.low, found.bits.high] == pytest.approx(
        [exact.bits.mean, exact.bits.low, exact.bits.high], abs=1e-9
    )


def test_cells_without_a_valid_draw_are_left_out_and_counted() -> None:
    found = sampled_information_bits([5, 0, 0], [0, 5, 0], ["she", "he", "they"], ["a", "b", "c"], seed=0)
    assert found.bits.mean == pytest.approx(1)
    assert (found.n_rows, found.n_left_out, found.n_values) == (2, 1, 2)
