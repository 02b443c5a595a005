"""Effects of cells as summaries, terminals and figures take them."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from referent_probe.analysis.carriers import total_effect
from referent_probe.analysis.inference import Interval
from referent_probe.analysis.interventions import CELL
from referent_probe.analysis.summary_parts import number, of_row

LEADING = 12
"""Rows that a terminal shows."""


def effects_in_json(effects: pd.DataFrame, measures: Sequence[str]) -> list[dict[str, Any]]:
    """Each cell with its estimates, for `summary.json`; a cell that was not computed has its reason.

    Args:
        effects: From `interventions.cell_effects`.
        measures: Those that it has.
    """
    return [
        {column: row[column] for column in CELL}
        | {
            name: of_row(row, name, "logits", int(row["n"]))
            | ({"p_max_t": number(row[f"{name}_p_max_t"])} if f"{name}_p_max_t" in row else {})
            for name in measures
        }
        | {"reason": row["reason"] if isinstance(row["reason"], str) else None}
        for row in effects.to_dict("records")
    ]


def leading_cells(effects: pd.DataFrame, measures: Sequence[str]) -> list[list[str]]:
    """The largest cells for a terminal, a header first."""
    computed = effects[effects["reason"].isna()]
    size = computed[[f"{name}_mean" for name in measures]].abs().mean(axis=1)
    rows = [["cell", "where", *(text for name in measures for text in (name.replace("_", " "), "p"))]]
    for row in computed.loc[size.sort_values(ascending=False, kind="stable").index[:LEADING]].to_dict("records"):
        shown = [cell_name(row), str(row["where"])]
        for name in measures:
            shown += [estimate(row, name), p_value(row[f"{name}_p_max_t"])]
        rows.append(shown)
    return rows


def cell_name(row: Any) -> str:
    """A cell in a few characters: 20.3 for a head, 20 for a block, 20-25 for a window, or its label.

    >>> cell_name({"layer": 20, "last_layer": 20, "head": 3, "label": "", "what": "z"})
    '20.3'
    """
    label = f" {row['label']}" if row["label"] and not str(row["label"]).startswith("serves") else ""
    layers = str(row["layer"]) if row["layer"] == row["last_layer"] else f"{row['layer']}-{row['last_layer']}"
    return f"{layers}.{row['head']}{label}" if row["head"] >= 0 else f"{layers}{label}"


def estimate(row: Any, name: str, decimals: int = 3) -> str:
    """A mean with its interval: "-0.284 [-0.31, -0.20]"."""
    mean, low, high = (row[f"{name}_{part}"] for part in ("mean", "low", "high"))
    interval = f" [{low:+.2f}, {high:+.2f}]" if math.isfinite(low) and math.isfinite(high) else ""
    return f"{mean:+.{decimals}f}{interval}" if math.isfinite(mean) else "-"


def p_value(p: float) -> str:
    """A p value in a few characters."""
    return "-" if not math.isfinite(p) else ("<.001" if p < 0.001 else f"{p:.3f}")


def total_in_words(contrasts: pd.DataFrame, seed: int) -> str:
    """The total effect in a sentence, since every other number is a part of it."""
    used = contrasts[contrasts["left_out"].isna()]
    total = total_effect(contrasts, seed)
    return (
        f"Total effect of a feminine instead of a masculine prime: {total} ({used['pair'].nunique()} pairs, "
        f"{len(used)} contrasts)."
    )


def as_heads(effects: pd.DataFrame) -> tuple[pd.DataFrame, Interval]:
    """Effects of all heads at one place, and their total, as `figures.head_map` takes them."""
    heads = effects.copy()
    both, one = heads["denoise_counts"] & heads["noise_counts"], heads["denoise_counts"] | heads["noise_counts"]
    heads["carrier"] = "none"
    heads.loc[one & heads["denoise_counts"], "carrier"] = "denoise"
    heads.loc[one & heads["noise_counts"], "carrier"] = "noise"
    heads.loc[both, "carrier"] = "both"
    total = float(heads["total_mean"].iloc[0])
    return heads, Interval(total, math.nan, math.nan, int(heads["n"].max()), "logits")


def as_flow(effects: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Effects by layer and place, as `figures_flow.flow_maps` takes them."""
    return pd.DataFrame(
        {
            "layer": effects["layer"],
            "span": effects["where"].str.replace("-", "_"),
            "effect_mean": effects[f"{measure}_mean"],
            "effect_min": effects[f"{measure}_low"],
            "effect_max": effects[f"{measure}_high"],
            "total_mean": effects["total_mean"],
            "n_contrasts": effects["n_contrasts"],
            "n_occupations": effects["n"],
            "reason": effects["reason"],
        }
    )
