"""A model folder may hold the stimuli and the wording that are made for it; taken where no others are named."""

import os
from pathlib import Path

from referent_probe.errors import PromptError, ReferentProbeError, StimuliError
from referent_probe.stimuli.prompts import DEFAULT_WORDING, PromptWording, load_wording
from referent_probe.stimuli.quoting import printable, shown_path

STIMULI, WORDING = "stimuli.tsv", "prompts.toml"

TRUTH = "truth.json"
"""In the folder of a planted model, which says nothing of any sentences and wording but its own."""


def stimuli_for(model: str, given: str | None) -> str:
    """What to load as stimuli: what was named, else `stimuli.tsv` in the model's folder, else "builtin".

    Raises:
        StimuliError: `stimuli.tsv` is there and no file, or a planted model's folder lacks it.

    >>> stimuli_for("smollm2-135m-instruct", None)
    'builtin'
    """
    return given or beside(model, STIMULI, "--stimuli", StimuliError) or "builtin"


def wording_for(model: str, given: Path | None) -> PromptWording:
    """The wording from the file that was named, else from `prompts.toml` in the model's folder, else the built-in one.

    Raises:
        PromptError: The file cannot be read or used, or a planted model's folder lacks it.
    """
    path = given or beside(model, WORDING, "--prompts", PromptError)
    return load_wording(path) if path else DEFAULT_WORDING


def what_is_read(model: str, stimuli: str | None, prompts: Path | None) -> str:
    """Where stimuli and wording come from, in one line.

    Args:
        model: As in `stimuli_for`.
        stimuli: What was named, or None.
        prompts: What was named, or None.

    >>> what_is_read("smollm2-135m-instruct", None, Path("mine.toml"))
    'stimuli: builtin; wording: mine.toml'
    """
    wording = prompts or beside(model, WORDING, "--prompts", PromptError) or "builtin"
    return f"stimuli: {printable(stimuli_for(model, stimuli))}; wording: {printable(str(wording))}"


def beside(model: str, name: str, option: str, refusal: type[ReferentProbeError]) -> str | None:
    """The path of a file in the model's folder; None where `model` is no folder with that file.

    Args:
        model: Name or path of a model.
        name: Of the file.
        option: Of the command, that names another file.
        refusal: The kind of error to raise.

    Raises:
        ReferentProbeError: Of the kind `refusal`: it is there and no file, or a planted model's folder lacks it.
    """
    try:
        folder = Path(model).expanduser()
        path, is_planted = folder / name, (folder / TRUTH).is_file()
        is_file, is_there = path.is_file(), os.path.lexists(path)
    except (OSError, RuntimeError, ValueError):  # no path at all; loading the model says so
        return None
    if is_file:
        return str(path)
    if is_there:
        raise refusal(
            f"{name!r} in the model's folder {shown_path(model)} is no file; mend it, or name one with {option}"
        )
    if is_planted:
        raise refusal(
            f"the folder {shown_path(model)} is a planted model's ({TRUTH} is in it) and lacks {name!r}, without "
            f"which its truth does not hold; make it again with referent-probe planted, or name a file with {option}"
        )
    return None
