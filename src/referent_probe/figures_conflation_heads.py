"""Whose pronoun heads read and the model holds, as drawings: head maps by owner, the owner exchanged.

As in `figures`: values in, a `Figure` out; nothing is estimated or saved. Effects are in logits of the log-odds,
feminine over masculine option: after a feminine prime less after a masculine one. Intervals are at 95 %.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.ticker import MaxNLocator

from referent_probe.analysis.conflation.head_map_agreement import MapAgreement
from referent_probe.figures import (
    COLUMN,
    PAGE,
    STYLE,
    colour_limit,
    draw_cells,
    drawing,
    legend_below,
    minus,
)
from referent_probe.figures_lanes import BLACK
from referent_probe.figures_names import name_cells
from referent_probe.figures_panels import LINE, wrapped
from referent_probe.figures_rows import LOOKS, absent, occupations

_MAPS = {"other_less_third": "other − third", "same_less_third": "same − third"}
_DIRECTIONS = {"denoise": "Denoising (sufficient?)", "noise": "Noising (necessary?)"}


def difference_maps(maps: pd.DataFrame, agreement: Sequence[MapAgreement]) -> Figure:
    """Which heads read the other referent's pronoun as such, and which the own referent's: two head maps, alike or not.

    Args:
        maps: One row a direction and head: `direction` ("denoise" or "noise"), `layer`, `head`; `other_less_third` and
            `same_less_third`, mean effects of patching the head after one prime less after the other, logits (nan: not
            computed); `in_k` and `in_r`, the share of the choices of carriers that name it owner-specific and
            owner-blind, 0 to 1; `n` occupations.
        agreement: From `analysis.conflation.head_map_agreement.map_agreement`.

    Returns:
        Two panels a direction, layer (first at the bottom) by head, all on one symmetric colour scale. Carriers have a
        rectangle (K) or an ellipse (R) around them, thin where some of the choices name them and some do not.

    Example:
        A conflater's two maps are alike as far as noise lets them be; a repeater's are both noise.
    """
    given = list(maps["direction"])
    shown = [direction for direction in dict.fromkeys([*_DIRECTIONS, *given]) if direction in given]
    n_layers, n_heads = (int(maps[name].max()) + 1 if len(maps) else 1 for name in ("layer", "head"))
    limit, heads = colour_limit(maps[list(_MAPS)]), maps.drop_duplicates(["layer", "head"])
    thin = bool(((heads[["in_k", "in_r"]] > 0) & (heads[["in_k", "in_r"]] < 1)).any(axis=None))
    n = f"n = {len(heads)} heads{occupations(maps)}".replace(", n =", ",")
    note = "\nthin outline: named in some of the choices of carriers" if thin else ""
    detail = wrapped(f"effect of patching one head, {n}{note}", COLUMN)
    width = float(np.clip(1.4 + 0.2 * n_heads, COLUMN, PAGE))
    panel = float(np.clip(0.07 * n_layers, 1.0, 3.2))
    height = 0.65 + LINE * detail.count("\n") + (1.35 + panel) * max(len(shown), 1)
    with drawing(width, height, "Whose pronoun a head reads", detail) as (figure, body):
        if not shown:
            absent(body.subplots())
            return figure
        for part, direction in zip(body.subfigures(len(shown), 1, squeeze=False)[:, 0], shown, strict=True):
            its = maps[maps["direction"] == direction]
            part.suptitle(_agreement(direction, agreement), fontsize=STYLE["font.size"])
            panels = part.subplots(1, 2, sharey=True)
            for ax, (column, title) in zip(panels, _MAPS.items(), strict=True):
                grid = its.pivot(index="layer", columns="head", values=column)
                image = draw_cells(ax, grid.reindex(index=range(n_layers), columns=range(n_heads)), limit, "head")
                ax.set_title(title)
            panels[0].set_ylabel("layer")
            bar = part.colorbar(image, ax=panels, label="difference (logits)", aspect=20, pad=0.02)
            bar.ax.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))  # whatever its height
            figure.draw_without_rendering()  # names are placed by distances on the page
            for ax, column in zip(panels, _MAPS, strict=True):
                _outline(ax, its)
                carriers = its[(its["in_k"] > 0) | (its["in_r"] > 0)]
                name_cells(ax, carriers, by=column, coloured=its[its[column].abs() > limit / 8])
        _legend_of_outlines(body, heads)
    return figure


def _agreement(direction: str, agreement: Sequence[MapAgreement]) -> str:
    """Correlations of the two maps, with what they would be if the maps differed by noise alone."""
    lines = [_DIRECTIONS.get(direction, direction)]
    for one in (one for one in agreement if one.direction == direction):
        low, high = one.spearman.low, one.spearman.high
        ends = f" [{low:.2f}, {high:.2f}]" if np.isfinite([low, high]).all() else ""
        lines.append(f"Spearman ρ = {one.spearman.mean:.2f}{ends}, ceiling {one.ceiling:.2f}")
        lines.append(f"across halves {one.across_halves:.2f}, ceiling {one.across_halves_ceiling:.2f}")
    return minus("\n".join(lines))


def _outline(ax: Axes, heads: pd.DataFrame) -> None:
    for layer, head, in_k, in_r in heads[["layer", "head", "in_k", "in_r"]].to_numpy(dtype=float):
        look: dict[str, Any] = {"fill": False, "ec": BLACK, "zorder": 3, "clip_on": False}
        if in_k > 0:
            ax.add_patch(Rectangle((head - 0.5, layer - 0.5), 1, 1, lw=1.1 if in_k == 1 else 0.5, **look))
        if in_r > 0:
            ax.add_patch(Ellipse((head, layer), 1, 1, lw=1.1 if in_r == 1 else 0.5, **look))


def _legend_of_outlines(part: SubFigure, heads: pd.DataFrame) -> None:
    handles = []
    for column, marker, text in (("in_k", "s", "owner-specific, K"), ("in_r", "o", "owner-blind, R")):
        named = heads.loc[heads[column] > 0, column]
        sometimes = f" + {(named < 1).sum()}" if (named < 1).any() else ""
        label = f"{text}: {(named == 1).sum()}{sometimes}"
        handles.append(Line2D([], [], ls="", marker=marker, mfc="none", mec=BLACK, ms=5, mew=1, label=label))
    part.legend(handles=handles, ncols=2, loc="outside lower center", handletextpad=0.1, columnspacing=1)


def binding_swap(table: pd.DataFrame) -> Figure:
    """The prime's effect when the direction in which owners differ is exchanged, layer by layer.

    Args:
        table: One row a layer and kind of exchange: `layer`, `kind` ("owner difference", "random direction" of the same
            norm), `effect_mean`, `effect_low`, `effect_high` in logits (nan: not computed), `other` and `same` (O and
            S, effects of the two primes with nothing exchanged, the same in all rows), `n` occupations.

    Returns:
        A line with its band a kind; lines at O, S and 0.

    Example:
        Where the line of the owner difference goes from O to S and the random direction's stays at O, the model holds
        in that layer whose pronoun it is, and answers by it.
    """
    kinds = list(dict.fromkeys(table["kind"]))
    detail = wrapped(f"effect of the other referent's pronoun{occupations(table)}\nbands: 95 % intervals", COLUMN)
    height = 2.9 + LINE * (detail.count("\n") + 1)
    with drawing(COLUMN, height, "Whose pronoun it is, exchanged", detail) as (figure, body):
        ax = body.subplots()
        if table["effect_mean"].isna().all():
            absent(ax)
            return figure
        ax.axhline(0, color=BLACK, lw=0.6, zorder=1)
        for kind, (color, marker, style) in zip(kinds, cycle(LOOKS), strict=False):
            line = table[table["kind"] == kind].sort_values("layer")
            ax.fill_between(line["layer"], line["effect_low"], line["effect_high"], color=color, alpha=0.15, lw=0)
            look: dict[str, Any] = {"color": color, "marker": marker, "ls": style, "ms": 2.5, "lw": 1}
            ax.plot(line["layer"], line["effect_mean"], label=f"{kind} exchanged", **look)
        marks = (("other", "O: other referent's", "--"), ("same", "S: own referent's", ":"))
        for column, label, style in marks:
            ax.axhline(float(table[column].mean()), color="#555555", lw=1, ls=style, zorder=1, label=label)
        ax.set(xlabel="layer", ylabel="effect of the prime (logits)")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
        legend_below(figure, ax, gap=0.5)
    return figure
