"""Finished measurement runs as an analysis takes them: read, checked, and fit to stand beside each other."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from referent_probe.errors import RunError
from referent_probe.records import MEASUREMENT, conform
from referent_probe.run_files import read_object
from referent_probe.store import open_run

_AGAIN = "measure it again"

LARGEST_LOG_ODDS = 1e6
"""Of a measurement, in logits: no model in use comes near it."""

# Columns that tell a table's rows apart, as far as it has them.
_NAMES = (
    "pair", "template", "setting", "option_order", "temperature", "sentence_order", "option_order_1", "option_order_2",
    "question", "listing", "occupation", "antecedent_noun",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A finished measurement.

    Attributes:
        folder: Its run folder.
        model: Name for tables, unlike that of any other run of the analysis.
        stimuli: `name`, `sha256` and `n_pairs_available` of the stimuli set.
        pairs: Ids of the pairs that were to be measured.
        temperature: The primary one.
        sha256: Of its manifest, which holds the hashes of all tables.
        config: What fixed its results.
        tables: By the names of `records.MEASUREMENT`.
    """

    folder: Path
    model: str
    stimuli: Mapping[str, Any]
    pairs: tuple[str, ...]
    temperature: float
    sha256: str
    config: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]


def read_runs(folders: Sequence[Path]) -> tuple[FinishedRun, ...]:
    """Finished measurements of one stimuli set, in the order given.

    Raises:
        RunError: No folder, one given twice, one that is no finished measurement or is damaged, or different stimuli.
    """
    if not folders:
        raise RunError("no run to analyse: give the folder of a finished measurement")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError(f"a run is given twice among {', '.join(map(repr, map(str, folders)))}: give each once")
    runs = [read_run(folder) for folder in folders]
    first = runs[0]
    for run in runs[1:]:
        if run.stimuli["sha256"] != first.stimuli["sha256"]:
            one, other = (f"{str(x.folder)!r} has {_stimuli(x)}" for x in (first, run))
            raise RunError(f"runs of different stimuli: {one}, {other}; analyse each by itself")
    seen: dict[str, Path] = {}
    for run in runs:
        if (earlier := seen.setdefault(json.dumps(run.config, sort_keys=True), run.folder)) != run.folder:
            raise RunError(
                f"{str(earlier)!r} and {str(run.folder)!r} are the same measurement, of the same model, prompts and "
                "settings: give one of them"
            )
    names = Counter(run.model for run in runs)
    named = [replace(r, model=f"{r.model} ({r.folder.name})") if names[r.model] > 1 else r for r in runs]
    again = Counter(run.model for run in named)
    return tuple(replace(r, model=f"{r.model} {i}") if again[r.model] > 1 else r for i, r in enumerate(named, start=1))


def read_run(folder: Path) -> FinishedRun:
    """A finished measurement from its folder, every byte of it as it was written.

    Raises:
        RunError: The folder is not there, is no measurement, is not finished or is damaged.
    """
    if not (folder / "config.json").is_file():
        raise RunError(f"{str(folder)!r} is no run folder: give one that `referent-probe measure` has written")
    config = read_object(folder / "config.json", _AGAIN)
    if config.get("job") != "measure":
        found = f"a run of {config['job']!r}" if isinstance(config.get("job"), str) else "no run"
        raise RunError(f"{str(folder)!r} is {found}: give a folder that `referent-probe measure` has written")
    if not (folder / "manifest.json").is_file():
        raise RunError(
            f"the measurement in {str(folder)!r} is not finished: give the same `referent-probe measure` command "
            "again, it goes on where it was"
        )
    open_run(folder, config, MEASUREMENT)  # every file is as its hash says, and the config as in the manifest
    try:
        name, pairs, temperature = str(config["model"]["name"]), tuple(config["pairs"]), float(config["temperature"])
        stimuli = {key: config["stimuli"][key] for key in ("name", "sha256", "n_pairs_available")}
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{str(folder)!r} is damaged (config.json: {error!r}): measure it again") from error
    tables = {table: _table(folder, table) for table in MEASUREMENT if (folder / f"{table}.parquet").is_file()}
    sha256 = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    return FinishedRun(folder, name, stimuli, pairs, temperature, sha256, config, tables)


def _table(folder: Path, name: str) -> pd.DataFrame:
    try:
        table = conform(name, pd.read_parquet(folder / f"{name}.parquet"))
    except (OSError, ValueError) as error:  # pyarrow's errors are among them
        raise RunError(f"table {name!r} of {str(folder)!r} cannot be used ({error}): measure it again") from error
    if problem := _impossible(table):
        raise RunError(f"table {name!r} of {str(folder)!r} cannot be used ({problem}): measure it again")
    return table


def _impossible(table: pd.DataFrame) -> str | None:
    """What no measurement writes: two rows of one thing, a thing without a name, no probability where one belongs."""
    keys = [name for name in _NAMES if name in table]
    if table[keys].isna().any(axis=None):
        return f"a row without {table[keys].isna().any().idxmax()}"
    if table.duplicated(keys).any():
        return "two rows for the same " + ", ".join(keys)
    if "member" in table:
        members = table[["pair", "template", "member"]].drop_duplicates()
        if members.duplicated(["pair", "member"]).any() or not members["member"].isin([1, 2]).all():
            return "a pair whose templates are not its members 1 and 2"
    for name in table.columns:
        if name.startswith("p_") and not (table[name].isna() | table[name].between(-1e-6, 1 + 1e-6)).all():
            return f"{name} lies outside 0 to 1"
        if name.startswith("log_odds") and (np.isfinite(table[name]) & (table[name].abs() > LARGEST_LOG_ODDS)).any():
            return f"{name} lies beyond {LARGEST_LOG_ODDS:g} logits"
    return None


def _stimuli(run: FinishedRun) -> str:
    return f"{run.stimuli['name']!r} (sha256 {str(run.stimuli['sha256'])[:12]})"
