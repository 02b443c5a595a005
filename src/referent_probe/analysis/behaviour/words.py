"""An analysis in words: one paragraph a model."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from referent_probe.analysis.behaviour.arrays import SETTINGS
from referent_probe.stimuli.options import Case

FEWEST_ROLES = 6
"""Rated roles for a correlation to be told: of fewer, an interval says nothing."""

_QUESTIONS = {"referent": 2, "part_of_speech": 7, "gender": 3}
"""Of the comprehension test, with the number of answers listed."""

_STANCES = {
    "follows": "follows the gender of the other person's pronoun on average",
    "opposes": "opposes the gender of the other person's pronoun on average",
    "undecided": "shows no settled stance towards the gender of the other person's pronoun",
}


def in_words(quantities: pd.DataFrame, counts: Mapping[str, Any], primary: float, margin: float) -> str:
    """The finding of one run as a paragraph.

    Args:
        quantities: Of one model.
        counts: `templates`, `pairs`, `occupations` that were found.
        primary: Primary temperature.
        margin: In logits.
    """
    table = quantities[quantities["reading"] == "choice"]
    model = table["model"].iloc[0]
    n = f"{counts['templates']} templates ({counts['pairs']} pairs, {counts['occupations']} occupations)"
    sentences = [
        *_follows(table, str(model), n, margin),
        *_by_case(table),
        *_whole_sentences(quantities, table),
        *_equivalence(table, margin),
        *_contextual(table, primary),
        *_order(table, primary),
        *_stereotype(table, primary),
        *_comprehension(table),
    ]
    if counts["occupations"] < 10:
        sentences.append("With under ten occupations the intervals are too short.")
    if left := [f"{row['value']:.0f} {row['factor'].replace('_', ' ')}" for _, row in _left_out(table).iterrows()]:
        sentences.append(f"Left out: {', '.join(left)}.")
    missing = table.loc[table["quantity"] == "missing", "factor"]
    if len(missing):
        sentences.append(f"Not measured: {', '.join(missing)}.")
    return " ".join(sentences)


def _follows(table: pd.DataFrame, model: str, n: str, margin: float) -> list[str]:
    mean = one(table, quantity="follow_shift", option_order="both", factor="all")
    if mean is None:
        return [f"{model} on {n}: without both primed settings nothing is said about following the prime."]
    shares = [
        one(table, quantity=quantity, option_order="both", factor="all")
        for quantity in ("share_following", "share_opposing")
    ]
    follow, oppose = (percent(share) if share is not None else "-" for share in shares)
    return [
        f"On {n}, {model} {_STANCES[mean['verdict']]}: the log-odds of the feminine option differ by "
        f"{signed(mean)} logits between a feminine and a masculine prime (n = {mean['n']} {mean['n_of']}, both option "
        f"orders); {follow} of {mean['n_rows']} prompts follow by more than {margin:g} logits, {oppose} oppose."
    ]


def _by_case(table: pd.DataFrame) -> list[str]:
    found = {case: one(table, quantity="follow_shift", option_order="both", factor=case) for case in Case}
    told = [f"{case} {signed(row)}" for case, row in found.items() if row is not None and row["value"] == row["value"]]
    return [f"By case: {', '.join(told)} logits."] if told else []


def _whole_sentences(quantities: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """Said where the sentence with the pronoun filled in goes another way than the answer to the question."""
    asked = one(table, quantity="follow_shift", option_order="both", factor="all")
    scored = one(
        quantities[quantities["reading"] == "whole_sentence"],
        quantity="follow_shift",
        option_order="none",
        factor="all",
    )
    if asked is None or scored is None or scored["value"] != scored["value"]:
        return []
    other = scored["verdict"] != asked["verdict"]
    return [
        f"That is the answer to the question; by the probability of the whole sentence with either pronoun filled in, "
        f"the prime moves the log-odds by {signed(scored)} logits"
        + (f", which {scored['verdict']} it: the two readings do not agree." if other else ".")
    ]


def _equivalence(table: pd.DataFrame, margin: float) -> list[str]:
    keys = {"option_order": "both", "factor": "occupation", "threshold": margin}
    found = {s: one(table, quantity="equivalence", setting=s, **keys) for s in SETTINGS}
    shares = {s: one(table, quantity="share_within_margin", setting=s, **keys) for s in SETTINGS}
    told = [
        f"{setting} {row['verdict']} ({signed(row)}; {share['value']:.0%} of prompts within)"
        for setting, row in found.items()
        if row is not None and (share := shares[setting]) is not None
    ]
    if not told:
        return []
    return [
        f"Mean shift from no prime, against a margin of {margin:g} logits, Holm over {len(told)} settings: "
        f"{', '.join(told)}. A mean that is equivalent says nothing about single templates, which may shift both ways."
    ]


def _contextual(table: pd.DataFrame, primary: float) -> list[str]:
    keys = {"option_order": "both", "temperature": primary, "threshold": 0.01}
    told = []
    for estimator in ("joint", "self_primed", "steered"):
        row = one(table, quantity="contextual_share", estimator=estimator, **keys)
        if row is None:
            told.append(f"{estimator} not measured")
        elif not row["n_rows"] > 0:
            told.append(f"{estimator} in no pair to be had, since no pair has all its answers")
        else:
            orders = (
                one(table, quantity="contextual_share", estimator=estimator, **keys | {"option_order": order})
                for order in ("mf", "fm", "union")
            )
            apart = [f"{share['value']:.0%} {share['option_order']}" for share in orders if share is not None]
            told.append(f"{estimator} {percent(row)} of {row['n_rows']}" + (f" ({', '.join(apart)})" if apart else ""))
    return [
        f"Pairs that are contextual (dC > 0.01, option order averaged out, T = {primary:g}; in brackets in either "
        f"order alone, and in at least one): {', '.join(told)}. Averaging probabilities over orders takes signalling "
        "away, so that a pair may be contextual by it and in neither order. Such a pair is not copying (or contrast) "
        "of equal strength on both sentences; unequal strength suffices for it."
    ]


def _order(table: pd.DataFrame, primary: float) -> list[str]:
    row = one(table, quantity="order_effect_absolute", setting="c0", temperature=primary)
    toward = one(table, quantity="order_effect_signed", setting="c0", temperature=primary)
    if row is None:
        return []
    return [
        f"Listing the other option first moves the unprimed p(f|c) by {row['value']:.2f}{_interval(row, '.2f')} on "
        f"average, in either direction (n = {row['n_rows']} templates)"
        + (
            ""
            if toward is None
            else f", and by {signed(toward)} on balance (masculine option first less feminine option first: "
            f"{'the option listed first gains' if toward['value'] < 0 else 'the option listed last gains'})"
            if toward["low"] > 0 or toward["high"] < 0
            else f", and by {signed(toward)} on balance"
        )
        + "."
    ]


def _stereotype(table: pd.DataFrame, primary: float) -> list[str]:
    keys = {"option_order": "both", "temperature": primary, "factor": "antecedent"}
    unprimed = one(table, quantity="spearman", setting="c0", **keys)
    if unprimed is None or unprimed["value"] != unprimed["value"] or unprimed["n"] < FEWEST_ROLES:
        return [
            f"No correlation of rating and p(f|c) without a prime is told: it takes {FEWEST_ROLES} rated roles, whose "
            "ratings and p(f|c) differ."
        ]
    differences = []
    for setting in ("cf", "cm"):
        row = one(table, quantity="spearman_difference", setting=setting, **keys)
        if row is not None and row["value"] == row["value"]:
            sure = "" if row["low"] > 0 or row["high"] < 0 else ", not settled"
            differences.append(f"minus {setting} {signed(row)}{sure}")
    rest = f"; unprimed {', '.join(differences)}" if differences else ""
    return [
        f"Rank correlation of the antecedent's femininity rating and p(f|c), unprimed: rho = {signed(unprimed)} "
        f"(n = {unprimed['n_rows']} rated templates, {unprimed['n']} roles resampled){rest}."
    ]


def _comprehension(table: pd.DataFrame) -> list[str]:
    found = table[table["quantity"] == "comprehension_accuracy"].dropna(subset="value")
    if found.empty:
        return []
    told = [
        f"{question.replace('_', ' ')} {percent(row)} (by chance {1 / options:.0%})"
        for question, options in _QUESTIONS.items()
        if (row := one(found, factor=question, setting="cf+cm")) is not None
    ]
    return [f"Asked about the text, the model's most probable answer is right: {', '.join(told)}."]


def _left_out(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["quantity"] == "left_out") & (table["value"] > 0)]


def one(table: pd.DataFrame, **keys: Any) -> dict[str, Any] | None:
    """The row with these keys; None where there is none."""
    kept = table
    for column, value in keys.items():
        kept = kept[kept[column] == value]
    return None if kept.empty else {str(k): v for k, v in kept.iloc[0].to_dict().items()}


def signed(row: Mapping[str, Any]) -> str:
    """Value with sign and interval: "+0.21 [+0.10, +0.33]"."""
    return f"{row['value']:+.2f}{_interval(row, '+.2f')}"


def percent(row: Mapping[str, Any]) -> str:
    """A share in percent with its interval: "12% [8%, 17%]"."""
    return f"{row['value']:.0%}{_interval(row, '.0%')}"


def _interval(row: Mapping[str, Any], spec: str) -> str:
    low, high = row["low"], row["high"]
    return "" if low != low else f" [{low:{spec}}, {high:{spec}}]"
