"""Oracles: examples worked by hand, additive heads, scipy's bootstrap, and `carriers.carried`."""

import doctest
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap

from referent_probe.analysis import joint_share
from referent_probe.analysis.carriers import carried
from referent_probe.analysis.joint_share import Head, joint_shares, ranking

HEADS: list[Head] = [(0, 0), (0, 1), (1, 0), (1, 1)]


def heads_table(effects: dict[str, list[tuple[float, float]]], contrasts: int = 1) -> pd.DataFrame:
    """From occupation to denoise and noise of every head of `HEADS`, the same in every contrast."""
    return pd.DataFrame(
        [
            {"contrast": f"{name}-{c}", "occupation": name, "layer": layer, "head": head, "denoise": d, "noise": n}
            for name, of_heads in effects.items()
            for c in range(contrasts)
            for (layer, head), (d, n) in zip(HEADS, of_heads, strict=True)
        ]
    )


def joint_row(contrast: str, way: int, k: int, denoise: float, noise: float, total: float) -> dict[str, object]:
    occupation = contrast.split("-")[0]
    return {
        "contrast": contrast,
        "pair": contrast,
        "occupation": occupation,
        "way": way,
        "k": k,
        "denoise": denoise,
        "noise": noise,
        "total_effect": total,
    }


