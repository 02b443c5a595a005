"""Does contextuality reflect that the model takes one person for the other?

    python experiments/referent_conflation.py
    python experiments/referent_conflation.py --model PATH_OR_HUB_ID --stimuli winopron-data.zip --out runs/conflation

Primes that differ in whose pronoun it is (the blank's own referent's, the other person's, a third person's, nobody's)
give a verdict on behaviour; heads that carry the other person's pronoun as such, and heads that copy any pronoun, are
chosen on one half of the data and cut on the other, and what remains of contextuality says what it was made of. The
answer is one sentence in summary.json.
"""

from pathlib import Path
from typing import Annotated

import typer

from referent_probe import cli, cli_jobs, cli_options
from referent_probe.jobs.conflation import ConflationJob
from referent_probe.jobs.settings import JobSettings


def main(
    model: cli_options.ModelOption = cli_options.DEFAULT_MODEL,
    frames: Annotated[
        Path | None, typer.Option("--frames", help="TOML file with one-person frames; by default the built-in ones.")
    ] = None,
    random_sets: Annotated[int, typer.Option("--random-sets", help="Random sets of heads of equal effect.")] = 200,
    stimuli: cli_options.ModelStimuliOption = None,
    password: cli_options.PasswordOption = None,
    pairs: cli_options.PairsOption = 40,
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
    """Say whether the model takes one person for the other, and which heads are behind it."""
    settings = JobSettings(
        model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv
    )
    cli_jobs.show_job(settings, ConflationJob(frames, random_sets=random_sets), as_json=as_json, quiet=quiet)


if __name__ == "__main__":
    cli.run_command(main)
