"""Oracles: scipy's Spearman on the templates, and on the templates repeated as often as their role was drawn."""

import doctest
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, spearmanr

from referent_probe.analysis import stereotype
from referent_probe.analysis.resampling import resampled_intervals
from referent_probe.analysis.stereotype import StereotypeCorrelation, stereotype_correlations

SIZES = [30, 15, 15, 9, 6, 6, *[3] * 18]
ANTECEDENTS = [f"role {i}" for i, size in enumerate(SIZES) for _ in range(size)]
OTHERS = ANTECEDENTS[50:] + ANTECEDENTS[:50]
RATINGS = {f"role {i}": share for i, share in enumerate(np.random.default_rng(5).random(len(SIZES)).round(2))}
N = len(ANTECEDENTS)


def answers(slope: float, seed: int = 0, roles: list[str] = ANTECEDENTS) -> NDArray[np.float64]:
    """p(feminine) with an effect of rating, role and template."""
    rng = np.random.default_rng(seed)
    of_role = dict(zip(RATINGS, rng.normal(0, 0.7, len(RATINGS)), strict=True))
    logits = [slope * (RATINGS[role] - 0.5) + of_role[role] for role in roles] + rng.normal(0, 0.5, N)
    return np.asarray(1 / (1 + np.exp(-logits)))


def correlate(p: dict[str, Any], **options: Any) -> dict[str, StereotypeCorrelation]:
    options = {"n_resamples": 199, "n_permutations": 199, "seed": 0, **options}
    return stereotype_correlations(p, ANTECEDENTS, OTHERS, RATINGS, **options)


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(stereotype).failed == 0


def test_rho_is_scipys() -> None:
    p = {"c0": answers(3).round(1), "cf": answers(0, 1)}  # rounded, so that they tie
    for alignment, nouns in ("antecedent", ANTECEDENTS), ("partner", OTHERS):
        for setting, found in correlate(p, alignment=alignment).items():
            expected = spearmanr([RATINGS[noun] for noun in nouns], p[setting]).statistic
            assert found.rho.mean == pytest.approx(expected, abs=1e-12)
            assert (found.setting, found.n_templates, found.rho.n, found.rho.n_of) == (setting, N, 24, "roles")


def test_a_drawn_role_takes_all_its_templates_as_often_as_it_was_drawn() -> None:
    p, codes = answers(3).round(1), np.array([list(RATINGS).index(role) for role in ANTECEDENTS])
    scale, rng = np.array(list(RATINGS.values())), np.random.default_rng(1)
    times = rng.multinomial(24, np.full(24, 1 / 24), size=20)
    found = stereotype._spearman(scale[codes], np.array([p, 1 - p]), times[:, codes])
    for drawn, rho, mirrored in zip(times, *found, strict=True):
        rows = np.repeat(np.arange(N), drawn[codes])
        assert rho == pytest.approx(spearmanr(scale[codes][rows], p[rows]).statistic, abs=1e-12)
        assert mirrored == pytest.approx(-rho, abs=1e-12)


def test_the_interval_is_the_percentiles_of_these() -> None:
    found = correlate({"c0": answers(3)})["c0"].rho
    codes = np.unique(ANTECEDENTS, return_inverse=True)[1]
    scale = np.array([RATINGS[role] for role in ANTECEDENTS])

    def by_repetition(times: NDArray[np.int_]) -> NDArray[np.float64]:
        rows = [np.repeat(np.arange(N), drawn[codes]) for drawn in times]
        return np.array([[spearmanr(scale[r], answers(3)[r]).statistic for r in rows]])

    (expected,) = resampled_intervals(by_repetition, 24, n_resamples=199, seed=0, unit="rho")
    assert (found.mean, found.low, found.high) == pytest.approx((expected.mean, expected.low, expected.high), abs=1e-12)


def test_the_difference_is_paired() -> None:
    unprimed = answers(3)
    found = correlate({"c0": unprimed, "same": unprimed**3, "cf": answers(0, 1), "mirror": 1 - unprimed})
    assert found["c0"].difference is None
    same, cf, mirror = (found[setting].difference for setting in ("same", "cf", "mirror"))
    assert same is not None
    assert cf is not None
    assert mirror is not None
    # The same ranks in every resample: no difference, for certain.
    assert [same.mean, same.low, same.high] == pytest.approx([0, 0, 0], abs=1e-12)
    assert cf.mean == pytest.approx(found["c0"].rho.mean - found["cf"].rho.mean)
    assert cf.low < cf.mean < cf.high
    twice = [2 * x for x in (found["c0"].rho.mean, found["c0"].rho.low, found["c0"].rho.high)]
    assert [mirror.mean, mirror.low, mirror.high] == pytest.approx(twice)


def test_another_reference_or_none() -> None:
    p = {"c0": answers(3), "cf": answers(0, 1)}
    assert correlate(p, reference="cf")["cf"].difference is None
    assert all(found.difference is None for found in correlate(p, reference="unprimed").values())


def test_a_setting_is_what_it_is_alone() -> None:
    p = {"c0": answers(3), "cf": answers(0, 1)}
    together, alone = correlate(p)["cf"], correlate({"cf": p["cf"]})["cf"]
    assert (together.rho, together.p_value) == (alone.rho, alone.p_value)


