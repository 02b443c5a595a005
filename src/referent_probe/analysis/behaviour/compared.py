"""Several models beside each other: the numbers that tell them apart, which of them do, and which pairs they share."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from referent_probe.analysis.behaviour.quantities import QUANTITIES
from referent_probe.analysis.behaviour.words import one


@dataclass(frozen=True)
class Compared:
    """A number that models are compared by.

    Attributes:
        name: In words.
        keys: Of its rows of the long table; the temperature, where it has one, is each model's primary one.
        spec: How it is written.
    """

    name: str
    keys: Mapping[str, Hashable]
    spec: str


def _rho(setting: str) -> Compared:
    keys = {"quantity": "spearman", "setting": setting, "option_order": "both", "factor": "antecedent"}
    return Compared(f"rho in {setting}", keys, "+.2f")


def _share(estimator: str) -> Compared:
    keys = {"quantity": "contextual_share", "option_order": "both", "estimator": estimator, "threshold": 0.01}
    return Compared(f"contextual share ({estimator})", keys, ".0%")


COMPARED: Mapping[str, Compared] = {
    "cf - cm": Compared("cf - cm", {"quantity": "follow_shift", "option_order": "both", "factor": "all"}, "+.2f"),
    "order": Compared("effect of option order", {"quantity": "order_effect_absolute", "setting": "c0"}, ".2f"),
    **{f"rho {setting}": _rho(setting) for setting in ("c0", "cf", "cm")},
    **{estimator: _share(estimator) for estimator in ("joint", "self_primed", "steered")},
}
"""Short name to what is compared."""

_STANCES = {"follows": "followed by", "opposes": "opposed by", "undecided": "neither for certain by"}


def compared_rows(quantities: pd.DataFrame, primary: Mapping[str, float], name: str) -> dict[str, dict[str, Any]]:
    """Model to its row of the long table, of models that have the number.

    Args:
        quantities: Of all models.
        primary: Model to its primary temperature.
        name: One of `COMPARED`.
    """
    keys = COMPARED[name].keys
    at_temperature = "temperature" in QUANTITIES[str(keys["quantity"])].keys
    rows = {}
    for model, temperature in primary.items():
        its = {"model": model, "reading": "choice", **keys, **({"temperature": temperature} if at_temperature else {})}
        row = one(quantities, **its)
        if row is not None and row["value"] == row["value"]:
            rows[model] = row
    return rows


def apart(rows: Mapping[str, Mapping[str, Any]]) -> list[tuple[list[str], list[str]]]:
    """Which models lie with their whole interval above that of others.

    Args:
        rows: Model to `value`, `low` and `high`.

    Returns:
        Models, and those that each of them is above; every two whose intervals have no number in common are there once.
        Highest first.

    Example:
        >>> ends = {"a": (0.5, 0.4, 0.6), "b": (0.1, 0.0, 0.2), "c": (0.3, 0.1, 0.5)}
        >>> apart({name: dict(zip(("value", "low", "high"), numbers)) for name, numbers in ends.items()})
        [(['a'], ['b'])]
    """
    above: dict[tuple[str, ...], list[str]] = {}
    downward = sorted(rows, key=lambda model: -rows[model]["value"])
    for model in downward:
        below = tuple(other for other in downward if rows[other]["high"] < rows[model]["low"])
        if below:
            above.setdefault(below, []).append(model)
    return [(models, list(below)) for below, models in above.items()]


def beside_each_other(quantities: pd.DataFrame, primary: Mapping[str, float]) -> str:
    """What differs between models, what does not, and how many contextual pairs they share, as a paragraph.

    Args:
        quantities: Of all models, with the overlap between them.
        primary: Model to its primary temperature; two models or more.
    """
    found = {name: compared_rows(quantities, primary, name) for name in COMPARED}
    told = {COMPARED[name].name: apart(rows) for name, rows in found.items() if len(rows) > 1}
    differences = [f"{name} ({'; '.join(map(_above, pairs))})" for name, pairs in told.items() if pairs]
    alike = [name for name, pairs in told.items() if not pairs]
    sentences = [f"The {len(primary)} models beside each other, numbers in the tables.", *_stances(found["cf - cm"])]
    if differences:
        sentences.append(f"Clearly apart, with intervals that have no number in common, in {', '.join(differences)}.")
    if alike:
        sentences.append(
            f"No two models are clearly apart in {_listed(alike)}; that intervals overlap does not show that models "
            "are alike."
        )
    if lacking := [COMPARED[name].name for name, rows in found.items() if len(rows) < 2]:
        sentences.append(f"Not compared, since fewer than two models have it: {', '.join(lacking)}.")
    return " ".join([*sentences, *_shared(quantities, list(primary))])


def _stances(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    stances = {said: [m for m, row in rows.items() if row["verdict"] == verdict] for verdict, said in _STANCES.items()}
    told = [f"{said} {_listed(models)}" for said, models in stances.items() if models]
    return [f"On average the prime is {', '.join(told)}."] if told else []


def _shared(quantities: pd.DataFrame, models: Sequence[str]) -> list[str]:
    """Of the first estimator that all models have."""
    about = {"reading": "choice", "option_order": "both", "threshold": 0.01}
    for estimator in ("joint", "self_primed", "steered"):
        kept = quantities[quantities["estimator"] == estimator]
        for column, value in about.items():
            kept = kept[kept[column] == value]
        every = one(kept, quantity="overlap_pairs", model=" & ".join(models))
        if every is not None:
            two = kept[kept["quantity"] == "overlap_jaccard"]
            told = [f"{model}: {note}" for model, note in zip(two["model"], two["note"], strict=True)]
            everywhere = f"; {every['value']:.0f} in all {len(models)} models" if len(models) > 2 else ""
            return [
                f"Of {every['n_rows']} pairs that all models have, these are contextual ({estimator}, dC > 0.01, "
                f"option order averaged out): {'; '.join(told)}{everywhere}."
            ]
    return ["No estimator has pairs that all models have, so no overlap of contextual pairs is given."]


def _above(pair: tuple[list[str], list[str]]) -> str:
    return f"{_listed(pair[0])} above {_listed(pair[1])}"


def _listed(names: Sequence[str]) -> str:
    """As in "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
