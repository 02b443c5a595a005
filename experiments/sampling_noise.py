"""What would n draws have said of the same model?

    python experiments/sampling_noise.py
    python experiments/sampling_noise.py --run runs/smol --out runs/noise

A pair is contextual when dC > 0. From draws, two ways to say so are set side by side: dC of the frequencies is above 0
(plain), or the intersection-union test rejects (honest). First for pairs that are not contextual by construction, then,
with --run, for every pair of a finished measurement, whose exact probabilities are taken as the truth.
"""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from referent_probe import cli, cli_options, store
from referent_probe.analysis import sampling_noise as noise
from referent_probe.analysis.behaviour.finished import read_run
from referent_probe.analysis.noise_in_words import noise_summary
from referent_probe.cli_tables import print_whole
from referent_probe.figures_noise import noise_against_draws

HEADS = {
    "false_calls": ("pairs with dC <= 0 that are called", "pairs"),
    "missed": ("pairs with dC > 0 that are not called", "pairs"),
    "false_among_calls": ("calls that are false", "data sets"),
}
NOTE = """In %, with the 95 % interval of the simulation: how exact it is, not how far other pairs would differ. n:
simulated pairs, or data sets. one, mf, fm: an option order; union: at least one of two. plain: dC of the frequencies
above 0; honest: the intersection-union test; BH: adjusted by Benjamini-Hochberg over pairs.
""".replace("\n", " ")


def main(
    run: Annotated[Path | None, typer.Option("--run", help="Folder of a finished measurement.")] = None,
    simulations: Annotated[int, typer.Option("--simulations", help="Pairs a boundary.", min=2)] = 2000,
    data_sets: Annotated[int, typer.Option("--data-sets", help="Simulated runs of the measurement.", min=2)] = 100,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for tables, summary and figure.")] = None,
    seed: cli_options.SeedOption = 0,
    config: cli_options.ConfigOption = None,
    as_json: cli_options.JsonOption = False,
    quiet: cli_options.QuietOption = False,
) -> None:
    """False contextual calls, and missed ones, against draws a cell: the plain call and the honest test."""
    measured = read_run(run) if run else None
    settings = {
        "job": "sampling_noise",
        "version": store.versions()["referent-probe"],
        "run": {"model": measured.model, "manifest_sha256": measured.sha256} if measured else None,
        "draws": list(noise.DRAWS),
        "simulations": simulations,
        "data_sets": data_sets if measured else None,
        "level": noise.LEVEL,
        "seed": seed,
    }
    truth = noise.truth_of_run(measured) if measured else None
    kept = store.open_run(out, settings, ()) if out else None
    if kept and kept.complete:
        table = pd.read_parquet(kept.folder / "noise.parquet")
        summary = json.loads((kept.folder / "summary.json").read_text(encoding="utf-8"))
    else:
        with kept.writing_alone() if kept else nullcontext():
            table = simulate(truth, simulations, data_sets, seed, quiet)
            summary = {"settings": settings, **noise_summary(table, truth)}
            if kept:
                figures = {"sampling_noise": noise_against_draws(table, noise.LEVEL)}
                kept.finish({"noise": table}, summary, figures, {"counts": {"noise": len(table)}}, csv=True)
    if as_json:
        print(json.dumps(summary, indent=1))
    elif not quiet:
        if kept and kept.complete:
            print(f"{kept.folder} holds this already, complete; nothing was computed.\n")
        show(table, summary)
        print(f"\nFiles: {out}/noise.csv, summary.json, figures/sampling_noise.png and .pdf" if out else "")


def simulate(truth: noise.Truth | None, simulations: int, data_sets: int, seed: int, quiet: bool) -> pd.DataFrame:
    """The tables of both boundaries and of the run below each other, with a line of progress."""
    say = Console(stderr=True, quiet=quiet, highlight=False, markup=False, emoji=False)
    steps = len(noise.DRAWS) * (len(noise.BOUNDARIES) + (truth is not None))
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=say) as bar:
        task = bar.add_task("simulating", total=steps)
        options: dict[str, Any] = {"seed": seed, "notify": lambda line: bar.update(task, advance=1, description=line)}
        tables = [noise.boundary_noise(n_simulations=simulations, **options)]
        if truth is not None:
            tables.append(noise.sampling_noise(truth.rates, truth.model, n_data_sets=data_sets, **options))
    return pd.concat(tables, ignore_index=True)


def show(table: pd.DataFrame, summary: dict[str, Any]) -> None:
    """A table a truth and kind of error, in percent, and the paragraph."""
    out = Console(highlight=False, markup=False, emoji=False)
    for (truth, quantity), its in table.groupby(["truth", "quantity"], sort=False):
        what, n_of = HEADS[quantity]
        title, calls = f"{truth}: {what}", [call for call in noise.CALLS if (its["call"] == call).any()]
        shown = Table("draws", "order", title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False)
        for name in (f"n {n_of}", *(noise.CALLS[call] for call in calls)):
            shown.add_column(name, justify="right", no_wrap=True)
        for (draws, order), rows in its.groupby(["draws", "option_order"], sort=False):
            cells = {row["call"]: text(row) for row in rows.to_dict("records")}
            shown.add_row(str(draws), str(order), f"{rows['of'].iloc[0]:,}", *(cells[call] for call in calls))
        print_whole(out, shown)
        out.print()
    out.print(f"{NOTE}\n")
    out.print(summary["in_words"])


def text(row: dict[Any, Any]) -> str:
    """A share with its interval, and the exact one where it is known."""
    share, low, high, exact = (100 * row[name] for name in ("share", "low", "high", "exact"))
    return f"{share:.1f} [{low:.1f}, {high:.1f}]" + ("" if exact != exact else f", exact {exact:.1f}")


if __name__ == "__main__":
    cli.run_command(main)
