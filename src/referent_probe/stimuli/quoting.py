"""How a message shows what a user gave: on one line, short, and without a byte that a terminal would obey."""

from pathlib import Path
from typing import Any

QUOTED_LENGTH = 60
"""The most characters of an input that a message quotes."""

PATH_LENGTH = 200
"""Of a path, whose end tells one from another."""


def printable(text: str) -> str:
    r"""The text with escapes for what does not print: control characters, and bytes that were no UTF-8.

    >>> printable("a\x1b[1mb")
    'a\\x1b[1mb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quoted(value: Any, length: int = QUOTED_LENGTH) -> str:
    """The value as Python spells it, cut where it is long.

    >>> quoted("a" * 100, 5)
    "'aaaaa…'"
    """
    if isinstance(value, str):
        return repr(value if len(value) <= length else value[:length] + "…")
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deep, or an integer of thousands of digits
        return f"a huge {type(value).__name__}"
    return text if len(text) <= length else text[:length] + "…"


def shown_path(path: str | Path) -> str:
    """A path as Python spells it, its middle cut out where it is long.

    >>> shown_path("frames.toml"), len(shown_path("a" * 5000))
    ("'frames.toml'", 203)
    """
    text, half = str(path), PATH_LENGTH // 2
    return repr(text if len(text) <= PATH_LENGTH else f"{text[:half]}…{text[-half:]}")
