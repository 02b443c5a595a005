"""Every number of a run that is printed or drawn, as `summary.json` holds it: estimate, interval, unit and n."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from referent_probe.analysis.carriers import (
    DIRECTIONS,
    FEWEST_OCCUPATIONS,
    CarrierRule,
    carried,
    flow_effects,
    head_effects,
    smallest_effect,
    total_effect,
)
from referent_probe.analysis.inference import Interval
from referent_probe.analysis.summary_parts import about_checks, about_contrasts, as_json, number, of_row


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
    sums = {direction: carried(tables["heads"], heads, contrasts, direction, seed) for direction in DIRECTIONS}
    summary = {
        **about_contrasts(contrasts, about, seed),
        "carrier_rule": {
            "test": "max-t sign-flip over occupations, all heads and both directions",
            "level": rule.level,
            "smallest_effect_of_interest": smallest,
            "unit": "logits",
            "fewest_occupations": FEWEST_OCCUPATIONS,
        },
        "carried": {
            direction: {
                "sum_of_effects": None if added is None else as_json(added),
                "share_of_total": None if share is None else as_json(share),
            }
            for direction, (added, share) in sums.items()
        },
        "heads": [_head(row, total) for _, row in heads.iterrows()],
        "flow": [_flow(row) for _, row in flow.iterrows()],
        "self_check": about_checks(checks, measured),
        "cost": {
            "forward_equivalents_target_slot": float((used["token_blocks"] / full_pass).mean()),
            "tokens": float(used["tokens"].mean()),
            "first_difference": float(used["first_difference"].mean()),
            "seconds": float(measured["seconds"].sum()),
            "seconds_target_slot_per_contrast": float(measured["seconds_target_slot"].median()),
            "of": "one direction; token-blocks over blocks times tokens; baseline passes and unembedding not counted",
        },
    }
    return summary, {"head_effects": heads, "flow_effects": flow}


def _head(row: "pd.Series[Any]", total: Interval) -> dict[str, Any]:
    head: dict[str, Any] = {"layer": int(row["layer"]), "head": int(row["head"])}
    for direction in DIRECTIONS:
        head[direction] = of_row(row, direction, "logits", total.n) | {"p_max_t": number(row[f"{direction}_p_max_t"])}
    head["attention_to_prime"] = of_row(row, "attention_to_prime", "share of attention", total.n)
    for name in ("direct_logit_attribution", "prime_attribution"):
        head[name] = of_row(row, name, "logits", total.n)
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
