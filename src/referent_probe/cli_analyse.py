"""The command `analyse`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from referent_probe.cli_guard import OutputError
from referent_probe.cli_options import ConfigOption, CsvOption, JsonOption, QuietOption, SeedOption
from referent_probe.cli_tables import (
    BESIDE_EACH_OTHER,
    choice_table,
    contextual_table,
    models_table,
    print_whole,
    shift_table,
)

if TYPE_CHECKING:
    from referent_probe.analysing import Analysed


def analyse(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished measurements, of the same stimuli.")],
    ratings: Annotated[
        str, typer.Option("--ratings", help="authors (WinoPron's, as in the paper), exact, or a file role,rating.")
    ] = "authors",
    margin: Annotated[
        float, typer.Option("--margin", help="Largest shift of log-odds that counts as none, in logits.")
    ] = 0.2,
    as_released: Annotated[
        bool, typer.Option("--as-released", help="Give the published alignment of ratings beside the right one.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the analysis; by default analysis/ in the run's folder.")
    ] = None,
    csv: CsvOption = False,
    seed: SeedOption = 0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """What finished measurements say: invariance, stereotype, information and contextuality, with intervals."""
    from referent_probe.analysing import analyse as run_analysis

    say = Console(stderr=True, quiet=quiet, highlight=False, markup=False, emoji=False)
    try:
        done = run_analysis(
            runs,
            ratings=ratings,
            margin=margin,
            as_released=as_released,
            out=out,
            seed=seed,
            csv=csv,
            notify=lambda line: say.print(line, soft_wrap=True),
        )
    except KeyboardInterrupt:
        print("stopped; the same command begins again", file=sys.stderr)
        raise SystemExit(130) from None
    try:
        if as_json:
            print(json.dumps(done.summary, indent=1))
        elif not quiet:
            print_analysed(done)
        print(end="", flush=True)
    except OutputError as error:
        raise OutputError(f"{error}; the analysis is complete, and its files are in {str(done.folder)!r}") from error


def print_analysed(done: "Analysed") -> None:
    """Tables and a paragraph a model, several models beside each other, and where the files are, on standard output."""
    out = Console(highlight=False, markup=False, emoji=False)
    if done.was_complete:
        out.print(f"{done.folder} holds this analysis already, complete; nothing was computed.\n", soft_wrap=True)
    settings = done.summary["settings"]
    for model in done.summary["models"]:
        kept = (done.quantities["model"] == model) & (done.quantities["reading"] == "choice")
        quantities, temperature = done.quantities[kept], settings["temperature"][model]
        names = settings["context_settings"][model]
        for table in (
            choice_table(quantities, model, temperature, names),
            shift_table(quantities, settings["margin"], names),
            contextual_table(quantities, temperature),
        ):
            print_whole(out, table)
            out.print()
    if len(done.summary["models"]) > 1:
        for about, names in BESIDE_EACH_OTHER.items():
            print_whole(out, models_table(done.quantities, settings["temperature"], about, names))
            out.print()
    out.print(done.paragraph.replace("\n", "\n\n"))
    out.print(f"\nFiles: {done.folder}/summary.json, *.parquet, manifest.json, figures/*.png and *.pdf", soft_wrap=True)
