"""Where the effect of the prime sits, layer by layer, in several models side by side: a panel a model, one colour bar.

As in `figures`: tables in, a `Figure` out; nothing is computed or saved.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from referent_probe.figures import (
    COLUMN,
    PAGE,
    SMALLEST_TOTAL,
    STYLE,
    colour_limit,
    draw_cells,
    drawing,
    flow_grid,
    minus,
    name_spans,
)
from referent_probe.figures_panels import LINE, say, wrapped

MOST_SHARE = 1.5  # ends of the shared scale; beyond it is the noise of a small total, and would pale all else
PANELS_A_ROW = 4

_HEADLINE = "Where the effect of the priming pronoun sits"
_NAMES, _BAR = 1.15, 0.7  # inches that the names of spans and the colour bar take


def flow_maps(flows: Mapping[str, pd.DataFrame]) -> Figure:
    """Attribution plots of several models beside each other, on the same rows and with the same colours.

    Args:
        flows: Name of a model to its table, as `figures.flow_map` takes it: one row per layer and span, spans in the
            order of the prompt; `layer`, `span`, `effect_mean` in logits (nan: not computed), `total_mean` in logits,
            `n_contrasts`.

    Returns:
        A panel a model, its total effect in the title. Rows are the spans of all models in the order of the prompt;
        across stands the layer, or the depth as a share of the layers where models differ in their number. Colour is
        the share of the model's own total effect, with an arrow on the colour bar where a share is beyond
        `MOST_SHARE`. A model whose total is below `SMALLEST_TOTAL`, or whose table is empty, is not drawn, and its
        panel says so; where all totals are so small, colour is the effect in logits.

    Raises:
        ValueError: There is no model, or no table has a row.

    Example:
        `flow_maps({"small": flow_effects(...), "large": flow_effects(...)}).savefig("flow.pdf")`
    """
    if all(flow.empty for flow in flows.values()):
        raise ValueError(f"flow_maps was given no effect of any of the models {list(flows)}: give one table a model.")
    spans = in_order([list(dict.fromkeys(flow["span"])) for flow in flows.values()])
    totals = {model: float(flow["total_mean"].mean()) for model, flow in flows.items()}
    shares = any(abs(total) >= SMALLEST_TOTAL for total in totals.values())
    smallest = SMALLEST_TOTAL if shares else 0.0
    drawn = [model for model, total in totals.items() if abs(total) >= smallest]  # that of an empty table is nan
    grids = {model: flow_grid(flows[model], spans) / (totals[model] if shares else 1.0) for model in drawn}
    depth = len({grid.shape[1] for grid in grids.values()}) > 1
    largest = colour_limit(pd.concat(grids.values(), axis=1))
    limit = min(largest, MOST_SHARE) if shares else largest

    n_columns, layers = min(len(flows), PANELS_A_ROW), max(grid.shape[1] for grid in grids.values())
    n_rows = -(-len(flows) // n_columns)
    width = float(np.clip(_NAMES + _BAR + n_columns * np.clip(0.05 * layers, 1.5, 2.4), COLUMN, PAGE))
    panel = (width - _NAMES - _BAR) / n_columns
    counts = {flow["n_contrasts"].max() for flow in flows.values() if len(flow)}
    alike = len(counts) == 1
    of = f", n = {counts.pop()} contrasts" if alike else ""
    detail = wrapped(f"one span patched at a time{of}", width)
    titles = [_title(*each, panel, layers=depth, n=not alike) for each in flows.items()]
    lines = n_rows * (max(title.count("\n") for title in titles) + 2.5) + detail.count("\n") + 4.5
    with drawing(width, n_rows * 0.17 * len(spans) + LINE * lines, _HEADLINE, detail) as (figure, body):
        axes = list(body.subplots(n_rows, n_columns, sharey=True, squeeze=False).flat)
        for ax, model, title in zip(axes, flows, titles, strict=False):
            ax.set_title(title)
            if model not in grids:
                ax.set(xticks=[])
                ax.spines[:].set_visible(False)
                say(ax, "not computed" if flows[model].empty else "total too small\nto divide by")
            else:
                image = draw_cells(ax, grids[model], limit, "")
                ax.set_xlabel("")  # one below all panels
                if depth:
                    image.set_extent((0, 1, -0.5, len(spans) - 0.5))
                    ax.xaxis.set_major_locator(MaxNLocator(2))
                    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.tick_params(axis="y", length=0)
        for ax in axes[::n_columns]:
            name_spans(ax, spans)
        for ax in axes[len(flows) :]:
            ax.set_visible(False)
        label = "share of the total effect" if shares else "effect (logits)\n(totals too small to divide by)"
        beyond = "both" if largest > limit else "neither"
        body.colorbar(image, ax=axes, label=label, pad=0.02, extend=beyond, aspect=25 * n_rows)
        grey = any(grid.isna().any(axis=None) for grid in grids.values())
        below = "layer whose input is patched" + (", as a share of all layers" if depth else "")
        below = wrapped(below, width - _NAMES) + ("\n(grey: not computed)" if grey else "")
        body.supxlabel(below, x=(_NAMES + width - _BAR) / 2 / width, fontsize=STYLE["font.size"])
    return figure


def in_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """The names of all lists once; a name that is new stands right after the one that it follows in its own list.

    Example:
        >>> in_order([["prime", "blank", "slot"], ["prime", "option", "slot"]])
        ['prime', 'option', 'blank', 'slot']
    """
    names: list[str] = []
    for one in lists:
        place = 0
        for name in one:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names


def _title(model: str, flow: pd.DataFrame, panel: float, *, layers: bool, n: bool) -> str:
    """Name of the model and its total effect; how many layers and contrasts where that differs between models."""
    if flow.empty:
        return wrapped(model, panel)
    lines = [wrapped(model, panel), minus(f"total {flow['total_mean'].mean():.2f} logits")]
    lines += [f"n = {flow['n_contrasts'].max()} contrasts"] if n else []
    return "\n".join(lines + ([f"{int(flow['layer'].max()) + 1} layers"] if layers else []))
