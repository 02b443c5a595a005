"""What the job `circuit` found, as tables, summary, figures and sentences."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from referent_probe.analysis.circuit import COMPLETE_WITHIN, NEEDED_FROM, CircuitChecks
from referent_probe.analysis.held_out import HeldOut
from referent_probe.analysis.summary_parts import number
from referent_probe.jobs.job import Result


def circuit_result(
    *,
    words: str,
    circuit: Sequence[str],
    given: bool,
    checks: CircuitChecks,
    held_out: HeldOut,
    joint: pd.DataFrame,
    stability: pd.DataFrame,
    dependent: pd.DataFrame,
) -> Result:
    """Put the parts together.

    Args:
        words: The total effect in a sentence.
        circuit: Names of its heads.
        given: Whether the user named them.
        checks: From `check_circuit`.
        held_out: From `held_out_carriers`.
        joint: From `joint_shares`; empty with too few occupations.
        stability: From `ranking_stability`.
        dependent: From `changed_by_ablation`.
    """
    from referent_probe.figures_circuit import circuit_checks
    from referent_probe.figures_mechanism import joint_shares as draw_joint_shares

    figures = {"circuit_checks": circuit_checks(checks.table)}
    pooled = joint[joint["way"] == joint["way"].iloc[-1]] if len(joint) else joint
    if len(pooled):
        renamed = pooled.drop(columns=["sum_of_singles", "sum_of_singles_low", "sum_of_singles_high"]).rename(
            columns={
                "share_of_singles": "sum_of_singles",
                "share_of_singles_low": "sum_low",
                "share_of_singles_high": "sum_high",
            }
        )
        figures["joint_shares"] = draw_joint_shares(renamed)
    faithfulness = dict(zip(("share", "low", "high"), map(number, checks.faithfulness), strict=True))
    summary = {
        "circuit": {
            "heads": list(circuit),
            "given": given,
            "faithfulness": faithfulness | {"unit": "share of the total effect"},
            "complete": checks.complete,
            "complete_within": COMPLETE_WITHIN,
            "minimal": checks.minimal,
            "not_needed": list(checks.not_needed),
            "needed_from": NEEDED_FROM,
            "checks": _records(checks.table),
        },
        "held_out": {
            "rule": "chosen by max-t on one half of the occupations, tested by max-t on the other, both ways",
            "confirmed": _records(held_out.confirmed),
            "tests": _records(held_out.table),
            "reason": held_out.reason,
        },
        "joint_shares": _records(joint),
        "stability": _records(stability),
        "dependent_heads": _records(dependent[dependent["role"] != "none"]),
    }
    return Result(
        summary=summary,
        tables={
            "circuit_checks": checks.table,
            "held_out": held_out.table,
            "joint_shares": joint,
            "stability": stability,
            "dependent_heads": dependent,
        },
        figures=figures,
        words=[words, *_in_words(circuit, given, checks, held_out, pooled, stability, dependent)],
        leading=_leading(pooled),
    )


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON: null for what is not a number."""
    return [
        {str(k): number(v) if isinstance(v, float) else v for k, v in row.items()} for row in table.to_dict("records")
    ]


def _in_words(
    circuit: Sequence[str],
    given: bool,
    checks: CircuitChecks,
    held_out: HeldOut,
    joint: pd.DataFrame,
    stability: pd.DataFrame,
    dependent: pd.DataFrame,
) -> list[str]:
    sentences = []
    if held_out.reason:
        sentences.append(f"No head is tested on held-out occupations: {held_out.reason}.")
    else:
        both = held_out.confirmed[held_out.confirmed["ways"] == 2]
        once = held_out.confirmed[held_out.confirmed["ways"] == 1]
        sentences.append(
            f"Chosen on one half of the occupations and confirmed on the other: {_named(both)} both ways, "
            f"{_named(once)} one way."
        )
    for row in joint.to_dict("records"):
        if row["direction"] == "denoise" and math.isfinite(row["share"]):
            sentences.append(
                f"The {row['k']} leading head{'s' * (row['k'] > 1)} of the other half carry {row['share']:.0%} "
                f"[{row['share_low']:.0%}, {row['share_high']:.0%}] of the total effect together in denoising; their "
                f"single effects add up to {row['share_of_singles']:.0%}."
            )
    share, low, high = checks.faithfulness
    faithful = f"{share:.0%} [{low:.0%}, {high:.0%}]" if math.isfinite(low) else "no settled share"
    chosen = "as named" if given else "the carriers of all occupations, or the leading heads where none is one"
    sentences.append(
        f"Circuit {', '.join(circuit)} ({chosen}): with all other heads at the target slot held at the other run, "
        f"{faithful} of the total effect is left. It is {'complete' if checks.complete else 'not complete'} (within "
        f"{COMPLETE_WITHIN:.0%} of the model for every set of its heads removed) and "
        f"{'minimal' if checks.minimal else 'not minimal: not needed ' + ', '.join(checks.not_needed)}."
    )
    for role, text in (("backup", "take over"), ("relies on them", "lose effect")):
        part = dependent[dependent["role"] == role]
        names = ", ".join(f"{r['layer']}.{r['head']} ({r['change']:+.3f})" for r in part.to_dict("records"))
        sentences.append(f"When the circuit is held at the other run, {names or 'no other heads'} {text}.")
    halves = stability[stability["comparison"] == "random halves"]
    if len(halves):
        row = halves.to_dict("records")[0]
        sentences.append(
            f"Rankings of heads on random halves agree with a Spearman correlation of {row['spearman']:.2f} "
            f"[{row['low']:.2f}, {row['high']:.2f}] in {row['direction']}ing."
        )
    return sentences


def _named(confirmed: pd.DataFrame) -> str:
    heads: dict[str, list[str]] = {}
    for row in confirmed.to_dict("records"):
        heads.setdefault(f"{row['layer']}.{row['head']}", []).append(str(row["direction"]))
    named = (f"{head} ({' and '.join(d[:-1] + 'ing' for d in directions)})" for head, directions in heads.items())
    return ", ".join(named) or "none"


def _leading(joint: pd.DataFrame) -> list[list[str]]:
    rows = [["k leading heads", "direction", "together", "share of total", "sum of singles"]]
    for row in joint.to_dict("records"):
        share = "-" if not math.isfinite(row["share"]) else (
            f"{row['share']:.0%} [{row['share_low']:.0%}, {row['share_high']:.0%}]")  # fmt: skip
        together = f"{row['joint']:+.3f} [{row['joint_low']:+.2f}, {row['joint_high']:+.2f}]"
        rows.append([str(row["k"]), str(row["direction"]), together, share, f"{row['sum_of_singles']:+.3f}"])
    return rows
