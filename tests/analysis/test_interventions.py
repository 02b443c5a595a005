"""Effects of interventions on tables worked by hand, and against the tests and intervals that they rest on."""

import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.inference import bootstrap_intervals, max_t_sign_flip
from referent_probe.analysis.interventions import CELL, cell_effects, per_contrast, share_carried
from referent_probe.randomness import generator

OCCUPATIONS = [f"occupation {i}" for i in range(8)]


def contrasts(total: float = 3.0, occupations: list[str] | None = None) -> pd.DataFrame:
    """Two contrasts of each occupation; cf says 2, cm says 2 less the total effect."""
    names = OCCUPATIONS if occupations is None else occupations
    return pd.DataFrame(
        [
            {"contrast": f"{name} {i}", "occupation": name, "total_effect": total}
            | {"log_odds_cf": 2.0, "log_odds_cm": 2.0 - total}
            for name in names
            for i in (0, 1)
        ]
    )


def cells(known: pd.DataFrame, **outcomes: tuple[float, float]) -> pd.DataFrame:
    """Each cell's log-odds after the intervention, by its label: of the cf and of the cm run."""
    cell = {"kind": "patch", "what": "z", "layer": 1, "last_layer": 1, "head": 0, "where": "all", "reason": None}
    return pd.DataFrame(
        [
            {"contrast": row["contrast"], "occupation": row["occupation"], **cell, "label": label}
            | {"log_odds_cf": feminine, "log_odds_cm": masculine}
            for row in known.to_dict("records")
            for label, (feminine, masculine) in outcomes.items()
        ]
    )


def test_measures_by_hand() -> None:
    """Total effect 3: cf 2, cm -1. After it, cf 0.5 and cm 1."""
    known = contrasts()
    row = per_contrast(cells(known, some=(0.5, 1.0)), known).iloc[0]
    assert row["denoise"] == 2.0  # cm from -1 to 1
    assert row["noise"] == 1.5  # cf from 2 to 0.5
    assert row["remaining"] == -0.5
    assert row["removed"] == 3.5
    assert row["midpoint_shift"] == 0.25  # from 0.5 to 0.75
    assert row["total_effect"] == 3.0


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ((2.0, -1.0), {"denoise": 0, "noise": 0, "remaining": 3, "removed": 0, "midpoint_shift": 0}),
        ((-1.0, 2.0), {"denoise": 3, "noise": 3, "remaining": -3, "removed": 6, "midpoint_shift": 0}),
        ((0.5, 0.5), {"denoise": 1.5, "noise": 1.5, "remaining": 0, "removed": 3, "midpoint_shift": 0}),
        ((5.0, 2.0), {"denoise": 3, "noise": -3, "remaining": 3, "removed": 0, "midpoint_shift": 3}),
    ],
    ids=["nothing", "the other run's", "the same", "both moved alike"],
)
def test_laws_of_the_measures(outcome: tuple[float, float], expected: dict[str, float]) -> None:
    known = contrasts()
    row = per_contrast(cells(known, one=outcome), known).iloc[0]
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert row["remaining"] + row["removed"] == pytest.approx(row["total_effect"])
    assert row["denoise"] + row["noise"] == pytest.approx(row["removed"])


