"""The cells of a sweep: what is patched, cut or ablated of a contrast, one after the other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from referent_probe.errors import OptionError
from referent_probe.mechanism.cells import Cell
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.mechanism.places import BEFORE_THE_PRIME, TARGET_SLOT, places, reached, read_heads
from referent_probe.models.interventions import Cut, Patch, Site
from referent_probe.stimuli.primes import Span

Head = tuple[int, int]
"""Layer and head, from 0."""

ABLATIONS = ("zero", "mean", "resample", "unprimed", "null")
"""What a head's output becomes: 0; its mean over all prompts; that of another prompt; that of the same question
without a prime; that of the same question after a prime without a pronoun."""

MODES = {"before": True, "after": False}
"""Attention is cut before softmax, so that the rest shares what is lost, or after it."""

CUTS = ("priming pronoun", "whole prime", "prime after the pronoun")
CONTROLS = ("token before the pronoun", "other referent", "first token")
"""Of a knockout: the nearest token at the pronoun's distance, the other noun of the target sentence, position 0."""


@dataclass(frozen=True)
class Shape:
    """How many blocks and heads a model has."""

    layers: int
    heads: int
    key_value_heads: int

    def heads_at(self, site: Site) -> int:
        """Heads of a block that an activation is cut into."""
        return self.key_value_heads if site.by_key_value_head else self.heads


def parse_heads(text: str, shape: Shape) -> tuple[Head, ...]:
    """Heads as they are written, "20.3,26.0", or "all".

    Raises:
        OptionError: No heads, or one that the model does not have.

    Example:
        >>> parse_heads("0.1, 2.3", Shape(layers=4, heads=4, key_value_heads=2))
        ((0, 1), (2, 3))
    """
    heads = read_heads(text)
    if heads is None:
        return tuple((layer, head) for layer in range(shape.layers) for head in range(shape.heads))
    for layer, head in heads:
        if layer >= shape.layers or head >= shape.heads:
            raise OptionError(
                f"head {layer}.{head} is not there: the model has layers 0 to {shape.layers - 1} with heads 0 to "
                f"{shape.heads - 1}"
            )
    return heads


def patch_cells(
    contrast: Contrast, shape: Shape, site: Site, where: str, heads: Sequence[Head] | None = None
) -> list[Cell]:
    """One activation at a time, by layer (and head) and place, taken from the other run.

    Args:
        contrast: The contrast.
        shape: Of the model.
        site: What is patched.
        where: From `places.check_where`.
        heads: Some heads (query heads; of keys and values, the key-value heads that serve them); None for all.
    """
    cells = []
    for name, positions in places(contrast, where).items():
        later = reached(contrast, positions)
        for layer, head in _units(shape, site, heads):
            row = (Patch(layer, site, later, head),) if later else ()
            reason = None if later else BEFORE_THE_PRIME
            label = _serves(shape, site, head)
            cells.append(Cell("patch", str(site), layer, layer, -1 if head is None else head, name, label, row, reason))
    return cells


