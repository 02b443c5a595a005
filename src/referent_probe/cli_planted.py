"""The command `planted`."""

from pathlib import Path
from typing import Annotated

import typer

from referent_probe.planted.rules import RULES


def planted(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(RULES)}.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Folder, absent or empty.", show_default=False)],
    architecture: Annotated[
        str | None,
        typer.Option("--architecture", help="plain (GPT-2) or grouped-query (Llama); by default the model's own."),
    ] = None,
) -> None:
    """Write a small transformer whose behaviour and carriers are known, as a model folder like any other."""
    from referent_probe.planted.plant import plant

    folder = plant(name, out, architecture)  # type: ignore[arg-type]  # checked there, with a message
    print(f"{name}: {RULES[name].words}. Its truth is in {folder / 'truth.json'}. Next:")
    print(f"    python experiments/patch_priming_pronoun.py --model {folder}")
