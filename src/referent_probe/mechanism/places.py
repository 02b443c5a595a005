"""Where something is patched or cut, as users write it: heads, and places of a prompt as token positions.

Nothing here needs a model, so that a slip is refused before one is loaded.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from referent_probe.errors import OptionError, PromptError
from referent_probe.stimuli.primes import Span
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    from referent_probe.mechanism.contrasts import Contrast


TARGET_SLOT, ALL, EACH_SPAN, EACH_POSITION = "target-slot", "all", "each-span", "each-position"
SPANS = {str(span).replace("_", "-"): span for span in Span}

HEAD = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
"""LAYER.HEAD, from 0."""

BEFORE_THE_PRIME = "before the first difference, so that causality leaves nothing to patch"


def read_heads(text: str) -> tuple[tuple[int, int], ...] | None:
    """Layers and heads, from 0, of heads as they are written; None for "all".

    Raises:
        OptionError: Something between the commas is no head.

    Example:
        >>> read_heads("20.3, 26.0")
        ((20, 3), (26, 0))
    """
    if text.strip() == ALL:
        return None
    heads = []
    for part in text.split(","):
        found = HEAD.fullmatch(part.strip())
        if found is None:
            raise OptionError(f"{quoted(part.strip())} names no head: write LAYER.HEAD, as in 20.3,26.0")
        heads.append((int(found[1]), int(found[2])))
    return tuple(dict.fromkeys(heads))


def check_where(where: str) -> str:
    """A place as it is meant, "priming_pronoun" and "priming-pronoun" alike.

    Raises:
        OptionError: It names no place.

    Example:
        >>> check_where("target_slot")
        'target-slot'
    """
    name = where.strip().lower().replace("_", "-")
    if name in SPANS or name in (ALL, EACH_SPAN, EACH_POSITION):
        return name
    try:
        return str(int(name))
    except ValueError:
        raise OptionError(
            f"--where {quoted(where)} names no place: give {TARGET_SLOT}, another span ({', '.join(SPANS)}), a "
            f"position (-1 is the last token), {ALL} (from the prime on), {EACH_SPAN} or {EACH_POSITION}"
        ) from None


def places(contrast: "Contrast", where: str) -> dict[str, tuple[int, ...]]:
    """Token positions by the name of the place, in the order of the prompt.

    Args:
        contrast: Whose prompts; both have the same spans.
        where: From `check_where`.

    Returns:
        One place, or one a span or position; all of a place's tokens, those before the prime too.

    Raises:
        PromptError: The prompt lacks the span or the position.

    Example:
        `places(contrast, "target-slot")` is {"target-slot": (91,)} for a prompt of 92 tokens.
    """
    spans, length = contrast.feminine.spans, contrast.length
    if where == EACH_SPAN:
        return {str(s).replace("_", "-"): contrast.feminine.positions(s) for s in dict.fromkeys(spans)}
    if where == ALL:
        return {ALL: tuple(range(contrast.first_difference, length))}
    if where == EACH_POSITION:
        return {str(p): (p,) for p in range(contrast.first_difference, length)}
    if where in SPANS:
        positions = contrast.feminine.positions(SPANS[where])
        if not positions:
            there = ", ".join(dict.fromkeys(str(s).replace("_", "-") for s in spans))
            raise PromptError(
                f"the prompt of {contrast.id} has no span {where!r}; it has {there}; give one of these with --where"
            )
        return {where: positions}
    position = int(where)
    if not -length <= position < length:
        raise PromptError(
            f"the prompt of {contrast.id} has no position {position}: its {length} tokens are 0 to {length - 1}, or "
            f"-{length} to -1 from the end"
        )
    return {where: (position % length,)}


def reached(contrast: "Contrast", positions: Sequence[int]) -> tuple[int, ...]:
    """Positions from the priming pronoun on; before it both runs hold the same."""
    return tuple(p for p in positions if p >= contrast.first_difference)
