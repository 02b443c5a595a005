"""Drawings of contextuality: which pairs are contextual by which estimator, what dC is made of, what models share.

Every function takes tables of `referent_probe.analysing` and returns a `Figure` with a panel a model; it computes and
saves nothing. Shown are answers to prompts, with 95 % intervals. The published formulas are shaded: they stand there
for comparison only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from referent_probe.analysis.contextuality import THRESHOLDS
from referent_probe.figures import GREY, MISSING
from referent_probe.figures_lanes import (
    BLACK,
    GREEN,
    ORDER_LANES,
    PURPLE,
    Keys,
    Lane,
    Temperature,
    chosen,
    models_of,
    where,
)
from referent_probe.figures_panels import Dots, Lines, Section, say, stacked, strip, wrapped

ESTIMATORS = {
    "joint": "joint",
    "self_primed": "self-primed",
    "steered": "steered",
    "released": "released\n(comparison)",
    "printed": "printed\n(comparison)",
}
"""Readings of dC as the figures name them, in their order."""

PRIMARY_THRESHOLD = 0.01
MOST_SUBSETS = 16  # bars that a column has room for

_AS_PUBLISHED = "released, dC > 0\n(as published)"
_COMPARISON = (ESTIMATORS["released"], ESTIMATORS["printed"], _AS_PUBLISHED)
_ROWS: dict[str, Keys] = {label: {"estimator": name} for name, label in ESTIMATORS.items()}
_SHARE_LANES = (
    *ORDER_LANES,
    Lane("either order (union)", {"option_order": "union"}, PURPLE, "^"),
    Lane("order averaged out", {"option_order": "both"}, BLACK, "s"),
)
_RING = Lane("reported in the paper", color=GREY, hollow=True)
_REPORTED = {"options [m, f]": "mf", "options [f, m]": "fm", "either option order": "union"}
_PART_LANES = (
    Lane("dC", {"quantity": "delta_c_mean"}, BLACK, "s", hollow=True),
    Lane("first term (correlations)", {"quantity": "correlation_difference_mean"}, GREEN, "o"),
    Lane("signalling", {"quantity": "signalling_mean"}, PURPLE, "D"),
)
_ESTIMATOR_LANES = tuple(
    Lane(label.replace("\n", " "), {"estimator": name}, *look)
    for (name, label), look in zip(
        ESTIMATORS.items(),
        (
            (BLACK, "s", False, "-"),
            (GREEN, "o", False, "-"),
            (PURPLE, "D", False, "-"),
            ("#777777", "^", True, "--"),
            ("#777777", "v", True, ":"),
        ),
        strict=True,
    )
)


def figure_4(
    quantities: pd.DataFrame,
    reported: pd.DataFrame | None = None,
    temperature: Temperature = 0.5,
    threshold: float = PRIMARY_THRESHOLD,
) -> Figure:
    """Share of contextual pairs, and which models share them (the paper's figure 4).

    Args:
        quantities: Read are `contextual_share` and, of several models, `overlap_pairs`, both at the threshold; the
            published formula also at the published threshold, 0.
        reported: The paper's numbers, as in `analysis/data/reported_values.csv`; None for none. A panel of a model of
            the paper shows its own, another those of all.
        temperature: Primary one.
        threshold: dC above which a pair is contextual.

    Returns:
        (a) The share by estimator and option order, "both orders" with the order averaged out; what the paper reports
        as rings, in the row of its formula and threshold. (b) With several models: pairs that are contextual in exactly
        the models with a dot, orders averaged out, by the first estimator that has them.
    """
    models = models_of(quantities)
    tables = [where(chosen(quantities, model, temperature), {"quantity": "contextual_share"}) for model in models]
    rows: dict[str, Keys] = {label: {**keys, "threshold": threshold} for label, keys in _ROWS.items()}
    rows[_AS_PUBLISHED] = {"estimator": "released", "threshold": 0.0}
    heights = np.linspace(-0.36, 0.36, len(_SHARE_LANES)).tolist()

    def draw_reported(ax: Axes, model: int) -> None:
        for order, shares in [] if reported is None else _reported(reported, models[model]):
            at = [lane.keys["option_order"] for lane in _SHARE_LANES].index(order)
            color, y = _SHARE_LANES[at].color, [len(rows) - 1 + heights[at]] * len(shares)
            ax.scatter(shares, y, s=14, marker="o", fc="none", ec=color, lw=0.6, zorder=5)

    xlabel = ("(a) " if len(models) > 1 else "") + f"share of pairs with dC > {threshold:g} (as published: > 0)"
    options: dict[str, Any] = {"limits": (-0.05, 1.05), "places": heights, "shaded": _COMPARISON}
    options |= {"behind": draw_reported, "also": [] if reported is None else [_RING]}
    sections: list[Section] = [Dots(xlabel, tables, rows, _SHARE_LANES, 0.4, **options)]
    detail = "bars: 95 % interval; shaded: published formulas, for comparison only"
    if reported is not None:
        detail += "; a ring: a model of the paper, dC > 0 in its own 180 pairs, sampled"
    shared = where(quantities, {"reading": "choice", "quantity": "overlap_pairs", "threshold": threshold})
    shared = where(shared, {"option_order": "both"})
    if len(models) > 1 and bool((shared["value"] > 0).any()):
        sections.append(Overlap(shared, threshold))
    return stacked(models, sections, "Contextual pairs", detail)


def figure_delta_c(
    quantities: pd.DataFrame, pairs: pd.DataFrame, option_order: str = "both", temperature: Temperature = 0.5
) -> Figure:
    """How dC is distributed over pairs, and the two parts that it is the difference of.

    Args:
        quantities: Read are `delta_c_mean`, `correlation_difference_mean` and `signalling_mean`.
        pairs: Read are `delta_c`, `correlation_difference` and `signalling`.
        option_order: "mf", "fm" or "both".
        temperature: Primary one.

    Returns:
        A row an estimator: a point a pair, the mean and its interval; lines at the thresholds.
    """
    models = models_of(quantities)
    order = {"option_order": option_order}
    tables = [where(chosen(quantities, model, temperature), order) for model in models]
    points = [where(chosen(pairs, model, temperature), order) for model in models]
    places = (-0.3, 0.0, 0.3)

    def draw_points(ax: Axes, model: int) -> None:
        for threshold, style in zip(THRESHOLDS, ("-", "--", ":"), strict=True):
            ax.axvline(threshold, color="#777777", lw=0.6, ls=style, zorder=1)
        for row, keys in enumerate(_ROWS.values()):
            its = where(points[model], keys)
            for lane, place in zip(_PART_LANES, places, strict=True):
                column = str(lane.keys["quantity"]).removesuffix("_mean")
                strip(ax, its[column], row + place, lane.color, 0.24)

    options: dict[str, Any] = {"places": places, "shaded": _COMPARISON, "behind": draw_points, "edge": BLACK}
    section = Dots("dC = first term minus signalling (no unit)", tables, _ROWS, _PART_LANES, 0.5, **options)
    which = {"both": "option orders averaged out", "mf": "masculine option first", "fm": "feminine option first"}
    lines = ", ".join(f"{threshold:g}" for threshold in THRESHOLDS)
    detail = f"{which[option_order]}; a point a pair; markers: mean, 95 % interval; lines: dC = {lines}"
    return stacked(models, [section], "What contextuality is made of", detail)


def figure_s5(quantities: pd.DataFrame, threshold: float = PRIMARY_THRESHOLD) -> Figure:
    """Share of contextual pairs against temperature (the paper's figure S5).

    Args:
        quantities: Read is `contextual_share` (option orders both and union) at every temperature.
        threshold: dC above which a pair is contextual.

    Returns:
        The share with option order averaged out, and in either order; a line an estimator, those for comparison grey.
    """
    models = models_of(quantities)
    kept = where(quantities, {"quantity": "contextual_share", "threshold": threshold})
    sections = [
        Lines(
            f"share of pairs,\n{name}",
            [where(chosen(kept, model), {"option_order": order}) for model in models],
            _ESTIMATOR_LANES,
            (-0.05, 1.05),
            explained=order == "union",
        )
        for order, name in (("both", "orders averaged"), ("union", "either order"))
    ]
    detail = f"pairs with dC > {threshold:g}; estimators side by side at each temperature; bars: 95 % interval; grey: "
    detail += "published formulas, for comparison only"
    return stacked(models, sections, "Contextual pairs against temperature", detail)


@dataclass(frozen=True)
class Overlap:
    """Pairs that are contextual in exactly the models with a dot.

    Attributes:
        table: Rows of `overlap_pairs`, of one option order.
        threshold: dC above which a pair is contextual.
    """

    table: pd.DataFrame
    threshold: float

    def height(self, models: Sequence[str]) -> float:
        """Inches."""
        return 1.9 + 0.16 * len(models)

    def draw(self, part: SubFigure, models: Sequence[str], *, first: bool) -> None:
        """Draws it in its part of the figure."""
        name = next((name for name in ESTIMATORS if (self.table["estimator"] == name).any()), "")
        counts = where(self.table, {"estimator": name})
        drawn = counts[counts["value"] > 0].sort_values("value", ascending=False, kind="stable")
        left, drawn = drawn["value"].iloc[MOST_SUBSETS:], drawn.iloc[:MOST_SUBSETS]
        bars, members = part.subplots(2, 1, sharex=True, height_ratios=[1.2, 0.16 * len(models)])
        title = f"(b) {ESTIMATORS[name]}, order averaged out, n = {counts['n_rows'].max()} pairs" if name else "(b)"
        rest = f"\n{len(left)} smaller groups, {left.sum():.0f} pairs, not shown" if len(left) else ""
        bars.set_title(title + rest)
        bars.set_ylabel("pairs contextual in\nexactly these models")
        bars.tick_params(axis="x", length=0)
        bars.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        places = bars.bar(range(len(drawn)), drawn["value"], color=BLACK, width=0.6)
        bars.bar_label(places, fmt="{:.0f}", padding=1)
        bars.margins(y=0.15)
        if drawn.empty:
            say(bars, "no pair is contextual" if name else "not computed")
        for at, names in enumerate(drawn["model"]):
            rows = [row for row, model in enumerate(models) if model in names.split(" & ")]
            members.scatter([at] * len(models), range(len(models)), s=14, c=MISSING, lw=0)
            members.plot([at] * len(rows), rows, color=BLACK, marker="o", ms=3.7, lw=1)
        members.set(xticks=[], xlim=(-0.7, max(len(drawn), 6) - 0.3), ylim=(len(models) - 0.5, -0.5))
        members.set_yticks(range(len(models)), [wrapped(model, 2.0) for model in models])
        members.tick_params(axis="y", length=0)
        members.spines[["left", "bottom"]].set_visible(False)


def _reported(table: pd.DataFrame, model: str) -> list[tuple[str, list[float]]]:
    """Option order and the paper's shares: of this model if it is in the paper, else of all."""
    about = ("quantity", "setting", "unit", "provenance")
    names = [str(column) for column in table.columns if column not in about]
    own = [name for name in names if _plain(name) in _plain(model)]
    calls = table[table["quantity"].str.startswith("contextual_pairs")]
    shares = calls[own or names].astype(float) / 100  # they are in percent
    orders = calls["setting"].map(_REPORTED)
    return [(order, row.dropna().tolist()) for order, (_, row) in zip(orders, shares.iterrows(), strict=True)]


def _plain(name: str) -> str:
    """Letters and digits of a name, in lower case."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
