"""Sampling noise as a drawing: how often n draws a cell call a pair contextual that is not, or miss one that is.

As in `figures`: a table in, a `Figure` out; nothing is computed or saved.
"""

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from referent_probe.figures import BLUE, COLUMN, GREY, ORANGE, STYLE

_CALLS = {
    "plain": ("plain call (dC of frequencies > 0)", ORANGE, "o"),
    "honest": ("honest test", BLUE, "D"),
    "honest_bh": ("honest, Benjamini-Hochberg", "black", "s"),
}
_ERRORS = {"false_calls": "false contextual calls", "missed": "contextual, but missed"}
_ASIDE = 0.065  # decades between two lines at the same draws, a marker's width


def noise_against_draws(noise: pd.DataFrame, level: float) -> Figure:
    """Share of wrong calls against draws a cell, a panel for every truth and kind of error.

    Args:
        noise: `analysis.sampling_noise.COLUMNS`: truth, draws, option order, call, quantity, and the share with its
            interval, 0 to 1. Option orders "one" and "union" are drawn; of other truths "union" alone.
        level: Of the honest test, 0 to 1: a dotted line.

    Returns:
        Panels side by side, two a row, draws on a log axis; what belongs to the same draws lies side by side. Unions
        have a full line, one order a broken one.
    """
    kept = noise[noise["option_order"].isin(["one", "union"]) & noise["quantity"].isin(list(_ERRORS))]
    panels = [(key, part) for key, part in kept.groupby(["truth", "quantity"], sort=False)]
    n_rows = -(-len(panels) // 2)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(COLUMN, 2.3 + 1.65 * n_rows))
        figure.suptitle("What n draws a cell would have said", fontweight="bold")
        axes = figure.subplots(n_rows, 2, sharex=True, sharey=True, squeeze=False).flat
        for ax, ((truth, quantity), part) in zip(axes, panels, strict=False):
            ax.set_title(f"{truth}:\n{_ERRORS[str(quantity)]}\n{_n(part)}")
            _lines(ax, part)
            if quantity == "false_calls":
                ax.axhline(level, color=GREY, lw=0.8, ls=":", label=f"level {level:.0%}")
        for ax in list(axes)[len(panels) :]:
            ax.set_visible(False)
        for ax in figure.axes:
            ax.set(xlabel="draws a cell", ylabel="share of pairs")
            ax.label_outer()
        entries: dict[str, Any] = {}
        for ax in figure.axes:
            entries |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
        bars = "bars: 95 % interval of the simulation;\ncalls side by side at each number of draws"
        figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=1, title=bars)
        figure.draw_without_rendering()  # ticks take their style when they are first drawn
    return figure


def _n(part: pd.DataFrame) -> str:
    """Simulated pairs that each share is of."""
    few, many = part["of"].min(), part["of"].max()
    return f"n = {few:,.0f}{'' if few == many else f'–{many:,.0f}'} simulated pairs"


def _lines(ax: Axes, part: pd.DataFrame) -> None:
    lines = list(part.groupby(["call", "option_order"], sort=False))
    for place, ((call, order), its) in enumerate(lines):
        name, color, marker = _CALLS[str(call)]
        ends = np.array([its["share"] - its["low"], its["high"] - its["share"]])
        line: dict[str, Any] = {
            "color": color,
            "marker": marker,
            "ms": 3,
            "lw": 1,
            "ls": "--" if order == "one" else "-",
        }
        label = f"{name}; {'one option order' if order == 'one' else 'either of two orders'}"
        x = its["draws"] * 10 ** (_ASIDE * (place - (len(lines) - 1) / 2))
        ax.errorbar(x, its["share"], ends, elinewidth=0.6, label=label, **line)
    draws = sorted(part["draws"].unique())
    ax.set(xscale="log", ylim=(-0.03, 1.03))
    ax.xaxis.set(major_locator=FixedLocator(draws), minor_locator=NullLocator(), major_formatter="{x:.0f}")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.tick_params(axis="x", rotation=60)
