"""Parts that the figures of a mechanism share: looks of kinds, intervals in named rows, numbers as text."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from referent_probe.figures import BLUE, GREY, ORANGE, minus
from referent_probe.figures_lanes import BLACK, GREEN, PURPLE
from referent_probe.figures_panels import say

LOOKS: tuple[tuple[str, str, Any], ...] = (
    (BLUE, "o", "-"),
    (ORANGE, "D", "--"),
    (GREEN, "s", "-."),
    (PURPLE, "^", ":"),
    (BLACK, "v", (0, (6, 1.5))),
    ("#777777", "P", (0, (1, 1))),
    ("#56B4E9", "X", (0, (3, 1, 1, 1, 1, 1))),
)
"""Colour, marker and line of the first kind, of the second, and so on; after the last the first again."""

KINDS = {"zero": "zero", "mean": "mean", "resample": "resample", "unprimed": "from the unprimed run"}
"""Kinds of ablation as the figures name them, in their order; others follow under their own names."""


def looks_of_kinds(table: pd.DataFrame) -> dict[str, tuple[str, str, Any]]:
    """Looks of the kinds of ablation that a table has: the same in every figure."""
    others = [kind for kind in dict.fromkeys(table["kind"]) if kind not in KINDS]
    looks = zip([*KINDS, *others], cycle(LOOKS), strict=False)
    return {kind: look for kind, look in looks if (table["kind"] == kind).any()}


def dots(
    ax: Axes, table: pd.DataFrame, name: str, y: ArrayLike, color: str, marker: str = "o", label: str | None = None
) -> None:
    """A marker and its interval in each row: columns `name` with `_mean`, `_low`, `_high`."""
    mean = table[f"{name}_mean"]
    low, high = (table[f"{name}_{end}"].where(mean.notna()) for end in ("low", "high"))
    ax.hlines(y, low, high, color=color, lw=1.0, zorder=3)
    ax.scatter(mean, y, s=14, c=color, marker=marker, lw=0, zorder=4, label=label)


def bars(ax: Axes, table: pd.DataFrame, name: str, y: ArrayLike, color: str) -> None:
    """`dots` with a pale bar from 0 beneath."""
    ax.barh(y, table[f"{name}_mean"], height=0.7, color=color, alpha=0.35, lw=0)
    dots(ax, table, name, y, color)


def mark_total(ax: Axes, table: pd.DataFrame, label: str | None = None) -> None:
    """Upright lines at 0 and at the total effect."""
    ax.axvline(0, color=BLACK, lw=0.6, zorder=1)
    ax.axvline(float(table["total"].mean()), color=GREY, lw=1, ls="--", zorder=1, label=label)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Names rows, the first on top."""
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.5, -0.5)


def estimates(table: pd.DataFrame, name: str) -> list[str]:
    """Means as text, with intervals where the table has them; all with the same number of decimals, at least two.

    Example:
        >>> estimates(pd.DataFrame({"effect_mean": [0.5, -0.25], "effect_low": 0.0, "effect_high": 1.0}), "effect")
        ['0.50 [0.00, 1.00]', '−0.25 [0.00, 1.00]']
    """
    parts = [f"{name}_{part}" for part in ("mean", "low", "high")]
    numbers = table.reindex(columns=parts).to_numpy(dtype=float)
    largest = np.abs(numbers[np.isfinite(numbers)]).max(initial=0)
    decimals = int(max(2, 1 - np.floor(np.log10(largest)))) if largest > 0 else 2
    texts = []
    for mean, low, high in numbers:
        interval = f" [{low:.{decimals}f}, {high:.{decimals}f}]" if np.isfinite([low, high]).all() else ""
        texts.append(minus(f"{mean:.{decimals}f}{interval}") if np.isfinite(mean) else "not computed")
    return texts


def absent(ax: Axes, reason: str = "not computed") -> None:
    """Empties a panel and says why."""
    ax.tick_params(length=0, labelleft=False, labelbottom=False)  # its neighbours may share the axes
    ax.set(xlabel="", ylabel="")
    ax.spines[:].set_visible(False)
    say(ax, reason)


def reason(table: pd.DataFrame) -> str:
    """Why a table has no numbers: the first text in its column `reason`."""
    given = list(table["reason"].dropna()) if "reason" in table else []
    return str(given[0]) if given else "not computed"


def legend_columns(labels: Sequence[str]) -> int:
    """Columns of a legend that a column of a paper has room for."""
    return 2 if max((len(label) for label in labels), default=0) <= 24 else 1


def occupations(table: pd.DataFrame) -> str:
    """How many occupations the numbers are of, as text that follows other text; empty where it is not known."""
    if "n" not in table or table["n"].isna().all():
        return ""
    few, many = int(table["n"].min()), int(table["n"].max())
    return f", n = {few} occupations" if few == many else f", n = {few}–{many} occupations"


def total_effect(table: pd.DataFrame) -> str:
    """The total effect and what it is of, as text.

    Example:
        >>> total_effect(pd.DataFrame({"total": [1.5, 1.5], "n": [20, 20]}))
        'total effect 1.50 logits, n = 20 occupations'
    """
    if table["total"].isna().all():
        return "total effect not computed"
    return f"total effect {table['total'].mean():.2f} logits{occupations(table)}"
