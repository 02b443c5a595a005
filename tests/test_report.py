import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.carriers import DIRECTIONS, CarrierRule
from referent_probe.analysis.summary import summarise
from referent_probe.report import beside_table, in_words, leading_rows
from tests.synthetic import heads_table


def finished(n_occupations: int, total: float, spread: float = 0.1) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    contrasts = pd.DataFrame(
        [
            {
                "contrast": f"{o}-{i}",
                "pair": str(o),
                "occupation": f"occupation {o}",
                "case": ("nominative", "accusative")[o % 2],
                "option_order": ("mf", "fm")[i % 2],
                "total_effect": total + spread * ((o % 3) - 1),
                "tokens": 50,
                "first_difference": 20,
                "token_blocks": 150,
                "p_other_cf": 0.2,
                "p_other_cm": 0.1,
                "left_out": None,
            }
            for o in range(n_occupations)
            for i in range(4)
        ]
    )
    flow = pd.DataFrame(
        {
            "contrast": "0-0",
            "occupation": "occupation 0",
            "layer": [0, 1],
            "span": "blank",
            "span_position": 3,
            "effect": [0.0, 1.0],
            "reason": [None, None],
        }
    )
    checks = pd.DataFrame({"sweep": ["denoise", "flow"], "abs_diff": [1e-6, 2e-6]})
    tables = {"contrasts": contrasts, "heads": heads_table(n_occupations), "flow": flow, "self_checks": checks}
    measured = pd.DataFrame({"seconds": [1.0, 2.0], "seconds_target_slot": [0.5, 0.7]})
    about = {"model": {"name": "toy"}, "stimuli": {"name": "builtin"}, "n_layers": 2}
    return summarise(tables, measured, about, CarrierRule(), seed=0)


def test_the_summary_holds_what_is_promised_and_is_plain_json() -> None:
    summary, _ = finished(8, 1.0)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert (summary["n_pairs"], summary["n_contrasts"], summary["n_occupations"]) == (8, 32, 8)
    assert summary["total_effect"]["ci95"][0] < summary["total_effect"]["mean"] < summary["total_effect"]["ci95"][1]
    head = next(h for h in summary["heads"] if (h["layer"], h["head"]) == (0, 1))
    assert head["carrier"] == "both"
    assert set(head["denoise"]) == {"mean", "ci95", "unit", "n", "n_of", "p_max_t"}
    assert summary["self_check"]["max_abs_diff"] == 2e-6
    assert summary["self_check"]["n_cells"] == 2
    assert summary["cost"]["forward_equivalents_target_slot"] == 1.5
    assert summary["cost"]["seconds"] == 3.0
    assert summary["p_other"]["mean"] == pytest.approx(0.15)
    assert summary["p_other"]["max"] == 0.2


@pytest.mark.parametrize(
    ("total", "spread", "words"),
    [(1.0, 0.1, "toy follows the gender"), (-1.0, 0.1, "toy opposes the gender"), (0.0, 1.0, "no settled stance")],
)
def test_the_paragraph_says_whether_the_model_follows(total: float, spread: float, words: str) -> None:
    summary, effects = finished(9, total, spread)
    text = in_words(summary, effects["head_effects"])
    assert words in text
    assert re.search(r"0\.1 \(\+0\.\d{3}\) in both directions; 1\.0 \(-0\.\d{3}\) in noising only", text)
    assert "Their single effects add up to +0.90 [" in text
    assert "By case: accusative " in text
    assert "By option order: feminine first " in text
    assert ("too near zero to divide by" in text) == (total == 0)
    assert "All these intervals are from under 10 occupations and so too short" in text


def test_the_paragraph_with_too_few_occupations_names_no_carrier() -> None:
    for n in (1, 5):
        summary, effects = finished(n, 1.0)
        text = in_words(summary, effects["head_effects"])
        assert "no head is called a carrier" in text
        assert "Give more --pairs" in text
        assert json.dumps(summary, allow_nan=False)
        assert (summary["total_effect"]["ci95"] == [None, None]) == (n == 1)


def test_leading_rows_are_the_largest_of_both_directions_and_every_carrier() -> None:
    _, effects = finished(8, 1.0)
    heads = effects["head_effects"]
    assert leading_rows(heads, 2)[["layer", "head"]].to_numpy().tolist() == [[0, 1], [1, 0]]
    assert leading_rows(heads, 1)[["layer", "head"]].to_numpy().tolist() == [[0, 1], [1, 0]]  # a carrier stays
    none = heads.assign(carrier="none")
    assert leading_rows(none, 1)[["layer", "head"]].to_numpy().tolist() == [[0, 1]]


