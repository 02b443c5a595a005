"""Every number of a run that is printed or drawn, as `summary.json` holds it: estimate, interval, unit and n."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from referent_probe.analysis.carriers import (
    DIRECTIONS,
    FEWEST_OCCUPATIONS,
    CarrierRule,
    carried,
    effects_by,
    flow_effects,
    head_effects,
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
    following = cluster_bootstrap_interval((used["total_effect"] > 0).astype(float), list(used["occupation"]),
                                           seed=seed, unit="share of contrasts")  # fmt: skip
    sums = {direction: carried(tables["heads"], heads, contrasts, direction, seed) for direction in DIRECTIONS}
    summary = {
        "model": about["model"],
        "stimuli": about["stimuli"],
        "n_pairs": int(used["pair"].nunique()),
        "n_occupations": int(used["occupation"].nunique()),
        "n_contrasts": len(used),
        "n_contrasts_left_out": int(contrasts["left_out"].notna().sum()),
        "total_effect": _interval(total) | {"n_contrasts": len(used)},
        "total_effect_by": {
            column: {
                value: _interval(part) | {"n_contrasts": int((used[column] == value).sum())}
                for value, part in effects_by(contrasts, column, seed).items()
            }
            for column in ("case", "option_order")
        },
        "share_following_the_prime": _interval(following),
        "carrier_rule": {
            "test": "max-t sign-flip over occupations, all heads and both directions",
            "level": rule.level,
            "smallest_effect_of_interest": smallest,
            "unit": "logits",
            "fewest_occupations": FEWEST_OCCUPATIONS,
        },
        "carried": {
            direction: {
                "sum_of_effects": None if added is None else _interval(added),
                "share_of_total": None if share is None else _interval(share),
            }
            for direction, (added, share) in sums.items()
        },
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
            "attribution_identities": _identities(measured),
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


def _identities(measured: pd.DataFrame) -> dict[str, Any]:
    """How far direct logit attribution is from adding up, at most; null where a model has none."""
    largest = {
        name: _number(float(measured[column].max())) if column in measured else None
        for name, column in (
            ("heads_and_rest_to_logit_difference", "attribution_error_parts"),
            ("sources_to_heads", "attribution_error_sources"),
        )
    }
    return {**largest, "unit": "logits"}


def _interval(interval: Interval) -> dict[str, Any]:
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return {
        "mean": interval.mean,
        "ci95": [interval.low, interval.high] if known else [None, None],
        "unit": interval.unit,
        "n": interval.n,
        "n_of": interval.n_of,
    }


def _part(row: "pd.Series[Any]", name: str, unit: str, n: int) -> dict[str, Any]:
    mean, low, high = (_number(row[f"{name}_{part}"]) for part in ("mean", "low", "high"))
    return {"mean": mean, "ci95": [low, high], "unit": unit, "n": n, "n_of": "occupations"}


def _head(row: "pd.Series[Any]", total: Interval) -> dict[str, Any]:
    head: dict[str, Any] = {"layer": int(row["layer"]), "head": int(row["head"])}
    for direction in DIRECTIONS:
        head[direction] = _part(row, direction, "logits", total.n) | {"p_max_t": _number(row[f"{direction}_p_max_t"])}
    head["attention_to_prime"] = _part(row, "attention_to_prime", "share of attention", total.n)
    for name in ("direct_logit_attribution", "prime_attribution"):
        head[name] = _part(row, name, "logits", total.n)
    head["carrier"] = str(row["carrier"])
    return head


def _flow(row: "pd.Series[Any]") -> dict[str, Any]:
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
