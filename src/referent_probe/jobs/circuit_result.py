"""What the job `circuit` found, as tables, summary, figures and sentences."""

import math
from collections.abc import Sequence

import pandas as pd

from referent_probe.analysis.circuit import COMPLETE_WITHIN, NEEDED_FROM, CircuitChecks
from referent_probe.analysis.summary_parts import number, records_in_json
from referent_probe.jobs.job import Result


def circuit_result(
    *,
    words: str,
    circuit: Sequence[str],
    given: bool,
    checks: CircuitChecks,
    joint: pd.DataFrame,
    dependent: pd.DataFrame,
) -> Result:
    """Put the parts together.

    Args:
        words: The total effect in a sentence.
        circuit: Names of its heads.
        given: Whether the user named them.
        checks: From `check_circuit`.
        joint: From `joint_shares`; empty with too few occupations.
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
            "checks": records_in_json(checks.table),
        },
        "joint_shares": records_in_json(joint),
        "dependent_heads": records_in_json(dependent[dependent["role"] != "none"]),
    }
    return Result(
        summary=summary,
        tables={
            "circuit_checks": checks.table,
            "joint_shares": joint,
            "dependent_heads": dependent,
        },
        figures=figures,
        words=[words, *_in_words(circuit, given, checks, pooled, dependent)],
        leading=_leading(pooled),
    )


def _in_words(
    circuit: Sequence[str],
    given: bool,
    checks: CircuitChecks,
    joint: pd.DataFrame,
    dependent: pd.DataFrame,
) -> list[str]:
    sentences = []
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
        f"{faithful} of the total effect is left. {_verdict(checks)}"
    )
    for role, text in (("backup", "take over"), ("relies on them", "lose effect")):
        part = dependent[dependent["role"] == role]
        names = ", ".join(f"{r['layer']}.{r['head']} ({r['change']:+.3f})" for r in part.to_dict("records"))
        sentences.append(f"When the circuit is held at the other run, {names or 'no other heads'} {text}.")
    return sentences


def _verdict(checks: CircuitChecks) -> str:
    if checks.complete is None:
        return "The total effect is too near 0 to say whether it is complete or minimal."
    return (
        f"It is {'complete' if checks.complete else 'not complete'} (within {COMPLETE_WITHIN:.0%} of the model for "
        f"every set of its heads removed) and "
        f"{'minimal' if checks.minimal else 'not minimal: not needed ' + ', '.join(checks.not_needed)}."
    )


def _leading(joint: pd.DataFrame) -> list[list[str]]:
    rows = [["k leading heads", "direction", "together", "share of total", "sum of singles"]]
    for row in joint.to_dict("records"):
        share = "-" if not math.isfinite(row["share"]) else (
            f"{row['share']:.0%} [{row['share_low']:.0%}, {row['share_high']:.0%}]")  # fmt: skip
        together = f"{row['joint']:+.3f} [{row['joint_low']:+.2f}, {row['joint_high']:+.2f}]"
        rows.append([str(row["k"]), str(row["direction"]), together, share, f"{row['sum_of_singles']:+.3f}"])
    return rows
