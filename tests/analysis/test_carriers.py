import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.carriers import (
    CarrierRule,
    carried,
    effects_by,
    flow_effects,
    head_effects,
    smallest_effect,
    total_effect,
)
from tests.synthetic import heads_table

RULE = CarrierRule()


def contrasts_table(n_occupations: int, effects: list[float]) -> pd.DataFrame:
    rows = [
        {"contrast": f"{o}-{i}", "occupation": f"occupation {o}", "total_effect": effect, "left_out": None}
        for o in range(n_occupations)
        for i, effect in enumerate(effects)
    ]
    return pd.DataFrame(rows)


def test_carriers_are_found_in_their_direction_and_nothing_else_is() -> None:
    table = head_effects(heads_table(8), 0.01, RULE, seed=0).set_index(["layer", "head"])
    assert table["carrier"].to_dict() == {
        (0, 0): "none",
        (0, 1): "both",
        (0, 2): "none",
        (1, 0): "noise",
        (1, 1): "none",  # significant, and smaller than anybody cares for
        (1, 2): "none",
    }
    assert table.loc[(1, 1), "denoise_p_max_t"] <= 0.05
    assert table.loc[(0, 1), "denoise_mean"] == pytest.approx(0.9, abs=0.01)
    assert table.loc[(0, 1), "denoise_low"] <= 0.9 <= table.loc[(0, 1), "denoise_high"] + 0.01
    assert table["attention_to_prime_mean"].to_numpy() == pytest.approx(0.3)
    assert table["direct_logit_attribution_mean"].to_numpy() == pytest.approx(1.0)
    assert table["prime_attribution_mean"].to_numpy() == pytest.approx(-0.1)


def test_under_six_occupations_no_head_is_called_a_carrier() -> None:
    table = head_effects(heads_table(5), 0.01, RULE, seed=0)
    assert set(table["carrier"]) == {"none"}
    assert table[["denoise_p_max_t", "noise_p_max_t"]].isna().all().all()
    assert set(head_effects(heads_table(6), 0.01, RULE, seed=0)["carrier"]) == {"none", "both", "noise"}


def test_rows_in_another_order_change_nothing() -> None:
    heads = heads_table(7)
    shuffled = heads.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(
        head_effects(heads, 0.01, RULE, seed=3), head_effects(shuffled, 0.01, RULE, seed=3), atol=1e-12
    )


def test_swapping_the_primes_flips_effects_and_keeps_the_claims() -> None:
    heads = heads_table(8)
    flipped = heads.assign(denoise=-heads["denoise"], noise=-heads["noise"])
    plain, other = (head_effects(h, 0.01, RULE, seed=0) for h in (heads, flipped))
    assert other["denoise_mean"].to_numpy() == pytest.approx(-plain["denoise_mean"].to_numpy())
    assert other["carrier"].tolist() == plain["carrier"].tolist()
    assert other["noise_p_max_t"].to_numpy() == pytest.approx(plain["noise_p_max_t"].to_numpy())


def test_without_attribution_the_rest_is_there() -> None:
    heads = heads_table(8).assign(direct_logit_attribution_cf=np.nan)
    table = head_effects(heads, 0.01, RULE, seed=0)
    assert table["direct_logit_attribution_mean"].isna().all()
    assert (table["carrier"] != "none").sum() == 2


def test_the_smallest_effect_does_not_vanish_where_contrasts_cancel() -> None:
    assert smallest_effect(contrasts_table(3, [1.0, -1.0]), RULE) == pytest.approx(0.01)
    assert smallest_effect(contrasts_table(3, [2.0, 2.0]), RULE) == pytest.approx(0.02)


def test_rounding_is_nobodys_effect() -> None:
    smallest = smallest_effect(contrasts_table(8, [0.0, 0.0]), RULE)
    assert smallest == 1e-3
    tiny = heads_table(8)
    tiny[["denoise", "noise"]] *= 1e-4
    assert set(head_effects(tiny, smallest, RULE, seed=0)["carrier"]) == {"none"}


def test_total_effect_leaves_out_what_was_left_out() -> None:
    contrasts = contrasts_table(4, [1.0, 3.0])
    extra = pd.DataFrame(
        [{"contrast": "x", "occupation": "occupation 0", "total_effect": np.nan, "left_out": "too long"}]
    )
    total = total_effect(pd.concat([contrasts, extra]), seed=0)
    assert (total.mean, total.low, total.high, total.n) == (2.0, 2.0, 2.0, 4)


def test_what_carriers_carry_is_summed_over_them_and_divided_by_the_total() -> None:
    heads, contrasts = heads_table(8), contrasts_table(8, [2.0, 2.2, 1.8, 2.0])
    table = head_effects(heads, 0.01, RULE, seed=0)
    added, share = carried(heads, table, contrasts, "denoise", seed=0)
    assert added is not None
    assert share is not None
    assert (added.mean, share.mean) == pytest.approx((0.9, 0.45), abs=0.01)
    assert share.low <= share.mean <= share.high
    assert (added.n, share.unit) == (8, "share of the total effect")
    added, share = carried(heads, table, contrasts, "noise", seed=0)
    assert added is not None
    assert share is not None
    assert (added.mean, share.mean) == pytest.approx((0.3, 0.15), abs=0.01)  # 0.8 with, 0.5 against
    cancelling = contrasts.assign(total_effect=[(-1.0) ** (i // 4) for i in range(len(contrasts))])
    added, share = carried(heads, table, cancelling, "noise", seed=0)
    assert added is not None
    assert share is None
    assert carried(heads, table.assign(carrier="none"), contrasts, "noise", seed=0) == (None, None)


def test_opposite_effects_show_by_case() -> None:
    contrasts = contrasts_table(4, [1.0, -3.0]).assign(case=["nominative", "accusative"] * 4)
    by = effects_by(contrasts, "case", seed=0)
    assert {case: part.mean for case, part in by.items()} == {"accusative": -3.0, "nominative": 1.0}


def test_flow_keeps_the_order_of_the_prompt_and_its_range() -> None:
    rows = [
        {
            "contrast": c,
            "occupation": c,
            "layer": layer,
            "span": span,
            "span_position": position,
            "effect": effect + (c == "b"),
            "reason": None,
        }
        for c in ("a", "b")
        for layer in range(2)
        for span, position, effect in (("target_slot", 9, 1.0), ("blank", 4, 2.0))
    ]
    contrasts = pd.DataFrame({"contrast": ["a", "b"], "total_effect": [3.0, 5.0]})
    table = flow_effects(pd.DataFrame(rows), contrasts)
    assert table[["span", "layer"]].to_numpy().tolist() == [
        ["blank", 0],
        ["blank", 1],
        ["target_slot", 0],
        ["target_slot", 1],
    ]
    first = table.iloc[0]
    assert (first["effect_mean"], first["effect_min"], first["effect_max"]) == (2.5, 2.0, 3.0)
    assert (first["total_mean"], first["n_contrasts"], first["n_occupations"]) == (4.0, 2, 2)
