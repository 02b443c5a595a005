"""Oracles: loops over sign patterns, scipy's permutation test and t test, scipy's bootstrap on one cell."""

import doctest
import warnings
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, bootstrap, permutation_test, ttest_1samp

from referent_probe.analysis import inference
from referent_probe.analysis.inference import (
    Interval,
    bootstrap_intervals,
    cluster_bootstrap_interval,
    cluster_means,
    max_t_sign_flip,
)
from referent_probe.randomness import generator


def normal(*shape: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=shape)


def max_t_by_loops(effects: NDArray[np.float64]) -> list[float]:
    """The definition, word by word."""
    observed = [abs(ttest_1samp(column, 0).statistic) for column in effects.T]
    counts = [0] * len(observed)
    patterns = list(product([-1, 1], repeat=len(effects)))
    for pattern in patterns:
        flipped = effects * np.array(pattern)[:, None]
        largest = max(abs(ttest_1samp(column, 0).statistic) for column in flipped.T)
        for cell, t in enumerate(observed):
            counts[cell] += largest >= t * (1 - 1e-9)
    return [count / len(patterns) for count in counts]


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(inference).failed == 0


# Keyed randomness


# Cluster means and intervals


def test_cluster_means_by_hand() -> None:
    values = [[1.0, 10.0], [3.0, 30.0], [5.0, 50.0]]
    assert cluster_means(values, ["nurse", "cook", "nurse"]).tolist() == [[3.0, 30.0], [3.0, 30.0]]


@pytest.mark.parametrize(
    ("values", "clusters", "message"),
    [
        ([1.0, 2.0], ["a"], "2 values but 1 cluster labels"),
        ([], [], "at least one cluster"),
        ([1.0, float("inf")], ["a", "b"], "1 effects are not finite"),
    ],
)
def test_cluster_means_refuses(values: list[float], clusters: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cluster_means(values, clusters)


def test_interval_is_scipys_bootstrap_of_the_cluster_means() -> None:
    values, clusters = normal(60), [f"o{i % 12}" for i in range(60)]
    means = [values[[c == name for c in clusters]].mean() for name in sorted(set(clusters))]
    expected = bootstrap((means,), np.mean, n_resamples=999, rng=generator(3, "bootstrap")).confidence_interval
    found = cluster_bootstrap_interval(values, clusters, n_resamples=999, seed=3)
    assert (found.mean, found.low, found.high) == pytest.approx((np.mean(means), *expected), abs=1e-12)
    assert found.n == 12
    assert found.low < found.mean < found.high


def test_interval_resamples_clusters_not_rows() -> None:
    clusters = np.arange(8)
    one = cluster_bootstrap_interval(normal(8), clusters.tolist(), n_resamples=999, seed=0)
    many = cluster_bootstrap_interval(np.tile(normal(8), 50), np.tile(clusters, 50).tolist(), n_resamples=999, seed=0)
    assert (many.low, many.high, many.n) == pytest.approx((one.low, one.high, one.n))


def test_interval_does_not_depend_on_the_order_of_rows() -> None:
    values, clusters, order = normal(30), np.arange(30) % 10, np.random.default_rng(1).permutation(30)
    before = cluster_bootstrap_interval(values, clusters.tolist(), n_resamples=999, seed=0)
    after = cluster_bootstrap_interval(values[order], clusters[order].tolist(), n_resamples=999, seed=0)
    assert (after.mean, after.low, after.high) == pytest.approx((before.mean, before.low, before.high), abs=1e-12)


def test_every_cell_has_the_interval_that_it_has_alone() -> None:
    effects = normal(10, 7)
    together = bootstrap_intervals(effects, n_resamples=999, seed=0)
    for cell in range(7):
        alone = bootstrap_intervals(effects[:, [cell]], n_resamples=999, seed=0)
        assert alone.loc[0].tolist() == pytest.approx(together.loc[cell].tolist(), abs=1e-12)


def test_memory_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    effects = normal(16, 7)
    whole = bootstrap_intervals(effects, n_resamples=99, seed=0), max_t_sign_flip(effects, n_flips=99, seed=0)
    monkeypatch.setattr("referent_probe.analysis.inference._CHUNK", 200)
    blocks = bootstrap_intervals(effects, n_resamples=99, seed=0), max_t_sign_flip(effects, n_flips=99, seed=0)
    assert blocks[0].to_numpy() == pytest.approx(whole[0].to_numpy(), abs=1e-12)
    assert blocks[1].tolist() == whole[1].tolist()


def test_one_cluster_has_no_interval() -> None:
    found = cluster_bootstrap_interval([1.0, 3.0], ["a", "a"], seed=0)
    assert (found.mean, found.n) == (2.0, 1)
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7])
def test_equal_clusters_have_an_interval_of_zero_width(value: float) -> None:
    found = cluster_bootstrap_interval([value] * 21, [i % 7 for i in range(21)], seed=0)
    assert found.low == found.mean == found.high == pytest.approx(value)


def test_where_bca_is_undefined_the_percentile_interval_stands_in() -> None:
    means, undefined = np.array([[0.0], [0.0], [1.0]]), 0
    for seed in range(60):  # resamples on one side of the mean leave BCa undefined
        found = bootstrap_intervals(means, n_resamples=2, seed=seed).loc[0]
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            bca = bootstrap((means[:, 0],), np.mean, n_resamples=2, rng=generator(seed, "bootstrap"))
        undefined += np.isnan(bca.confidence_interval).any()
        assert 0.0 <= found["low"] <= found["high"] <= 1.0
    assert undefined > 0