def _units(shape: Shape, site: Site, heads: Sequence[Head] | None) -> Iterator[tuple[int, int | None]]:
    if not site.by_head:
        layers = sorted({layer for layer, _ in heads}) if heads else range(shape.layers)
        yield from ((layer, None) for layer in layers)
        return
    group = shape.heads // shape.heads_at(site)
    chosen = heads or [(layer, head) for layer in range(shape.layers) for head in range(shape.heads)]
    yield from dict.fromkeys((layer, head // group) for layer, head in chosen)


def _serves(shape: Shape, site: Site, head: int | None) -> str:
    """Which query heads read a key-value head."""
    group = shape.heads // shape.heads_at(site)
    if head is None or group == 1:
        return ""
    return f"serves query heads {head * group} to {head * group + group - 1}"


def windows(layers: int, width: int) -> list[tuple[int, int]]:
    """Windows of neighbouring blocks, first and last, and last of all the whole model.

    Example:
        >>> windows(4, 2)
        [(0, 1), (1, 2), (2, 3), (0, 3)]
    """
    found = [(first, first + width - 1) for first in range(layers - width + 1)]
    return [*found, (0, layers - 1)] if width < layers else found


def hidden(contrast: Contrast) -> Mapping[str, tuple[int, ...]]:
    """What a knockout hides, by its name in tables: `CUTS`, then `CONTROLS`."""
    at, spans = contrast.first_difference, contrast.feminine.spans
    prime = tuple(i for i, span in enumerate(spans) if span.startswith("prim"))
    return {
        "priming pronoun": (at,),
        "whole prime": prime,
        "prime after the pronoun": contrast.feminine.positions(Span.PRIME_AFTER_PRONOUN),
        "token before the pronoun": (at - 1,) if at else (),
        "other referent": contrast.feminine.positions(Span.OTHER_REFERENT),
        "first token": (0,),
    }


def knockout_cells(
    contrast: Contrast,
    shape: Shape,
    width: int,
    modes: Sequence[str],
    queries: str = TARGET_SLOT,
    heads: Sequence[Head] | None = None,
) -> list[Cell]:
    """Attention from later tokens to parts of the prompt is cut, in windows of blocks.

    Args:
        contrast: The contrast.
        shape: Of the model.
        width: Blocks of a window, 1 to all.
        modes: Of `MODES`.
        queries: "target-slot", or "later": all tokens behind the prime.
        heads: Only these heads are cut, in all their blocks at once; None for all heads.
    """
    prime_ends = max(i for i, span in enumerate(contrast.feminine.spans) if span.startswith("prim"))
    from_where = (contrast.length - 1,) if queries == TARGET_SLOT else tuple(range(prime_ends + 1, contrast.length))
    cells = []
    for label, keys in hidden(contrast).items():
        for mode in modes:
            for first, last in windows(shape.layers, width) if heads is None else [(0, shape.layers - 1)]:
                chosen = [(layer, None) for layer in range(first, last + 1)] if heads is None else heads
                row = tuple(
                    cut
                    for layer, head in chosen
                    for cut in _cuts(layer, head, from_where, keys, renormalise=MODES[mode])
                )
                reason = None if row else "the prompt has no such token"
                cells.append(Cell("knockout", mode, first, last, -1, queries, label, row, reason))
    return cells


def _cuts(
    layer: int, head: int | None, queries: Sequence[int], keys: Sequence[int], *, renormalise: bool
) -> Iterator[Cut]:
    """Edges that are there: a key is read by later tokens alone, or by its own."""
    whole = tuple(q for q in queries if q > max(keys, default=q))
    if whole and keys:
        yield Cut(layer, whole, tuple(keys), head, renormalise)
    for query in queries:
        earlier = tuple(k for k in keys if k < query)
        if query not in whole and earlier:
            yield Cut(layer, (query,), earlier, head, renormalise)


def ablation_cells(contrast: Contrast, kinds: Sequence[str], sets: Mapping[str, Sequence[Head]]) -> list[Cell]:
    """Heads' outputs at the target slot become something that knows no prime, in both runs alike.

    Args:
        contrast: The contrast.
        kinds: Of `ABLATIONS`; the values are filled in when the cells are run.
        sets: Heads that are ablated together, by their name in tables.
    """
    slot = (contrast.length - 1,)
    cells = []
    for kind in kinds:
        for name, heads in sets.items():
            row = tuple(Patch(layer, Site.Z, slot, head) for layer, head in heads)
            layers = [layer for layer, _ in heads]
            head = heads[0][1] if len(heads) == 1 else -1
            cells.append(Cell("ablation", kind, min(layers), max(layers), head, TARGET_SLOT, name, row))
    return cells


def joint_cells(contrast: Contrast, sets: Mapping[str, Sequence[Head]], what: str) -> list[Cell]:
    """Sets of heads at the target slot, all of a set together from the other run; the empty set changes nothing."""
    slot = (contrast.length - 1,)
    cells = []
    for name, heads in sets.items():
        row = tuple(Patch(layer, Site.Z, slot, head) for layer, head in heads)
        layers = [layer for layer, _ in heads] or [0]
        reason = None if row else "no head is patched"
        cells.append(Cell("circuit", what, min(layers), max(layers), -1, TARGET_SLOT, name, row, reason))
    return cells


def head_name(head: Head) -> str:
    """As it is written: (20, 3) is 20.3."""
    return f"{head[0]}.{head[1]}"
