"""Reading a small file that a user names, without trusting it."""

from pathlib import Path

from referent_probe.errors import ReferentProbeError
from referent_probe.stimuli.quoting import printable, shown_path

SIZE_LIMIT = 1_000_000
"""Bytes; what is larger is no file of a few lines."""


def read_small_file(path: Path, refusal: type[ReferentProbeError], cure: str) -> bytes:
    """The bytes of a regular file of at most `SIZE_LIMIT`.

    Args:
        path: A pipe or a device is refused, since it may never end.
        refusal: The kind of error to raise.
        cure: What the user is told to do.

    Raises:
        ReferentProbeError: Of the kind `refusal`: the file is missing, not regular, unreadable or too large.

    Example:
        `read_small_file(Path("mine.toml"), OptionError, "give the path of a TOML file")`
    """
    shown = shown_path(path)
    try:
        if path.exists() and not path.is_file():
            raise refusal(f"cannot read {shown} (not a regular file): {cure}")
        with path.open("rb") as stream:
            content = stream.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise refusal(f"cannot read {shown} ({error.strerror}): {cure}") from error
    except ValueError as error:  # a NUL in the path
        raise refusal(f"cannot read {shown} ({printable(str(error))}): {cure}") from error
    if len(content) > SIZE_LIMIT:
        raise refusal(f"{shown} is larger than {SIZE_LIMIT} bytes: {cure}")
    return content