@pytest.mark.parametrize("n_occupations", [1, 3, 5, 9, 12, 24])
def test_every_interval_of_the_paragraph_has_its_n_in_the_same_sentence(n_occupations: int) -> None:
    summary, effects = finished(n_occupations, 1.0)
    text = in_words(summary, effects["head_effects"])
    with_intervals = [s for s in text.split(". ") if re.search(r"\[(95 % interval )?[+-]?[\d.]+%?, [+-]?[\d.]+%?\]", s)]
    assert len(with_intervals) == {1: 0, 3: 3, 5: 3}.get(n_occupations, 4)
    for sentence in with_intervals:
        assert re.search(r"\d+ occupations?, \d+ contrasts\)?", sentence), sentence


def test_parts_say_over_how_many_occupations_and_contrasts_they_are() -> None:
    summary, effects = finished(9, 1.0)  # occupations 0, 2, 4, 6, 8 are nominative
    text = in_words(summary, effects["head_effects"])
    assert re.search(
        r"accusative \+\S+ \[.*?\] \(4 occupations, 16 contrasts\), nominative .*?\(5 occupations, 20 ", text
    )
    assert text.count("(9 occupations, 18 contrasts)") == 2
    assert "(n = 9 occupations, 36 contrasts)" in text
    summary, effects = finished(2, 1.0)
    text = in_words(summary, effects["head_effects"])
    assert re.search(r"accusative \+\d\.\d\d \[no interval\] \(1 occupation, 4 contrasts\)", text)


@pytest.mark.parametrize(
    ("n_occupations", "words"),
    [(1, None), (9, "All these intervals are from"), (12, "The intervals by case are from"), (20, None)],
)
def test_intervals_from_few_occupations_are_called_too_short(n_occupations: int, words: str | None) -> None:
    summary, effects = finished(n_occupations, 1.0)
    text = in_words(summary, effects["head_effects"])
    assert ("too short" in text) == (words is not None)
    assert (words or "") in text
    beside = beside_table(summary, effects["head_effects"])
    assert ("too short" in beside) == (1 < n_occupations < 10)
    n = f"n = {n_occupations} occupation{'s' * (n_occupations > 1)}, {4 * n_occupations} contrasts"
    assert n in beside


def test_a_large_head_that_is_no_carrier_is_explained_beside_the_table() -> None:
    summary, effects = finished(8, 1.0)
    heads = effects["head_effects"]
    assert "Carrying" not in beside_table(summary, heads)  # the carriers are the largest heads
    uneven = heads.copy()
    columns = ["carrier", "denoise_p_max_t", "noise_p_max_t"]
    uneven.loc[(heads["layer"] == 0) & (heads["head"] == 1), columns] = ("none", 0.4, 0.3)
    text = beside_table(summary, uneven)
    assert re.search(
        r"not size: the largest head that is no carrier, 0\.1 \(\+0\.\d{3} in noising, p = 0\.300\), is", text
    )
    nothing = heads.assign(carrier="none")
    assert "Carrying" not in beside_table(summary, nothing)  # no carrier stands beside it
    assert re.search(
        r"No head is a carrier .* The largest is 0\.1 \(\+0\.\d{3} in denoising, p = ", in_words(summary, nothing)
    )


def test_the_explanation_comes_exactly_where_a_carrier_is_smaller_than_a_head_that_is_none() -> None:
    summary, effects = finished(8, 1.0)
    rng = np.random.default_rng(1)
    said = 0
    for _ in range(40):
        heads = effects["head_effects"].copy()
        heads["carrier"] = rng.choice(["none", "none", "denoise", "noise", "both"], size=len(heads))
        for direction in DIRECTIONS:
            heads[f"{direction}_mean"] = rng.normal(size=len(heads)) * (1 + 3 * (heads["carrier"] != "none"))
        rows = heads.to_dict("records")
        larger = [
            (abs(other[f"{d}_mean"]), f"{other['layer']}.{other['head']} ({other[f'{d}_mean']:+.3f} in {d[:-1]}ing, ")
            for d in DIRECTIONS
            for other in rows
            if other["carrier"] == "none"
            and any(row["carrier"] in (d, "both") and abs(row[f"{d}_mean"]) < abs(other[f"{d}_mean"]) for row in rows)
        ]
        text = beside_table(summary, heads)
        assert ("Carrying" in text) == bool(larger)
        assert max(larger, default=(0, ""))[1] in text
        said += bool(larger)
    assert 0 < said < 40
