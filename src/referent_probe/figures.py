"""Tables to drawings: every function takes a table and returns a matplotlib `Figure`; it saves nothing.

Figures are made to be read in one column of a paper (3.4 inches), and grow only where a model has more heads, or a run
more pairs, than fit. Colours are safe for red-green blindness: the diverging map runs from blue to red, is symmetric
and white at zero, and no category is told by colour alone.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from referent_probe.analysis.inference import Interval
from referent_probe.figures_names import name_cells, name_heads

STYLE: dict[Any, Any] = {
    "font.size": 7.5,
    "text.parse_math": False,  # a "$" in a role noun is a dollar
    "axes.titlesize": "medium",
    "figure.titlesize": 8,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 200,
    "figure.constrained_layout.use": True,
}
COLUMN, PAGE = 3.4, 7.0  # widths of a column and of a page, inches
BLUE, ORANGE, GREY, MISSING = "#0072B2", "#D55E00", "#9A9A9A", "#D9D9D9"
SMALLEST_TOTAL = 0.1  # logits; dividing by less than this would show noise

_BOLD_SPANS = ("priming_pronoun", "blank", "target_slot")
_ORDERS = {"mf": ("masculine option first", "o", BLUE), "fm": ("feminine option first", "D", ORANGE)}
_CASES = {"nominative": "nom.", "accusative": "acc.", "possessive": "poss."}
_WHOLE_NUMBERS: dict[str, Any] = {"integer": True, "min_n_ticks": 1, "steps": [1, 2, 5, 10]}


def head_map(heads: pd.DataFrame, total: Interval) -> Figure:
    """Effect of patching each head, in both directions, carriers outlined.

    Args:
        heads: One row per head: `layer`, `head`, `denoise_mean` and `noise_mean` in logits (nan: not computed),
            `carrier` ("none", "denoise", "noise" or "both": the directions in which the head carries the effect).
        total: The contrasts' total effect.

    Returns:
        Two panels, layer (first at the bottom) by head, with one symmetric colour scale.
    """
    n_layers, n_heads = int(heads["layer"].max()) + 1, int(heads["head"].max()) + 1
    n_carriers = (heads["carrier"] != "none").sum()
    note = f"{n_carriers} carriers outlined (layer.head)" if n_carriers else "no head is a carrier"
    detail = f"total effect {total}; {note}".replace(", n =", "\nn =")
    limit = colour_limit(heads[["denoise_mean", "noise_mean"]])
    width, height = np.clip(1.2 + 0.24 * n_heads, COLUMN, PAGE), np.clip(1.4 + 0.11 * n_layers, 2.6, 9.0)
    with drawing(width, height, "Patching one head at a time", detail) as (figure, body):
        panels = body.subplots(1, 2, sharey=True)
        for ax, direction, meaning in zip(panels, ("denoise", "noise"), ("sufficient?", "necessary?"), strict=True):
            grid = heads.pivot(index="layer", columns="head", values=f"{direction}_mean")
            image = draw_cells(ax, grid.reindex(index=range(n_layers), columns=range(n_heads)), limit, "head")
            ax.set_title(f"{direction[:-1]}ing\n({meaning})")
        panels[0].set_ylabel("layer")
        body.colorbar(image, ax=panels, label="effect on the log-odds (logits)", aspect=35, pad=0.02)
        figure.draw_without_rendering()  # names are placed by distances on the page
        for ax, direction in zip(panels, ("denoise", "noise"), strict=True):
            carriers = heads[heads["carrier"].isin([direction, "both"])]
            for layer, head in zip(carriers["layer"], carriers["head"], strict=True):
                ax.add_patch(Rectangle((head - 0.5, layer - 0.5), 1, 1, fill=False, ec="black", lw=1.0, zorder=3))
            coloured = heads[heads[f"{direction}_mean"].abs() > limit / 8]
            name_cells(ax, carriers, by=f"{direction}_mean", coloured=coloured)
    return figure


def flow_map(flow: pd.DataFrame) -> Figure:
    """Where the effect sits, layer by layer: the residual stream patched at one span at a time.

    Args:
        flow: One row per layer and span, spans in the order of the prompt: `layer`, `span`, `effect_mean` in logits
            (nan: not computed), `total_mean` in logits, `n_contrasts`.

    Returns:
        Span by layer. Colour is the share of the total effect, or the effect in logits where the total is below
        `SMALLEST_TOTAL`.
    """
    spans, total = list(dict.fromkeys(flow["span"])), float(flow["total_mean"].mean())
    shares = abs(total) >= SMALLEST_TOTAL
    grid = flow_grid(flow, spans) / (total if shares else 1.0)
    remark = "" if shares else "\n(too small a total to divide by)"
    detail = f"total effect {total:.2f} logits, n = {flow['n_contrasts'].max()} contrasts{remark}"
    width, height = np.clip(1.9 + 0.05 * grid.shape[1], COLUMN, PAGE), 1.2 + 0.17 * len(spans)
    with drawing(width, height, "Where the effect of the priming pronoun sits", detail) as (figure, body):
        ax = body.subplots()
        image = draw_cells(ax, grid, colour_limit(grid), "layer whose input is patched")
        name_spans(ax, spans)
        body.colorbar(image, ax=ax, label="share of the total effect" if shares else "effect (logits)", pad=0.02)
    return figure


def attention_by_layer(heads: pd.DataFrame, n_named: int = 4) -> Figure:
    """How much each head looks from the target slot at the priming pronoun, and what it writes by that.

    Args:
        heads: One row per head: `layer`, `head`, `attention_to_prime_mean` (0 to 1), `prime_attribution_mean` in
            logits (nan: not computed), `carrier` ("none", "denoise", "noise" or "both").
        n_named: Heads named in each panel beside the carriers: those with the largest values.

    Returns:
        Two panels over one layer axis; carriers in another colour and shape, the largest of them named.
    """
    n_layers, carrier = int(heads["layer"].max()) + 1, heads["carrier"] != "none"
    columns = ("attention_to_prime_mean", "prime_attribution_mean")
    detail = f"at the target slot, named layer.head, n = {len(heads)} heads"
    width, headline = np.clip(1.9 + 0.05 * n_layers, COLUMN, PAGE), "What each head takes from the priming pronoun"
    with drawing(width, 4.0, headline, detail) as (figure, body):
        panels = body.subplots(2, 1, sharex=True)
        for ax, column in zip(panels, columns, strict=True):
            ax.axhline(0, color="black", lw=0.5, zorder=1)
            for group, color, marker, name in (
                (~carrier, GREY, "o", "other heads"),
                (carrier, ORANGE, "D", "carriers"),
            ):
                x, y, label = heads.loc[group, "layer"], heads.loc[group, column], f"{group.sum()} {name}"
                ax.scatter(x, y, s=9, c=color, marker=marker, lw=0, alpha=0.8, label=label)
        panels[0].set(title="attention to the priming pronoun", ylabel="attention (0 to 1)")
        panels[0].set_ylim(-0.02, max(0.1, 1.1 * heads[columns[0]].max()))
        panels[1].set(title="direct logit attribution via the priming pronoun", ylabel="attribution (logits)")
        panels[1].set_xlabel("layer")
        panels[1].set_xlim(-0.7, n_layers - 0.3)
        panels[1].xaxis.set_major_locator(MaxNLocator(**_WHOLE_NUMBERS))
        legend_below(figure, panels[0])
        figure.draw_without_rendering()  # names are placed by distances on the page
        for ax, column in zip(panels, columns, strict=True):
            top = heads[column].abs().rank(ascending=False) <= n_named
            name_heads(ax, heads[carrier | top], "layer", column, by=column, avoid=heads)
    return figure


def pair_effects(contrasts: pd.DataFrame) -> Figure:
    """Total effect of the prime in every contrast of every pair, pairs sorted by their mean.

    The total effect is the log-odds, feminine over masculine option, after the feminine prime less those after the
    masculine prime: above 0 the answer goes with the other person's pronoun, below 0 against it.

    Args:
        contrasts: One row per contrast: `pair`, `occupation`, `case`, `option_order` ("mf" or "fm"),
            `total_effect` in logits.

    Returns:
        One row per pair: its contrasts as dots, its mean as a bar. Pairs are named where their names can be read.
    """
    means = contrasts.groupby(["pair", "occupation", "case"])["total_effect"].mean().sort_values()
    rows = {pair: row for row, (pair, _, _) in enumerate(means.index)}
    row_height = np.clip(6.0 / len(rows), 0.02, 0.17)
    named = row_height >= 0.1
    dot, bar = (12, 60) if named else (4, 15)
    detail = f"n = {len(rows)} pairs, {contrasts['total_effect'].count()} contrasts"
    with drawing(COLUMN, 1.6 + row_height * len(rows), "Effect of the prime, pair by pair", detail) as (figure, body):
        ax = body.subplots()
        ax.axvline(0, color="black", lw=0.6, zorder=1)
        for order, (label, marker, color) in _ORDERS.items():
            dots = contrasts[contrasts["option_order"] == order]
            x, y = dots["total_effect"], dots["pair"].map(rows)
            ax.scatter(x, y, s=dot, c=color, marker=marker, lw=0, alpha=0.8, label=label)
        ax.scatter(means, range(len(means)), s=bar, c="black", marker="|", lw=1.3, zorder=3, label="mean of the pair")
        ax.set(xlabel="← against prime    with prime →\neffect on feminine log-odds (logits)")
        ax.set_ylim(-0.7, len(rows) - 0.3)
        if named:
            names = [f"{occupation}, {_CASES.get(case, case)} {pair}" for pair, occupation, case in means.index]
            ax.set_yticks(range(len(rows)), names)
            ax.tick_params(axis="y", length=0)
            ax.grid(axis="y", color=MISSING, lw=0.5)
            ax.set_axisbelow(True)
        else:
            ax.set(ylabel="pairs, sorted by mean", yticks=[])
        legend_below(figure, ax)
    return figure


@contextmanager
def drawing(width: float, height: float, headline: str, detail: str) -> Iterator[tuple[Figure, SubFigure]]:
    """A titled figure in the one style and the room below its titles; laid out when the block ends."""
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a role noun in a script that the font lacks
        figure = Figure(figsize=(width, height))
        figure.suptitle(headline, fontweight="bold")
        body = figure.add_subfigure(figure.add_gridspec(1, 1)[0])
        body.suptitle(minus(detail), fontsize=STYLE["font.size"])
        yield figure, body
        figure.draw_without_rendering()  # ticks take their style when they are first drawn


def flow_grid(flow: pd.DataFrame, spans: Sequence[str]) -> pd.DataFrame:
    """Effects in logits, the given spans by all layers; nan where the table (see `flow_map`) has none."""
    cells = flow.pivot(index="span", columns="layer", values="effect_mean")
    return cells.reindex(index=list(spans), columns=range(int(flow["layer"].max()) + 1))


def name_spans(ax: Axes, spans: Sequence[str]) -> None:
    """Names the rows of a panel, the first on top; the spans that the question is about are bold."""
    ax.set_yticks(range(len(spans)), [span.replace("_", " ") for span in spans])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(spans) - 0.5, -0.5)
    for label, span in zip(ax.get_yticklabels(), spans, strict=True):
        label.set_fontweight("bold" if span in _BOLD_SPANS else "normal")


def minus(text: str) -> str:
    """The text with a minus sign for the hyphen before a digit."""
    return re.sub(r"-(?=\d)", "−", text)


def colour_limit(values: pd.DataFrame) -> float:
    """End of a symmetric colour scale: the largest distance from zero, 1 where there is none."""
    largest = values.abs().max().max()
    return float(largest) if largest > 0 else 1.0


def draw_cells(ax: Axes, grid: pd.DataFrame, limit: float, xlabel: str) -> AxesImage:
    """Draws the first row at the bottom; cells without a value are grey, and the axis says so."""
    note = "\n(grey: not computed)" if grid.isna().any(axis=None) else ""
    ax.set(facecolor=MISSING, xlabel=xlabel + note)
    image = ax.imshow(grid, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", origin="lower")
    ax.xaxis.set_major_locator(MaxNLocator(**_WHOLE_NUMBERS))
    ax.yaxis.set_major_locator(MaxNLocator(**_WHOLE_NUMBERS))
    return image


def legend_below(figure: Figure, ax: Axes, columns: int = 2, gap: float = 0.1) -> None:
    """Explains what a panel shows below all panels; the gap between marker and text is in letters."""
    entries = ax.get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=columns, handletextpad=gap, columnspacing=1)
