"""What simulated draws show, as a summary and in words."""

from typing import Any

import pandas as pd

from referent_probe.analysis.behaviour.arrays import ORDERS
from referent_probe.analysis.sampling_noise import BOUNDARIES, CALLS, COLUMNS, LEVEL, Truth

TOLD = 200
"""Draws a cell that the words tell of: about as many as the paper has."""

_KEYS = ["truth", "draws", "option_order", "call", "quantity"]


def noise_summary(noise: pd.DataFrame, truth: Truth | None, *, level: float = LEVEL) -> dict[str, Any]:
    """Every number of the tables, by truth, draws, option order, call and quantity, and what they say.

    Args:
        noise: Tables of `boundary_noise` and, for a run, of `sampling_noise` below each other.
        truth: Of the run, if there is one.
        level: Of the honest test.

    Returns:
        JSON values: `level`, `boundaries`, `run` (counts of pairs; null without a run), `shares` and `in_words`.

    Example:
        `noise_summary(boundary_noise(), None)["shares"]["equal rates"]["200"]["one"]["plain"]["false_calls"]["exact"]`
        is 0.303.
    """
    shares: dict[str, Any] = {}
    for row in noise.to_dict("records"):
        place = shares
        for key in _KEYS:
            place = place.setdefault(str(row[key]), {})
        numbers = {name: None if pd.isna(row[name]) else row[name] for name in COLUMNS if name not in _KEYS}
        place |= {"unit": "share", **numbers, "n_of": "data sets" if pd.isna(row["count"]) else "simulated pairs"}
    return {
        "level": level,
        "boundaries": {name: {"agreement_rates": list(rates), "delta_c": 0.0} for name, rates in BOUNDARIES.items()},
        "run": None if truth is None else pair_counts(truth),
        "shares": shares,
        "in_words": in_words(noise, truth, level=level),
    }


def pair_counts(truth: Truth) -> dict[str, Any]:
    """How many pairs of a run are contextual by their exact dC, in either option order and in at least one."""
    dc = dict(zip(ORDERS, truth.delta_c.T, strict=True)) | {"union": truth.delta_c.max(axis=1)}
    return {
        "model": truth.model,
        "temperature": truth.temperature,
        "pairs": len(truth.rates),
        "pairs_left_out": truth.n_left_out,
        "contextual_pairs": {order: int((x > 0).sum()) for order, x in dc.items()},
        "contextual_pairs_above_0.01": {order: int((x > 0.01).sum()) for order, x in dc.items()},
    }


def in_words(noise: pd.DataFrame, truth: Truth | None, *, level: float = LEVEL) -> str:
    """What the tables say, in a few sentences; arguments as in `noise_summary`."""
    table: dict[Any, dict[Any, Any]] = {tuple(row[k] for k in _KEYS): row for row in noise.to_dict("records")}
    draws = sorted(noise["draws"].unique().tolist())
    few, many = min(draws, key=lambda n: abs(n - TOLD)), draws[-1]

    def exact(boundary: str, n: int) -> str:
        one, union = (table[boundary, n, order, "plain", "false_calls"]["exact"] for order in ("one", "union"))
        return f"{_percent(one)} of option orders and {_percent(union)} of unions of two"

    honest = [row for row in table.values() if row["call"] == "honest" and row["truth"] in BOUNDARIES]
    worst, above = max(honest, key=lambda row: row["share"]), sum(row["low"] > level for row in honest)
    words = (
        "A pair whose four agreement rates are equal is not contextual (dC = 0). Yet the plain call, dC of the "
        f"frequencies above 0, names it (exact shares) with {few} draws a cell in {exact('equal rates', few)}, and "
        f"with {many} draws in {exact('equal rates', many)}. A generic pair on the boundary, with dC = 0 and distinct "
        f"rates within each sentence, is named in {exact('generic boundary', few)}, and in "
        f"{exact('generic boundary', many)}. For a pair that lies exactly on the boundary, more draws "
        f"do not help. The honest test at a level of {100 * level:g} % "
        f"names at most {_with_interval(worst)} of such pairs, in one order or a union at any number of "
        f"draws; of {len(honest)} such shares, {above or 'none'} lies with its whole interval above the level."
    )
    if truth is None:
        return words
    counts = pair_counts(truth)

    def shares(quantity: str) -> str:
        keys = [(truth.model, few, "union", call, quantity) for call in CALLS]
        plain, honest, adjusted = (_with_interval(table[key]) if key in table else "-" for key in keys)
        n = f" (n = {table[keys[0]]['of']:,} simulated pairs)" if keys[0] in table else ""
        return f"the plain call {plain}, the honest test {honest}, after Benjamini-Hochberg {adjusted}{n}"

    left_out = f" ({truth.n_left_out} more lack an answer and are left out)" if truth.n_left_out else ""
    return (
        f"{words}\n\n{truth.model} (T = {truth.temperature:g}): {counts['contextual_pairs']['union']} of "
        f"{counts['pairs']} pairs{left_out} have an exact dC > 0 (steered) in at least one option order, "
        f"{counts['contextual_pairs_above_0.01']['union']} have dC > 0.01. With {few} draws a cell, these "
        f"shares of the other pairs would be called contextual in at least one order: by {shares('false_calls')}; and "
        f"these shares of the contextual ones missed: by {shares('missed')}."
    )


def _with_interval(row: dict[Any, Any]) -> str:
    return f"{_percent(row['share'])} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
