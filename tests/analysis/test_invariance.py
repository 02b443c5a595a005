"""Oracles: scipy's t tests, Holm by hand, simulated shifts at the margin and at zero."""

import doctest
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, ttest_1samp

from referent_probe.analysis import invariance as module
from referent_probe.analysis.inference import cluster_bootstrap_interval
from referent_probe.analysis.invariance import difference_p, equivalence_p, holm, invariance, noise_floor, verdict
from referent_probe.errors import OptionError

OCCUPATIONS = [f"o{i // 6}" for i in range(120)]


def shifts(mean: float, spread: float, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(mean, spread, 120)


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def test_p_values_are_scipys_t_tests() -> None:
    means = shifts(0.1, 0.3)[:20]
    one_sided = [ttest_1samp(means, x, alternative=side).pvalue for x, side in ((-0.2, "greater"), (0.2, "less"))]
    assert equivalence_p(means, 0.2) == pytest.approx(max(one_sided))
    assert difference_p(means) == pytest.approx(ttest_1samp(means, 0).pvalue)


def test_p_values_do_not_know_the_sign() -> None:
    means = shifts(0.1, 0.3)[:20]
    assert equivalence_p(-means, 0.2) == pytest.approx(equivalence_p(means, 0.2))
    assert difference_p(-means) == pytest.approx(difference_p(means))


def test_a_wider_margin_is_never_harder() -> None:
    p = [equivalence_p(shifts(0.1, 0.3)[:20], margin) for margin in (0.05, 0.1, 0.2, 0.36, 5.0)]
    assert p == sorted(p, reverse=True)


@pytest.mark.parametrize(
    ("means", "equivalence", "difference"),
    [([0.0] * 5, 0, 1), ([0.1] * 5, 0, 0), ([0.2] * 5, 1, 0), ([-3.0] * 5, 1, 0)],
)
def test_where_all_occupations_agree(means: list[float], equivalence: float, difference: float) -> None:
    assert (equivalence_p(means, 0.2), difference_p(means)) == (equivalence, difference)


@pytest.mark.parametrize("means", [[], [0.1]])
def test_one_occupation_tests_nothing(means: list[float]) -> None:
    assert math.isnan(equivalence_p(means, 0.2))
    assert math.isnan(difference_p(means))


@pytest.mark.parametrize("true_mean", [0.2, -0.2])
def test_a_mean_at_the_margin_is_called_equivalent_no_more_often_than_the_level(true_mean: float) -> None:
    rng, runs = np.random.default_rng(1), 2000
    claims = sum(equivalence_p(rng.normal(true_mean, 0.3, 30), 0.2) <= 0.05 for _ in range(runs))
    assert binomtest(claims, runs, 0.05).pvalue > 0.01


def test_a_mean_of_zero_is_called_different_no_more_often_than_the_level() -> None:
    rng, runs = np.random.default_rng(2), 2000
    claims = sum(difference_p(rng.normal(0, 0.3, 30)) <= 0.05 for _ in range(runs))
    assert binomtest(claims, runs, 0.05).pvalue > 0.01


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, math.nan, 0.5]) == pytest.approx([1.0, math.nan, 1.0], nan_ok=True)
    assert holm([]) == []
    assert np.isnan(holm([math.nan])).all()


def test_verdicts() -> None:
    assert [verdict(e, d, 0.05) for e, d in ((0.05, 0.06), (0.06, 0.05), (0.05, 0.05), (0.06, 0.06))] == [
        "equivalent",
        "different",
        "both",
        "undecided",
    ]
    assert verdict(math.nan, math.nan, 0.05) == "undecided"


def test_settings_of_every_kind() -> None:
    opposite = np.tile([2.0, -2.0], 60) + shifts(0, 0.1)
    found = invariance(
        {"none": shifts(0, 0.1), "small": shifts(0.1, 0.1), "large": shifts(1, 0.5), "cancels": opposite},
        OCCUPATIONS,
        n_resamples=499,
        seed=0,
    )
    assert [x.verdict for x in found.values()] == ["equivalent", "both", "different", "equivalent"]
    # Only the mean of the last is equivalent: no template is.
    assert found["cancels"].share_within.mean == 0
    assert found["cancels"].root_mean_square.mean == pytest.approx(2, abs=0.05)
    assert found["none"].share_within.mean > 0.9


