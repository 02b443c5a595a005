"""Oracles: pandas' qcut, the pooled information of the bins, shuffles one by one."""

import doctest
import math

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from referent_probe.analysis import rating_information
from referent_probe.analysis.information import information_bits
from referent_probe.analysis.rating_information import equal_count_bins, rating_information_bits
from referent_probe.analysis.resampling import shuffled_over_roles
from referent_probe.errors import OptionError


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(rating_information).failed == 0


SIZES = [18, 9, 9, *[3] * 20]
ROLES = [f"role {i}" for i, size in enumerate(SIZES) for _ in range(size)]
RATINGS = {f"role {i}": share for i, share in enumerate(np.random.default_rng(5).random(len(SIZES)).round(2))}
CLUSTERS = [f"o{i // 6}" for i in range(len(ROLES))]


def answers(slope: float, seed: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    of_role = dict(zip(RATINGS, rng.normal(0, 1, len(RATINGS)), strict=True))
    logits = [slope * (RATINGS[role] - 0.5) + of_role[role] for role in ROLES] + rng.normal(0, 0.3, len(ROLES))
    return np.asarray(1 / (1 + np.exp(-logits)))


@pytest.mark.parametrize("bins", [2, 3, 5])
def test_bins_are_those_of_qcut(bins: int) -> None:
    for seed in range(20):
        values = np.random.default_rng(seed).random(60).round(2)
        assert equal_count_bins(values[None], bins)[0].tolist() == pd.qcut(values, bins, labels=False).tolist()
    untied = equal_count_bins(np.random.default_rng(0).random((4, 60)), bins)
    assert all(np.bincount(row).tolist() == [60 // bins] * bins for row in untied)


def test_ties_stay_together() -> None:
    assert equal_count_bins(np.array([[0.5, 0.5, 0.5, 0.5, 0.9, 0.1]]), 3).tolist() == [[0, 0, 0, 0, 2, 0]]


@pytest.mark.parametrize("bins", [3, 5])
def test_the_ratings_information_is_that_of_its_bins(bins: int) -> None:
    p = answers(5, 0)
    found = rating_information_bits(p, ROLES, RATINGS, CLUSTERS, bins=bins, n_resamples=99, n_shuffles=199, seed=0)
    binned = equal_count_bins(np.array([[RATINGS[role] for role in ROLES]]), bins)[0]
    assert found.observed == information_bits(p, binned.tolist(), CLUSTERS, n_resamples=99, seed=0).bits
    assert found.difference.mean == pytest.approx(found.observed.mean - found.shuffled)
    assert found.difference.high - found.difference.low == pytest.approx(found.observed.high - found.observed.low)
    assert found.bin_sizes == tuple(np.bincount(binned))
    assert 1 / 200 <= found.p_value < 0.05
    assert (found.n_templates, found.n_roles, found.n_unrated, found.n_left_out) == (len(ROLES), 23, 0, 0)


def test_shuffled_information_by_loops() -> None:
    p, codes = answers(0, 1), np.array([list(RATINGS).index(role) for role in ROLES])
    names = sorted(RATINGS)  # the order in which roles are numbered
    scale = np.array([RATINGS[name] for name in names])
    sizes = np.array([ROLES.count(name) for name in names])
    place = np.array([names.index(f"role {code}") for code in codes])
    bits = []
    for shuffled in shuffled_over_roles(scale, sizes, 19, 0):
        binned = pd.qcut(shuffled[place], 3, labels=False, duplicates="drop").tolist()
        bits.append(information_bits(p, binned, CLUSTERS, n_resamples=2, seed=0).bits.mean)
    found = rating_information_bits(p, ROLES, RATINGS, CLUSTERS, n_resamples=2, n_shuffles=19, seed=0)
    assert found.shuffled == pytest.approx(np.mean(bits))
    assert found.p_value == (1 + sum(x >= found.observed.mean - 1e-12 for x in bits)) / 20


def test_a_true_null_is_rejected_as_often_as_the_level() -> None:
    runs, rejected, differences = 400, 0, []
    for seed in range(runs):
        found = rating_information_bits(
            answers(0, seed), ROLES, RATINGS, CLUSTERS, n_resamples=2, n_shuffles=199, seed=seed
        )
        rejected += found.p_value <= 0.05
        differences.append(found.difference.mean)
    assert binomtest(rejected, runs, 0.05).pvalue > 0.01
    assert np.mean(differences) == pytest.approx(0, abs=3 * np.std(differences) / math.sqrt(runs))


def test_unrated_templates_are_left_out_and_counted() -> None:
    p, fewer = answers(5, 0), {role: share for role, share in RATINGS.items() if role != "role 1"}
    p[0] = math.nan
    found = rating_information_bits(p, ROLES, fewer, CLUSTERS, n_resamples=2, n_shuffles=19, seed=0)
    assert (found.n_templates, found.n_roles, found.n_unrated, found.n_left_out) == (len(ROLES) - 10, 22, 9, 1)


def test_one_bin_is_refused() -> None:
    with pytest.raises(OptionError, match="cannot put ratings into 1 bins"):
        rating_information_bits(answers(0, 0), ROLES, RATINGS, CLUSTERS, bins=1, seed=0)


@pytest.mark.parametrize("n", [0, 3])
def test_without_probabilities_there_is_no_information(n: int) -> None:
    names = ["a", "b", "c"][:n]
    rating = rating_information_bits([math.nan] * n, names, {"a": 0.5}, names, seed=0)
    assert np.isnan([rating.observed.mean, rating.shuffled, rating.p_value]).all()
    assert (rating.n_templates, rating.n_roles) == (0, 0)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="1 clusters for p of shape"):
        rating_information_bits([0.1, 0.2], ["cook", "nurse"], {}, ["cook"], seed=0)
