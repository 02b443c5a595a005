"""Small TOML files that a user writes: a prompt's wording, or a command's options."""

import re
import tomllib
from pathlib import Path
from typing import Any

from referent_probe.errors import ReferentProbeError
from referent_probe.stimuli.quoting import printable, shown_path
from referent_probe.stimuli.small_file import read_small_file

KEY_DEPTH = 50
"""The most names that a dotted key may join: tomllib's time and memory grow with the square of their number."""

# Starts only where a name starts, so that a text of any length is read once.
_DEEP_KEY = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{KEY_DEPTH}}}""")


def read_toml(path: str | Path, refusal: type[ReferentProbeError]) -> dict[str, Any]:
    """Reads a TOML file of a few lines.

    Args:
        path: of a regular file; a pipe or a device is refused, since it may never end.
        refusal: the kind of error to raise.

    Raises:
        ReferentProbeError: of the kind `refusal`: the file is missing, no regular file, too large, or no TOML.

    Example:
        For a file with the line `pairs = 8` it returns `{"pairs": 8}`.
    """
    path, shown = Path(path), shown_path(path)
    content = read_small_file(path, refusal, "give the path of a TOML file of a few lines")
    try:
        text = content.decode("utf-8-sig")
        if _DEEP_KEY.search(text):
            raise refusal(f"{shown} has a dotted key of over {KEY_DEPTH} names: give a TOML file of a few lines")
        return tomllib.loads(text)
    except RecursionError as error:
        raise refusal(f"{shown} is not TOML: values are nested too deep: mend it there") from error
    except ValueError as error:  # broken TOML, with its line, or no UTF-8
        raise refusal(f"{shown} is not TOML: {printable(str(error))}: mend it there") from error
