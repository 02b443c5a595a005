"""The command `planted`."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from referent_probe.planted.rules import RULES
from referent_probe.stimuli.quoting import printable


def planted(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(RULES)}.", show_default=False)],
    # As text, since a path of no letters would be taken for the working folder.
    out: Annotated[str, typer.Option("--out", help="Folder, absent or empty.", show_default=False)],
    architecture: Annotated[
        str | None,
        typer.Option("--architecture", help="plain (GPT-2) or grouped-query (Llama); by default the model's own."),
    ] = None,
) -> None:
    """Write a small transformer whose behaviour and carriers are known, as a model folder like any other."""
    try:
        from referent_probe.planted.plant import plant

        folder = plant(name, out, architecture)  # type: ignore[arg-type]  # checked there, with a message
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        raise SystemExit(130) from None
    print(f"{name}: {RULES[name].words}. Its truth is in {printable(str(folder / 'truth.json'))}. Next:")
    print(f"    python experiments/patch_priming_pronoun.py --model {as_model(folder)}")


def as_model(folder: Path) -> str:
    r"""A folder as a shell takes it for the name of a model: never for an option or a name that is known.

    What does not print is written as escapes, which bash and zsh read.

    >>> as_model(Path("models/my model")), as_model(Path("phi-4")), as_model(Path("/a\nb"))
    ("'models/my model'", './phi-4', "$'/a\\x0ab'")
    """
    text = str(folder)
    if not folder.is_absolute() and (len(folder.parts) == 1 or text.startswith("-")):
        text = f"./{text}"
    if text.isprintable():
        return shlex.quote(text)
    plain = set(range(32, 127)) - set(b"'\\")
    return "$'" + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in os.fsencode(text)) + "'"
