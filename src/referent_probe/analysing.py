"""The analysis of finished measurements: from run folders to tables, a summary and a paragraph, in a run folder."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import pandas as pd
from matplotlib.figure import Figure

from referent_probe.analysis.behaviour.arrays import Arrays, as_arrays
from referent_probe.analysis.behaviour.clustered import RESAMPLES
from referent_probe.analysis.behaviour.compared import beside_each_other
from referent_probe.analysis.behaviour.contextual import overlap_quantities
from referent_probe.analysis.behaviour.counts import counts_of
from referent_probe.analysis.behaviour.finished import FinishedRun, read_runs
from referent_probe.analysis.behaviour.in_summary import beside_the_paper, nested, reported_values
from referent_probe.analysis.behaviour.quantities import found, quantities_table
from referent_probe.analysis.behaviour.roles import Source, ratings_of
from referent_probe.analysis.behaviour.sampled import ESTIMATOR
from referent_probe.analysis.behaviour.tables import Tables, tables_of
from referent_probe.analysis.behaviour.words import in_words
from referent_probe.analysis.contextuality import THRESHOLDS
from referent_probe.analysis.invariance import MARGIN, SENSITIVITY_MARGINS
from referent_probe.errors import OptionError, StimuliError
from referent_probe.figures_behaviour import figure_1, figure_2, figure_3, figure_invariance, figure_s4
from referent_probe.figures_contextuality import figure_4, figure_delta_c, figure_s5
from referent_probe.provenance import versions
from referent_probe.run_files import check_out
from referent_probe.stimuli.rows import WINOPRON_SHA256
from referent_probe.stimuli.templates import check_seed
from referent_probe.store import Run, open_run


@dataclass(frozen=True, eq=False)
class Analysed:
    """A finished analysis.

    Attributes:
        folder: Where it lies.
        summary: Content of `summary.json`.
        quantities: One number a row.
        pairs: A row a pair, estimator, option order and temperature.
        shifts: A row a template, setting and option order.
        paragraph: The finding in words, a line a model.
        was_complete: True where the analysis was there already and nothing was computed.
    """

    folder: Path
    summary: dict[str, Any]
    quantities: pd.DataFrame
    pairs: pd.DataFrame
    shifts: pd.DataFrame
    paragraph: str
    was_complete: bool


def analyse(
    runs: Sequence[str | Path] | str | Path,
    *,
    ratings: str | Path = "authors",
    margin: float = MARGIN,
    as_released: bool = False,
    out: str | Path | None = None,
    seed: int = 0,
    csv: bool = False,
    notify: Callable[[str], None] = lambda message: None,
) -> Analysed:
    """Everything that finished measurements say about pronoun choice, with intervals, in a folder of its own.

    Args:
        runs: Folder of a finished measurement, or several of one stimuli set.
        ratings: "authors" (as the paper's authors rated WinoPron's roles), "exact" (the role noun itself; both mean
            this for other stimuli), or the path of a rating file.
        margin: Largest shift of log-odds that counts as none, above 0, in logits.
        as_released: Whether to give the published alignment of ratings beside the right one.
        out: Folder of the analysis; None for `analysis` in the run's folder, or for several runs one under `runs/`.
        seed: Of every resample and shuffle.
        csv: Write the tables as CSV too.
        notify: Told what happens, a line at a time.

    Raises:
        ReferentProbeError: A run, a rating file, an option or the folder that the user can mend.

    Example:
        >>> done = analyse("runs/smol")  # doctest: +SKIP
        >>> done.summary["quantities"][done.summary["models"][0]]["noise_floor"]["both"]["occupation"]  # doctest: +SKIP
    """
    folders = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    if not 0 < margin < float("inf"):
        raise OptionError(f"--margin {margin} is no margin: give a number of logits above 0")
    check_seed(seed)
    finished = read_runs(folders)
    arrays = [as_arrays(run.tables, run.model, run.temperature) for run in finished]
    of_role, rated_by, rating_key = _ratings(ratings, finished, arrays)
    folder = Path(out) if out is not None else _default_folder(finished)
    check_out(folder)
    counts = {one.model: counts_of(one, its, of_role, rated_by) for one, its in zip(finished, arrays, strict=True)}
    config = {
        "job": "analyse",
        "version": versions()["referent-probe"],
        "runs": [{"model": run.model, "manifest_sha256": run.sha256} for run in finished],
        "ratings": rating_key,
        "margin": margin,
        "as_released": as_released,
        "seed": seed,
        "resamples": RESAMPLES,
    }
    run = open_run(folder, config, ())
    if run.complete:
        return _read_finished(run, csv)
    with run.writing_alone():
        parts = []
        for one, its in zip(finished, arrays, strict=True):
            notify(f"{one.model}: {len(its.templates)} templates, {len(its.pair_rows)} pairs")
            options: dict[str, Any] = {"margin": margin, "as_released": as_released, "seed": seed}
            parts.append(tables_of(its, of_role, n_expected_pairs=len(one.pairs), **options))
        tables = _joined(parts, arrays)
        summary = _summary(finished, arrays, tables, counts, config, rated_by)
        named = {"quantities": tables.quantities, "pairs": tables.pairs, "shifts": tables.shifts}
        rows = {name: len(table) for name, table in named.items()}
        run.finish(named, summary, _drawn(tables, summary), {"counts": rows}, csv=csv)
    return _read_finished(run, csv=False, was_complete=False)


def _ratings(
    source: str | Path, finished: Sequence[FinishedRun], arrays: Sequence[Arrays]
) -> tuple[dict[str, float], str, dict[str, Any]]:
    """Ratings by role noun, where they are from, and what fixes them."""
    given = str(source)
    nouns = {noun for run in arrays for name in ("occupation", "participant") for noun in run.templates[name]}
    stimuli, pairs = finished[0].stimuli, {pair for run in finished for pair in run.pairs}
    all_roles = len(pairs) == stimuli["n_pairs_available"]  # else a rated role may be in a pair that was not drawn
    is_winopron = stimuli["sha256"] == WINOPRON_SHA256
    if given not in get_args(Source) and not Path(given).exists():
        raise StimuliError(f"--ratings {given!r} is neither 'authors' nor 'exact' nor a file: give one of these")
    of_role, rated_by = ratings_of(nouns, given, is_winopron=is_winopron, all_roles=all_roles)
    rows = json.dumps(sorted(of_role.items())).encode("utf-8")
    return of_role, rated_by, {"from": rated_by, "sha256": sha256(rows).hexdigest()}


def _default_folder(finished: Sequence[FinishedRun]) -> Path:
    if len(finished) == 1:
        return finished[0].folder / "analysis"
    names = "_".join(run.model.replace("/", "-").replace(" ", "-") for run in finished)
    return Path("runs") / f"analysis_{names}"[:200]


def _drawn(tables: Tables, summary: Mapping[str, Any]) -> dict[str, Figure]:
    """The paper's figures, and two that it lacks."""
    settings, quantities = summary["settings"], tables.quantities
    temperature, margin = settings["temperature"], settings["margin"]
    return {
        "figure_1": figure_1(quantities, tables.shifts, temperature),
        "figure_2": figure_2(quantities, temperature),
        "figure_3": figure_3(quantities, temperature),
        "figure_4": figure_4(quantities, reported_values(), temperature),
        "figure_s4": figure_s4(quantities),
        "figure_s5": figure_s5(quantities),
        "delta_c": figure_delta_c(quantities, tables.pairs, temperature=temperature),
        "invariance": figure_invariance(quantities, margin),
    }


