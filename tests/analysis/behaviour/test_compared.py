"""Oracle of the comparison: every two models, one at a time."""

import doctest
import itertools
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from referent_probe.analysis.behaviour import compared
from referent_probe.analysis.behaviour.compared import apart, beside_each_other, compared_rows
from referent_probe.analysis.behaviour.quantities import found, quantities_table
from referent_probe.analysis.inference import Interval


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(compared).failed == 0


ENDS = st.lists(st.integers(0, 9), min_size=3, max_size=3).map(sorted)


@given(st.lists(ENDS, min_size=1, max_size=5))
def test_two_models_are_apart_when_their_intervals_have_no_number_in_common(intervals: list[list[int]]) -> None:
    rows = {f"m{i}": {"low": low, "value": value, "high": high} for i, (low, value, high) in enumerate(intervals)}
    told = [(one, other) for models, below in apart(rows) for one, other in itertools.product(models, below)]
    expected = {
        (one, other)
        for one, other in itertools.permutations(rows, 2)
        if not set(range(rows[one]["low"], rows[one]["high"] + 1))
        & set(range(rows[other]["low"], rows[other]["high"] + 1))
        and rows[one]["value"] > rows[other]["value"]
    }
    assert len(told) == len(set(told))
    assert set(told) == expected


def test_a_number_without_interval_is_never_apart() -> None:
    nan = float("nan")
    assert apart({"a": {"value": 9, "low": nan, "high": nan}, "b": {"value": 0, "low": -1, "high": 1}}) == []


def follow(mean: float, verdict: str) -> list[dict[str, Any]]:
    interval = Interval(mean, mean - 0.2, mean + 0.2, 12, "logits")
    return [found("follow_shift", interval, verdict=verdict, option_order="both", factor="all", n_rows=48)]


def order(mean: float, temperature: float = 0.5) -> list[dict[str, Any]]:
    interval = Interval(mean, mean - 0.2, mean + 0.2, 12, "probability")
    return [found("order_effect_absolute", interval, setting="c0", temperature=temperature, n_rows=24)]


def overlap(estimator: str = "steered") -> pd.DataFrame:
    keys: dict[str, Any] = {"option_order": "both", "temperature": 0.5, "threshold": 0.01, "n_rows": 36}
    rows = [
        {"model": "A & B & C", **found("overlap_pairs", 1.0, estimator=estimator, **keys)},
        {"model": "A & B", **found("overlap_jaccard", 0.4, note="2 in both, 5 in either", estimator=estimator, **keys)},
        {
            "model": "A & B",
            **found("overlap_jaccard", 0.9, note="no", estimator=estimator, **{**keys, "threshold": 0.1}),
        },
    ]
    return quantities_table(rows, "")


PRIMARY = {"A": 0.5, "B": 0.5, "C": 1.0}


def three() -> pd.DataFrame:
    tables = [
        quantities_table([*follow(1.0, "follows"), *order(0.3)], "A"),
        quantities_table([*follow(1.1, "follows"), *order(0.4)], "B"),
        quantities_table([*follow(-0.5, "opposes"), *order(9.0), *order(0.5, 1.0)], "C"),
    ]
    return pd.concat([*tables, overlap()], ignore_index=True)


def test_rows_are_of_the_primary_temperature_and_of_answers_to_prompts() -> None:
    table = three()
    assert {model: row["value"] for model, row in compared_rows(table, PRIMARY, "order").items()} == {
        "A": 0.3,
        "B": 0.4,
        "C": 0.5,
    }
    assert compared_rows(table.assign(reading="whole_sentence"), PRIMARY, "order") == {}
    assert compared_rows(table, PRIMARY, "rho c0") == {}


def test_the_paragraph_says_what_differs_and_what_does_not() -> None:
    paragraph = beside_each_other(three(), PRIMARY)
    for phrase in (
        "On average the prime is followed by A and B, opposed by C.",
        "no number in common, in cf - cm (B and A above C).",
        "No two models are clearly apart in effect of option order; that intervals overlap does not show",
        "fewer than two models have it: rho in c0, rho in cf, rho in cm, contextual share (joint),",
        "Of 36 pairs that all models have, these are contextual (steered, dC > 0.01, option order averaged out): "
        "A & B: 2 in both, 5 in either; 1 in all 3 models.",
    ):
        assert phrase in paragraph


@pytest.mark.parametrize("estimator", ["released", "printed"])
def test_an_overlap_by_a_published_formula_is_not_told(estimator: str) -> None:
    table = three()
    table = pd.concat([table[~table["quantity"].str.startswith("overlap_")], overlap(estimator)])
    assert beside_each_other(table, PRIMARY).endswith("so no overlap of contextual pairs is given.")
