import json
import re
from typing import Any

import pandas as pd
import pytest

from referent_probe.analysis.carriers import CarrierRule
from referent_probe.analysis.summary import summarise
from referent_probe.report import in_words, leading_rows
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
    assert "under ten occupations, also of one case, the intervals are too short" in text


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


def test_a_largest_head_that_is_no_carrier_is_explained() -> None:
    summary, effects = finished(8, 1.0)
    heads = effects["head_effects"]
    heads.loc[(heads["layer"] == 0) & (heads["head"] == 1), ["carrier", "denoise_p_max_t", "noise_p_max_t"]] = (
        "none",
        0.4,
        0.3,
    )
    text = in_words(summary, heads)
    assert "the largest, 0.1 (+0.9" in text
    assert "is too uneven over occupations" in text
    assert "(p = 0.30)" in text
    nothing = in_words(summary, heads.assign(carrier="none"))
    assert "No head is a carrier" in nothing
