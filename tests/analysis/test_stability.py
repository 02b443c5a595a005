"""Oracles: scipy's Spearman of means, all splits and resamples of few occupations, loops over pairs of heads."""

import doctest
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from referent_probe.analysis import stability
from referent_probe.analysis.stability import ranking_stability
from referent_probe.errors import OptionError

PER_LAYER = 5
RELIABILITY = "split-half reliability (Spearman-Brown)"
CASES = ("nominative", "accusative", "possessive")


def tables(
    effects: NDArray[np.float64], cases: tuple[str, ...] = ("nominative",), orders: tuple[str, ...] = ("mf",)
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Heads and contrasts from `[n_occupations, n_cases, n_orders, n_heads, 2]`, one contrast a case and order."""
    occupation, case, order, head = (x.ravel() for x in np.indices(effects.shape[:-1]))
    heads = pd.DataFrame(
        {
            "contrast": [f"{o}-{c}-{i}" for o, c, i in zip(occupation, case, order, strict=True)],
            "occupation": [f"occupation {o:02}" for o in occupation],
            "layer": head // PER_LAYER,
            "head": head % PER_LAYER,
            "denoise": effects[..., 0].ravel(),
            "noise": effects[..., 1].ravel(),
        }
    )
    contrasts = heads[["contrast", "occupation"]].assign(
        case=np.array(cases)[case], option_order=np.array(orders)[order]
    )
    return heads, contrasts.drop_duplicates()


def normal(*shape: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=shape)


def rows(table: pd.DataFrame, comparison: str) -> pd.DataFrame:
    return table[table["comparison"] == comparison].set_index("direction")


def tau_by_loops(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Tau-b of the places of heads that lead either list, places beyond ten tied, pair by pair."""
    places = [np.minimum(np.argsort(np.argsort(-np.abs(x))), 10) for x in (a, b)]
    heads = np.flatnonzero((places[0] < 10) | (places[1] < 10))
    signs = np.array([[np.sign(p[i] - p[j]) for p in places] for i, j in combinations(heads, 2)])
    return float((signs[:, 0] * signs[:, 1]).sum() / np.sqrt((signs**2).sum(axis=0).prod()))


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(stability).failed == 0


# Which rows there are


def test_every_comparison_is_there_once_a_direction() -> None:
    heads, contrasts = tables(normal(6, 3, 2, 12, 2), CASES, ("mf", "fm"))
    table = ranking_stability(heads, contrasts, seed=0, others={"other wording": heads})
    found = table[["comparison", "a", "b", "direction"]].itertuples(index=False, name=None)
    expected = [
        (comparison, a, b, direction)
        for comparison, a, b in (
            ("random halves", "half", "other half"),
            (RELIABILITY, "all occupations", "as many others"),
            ("case", "accusative", "nominative"),
            ("case", "accusative", "possessive"),
            ("case", "nominative", "possessive"),
            ("option order", "fm", "mf"),
            ("run", "this run", "other wording"),
        )
        for direction in ("denoise", "noise")
    ]
    assert sorted(found) == sorted([*expected, ("direction", "denoise", "noise", "denoise and noise")])
    assert table[["spearman", "low", "high", "n_a", "n_b", "interval_of"]].notna().all().all()


# Identities and oracles


def test_a_run_agrees_with_itself_whatever_is_resampled() -> None:
    heads, contrasts = tables(normal(8, 1, 1, 20, 2))
    row = rows(ranking_stability(heads, contrasts, seed=0, others={"again": heads}), "run").loc["noise"]
    numbers = row[["spearman", "low", "high", "overlap_10", "kendall_10"]].tolist()
    assert numbers == pytest.approx([1.0] * 5)
    assert (row["n_a"], row["n_b"]) == (8, 8)


def test_effects_of_the_other_sign_rank_the_other_way_round_and_lead_alike() -> None:
    heads, contrasts = tables(normal(8, 1, 1, 20, 2))
    turned = heads.assign(denoise=-heads["denoise"], noise=-3 * heads["noise"])
    table = rows(ranking_stability(heads, contrasts, seed=0, others={"turned": turned}), "run")
    assert table[["spearman", "low", "high"]].to_numpy() == pytest.approx(-1.0)
    assert table[["overlap_10", "kendall_10"]].to_numpy() == pytest.approx(1.0)


def test_the_correlation_is_scipys_of_the_mean_effects() -> None:
    effects = normal(7, 3, 2, 30, 2) + normal(30, 2, seed=1)
    table = ranking_stability(*tables(effects, CASES, ("mf", "fm")), seed=0)
    of_case = dict(zip(CASES, effects.mean(axis=(0, 2)).transpose(0, 2, 1), strict=True))
    for _, row in table[table["comparison"] == "case"].iterrows():
        a, b = (of_case[row[side]][int(row["direction"] == "noise")] for side in ("a", "b"))
        assert row["spearman"] == pytest.approx(spearmanr(a, b).statistic)
        assert row["kendall_10"] == pytest.approx(tau_by_loops(a, b))
        leading = [set(np.argsort(-np.abs(side))[:10]) for side in (a, b)]
        assert row["overlap_10"] == pytest.approx(len(leading[0] & leading[1]) / 10)
        assert row["low"] <= row["spearman"] <= row["high"]
    mf, fm = effects.mean(axis=(0, 1))[..., 0]
    assert rows(table, "option order").loc["denoise", "spearman"] == pytest.approx(spearmanr(mf, fm).statistic)
    denoise, noise = effects.mean(axis=(0, 1, 2)).T
    expected = spearmanr(denoise, noise).statistic
    assert rows(table, "direction").loc["denoise and noise", "spearman"] == pytest.approx(expected)


def test_occupations_weigh_the_same_however_many_contrasts_they_have() -> None:
    heads, contrasts = tables(normal(5, 1, 1, 12, 2))
    more = [heads[heads["occupation"] == "occupation 00"].assign(contrast=f"more {i}") for i in range(9)]
    plain = ranking_stability(heads, contrasts, seed=0)
    weighed = ranking_stability(
        pd.concat([heads, *more]),
        pd.concat([contrasts, *(contrasts[:1].assign(contrast=f"more {i}") for i in range(9))]),
        seed=0,
    )
    pd.testing.assert_frame_equal(plain, weighed, atol=1e-9)


def test_overlap_and_kendall_by_hand() -> None:
    first = np.r_[np.arange(20.0, 8.0, -1.0)]  # heads 0 to 11, of which 0 to 9 lead
    second = np.r_[first[:8], 1.0, 2.0, 30.0, -40.0]  # 11, 10, and 0 to 7 lead
    heads, contrasts = tables(first[None, None, None, :, None].repeat(2, axis=-1))
    other, _ = tables(second[None, None, None, :, None].repeat(2, axis=-1))
    row = rows(ranking_stability(heads, contrasts, seed=0, others={"other": other}), "run").loc["noise"]
    assert row["overlap_10"] == pytest.approx(0.8)
    # 66 pairs of 12 heads. Alike: 28 of 0 to 7, and 16 of these with 8 and 9. Contrary: 16 with 10 and 11, and 4 of
    # 8 and 9 with 10 and 11. Tied in one list: 8 with 9, and 10 with 11.
    assert row["kendall_10"] == pytest.approx((28 + 16 - 16 - 4) / 65)


# Halves


def test_two_occupations_have_one_split() -> None:
    effects = normal(2, 1, 1, 15, 2)
    table = ranking_stability(*tables(effects), seed=0)
    expected = spearmanr(*effects[:, 0, 0, :, 0]).statistic
    halves = rows(table, "random halves").loc["denoise"]
    assert halves[["spearman", "low", "high"]].tolist() == pytest.approx([expected] * 3)
    assert (halves["n_a"], halves["n_b"]) == (1, 1)
    assert halves["kendall_10"] == pytest.approx(tau_by_loops(*effects[:, 0, 0, :, 0]))


def test_the_range_of_six_occupations_is_that_of_their_ten_splits() -> None:
    effects = normal(6, 1, 1, 15, 2)[:, 0, 0]
    table = rows(ranking_stability(*tables(effects[:, None, None]), seed=0), "random halves")
    for i, direction in enumerate(("denoise", "noise")):
        sums = [effects[list(half), :, i].sum(axis=0) for half in combinations(range(6), 3)]  # rank as means do
        split = [spearmanr(half, effects[..., i].sum(axis=0) - half).statistic for half in sums]
        row = table.loc[direction]
        assert (row["low"], row["high"]) == pytest.approx((min(split), max(split)))
        assert row["spearman"] == pytest.approx(np.mean(split), abs=0.03)  # 200 draws of ten


def test_reliability_is_the_halves_corrected_and_says_so() -> None:
    table = ranking_stability(*tables(normal(11, 1, 1, 40, 2) + normal(40, 2, seed=1)), seed=0)
    halves, corrected = rows(table, "random halves"), rows(table, RELIABILITY)
    assert (halves["low"] > 0).all()
    for part in ("spearman", "low", "high"):
        assert corrected[part].to_numpy() == pytest.approx((2 * halves[part] / (1 + halves[part])).to_numpy())
    assert (halves["n_a"].tolist(), halves["n_b"].tolist()) == ([5, 5], [6, 6])
    assert corrected["n_a"].tolist() == [11, 11]
    assert set(halves["interval_of"]) == {"95 % range over 200 random splits"}


def test_reliability_foretells_how_two_maps_of_all_occupations_agree() -> None:
    foretold, seen = [], []
    for seed in range(8):
        true = normal(100, 2, seed=seed)
        a, b = (2.0 * normal(12, 1, 1, 100, 2, seed=1000 + 2 * seed + i) + true for i in (0, 1))
        table = ranking_stability(*tables(a), seed=0, others={"others": tables(b)[0]})
        foretold += rows(table, RELIABILITY)["spearman"].tolist()
        seen += rows(table, "run")["spearman"].tolist()
    assert 0.5 < np.mean(seen) < 0.9
    assert np.mean(foretold) == pytest.approx(np.mean(seen), abs=0.03)


def test_noise_ranks_nothing_and_a_strong_map_ranks_everything() -> None:
    table = ranking_stability(*tables(normal(20, 1, 1, 100, 2)), seed=0)
    noise = rows(table, "random halves").loc["denoise"]
    assert noise["low"] < 0 < noise["high"]
    [reliability] = table.loc[(table["comparison"] == RELIABILITY) & (table["direction"] == "denoise"), "low"]
    assert reliability == 0
    assert abs(noise["spearman"]) < 0.15
    assert noise["overlap_10"] < 0.3
    strong = normal(20, 1, 1, 100, 2) / 100 + normal(100, 2, seed=1)
    clear = rows(ranking_stability(*tables(strong), seed=0), "random halves").loc["denoise"]
    assert clear["low"] > 0.99
    assert clear["overlap_10"] > 0.9


def test_opposite_effects_by_case_show() -> None:
    effects = normal(10, 2, 1, 40, 2) / 20 + normal(40, 2, seed=1) * np.array([1.0, -1.0])[:, None, None, None]
    table = rows(ranking_stability(*tables(effects, CASES[:2]), seed=0), "case")
    assert (table["high"] < -0.9).all()
    assert (table["overlap_10"] >= 0.8).all()


# Intervals over occupations


def test_shared_occupations_are_resampled_together() -> None:
    a, b = normal(2, 2, 12)
    heads, contrasts = tables(np.stack([a, a], axis=-1)[:, None, None])
    other, _ = tables(np.stack([b, b], axis=-1)[:, None, None])
    row = rows(ranking_stability(heads, contrasts, seed=0, others={"other": other}), "run").loc["denoise"]
    of_draws = [spearmanr(a[0], b[0]).statistic, spearmanr(a[1], b[1]).statistic, spearmanr(sum(a), sum(b)).statistic]
    assert (row["low"], row["high"]) == pytest.approx((min(of_draws), max(of_draws)))
    assert row["spearman"] == pytest.approx(of_draws[2])


def test_a_draw_without_the_occupations_of_one_side_is_left_out() -> None:
    a, b = normal(2, 2, 12, seed=4)
    heads, contrasts = tables(np.stack([a, a], axis=-1)[:, None, None])
    other = tables(np.stack([b, b], axis=-1)[:, None, None])[0]
    other = other[other["occupation"] == "occupation 01"]
    row = rows(ranking_stability(heads, contrasts, seed=0, others={"other": other}), "run").loc["denoise"]
    of_draws = [spearmanr(a[1], b[1]).statistic, spearmanr(sum(a), b[1]).statistic]
    assert (row["low"], row["high"]) == pytest.approx((min(of_draws), max(of_draws)))
    assert (row["n_a"], row["n_b"]) == (2, 1)


def test_more_occupations_give_shorter_intervals() -> None:
    widths = []
    for n in (8, 64):
        effects = normal(n, 2, 1, 60, 2) + normal(60, 2, seed=1)
        row = rows(ranking_stability(*tables(effects, CASES[:2]), seed=0), "case").loc["noise"]
        widths.append(row["high"] - row["low"])
    assert widths[1] < widths[0] / 2


# Edges


def test_one_occupation_has_no_halves_and_no_interval() -> None:
    table = ranking_stability(*tables(normal(1, 2, 1, 12, 2), CASES[:2]), seed=0)
    halves = table[table["comparison"].isin(["random halves", RELIABILITY])]
    assert halves[["spearman", "low", "high", "overlap_10"]].isna().all().all()
    case = rows(table, "case")
    assert case["spearman"].notna().all()
    assert case[["low", "high"]].isna().all().all()


def test_where_all_heads_lead_there_is_no_overlap_to_speak_of() -> None:
    for n_heads, known in ((10, False), (11, True)):
        table = ranking_stability(*tables(normal(6, 2, 1, n_heads, 2), CASES[:2]), seed=0)
        for comparison in ("case", "random halves"):
            found = rows(table, comparison)[["overlap_10", "kendall_10"]].notna().to_numpy()
            assert (found == known).all()


def test_a_map_of_zeros_has_no_ranking() -> None:
    table = ranking_stability(*tables(np.zeros((6, 2, 1, 12, 2)), CASES[:2]), seed=0)
    assert table[["spearman", "overlap_10", "kendall_10"]].isna().all().all()


def test_order_of_rows_changes_nothing() -> None:
    heads, contrasts = tables(normal(7, 2, 2, 15, 2), CASES[:2], ("mf", "fm"))
    plain = ranking_stability(heads, contrasts, seed=0, others={"again": heads})
    mixed = heads.sample(frac=1, random_state=0)
    shuffled = ranking_stability(mixed, contrasts[::-1], seed=0, others={"again": mixed[::-1]})
    pd.testing.assert_frame_equal(plain, shuffled, atol=1e-9)


def test_a_run_of_another_architecture_is_refused() -> None:
    heads, contrasts = tables(normal(6, 1, 1, 12, 2))
    other, _ = tables(normal(6, 1, 1, 15, 2))
    with pytest.raises(OptionError, match=r"'larger' has 15 heads, this one 12.*same architecture"):
        ranking_stability(heads, contrasts, seed=0, others={"larger": other})
