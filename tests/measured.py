"""Finished measurement runs of models whose answers are known, written as the real ones are."""

import gc
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from referent_probe.records import MEASUREMENT, SCHEMAS, conform
from referent_probe.stimuli.templates import Pair, StimulusSet, Template, load_stimuli
from referent_probe.store import open_run

SETTINGS = ("c0", "cf", "cm", "n1", "n2", "r_np", "r_both")
ORDERS = ("mf", "fm")
TEMPERATURES = (0.3, 0.5, 0.7, 1.0)
PARTS = ("joint", "sentences", "comprehension")

RESAMPLING = ("clustered", "answers", "shifts", "roles", "factors")
"""Modules of the analysis that resample."""

P = Callable[[Template, str, str], float]
Tables = dict[str, pd.DataFrame]


def write_run(
    folder: Path,
    p: P,
    *,
    model: str = "synthetic",
    n_pairs: int = 12,
    stimuli: StimulusSet | None = None,
    settings: Sequence[str] = SETTINGS,
    temperature: float = 0.5,
    temperatures: Sequence[float] = TEMPERATURES,
    valid: float = 0.9,
    parts: Sequence[str] = PARTS,
    draws: int = 0,
    change: Callable[[Tables], Mapping[str, pd.DataFrame]] = lambda tables: tables,
    finished: bool = True,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Write the run of a model that answers as `p` says.

    Args:
        folder: Run folder, absent or empty.
        p: From template, setting and option order ("none" in whole sentences) to p(f|c) at the primary temperature.
            Log-odds at T = 1 are its logit times the primary temperature; p at other temperatures follows from them.
        model: Its name.
        n_pairs: Pairs, from the beginning of the stimuli: three an occupation in the built-in ones.
        stimuli: None for the built-in ones.
        settings: Context settings measured.
        temperature: The primary one.
        temperatures: All; the primary one is among them.
        valid: p_feminine + p_masculine; the rest is half they, half other.
        parts: Of joint (each sentence primes the next), sentences (the same log-odds as the prompts') and comprehension
            (right in the first listing, wrong in the second).
        draws: Draws a prompt in exact proportion, at the primary temperature; 0 for none.
        change: Last hand on the tables.
        finished: Whether to write tables, summary and manifest.
        config: Entries that differ from a usual one.
    """
    stimuli = load_stimuli() if stimuli is None else stimuli
    pairs = stimuli.pairs[:n_pairs]
    about = {
        "job": "measure",
        "version": "0",
        "model": {"name": model, "identity": f"{model} in {folder}", "dtype": "float32", "device": "cpu"},
        "stimuli": {"name": stimuli.name, "sha256": stimuli.sha256, "n_pairs_available": len(stimuli.pairs)},
        "pairs": [pair.id for pair in pairs],
        "settings": list(settings),
        "temperature": temperature,
        "temperatures": list(temperatures),
        "seed": 0,
        **(config or {}),
    }
    run = open_run(folder, about, MEASUREMENT)
    if not finished:
        return folder
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in MEASUREMENT}
    for pair in pairs:
        for number, template in enumerate(pair.members, start=1):
            _add_template(rows, pair, template, number, p, settings, temperature, temperatures, valid, parts, draws)
        if "joint" in parts:
            rows["joint"] += _joint(pair, p, temperature, temperatures, valid)
    tables = {name: pd.DataFrame(rows[name], columns=[c.name for c in SCHEMAS[name]]) for name in MEASUREMENT}
    written = {name: conform(name, table) for name, table in change(tables).items()}
    counts = {name: len(table) for name, table in written.items()}
    run.finish(written, {"counts": counts}, {}, {"counts": counts})
    return folder


def few_resamples_in(patch: pytest.MonkeyPatch) -> None:
    """Makes analyses quick, where their intervals are not what is tested; undo it with `gc.unfreeze()`."""
    for module in RESAMPLING:
        patch.setattr(f"referent_probe.analysis.behaviour.{module}.RESAMPLES", 99)
    gc.freeze()  # statsmodels' multipletests collects garbage at every call, slowly among a test session's objects


def logit(p: float) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(p) - np.log1p(-p))


def at(p: float, temperature: float, primary: float) -> float:
    """The probability at another temperature than the primary one."""
    if temperature == primary:
        return p
    with np.errstate(over="ignore"):
        return float(1 / (1 + np.exp(-logit(p) * primary / temperature)))


def _add_template(
    rows: dict[str, list[dict[str, Any]]],
    pair: Pair,
    template: Template,
    number: int,
    p: P,
    settings: Sequence[str],
    temperature: float,
    temperatures: Sequence[float],
    valid: float,
    parts: Sequence[str],
    draws: int,
) -> None:
    for setting, order in product(settings, ORDERS):
        share = p(template, setting, order)
        cell = {"pair": pair.id, "template": template.id, "setting": setting, "option_order": order}
        rows["choices"].append(
            {
                **cell,
                "member": number,
                "occupation": template.occupation,
                "participant": template.participant,
                "case": str(template.case),
                "antecedent": str(template.antecedent),
                "antecedent_noun": template.antecedent_noun,
                "other_noun": template.other_noun,
                "tokens": 100,
                "ids": "0",
                "log_odds": logit(share) * temperature,
                "option_tokens": 1,
                "nodes": 1,
            }
        )
        for t in temperatures:
            feminine = at(share, t, temperature)
            rows["answers"].append(
                {
                    **cell,
                    "temperature": t,
                    "p_feminine": valid * feminine,
                    "p_masculine": valid * (1 - feminine),
                    "p_they": (1 - valid) / 2,
                    "p_other": (1 - valid) / 2,
                    "unexplored": 1e-9,
                }
            )
        if draws:
            n_valid = round(draws * valid)
            n_feminine = round(n_valid * share)
            counted = {"n_feminine": n_feminine, "n_masculine": n_valid - n_feminine}
            rest = {"n_they": 0, "n_other": draws - n_valid}
            rows["draws"].append({**cell, "temperature": temperature, "n": draws, **counted, **rest})
    for setting in settings if "sentences" in parts else ():
        odds = logit(p(template, setting, "none")) * temperature
        cell = {"pair": pair.id, "template": template.id, "setting": setting, "tokens": 9, "log_odds": odds}
        scores = {"log_p_feminine": odds - 20, "log_p_masculine": -20.0, "left_context_log_odds": 0.1}
        rows["sentences"].append({**cell, **scores})
    primed = [setting for setting in settings if setting in ("cf", "cm")] if "comprehension" in parts else []
    for setting, question, listing in product(primed, ("referent", "part_of_speech", "gender"), (0, 1)):
        right = "yes" if listing == 0 else "no"
        cell = {"pair": pair.id, "template": template.id, "setting": setting, "question": question, "ids": "0"}
        scores = {"p_right": 0.8 if listing == 0 else 0.2, "p_listed": 0.9}
        rows["comprehension"].append({**cell, "listing": listing, "right": right, "answer": "yes", **scores})


def _joint(pair: Pair, p: P, temperature: float, temperatures: Sequence[float], valid: float) -> list[dict[str, Any]]:
    """The first sentence is answered unprimed, and its answer primes the second."""
    rows = []
    for sentence_order, one, two, t in product((1, 2), ORDERS, ORDERS, temperatures):
        first, second = pair.members if sentence_order == 1 else pair.members[::-1]
        its, others = (one, two) if sentence_order == 1 else (two, one)
        unprimed = at(p(first, "c0", its), t, temperature)
        f, m = (at(p(second, setting, others), t, temperature) for setting in ("cf", "cm"))
        table = np.array([[unprimed * f, unprimed * (1 - f)], [(1 - unprimed) * m, (1 - unprimed) * (1 - m)]])
        table = table if sentence_order == 1 else table.T
        cells = dict(zip(("p_ff", "p_fm", "p_mf", "p_mm"), table.ravel().tolist(), strict=True))
        keys = {"pair": pair.id, "sentence_order": sentence_order, "option_order_1": one, "option_order_2": two}
        rows.append({**keys, "temperature": t, **cells, "p_valid": valid, "unexplored": 1e-9, "ids": "0"})
    return rows
