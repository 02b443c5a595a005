"""Attention from the target slot to the prime, cut head by head and set by set."""

from collections.abc import Mapping, Sequence

from referent_probe.mechanism.cells import Cell
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.mechanism.sweeps import Head, Shape, head_name
from referent_probe.models.interventions import Cut

KIND = "knockout"


def prime_positions(contrast: Contrast) -> tuple[int, ...]:
    """All tokens of the prime."""
    return tuple(i for i, span in enumerate(contrast.feminine.spans) if span.startswith("prim"))


def single_cut_cells(contrast: Contrast, shape: Shape) -> list[Cell]:
    """Every head alone, before softmax: its edges from the target slot to the prime."""
    heads = [(layer, head) for layer in range(shape.layers) for head in range(shape.heads)]
    return set_cut_cells(contrast, {head_name(head): [head] for head in heads}, "one head")


def set_cut_cells(
    contrast: Contrast, sets: Mapping[str, Sequence[Head]], what: str, *, later: bool = False
) -> list[Cell]:
    """Sets of heads, all of a set together, before softmax.

    Args:
        contrast: Whose prime is hidden.
        sets: Heads by the name of the set; an empty set changes nothing.
        what: What the sets are, for the table.
        later: Whether the edges are cut from all tokens behind the prime, and not from the target slot alone.

    Example:
        Of no heads, the cell has the reason "no head is cut".
    """
    keys = prime_positions(contrast)
    queries = tuple(range(max(keys) + 1, contrast.length)) if later else (contrast.length - 1,)
    cells = []
    for name, heads in sets.items():
        row = tuple(Cut(layer, queries, keys, head) for layer, head in heads)
        layers = [layer for layer, _ in heads] or [0]
        head = heads[0][1] if len(heads) == 1 else -1
        where = "later" if later else "target-slot"
        reason = None if row else "no head is cut"
        cells.append(Cell(KIND, what, min(layers), max(layers), head, where, name, row, reason))
    return cells
