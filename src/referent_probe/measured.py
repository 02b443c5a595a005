"""A finished measurement: reading it, and comparing two."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from referent_probe.analysis.behaviour.finished import FinishedRun, read_run
from referent_probe.errors import RunError


@dataclass(frozen=True)
class Measured:
    """A finished measurement.

    Attributes:
        folder: The run folder.
        summary: Content of `summary.json`.
        was_complete: True where the run was there already and nothing was computed.
    """

    folder: Path
    summary: dict[str, Any]
    was_complete: bool

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables, "choices" to "comprehension"."""
        return pd.read_parquet(self.folder / f"{name}.parquet")


def other_run(against: Path, temperature: float) -> FinishedRun:
    """The measurement to compare with, checked before any long work.

    Raises:
        RunError: It is no finished measurement, is damaged, or has another primary temperature.
    """
    other = read_run(against)
    if other.temperature != temperature:
        raise RunError(
            f"--against {str(against)!r} was measured at temperature {other.temperature:g}, this is to be at "
            f"{temperature:g}; give --temperature {other.temperature:g}"
        )
    return other


def compare(measured: Measured, against: Path) -> dict[str, Any]:
    """How far two measurements of the same prompts differ, as of one model in two precisions.

    Args:
        measured: One of them.
        against: Run folder of the other.

    Returns:
        Largest and mean absolute difference of log-odds (logits) and of p_feminine at the primary temperature, n,
        and how many prompts only one of them has (by template, setting and order, where the token ids are the same).

    Raises:
        RunError: As `other_run`, or the two share no prompt.
    """
    temperature = json.loads((measured.folder / "config.json").read_text(encoding="utf-8"))["temperature"]
    other = other_run(against, temperature)
    keys = ["template", "setting", "option_order"]
    columns = [*keys, "ids", "log_odds"]
    ours, theirs = measured.table("choices")[columns], other.tables["choices"][columns]
    both = ours.merge(theirs, on=[*keys, "ids"], suffixes=("", "_other"))
    if both.empty:
        raise RunError(
            f"--against {str(against)!r} shares no prompt with this run; measure the same stimuli with the same wording"
        )
    difference = (both["log_odds"] - both["log_odds_other"]).abs()
    answers = (measured.table("answers"), other.tables["answers"])
    p, p_other = (table.loc[table["temperature"] == temperature, [*keys, "p_feminine"]] for table in answers)
    shared = p.merge(p_other, on=keys, suffixes=("", "_other")).merge(both[keys], on=keys)
    p_difference = (shared["p_feminine"] - shared["p_feminine_other"]).abs()
    return {
        "against": against.name,
        "log_odds": {
            "max_abs_diff": float(difference.max()),
            "mean_abs_diff": float(difference.mean()),
            "unit": "logits",
        },
        "p_feminine": {"max_abs_diff": float(p_difference.max()), "mean_abs_diff": float(p_difference.mean())},
        "n": len(both),
        "n_of": "prompts",
        "only_in_one": len(ours) + len(theirs) - 2 * len(both),
    }


def read_measured(folder: Path) -> Measured:
    """A finished measurement from its folder.

    Raises:
        RunError: There is none.
    """
    try:
        job = json.loads((folder / "config.json").read_text(encoding="utf-8"))["job"]
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        job, summary = None, {}
    if job != "measure" or not (folder / "manifest.json").is_file():
        raise RunError(f"{str(folder)!r} is not a finished measurement; make one with referent-probe measure")
    return Measured(folder, summary, was_complete=True)
