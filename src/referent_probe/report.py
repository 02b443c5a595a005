"""A finished run in words."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from referent_probe.analysis.carriers import DIRECTIONS, ENOUGH_OCCUPATIONS, FEWEST_OCCUPATIONS


def in_words(summary: Mapping[str, Any], heads: pd.DataFrame) -> str:
    """The finding as a paragraph: follow or oppose, how much the named heads carry, and what limits it."""
    total = summary["total_effect"]
    low, high = total["ci95"]
    n = (
        f"{_count(summary['n_pairs'], 'pair')} from {_count(summary['n_occupations'], 'occupation')} "
        f"({_count(summary['n_contrasts'], 'contrast')})"
    )
    interval = "one occupation: no interval" if low is None else f"95 % interval {low:+.2f}, {high:+.2f}"
    size = f"{total['mean']:+.2f} logits [{interval}] ({_n(summary)})"
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
        f"By case: {_parts(by['case'])}.",
        f"By option order: {_parts(by['option_order'], _ORDERS)}.",
    ]
    if summary["n_occupations"] < FEWEST_OCCUPATIONS:
        sentences.append(
            f"With {_count(summary['n_occupations'], 'occupation')} no head is called a carrier: a sign-flip test "
            f"needs {FEWEST_OCCUPATIONS} to reach 5 %. Give more --pairs."
        )
    else:
        sentences.append(_carriers_in_words(summary, heads))
    if short := _too_short(summary):
        sentences.append(short)
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


def beside_table(summary: Mapping[str, Any], heads: pd.DataFrame) -> str:
    """What the printed table's columns mean, over how much its means are, and why a large head may be no carrier.

    Example:
        "...: the largest head that is no carrier, 26.2 (-0.244 in denoising, p = 0.727), is larger than one that is."
    """
    n, of = _n(summary), summary["n_occupations"]
    interval = " [95 % interval over occupations]" if of > 1 else ""
    short = f"; from under {ENOUGH_OCCUPATIONS} occupations the intervals are too short" if (
        1 < of < ENOUGH_OCCUPATIONS) else ""  # fmt: skip
    sentences = [
        f"In logits: mean{interval}, {n}{short}.",
        "p: max-t over all heads and both directions.",
        "Attention: from the target slot to the priming pronoun.",
        "DLA: direct logit attribution, what the head writes into the log-odds, feminine less masculine prime; via "
        "prime: the part of it that the head reads off the priming pronoun (figure attention_by_layer).",
    ]
    if larger := _larger_than_a_carrier(heads):
        sentences.append(
            "Carrying is consistency over occupations after correction, not size: the largest head that is no carrier, "
            f"{_with_p(*larger)}, is larger than one that is."
        )
    return "\n".join(sentences)


def _carriers_in_words(summary: Mapping[str, Any], heads: pd.DataFrame) -> str:
    named = heads[heads["carrier"] != "none"]
    smallest = summary["carrier_rule"]["smallest_effect_of_interest"]
    rule = f"max-t at 5 % over {len(heads)} heads x 2 directions, and at least {smallest:.3f} logits"
    if named.empty:
        largest, direction = _largest_of(heads)
        return (
            f"No head is a carrier ({rule}): the leading heads are leads, not findings. The largest is "
            f"{_with_p(largest, direction)}."
        )
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
            sums.append(f"{_interval(carried_by['sum_of_effects'])} logits in {word}")
        if carried_by["share_of_total"]:
            low, high = carried_by["share_of_total"]["ci95"]
            shares.append(
                f"{carried_by['share_of_total']['mean']:.0%} [{low:.0%}, {high:.0%}] of the total effect in {word}"
            )
    of_total = " and ".join(shares) or "the total effect is too near zero to divide by"
    return (
        f"Carriers ({rule}), with their effect in logits: {'; '.join(parts)}. Their single effects add up to "
        f"{' and '.join(sums)}: {of_total} ({_n(summary)}; a sum of single effects, not their joint effect)."
    )


_DIRECTIONS = {"denoise": "denoising", "noise": "noising"}
_ORDERS = {"mf": "masculine first", "fm": "feminine first"}


def _name(row: "pd.Series[Any]", direction: str) -> str:
    return f"{row['layer']}.{row['head']} ({row[f'{direction}_mean']:+.3f})"


def _with_p(row: "pd.Series[Any]", direction: str) -> str:
    effect, p = row[f"{direction}_mean"], row[f"{direction}_p_max_t"]
    return f"{row['layer']}.{row['head']} ({effect:+.3f} in {_DIRECTIONS[direction]}, p = {p:.3f})"


def _interval(interval: Mapping[str, Any]) -> str:
    low, high = interval["ci95"]
    return f"{interval['mean']:+.2f} [" + ("no interval]" if low is None else f"{low:+.2f}, {high:+.2f}]")


def _parts(by: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """Each part's estimate with its interval and n."""
    each = (
        f"{(names or {}).get(value, value)} {_interval(part)} "
        f"({_count(part['n'], 'occupation')}, {_count(part['n_contrasts'], 'contrast')})"
        for value, part in by.items()
    )
    return ", ".join(each)


def _too_short(summary: Mapping[str, Any]) -> str:
    """Which of the paragraph's intervals come from too few occupations; "" where none does."""
    by = summary["total_effect_by"]
    groups = {"by case": by["case"].values(), "by option order": by["option_order"].values()}
    few = [name for name, parts in groups.items() if any(1 < part["n"] < ENOUGH_OCCUPATIONS for part in parts)]
    if 1 < summary["n_occupations"] < ENOUGH_OCCUPATIONS:
        which = "All these intervals"
    elif few:
        which = f"The intervals {' and '.join(few)}"
    else:
        return ""
    return f"{which} are from under {ENOUGH_OCCUPATIONS} occupations and so too short: they cover less than 95 %."


def _n(summary: Mapping[str, Any]) -> str:
    """What the run's means are over: "n = 8 occupations, 32 contrasts"."""
    n = _count(summary["n_occupations"], "occupation")
    return f"n = {n}, {_count(summary['n_contrasts'], 'contrast')}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def leading_rows(heads: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """The heads that the printed table shows: the n largest by their larger effect, and every carrier."""
    size = heads[[f"{d}_mean" for d in DIRECTIONS]].abs().max(axis=1)
    order = heads.loc[size.sort_values(ascending=False, kind="stable").index]
    return pd.concat([order[:n], order[n:][order[n:]["carrier"] != "none"]])


def _largest_of(heads: pd.DataFrame) -> tuple["pd.Series[Any]", str]:
    """The head with the largest effect, and the direction in which it has it."""
    largest = leading_rows(heads.assign(carrier="none"), 1).iloc[0]
    return largest, max(DIRECTIONS, key=lambda direction: abs(largest[f"{direction}_mean"]))


def _larger_than_a_carrier(heads: pd.DataFrame) -> tuple["pd.Series[Any]", str] | None:
    """The largest head that is no carrier, if in some direction it is larger than one; and the direction."""
    others = heads[heads["carrier"] == "none"]
    found = []
    for direction in DIRECTIONS:
        carriers = heads.loc[heads["carrier"].isin([direction, "both"]), f"{direction}_mean"].abs()
        ordered = others.sort_values(f"{direction}_mean", key=abs, ascending=False, kind="stable")
        if len(others) and len(carriers) and abs(ordered[f"{direction}_mean"].iloc[0]) > carriers.min():
            found.append((ordered.iloc[0], direction))
    return max(found, key=lambda largest: abs(largest[0][f"{largest[1]}_mean"]), default=None)
