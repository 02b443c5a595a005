"""Names of heads: beside the points of a scatter plot, and in or by the cells of a grid."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_NAMED = 10  # names in a panel; more would hide the points

_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_FARTHEST_WITHOUT_LINE = 17  # points
_HALO = [withStroke(linewidth=1.5, foreground="white")]  # letters and lines are read on dark cells too
_WRONG = 1000.0  # cost of what must not be: a name across another one, across an outlined cell or off the panel


def name_heads(ax: Axes, heads: pd.DataFrame, x: str, y: str, *, by: str, avoid: pd.DataFrame) -> None:
    """Writes `layer.head` beside the points of the heads with the largest values, where it covers the fewest others."""
    heads = _largest(heads.dropna(subset=[x, y]), by)
    per_point = ax.figure.dpi / 72
    frame = Bbox(ax.bbox.get_points() / per_point)
    obstacles = ax.transData.transform(avoid[[x, y]].dropna().to_numpy(dtype=float)) / per_point
    taken = [Bbox.from_bounds(px - 3, py - 3, 6, 6) for px, py in obstacles]

    def cost(box: Bbox) -> int:
        inside = frame.contains(*box.min) and frame.contains(*box.max)
        return box.count_overlaps(taken) + (not inside)

    for layer, head, px, py in heads[["layer", "head", x, y]].to_numpy(dtype=float):
        name = f"{layer:.0f}.{head:.0f}"
        centre, half = ax.transData.transform((px, py)) / per_point, _half(name)
        middles = [centre + np.array(side) * (half + gap) for gap, side in itertools.product((5, 10, 16), _SIDES)]
        taken.append(min((Bbox([middle - half, middle + half]) for middle in middles), key=cost))
        across, up = taken[-1].min + half - centre
        far = np.hypot(across, up) > _FARTHEST_WITHOUT_LINE
        leader = {"arrowstyle": "-", "lw": 0.4, "shrinkA": 0, "shrinkB": 2} if far else None
        place: dict[str, Any] = {"xytext": (across, up), "textcoords": "offset points", "ha": "center", "va": "center"}
        ax.annotate(name, (px, py), **place, fontsize=6.5, arrowprops=leader)


def name_cells(ax: Axes, heads: pd.DataFrame, *, by: str, coloured: pd.DataFrame) -> None:
    """Writes `layer.head` where it can be read as no other cell's name.

    That is within its own cell where it fits, else right above or below it where no other outlined cell touches the
    name, else farther away with a line from the middle of its own cell. A name at the side of its cell would be read
    as that of the cell beneath it.

    Args:
        ax: A panel with one unit a cell, heads across and layers up, already laid out.
        heads: Outlined cells, `layer` and `head`; the `MOST_NAMED` with the largest values are named.
        by: Column of `heads` with these values.
        coloured: Cells that names cover only where nothing else is free, `layer` and `head`.
    """
    per_point = ax.figure.dpi / 72
    frame = ax.bbox.get_points() / per_point
    outlined, dark = (_cells(ax, table) / per_point for table in (heads, coloured))
    names = np.empty((0, 2, 2))
    to_data = ax.transData.inverted().transform
    largest = _largest(heads.assign(place=range(len(heads))), by)
    for i, layer, head in largest[["place", "layer", "head"]].to_numpy(dtype=int):
        name, own, others = f"{layer}.{head}", outlined[i], np.delete(outlined, i, axis=0)
        half, forbidden = _half(name), np.concatenate([others, names])
        places = list(_places(own, half, frame))
        costs = [_cost(*place, half, own, others, forbidden, dark, frame) for place in places]
        middle, direct = places[int(np.argmin(costs))]
        box = np.array([middle - half, middle + half])
        names = np.concatenate([names, box[None]])
        x, y = to_data(middle * per_point)
        ax.text(x, y, name, ha="center", va="center", fontsize=6.5, path_effects=_HALO, zorder=5)
        if not direct:
            ends = to_data(_line(own, box) * per_point)
            ax.plot(
                *ends.T, "ko-", lw=0.6, ms=1.6, markevery=[0], zorder=4, path_effects=_HALO, scalex=False, scaley=False
            )


def _largest(heads: pd.DataFrame, by: str) -> pd.DataFrame:
    return heads.sort_values(by, key=abs, ascending=False).head(MOST_NAMED)


def _half(name: str) -> Array:
    """Half the width and half the height of a name, in points."""
    return np.array([2.1 * len(name), 3.2])


def _cells(ax: Axes, table: pd.DataFrame) -> Array:
    """Lower left and upper right corner of each cell `[n_cells, 2, 2]`, in pixels."""
    centres = table[["head", "layer"]].to_numpy(dtype=float)
    corners = np.stack([centres - 0.5, centres + 0.5], axis=1)
    placed: Array = ax.transData.transform(corners.reshape(-1, 2)).reshape(-1, 2, 2)
    return placed


def _places(own: Array, half: Array, frame: Array) -> Iterator[tuple[Array, bool]]:
    """Middles that a name may have, and whether it is then in its own cell or right above or below it."""
    centre, size = own.mean(axis=0), own[1] - own[0]
    if (size >= 2 * half + 1).all():
        yield centre, True
        return
    across = np.clip(centre[0], frame[0, 0] + half[0], frame[1, 0] - half[0])
    for middle in (own[1, 1] + half[1] + 1, own[0, 1] - half[1] - 1):
        yield np.array([across, middle]), True
    for right, up in itertools.product(np.arange(-48, 49, 6.0), np.arange(-32, 33, 4.0)):
        if max(abs(right) - half[0] - size[0] / 2, abs(up) - half[1] - size[1] / 2) >= 3:  # room for a line to be seen
            yield centre + np.array([right, up]), False


def _cost(
    middle: Array, direct: bool, half: Array, own: Array, others: Array, forbidden: Array, dark: Array, frame: Array
) -> float:
    """How ill a name with this middle would be placed: points from its cell, and more for what it covers or crosses."""
    box = np.array([middle - half, middle + half])
    off = bool((box[0] < frame[0]).any() or (box[1] > frame[1]).any())
    cost = float(np.hypot(*(middle - own.mean(axis=0)))) + 20 * _overlaps(box, dark)
    cost += _WRONG * (_overlaps(box, forbidden) + off)
    touching = _overlaps(box + np.array([[-1.5], [1.5]]), others)
    if direct:  # nothing but its place tells whose name it is
        return cost + _WRONG * touching
    return cost + 50 * touching + 300 * _crossed(_line(own, box), forbidden)


def _line(own: Array, box: Array) -> Array:
    """From the middle of a cell to the nearest point of its name."""
    middle = own.mean(axis=0)
    return np.array([middle, np.clip(middle, *box)])


def _overlaps(box: Array, boxes: Array) -> int:
    return int(((boxes[:, 0] < box[1]) & (boxes[:, 1] > box[0])).all(axis=1).sum())


def _crossed(line: Array, boxes: Array) -> int:
    """How many boxes a line runs through."""
    points = line[0] + np.linspace(0, 1, 25)[1:-1, None, None] * (line[1] - line[0])
    within = (points > boxes[None, :, 0]) & (points < boxes[None, :, 1])
    return int(within.all(axis=2).any(axis=0).sum())
