"""In which layers does the answer read the prime, and from where?

    python experiments/knock_out_priming_pronoun.py
    python experiments/knock_out_priming_pronoun.py --queries later --window 1 --pairs 24 --out runs/knockout

Attention to the priming pronoun, to the whole prime and to controls is cut in windows of layers, before softmax and
after it; what remains of the prime's effect is drawn window by window.
"""

from typing import Annotated, Literal

import typer

from referent_probe import cli, cli_jobs, cli_options
from referent_probe.jobs.knockout import KnockoutJob
from referent_probe.jobs.settings import JobSettings


def main(
    model: cli_options.ModelOption = cli_options.DEFAULT_MODEL,
    window: Annotated[int, typer.Option("--window", help="Layers cut at once; 0 for a fifth of the model.")] = 0,
    mode: Annotated[Literal["both", "before", "after"], typer.Option("--mode", help="Cut before or after softmax.")] = (
        "both"
    ),
    queries: Annotated[Literal["target-slot", "later"], typer.Option("--queries", help="Whose attention is cut.")] = (
        "target-slot"
    ),
    stimuli: cli_options.ModelStimuliOption = None,
    password: cli_options.PasswordOption = None,
    pairs: cli_options.PairsOption = 12,
    order: cli_jobs.OrderOption = "both",
    prompts: cli_options.PromptsOption = None,
    out: cli_options.OutOption = None,
    seed: cli_options.SeedOption = 0,
    device: cli_options.DeviceOption = "auto",
    dtype: cli_options.DtypeOption = "float32",
    revision: cli_options.RevisionOption = None,
    smallest_share: cli_options.SmallestOption = 0.01,
    csv: cli_options.CsvOption = False,
    config: cli_options.ConfigOption = None,
    as_json: cli_options.JsonOption = False,
    quiet: cli_options.QuietOption = False,
) -> None:
    """Cut attention to the prime, in windows of layers, beside controls."""
    settings = JobSettings(
        model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv
    )
    cli_jobs.show_job(settings, KnockoutJob(window, mode, queries), as_json=as_json, quiet=quiet)


if __name__ == "__main__":
    cli.run_command(main)
