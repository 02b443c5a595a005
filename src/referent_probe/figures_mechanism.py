"""What carries an effect, as drawings: attention cut, heads patched together, heads ablated, spans that heads read.

As in `figures`: a table in, a `Figure` out; nothing is computed or saved. Effects are in logits of the log-odds,
feminine over masculine option. Intervals are the table's, at 95 %; where it has none (nan) none is drawn.
"""

from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from referent_probe.figures import (
    BLUE,
    COLUMN,
    GREY,
    MISSING,
    ORANGE,
    PAGE,
    SMALLEST_TOTAL,
    colour_limit,
    draw_cells,
    drawing,
    legend_below,
)
from referent_probe.figures_lanes import BLACK
from referent_probe.figures_panels import LINE, say, wrapped
from referent_probe.figures_rows import (
    KINDS,
    LOOKS,
    absent,
    dots,
    estimates,
    legend_columns,
    looks_of_kinds,
    mark_total,
    name_rows,
    occupations,
    reason,
    total_effect,
)

DIRECTIONS = {"denoise": "denoising\n(sufficient?)", "noise": "noising\n(necessary?)"}

_WHOLE: dict[str, Any] = {"nbins": 6, "integer": True, "min_n_ticks": 1, "steps": [1, 2, 5, 10]}
_MOST_LINEAR = 16  # heads; where there are more, the axis is logarithmic


