"""Models whose answers are known: what each part of the analysis must say of them, by hand."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.measured import TEMPERATURES, P, write_run

from referent_probe.analysis.behaviour.answers import answer_quantities, divergence_quantities
from referent_probe.analysis.behaviour.arrays import Arrays, as_arrays
from referent_probe.analysis.behaviour.comprehension import comprehension_quantities
from referent_probe.analysis.behaviour.contextual import contextual_quantities, overlap_quantities
from referent_probe.analysis.behaviour.factors import information_quantities, sampled_information_quantities
from referent_probe.analysis.behaviour.finished import read_run
from referent_probe.analysis.behaviour.quantities import quantities_table
from referent_probe.analysis.behaviour.roles import ratings_of, spearman_quantities
from referent_probe.analysis.behaviour.sampled import draw_quantities, sampled_pairs, verdict_quantities
from referent_probe.analysis.behaviour.shifts import (
    choice_log_odds,
    follow_quantities,
    sentence_log_odds,
    shift_quantities,
    shifts_table,
)
from referent_probe.analysis.behaviour.systems import joint_pairs, sentence_pairs, single_blank_pairs
from referent_probe.analysis.divergence import bernoulli_kl_bits, expected_smoothed_kl_bits
from referent_probe.errors import OptionError, RunError, StimuliError
from referent_probe.stimuli.ratings import rating
from referent_probe.stimuli.templates import Template

Make = Callable[..., Arrays]
pytestmark = pytest.mark.usefixtures("few_resamples")


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def number(template: Template) -> int:
    return 2 * int(template.pair) + (template.id[-1] == "b")


def base(template: Template) -> float:
    """Log-odds at T = 1 of an unprimed template, -2 to 2."""
    return number(template) * 37 % 41 / 10 - 2


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(p: P, **options: Any) -> Arrays:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        run = read_run(write_run(folder, p, **{"n_pairs": 12, "temperature": 1.0, "temperatures": (1.0,)} | options))
        return as_arrays(run.tables, run.model, run.temperature)

    return build


def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return quantities_table(rows, "m")


def pick(rows: list[dict[str, Any]], quantity: str, **keys: Any) -> dict[str, Any]:
    """The one row with these keys."""
    kept = table(rows)
    for column, value in {"quantity": quantity, **keys}.items():
        kept = kept[kept[column] == value]
    (row,) = kept.to_dict("records")
    return {str(key): value for key, value in row.items()}


# Shifts


def test_a_model_without_prime_effect_is_equivalent(make: Make) -> None:
    run = make(lambda template, setting, order: sigmoid(base(template) + (order == "mf")))
    odds = choice_log_odds(run)
    rows = shift_quantities(odds, run.templates, 0.2, 0)
    equivalence = table(rows).query("quantity == 'equivalence'")
    assert set(equivalence["verdict"]) == {"equivalent"}
    assert sorted(set(equivalence["threshold"])) == [0.1, 0.2, 0.36]
    for order in "mf", "fm", "both":
        keys = {"setting": "cf", "option_order": order, "factor": "occupation"}
        assert pick(rows, "share_within_margin", threshold=0.2, **keys)["value"] == 1
        assert pick(rows, "rms_shift", **keys)["value"] == 0
        assert pick(rows, "noise_floor", option_order=order, factor="participant")["value"] == 0
    follow = follow_quantities(odds, run.templates, 0.2, 0)
    assert pick(follow, "follow_shift", option_order="both", factor="all")["verdict"] == "undecided"
    divergence = divergence_quantities(run, 0)
    assert table(divergence).query("quantity != 'kl_smoothed_mean'")["value"].abs().max() < 1e-12
    information = information_quantities(run, {}, 0)
    keys = {"setting": "cf+cm", "option_order": "both", "factor": "priming_pronoun"}
    assert pick(information, "mutual_information", **keys)["value"] < 1e-12
    assert pick(information, "mutual_information_conditional", **keys)["value"] < 1e-12


def test_shifts_by_hand(make: Make) -> None:
    shift = {"c0": 0.0, "cf": 0.5, "cm": -0.3, "n1": 0.05, "n2": -0.05, "r_np": 0.15, "r_both": 0.0}
    run = make(lambda t, setting, order: sigmoid(base(t) + shift[setting] * (2 if order == "fm" else 1)))
    rows = shift_quantities(choice_log_odds(run), run.templates, 0.2, 0)
    keys = {"setting": "cf", "factor": "occupation"}
    for order, mean, root in ("mf", 0.5, 0.5), ("fm", 1.0, 1.0), ("both", 0.75, math.sqrt(0.625)):
        assert pick(rows, "mean_shift", option_order=order, **keys)["value"] == pytest.approx(mean)
        assert pick(rows, "rms_shift", option_order=order, **keys)["value"] == pytest.approx(root)
    assert pick(rows, "mean_shift", option_order="both", **keys)["n_rows"] == 48
    assert pick(rows, "noise_floor", option_order="mf", factor="occupation")["value"] == pytest.approx(0.1)
    within = {"setting": "r_np", "factor": "occupation", "option_order": "both"}
    shares = [pick(rows, "share_within_margin", threshold=margin, **within)["value"] for margin in (0.1, 0.2, 0.36)]
    assert shares == [0, 0.5, 1]
    keys = {"option_order": "mf", "threshold": 0.2, "factor": "occupation"}
    verdicts = {s: pick(rows, "equivalence", setting=s, **keys)["verdict"] for s in ("cf", "n1", "r_np", "r_both")}
    # Shifts that are the same everywhere are sure: within the margin and not zero.
    assert verdicts == {"cf": "different", "n1": "both", "r_np": "both", "r_both": "equivalent"}


def test_following_and_opposing_by_case(make: Make) -> None:
    effect = {"nominative": 1.0, "accusative": -1.0, "possessive": 0.05}

    def p(template: Template, setting: str, order: str) -> float:
        return sigmoid(base(template) + effect[template.case] * ((setting == "cf") - (setting == "cm")))

    run = make(p)
    rows = follow_quantities(choice_log_odds(run), run.templates, 0.2, 0)
    by_case = {case: pick(rows, "follow_shift", option_order="mf", factor=case) for case in effect}
    assert [by_case[case]["value"] for case in effect] == pytest.approx([2, -2, 0.1])
    assert [by_case[case]["verdict"] for case in effect] == ["follows", "opposes", "follows"]
    for order in "mf", "fm", "both":
        keys = {"option_order": order, "factor": "all"}
        assert pick(rows, "share_following", threshold=0.2, **keys)["value"] == pytest.approx(1 / 3)
        assert pick(rows, "share_opposing", threshold=0.2, **keys)["value"] == pytest.approx(1 / 3)
        assert pick(rows, "follow_rms", **keys)["value"] == pytest.approx(math.sqrt((4 + 4 + 0.01) / 3))


def test_whole_sentences_are_read_alike(make: Make) -> None:
    run = make(lambda t, s, order: sigmoid(base(t) + (s == "cf") * (2 if order == "none" else 0.1)))
    odds = sentence_log_odds(run)
    assert odds is not None
    rows = shift_quantities(odds, run.templates, 0.2, 0) + follow_quantities(odds, run.templates, 0.2, 0)
    assert set(table(rows)["reading"]) == {"whole_sentence"}
    assert set(table(rows)["option_order"]) == {"none"}
    keys = {"option_order": "none", "factor": "occupation", "setting": "cf"}
    assert pick(rows, "mean_shift", **keys)["value"] == pytest.approx(2)
    pairs = sentence_pairs(run, odds)
    assert len(pairs) == 24
    assert set(pairs["estimator"]) == {"self_primed", "steered"}
    assert not pairs["contextual_0.01"].any()
    assert sentence_log_odds(make(lambda *_: 0.5, parts=())) is None


def test_the_table_of_shifts(make: Make) -> None:
    run = make(lambda t, s, order: 0.7 if s == "cf" else 0.4, n_pairs=2)
    shifts = shifts_table(run, choice_log_odds(run), {"plumber": 0.21})
    assert len(shifts) == 4 * (7 + 1) * 2
    row = shifts.query("template == '001a' and setting == 'cf' and option_order == 'fm'").iloc[0]
    assert row["shift"] == pytest.approx(math.log(0.7 / 0.3) - math.log(0.4 / 0.6))
    assert row["kl_bits"] == pytest.approx(float(bernoulli_kl_bits(0.7, 0.4)))
    assert row["kl_smoothed_bits"] == pytest.approx(float(expected_smoothed_kl_bits(0.7, 0.4)))
    assert (row["p_feminine_share"], row["p_feminine_share_c0"]) == pytest.approx((0.7, 0.4))
    difference = shifts.query("template == '001a' and setting == 'cf-cm'")["shift"]
    assert difference.tolist() == pytest.approx([row["shift"]] * 2)
    assert shifts.query("antecedent == 'occupation'")["rating"].iloc[0] == 0.21
    assert np.isnan(shifts.query("antecedent == 'participant'")["rating"]).all()


# Answers


def test_answers_by_hand(make: Make) -> None:
    run = make(lambda t, s, order: 0.8 if order == "mf" else 0.6 if number(t) % 2 else 1.0)
    rows = answer_quantities(run, 0)
    keys = {"setting": "c0", "temperature": 1.0}
    for order, value in ("mf", 0.8), ("fm", 0.8), ("both", 0.8):
        assert pick(rows, "p_feminine_share", option_order=order, **keys)["value"] == pytest.approx(value)
    assert pick(rows, "p_valid", option_order="both", **keys)["value"] == pytest.approx(0.9)
    assert pick(rows, "p_they", option_order="mf", **keys)["value"] == pytest.approx(0.05)
    assert pick(rows, "p_other", option_order="mf", **keys)["value"] == pytest.approx(0.05)
    # Opposite order effects cancel in the signed mean alone.
    assert pick(rows, "order_effect_absolute", **keys)["value"] == pytest.approx(0.2)
    assert pick(rows, "order_effect_signed", **keys)["value"] == pytest.approx(0, abs=1e-12)
    assert pick(rows, "unexplored_largest", temperature=1.0)["value"] == 1e-9


def test_every_temperature(make: Make) -> None:
    run = make(lambda t, s, order: sigmoid(1.0), temperature=0.5, temperatures=TEMPERATURES)
    rows = answer_quantities(run, 0)
    for t in 0.3, 0.5, 0.7, 1.0:
        found = pick(rows, "p_feminine_share", setting="cm", option_order="mf", temperature=t)
        assert found["value"] == pytest.approx(sigmoid(0.5 / t))


def test_divergence_by_hand(make: Make) -> None:
    run = make(lambda t, s, order: {"c0": 0.5, "cf": 1.0 if number(t) % 2 else 0.5, "n1": 0.6}.get(s, 0.25))
    rows = divergence_quantities(run, 0)
    keys = {"option_order": "both", "temperature": 1.0}
    assert pick(rows, "kl_exact_mean", setting="cf", **keys)["value"] == pytest.approx(0.5)
    assert pick(rows, "kl_exact_median", setting="cf", **keys)["value"] == pytest.approx(0.5)
    expected = float(expected_smoothed_kl_bits([1.0, 0.5], 0.5).mean())
    assert pick(rows, "kl_smoothed_mean", setting="cf", **keys)["value"] == pytest.approx(expected)
    assert "8.604" in pick(rows, "kl_smoothed_mean", setting="cf", **keys)["note"]
    # The null prime's is a divergence too.
    expected = float(bernoulli_kl_bits(0.6, 0.5))
    assert pick(rows, "kl_exact_mean", setting="n1", **keys)["value"] == pytest.approx(expected)
    assert not any(row["setting"] == "c0" for row in rows)


def test_an_infinite_divergence_is_counted(make: Make) -> None:
    run = make(lambda t, s, order: 0.5 if s != "c0" or t.id != "001a" else 0.0)
    row = pick(divergence_quantities(run, 0), "kl_exact_mean", setting="cf", option_order="mf", temperature=1.0)
    assert (row["value"], row["n_rows"], row["n_left_out"], row["note"]) == (0, 23, 1, "1 infinite ones left out")
    median = pick(divergence_quantities(run, 0), "kl_exact_median", setting="cf", option_order="mf", temperature=1.0)
    assert (median["high"], median["note"]) == (0, None)
    shift = pick(shift_quantities(choice_log_odds(run), run.templates, 0.2, 0), "mean_shift",
                 setting="cf", option_order="mf", factor="occupation")  # fmt: skip
    assert (shift["n_rows"], shift["n_left_out"]) == (23, 1)


@pytest.mark.parametrize(("nulls", "words"), [(9, "in over 2.5 % of the resamples"), (15, "in half of the cells")])
def test_an_interval_without_an_upper_end_says_why(make: Make, nulls: int, words: str) -> None:
    run = make(lambda t, s, order: 0.5 if s != "c0" or number(t) >= nulls else 0.0)
    row = pick(divergence_quantities(run, 0), "kl_exact_median", setting="cf", option_order="mf", temperature=1.0)
    assert row["high"] == math.inf
    assert row["note"].startswith(f"infinite {words}")


# Contextuality


@pytest.mark.parametrize("strength", [0.4, 2.0, -1.0])
def test_copying_of_equal_strength_is_never_contextual(make: Make, strength: float) -> None:
    def shifted(t: Template, s: str, order: str) -> float:
        return sigmoid(base(t) + strength * ((s == "cf") - (s == "cm")))

    def mixed(t: Template, s: str, order: str) -> float:
        weight = min(abs(strength), 1) / 2
        return (1 - weight) * sigmoid(base(t)) + weight * {"cf": 1.0, "cm": 0.0}.get(s, sigmoid(base(t)))

    for p in shifted, mixed:
        run = make(p, temperatures=(1.0,))
        pairs = pd.concat([joint_pairs(run), single_blank_pairs(run)], ignore_index=True)
        for estimator in "joint", "self_primed", "steered":
            assert pairs[pairs["estimator"] == estimator]["delta_c"].max() < 1e-9
    assert pairs.query("estimator == 'printed'")["delta_c"].max() <= 1e-12


def test_the_worked_example(make: Make) -> None:
    six = {"c0": (0.5, 0.119), "cf": (0.881, 0.5), "cm": (0.119, 0.018)}
    run = make(lambda t, s, order: six.get(s, (0.5, 0.5))[number(t) % 2])
    pairs = pd.concat([joint_pairs(run), single_blank_pairs(run)], ignore_index=True)
    expected = {"steered": -0.20, "self_primed": -0.58, "released": 0.28, "joint": -0.58}
    for estimator, value in expected.items():
        for order in "mf", "fm", "both":
            kept = (pairs["estimator"] == estimator) & (pairs["option_order"] == order) & (pairs["temperature"] == 1.0)
            found = pairs[kept]
            assert found["delta_c"].round(2).tolist() == [value] * 12
    rows = contextual_quantities(pairs, 1.0, 0)
    keys = {"estimator": "released", "temperature": 1.0, "reading": "choice"}
    for order, threshold, share in ("mf", 0.1, 1), ("union", 0.01, 1), ("both", 0.0, 1):
        found = pick(rows, "contextual_share", option_order=order, threshold=threshold, **keys)
        assert (found["value"], found["n"], found["n_rows"], found["rows_of"]) == (share, 4, 12, "pairs")
    dc = pick(rows, "delta_c_mean", option_order="mf", estimator="steered", temperature=1.0)
    first, signalling = (
        pick(rows, f"{part}_mean", option_order="mf", estimator="steered", temperature=1.0)["value"]
        for part in ("correlation_difference", "signalling")
    )
    assert dc["value"] == pytest.approx(first - signalling)
    quantiles = [row["value"] for row in rows if row["quantity"] == "delta_c_quantile" and row["estimator"] == "steered"
                 and row["option_order"] == "mf"]  # fmt: skip
    assert np.round(quantiles, 2).tolist() == [-0.2] * 5


def test_joint_is_the_mean_over_lists_where_order_is_averaged_out(make: Make) -> None:
    run = make(lambda t, s, order: sigmoid(base(t) + (order == "mf") * 2 + {"cf": number(t) % 2 * 2.0}.get(s, 0)))
    table_ = run.tables["joint"].query("temperature == 1.0")
    mean = table_.groupby(["pair", "sentence_order"])[["p_ff", "p_fm", "p_mf", "p_mm"]].mean()
    one, two = (mean.xs(i, level=1) for i in (1, 2))
    agree = (one["p_ff"] + one["p_mm"]) - (two["p_ff"] + two["p_mm"])
    moved = sum(2 * ((one["p_ff"] + one[c]) - (two["p_ff"] + two[c])).abs() for c in ("p_fm", "p_mf"))
    found = joint_pairs(run).query("estimator == 'joint' and option_order == 'both' and temperature == 1.0")
    assert found["delta_c"].tolist() == pytest.approx((2 * agree.abs() - moved).tolist(), abs=1e-12)
    assert found["qq"].tolist() == pytest.approx(agree.tolist(), abs=1e-12)
    same = table_.query("option_order_1 == 'fm' and option_order_2 == 'fm'").set_index(["pair", "sentence_order"])
    assert joint_pairs(run).query("estimator == 'joint' and option_order == 'fm' and temperature == 1.0")[
        "qq"
    ].tolist() == pytest.approx(
        [same.loc[(p, 1), ["p_ff", "p_mm"]].sum() - same.loc[(p, 2), ["p_ff", "p_mm"]].sum() for p in one.index]
    )


def test_rank_4_by_hand(make: Make) -> None:
    # No list order matters, so that four equal correlations c give 2|c| - 2, and nothing signals.
    run = make(lambda t, s, order: {"cf": 0.9, "cm": 0.1}.get(s, 0.5))
    pairs = joint_pairs(run).query("temperature == 1.0")
    for sentence_order in 1, 2:
        found = pairs[pairs["estimator"] == f"joint_rank_4_o{sentence_order}"]
        assert found["delta_c"].tolist() == pytest.approx([2 * 0.8 - 2] * 12)
        assert found["signalling"].abs().max() < 1e-12
    rows = contextual_quantities(joint_pairs(run), 1.0, 0)
    assert pick(rows, "contextual_share", option_order="union", estimator="joint_rank_4", threshold=0.0,
                temperature=1.0)["value"] == 0  # fmt: skip


def unequal(chosen: set[str]) -> P:
    """Sentence 2 copies its prime in the chosen pairs, in option order mf; nothing else does anything."""

    def p(t: Template, s: str, order: str) -> float:
        copies = t.pair in chosen and number(t) % 2 and order == "mf"
        return {"cf": 0.95, "cm": 0.05}.get(s, 0.5) if copies else 0.5

    return p


def test_unequal_copying_is_contextual_and_the_union_takes_either_order(make: Make) -> None:
    run = make(unequal({"001", "002", "007"}))
    rows = contextual_quantities(single_blank_pairs(run), 1.0, 0)
    keys = {"estimator": "steered", "temperature": 1.0, "threshold": 0.1}
    shares = {o: pick(rows, "contextual_share", option_order=o, **keys)["value"] for o in ("mf", "fm", "union", "both")}
    # af - am = 0.9 gives dC 0.9; averaged over orders 0.45.
    assert shares == pytest.approx({"mf": 0.25, "fm": 0, "union": 0.25, "both": 0.25})


def test_overlap_between_models(make: Make) -> None:
    runs = {"A": make(unequal({"001", "002", "003"})), "B": make(unequal({"002", "003", "004", "005"}))}
    pairs = {name: single_blank_pairs(run) for name, run in runs.items()}
    rows = table(overlap_quantities(pairs, {"A": 1.0, "B": 1.0}))
    rows["model"] = [row["model"] for row in overlap_quantities(pairs, {"A": 1.0, "B": 1.0})]
    kept = rows.query("estimator == 'self_primed' and option_order == 'union' and threshold == 0.01")
    exact = kept[kept["quantity"] == "overlap_pairs"].set_index("model")["value"].to_dict()
    assert exact == {"A": 1, "B": 2, "A & B": 2}
    (jaccard,) = kept[kept["quantity"] == "overlap_jaccard"].to_dict("records")
    assert (jaccard["value"], jaccard["note"], jaccard["n_rows"]) == (0.4, "2 in both, 5 in either", 12)


# Draws


def test_the_honest_test_and_the_plain_call(make: Make) -> None:
    p = unequal({"001", "002", "007"})
    run = make(p, draws=200)
    pairs = sampled_pairs(run)
    found = pairs.query("option_order == 'mf'").set_index("pair")
    assert found.loc["001", "delta_c"] == pytest.approx(0.9)
    assert found.loc["003", "delta_c"] == 0
    rows = verdict_quantities(pairs, 0)
    for order, share in ("mf", 0.25), ("fm", 0), ("union", 0.25):
        assert pick(rows, "test_rejected_share", option_order=order)["value"] == share
        assert pick(rows, "plain_call_share", option_order=order)["value"] == share
    drawn = draw_quantities(run, 0)
    assert pick(drawn, "draws_per_cell")["value"] == 180
    assert pick(drawn, "draws_outside_99")["value"] == 0
    assert pick(drawn, "draws_valid_share", setting="cf", option_order="fm")["value"] == 0.9
    information = sampled_information_quantities(run, 0)
    assert {row["factor"] for row in information} == {"priming_pronoun", "role_type", "case", "option_order"}


def test_a_cell_without_valid_draw_is_counted_and_left_out(make: Make) -> None:
    def change(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        draws = tables["draws"].copy()
        empty = (draws["template"] == "001a") & (draws["setting"] == "cf") & (draws["option_order"] == "mf")
        draws.loc[empty, ["n_feminine", "n_masculine", "n_other"]] = 0, 0, 200
        # Draws far from the exact probability.
        off = (draws["template"] == "002a") & (draws["setting"] == "c0")
        draws.loc[off, ["n_feminine", "n_masculine"]] = 180, 0
        return tables | {"draws": draws}

    run = make(unequal({"001"}), draws=200, change=change)
    drawn = draw_quantities(run, 0)
    assert pick(drawn, "draws_per_cell")["n_left_out"] == 1
    outside = pick(drawn, "draws_outside_99")
    assert (outside["n_rows"], outside["n_left_out"]) == (12 * 2 * 14 - 1, 1)
    assert outside["value"] == pytest.approx(2 / outside["n_rows"])
    rejected = pick(verdict_quantities(sampled_pairs(run), 0), "test_rejected_share", option_order="mf")
    assert (rejected["n_rows"], rejected["n_left_out"]) == (11, 1)


def test_draws_have_one_temperature(make: Make) -> None:
    def change(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        return tables | {"draws": tables["draws"].assign(temperature=[0.5, 1.0] * (len(tables["draws"]) // 2))}

    with pytest.raises(RunError, match="draws at 2 temperatures"):
        draw_quantities(make(unequal(set()), draws=10, change=change), 0)


# Stereotype and information


def test_a_model_of_ratings(make: Make) -> None:
    def p(t: Template, s: str, order: str) -> float:
        share = rating(t.antecedent_noun) or 0.5
        return {"c0": share, "cf": 0.5}.get(s, 1 - share)

    run = make(p, n_pairs=24)
    nouns = {*run.templates["antecedent_noun"], *run.templates["other_noun"]}
    ratings, source = ratings_of(nouns, "authors", is_winopron=False)
    assert source == "Misersky et al. 2014, the noun itself"
    rows = spearman_quantities(run, ratings, ("antecedent", "partner"), 0)
    keys = {"option_order": "both", "factor": "antecedent", "temperature": 1.0}
    assert pick(rows, "spearman", setting="c0", **keys)["value"] == pytest.approx(1)
    assert math.isnan(pick(rows, "spearman", setting="cf", **keys)["value"])
    assert pick(rows, "spearman_difference", setting="cm", **keys)["value"] == pytest.approx(2)
    partner = pick(rows, "spearman", setting="c0", **keys | {"factor": "partner"})
    assert partner["value"] < 0.9
    assert "as released" in partner["note"]
    information = information_quantities(run, ratings, 0)
    rated = {"setting": "c0", "option_order": "mf", "factor": "rating_3"}
    observed, shuffled, excess = (
        pick(information, f"mutual_information{suffix}", **rated) for suffix in ("", "_shuffled", "_excess")
    )
    assert observed["value"] > shuffled["value"]
    assert excess["value"] == pytest.approx(observed["value"] - shuffled["value"])
    assert excess["p"] <= 0.02


def test_information_by_hand(make: Make) -> None:
    run = make(lambda t, s, order: {"cf": 0.75, "cm": 0.25}.get(s, 0.75 if order == "mf" else 0.25))
    rows = information_quantities(run, {}, 0)
    quarter = 0.75 * math.log2(3) - 1  # 1 - H(1/4)
    primed = {"setting": "cf+cm", "option_order": "both"}
    for quantity in "mutual_information", "mutual_information_conditional":
        assert pick(rows, quantity, factor="priming_pronoun", **primed)["value"] == pytest.approx(quarter)
        unprimed = pick(rows, quantity, factor="option_order", setting="c0", option_order="both")
        assert unprimed["value"] == pytest.approx(quarter)
    assert pick(rows, "mutual_information", factor="role_type", **primed)["value"] < 1e-12
    assert pick(rows, "mutual_information", factor="template", **primed)["value"] < 1e-12


def test_ratings_of_winopron_and_of_a_file(tmp_path: Path) -> None:
    assert ratings_of(["Worker", "guest"], "authors", is_winopron=True)[0]["worker"] == 0.19
    assert ratings_of(["worker", "guest"], "exact", is_winopron=True)[0]["worker"] == 0.42
    file = tmp_path / "ratings.csv"
    file.write_text("role,rating\nworker,0.9\nnurse,0.1\n")
    with pytest.raises(StimuliError, match=r"1 rated role\(s\) are not in the stimuli: 'nurse'"):
        ratings_of(["worker"], str(file), is_winopron=True)
    assert ratings_of(["worker"], str(file), is_winopron=True, all_roles=False)[0] == {"worker": 0.9}
    file.write_text("role,rating\nworker,1.9\n")
    with pytest.raises(StimuliError, match=r"rating '1\.9'"):
        ratings_of(["worker"], str(file), is_winopron=False)


# Comprehension and gaps


def test_comprehension(make: Make) -> None:
    run = make(lambda *_: 0.5)
    rows = comprehension_quantities(run, 0)
    for setting, n in ("cf", 48), ("cm", 48), ("cf+cm", 96):
        keys = {"setting": setting, "factor": "gender"}
        found = pick(rows, "comprehension_accuracy", **keys)
        assert (found["value"], found["n_rows"]) == (0.5, n)  # right in one of two listings
        assert pick(rows, "comprehension_p_right", **keys)["value"] == pytest.approx(0.5)
        assert pick(rows, "comprehension_p_listed", **keys)["value"] == pytest.approx(0.9)
    stray = lambda tables: tables | {"comprehension": tables["comprehension"][:1].assign(template="999a")}  # noqa: E731
    with pytest.raises(RunError, match="asks about template '999a'"):
        comprehension_quantities(make(lambda *_: 0.5, change=stray), 0)


def test_settings_that_are_missing_leave_out_what_needs_them(make: Make) -> None:
    run = make(lambda *_: 0.5, settings=("cf", "n1"), parts=("sentences",))
    odds = choice_log_odds(run)
    assert shift_quantities(odds, run.templates, 0.2, 0) == []
    assert follow_quantities(odds, run.templates, 0.2, 0) == []
    assert divergence_quantities(run, 0) == []
    assert single_blank_pairs(run).empty
    assert joint_pairs(run).empty
    assert sampled_pairs(run).empty
    assert comprehension_quantities(run, 0) == []
    assert contextual_quantities(single_blank_pairs(run), 1.0, 0) == []
    assert {row["setting"] for row in answer_quantities(run, 0) if "setting" in row} == {"cf", "n1"}
    sentences = sentence_log_odds(run)
    assert sentences is not None
    assert sentence_pairs(run, sentences).empty
    assert np.isnan(shifts_table(run, odds, {})["shift"]).all()


def test_a_margin_of_nothing(make: Make) -> None:
    run = make(lambda *_: 0.5, n_pairs=2)
    with pytest.raises(OptionError, match="--margin 0 is no margin"):
        shift_quantities(choice_log_odds(run), run.templates, 0, 0)