def _joined(parts: Sequence[Tables], arrays: Sequence[Arrays]) -> Tables:
    """The tables of all runs below each other, with the overlap between several."""
    quantities = [part.quantities for part in parts]
    if len(parts) > 1:
        exact = {
            run.model: part.pairs[part.pairs["estimator"] != ESTIMATOR] for run, part in zip(arrays, parts, strict=True)
        }
        primary = {run.model: run.temperatures[run.primary] for run in arrays}
        if all(len(table) for table in exact.values()):
            quantities.append(quantities_table(overlap_quantities(exact, primary), ""))
        if len(set(primary.values())) > 1:
            note = (
                f"models overlap at their own primary temperatures, {', '.join(f'{t:.12g}' for t in primary.values())}"
            )
            row = found("missing", 1.0, factor="common_temperature", note=note)
            quantities.append(quantities_table([row], " & ".join(primary)))
    columns = [[getattr(part, name) for part in parts] for name in ("pairs", "shifts")]
    pairs, shifts = (pd.concat([t for t in c if len(t)] or c[:1], ignore_index=True) for c in columns)
    return Tables(pd.concat(quantities, ignore_index=True), pairs, shifts)


def _summary(
    finished: Sequence[FinishedRun],
    arrays: Sequence[Arrays],
    tables: Tables,
    counts: Mapping[str, Any],
    config: Mapping[str, Any],
    rated_by: str,
) -> dict[str, Any]:
    of_model = {run.model: tables.quantities[tables.quantities["model"] == run.model] for run in finished}
    primary = {run.model: run.temperatures[run.primary] for run in arrays}
    readings = {
        key: {model: nested(table[table["reading"] == reading]) for model, table in of_model.items()}
        for key, reading in (("quantities", "choice"), ("whole_sentence", "whole_sentence"))
    }
    between = tables.quantities[tables.quantities["quantity"].str.startswith("overlap_")]
    words = {
        m: in_words(table, {k: v["found"] for k, v in counts[m].items()}, primary[m], float(config["margin"]))
        for m, table in of_model.items()
    }
    paragraphs = [*words.values(), *([beside_each_other(tables.quantities, primary)] if len(words) > 1 else [])]
    return {
        "models": [run.model for run in finished],
        "stimuli": dict(finished[0].stimuli),
        "settings": {
            "margin": config["margin"],
            "sensitivity_margins": list(SENSITIVITY_MARGINS),
            "thresholds": list(THRESHOLDS),
            "temperature": primary,
            "ratings": rated_by,
            "as_released": config["as_released"],
            "resamples": RESAMPLES,
            "seed": config["seed"],
            "context_settings": {run.model: list(run.settings) for run in arrays},
        },
        "counts": dict(counts),
        **readings,
        "overlap": {
            reading: {m: nested(part) for m, part in of_reading.groupby("model", sort=False)}
            for reading, of_reading in between.groupby("reading", sort=False)
        },
        "beside_the_paper": {
            m: beside_the_paper(table[table["reading"] == "choice"], primary[m], str(finished[0].stimuli["name"]))
            for m, table in of_model.items()
        },
        "in_words": "\n".join(paragraphs),
    }


def _read_finished(run: Run, csv: bool, was_complete: bool = True) -> Analysed:
    names = ("quantities", "pairs", "shifts")
    tables = {name: pd.read_parquet(run.folder / f"{name}.parquet") for name in names}
    if csv:
        run.write_csv()
    summary = json.loads((run.folder / "summary.json").read_text(encoding="utf-8"))
    return Analysed(run.folder, summary, **tables, paragraph=summary["in_words"], was_complete=was_complete)
