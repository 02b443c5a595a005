"""Oracles: scipy's Fisher test and Benjamini-Hochberg of statsmodels one by one; size and power by simulation."""

import doctest

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, fisher_exact
from statsmodels.stats.multitest import multipletests

from referent_probe.analysis import agreement_test as module
from referent_probe.analysis.agreement_test import (
    agreement_directions,
    agreement_test,
    benjamini_hochberg,
    either_order,
    fisher_greater,
    joint_agreement_test,
    sampled_delta_c,
    sampled_delta_c_joint,
)
from referent_probe.analysis.contextuality import delta_c, delta_c_joint
from referent_probe.errors import OptionError
from referent_probe.randomness import generator

Counts = NDArray[np.int64]
ALPHA = 0.05
DRAWS = 200


def sample(rates: list[float], n_pairs: int, *labels: str, draws: int = DRAWS) -> Counts:
    return generator(0, "agreements", *labels).binomial(draws, rates, (n_pairs, 4))


def at_most(level: float, rejected: NDArray[np.bool_]) -> bool:
    """Whether that many rejections are compatible with the level, up to one in a thousand."""
    return bool(binomtest(int(rejected.sum()), rejected.size, level, alternative="greater").pvalue > 0.001)


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


# Against the libraries, one by one


def test_fisher_is_scipys() -> None:
    rng = generator(0, "fisher")
    n, other_n = rng.integers(1, 60, (2, 300))
    k, other = rng.integers(0, n + 1), rng.integers(0, other_n + 1)
    expected = [
        fisher_exact([[a, b - a], [c, d - c]], alternative="greater").pvalue
        for a, b, c, d in zip(k, n, other, other_n, strict=True)
    ]
    assert fisher_greater(k, n, other, other_n) == pytest.approx(expected, abs=1e-12)


def test_fisher_broadcasts() -> None:
    table = fisher_greater(np.arange(4)[:, None], 3, np.arange(4), 3)
    assert table.shape == (4, 4)
    assert table[3, 0] == pytest.approx(1 / 20)
    assert np.all(np.diff(table, axis=0) <= 0)  # more successes, smaller p
    assert np.all(np.diff(table, axis=1) >= 0)


def test_directions_by_loops() -> None:
    rng = generator(0, "directions")
    draws = rng.integers(1, 30, (20, 4))
    agreements = rng.integers(0, draws + 1)

    def p(pair: int, i: int, j: int) -> float:
        rows = [[agreements[pair, x], draws[pair, x] - agreements[pair, x]] for x in (i, j)]
        return float(fisher_exact(rows, alternative="greater").pvalue)

    second = [max(p(pair, i, j) for i in (0, 1) for j in (2, 3)) for pair in range(20)]
    first = [max(p(pair, j, i) for i in (0, 1) for j in (2, 3)) for pair in range(20)]
    assert agreement_directions(agreements, draws) == pytest.approx(np.array([second, first]).T, abs=1e-12)
    assert agreement_test(agreements, draws) == pytest.approx(np.minimum(second, first), abs=1e-12)


def test_joint_by_loops() -> None:
    first, second = generator(0, "joint").integers(0, 20, (2, 20, 2, 2))

    def p(more: Counts, less: Counts, cell: tuple[int, int]) -> float:
        rows = [[table[cell], table.sum() - table[cell]] for table in (more, less)]
        return float(fisher_exact(rows, alternative="greater").pvalue)

    def direction(x: Counts, y: Counts) -> float:
        return max(*(p(x, y, cell) for cell in ((0, 0), (1, 1))), *(p(y, x, cell) for cell in ((0, 1), (1, 0))))

    expected = [min(direction(x, y), direction(y, x)) for x, y in zip(first, second, strict=True)]
    assert joint_agreement_test(first, second) == pytest.approx(expected, abs=1e-12)


def test_benjamini_hochberg_is_statsmodels() -> None:
    p_values = generator(0, "bh").random(50) ** 3
    assert benjamini_hochberg(p_values) == pytest.approx(multipletests(p_values, method="fdr_bh")[1])
    gaps = np.insert(p_values, [0, 10, 50], np.nan)
    assert benjamini_hochberg(gaps)[~np.isnan(gaps)] == pytest.approx(benjamini_hochberg(p_values))
    assert np.isnan(benjamini_hochberg([np.nan])).all()
    assert benjamini_hochberg([]).size == 0


def test_plain_estimates_are_dc_of_the_frequencies() -> None:
    counts = sample([0.7, 0.6, 0.4, 0.5], 50)
    c2_f, c2_m, c1_f, c1_m = (counts / DRAWS).T
    expected = np.asarray(delta_c(0.5, 0.5, c2_f, 1 - c2_m, c1_f, 1 - c1_m, estimator="steered"))
    assert sampled_delta_c(counts, DRAWS) == pytest.approx(expected, abs=1e-12)
    first, second = generator(0, "plain").multinomial(DRAWS, [0.25] * 4, (2, 50)).reshape(2, 50, 2, 2)
    expected = np.asarray(delta_c_joint(first / DRAWS, second / DRAWS))
    assert sampled_delta_c_joint(first, second) == pytest.approx(expected, abs=1e-12)


