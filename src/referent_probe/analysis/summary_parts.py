"""The parts that the summaries of all patching runs share."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from referent_probe.analysis.carriers import effects_by, total_effect
from referent_probe.analysis.inference import Interval, cluster_bootstrap_interval


def about_contrasts(contrasts: pd.DataFrame, about: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Model, stimuli, counts, total effect in all and by case and option order, and what is neither option.

    Args:
        contrasts: Table "contrasts".
        about: Keys `model` and `stimuli`, put in as they are.
        seed: Of the bootstrap.
    """
    used = contrasts[contrasts["left_out"].isna()]
    p_other = pd.concat([used["p_other_cf"], used["p_other_cm"]])
    clusters = list(used["occupation"])
    other = cluster_bootstrap_interval(
        (used["p_other_cf"] + used["p_other_cm"]) / 2, clusters, seed=seed, unit="probability"
    )
    following = cluster_bootstrap_interval(
        (used["total_effect"] > 0).astype(float), clusters, seed=seed, unit="share of contrasts"
    )
    return {
        "model": about["model"],
        "stimuli": about["stimuli"],
        "n_pairs": int(used["pair"].nunique()),
        "n_occupations": int(used["occupation"].nunique()),
        "n_contrasts": len(used),
        "n_contrasts_left_out": int(contrasts["left_out"].notna().sum()),
        "total_effect": as_json(total_effect(contrasts, seed)) | {"n_contrasts": len(used)},
        "total_effect_by": {
            column: {
                value: as_json(part) | {"n_contrasts": int((used[column] == value).sum())}
                for value, part in effects_by(contrasts, column, seed).items()
            }
            for column in ("case", "option_order")
        },
        "share_following_the_prime": as_json(following),
        "p_other": {**as_json(other), "max": float(p_other.max()), "n_prompts": len(p_other)},
    }


def about_checks(checks: pd.DataFrame, measured: pd.DataFrame) -> dict[str, Any]:
    """The largest difference from brute force, in all and by sweep, and how far attribution is from adding up.

    Args:
        checks: Table "self_checks".
        measured: What units measured.
    """
    identities = {
        name: number(float(measured[column].max())) if column in measured else None
        for name, column in (
            ("heads_and_rest_to_logit_difference", "attribution_error_parts"),
            ("sources_to_heads", "attribution_error_sources"),
        )
    }
    return {
        "max_abs_diff": float(checks["abs_diff"].max()),
        "n_cells": len(checks),
        "unit": "logits",
        "by_sweep": {
            str(sweep): {"max_abs_diff": float(part["abs_diff"].max()), "n_cells": len(part)}
            for sweep, part in checks.groupby("sweep")
        },
        "attribution_identities": {**identities, "unit": "logits"},
    }


def as_json(interval: Interval) -> dict[str, Any]:
    """An interval as summaries hold it; null ends where it has none."""
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return {
        "mean": interval.mean,
        "ci95": [interval.low, interval.high] if known else [None, None],
        "unit": interval.unit,
        "n": interval.n,
        "n_of": interval.n_of,
    }


def of_row(row: "Mapping[Any, Any] | pd.Series[Any]", name: str, unit: str, n: int) -> dict[str, Any]:
    """An estimate from a table's columns `name_mean`, `name_low` and `name_high`."""
    mean, low, high = (number(row[f"{name}_{part}"]) for part in ("mean", "low", "high"))
    return {"mean": mean, "ci95": [low, high], "unit": unit, "n": n, "n_of": "occupations"}


def number(value: float) -> float | None:
    """A number, or null where there is none."""
    return float(value) if math.isfinite(value) else None


def records_in_json(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table's rows; null for what is not a number."""
    return [
        {str(k): number(float(v)) if isinstance(v, float | np.floating) else v for k, v in row.items()}
        for row in table.to_dict("records")
    ]
