"""The behavioural analysis of arXiv 2603.23485 in one go, exact: measure, analyse, figures, table beside the paper.

    python experiments/reproduce_contextual_invariance.py
    python experiments/reproduce_contextual_invariance.py --stimuli winopron-data.zip --out runs/winopron
    python experiments/reproduce_contextual_invariance.py --pairs 20 --draws 200

A stopped run goes on with the same command. The measurement is in the run folder, the analysis in its analysis/.
"""

from typing import Annotated

import typer

from referent_probe import cli, cli_options
from referent_probe.analysing import analyse
from referent_probe.cli_analyse import print_analysed
from referent_probe.cli_measure import measure_with_bar
from referent_probe.measure_settings import MeasureSettings


def main(
    model: cli_options.ModelOption = cli_options.DEFAULT_MODEL,
    stimuli: cli_options.ModelStimuliOption = None,
    password: cli_options.PasswordOption = None,
    pairs: Annotated[int | None, typer.Option("--pairs", help="Pairs, drawn by seed; all by default.")] = None,
    draws: Annotated[int, typer.Option("--draws", help="Answers to draw beside the exact probabilities.")] = 0,
    ratings: Annotated[str, typer.Option("--ratings", help="authors, exact, or a file role,rating.")] = "authors",
    prompts: cli_options.PromptsOption = None,
    out: cli_options.OutOption = None,
    seed: cli_options.SeedOption = 0,
    device: cli_options.DeviceOption = "auto",
    dtype: cli_options.DtypeOption = "float32",
    revision: cli_options.RevisionOption = None,
    csv: cli_options.CsvOption = False,
    config: cli_options.ConfigOption = None,
    quiet: cli_options.QuietOption = False,
) -> None:
    """Measure pronoun choice in every context setting, and say what it shows, beside what the paper reports."""
    settings = MeasureSettings(
        model, stimuli, password, pairs, draws=draws, prompts=prompts, out=out, seed=seed, device=device, dtype=dtype,
        revision=revision, csv=csv,
    )  # fmt: skip
    measured = measure_with_bar(settings, quiet=quiet)
    analysed = analyse(measured.folder, ratings=ratings, as_released=True, seed=seed, csv=csv)
    if not quiet:
        print_analysed(analysed)


if __name__ == "__main__":
    cli.run_command(main)
