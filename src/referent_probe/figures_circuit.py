"""Whether a circuit does what the model does, with all of its heads and no more than it needs: one drawing.

As in `figures`: a table in, a `Figure` out; nothing is computed or saved.
"""

from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from referent_probe.figures import BLUE, GREY, PAGE, drawing
from referent_probe.figures_lanes import BLACK, where
from referent_probe.figures_panels import wrapped
from referent_probe.figures_rows import LOOKS, absent, bars, name_rows, occupations, reason

_CHECKS = ("faithfulness", "completeness", "minimality")
_HALF = PAGE / 2  # inches that a column of panels has


def circuit_checks(table: pd.DataFrame) -> Figure:
    """Faithfulness, completeness and minimality of a circuit C in a model M.

    F is the prime's effect that is left when every head outside a set is ablated.

    Args:
        table: Rows of three kinds, told by `check`; effects in logits with `_mean`, `_low` and `_high` (nan where a
            kind does not use a column), `n` occupations, `reason` why a kind has no numbers (where that is known).
            "faithfulness", a row per size of the circuit: `size` (its heads), `circuit` (F(C)), `model` (F(M), the
            same in all rows).
            "completeness", a row per set of heads K: `label` (how K was drawn, e.g. "random"), `circuit`
            (F(C without K)), `model` (F(M without K)).
            "minimality", a row per head of the circuit, in the order to draw: `label` (its name), `change` (by how
            much F(C without K) changes, at most over the sets K, when the head goes too).

    Returns:
        (a) F(C) against size, and F(M) with its interval. (b) F(C without K) against F(M without K): the nearer to the
        diagonal, the more complete. (c) A bar per head: one near 0 could be left out.

    Raises:
        ValueError: A row's `check` is none of these.

    Source: Wang et al. 2022, Interpretability in the wild (2211.00593), section 4.
    """
    if unknown := sorted(set(table["check"]) - set(_CHECKS)):
        raise ValueError(f"circuit_checks was given the checks {unknown}: it knows {list(_CHECKS)}.")
    parts = {check: where(table, {"check": check}) for check in _CHECKS}
    detail = f"effect of the prime with all other heads ablated{occupations(table)}; bars and band: 95 % intervals"
    height = float(np.clip(1.2 + 0.15 * len(parts["minimality"]), 5.0, 9.0))
    with drawing(PAGE, height, "Checks of the circuit", detail) as (figure, body):
        left, right = body.subfigures(1, 2, squeeze=False)[0]
        rooms = [*left.subfigures(2, 1, squeeze=False)[:, 0], right]
        titles = ("(a) faithful?", "(b) complete?", "(c) minimal?")
        drawings = (_faithful, _complete, _minimal)
        for room, title, part, draw in zip(rooms, titles, parts.values(), drawings, strict=True):
            ax = room.subplots()
            ax.set_title(title, loc="left")
            if part.filter(regex="^(circuit|change)_mean$").isna().all(axis=None):
                absent(ax, wrapped(reason(part), _HALF - 1))
            else:
                draw(room, ax, part)
    return figure


def _faithful(room: SubFigure, ax: Axes, part: pd.DataFrame) -> None:
    part = part.sort_values("size")
    whole = part.iloc[0]
    ax.axhline(0, color=BLACK, lw=0.6, zorder=1)
    ax.axhspan(whole["model_low"], whole["model_high"], color=GREY, alpha=0.25, lw=0, zorder=0)
    ax.axhline(whole["model_mean"], color=GREY, lw=1, ls="--", zorder=1, label="whole model, F(M)")
    ax.vlines(part["size"], part["circuit_low"], part["circuit_high"], color=BLUE, lw=0.9)
    ax.plot(part["size"], part["circuit_mean"], color=BLUE, marker="o", ms=3, lw=1.2, label="circuit, F(C)")
    ax.set(xlabel="heads in the circuit", ylabel="effect (logits)")
    ax.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    room.legend(loc="outside lower center", ncols=2, handletextpad=0.5, columnspacing=1)


def _complete(room: SubFigure, ax: Axes, part: pd.DataFrame) -> None:
    columns = [f"{name}_{end}" for name in ("circuit", "model") for end in ("mean", "low", "high")]
    numbers = part[columns].to_numpy(dtype=float)
    low, high = min(0.0, np.nanmin(numbers)), max(0.0, np.nanmax(numbers))
    margin = 0.05 * (high - low) or 1.0
    limits = (low - margin, high + margin)
    ax.plot(limits, limits, color=GREY, lw=1, ls="--", zorder=1)
    for label, (color, marker, _) in zip(dict.fromkeys(part["label"]), cycle(LOOKS), strict=False):
        its = where(part, {"label": label})
        thin: dict[str, Any] = {"color": color, "lw": 0.5, "alpha": 0.5, "zorder": 2}
        ax.hlines(its["circuit_mean"], its["model_low"], its["model_high"], **thin)
        ax.vlines(its["model_mean"], its["circuit_low"], its["circuit_high"], **thin)
        points: dict[str, Any] = {"c": color, "marker": marker, "label": f"K: {label}"}
        ax.scatter(its["model_mean"], its["circuit_mean"], s=12, lw=0, zorder=3, **points)
    ax.set(xlim=limits, ylim=limits, aspect="equal", xlabel="F(M without K) (logits)", ylabel="F(C without K) (logits)")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    ax.set_anchor("W")
    room.legend(loc="outside right center", handletextpad=0.1)


def _minimal(room: SubFigure, ax: Axes, part: pd.DataFrame) -> None:
    bars(ax, part, "change", np.arange(len(part)), BLUE)
    ax.axvline(0, color=BLACK, lw=0.6)
    ax.set_xlabel("largest change without the head (logits)")
    name_rows(ax, list(part["label"]))
    ax.set_ylim(max(len(part), 12) - 0.5, -0.5)  # bars of a few heads are no thicker
    ax.set_ylabel("layer.head")