def test_interval_covers_about_what_it_promises() -> None:
    low, high = bootstrap_intervals(normal(20, 400, seed=5), n_resamples=999, seed=0)[["low", "high"]].to_numpy().T
    covered = np.count_nonzero((low <= 0) & (high >= 0))
    assert 0.89 <= covered / 400 <= 0.98  # known to fall a little short of 0.95 at 20 clusters


def test_interval_reads_as_text() -> None:
    assert (
        str(Interval(-0.00412, -0.0061, 0.00013, 8, "bits", "pairs"))
        == "-0.00412 [-0.00610, 0.00013] bits, n = 8 pairs"
    )
    assert str(Interval(123.4, 100.0, 150.0, 8, "logits")) == "123 [100, 150] logits, n = 8 occupations"
    assert str(Interval(0.0, 0.0, 0.0, 8, "logits")) == "0.00 [0.00, 0.00] logits, n = 8 occupations"


# Max-t


def test_max_t_equals_the_definition_by_loops() -> None:
    effects = normal(6, 4) + np.array([0.0, 0.5, 1.0, 3.0])
    assert max_t_sign_flip(effects, seed=0).tolist() == max_t_by_loops(effects)


def test_max_t_of_one_cell_is_scipys_permutation_test() -> None:
    values = normal(9, seed=4) + 0.5

    def t(x: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        return np.asarray(np.abs(x.mean(axis=axis) / x.std(axis=axis, ddof=1)))

    expected = permutation_test((values,), t, permutation_type="samples", alternative="greater", n_resamples=np.inf)
    assert max_t_sign_flip(values[:, None], seed=0)[0] == pytest.approx(expected.pvalue)


def test_drawn_flips_come_close_to_all_of_them() -> None:
    effects = normal(12, 5, seed=1) + np.array([0.0, 0.3, 0.6, 0.9, 1.2])
    exact, drawn = max_t_sign_flip(effects, seed=0), max_t_sign_flip(effects, n_flips=4000, seed=0)
    assert drawn == pytest.approx(exact, abs=0.03)
    assert drawn.min() >= 1 / 4001
    assert not np.array_equal(drawn, exact)


def test_patterns_are_enumerated_up_to_n_flips_and_drawn_beyond() -> None:
    effects = np.ones((3, 1)) + normal(3, 1) / 100
    assert max_t_sign_flip(effects, n_flips=8, seed=0)[0] == 2 / 8
    assert (max_t_sign_flip(effects, n_flips=7, seed=0)[0] * 8).is_integer()  # (1 + count) / (1 + 7)


def test_max_t_holds_the_level_over_dependent_cells() -> None:
    rng, false_claims, runs = np.random.default_rng(1), 0, 4000
    for _ in range(runs):
        effects = rng.normal(size=(8, 25)) + rng.standard_t(3, size=(8, 1))
        false_claims += max_t_sign_flip(effects, seed=0).min() <= 0.05
    level = 6 / 128  # p is a multiple of 2 / 2^8, and 6 of them fit under 0.05
    assert binomtest(int(false_claims), runs, level).pvalue > 0.01


def test_max_t_does_not_depend_on_the_order_of_clusters_or_cells() -> None:
    effects = normal(8, 6) + 0.5
    rows, columns = np.random.default_rng(1).permutation(8), np.random.default_rng(2).permutation(6)
    expected = max_t_sign_flip(effects, seed=0)
    assert max_t_sign_flip(effects[rows], seed=0).tolist() == expected.tolist()
    assert max_t_sign_flip(effects[:, columns], seed=0).tolist() == expected[columns].tolist()


def test_max_t_knows_neither_sign_nor_scale() -> None:
    effects = normal(8, 6) + 0.5
    expected = max_t_sign_flip(effects, seed=0).tolist()
    assert max_t_sign_flip(-effects, seed=0).tolist() == expected
    assert max_t_sign_flip(effects * [1e-200, 1e-9, -1, 3, 1e9, 1e200], seed=0).tolist() == expected


def test_more_cells_never_make_a_claim_easier() -> None:
    effects = normal(9, 12) + 0.6
    few, many = max_t_sign_flip(effects[:, :4], seed=0), max_t_sign_flip(effects, seed=0)
    assert (many[:4] >= few).all()


def test_cells_without_variance() -> None:
    p = max_t_sign_flip(np.column_stack([np.zeros(6), np.full(6, 0.1), np.full(6, -7.0)]), seed=0)
    assert p.tolist() == [1.0, 2 / 64, 2 / 64]


def test_one_cluster_shows_nothing() -> None:
    assert max_t_sign_flip([[5.0, 0.0]], seed=0).tolist() == [1.0, 1.0]


def test_no_cells_give_no_p_values() -> None:
    assert max_t_sign_flip(np.empty((5, 0)), seed=0).shape == (0,)


@pytest.mark.parametrize("effects", [np.empty((0, 3)), np.zeros(3), [[np.nan]], [[np.inf]]])
def test_max_t_refuses(effects: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match=r"at least one cluster|not finite"):
        max_t_sign_flip(effects, seed=0)