def knockout_curve(table: pd.DataFrame) -> Figure:
    """What remains of the prime's effect when attention to a token is cut in a window of layers.

    Args:
        table: One row per cut and window: `label` (what is cut: the priming pronoun, the prime, or a control),
            `window` (its number of layers), `layer` and `last_layer` (its first and its last), `remaining_mean`,
            `remaining_low`, `remaining_high` and `total` (the effect without a cut, the same in all rows) in logits,
            `n` occupations.

    Returns:
        A panel per size of window, a line with its 95 % band per label, lines at the total effect and at 0. The axis
        on the right is the share of the total, left out where that is below `SMALLEST_TOTAL`.

    Example:
        A line that falls to 0 where the window starts at layer 10, while those of the controls stay at the total, says
        that the answer reads the prime from there on.
    """
    windows, labels = list(dict.fromkeys(table["window"])), list(dict.fromkeys(table["label"]))
    total, columns = float(table["total"].mean()), legend_columns(labels)
    detail = wrapped(f"{total_effect(table)}\nbands: 95 % intervals", COLUMN)
    height = 0.75 + LINE * (detail.count("\n") + (len(labels) + 1) / columns) + 2.1 * max(len(windows), 1)
    with drawing(COLUMN, height, "What remains when attention is cut", detail) as (figure, body):
        panels = body.subplots(max(len(windows), 1), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for ax, window in zip(panels, windows, strict=False):
            ax.axhline(0, color=BLACK, lw=0.6, zorder=1)
            for label, (color, marker, style) in zip(labels, cycle(LOOKS), strict=False):
                line = table[(table["window"] == window) & (table["label"] == label)].sort_values("layer")
                ends = line["remaining_low"], line["remaining_high"]
                ax.fill_between(line["layer"], *ends, color=color, alpha=0.15, lw=0)
                look: dict[str, Any] = {"color": color, "marker": marker, "ls": style, "ms": 2.5, "lw": 1}
                ax.plot(line["layer"], line["remaining_mean"], label=label, **look)
            ax.axhline(total, color=GREY, lw=1, ls="--", zorder=1, label="nothing cut")
            ax.set(ylabel="remaining effect (logits)", title=f"windows of {window} layer{'s' if window != 1 else ''}")
            ax.xaxis.set_major_locator(MaxNLocator(**_WHOLE))
        for ax in panels if abs(total) >= SMALLEST_TOTAL else ():  # only now are the limits those of all panels
            right = ax.twinx()
            right.set(ylim=np.divide(ax.get_ylim(), total), ylabel="share of the total effect")
            right.spines.right.set_visible(True)
            right.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        panels[-1].set_xlabel("first layer of the window")
        if labels:
            legend_below(figure, panels[0], columns, 0.5)
        else:
            absent(panels[0])
    return figure


def joint_shares(table: pd.DataFrame) -> Figure:
    """How much of the total effect the leading heads carry together, and what their single effects add up to.

    Args:
        table: One row per direction and number of heads: `direction` ("denoise" or "noise"), `k` (heads patched
            together: the leading ones of the other half of the occupations), `share`, `share_low`, `share_high` of the
            total effect, held out, `sum_of_singles`, `sum_low`, `sum_high` (the same heads one at a time, added up)
            also as shares of the total effect, `n` occupations; where shares are nan, `reason` may say why.

    Returns:
        A panel per direction, lines at 0 and at 1. Where the two curves part, heads act through or instead of one
        another.
    """
    given = list(table["direction"])
    shown = [direction for direction in dict.fromkeys([*DIRECTIONS, *given]) if direction in given]
    detail = wrapped(
        f"chosen on one half, tested on the other{occupations(table)}\nbars and band: 95 % intervals", COLUMN
    )
    with drawing(COLUMN, 2.9 + LINE * detail.count("\n"), "Leading heads patched together", detail) as (figure, body):
        panels = body.subplots(1, max(len(shown), 1), sharex=True, sharey=True, squeeze=False)[0]
        drawn = []
        for ax, direction in zip(panels, shown, strict=False):
            its = table[table["direction"] == direction].sort_values("k")
            ax.set_title(DIRECTIONS.get(direction, direction))
            if its["share"].isna().all():
                absent(ax, wrapped(reason(its), 1.2))
                continue
            drawn.append(ax)
            ax.axhline(0, color=BLACK, lw=0.6, zorder=1)
            ax.axhline(1, color=GREY, lw=1, ls="--", zorder=1)
            ax.fill_between(its["k"], its["sum_low"], its["sum_high"], color=ORANGE, alpha=0.15, lw=0)
            ax.vlines(its["k"], its["share_low"], its["share_high"], color=BLUE, lw=0.9)
            ax.plot(its["k"], its["share"], color=BLUE, marker="o", ms=3, lw=1.2, label="patched together")
            ax.plot(its["k"], its["sum_of_singles"], color=ORANGE, lw=0.8, ls="--", label="sum of single effects")
            ax.set_xlabel("heads patched, k")
            ax.xaxis.set_major_locator(MaxNLocator(**_WHOLE))
            if its["k"].min() > 0 and its["k"].max() > _MOST_LINEAR:
                ax.set_xscale("log", base=2)
                powers = [2**i for i in range(int(its["k"].max()).bit_length())]
                ax.xaxis.set(major_locator=FixedLocator(powers, 5), minor_locator=NullLocator())
                ax.xaxis.set_major_formatter("{x:g}")
        if drawn:
            drawn[0].set_ylabel("share of the total effect")
            drawn[0].tick_params(labelleft=True)
            legend_below(figure, drawn[0], gap=0.5)
        if not shown:
            absent(panels[0])
    return figure


def ablation_effects(table: pd.DataFrame) -> Figure:
    """What remains of the prime's effect when heads are ablated, under every kind of ablation.

    Args:
        table: One row per head or set of heads, and kind: `label`, `kind` (see `KINDS`), `remaining_mean`,
            `remaining_low`, `remaining_high` and `total` (the effect without an ablation, the same in all rows) in
            logits; where it is known, `n` occupations.

    Returns:
        A row per label, in it a marker with its interval per kind; lines at the total effect and at 0.
    """
    labels, kinds = list(dict.fromkeys(table["label"])), looks_of_kinds(table)
    names, columns = [wrapped(str(label), 1.2) for label in labels], legend_columns(list(kinds))
    detail = wrapped(f"{total_effect(table)}\nbars: 95 % intervals", COLUMN)
    row = max([0.1 + 0.09 * len(kinds), *(0.05 + LINE * (name.count("\n") + 1) for name in names)])
    height = 1.05 + LINE * (detail.count("\n") + (len(kinds) + 1) / columns) + row * max(len(labels), 2)
    with drawing(COLUMN, height, "What remains when heads are ablated", detail) as (figure, body):
        ax = body.subplots()
        if not labels:
            absent(ax)
            return figure
        heights = np.linspace(-0.3, 0.3, len(kinds)) if len(kinds) > 1 else np.zeros(1)
        for (kind, (color, marker, _)), aside in zip(kinds.items(), heights, strict=True):
            its = table[table["kind"] == kind]
            y = its["label"].map({label: at + aside for at, label in enumerate(labels)})
            dots(ax, its, "remaining", y, color, marker, KINDS.get(kind, kind))
        mark_total(ax, table, "nothing ablated")
        name_rows(ax, names)
        for at, label in enumerate(labels):
            ax.axhline(at + 0.5, color=MISSING, lw=0.4, zorder=0)
            if table.loc[table["label"] == label, "remaining_mean"].isna().all():
                say(ax, "not computed", at)
        ax.set_xlabel("remaining effect (logits)")
        legend_below(figure, ax, columns, 0.4)
    return figure


def sources(table: pd.DataFrame) -> Figure:
    """From which span each of the leading heads takes what it writes for the answer.

    Args:
        table: One row per head and span, heads in the order to draw, spans in the order of the prompt: `layer`,
            `head`, `span`, `attribution_mean` (attention attribution from that span, logits; nan: not computed),
            `direct_logit_attribution_mean` (the head's, logits, the same in all its rows; where they are known, its
            `direct_logit_attribution_low` and `_high`), `n` occupations.

    Returns:
        Head by span on a symmetric colour scale. The numbers at the right are the heads' direct logit attribution, to
        which a row adds up.
    """
    table = table.assign(name=table["layer"].astype(str) + "." + table["head"].astype(str))
    spans, heads = list(dict.fromkeys(table["span"])), table.drop_duplicates("name")
    sums = estimates(heads, "direct_logit_attribution")
    width = float(np.clip(1.8 + 0.17 * len(spans) + 0.06 * max(map(len, sums), default=0), COLUMN, PAGE))
    detail = wrapped(f"attention attribution at the target slot{occupations(table)}", width)
    with drawing(
        width,
        2.0 + LINE * detail.count("\n") + 0.16 * max(len(heads), 6),
        "What heads write, by the span they read",
        detail,
    ) as (
        figure,
        body,
    ):
        ax = body.subplots()
        if not spans:
            absent(ax)
            return figure
        grid = table.pivot(index="name", columns="span", values="attribution_mean")
        grid = grid.reindex(index=list(heads["name"]), columns=spans)
        image = draw_cells(ax, grid, colour_limit(grid), "")
        aslant: dict[str, Any] = {"rotation": 45, "rotation_mode": "anchor", "ha": "right", "va": "center"}
        ax.set_xticks(range(len(spans)), [span.replace("_", " ") for span in spans], **aslant)
        ax.tick_params(axis="x", length=0)
        name_rows(ax, list(heads["name"]))
        ax.set_ylabel("layer.head")
        right = ax.secondary_yaxis("right")
        right.set_yticks(range(len(heads)), sums)
        right.tick_params(length=0)
        above: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
        ax.annotate("direct logit\nattribution\n(sum of row)", (1, 1), (4, 1), **above)
        body.colorbar(image, ax=ax, label="attribution (logits)", pad=0.02, aspect=15)
    return figure
