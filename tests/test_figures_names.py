"""A name in a grid must be readable as that of one cell alone."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from referent_probe import figures
from referent_probe.analysis.inference import Interval

TOTAL = Interval(-1.312, -1.77, -0.84, n=20, unit="logits")
Cell = tuple[int, int]  # layer, head


def panel(n_layers: int, n_heads: int, carriers: list[Cell], dark: list[Cell]) -> Axes:
    """The left panel of a head map with these carriers, and large effects at `dark` cells."""
    heads = pd.DataFrame(
        [(layer, head) for layer in range(n_layers) for head in range(n_heads)], columns=["layer", "head"]
    )
    cells = list(zip(heads["layer"], heads["head"], strict=True))
    heads["denoise_mean"] = [0.5 if cell in carriers else 0.4 if cell in dark else 0.001 for cell in cells]
    heads["noise_mean"] = heads["denoise_mean"]
    heads["carrier"] = ["both" if cell in carriers else "none" for cell in cells]
    ax = figures.head_map(heads, TOTAL).axes[0]
    assert isinstance(ax, Axes)
    return ax


def box_of(ax: Axes, layer: int, head: int) -> Bbox:
    """A cell, in pixels."""
    return Bbox(ax.transData.transform([(head - 0.5, layer - 0.5), (head + 0.5, layer + 0.5)]))


def shrunk(box: Bbox, pixels: float = 1) -> Bbox:
    return Bbox([box.min + pixels, box.max - pixels])


CASES: dict[str, tuple[int, int, list[Cell], list[Cell]]] = {
    "beside a large one": (30, 9, [(26, 0), (21, 7)], [(26, 2), (27, 4), (27, 5), (23, 3)]),
    "two neighbours": (30, 9, [(13, 4), (13, 5)], []),
    "a row of three": (30, 9, [(13, 4), (13, 5), (13, 6)], [(14, 5)]),
    "one above the other": (30, 9, [(13, 4), (14, 4), (16, 4)], []),
    "corners": (30, 9, [(0, 0), (0, 8), (29, 0), (29, 8)], []),
    "an edge": (30, 9, [(26, 0), (26, 1), (27, 0), (12, 8), (11, 8)], [(26, 2)]),
    "cells larger than names": (4, 3, [(0, 0), (0, 1), (3, 2)], [(0, 2)]),
    "narrow cells": (24, 64, [(10, 5), (10, 6), (10, 7), (23, 63), (23, 0)], [(12, 6)]),
    "flat cells": (80, 8, [(79, 7), (40, 3), (41, 3), (40, 4)], []),
    "a block": (30, 9, [(20 + i, 3 + j) for i in range(3) for j in range(3)], []),
}


@pytest.mark.parametrize("case", CASES)
def test_each_name_belongs_to_one_cell(case: str) -> None:
    n_layers, n_heads, carriers, dark = CASES[case]
    ax = panel(n_layers, n_heads, carriers, dark)
    per_point = ax.figure.dpi / 72
    names = {text.get_text(): shrunk(text.get_window_extent()) for text in ax.texts}
    assert set(names) == {f"{layer}.{head}" for layer, head in carriers}
    lines = [ax.transData.transform(np.column_stack(line.get_data())) for line in ax.lines]
    for layer, head in carriers:
        box, own = names[f"{layer}.{head}"], box_of(ax, layer, head)
        middle = (own.min + own.max) / 2
        assert ax.bbox.padded(per_point).count_contains([box.min, box.max]) == 2, "a name leaves the panel"
        assert box.count_overlaps(list(names.values())) == 1, "a name covers another one"
        others = [box_of(ax, *cell) for cell in carriers if cell != (layer, head)]
        assert box.count_overlaps([shrunk(other) for other in others]) == 0, "a name covers another outlined cell"
        own_lines = [line for line in lines if np.allclose(line[0], middle, atol=0.5)]
        if own_lines:
            assert box.padded(2 * per_point).contains(*own_lines[0][1]), "a line does not end at its name"
        elif not own.containsx(box.x0) or not own.containsy(box.y0):
            gap = max(box.y0 - own.y1, own.y0 - box.y1)
            assert 0 <= gap <= 3 * per_point, "a name is neither above nor below its cell, and has no line"
            assert max(box.x0, own.x0) < min(box.x1, own.x1)
            assert box.count_overlaps(others) == 0
    assert len(lines) <= len(carriers)


def test_a_name_is_not_beside_the_large_cell_of_another_head() -> None:
    ax = panel(30, 9, [(26, 0)], [(26, 2)])
    (text,) = ax.texts
    other, name = box_of(ax, 26, 2), shrunk(text.get_window_extent())
    assert name.y0 >= other.y1 or name.y1 <= other.y0  # not in its row
    assert not name.overlaps(other)


def test_names_fill_their_cells_where_they_fit() -> None:
    ax = panel(4, 3, [(0, 0), (3, 2)], [])
    assert not ax.lines
    for text, cell in zip(sorted(ax.texts, key=lambda text: text.get_text()), [(0, 0), (3, 2)], strict=True):
        own, name = box_of(ax, *cell), shrunk(text.get_window_extent())
        assert own.count_contains([name.min, name.max]) == 2


def test_no_style_is_left_behind() -> None:
    before = dict(mpl.rcParams)
    panel(30, 9, [(13, 4)], [])
    assert dict(mpl.rcParams) == before
