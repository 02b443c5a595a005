"""Oracles: `head_effects` and the test by hand on the rows of one half; planted effects of every kind."""

import doctest

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from referent_probe.analysis import held_out
from referent_probe.analysis.carriers import CarrierRule, head_effects, smallest_effect
from referent_probe.analysis.held_out import HeldOut, halves, held_out_carriers
from referent_probe.analysis.inference import cluster_bootstrap_interval, max_t_sign_flip

RULE = CarrierRule()
CELL = ["layer", "head", "direction"]
PER_LAYER = 5


def names(n: int) -> list[str]:
    return [f"occupation {i:02}" for i in range(n)]


def tables(effects: NDArray[np.float64]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Heads and contrasts from `[n_occupations, n_heads, 2]`; two contrasts an occupation whose mean they are."""
    occupation, contrast, head = (x.ravel() for x in np.indices((len(effects), 2, effects.shape[1])))
    spread = 0.1 * (2 * contrast - 1)[:, None]
    denoise, noise = (effects[occupation, head] + spread).T
    heads = pd.DataFrame(
        {
            "contrast": [f"{o:02}-{c}" for o, c in zip(occupation, contrast, strict=True)],
            "occupation": np.array(names(len(effects)))[occupation],
            "layer": head // PER_LAYER,
            "head": head % PER_LAYER,
            "denoise": denoise,
            "noise": noise,
        }
    )
    for name in ("attention_to_prime", "direct_logit_attribution", "prime_attribution"):
        heads[f"{name}_cf"] = heads[f"{name}_cm"] = np.nan
    contrasts = heads[["contrast", "occupation"]].drop_duplicates().assign(total_effect=1.0, left_out=None)
    return heads, contrasts


def noise(n_occupations: int, n_heads: int, seed: int = 0, scale: float = 0.2) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, scale, (n_occupations, n_heads, 2))


def in_half(n: int, which: int, seed: int = 0) -> list[int]:
    """Places of the occupations of a half."""
    return [names(n).index(name) for name in halves(names(n), seed)[which]]


def confirmed(found: HeldOut) -> dict[tuple[int, int, str], int]:
    return found.confirmed.set_index(CELL)["ways"].to_dict()


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(held_out).failed == 0


# The split


@pytest.mark.parametrize("n", range(9))
def test_halves_part_the_occupations_into_two_of_like_size(n: int) -> None:
    first, second = halves(names(n), seed=3)
    assert sorted(first + second) == names(n)
    assert len(second) - len(first) == n % 2
    assert (list(first), list(second)) == (sorted(first), sorted(second))


def test_halves_know_neither_order_nor_repeats_and_change_with_the_seed() -> None:
    assert halves(names(9), 1) == halves([*reversed(names(9)), "occupation 04"], 1)
    assert len({halves(names(9), seed) for seed in range(20)}) > 10


def test_every_pair_of_occupations_is_parted_as_often_as_chance_parts_it() -> None:
    runs, n = 2000, 6
    firsts = [set(halves(names(n), seed)[0]) for seed in range(runs)]
    for other in names(n)[1:]:
        parted = sum((names(n)[0] in first) != (other in first) for first in firsts)
        assert binomtest(parted, runs, 3 / 5).pvalue > 0.001  # 3 of the 5 others are in the other half


# Choosing and testing


def test_planted_heads_are_confirmed_both_ways_and_nothing_else_is() -> None:
    effects = noise(24, 60)
    effects[:, 7] += (1.0, 0.8)
    effects[:, 33, 1] -= 0.7
    found = held_out_carriers(*tables(effects), RULE, seed=0)
    assert confirmed(found) == {(1, 2, "denoise"): 2, (1, 2, "noise"): 2, (6, 3, "noise"): 2}
    assert found.reason is None
    assert found.table["way"].tolist() == [1, 1, 1, 2, 2, 2]
    assert (found.table["n_choosing"] == 12).all()
    assert (found.table["n_held_out"] == 12).all()
    row = found.table.set_index(["way", *CELL]).loc[(1, 6, 3, "noise")]
    assert row["effect_held_out_low"] < row["effect_held_out"] < row["effect_held_out_high"] < 0
    assert row["effect_held_out"] == pytest.approx(effects[in_half(24, 1), 33, 1].mean())
    assert row["effect_chosen"] == pytest.approx(effects[in_half(24, 0), 33, 1].mean())


@pytest.mark.parametrize("n", [13, 16])
def test_each_way_is_the_rule_on_one_half_and_the_test_by_hand_on_the_other(n: int) -> None:
    effects = noise(n, 12, seed=1, scale=0.25)
    effects[:, [1, 4, 8]] += [[1.2, 1.0], [-0.9, -0.9], [0.6, 0.0]]
    heads, contrasts = tables(effects)
    found = held_out_carriers(heads, contrasts, RULE, seed=4)
    tested = 0
    for way in (1, 2):
        choosing, other = halves(names(n), 4)[:: 1 if way == 1 else -1]
        rows = heads[heads["occupation"].isin(choosing)]
        smallest = smallest_effect(contrasts[contrasts["occupation"].isin(choosing)], RULE)
        chosen = head_effects(rows, smallest, RULE, seed=4)
        cells = [
            (layer, head, direction)
            for layer, head, carrier in chosen[["layer", "head", "carrier"]].itertuples(index=False)
            for direction in ("denoise", "noise")
            if carrier in (direction, "both")
        ]
        table = found.table[found.table["way"] == way]
        assert list(table[CELL].itertuples(index=False, name=None)) == cells
        places = [names(n).index(name) for name in other]
        columns = np.array([effects[places, PER_LAYER * la + h, int(d == "noise")] for la, h, d in cells]).T
        assert table["p_held_out"].tolist() == max_t_sign_flip(columns, seed=4).tolist()
        for column, (_, row) in zip(columns.T, table.iterrows(), strict=True):
            interval = cluster_bootstrap_interval(column, other, seed=4)
            ends = row[["effect_held_out", "effect_held_out_low", "effect_held_out_high"]].tolist()
            # BCa counts the resamples below the mean; those equal to it fall on either side by rounding.
            assert ends == pytest.approx([interval.mean, interval.low, interval.high], abs=0.005)
        tested += len(cells)
    assert tested >= 4


def test_what_the_other_half_does_not_show_is_not_confirmed() -> None:
    effects = noise(24, 10)
    first, second = in_half(24, 0), in_half(24, 1)
    effects[first, 2, 0] += 1.0  # on one half alone
    effects[first, 3, 0], effects[second, 3, 0] = effects[first, 3, 0] + 1.0, effects[second, 3, 0] - 1.0
    effects[first, 4, 0], effects[second, 4, 0] = 1.0, 0.005  # the same everywhere there, and too small
    effects[first, 5, 0], effects[second, 5, 0] = 1.0, 0.015  # as small, and large enough
    found = held_out_carriers(*tables(effects), RULE, seed=0)
    first_way = found.table[found.table["way"] == 1].set_index(CELL)
    assert first_way["confirmed"].to_dict() == {
        (0, 2, "denoise"): False,
        (0, 3, "denoise"): False,
        (0, 4, "denoise"): False,
        (1, 0, "denoise"): True,
    }
    assert first_way.loc[(0, 3, "denoise"), "p_held_out"] <= 0.05  # of the other sign
    assert first_way.loc[(0, 4, "denoise"), "p_held_out"] <= 0.05
    assert first_way.loc[(0, 2, "denoise"), "p_held_out"] > 0.05
    second_way = found.table[found.table["way"] == 2].set_index(CELL)["confirmed"].to_dict()
    assert second_way == {(0, 3, "denoise"): False, (1, 0, "denoise"): True}
    assert confirmed(found) == {(1, 0, "denoise"): 2}


def test_each_half_has_its_own_smallest_effect_of_interest() -> None:
    effects = noise(24, 10)
    effects[:, 2, 0] += 0.5
    heads, contrasts = tables(effects)
    large = contrasts["occupation"].isin(halves(names(24), 0)[1])
    contrasts = contrasts.assign(total_effect=np.where(large, 100.0, 1.0))  # 1 % of them: 1 and 0.01
    table = held_out_carriers(heads, contrasts, RULE, seed=0).table
    assert table[["way", "confirmed"]].to_numpy().tolist() == [[1, False]]
    assert table.loc[0, "p_held_out"] <= 0.05


def test_one_way_is_told_from_both() -> None:
    effects = noise(24, 10)
    effects[in_half(24, 0), 6, 1] += 2.0
    effects[in_half(24, 1), 6, 1] += np.tile([0.9, -0.1], 6)  # enough for one test, not for one of twenty
    found = held_out_carriers(*tables(effects), RULE, seed=0)
    assert confirmed(found) == {(1, 1, "noise"): 1}
    assert found.table["way"].tolist() == [1]


def test_chosen_effects_are_too_large_and_held_out_ones_are_not() -> None:
    true, effects = 0.4, noise(20, 400, seed=2, scale=0.3)
    table = held_out_carriers(*tables(effects + true), RULE, seed=0).table
    assert len(table) > 100
    assert table["effect_chosen"].mean() > true + 0.05
    assert table["effect_held_out"].mean() == pytest.approx(true, abs=0.02)


def test_nothing_is_confirmed_where_there_is_nothing() -> None:
    false, runs = 0, 150
    for run in range(runs):
        false += len(confirmed(held_out_carriers(*tables(noise(14, 8, seed=run, scale=1.0)), RULE, seed=run))) > 0
    assert false / runs < 0.02  # chosen by 5 % of the halves, and of these 5 % by the others


def test_names_of_occupations_order_of_rows_and_sign_change_nothing() -> None:
    effects = noise(16, 10)
    effects[:, 2] += 1.0
    heads, contrasts = tables(effects)
    plain = held_out_carriers(heads, contrasts, RULE, seed=0)
    shuffled = held_out_carriers(heads.sample(frac=1, random_state=0), contrasts[::-1], RULE, seed=0)
    pd.testing.assert_frame_equal(plain.table, shuffled.table)
    turned = held_out_carriers(*tables(-effects), RULE, seed=0)
    assert turned.confirmed.equals(plain.confirmed)
    assert turned.table["effect_held_out"].tolist() == pytest.approx((-plain.table["effect_held_out"]).tolist())


# Nothing to claim


def test_under_twelve_occupations_nothing_is_claimed_and_the_reason_is_given() -> None:
    full = held_out_carriers(*tables(noise(12, 10) + 5.0), RULE, seed=0)
    assert (full.reason, set(full.confirmed["ways"])) == (None, {2})
    found = held_out_carriers(*tables(noise(11, 10) + 5.0), RULE, seed=0)
    assert found.reason is not None
    assert "11 occupations" in found.reason
    for empty, table in ((found.table, full.table), (found.confirmed, full.confirmed)):
        assert empty.empty
        assert empty.dtypes.tolist() == table.dtypes.tolist()
        assert list(empty.columns) == list(table.columns)


def test_where_no_head_is_chosen_the_reason_is_given() -> None:
    found = held_out_carriers(*tables(np.zeros((12, 4, 2))), RULE, seed=0)
    assert found.table.empty
    assert found.confirmed.empty
    assert found.reason is not None
    assert "neither half" in found.reason
