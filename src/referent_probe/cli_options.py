"""Options that several commands share, named and explained alike everywhere."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from referent_probe.cli_config import read_config

DEFAULT_MODEL = "smollm2-135m-instruct"
SECONDS_BETWEEN_LINES = 30  # where no progress bar can be drawn

ModelOption = Annotated[str, typer.Option("--model", help="Packaged model, folder, GGUF file or Hub id.")]
StimuliOption = Annotated[str, typer.Option("--stimuli", help="builtin, a TSV file, or WinoPron's zip.")]
ModelStimuliOption = Annotated[
    str | None,
    typer.Option(
        "--stimuli",
        help="builtin, a TSV file, or WinoPron's zip; by default stimuli.tsv in the model's folder, or builtin.",
    ),
]
PasswordOption = Annotated[
    str | None, typer.Option("--password", help="Of an encrypted zip; WinoPron's published one is tried first.")
]
PairsOption = Annotated[int, typer.Option("--pairs", help="Pairs, drawn by seed and spread over occupations.")]
FlowPairsOption = Annotated[
    int, typer.Option("--flow-pairs", help="Of these, pairs for the layer x span map (the slow part).")
]
PromptsOption = Annotated[
    Path | None,
    typer.Option("--prompts", help="TOML file with your own wording; by default prompts.toml in the model's folder."),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Run folder; by default under runs/, by model, stimuli, pairs, seed."),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Of every draw.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, …")]
DtypeOption = Annotated[
    Literal["float32", "bfloat16", "float16"], typer.Option("--dtype", help="Of the weights; float32 is exact.")
]
RevisionOption = Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of a Hub model.")]
SmallestOption = Annotated[
    float, typer.Option("--smallest-share", help="Smallest effect of interest, as a share of the total effect.")
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Write the tables as CSV too.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with any of these options.", callback=read_config, is_eager=True),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else, on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print only errors.")]