def test_columns_by_definition() -> None:
    values = shifts(0.1, 0.3)
    found = invariance({"n1": values}, OCCUPATIONS, n_resamples=499, seed=0)["n1"]
    means = values.reshape(20, 6).mean(axis=1)
    assert found.mean == cluster_bootstrap_interval(values, OCCUPATIONS, n_resamples=499, seed=0)
    assert found.root_mean_square.mean == pytest.approx(np.sqrt(np.mean(values**2)))
    assert found.share_within.mean == pytest.approx(np.mean(np.abs(values) < 0.2))
    assert found.p_equivalence == pytest.approx(equivalence_p(means, 0.2))
    assert found.p_difference == pytest.approx(difference_p(means))
    assert (found.n_templates, found.n_left_out, found.mean.n, found.margin) == (120, 0, 20, 0.2)
    for interval, unit in (found.mean, "logits"), (found.root_mean_square, "logits"), (found.share_within, "share"):
        assert interval.low < interval.mean < interval.high
        assert (interval.unit, interval.n_of) == (unit, "occupations")
    assert found.root_mean_square.mean >= abs(found.mean.mean)


def test_holm_runs_over_the_settings() -> None:
    many = {f"s{i}": shifts(0.07, 0.3, seed=i) for i in range(5)}
    found = invariance(many, OCCUPATIONS, n_resamples=99, seed=0).values()
    assert [x.p_equivalence_holm for x in found] == holm([x.p_equivalence for x in found])
    assert [x.p_difference_holm for x in found] == holm([x.p_difference for x in found])
    alone = invariance({"s0": many["s0"]}, OCCUPATIONS, n_resamples=99, seed=0)["s0"]
    assert alone.p_difference_holm == alone.p_difference == pytest.approx(next(iter(found)).p_difference)


def test_shifts_that_are_not_finite_are_left_out_and_counted() -> None:
    values = shifts(0.1, 0.3)
    spoiled = values.copy()
    spoiled[[0, 7, 9]] = math.nan, math.inf, -math.inf
    found = invariance({"n1": spoiled}, OCCUPATIONS, n_resamples=99, seed=0)["n1"]
    kept = np.isfinite(spoiled)
    clean = invariance(
        {"n1": values[kept]}, [o for o, k in zip(OCCUPATIONS, kept, strict=True) if k], n_resamples=99, seed=0
    )
    assert (found.n_templates, found.n_left_out) == (117, 3)
    assert (found.mean, found.verdict) == (clean["n1"].mean, clean["n1"].verdict)
    assert np.isinf(spoiled[7])  # the argument is as it was


def test_a_setting_without_shifts_is_undecided_and_costs_the_others_nothing() -> None:
    values = shifts(0, 0.1)
    found = invariance({"n1": values, "n2": np.full(120, math.nan)}, OCCUPATIONS, n_resamples=99, seed=0)
    assert found["n1"] == invariance({"n1": values}, OCCUPATIONS, n_resamples=99, seed=0)["n1"]
    empty = found["n2"]
    assert (empty.verdict, empty.n_templates, empty.n_left_out, empty.mean.n) == ("undecided", 0, 120, 0)
    assert np.isnan([empty.mean.mean, empty.root_mean_square.mean, empty.share_within.low, empty.p_difference]).all()


def test_participants_as_clusters() -> None:
    participants = [f"p{i % 10}" for i in range(120)]
    found = invariance({"n1": shifts(0, 0.1)}, participants, n_resamples=99, seed=0, n_of="participants")["n1"]
    assert (found.mean.n, found.mean.n_of, found.verdict) == (10, "participants", "equivalent")


@pytest.mark.parametrize("margin", [0.0, -0.2, math.nan])
def test_a_margin_is_above_zero(margin: float) -> None:
    with pytest.raises(OptionError, match=f"--margin {margin} is no margin"):
        invariance({"n1": shifts(0, 1)}, OCCUPATIONS, margin=margin, seed=0)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="give one to each"):
        invariance({"n1": [0.1, 0.2]}, ["cook"], seed=0)


def test_noise_floor() -> None:
    first, second = shifts(0.3, 0.1), shifts(0.1, 0.1, seed=1)
    found = noise_floor(first, second, OCCUPATIONS, n_resamples=499, seed=0)
    assert found.root_mean_square.mean == pytest.approx(np.sqrt(np.mean((first - second) ** 2)))
    assert found.root_mean_square.low < found.root_mean_square.mean < found.root_mean_square.high
    assert found == noise_floor(second, first, OCCUPATIONS, n_resamples=499, seed=0)
    assert noise_floor(first, first, OCCUPATIONS, seed=0).root_mean_square.high == 0


def test_noise_floor_leaves_out_what_is_not_finite() -> None:
    found = noise_floor([math.inf, 0.1, 0.2, math.nan], [math.inf, 0.2, 0.1, 0.0], list("abcd"), seed=0)
    assert (found.root_mean_square.mean, found.n_templates, found.n_left_out) == (pytest.approx(0.1), 2, 2)
