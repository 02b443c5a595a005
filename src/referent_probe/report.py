"""A finished run in words."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from referent_probe.analysis.carriers import DIRECTIONS, FEWEST_OCCUPATIONS


def in_words(summary: Mapping[str, Any], heads: pd.DataFrame) -> str:
    """The finding as a paragraph: follow or oppose, how much the named heads carry, and what limits it."""
    total = summary["total_effect"]
    low, high = total["ci95"]
    n = (
        f"{_count(summary['n_pairs'], 'pair')} from {_count(summary['n_occupations'], 'occupation')} "
        f"({_count(summary['n_contrasts'], 'contrast')})"
    )
    size = f"{total['mean']:+.2f} logits [95 % interval {low:+.2f}, {high:+.2f}]" if low is not None else (
        f"{total['mean']:+.2f} logits (one occupation: no interval)")  # fmt: skip
    if low is None or low <= 0 <= high:
        stance = "shows no settled stance towards the gender of the other person's pronoun"
    elif low > 0:
        stance = "follows the gender of the other person's pronoun"
    else:
        stance = "opposes the gender of the other person's pronoun"
    followed = summary["share_following_the_prime"]["mean"]
    by = summary["total_effect_by"]
    sentences = [
        f"On {n}, {summary['model']['name']} {stance}: the total effect of a feminine instead of a masculine prime "
        f"on the log-odds of the feminine option is {size}; {followed:.0%} of contrasts go with the prime.",
        f"By case: {_parts(by['case'])}. By option order: {_parts(by['option_order'], _ORDERS)}.",
    ]
    if summary["n_occupations"] < FEWEST_OCCUPATIONS:
        sentences.append(
            f"With {_count(summary['n_occupations'], 'occupation')} no head is called a carrier: a sign-flip test "
            f"needs {FEWEST_OCCUPATIONS} to reach 5 %. Give more --pairs."
        )
    else:
        sentences.append(_carriers_in_words(summary, heads))
    if 1 < summary["n_occupations"] < 10:
        sentences.append("With under ten occupations, also of one case, the intervals are too short.")
    other = summary["p_other"]
    sentences.append(
        f"Answers other than she, he and they forms take {other['mean']:.0%} of the probability on average "
        f"(at most {other['max']:.0%})."
    )
    if summary["n_contrasts_left_out"]:
        sentences.append(
            f"{summary['n_contrasts_left_out']} contrasts were left out; table contrasts, column left_out, says why."
        )
    check = summary["self_check"]
    sentences.append(
        f"Self-check: {check['n_cells']} random cells recomputed by brute force differ by at most "
        f"{check['max_abs_diff']:.0e} logits."
    )
    return " ".join(sentences)


def _carriers_in_words(summary: Mapping[str, Any], heads: pd.DataFrame) -> str:
    named = heads[heads["carrier"] != "none"]
    largest = leading_rows(heads, 1).iloc[0]
    smallest = summary["carrier_rule"]["smallest_effect_of_interest"]
    rule = f"max-t at 5 % over {len(heads)} heads x 2 directions, and at least {smallest:.3f} logits"
    beside = ""
    if largest["carrier"] == "none":
        p = min(largest["denoise_p_max_t"], largest["noise_p_max_t"])
        beside = (
            f" A carrier is a head whose effect is settled, not one whose effect is large: the largest, "
            f"{_name(largest, 'denoise')}, is too uneven over occupations to pass (p = {p:.2f}), which more --pairs "
            "may settle."
        )
    if named.empty:
        return f"No head is a carrier ({rule}): the leading heads are leads, not findings.{beside}"
    parts = []
    for carrier, words, direction in (
        ("both", "in both directions", "denoise"),
        ("denoise", "in denoising only", "denoise"),
        ("noise", "in noising only", "noise"),
    ):
        group = named[named["carrier"] == carrier]
        order = group[f"{direction}_mean"].abs().sort_values(ascending=False, kind="stable").index
        if len(group):
            parts.append(", ".join(_name(row, direction) for _, row in group.loc[order].iterrows()) + f" {words}")
    sums, shares = [], []
    for direction, word in _DIRECTIONS.items():
        carried_by = summary["carried"][direction]
        if carried_by["sum_of_effects"]:
            sums.append(f"{_estimate(carried_by['sum_of_effects'])} logits in {word}")
        if carried_by["share_of_total"]:
            low, high = carried_by["share_of_total"]["ci95"]
            shares.append(
                f"{carried_by['share_of_total']['mean']:.0%} [{low:.0%}, {high:.0%}] of the total effect in {word}"
            )
    of_total = " and ".join(shares) or "the total effect is too near zero to divide by"
    return (
        f"Carriers ({rule}), with their effect in logits: {'; '.join(parts)}. Their single effects add up to "
        f"{' and '.join(sums)}: {of_total} (a sum of single effects, not their joint effect).{beside}"
    )


_DIRECTIONS = {"denoise": "denoising", "noise": "noising"}
_ORDERS = {"mf": "masculine first", "fm": "feminine first"}


def _name(row: "pd.Series[Any]", direction: str) -> str:
    return f"{row['layer']}.{row['head']} ({row[f'{direction}_mean']:+.3f})"


def _estimate(interval: Mapping[str, Any]) -> str:
    low, high = interval["ci95"]
    return f"{interval['mean']:+.2f}" + ("" if low is None else f" [{low:+.2f}, {high:+.2f}]")


def _parts(by: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """Each part's estimate and n; n is not said again where it is that of the whole."""
    sizes = {part["n"] for part in by.values()}
    one = f" (n = {_count(sizes.pop(), 'occupation')} each)" if len(sizes) == 1 else ""
    each = (
        f"{(names or {}).get(value, value)} {_estimate(part)}" + ("" if one else f" (n = {part['n']})")
        for value, part in by.items()
    )
    return ", ".join(each) + one


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def leading_rows(heads: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """The heads that the printed table shows: the n largest by their larger effect, and every carrier."""
    size = heads[[f"{d}_mean" for d in DIRECTIONS]].abs().max(axis=1)
    order = heads.loc[size.sort_values(ascending=False, kind="stable").index]
    return pd.concat([order[:n], order[n:][order[n:]["carrier"] != "none"]])
