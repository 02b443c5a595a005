"""Surveys of several models beside each other: total effects, carriers, flow maps, agreement of head rankings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
from statsmodels.stats.multitest import multipletests

from referent_probe.analysis.inference import cluster_means, max_t_sign_flip
from referent_probe.analysis.stability import agreement_of_runs
from referent_probe.analysis.summary_parts import records_in_json
from referent_probe.errors import RunError
from referent_probe.jobs.effects import as_flow, p_value
from referent_probe.jobs.job import FinishedJob, Tables
from referent_probe.jobs.survey import single_effects
from referent_probe.provenance import versions
from referent_probe.run_files import check_out, sha256_of
from referent_probe.store import open_run


@dataclass(frozen=True)
class Survey:
    """A finished survey.

    Attributes:
        name: Of its model; with the folder's name where two are of one model.
        folder: The run folder.
        summary: Content of `summary.json`.
        tables: Its tables by name.
    """

    name: str
    folder: Path
    summary: Mapping[str, Any]
    tables: Tables


def read_surveys(folders: Sequence[Path]) -> list[Survey]:
    """Finished surveys, with names that differ.

    Raises:
        RunError: A folder holds no finished survey, or the same one is given twice.
    """
    found: list[tuple[Path, dict[str, Any]]] = []
    for folder in folders:
        try:
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(
                f"{str(folder)!r} holds no finished run; give folders of `referent-probe survey`, or models to survey"
            ) from error
        if manifest.get("config", {}).get("job") != "survey":
            raise RunError(
                f"{str(folder)!r} holds a run of {manifest.get('config', {}).get('job')!r}; give folders of "
                "`referent-probe survey`"
            )
        found.append((folder, summary))
    if len({folder.resolve() for folder, _ in found}) < len(found):
        raise RunError("the same survey is given twice; give each once")
    models = [str(summary["model"]["name"]) for _, summary in found]
    names = [
        model if models.count(model) == 1 else f"{model} ({folder.name})"
        for model, (folder, _) in zip(models, found, strict=True)
    ]
    return [
        Survey(name, folder, summary, {file.stem: pd.read_parquet(file) for file in folder.glob("*.parquet")})
        for name, (folder, summary) in zip(names, found, strict=True)
    ]


def compare_surveys(folders: Sequence[Path], out: Path, *, seed: int = 0, csv: bool = False) -> FinishedJob:
    """Put surveys beside each other.

    Args:
        folders: Of finished surveys, at least two.
        out: Folder of the comparison.
        seed: Of tests and bootstrap.
        csv: Write the tables as CSV too.

    Raises:
        RunError: A folder holds no finished survey, or fewer than two are given.

    Example:
        >>> compare_surveys([Path("runs/a"), Path("runs/b")], Path("runs/a-b"))  # doctest: +SKIP
    """
    from referent_probe.figures_flow import flow_maps

    if len(folders) < 2:
        raise RunError(f"{len(folders)} survey given; give at least two to compare")
    surveys = read_surveys(folders)
    check_out(out)
    config = {
        "job": "compare",
        "version": versions()["referent-probe"],
        "runs": [{"name": one.name, "manifest": sha256_of(one.folder / "manifest.json")} for one in surveys],
        "seed": seed,
    }
    run = open_run(out, config, ())
    if run.complete:
        if csv:
            run.write_csv()
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        return FinishedJob(out, summary, summary["leading"], was_complete=True)
    table = _models(surveys, seed)
    agreement = _agreement(surveys, seed)
    flows = {one.name: as_flow(one.tables["flow_effects"], "denoise") for one in surveys if _has_flow(one)}
    leading = [["model", "total effect, logits", "p (Holm)", "carriers in both directions", "confirmed both ways"]]
    for row in table.to_dict("records"):
        total = f"{row['total_mean']:+.2f} [{row['total_low']:+.2f}, {row['total_high']:+.2f}]"
        leading.append([row["model"], total, p_value(row["p_holm"]), row["carriers"] or "none", row["confirmed"]])
    words = _in_words(table, agreement)
    summary = {
        "job": "compare",
        "models": records_in_json(table),
        "agreement": records_in_json(agreement),
        "in_words": words,
        "leading": leading,
    }
    with run.writing_alone():
        figures = {"flow_maps": flow_maps(flows)} if flows else {}
        run.finish(
            {"models": table, "agreement": agreement}, summary, figures, {"counts": {"models": len(table)}}, csv=csv
        )
    return FinishedJob(out, summary, leading, was_complete=False)


def _has_flow(survey: Survey) -> bool:
    flow = survey.tables["flow_effects"]
    return bool(len(flow)) and bool(flow["reason"].isna().any())


def _models(surveys: Sequence[Survey], seed: int) -> pd.DataFrame:
    """A row a model; p of the total effect by sign flips over occupations, corrected by Holm over the models."""
    rows = []
    for one in surveys:
        contrasts = one.tables["contrasts"].dropna(subset=["total_effect"])
        means = cluster_means(contrasts["total_effect"].to_numpy(), list(contrasts["occupation"]))
        total, heads = one.summary["total_effect"], one.tables["head_effects"]
        both = heads[heads["carrier"] == "both"]
        order = both["denoise_mean"].abs().sort_values(ascending=False).index
        carriers = [f"{layer}.{head}" for layer, head in both.loc[order, ["layer", "head"]].to_numpy()]
        confirmed = {(row["layer"], row["head"]) for row in one.summary["held_out"]["confirmed"] if row["ways"] == 2}
        rows.append(
            {
                "model": one.name,
                "layers": int(heads["layer"].max()) + 1,
                "heads": int(heads["head"].max()) + 1,
                "total_mean": total["mean"],
                "total_low": total["ci95"][0],
                "total_high": total["ci95"][1],
                "p": float(max_t_sign_flip(means, seed=seed)[0]),
                "n": len(means),
                "carriers": ", ".join(carriers),
                "confirmed": ", ".join(f"{layer}.{head}" for layer, head in sorted(confirmed)) or "none",
            }
        )
    table = pd.DataFrame(rows).astype({"total_low": float, "total_high": float})
    table.insert(7, "p_holm", multipletests(table["p"], method="holm")[1])
    return table


def _agreement(surveys: Sequence[Survey], seed: int) -> pd.DataFrame:
    """Rankings of heads, of every two models with the same layers and heads."""
    parts = []
    for one, other in combinations(surveys, 2):
        a, b = single_effects(one.tables), single_effects(other.tables)
        if set(zip(a["layer"], a["head"], strict=True)) == set(zip(b["layer"], b["head"], strict=True)):
            parts.append(agreement_of_runs(a, b, seed).assign(a=one.name, b=other.name))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _in_words(table: pd.DataFrame, agreement: pd.DataFrame) -> str:
    sentences = []
    for row in table.to_dict("records"):
        moved = (
            "follows" if row["total_low"] > 0 else "opposes" if row["total_high"] < 0 else "shows no settled stance to"
        )
        sentences.append(
            f"{row['model']} {moved} the other person's pronoun ({row['total_mean']:+.2f} logits "
            f"[{row['total_low']:+.2f}, {row['total_high']:+.2f}], n = {row['n']} occupations, p "
            f"{p_value(row['p_holm'])} after Holm's correction)."
        )
    for row in agreement.to_dict("records"):
        sentences.append(
            f"Head rankings of {row['a']} and {row['b']} in {row['direction'][:-1]}ing: Spearman {row['spearman']:.2f} "
            f"[{row['low']:.2f}, {row['high']:.2f}]."
        )
    return " ".join(sentences)
