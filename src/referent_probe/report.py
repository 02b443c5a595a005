"""A finished run in words, and as the numbers of `summary.json`."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from referent_probe.analysis.carriers import (
    DIRECTIONS,
    FEWEST_OCCUPATIONS,
    CarrierRule,
    flow_effects,
    head_effects,
    joint_share,
    leading,
    smallest_effect,
    total_effect,
)
from referent_probe.analysis.inference import Interval, cluster_bootstrap_interval


def summarise(
    tables: Mapping[str, pd.DataFrame], measured: pd.DataFrame, about: Mapping[str, Any], rule: CarrierRule, seed: int
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Every number that the report prints, and the two tables that they come from.

    Args:
        tables: The stored tables contrasts, heads, flow and self_checks.
        measured: Seconds by unit.
        about: Keys `model`, `stimuli`, `n_layers`, put into the summary as they are (`n_layers` is not).
        rule: What a carrier is.
        seed: Of bootstrap and sign flips.

    Returns:
        The content of `summary.json`, and the tables "head_effects" and "flow_effects".
    """
    contrasts, checks = tables["contrasts"], tables["self_checks"]
    used = contrasts[contrasts["left_out"].isna()]
    total = total_effect(contrasts, seed)
    smallest = smallest_effect(contrasts, rule)
    heads = head_effects(tables["heads"], smallest, rule, seed)
    flow = flow_effects(tables["flow"], contrasts)
    full_pass = used["tokens"] * int(about["n_layers"])
    p_other = pd.concat([used["p_other_cf"], used["p_other_cm"]])
    other = cluster_bootstrap_interval((used["p_other_cf"] + used["p_other_cm"]) / 2, list(used["occupation"]),
                                       seed=seed, unit="probability")  # fmt: skip
    summary = {
        "model": about["model"],
        "stimuli": about["stimuli"],
        "n_pairs": int(used["pair"].nunique()),
        "n_occupations": int(used["occupation"].nunique()),
        "n_contrasts": len(used),
        "n_contrasts_left_out": int(contrasts["left_out"].notna().sum()),
        "total_effect": _interval(total),
        "share_following_the_prime": float((used["total_effect"] > 0).mean()),
        "carrier_rule": {
            "test": "max-t sign-flip over occupations, all heads and both directions",
            "level": rule.level,
            "smallest_effect_of_interest": smallest,
            "unit": "logits",
            "fewest_occupations": FEWEST_OCCUPATIONS,
        },
        "share_of_total_by_carriers": {direction: joint_share(heads, total, direction) for direction in DIRECTIONS},
        "heads": [_head(row, total) for _, row in heads.iterrows()],
        "flow": [_flow(row) for _, row in flow.iterrows()],
        "self_check": {
            "max_abs_diff": float(checks["abs_diff"].max()),
            "n_cells": len(checks),
            "unit": "logits",
            "by_sweep": {
                str(sweep): {"max_abs_diff": float(part["abs_diff"].max()), "n_cells": len(part)}
                for sweep, part in checks.groupby("sweep")
            },
        },
        "cost": {
            "forward_equivalents_target_slot": float((used["token_blocks"] / full_pass).mean()),
            "tokens": float(used["tokens"].mean()),
            "first_difference": float(used["first_difference"].mean()),
            "seconds": float(measured["seconds"].sum()),
            "seconds_target_slot_per_contrast": float(measured["seconds_target_slot"].median()),
            "of": "one direction; token-blocks over blocks times tokens; baseline passes and unembedding not counted",
        },
        "p_other": {**_interval(other), "max": float(p_other.max()), "n_prompts": len(p_other)},
    }
    return summary, {"head_effects": heads, "flow_effects": flow}


