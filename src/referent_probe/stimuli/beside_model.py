"""A model folder may hold the stimuli and the wording that are made for it; taken where no others are named."""

from pathlib import Path

from referent_probe.stimuli.prompts import DEFAULT_WORDING, PromptWording, load_wording

STIMULI, WORDING = "stimuli.tsv", "prompts.toml"


def stimuli_for(model: str, given: str | None) -> str:
    """What to load as stimuli: what was named, else `stimuli.tsv` in the model's folder, else "builtin".

    >>> stimuli_for("smollm2-135m-instruct", None)
    'builtin'
    """
    return given or _beside(model, STIMULI) or "builtin"


def wording_for(model: str, given: Path | None) -> PromptWording:
    """The wording from the file that was named, else from `prompts.toml` in the model's folder, else the built-in one.

    Raises:
        PromptError: The file cannot be read or used.
    """
    path = given or _beside(model, WORDING)
    return load_wording(path) if path else DEFAULT_WORDING


def _beside(model: str, name: str) -> str | None:
    try:
        path = Path(model).expanduser() / name
        return str(path) if path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # no path at all; loading the model says so
        return None