def additive(n_occupations: int, ways: int = 1, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Joint effects that are the sums of single ones, of 1, 2 and 4 heads of the order of `HEADS`; and the singles."""
    rng = np.random.default_rng(seed)
    names = [f"o{i:02}" for i in range(n_occupations)]
    effects = {name: [tuple(x) for x in rng.normal(0.5, 0.3, (4, 2))] for name in names}
    totals = rng.normal(4.0, 0.5, n_occupations)
    rows = [
        joint_row(f"{name}-{c}", 1 + i % ways, k, *np.sum(effects[name][:k], axis=0), totals[i])
        for i, name in enumerate(names)
        for c, k in product(range(2), (1, 2, 4))
    ]
    return pd.DataFrame(rows), heads_table(effects, contrasts=2)


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(joint_share).failed == 0


# The ranking

SIZES = {
    "cook": [(0.1, 0.1), (-0.9, -0.5), (0.6, 0.0), (0.3, 0.3)],
    "nurse": [(0.1, 0.1), (-0.9, -0.5), (-0.6, 0.0), (0.3, 0.5)],
    "guard": [(9.0, 9.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)],
}


def test_heads_are_ranked_by_the_size_of_their_mean_effect() -> None:
    heads = heads_table(SIZES)
    assert ranking(heads, "both", ["cook", "nurse"]) == [(0, 1), (1, 1), (0, 0), (1, 0)]  # 0.7, 0.35, 0.1, 0
    assert ranking(heads, "denoise", ["cook"]) == [(0, 1), (1, 0), (1, 1), (0, 0)]
    assert ranking(heads, "noise", ["nurse"]) == [(0, 1), (1, 1), (0, 0), (1, 0)]  # equals in order of place
    assert ranking(heads, "both", ["cook", "nurse", "guard"])[0] == (0, 0)


def test_occupations_that_do_not_choose_change_nothing() -> None:
    heads = heads_table(SIZES)
    other = heads.assign(noise=heads["noise"].where(heads["occupation"] != "guard", -50.0))
    assert ranking(heads, "both", ["cook", "nurse"]) == ranking(other, "both", ["cook", "nurse"])


def test_a_ranking_weighs_occupations_and_not_contrasts() -> None:
    heads = pd.concat([heads_table({"cook": SIZES["cook"]}, contrasts=50), heads_table({"guard": SIZES["guard"]})])
    assert ranking(heads, "both", ["cook", "guard"])[0] == (0, 0)


def test_an_occupation_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="baker"):
        ranking(heads_table(SIZES), "both", ["cook", "baker"])


# Shares


def test_a_share_is_a_ratio_of_means_over_occupations() -> None:
    joint = pd.DataFrame(
        [
            joint_row("cook-0", 1, 2, 0.5, 1.0, 1.0),
            joint_row("cook-1", 1, 2, 0.7, 1.0, 1.0),
            joint_row("cook-2", 1, 2, 0.3, 1.0, 1.0),
            joint_row("nurse-0", 1, 2, 2.5, 1.0, 3.0),
        ]
    )
    singles = {
        "cook": [(9.0, 9.0), (0.2, 0.0), (0.4, 0.0), (9.0, 9.0)],
        "nurse": [(9.0, 9.0), (1.0, 0.0)] + [(1, 0)] * 2,
    }
    heads = pd.concat([heads_table({"cook": singles["cook"]}, contrasts=3), heads_table({"nurse": singles["nurse"]})])
    table = joint_shares(joint, heads, {1: [(1, 0), (0, 1), (0, 0)]}, seed=0).set_index("direction")
    denoise, noise = table.loc["denoise"], table.loc["noise"]
    assert (denoise["joint"], denoise["total"]) == pytest.approx((1.5, 2.0))  # of 0.5 and 2.5; of 1 and 3
    assert denoise["share"] == pytest.approx(0.75)  # 0.67 as a mean of ratios, and over contrasts
    assert denoise["sum_of_singles"] == pytest.approx(1.3)  # of 0.6 and 2
    assert denoise["joint_less_sum"] == pytest.approx(0.2)
    assert denoise["share_of_singles"] == pytest.approx(0.65)
    assert (noise["joint"], noise["sum_of_singles"], noise["share"]) == pytest.approx((1.0, 0.0, 0.5))
    assert (table["way"].tolist(), table["k"].tolist(), table["n"].tolist()) == (["1", "1"], [2, 2], [2, 2])
    assert (denoise["share_low"], denoise["share_high"]) == pytest.approx((0.5, 2.5 / 3))
    assert table["reason"].isna().all()


def test_where_heads_add_up_the_joint_effect_is_the_sum() -> None:
    joint, heads = additive(12)
    table = joint_shares(joint, heads, {1: HEADS}, seed=0)
    assert table[["k", "direction"]].to_numpy().tolist() == [
        [k, direction] for k in (1, 2, 4) for direction in ("denoise", "noise")
    ]
    for part in ("joint_less_sum", "joint_less_sum_low", "joint_less_sum_high"):
        assert table[part].to_numpy() == pytest.approx(0.0, abs=1e-12)
    for end in ("", "_low", "_high"):
        assert table[f"share{end}"].to_numpy() == pytest.approx(table[f"share_of_singles{end}"].to_numpy())
        assert table[f"joint{end}"].to_numpy() == pytest.approx(table[f"sum_of_singles{end}"].to_numpy(), abs=1e-3)
    assert (table["share_low"] < table["share"]).all()
    assert (table["share"] < table["share_high"]).all()
    assert table.loc[table["direction"] == "noise", "share"].is_monotonic_increasing


def test_heads_that_stand_in_for_one_another_show_only_together() -> None:
    joint, heads = additive(8)
    backup = joint.assign(noise=np.where(joint["k"] == 1, 0.0, 2.0))
    table = joint_shares(backup, heads.assign(noise=0.0), {1: HEADS}, seed=0)
    noise = table[table["direction"] == "noise"].set_index("k")
    assert noise["joint"].tolist() == [0.0, 2.0, 2.0]
    assert noise["joint_less_sum"].tolist() == [0.0, 2.0, 2.0]
    assert noise["share_of_singles"].tolist() == [0.0, 0.0, 0.0]


def test_the_interval_of_a_share_is_scipys_over_occupations() -> None:
    joint, heads = additive(15)
    table = joint_shares(joint, heads, {1: HEADS}, seed=0).set_index(["k", "direction"])
    means = joint[joint["k"] == 2].groupby("occupation")[["denoise", "total_effect"]].mean().to_numpy().T
    low, high = bootstrap(
        tuple(means), lambda a, b, axis: a.mean(axis) / b.mean(axis), paired=True, method="percentile", rng=1
    ).confidence_interval
    row = table.loc[(2, "denoise")]
    assert (row["share_low"], row["share_high"]) == pytest.approx((low, high), abs=0.01)


def test_the_share_of_the_singles_is_what_the_main_job_prints() -> None:
    joint, heads = additive(10)
    contrasts = joint[joint["k"] == 2].assign(left_out=None)
    called = pd.DataFrame(HEADS, columns=["layer", "head"]).assign(carrier=["both", "both", "none", "none"])
    added, share = carried(heads, called, contrasts, "denoise", seed=0)
    assert added is not None
    assert share is not None
    row = joint_shares(joint, heads, {1: HEADS}, seed=0).set_index(["k", "direction"]).loc[(2, "denoise")]
    sums = [row["sum_of_singles"], row["sum_of_singles_low"], row["sum_of_singles_high"]]
    assert sums == pytest.approx([added.mean, added.low, added.high])
    shares = [row["share_of_singles"], row["share_of_singles_low"], row["share_of_singles_high"]]
    assert shares == pytest.approx([share.mean, share.low, share.high], abs=0.01)  # other resamples


def test_both_ways_together_take_every_occupation_with_the_heads_of_the_other_half() -> None:
    joint = pd.DataFrame([joint_row("cook-0", 1, 1, 1.0, 0.0, 2.0), joint_row("nurse-0", 2, 1, 3.0, 0.0, 4.0)])
    heads = heads_table({"cook": [(0.5, 0), (7, 0), (7, 0), (7, 0)], "nurse": [(7, 0), (7, 0), (7, 0), (1.5, 0)]})
    table = joint_shares(joint, heads, {1: [(0, 0)], 2: [(1, 1)]}, seed=0)
    denoise = table[table["direction"] == "denoise"].set_index("way")
    assert denoise["n"].to_dict() == {"1": 1, "2": 1, "both": 2}
    assert denoise["joint"].to_dict() == {"1": 1.0, "2": 3.0, "both": 2.0}
    assert denoise["sum_of_singles"].to_dict() == {"1": 0.5, "2": 1.5, "both": 1.0}
    assert denoise.loc["both", "share"] == pytest.approx(2 / 3)
    assert denoise.loc[["1", "2"], "share"].isna().all()  # of one occupation there is no interval
    assert denoise["reason"].notna().to_dict() == {"1": True, "2": True, "both": False}


def test_both_ways_are_as_each_alone() -> None:
    joint, heads = additive(16, ways=2)
    rankings = {1: HEADS, 2: HEADS}
    table = joint_shares(joint, heads, rankings, seed=0)
    for way in (1, 2):
        alone = joint_shares(joint[joint["way"] == way], heads, rankings, seed=0)
        pd.testing.assert_frame_equal(alone, table[table["way"] == str(way)].reset_index(drop=True))
    pooled = joint_shares(joint.assign(way=1), heads, rankings, seed=0)
    both = table[table["way"] == "both"].reset_index(drop=True)
    pd.testing.assert_frame_equal(pooled.drop(columns="way"), both.drop(columns="way"))


def test_where_the_total_effect_cancels_there_is_no_share_and_the_reason_is_given() -> None:
    joint, heads = additive(10)
    turned = joint.assign(total_effect=joint["total_effect"] * np.where(joint["occupation"] < "o05", 1, -1))
    table = joint_shares(turned, heads, {1: HEADS}, seed=0)
    shares = [f"{name}{end}" for name in ("share", "share_of_singles") for end in ("", "_low", "_high")]
    assert table[shares].isna().all().all()
    assert table["reason"].str.contains("covers 0").all()
    assert table["joint_low"].notna().all()


def test_scale_of_the_total_effect_and_order_of_rows() -> None:
    joint, heads = additive(10)
    plain = joint_shares(joint, heads, {1: HEADS}, seed=0)
    doubled = joint_shares(joint.assign(total_effect=2 * joint["total_effect"]), heads, {1: HEADS}, seed=0)
    assert (2 * doubled[["share", "share_low", "share_high"]]).to_numpy() == pytest.approx(
        plain[["share", "share_low", "share_high"]].to_numpy()
    )
    shuffled = joint_shares(joint.sample(frac=1, random_state=0), heads[::-1], {1: HEADS}, seed=0)
    pd.testing.assert_frame_equal(shuffled, plain, atol=1e-3)


def test_what_does_not_fit_is_refused() -> None:
    joint, heads = additive(4)
    with pytest.raises(ValueError, match=r"way 1 has 3 heads: no joint effect of 4"):
        joint_shares(joint, heads, {1: HEADS[:3]}, seed=0)
    with pytest.raises(ValueError, match=r"no single effects of contrast o02-0"):
        joint_shares(joint, heads[heads["contrast"] != "o02-0"], {1: HEADS}, seed=0)
    with pytest.raises(ValueError, match="in two ways"):
        joint_shares(pd.concat([joint, joint.assign(way=2)]), heads, {1: HEADS, 2: HEADS}, seed=0)