# Size and power


@pytest.mark.parametrize("draws", [20, DRAWS])
@pytest.mark.parametrize(
    "rates", [[0.5, 0.95, 0.5, 0.05], [0.8, 0.99, 0.3, 0.8], [0.1, 0.2, 0.2, 0.9], [0.5] * 4, [0.9] * 4]
)
def test_size_is_at_or_under_alpha_on_the_boundary(rates: list[float], draws: int) -> None:
    counts = sample(rates, 2000, str(rates), str(draws), draws=draws)
    assert at_most(ALPHA, agreement_test(counts, draws) <= ALPHA)
    two_orders = either_order(*agreement_test(counts, draws).reshape(2, 1000))
    assert at_most(ALPHA, two_orders <= ALPHA)


def test_size_is_not_far_under_alpha_where_one_inequality_decides() -> None:
    rejected = agreement_test(sample([0.5, 0.95, 0.5, 0.05], 2000, "sharp"), DRAWS) <= ALPHA
    assert 0.02 < rejected.mean() < 0.065


def test_size_of_the_joint_test_on_the_boundary() -> None:
    o1, o2 = [0.25, 0.05, 0.05, 0.65], [0.25, 0.35, 0.35, 0.05]  # D of f,f is 0, the others are clear
    assert delta_c_joint(np.reshape(o1, (2, 2)), np.reshape(o2, (2, 2))) == pytest.approx(0)
    rng = generator(0, "joint size")
    first, second = (rng.multinomial(DRAWS, p, 2000).reshape(-1, 2, 2) for p in (o1, o2))
    rejected = joint_agreement_test(first, second) <= ALPHA
    assert at_most(ALPHA, rejected)
    assert rejected.mean() > 0.02


@pytest.mark.parametrize(("degree", "power"), [(0.2, 0.30), (0.3, 0.76), (0.4, 0.97)])
def test_power_at_200_draws(degree: float, power: float) -> None:
    """All four inequalities equally tight: about the given power; Fisher's caution costs up to 0.04 of it at 1/2."""

    def rejected(centre: float) -> float:
        rates = [centre + degree / 4] * 2 + [centre - degree / 4] * 2
        counts = sample(rates, 4000, "power", str(degree), str(centre))
        return float(np.mean(agreement_test(counts, DRAWS) <= ALPHA))

    assert rejected(0.65) == pytest.approx(power, abs=0.03)
    assert power - 0.07 < rejected(0.5) < power + 0.01


@pytest.mark.parametrize(("rates", "order", "union"), [([0.5] * 4, 0.30, 0.51), ([0.5, 0.95, 0.5, 0.05], 0.49, 0.74)])
def test_the_plain_call_is_wrong_that_often(rates: list[float], order: float, union: float) -> None:
    called = sampled_delta_c(sample(rates, 20_000, "plain", str(rates)), DRAWS) > 0
    assert called.mean() == pytest.approx(order, abs=0.02)
    assert called.reshape(2, -1).any(axis=0).mean() == pytest.approx(union, abs=0.02)


# Input


def test_a_cell_without_a_valid_draw_gives_nan() -> None:
    draws = np.array([[10, 10, 10, 10], [10, 0, 10, 10]])
    agreements = np.array([[9, 9, 1, 1], [9, 0, 1, 1]])
    assert np.isnan(agreement_test(agreements, draws)).tolist() == [False, True]
    assert np.isnan(sampled_delta_c(agreements, draws)).tolist() == [False, True]
    empty, full = np.zeros((2, 2), int), np.ones((2, 2), int)
    assert np.isnan(joint_agreement_test(empty, full))
    assert np.isnan(sampled_delta_c_joint(full, empty))
    assert np.isnan(either_order([0.5], [np.nan])).all()


def test_no_pairs_give_no_p_values() -> None:
    assert agreement_test(np.zeros((0, 4)), np.zeros((0, 4))).shape == (0,)


@pytest.mark.parametrize(
    ("agreements", "draws", "message"),
    [
        ([11, 0, 0, 0], 10, "11 of 10 draws"),
        ([-1, 0, 0, 0], 10, "-1 of 10 draws"),
        ([0.5, 0, 0, 0], 10, r"0\.5 of 10 draws"),
        ([float("nan"), 0, 0, 0], 10, "nan of 10 draws"),
        ([1, 2, 3], 10, r"agreements have shape \(3,\)"),
    ],
)
def test_bad_counts_are_quoted(agreements: list[float], draws: int, message: str) -> None:
    for function in (agreement_test, sampled_delta_c):
        with pytest.raises(OptionError, match=message):
            function(agreements, draws)


def test_bad_tables_of_counts_are_quoted() -> None:
    with pytest.raises(OptionError, match=r"counts_o2 has shape \(2,\)"):
        joint_agreement_test(np.ones((2, 2)), [1, 2])
    with pytest.raises(OptionError, match="-1 of 9 draws"):
        sampled_delta_c_joint([[-1, 5], [5, 0]], np.ones((2, 2)))