def test_the_order_of_templates_is_nothing() -> None:
    order = np.random.default_rng(3).permutation(N)
    moved = stereotype_correlations(
        {"c0": answers(3)[order]},
        [ANTECEDENTS[i] for i in order],
        [OTHERS[i] for i in order],
        RATINGS,
        n_resamples=199,
        n_permutations=199,
        seed=0,
    )["c0"]
    found = correlate({"c0": answers(3)})["c0"]
    assert (moved.rho.low, moved.rho.high, moved.p_value) == pytest.approx(
        (found.rho.low, found.rho.high, found.p_value), abs=1e-12
    )


def test_alignment_decides_what_is_found() -> None:
    right, wrong = answers(6), answers(6, roles=OTHERS)
    p_values = {
        (alignment, name): correlate({"c0": p}, alignment=alignment)["c0"].p_value
        for alignment in ("antecedent", "partner")
        for name, p in (("right", right), ("wrong", wrong))
    }
    assert p_values["antecedent", "right"] == p_values["partner", "wrong"] == pytest.approx(1 / 200)
    assert p_values["antecedent", "wrong"] > 0.05
    assert p_values["partner", "right"] > 0.05


def test_p_does_not_know_the_sign() -> None:
    found = correlate({"c0": answers(2), "mirror": 1 - answers(2)})
    assert found["c0"].p_value == found["mirror"].p_value
    assert found["c0"].p_value >= 1 / 200


def test_a_true_null_is_rejected_as_often_as_the_level() -> None:
    runs, by_role, by_template = 400, 0, 0
    scale = [RATINGS[role] for role in ANTECEDENTS]
    for seed in range(runs):
        p = answers(0, seed)
        by_role += correlate({"c0": p}, n_resamples=2, seed=seed)["c0"].p_value <= 0.05
        by_template += spearmanr(scale, p).pvalue <= 0.05
    assert binomtest(by_role, runs, 0.05).pvalue > 0.01
    assert by_template / runs > 0.3  # what counting templates would claim


def test_the_interval_covers_the_null() -> None:
    runs, covered = 200, 0
    for seed in range(runs):
        rho = correlate({"c0": answers(0, seed)}, n_permutations=1, seed=seed)["c0"].rho
        covered += rho.low <= 0 <= rho.high
    assert 0.85 <= covered / runs <= 0.99


def test_templates_without_rating_or_probability_are_left_out_and_counted() -> None:
    p, spoiled = answers(3), answers(0, 1)
    spoiled[[0, 100]] = math.nan, math.inf
    fewer = {role: share for role, share in RATINGS.items() if role not in ("role 1", "role 20")}
    found = stereotype_correlations({"c0": p, "cf": spoiled}, ANTECEDENTS, OTHERS, fewer, n_resamples=9, seed=0)
    rated = np.array([role in fewer for role in ANTECEDENTS])
    kept = rated & np.isfinite(spoiled)
    for setting, values in ("c0", p), ("cf", spoiled):
        result = found[setting]
        expected = spearmanr([RATINGS[r] for r, k in zip(ANTECEDENTS, kept, strict=True) if k], values[kept])
        assert result.rho.mean == pytest.approx(expected.statistic)
        assert (result.n_unrated, result.n_without_probability, result.n_templates) == (18, 2, N - 20)
        assert result.rho.n == 22


def test_effective_number_of_roles() -> None:
    assert correlate({"c0": answers(0)})["c0"].effective_roles == pytest.approx(N**2 / sum(n**2 for n in SIZES))
    equal = stereotype_correlations(
        {"c0": [0.1, 0.2, 0.3]}, list("abc"), list("abc"), {"a": 0.1, "b": 0.2, "c": 0.3}, seed=0
    )
    assert equal["c0"].effective_roles == 3


@pytest.mark.parametrize("p", [np.full(N, 0.5), np.full(N, math.nan)])
def test_where_nothing_varies_there_is_no_correlation(p: NDArray[np.float64]) -> None:
    found = correlate({"c0": p})["c0"]
    assert np.isnan([found.rho.mean, found.rho.low, found.rho.high, found.p_value]).all()


def test_without_ratings_there_is_no_correlation() -> None:
    found = stereotype_correlations({"c0": answers(0)}, ANTECEDENTS, OTHERS, {}, seed=0)["c0"]
    assert math.isnan(found.rho.mean)
    assert (found.rho.n, found.n_templates, found.n_unrated) == (0, 0, N)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="give one to each"):
        stereotype_correlations({"c0": [0.5]}, ["nurse", "cook"], ["guest", "guest"], {"nurse": 0.7}, seed=0)


def test_memory_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = correlate({"c0": answers(3)})
    for module in "stereotype", "resampling":
        monkeypatch.setattr(f"referent_probe.analysis.{module}._CHUNK", 1000)
    assert correlate({"c0": answers(3)})["c0"].rho == whole["c0"].rho
    assert correlate({"c0": answers(3)})["c0"].p_value == whole["c0"].p_value
