"""The level of the rule for carriers. Oracles: all sign patterns by hand, and tests that do not hold their level."""

import doctest

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, ttest_1samp

from referent_probe.analysis import carriers, level
from referent_probe.analysis.carriers import CarrierRule, called_carriers, occupation_effects, smallest_effect
from referent_probe.analysis.level import FalseCarrierRate, false_carrier_rate

RULE = CarrierRule()
PER_LAYER = 9


def tables(effects: NDArray[np.float64], total: float = 1.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Heads and contrasts from `[n_occupations, n_heads, 2]`, one contrast an occupation."""
    occupation, head = (x.ravel() for x in np.indices(effects.shape[:2]))
    heads = pd.DataFrame(
        {
            "contrast": occupation.astype(str),
            "occupation": np.char.add("occupation ", occupation.astype(str)),
            "layer": head // PER_LAYER,
            "head": head % PER_LAYER,
            "denoise": effects[..., 0].ravel(),
            "noise": effects[..., 1].ravel(),
        }
    )
    contrasts = heads[["contrast", "occupation"]].drop_duplicates().assign(total_effect=total, left_out=None)
    return heads, contrasts


def hard_map(n_occupations: int = 24, n_heads: int = 270, seed: int = 0) -> NDArray[np.float64]:
    """Heads that move together, heavy tails, denoising close to noising, and three heads with an effect."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_t(3, (n_occupations, 2)) @ rng.normal(size=(2, n_heads))
    size = np.exp(rng.normal(-3, 1, n_heads))
    own = rng.standard_t(2, (n_occupations, n_heads))
    of_direction = rng.standard_t(2, (n_occupations, n_heads, 2))
    effects = size[:, None] * ((shared + 0.7 * own)[..., None] + 0.3 * of_direction)
    effects[:, [3, 14, 25]] += np.array([[1.0, 0.9], [-0.6, -0.5], [0.0, 0.4]])
    return np.asarray(effects)


def exact_rate(effects: NDArray[np.float64], smallest: float) -> float:
    """Share of all sign patterns in which a cell is called, by the definition; `[n_occupations, n_cells]`."""
    n = len(effects)
    signs = np.array(np.meshgrid(*[[-1, 1]] * n)).reshape(n, -1).T
    turned = signs[:, :, None] * effects
    t = np.abs(ttest_1samp(turned, 0, axis=1).statistic)
    p = (t.max(axis=1)[:, None, None] >= t * (1 - 1e-9)).mean(axis=0)  # the patterns of a turned map are the same
    return float(((p <= 0.05) & (np.abs(turned.mean(axis=1)) >= smallest)).any(axis=1).mean())


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(level).failed == 0
    assert doctest.testmod(carriers).failed == 0


@pytest.mark.parametrize(("n", "rate"), [(6, 2 / 64), (7, 6 / 128), (8, 12 / 256)])
def test_with_few_occupations_the_rate_is_the_largest_that_p_values_allow(n: int, rate: float) -> None:
    effects = np.random.default_rng(n).normal(size=(n, 4, 2))
    heads, contrasts = tables(effects)
    assert exact_rate(effects.reshape(n, -1), 0.0) == rate
    found = false_carrier_rate(heads, contrasts, RULE, seed=0, draws=3000)
    assert (found.draws, found.n_occupations, found.share) == (3000, n, found.false / 3000)
    assert binomtest(found.false, 3000, rate).pvalue > 0.01
    assert found.p_value == binomtest(found.false, 3000, 0.05, alternative="greater").pvalue


def test_effects_that_are_too_small_are_never_called() -> None:
    effects = np.random.default_rng(7).normal(size=(7, 4, 2))
    heads, contrasts = tables(effects, total=75.0)
    exact = exact_rate(effects.reshape(7, -1), smallest_effect(contrasts, RULE))
    assert 0 < exact < 6 / 128
    found = false_carrier_rate(heads, contrasts, RULE, seed=0, draws=3000)
    assert binomtest(found.false, 3000, exact).pvalue > 0.01
    assert false_carrier_rate(heads, contrasts.assign(total_effect=500.0), RULE, seed=0, draws=50).false == 0


def test_the_rate_is_not_above_the_level_though_heads_carry_something() -> None:
    heads, contrasts = tables(hard_map(n_heads=27))
    effects = occupation_effects(heads)
    assert called_carriers(effects, smallest_effect(contrasts, RULE), RULE, seed=0)[1].sum() >= 3  # it finds something
    found = false_carrier_rate(heads, contrasts, RULE, seed=0)
    assert found.p_value > 0.01
    assert 0 < found.share <= 0.08
    assert found.n_occupations == 24


@pytest.mark.slow
def test_the_rate_is_not_above_the_level_on_a_map_of_full_size() -> None:
    heads, contrasts = tables(hard_map())
    _, called = called_carriers(occupation_effects(heads), smallest_effect(contrasts, RULE), RULE, seed=0)
    assert called[[3, 14, 270 + 3, 270 + 14]].all()
    found = false_carrier_rate(heads, contrasts, RULE, seed=0)
    assert found.p_value > 0.01
    assert 0 < found.share <= 0.08


def test_a_rule_that_does_not_hold_its_level_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncorrected(effects: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
        return np.asarray(ttest_1samp(effects, 0).pvalue)

    monkeypatch.setattr(carriers, "max_t_sign_flip", uncorrected)
    found = false_carrier_rate(*tables(hard_map(n_heads=27)), RULE, seed=0, draws=100)
    assert found.share > 0.3
    assert found.p_value < 1e-6


def test_a_rule_that_counts_heads_that_move_together_as_independent_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Had the draws turned every cell by itself, this rule would hold its level.
    effects = np.repeat(np.random.default_rng(0).normal(size=(12, 1, 2)), 6, axis=1)

    def pooled(cells: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
        return np.full(cells.shape[1], ttest_1samp(cells.ravel(), 0).pvalue)

    monkeypatch.setattr(carriers, "max_t_sign_flip", pooled)
    assert false_carrier_rate(*tables(effects), RULE, seed=0, draws=200).p_value < 1e-6


def test_order_of_rows_and_sign_of_the_total_effect_change_nothing_and_the_seed_does() -> None:
    heads, contrasts = tables(hard_map(12, 27))
    found = false_carrier_rate(heads, contrasts, RULE, seed=1, draws=200)
    assert false_carrier_rate(heads.sample(frac=1, random_state=0), contrasts, RULE, seed=1, draws=200) == found
    turned = contrasts.assign(total_effect=np.resize([-1.0, 1.0], 12))
    assert false_carrier_rate(heads, turned, RULE, seed=1, draws=200) == found
    assert len({false_carrier_rate(heads, contrasts, RULE, seed=s, draws=200).false for s in range(5)}) > 1


def test_under_six_occupations_nothing_is_called() -> None:
    found = false_carrier_rate(*tables(hard_map(5, 27) + 9.0), RULE, seed=0, draws=20)
    assert found == FalseCarrierRate(draws=20, false=0, share=0.0, p_value=1.0, n_occupations=5)