def noisy(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three cells: one of half a logit, one of nothing, one of a thousandth; with contrasts' noise."""
    known, rng = contrasts(), generator(seed, "effects")
    table = cells(known, strong=(1.5, -0.5), nothing=(2.0, -1.0), tiny=(1.999, -0.999))
    scale = table["label"].map({"strong": 0.1, "nothing": 0.1, "tiny": 1e-5})
    for run in ("cf", "cm"):
        table[f"log_odds_{run}"] += scale * rng.normal(size=len(table))
    return table, known


def test_estimates_are_those_of_the_means_of_occupations() -> None:
    table = per_contrast(*noisy())
    effects = cell_effects(table, ("denoise", "noise"), 0.01, seed=3)
    assert effects["label"].tolist() == ["strong", "nothing", "tiny"]
    assert effects[CELL[:4]].iloc[0].tolist() == ["patch", "z", 1, 1]
    assert (effects["n"].tolist(), effects["n_contrasts"].tolist()) == ([8] * 3, [16] * 3)
    assert effects["reason"].isna().all()
    wide = {
        name: table.pivot_table(index="occupation", columns="label", values=name)[effects["label"]].to_numpy()
        for name in ("denoise", "noise")
    }
    p = max_t_sign_flip(np.hstack([wide["denoise"], wide["noise"]]), seed=3)
    for i, name in enumerate(("denoise", "noise")):
        expected = bootstrap_intervals(wide[name], seed=3)
        for part in ("mean", "low", "high"):
            assert effects[f"{name}_{part}"].to_numpy() == pytest.approx(expected[part].to_numpy())
        assert effects[f"{name}_p_max_t"].to_numpy() == pytest.approx(p[3 * i : 3 * i + 3])
    # Tiny and consistent is significant, and still counts for nothing.
    assert effects["denoise_p_max_t"].tolist()[::2] == [2 / 2**8] * 2
    assert effects["denoise_counts"].tolist() == [True, False, False]
    assert cell_effects(table, ("denoise", "noise"), 1e-4, seed=3)["denoise_counts"].tolist() == [True, False, True]


def test_only_what_is_tested_is_corrected_for() -> None:
    table = per_contrast(*noisy(seed=4))
    both = cell_effects(table, ("denoise", "noise"), 0.01, seed=0)
    one = cell_effects(table, ("denoise", "noise"), 0.01, seed=0, tested=["noise"])
    assert not {"denoise_p_max_t", "denoise_counts"} & set(one)
    wide = table.pivot_table(index="occupation", columns="label", values="noise")[one["label"]]
    assert one["noise_p_max_t"].to_numpy() == pytest.approx(max_t_sign_flip(wide.to_numpy(), seed=0))
    assert (one["noise_p_max_t"] <= both["noise_p_max_t"]).all()
    assert one["noise_p_max_t"].sum() < both["noise_p_max_t"].sum()
    assert one["denoise_mean"].equals(both["denoise_mean"])


def test_five_occupations_are_too_few_for_a_claim() -> None:
    known = contrasts(occupations=OCCUPATIONS[:5])
    effects = cell_effects(per_contrast(cells(known, a=(0.0, 1.0)), known), ("denoise",), 0.01, seed=0)
    assert effects["denoise_mean"].tolist() == [2.0]
    assert effects["denoise_p_max_t"].isna().all()
    assert not effects["denoise_counts"].any()
    known = contrasts(occupations=OCCUPATIONS[:6])
    effects = cell_effects(per_contrast(cells(known, a=(0.0, 1.0)), known), ("denoise",), 0.01, seed=0)
    assert effects["denoise_p_max_t"].tolist() == [2 / 2**6]


def test_one_occupation_has_no_interval() -> None:
    known = contrasts(occupations=OCCUPATIONS[:1])
    effects = cell_effects(per_contrast(cells(known, a=(0.0, 1.0)), known), ("denoise",), 0.01, seed=0)
    assert (effects["denoise_mean"].tolist(), effects["denoise_low"].isna().tolist()) == ([2.0], [True])


def test_a_cell_that_some_occupations_lack_has_fewer_and_no_p() -> None:
    table, known = noisy()
    lacking = (table["label"] == "nothing") & table["occupation"].isin(OCCUPATIONS[:3])
    table = per_contrast(table[~lacking], known)
    effects = cell_effects(table, ("denoise",), 0.01, seed=0).set_index("label")
    assert effects["n"].to_dict() == {"strong": 8, "nothing": 5, "tiny": 8}
    assert effects["n_contrasts"].to_dict() == {"strong": 16, "nothing": 10, "tiny": 16}
    assert effects["denoise_p_max_t"].isna().to_dict() == {"strong": False, "nothing": True, "tiny": False}
    part = table[table["label"] == "nothing"].groupby("occupation")["denoise"].mean()
    assert effects.loc["nothing", "denoise_mean"] == pytest.approx(part.mean())
    assert not effects.loc["nothing", "denoise_counts"]
    without = table[table["label"] != "nothing"]
    alone = cell_effects(without, ("denoise",), 0.01, seed=0).set_index("label")
    assert alone["denoise_p_max_t"].to_dict() == effects["denoise_p_max_t"].dropna().to_dict()


def test_a_cell_that_was_not_computed_is_0_with_its_reason_and_corrects_nothing() -> None:
    table, known = noisy()
    reason = table["label"].map({"nothing": "before the prime"})
    table["reason"] = reason.where(reason.notna(), None)
    own = table["label"] == "nothing"
    table.loc[own, ["log_odds_cf", "log_odds_cm"]] = [2.0, -1.0]
    effects = cell_effects(per_contrast(table, known), ("denoise", "noise"), 0.01, seed=0).set_index("label")
    row = effects.loc["nothing"]
    assert (row["reason"], row["denoise_mean"], row["denoise_low"], row["denoise_high"]) == (
        "before the prime",
        0,
        0,
        0,
    )
    assert np.isnan(row["denoise_p_max_t"])
    assert not row["denoise_counts"]
    alone = cell_effects(per_contrast(table[~own], known), ("denoise", "noise"), 0.01, seed=0).set_index("label")
    assert alone["denoise_p_max_t"].to_dict() == effects["denoise_p_max_t"].dropna().to_dict()


def test_a_cell_that_is_computed_in_some_contrasts_counts_as_computed() -> None:
    table, known = noisy()
    table["reason"] = np.where(table["contrast"].str.endswith(" 0") & (table["label"] == "strong"), "there not", None)
    effects = cell_effects(per_contrast(table, known), ("denoise",), 0.01, seed=0)
    assert effects["reason"].isna().all()


def test_one_direction_leaves_the_other_unknown() -> None:
    table, known = noisy()
    half = per_contrast(table.assign(log_odds_cf=np.nan), known)
    both = cell_effects(per_contrast(table, known), ("denoise",), 0.01, seed=0)
    pd.testing.assert_frame_equal(cell_effects(half, ("denoise",), 0.01, seed=0), both)
    assert half["noise"].isna().all()


def test_nothing_changes_its_arguments() -> None:
    table, known = noisy()
    before = table.copy(), known.copy()
    cell_effects(per_contrast(table, known), ("denoise",), 0.01, seed=0)
    pd.testing.assert_frame_equal(table, before[0])
    pd.testing.assert_frame_equal(known, before[1])


def test_share_of_the_total() -> None:
    known = contrasts()
    table = per_contrast(cells(known, half=(0.5, 0.5)), known)
    share = share_carried(table, "denoise", seed=0)
    assert share is not None
    assert (share.mean, share.low, share.high, share.n) == (0.5, 0.5, 0.5, 8)
    nothing = contrasts(total=0.0)
    assert share_carried(per_contrast(cells(nothing, half=(0.5, 0.5)), nothing), "denoise", seed=0) is None
    cancelling = contrasts()
    sign = np.where(cancelling["occupation"].isin(OCCUPATIONS[:4]), 1.0, -1.0)
    cancelling["log_odds_cm"] = 2.0 - 3.0 * sign
    cancelling["total_effect"] = 3.0 * sign
    assert share_carried(per_contrast(cells(cancelling, a=(0.5, 0.5)), cancelling), "denoise", seed=0) is None
    one = contrasts(occupations=OCCUPATIONS[:1])
    assert share_carried(per_contrast(cells(one, a=(0.5, 0.5)), one), "denoise", seed=0) is None
