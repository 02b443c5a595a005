"""The frames and mentions that come with the package, and which ones a run takes."""

from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from referent_probe.errors import StimuliError
from referent_probe.stimuli.beside_model import beside
from referent_probe.stimuli.frames import Frame, load_frames
from referent_probe.stimuli.mentions import Mention, load_mentions

FRAMES = "frames.toml"


@cache
def builtin_frames() -> tuple[Frame, ...]:
    """Eight frames a case, in the order in which they are used.

    Example:
        >>> from referent_probe.stimuli.options import Gender
        >>> builtin_frames()[0].filled("nurse", Gender.MASCULINE)
        'The nurse answered the letter as politely as he could.'
    """
    with as_file(files("referent_probe.stimuli") / "data" / FRAMES) as path:
        return load_frames(path)


@cache
def builtin_mentions() -> tuple[Mention, ...]:
    """Sentences about a word, some with one token after it and some with two."""
    with as_file(files("referent_probe.stimuli") / "data" / FRAMES) as path:
        return load_mentions(path)


def frames_for(model: str, given: Path | None) -> tuple[Frame, ...]:
    """Frames of the file that was named, else of `frames.toml` in the model's folder, else the built-in ones.

    Raises:
        StimuliError: The file cannot be read or used.

    Example:
        >>> frames_for("smollm2-135m-instruct", None) == builtin_frames()
        True
    """
    path = given or beside(model, FRAMES, "--frames", StimuliError)
    return load_frames(path) if path else builtin_frames()


def mentions_for(model: str, given: Path | None) -> tuple[Mention, ...]:
    """Mentions of the same file; the built-in ones where it has none.

    Raises:
        StimuliError: The file cannot be read or used.
    """
    path = given or beside(model, FRAMES, "--frames", StimuliError)
    return (load_mentions(path) if path else ()) or builtin_mentions()
