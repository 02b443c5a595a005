"""Names of heads, written where they cover the fewest points."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

MOST_NAMED = 10  # names in a panel; more would hide the points

_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def name_heads(
    ax: Axes,
    heads: pd.DataFrame,
    x: str,
    y: str,
    *,
    by: str,
    avoid: pd.DataFrame,
    farthest_without_line: float = 17,
) -> None:
    """Writes `layer.head` beside the points of the heads with the largest values, where it covers the fewest others."""
    heads = heads.dropna(subset=[x, y]).sort_values(by, key=abs, ascending=False).head(MOST_NAMED)
    per_point = ax.figure.dpi / 72
    frame = Bbox(ax.bbox.get_points() / per_point)
    obstacles = ax.transData.transform(avoid[[x, y]].dropna().to_numpy(dtype=float)) / per_point
    taken = [Bbox.from_bounds(px - 3, py - 3, 6, 6) for px, py in obstacles]

    def cost(box: Bbox) -> int:
        inside = frame.contains(*box.min) and frame.contains(*box.max)
        return box.count_overlaps(taken) + (not inside)

    for layer, head, px, py in heads[["layer", "head", x, y]].to_numpy(dtype=float):
        name = f"{layer:.0f}.{head:.0f}"
        centre, half = ax.transData.transform((px, py)) / per_point, np.array([2.1 * len(name), 3.2])
        middles = [centre + np.array(side) * (half + gap) for gap, side in itertools.product((5, 10, 16), _SIDES)]
        taken.append(min((Bbox([middle - half, middle + half]) for middle in middles), key=cost))
        across, up = taken[-1].min + half - centre
        leader = (
            {"arrowstyle": "-", "lw": 0.4, "shrinkA": 0, "shrinkB": 2}
            if np.hypot(across, up) > farthest_without_line
            else None
        )
        place: dict[str, Any] = {"xytext": (across, up), "textcoords": "offset points", "ha": "center", "va": "center"}
        ax.annotate(name, (px, py), **place, fontsize=6.5, arrowprops=leader)