def in_words(summary: Mapping[str, Any], heads: pd.DataFrame) -> str:
    """The finding as a paragraph: follow or oppose, how much the named heads carry, and what limits it."""
    total = summary["total_effect"]
    low, high = total["ci95"]
    n = f"{summary['n_pairs']} pairs from {summary['n_occupations']} occupations ({summary['n_contrasts']} contrasts)"
    size = f"{total['mean']:+.2f} logits [95 % interval {low:+.2f}, {high:+.2f}]" if low is not None else (
        f"{total['mean']:+.2f} logits (one occupation: no interval)")  # fmt: skip
    if low is None or low <= 0 <= high:
        stance = "shows no settled stance towards the gender of the other person's pronoun"
    elif low > 0:
        stance = "follows the gender of the other person's pronoun"
    else:
        stance = "opposes the gender of the other person's pronoun"
    sentences = [
        f"On {n}, {summary['model']['name']} {stance}: the total effect of a feminine instead of a masculine prime "
        f"on the log-odds of the feminine option is {size}; "
        f"{summary['share_following_the_prime']:.0%} of contrasts go with the prime."
    ]
    if summary["n_occupations"] < FEWEST_OCCUPATIONS:
        sentences.append(
            f"With {summary['n_occupations']} occupations no head is called a carrier: a sign-flip test needs "
            f"{FEWEST_OCCUPATIONS} to reach 5 %. Give more --pairs."
        )
    else:
        sentences.append(_carriers_in_words(summary, heads))
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
    if named.empty:
        return (
            "No head passes the max-t test at 5 % and the smallest effect of interest: the leading heads in the table "
            "are leads, not findings; more --pairs give more power."
        )
    both = _names(named[named["carrier"] == "both"])
    parts = [f"Carriers (max-t at 5 %, {len(heads)} heads x 2 directions): {both or 'none'} in both directions"]
    sums, shares = [], []
    for direction, word in (("denoise", "denoising"), ("noise", "noising")):
        if only := _names(named[named["carrier"] == direction]):
            parts.append(f"{only} in {word} only")
        added = named.loc[named["carrier"].isin([direction, "both"]), f"{direction}_mean"]
        if len(added):
            sums.append(f"{added.sum():+.2f} logits in {word}")
        share = summary["share_of_total_by_carriers"][direction]
        if share is not None:
            shares.append(f"{share:.0%} of the total effect in {word}")
    of_total = " and ".join(shares) or "the total effect is too near zero to divide by"
    return (
        f"{'; '.join(parts)}. Their single effects add up to {' and '.join(sums)}: {of_total} "
        "(a sum of single effects, not their joint effect)."
    )


def _names(heads: pd.DataFrame) -> str:
    return ", ".join(f"{layer}.{head}" for layer, head in zip(heads["layer"], heads["head"], strict=True))


def leading_rows(heads: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """The heads that the printed table shows: the n largest in either direction, by their larger effect."""
    chosen = pd.concat([leading(heads, d, n) for d in DIRECTIONS]).drop_duplicates(["layer", "head"])
    size = chosen[[f"{d}_mean" for d in DIRECTIONS]].abs().max(axis=1)
    return chosen.loc[size.sort_values(ascending=False, kind="stable").index[:n]]


def _interval(interval: Interval) -> dict[str, Any]:
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return {
        "mean": interval.mean,
        "ci95": [interval.low, interval.high] if known else [None, None],
        "unit": interval.unit,
        "n": interval.n,
        "n_of": interval.n_of,
    }


def _part(row: pd.Series, name: str, unit: str, n: int) -> dict[str, Any]:
    mean, low, high = (_number(row[f"{name}_{part}"]) for part in ("mean", "low", "high"))
    return {"mean": mean, "ci95": [low, high], "unit": unit, "n": n, "n_of": "occupations"}


def _head(row: pd.Series, total: Interval) -> dict[str, Any]:
    head: dict[str, Any] = {"layer": int(row["layer"]), "head": int(row["head"])}
    for direction in DIRECTIONS:
        head[direction] = _part(row, direction, "logits", total.n) | {"p_max_t": _number(row[f"{direction}_p_max_t"])}
    head["attention_to_prime"] = _part(row, "attention_to_prime", "share of attention", total.n)
    for name in ("direct_logit_attribution", "prime_attribution"):
        head[name] = _part(row, name, "logits", total.n)
    head["carrier"] = str(row["carrier"])
    return head


def _flow(row: pd.Series) -> dict[str, Any]:
    return {
        "layer": int(row["layer"]),
        "span": str(row["span"]),
        "mean": float(row["effect_mean"]),
        "range": [float(row["effect_min"]), float(row["effect_max"])],
        "unit": "logits",
        "n": int(row["n_contrasts"]),
        "n_of": "contrasts",
        "reason": row["reason"] if isinstance(row["reason"], str) else None,
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
