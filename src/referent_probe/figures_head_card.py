"""All that is known of one head, on one page.

As in `figures`: tables in, a `Figure` out; nothing is computed or saved.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from referent_probe.figures import BLUE, GREY, MISSING, ORANGE, PAGE, drawing, minus, name_spans
from referent_probe.figures_flow import in_order
from referent_probe.figures_lanes import BLACK, GREEN
from referent_probe.figures_panels import SMALL, wrapped
from referent_probe.figures_rows import (
    KINDS,
    absent,
    bars,
    dots,
    estimates,
    looks_of_kinds,
    mark_total,
    name_rows,
    occupations,
    reason,
)

ALL = "all"
"""Source of the whole direct logit attribution."""

_TITLES = {
    "effects": "(a) effect of patching it",
    "ablations": "(b) what remains without it",
    "attention": "(c) attention from the target slot",
    "attribution": "(d) direct logit attribution",
    "senders": "(e) strongest senders",
    "scores": "(f) scores",
}
_DIRECTIONS = {"denoise": "denoising", "noise": "noising"}
_SETTINGS = {"c0": "no prime\nc0", "cf": "feminine\ncf", "cm": "masculine\ncm"}
_INPUTS = {"q": ("through queries", BLUE), "k": ("through keys", ORANGE), "v": ("through values", GREEN)}
_ROW = 0.16  # inches


def head_card(card: Mapping[str, pd.DataFrame], head: str) -> Figure:
    """One head on one page: what it does, where it looks, what it writes, what it reads, and what is left without it.

    Args:
        card: Tables by name; a table that is absent or empty, or has no number, leaves its panel out, with the reason
            printed: the first text of its column `reason`, else "not computed". Columns with `_mean` come with `_low`
            and `_high`, the ends of the 95 % interval (nan: none). Any table may have `n`, occupations.
            "effects": `direction` ("denoise", "noise"), `effect_mean` and `total` in logits.
            "ablations": `kind` (see `figures_rows.KINDS`), `remaining_mean` and `total` in logits.
            "attention": `setting` ("c0", "cf", "cm"), `span` (in the order of the prompt), `attention_mean` (0 to 1;
            no interval is drawn).
            "attribution": `source` (a span, or `ALL` for the whole), `attribution_mean` in logits.
            "senders": `sender` (head as layer.head, or another part of the model), `through` ("q", "k", "v"),
            `effect_mean` in logits; drawn in the order of the table.
            "scores": `score` (its name, e.g. "copying score"), `score_mean`, `range` (what it can be, "0 to 1").
        head: Name of the head for the headline, e.g. "SmolLM2-135M, head 26.0".

    Returns:
        Six panels, (a) to (f), as the tables above.

    Raises:
        ValueError: A table has a name that is none of these.

    Example:
        `head_card({"effects": effects, "attention": attention}, "head 26.0")` has two panels; four say "not computed".
    """
    if unknown := sorted(set(card) - set(_TITLES)):
        raise ValueError(f"head_card was given the tables {unknown}: it knows {list(_TITLES)}.")
    tables = {name: card.get(name, pd.DataFrame()) for name in _TITLES}
    spans, senders = _spans(tables), _with_headings(tables["senders"])
    n_rows = (max(4, len(tables["ablations"])), max(4, len(spans)), max(4, len(senders), 1.5 * len(tables["scores"])))
    heights = [0.75 + _ROW * rows for rows in n_rows]
    given = [table for table in tables.values() if "n" in table]
    detail = f"95 % intervals{occupations(pd.concat(given)) if given else ''}; broken lines: total effect"
    draw: dict[str, Callable[[Axes, pd.DataFrame], None]] = {
        "effects": _effects,
        "scores": partial(_scores, rows=n_rows[2]),
        "attention": partial(_attention, spans=spans),
        "attribution": partial(_attribution, spans=spans),
        "senders": partial(_senders, rows=senders),
        "ablations": _ablations,
    }
    with drawing(PAGE, 0.45 + sum(heights), head, detail) as (figure, body):
        panels = body.subplots(3, 2, height_ratios=heights, squeeze=False).flat
        for ax, (name, title) in zip(panels, _TITLES.items(), strict=True):
            ax.set_title(title, loc="left", fontweight="bold")
            numbers = tables[name].filter(regex="_mean$")
            if numbers.isna().all(axis=None):  # also where there is no row or no column
                absent(ax, wrapped(reason(tables[name]), PAGE / 2 - 1))
            else:
                draw[name](ax, tables[name])
    return figure


def _spans(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Rows of attention and of attribution: the spans of both, and below them all together."""
    by_setting = tables["attention"].groupby("setting", sort=False)["span"] if "span" in tables["attention"] else ()
    columns = [*(column for _, column in by_setting), tables["attribution"].get("source", ())]
    names = in_order([list(dict.fromkeys(column)) for column in columns])
    return [name for name in names if name != ALL] + [name for name in names if name == ALL]


