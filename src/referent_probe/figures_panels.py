"""Panels that the figures of behaviour share: sections below each other, in each a panel a model, side by side.

A panel of dots has named rows, and in each row a lane for each kind of marker, so that intervals lie beside each other.
What a table lacks is said in the panel. An interval without an upper end is a bar to an infinity sign at the edge; an
infinite value has no marker on it.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import ArrayLike

from referent_probe.figures import COLUMN, MISSING, PAGE, STYLE
from referent_probe.figures import drawing as drawing
from referent_probe.figures_lanes import CHARACTERS, Keys, Lane, counted, legend, legend_lines, where

SHADE = "#EFEFEF"  # behind what is shown for comparison only
ROOM = 0.31  # half the height of a row that its lanes fill
LINE = 0.155  # inches that a line of text takes
NAMES = 1.2  # inches that the names of rows take
SMALL = STYLE["font.size"] - 0.5


def width_of(models: Sequence[str]) -> float:
    """Inches: a column for one model, more for several; more than a page only where a page has no room for all."""
    return float(max(np.clip(1.2 + 1.6 * len(models), COLUMN, PAGE), 1.2 + 0.95 * len(models)))


def panel_width(models: Sequence[str]) -> float:
    """Inches that the panel of one model has."""
    return (width_of(models) - NAMES) / len(models)


def wrapped(text: str, width: float) -> str:
    """Lines that fit into a width in inches; a number stays with its percent sign."""
    lines = (textwrap.fill(line, max(8, int(CHARACTERS * width))) for line in text.replace(" %", "\u00a0%").split("\n"))
    return "\n".join(lines)


class Section(Protocol):
    """A row of panels, one a model."""

    def height(self, models: Sequence[str]) -> float:
        """Inches."""

    def draw(self, part: SubFigure, models: Sequence[str], *, first: bool) -> None:
        """Draws it in its part of the figure; the first section names the models."""


@dataclass(frozen=True)
class Dots:
    """A section of markers and intervals in named rows.

    Attributes:
        xlabel: Quantity and unit.
        tables: Of each model, what may be drawn: rows with `value`, `low`, `high` and what `counted` reads.
        rows: Name to the keys of its rows of the table.
        lanes: Kinds of marker.
        row_height: Inches.
        line: Value that a line marks.
        limits: Ends of the axis; None for those of the numbers.
        places: Of the lanes about the middle of a row; None to spread them over it.
        edge: Colour of markers' edges and intervals; None for the lane's.
        shaded: Names of rows for comparison only.
        behind: Draws what else belongs into the panel of the model with this number.
        also: Kinds of marker that `behind` draws, for the legend.
        explained: Whether the legend stands below this section.
    """

    xlabel: str
    tables: Sequence[pd.DataFrame]
    rows: Mapping[str, Keys]
    lanes: Sequence[Lane]
    row_height: float = 0.3
    line: float | None = None
    limits: tuple[float, float] | None = None
    places: Sequence[float] | None = None
    edge: str | None = None
    shaded: Sequence[str] = ()
    behind: Callable[[Axes, int], None] = lambda ax, model: None
    also: Sequence[Lane] = ()
    explained: bool = True

    def height(self, models: Sequence[str]) -> float:
        """Inches."""
        explanation = LINE * legend_lines([*self.lanes, *self.also], width_of(models)) if self.explained else 0
        return 0.9 + explanation + self.row_height * max(len(self.rows), 1)

    def draw(self, part: SubFigure, models: Sequence[str], *, first: bool) -> None:
        """Draws it in its part of the figure; the first section names the models."""
        body, width = part.add_subfigure(part.add_gridspec(1, 1)[0]), width_of(models)
        axes = _panels(body, models, [counted(self._shown(table)) for table in self.tables], first=first)
        for number, (ax, table) in enumerate(zip(axes, self.tables, strict=True)):
            if self.line is not None:
                ax.axvline(self.line, color="#777777", lw=0.6, zorder=1)
            self.behind(ax, number)
            self._dots(ax, table)
            ax.tick_params(axis="y", length=0)
            for row, label in enumerate(self.rows):
                if label in self.shaded:
                    ax.axhspan(row - 0.5, row + 0.5, color=SHADE, lw=0, zorder=0)
                if row:
                    ax.axhline(row - 0.5, color=MISSING, lw=0.4, zorder=0)
        axes[0].set_yticks(range(len(self.rows)), list(self.rows))
        axes[0].set_ylim(max(len(self.rows), 1) - 0.5, -0.5)
        if self.limits is not None:
            axes[0].set_xlim(*self.limits)
        body.supxlabel(wrapped(self.xlabel, width - NAMES - 0.1), x=_middle(models), fontsize=STYLE["font.size"])
        if self.explained:
            legend(part, [*self.lanes, *self.also], width, self.edge)

    def _shown(self, table: pd.DataFrame) -> pd.DataFrame:
        parts = [where(table, {**keys, **lane.keys}) for keys in self.rows.values() for lane in self.lanes]
        return pd.concat(parts) if parts else table.iloc[:0]

    def _dots(self, ax: Axes, table: pd.DataFrame) -> None:
        empty = list(range(len(self.rows)))
        heights = np.linspace(-ROOM, ROOM, len(self.lanes)) if self.places is None else self.places
        for lane, offset in zip(self.lanes, heights, strict=True):
            color = self.edge or lane.color
            for row, keys in enumerate(self.rows.values()):
                numbers = where(table, {**keys, **lane.keys}).dropna(subset=["value"])
                empty = [other for other in empty if other != row or numbers.empty]
                y = np.full(len(numbers), row + offset)
                endless = np.isinf(numbers["value"]) | np.isinf(numbers["high"])
                for low in numbers.loc[endless, "low"]:
                    _endless(ax, low, row + offset, color)
                ends = numbers[["low", "high"]].mask(endless)
                ax.hlines(y, ends["low"], ends["high"], color=color, lw=1.0, zorder=3)
                look: dict[str, Any] = {"marker": lane.marker, "fc": lane.face, "ec": color, "lw": 0.8, "zorder": 4}
                ax.scatter(numbers["value"].where(np.isfinite(numbers["value"])), y, s=11, **look)
        for missing in [None] if len(empty) == len(self.rows) else empty:
            say(ax, "not computed", missing)


@dataclass(frozen=True)
class Lines:
    """A section of lines over temperature.

    Attributes:
        ylabel: Quantity and unit.
        tables: Of each model, what may be drawn.
        lanes: A line each.
        limits: Ends of the vertical axis; None for those of the numbers.
        explained: Whether the legend stands below this section.
    """

    ylabel: str
    tables: Sequence[pd.DataFrame]
    lanes: Sequence[Lane]
    limits: tuple[float, float] | None = None
    explained: bool = True

    def height(self, models: Sequence[str]) -> float:
        """Inches."""
        return 1.6 + (LINE * (1 + legend_lines(self.lanes, width_of(models))) if self.explained else 0)

    def draw(self, part: SubFigure, models: Sequence[str], *, first: bool) -> None:
        """Draws it in its part of the figure; the first section names the models."""
        body = part.add_subfigure(part.add_gridspec(1, 1)[0])
        shown = [pd.concat([where(table, lane.keys) for lane in self.lanes]) for table in self.tables]
        axes = _panels(body, models, [counted(table) for table in shown], first=first)
        for ax, table in zip(axes, shown, strict=True):
            self._lines(ax, table)
        axes[0].set_ylabel(self.ylabel)
        if self.limits is not None:
            axes[0].set_ylim(*self.limits)
        if self.explained:
            body.supxlabel("temperature", fontsize=STYLE["font.size"])
            legend(part, self.lanes, width_of(models))

    def _lines(self, ax: Axes, table: pd.DataFrame) -> None:
        table = table[np.isfinite(table["value"])]
        values = np.unique(table["temperature"])
        if not len(values):
            say(ax, "not computed")
            return
        step = np.diff(values).min() if len(values) > 1 else 1.0
        gap = 0.8 * step / len(self.lanes)  # so that markers and intervals lie beside each other
        for at, lane in enumerate(self.lanes):
            line = where(table, lane.keys).sort_values("temperature")
            x = line["temperature"] + gap * (at - (len(self.lanes) - 1) / 2)
            ax.vlines(x, line["low"], line["high"], color=lane.color, lw=0.8)
            look: dict[str, Any] = {"mfc": lane.face, "ms": 3, "mew": 0.7, "lw": 0.8, "ls": lane.line}
            ax.plot(x, line["value"], color=lane.color, marker=lane.marker, **look)
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.set_xlim(values[0] - 0.6 * step, values[-1] + 0.6 * step)


def stacked(models: Sequence[str], sections: Sequence[Section], headline: str, detail: str) -> Figure:
    """Sections below each other, as one figure."""
    width, heights = width_of(models), [section.height(models) for section in sections]
    heights[0] += LINE * max(wrapped(model, panel_width(models)).count("\n") + 1 for model in models)
    detail = wrapped(detail, width)
    with drawing(width, 0.45 + LINE * detail.count("\n") + sum(heights), headline, detail) as (figure, body):
        parts = body.subfigures(len(sections), 1, height_ratios=heights, squeeze=False)[:, 0]
        for number, (part, section) in enumerate(zip(parts, sections, strict=True)):
            section.draw(part, models, first=number == 0)
    return figure


def _panels(part: SubFigure, models: Sequence[str], counts: Sequence[str], *, first: bool) -> list[Axes]:
    """Side by side on the same axes; titles give what the numbers are of, in the first section the model before."""
    axes: list[Axes] = list(part.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0])
    if len(models) > 1 and len(alike := set(counts) - {""}) == 1:
        part.suptitle(*alike, x=_middle(models), fontsize=STYLE["font.size"])
        counts = [""] * len(models)
    for ax, model, count in zip(axes, models, counts, strict=True):
        lines = ([model] if first else []) + ([count] if count else [])
        ax.set_title("\n".join(wrapped(line, panel_width(models)) for line in lines))
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5 if len(models) < 3 else 3, steps=[1, 2, 5, 10]))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    return axes


def _middle(models: Sequence[str]) -> float:
    """Middle of the panels of named rows, as a share of the width."""
    return (1 + NAMES / width_of(models)) / 2


def _endless(ax: Axes, low: float, y: float, color: str) -> None:
    """A bar from low to an infinity sign at the end of the axis."""
    look: dict[str, Any] = {"color": color, "ha": "right", "va": "center"}
    if not np.isfinite(low):
        ax.text(1, y, "∞", transform=ax.get_yaxis_transform(), **look)
        return
    ax.update_datalim([(low, y)])
    bar = {"arrowstyle": "-", "color": color, "lw": 1.0, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("∞", (low, y), (1, y), textcoords=ax.get_yaxis_transform(), arrowprops=bar, **look)


def say(ax: Axes, text: str, row: int | None = None) -> None:
    """Writes what a row of a panel, or all of it, lacks."""
    y, across = (0.5, ax.transAxes) if row is None else (row, ax.get_yaxis_transform())
    ax.text(0.5, y, text, transform=across, ha="center", va="center", color="#666666", fontsize=SMALL, style="italic")


def strip(ax: Axes, values: ArrayLike, y: float, color: str, room: float) -> None:
    """Single values as points, spread evenly over the room about y; where in it they lie means nothing."""
    x = np.asarray(values, dtype=float)
    aside = room * (np.arange(len(x)) * 0.618034 % 1 - 0.5)  # golden ratio: even, and the same every time
    ax.scatter(x, y + aside, s=2.5, c=color, lw=0, alpha=0.35, zorder=2, rasterized=True)
