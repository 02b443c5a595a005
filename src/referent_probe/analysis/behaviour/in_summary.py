"""`summary.json` of an analysis: every number of the long table by its keys, counts, and the paper's beside ours."""

import csv
import math
from collections.abc import Mapping
from importlib.resources import files
from io import StringIO
from typing import Any

import pandas as pd

from referent_probe.analysis.behaviour.quantities import QUANTITIES


def nested(quantities: pd.DataFrame) -> dict[str, Any]:
    """Rows of the long table by quantity and then by the quantity's keys, in the order of `QUANTITIES`.

    Args:
        quantities: Of one model and one reading.

    Returns:
        `nested["contextual_share"]["both"]["0.5"]["joint"]["0.01"]["value"]` and the like; each number with `ci95`
        (two nulls where there is no interval), `unit`, `n`, `n_of`, `n_rows`, `rows_of` and `n_left_out`, and where it
        has them `p`, `p_adjusted`, `verdict` and `note`. What is not finite is null.

    Example:
        >>> from referent_probe.analysis.behaviour.quantities import found, quantities_table
        >>> rows = [found("p_valid", 0.5, setting="c0", option_order="mf", temperature=0.5)]
        >>> nested(quantities_table(rows, "m"))["p_valid"]["c0"]["mf"]["0.5"]["value"]
        0.5
    """
    found: dict[str, Any] = {}
    for row in quantities.to_dict("records"):
        keys = [row[key] for key in QUANTITIES[row["quantity"]].keys]
        *path, last = [row["quantity"], *(f"{key:.12g}" if isinstance(key, float) else key for key in keys)]
        place = found
        for step in path:
            place = place.setdefault(step, {})
        place[last] = leaf(row)
    return found


def leaf(row: Mapping[Any, Any], factor: float = 1.0) -> dict[str, Any]:
    """One number as `summary.json` has it, times a factor for another unit."""
    number = {
        "value": _finite(row["value"], factor),
        "ci95": [_finite(row["low"], factor), _finite(row["high"], factor)],
        "unit": row["unit"],
        **{name: None if pd.isna(row[name]) else int(row[name]) for name in ("n", "n_rows", "n_left_out")},
        **{name: row[name] for name in ("n_of", "rows_of")},
    }
    number |= {name: _finite(row[name]) for name in ("p", "p_adjusted") if not pd.isna(row[name])}
    number |= {name: row[name] for name in ("verdict", "note") if row[name] is not None}
    if math.isinf(row["value"]):
        number["note"] = "; ".join(filter(None, [number.get("note"), "the value is infinite"]))
    return number


_ORDERS = {"either option order": "union", "options [m, f]": "mf", "options [f, m]": "fm"}
_SETTINGS = {"unprimed": "c0", "masc primed": "cm", "fem primed": "cf", "primed": "cf+cm"}
_QUESTIONS = {
    "comprehension_anaphora": "referent",
    "comprehension_part_of_speech": "part_of_speech",
    "comprehension_gender_tracking": "gender",
}
_NOT_MODELS = ("quantity", "setting", "unit", "provenance")


def reported_values() -> pd.DataFrame:
    """The paper's reported numbers: `quantity`, `setting`, a column a model, `unit`, `provenance`."""
    path = files("referent_probe.analysis").joinpath("data/reported_values.csv")
    return pd.read_csv(StringIO(path.read_text(encoding="utf-8")))


def beside_the_paper(quantities: pd.DataFrame, primary: float, stimuli: str) -> list[dict[str, Any]]:
    """The paper's reported numbers, each with ours by the same procedure and by the right one.

    Args:
        quantities: Of one model and the choice reading.
        primary: Primary temperature.
        stimuli: Name of ours; the paper's are WinoPron.

    Returns:
        For each reported number `quantity`, `setting`, `unit`, `provenance`, `our_stimuli`, `paper` (model to number,
        null where it is not given), and `same_procedure` and `corrected`: ours in the paper's unit with `what`, null
        where the run has no such number. `same_procedure` is exact where the paper samples.

    Source: arXiv 2603.23485; `data/reported_values.csv` says where each number stands.
    """
    path = files("referent_probe.analysis").joinpath("data/reported_values.csv")
    rows = []
    for reported in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        same, right = _ours(reported["quantity"], reported["setting"], primary)
        percent = 100.0 if reported["unit"].startswith("percent") else 1.0
        rows.append(
            {
                **{name: reported[name] for name in _NOT_MODELS},
                "our_stimuli": stimuli,
                "paper": {k: float(v) if v else None for k, v in reported.items() if k not in _NOT_MODELS},
                "same_procedure": _pick(quantities, same, percent),
                "corrected": _pick(quantities, right, percent),
            }
        )
    return rows


def _ours(quantity: str, setting: str, primary: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys of our number by the paper's procedure, and by the right one."""
    if quantity in _QUESTIONS:
        keys: dict[str, Any] = {
            "quantity": "comprehension_accuracy",
            "setting": _SETTINGS[setting],
            "factor": _QUESTIONS[quantity],
        }
        return keys, keys
    if quantity in ("contextual_pairs", "contextual_pairs_union"):
        keys = {"quantity": "contextual_share", "option_order": _ORDERS[setting], "temperature": primary}
        return (
            keys | {"estimator": "released", "threshold": 0.0},
            keys | {"estimator": "joint", "threshold": 0.01},
        )
    keys = {"setting": _SETTINGS[setting], "option_order": "both", "temperature": primary}
    if quantity == "spearman":
        return keys | {"quantity": "spearman", "factor": "partner"}, keys | {
            "quantity": "spearman",
            "factor": "antecedent",
        }
    return keys | {"quantity": "kl_smoothed_mean"}, keys | {"quantity": "kl_exact_mean"}


def _pick(quantities: pd.DataFrame, keys: Mapping[str, Any], factor: float) -> dict[str, Any] | None:
    kept = quantities
    for column, value in keys.items():
        kept = kept[kept[column] == value]
    if kept.empty:
        return None
    what = ", ".join(f"{value:.12g}" if isinstance(value, float) else str(value) for value in keys.values())
    unit = {"unit": "percent of pairs"} if factor != 1 else {}
    return {"what": what, **leaf(kept.iloc[0].to_dict(), factor), **unit}


def _finite(value: float, factor: float = 1.0) -> float | None:
    return float(value) * factor if math.isfinite(value) else None