def _with_headings(senders: pd.DataFrame) -> list[tuple[str, int | None]]:
    """Names of the rows, and which row of the table each is; None for a heading."""
    rows: list[tuple[str, int | None]] = []
    given = list(senders.get("through", ()))
    for through in dict.fromkeys([*_INPUTS, *given]):
        places = [at for at, value in enumerate(given) if value == through]
        heading, _ = _INPUTS.get(through, (f"through {through}", GREY))
        rows += [(heading, None)] * bool(places) + [(str(senders["sender"].iloc[at]), at) for at in places]
    return rows


def _effects(ax: Axes, table: pd.DataFrame) -> None:
    y = np.arange(len(table))
    dots(ax, table, "effect", y, BLUE)
    mark_total(ax, table)
    name_rows(ax, [_DIRECTIONS.get(direction, direction) for direction in table["direction"]])
    ax.set_xlabel("effect (logits)")


def _scores(ax: Axes, table: pd.DataFrame, rows: float) -> None:
    name_rows(ax, [wrapped(str(name), 1.2) for name in table["score"]])
    ax.set(xlim=(0, 1), xticks=[], ylim=(rows / 1.5 - 0.5, -0.5))
    ax.spines[:].set_visible(False)
    for row, (text, limits) in enumerate(zip(estimates(table, "score"), table["range"], strict=True)):
        ax.text(0.02, row, text, va="center_baseline")
        ax.text(1, row, minus(f"range {limits}"), va="center_baseline", ha="right", color="#666666")


def _attention(ax: Axes, table: pd.DataFrame, spans: Sequence[str]) -> None:
    given = list(table["setting"])
    settings = [setting for setting in dict.fromkeys([*_SETTINGS, *given]) if setting in given]
    shown = [span for span in spans if span != ALL]
    grid = table.pivot(index="span", columns="setting", values="attention_mean").reindex(index=shown, columns=settings)
    largest = float(np.nanmax(grid.to_numpy(dtype=float))) or 1.0
    ax.imshow(grid, cmap=mpl.colormaps["Blues"].with_extremes(bad=MISSING), vmin=0, vmax=largest, aspect="auto")
    for (row, column), value in np.ndenumerate(grid.to_numpy(dtype=float)):
        if np.isfinite(value):
            color = "white" if value > 0.6 * largest else BLACK
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=color, fontsize=SMALL)
    ax.set_xticks(range(len(settings)), [_SETTINGS.get(setting, setting) for setting in settings])
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("share of attention" + ("; grey: no value" if grid.isna().any(axis=None) else ""))
    name_spans(ax, spans)


def _attribution(ax: Axes, table: pd.DataFrame, spans: Sequence[str]) -> None:
    whole = table["source"] == ALL
    for its, color in ((table[~whole], BLUE), (table[whole], BLACK)):
        bars(ax, its, "attribution", its["source"].map({span: row for row, span in enumerate(spans)}), color)
    ax.axvline(0, color=BLACK, lw=0.6)
    if whole.any():
        ax.axhline(len(spans) - 1.5, color=GREY, lw=0.5)
    name_spans(ax, spans)
    ax.set_xlabel("attribution by source span (logits)")


def _senders(ax: Axes, table: pd.DataFrame, rows: Sequence[tuple[str, int | None]]) -> None:
    for row, (_, at) in enumerate(rows):
        if at is not None:
            _, color = _INPUTS.get(table["through"].iloc[at], ("", GREY))
            bars(ax, table.iloc[[at]], "effect", [row], color)
    ax.axvline(0, color=BLACK, lw=0.6)
    name_rows(ax, [name for name, _ in rows])
    for label, (_, at) in zip(ax.get_yticklabels(), rows, strict=True):
        label.set_fontstyle("italic" if at is None else "normal")
    ax.set_xlabel("effect through the head (logits)")


def _ablations(ax: Axes, table: pd.DataFrame) -> None:
    kinds = looks_of_kinds(table)
    for row, (kind, (color, marker, _)) in enumerate(kinds.items()):
        its = table[table["kind"] == kind]
        dots(ax, its, "remaining", np.full(len(its), row), color, marker)
    mark_total(ax, table)
    name_rows(ax, [KINDS.get(kind, kind) for kind in kinds])
    ax.set_xlabel("remaining effect (logits)")
