"""What cutting the carriers' edges to the prime does, pair by pair, as drawings: to effects, to midpoints and to dC.

As in `figures`: values in, a `Figure` out; nothing is estimated or saved. K are the heads that read the other person's
pronoun as such, R those that copy any pronoun. For each template m is the midpoint of its two primed log-odds and e
their difference, in logits. Intervals are at 95 % over occupations.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from referent_probe.analysis.conflation.pair_rows import CONTEXTUAL_ABOVE
from referent_probe.figures import BLUE, GREY, MISSING, ORANGE, PAGE, drawing
from referent_probe.figures_lanes import BLACK, PURPLE, where
from referent_probe.figures_panels import SMALL, say
from referent_probe.figures_rows import absent, name_rows

CUTS = {"K": "K cut", "R": "R cut", "KR": "K and R cut"}
READINGS = {"self_primed": "self-primed dC", "steered": "steered dC"}
_MEMBERS = {1: ("sentence 1 of its pair", "o", BLUE), 2: ("sentence 2", "D", ORANGE)}
_SETS = {"contextual": "contextual pairs", "all": "all pairs"}
_THROUGH = {"through_e": ("through e", BLUE, ""), "through_m": ("through m", ORANGE, "//////")}
_REMARK: dict[str, Any] = {"fontsize": SMALL, "style": "italic", "color": "#666666"}


def cut_pair_by_pair(rows: pd.DataFrame) -> Figure:
    """What cutting the carriers' edges to the prime does to every template: to its effect, and to its midpoint.

    Args:
        rows: One row a held-out template and option order: `pair`, `occupation`, `member` (1 or 2), `m`, `e`, and for
            each cut A of K, R, KR `m_A` and `e_A`, logits (nan: not known).

    Returns:
        A column of panels a cut, above e and below m, after the cut against before. On the broken line nothing
        changed; on the level line of the upper panels no effect is left. A cut that moves m does damage.

    Example:
        Where the dots of K's upper panel lie on the level line and those of its lower panel on the broken one, the cut
        takes the prime's effect and nothing else.
    """
    n_pairs, n_of = rows["pair"].nunique(), rows["occupation"].nunique()
    counts = f"one dot a template and option order: n = {len(rows)}, {n_pairs} pairs, {n_of} occupations"
    detail = f"e: effect of the prime on the log-odds; m: midpoint of the primed log-odds\n{counts}"
    size = float(np.clip(1000 / max(len(rows), 1), 4, 12))
    with drawing(PAGE, 5.2, "Effects and midpoints before and after the cut", detail) as (figure, body):
        panels = body.subplots(2, len(CUTS), squeeze=False)
        for line, name in zip(panels, ("e", "m"), strict=True):
            columns = [name, *(f"{name}_{cut}" for cut in CUTS)]
            limits = _limits(rows[columns].to_numpy(dtype=float))
            for ax, (cut, title) in zip(line, CUTS.items(), strict=True):
                ax.set_title(title if name == "e" else "")
                if rows[f"{name}_{cut}"].isna().all():
                    absent(ax)
                    continue
                ax.axhline(0, color=BLACK, lw=0.6, zorder=1)
                ax.axvline(0, color=BLACK, lw=0.6, zorder=1)
                ax.plot(limits, limits, color=GREY, lw=1, ls="--", zorder=1)
                for member, (label, marker, color) in _MEMBERS.items():
                    its = where(rows, {"member": member})
                    look: dict[str, Any] = {"marker": marker, "c": color, "lw": 0, "alpha": 0.55, "label": label}
                    ax.scatter(its[name], its[f"{name}_{cut}"], s=size, zorder=3, **look)
                ax.set(xlim=limits, ylim=limits, box_aspect=1, xlabel=f"{name} before (logits)")
                for axis in (ax.xaxis, ax.yaxis):
                    axis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3, steps=[1, 2, 5, 10]))
                if ax is line[0]:
                    ax.set_ylabel(f"{name} after (logits)")
                if np.array_equal(rows[name], rows[f"{name}_{cut}"], equal_nan=True):
                    ax.text(0.97, 0.15, "nothing changes", transform=ax.transAxes, ha="right", **_REMARK)
        handles: list[Any] = [
            Line2D([], [], ls="", marker=marker, color=color, mew=0, ms=3.5, label=label)
            for label, marker, color in _MEMBERS.values()
        ]
        handles.append(Line2D([], [], color=GREY, lw=1, ls="--", label="as before"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3, handletextpad=0.5, columnspacing=1.5)
    return figure


def _limits(values: Any) -> tuple[float, float]:
    """Ends of an axis with all values and 0 on it."""
    known = values[np.isfinite(values)]
    low, high = known.min(initial=0.0), known.max(initial=0.0)
    room = 0.06 * (high - low) or 1.0
    return float(low - room), float(high + room)


def delta_c_split(pairs: pd.DataFrame, split: pd.DataFrame, transitions: pd.DataFrame) -> Figure:
    """dC of every pair before and after each cut, and how much of its change goes through e and how much through m.

    Args:
        pairs: One row a reading, cut, held-out pair and option order: `occupation`, `pair`, `option_order`, `reading`
            ("self_primed" or "steered"), `cut` ("K", "R", "KR"), `before` and `after`, dC of the model as it is and of
            the cut model (its m and e).
        split: From `analysis.conflation.changes.split`.
        transitions: From `analysis.conflation.changes.transitions`.

    Returns:
        A row of panels a reading. Left: the pairs, sorted by dC before, with how many stop being contextual (dC above
        0.01, the broken line) and how many start. Right: mean change, as what goes through e (the prime's effect) and
        what goes through m (damage); where both have one sign, the second part starts where the first ends.

    Example:
        A cut that moves midpoints alone has no part through e, however many pairs stop.
    """
    shown = [name for name in READINGS if (pairs["reading"] == name).any()]
    heading = "Contextuality before and after the cut"
    n = len(pairs.drop_duplicates(["pair", "option_order"]))
    counts = f"n = {n}, {pairs['pair'].nunique()} pairs, {pairs['occupation'].nunique()} occupations"
    detail = (
        f"one point a pair and option order: {counts}\n"
        f"pairs that stop, start, stay or never are contextual: dC above {CONTEXTUAL_ABOVE:g} (broken line)"
    )
    with drawing(PAGE, 1.0 + 2.35 * max(len(shown), 1), heading, detail) as (figure, body):
        if not shown:
            absent(body.subplots())
            return figure
        grid = body.subplots(len(shown), 4, squeeze=False, width_ratios=(1, 1, 1, 1.5))
        for line, reading in zip(grid, shown, strict=True):
            its = where(pairs, {"reading": reading})
            limits = _limits(its[["before", "after"]].to_numpy(dtype=float))
            for ax, cut in zip(line, CUTS, strict=False):
                changed = where(transitions, {"reading": reading, "cut": cut, "changed": "e and m"})
                _before_and_after(ax, where(its, {"cut": cut}), f"{CUTS[cut]}\n{_counts(changed)}")
                ax.set(ylim=limits, xlabel="pairs, sorted", xticks=[])
                ax.tick_params(labelleft=ax is line[0])
            line[0].set_ylabel(READINGS[reading])
            _parts(line[-1], where(split, {"reading": reading}))
            line[-1].set_title("mean change and its parts")
            line[-1].set_xlabel(f"change of {READINGS[reading]}")
        handles: list[Any] = [
            Line2D([], [], ls="", marker="o", color=GREY, mew=0, ms=3, label="dC before"),
            Line2D([], [], ls="", marker="D", color=PURPLE, mew=0, ms=3, label="dC after"),
            *(Patch(label=label, **_bar(color, hatch)) for label, color, hatch in _THROUGH.values()),
            Line2D([], [], ls="", marker="d", color=BLACK, mew=0, ms=4, label="whole change, 95 % interval"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5, handletextpad=0.4, columnspacing=1.2)
    return figure


def _before_and_after(ax: Axes, pairs: pd.DataFrame, title: str) -> None:
    pairs = pairs.sort_values("before", kind="stable")
    x, size = np.arange(len(pairs)), float(np.clip(250 / max(len(pairs), 1), 1.5, 8))
    ax.axhline(CONTEXTUAL_ABOVE, color=BLACK, lw=0.6, ls="--", zorder=1)
    ax.vlines(x, pairs["before"], pairs["after"], color=MISSING, lw=0.5, zorder=1)
    ax.scatter(x, pairs["before"], s=size, c=GREY, lw=0, zorder=3)
    ax.scatter(x, pairs["after"], s=size, c=PURPLE, marker="D", lw=0, zorder=4)
    ax.set_title(title)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))


def _counts(transitions: pd.DataFrame) -> str:
    """How many pairs by option orders stop, start, stay and never are contextual."""
    if transitions.empty:
        return ""
    one = transitions.iloc[0]
    return f"{one['lost']} stop, {one['gained']} start,\n{one['kept']} stay, {one['never']} never"


def _parts(ax: Axes, split: pd.DataFrame) -> None:
    """Bars of the two parts of the change, for pairs that were contextual and for all."""
    ax.use_sticky_edges = False  # markers at 0 are whole
    names: list[str] = []
    for pairs, heading in _SETS.items():
        its = where(split, {"pairs": pairs})
        names.append(f"{heading} (n = {its['n_rows'].max()})" if len(its) else heading)
        for cut in CUTS:
            _stack(ax, where(its, {"cut": cut}), len(names))
            names.append(CUTS[cut].removesuffix(" cut"))
    ax.axvline(0, color=BLACK, lw=0.6)
    name_rows(ax, names)
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_fontstyle("italic" if name.split(" (")[0] in _SETS.values() else "normal")
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))


def _stack(ax: Axes, part: pd.DataFrame, row: int) -> None:
    if part.empty or part["change"].isna().all():
        say(ax, "no such pair", row)
        return
    one = part.iloc[0]
    ends: dict[str, Any] = {"lw": 0.8, "zorder": 4}
    start = 0.0
    for name, aside in (("through_e", -0.22), ("through_m", 0.22)):
        _, color, hatch = _THROUGH[name]
        start = start if np.sign(start) == np.sign(one[name]) else 0.0
        ax.barh(row, one[name], left=start, height=0.72, **_bar(color, hatch))
        ax.hlines(row + aside, start + one[f"{name}_low"], start + one[f"{name}_high"], color=color, **ends)
        start += one[name]
    ax.hlines(row, one["change_low"], one["change_high"], color=BLACK, **ends)
    ax.scatter(one["change"], row, s=14, c=BLACK, marker="d", lw=0, zorder=5)


def _bar(color: str, hatch: str) -> dict[str, Any]:
    return {"fc": color, "ec": "white", "hatch": hatch, "lw": 0, "alpha": 0.45}
