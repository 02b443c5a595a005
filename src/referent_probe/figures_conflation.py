"""Whose pronoun an answer follows and what contextuality depends on, as drawings: the two answers with their numbers.

As in `figures`: values in, a `Figure` out; nothing is estimated or saved. Effects are in logits of the log-odds,
feminine over masculine option: after a feminine prime less after a masculine one. K are the heads that read the other
person's pronoun as such, R those that copy any pronoun. Intervals are at 95 % over occupations.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from referent_probe.analysis.conflation.controls import RandomSets
from referent_probe.analysis.conflation.credit import Credit, Form
from referent_probe.analysis.conflation.verdict import MARGINS, MEANINGS, Verdict
from referent_probe.analysis.inference import Interval
from referent_probe.figures import BLUE, COLUMN, GREY, ORANGE, STYLE, drawing
from referent_probe.figures_lanes import BLACK, PURPLE
from referent_probe.figures_panels import LINE, SHADE, say, strip, wrapped
from referent_probe.figures_rows import absent, bars, dots, name_rows, occupations

STATES = {"Z": "within the margin of zero", "P": "above zero", "N": "below zero", "U": "not known"}
"""Letters of `analysis.conflation.states.State` in words."""

_OWNERS = {
    "S": ("S: own referent's", "same", None),
    "O": ("O: other referent's", "other", None),
    "T": ("T: third person's", "third", None),
    "M": ("M: nobody's (a word)", "mention", None),
    "D": ("O − T", "other", "third"),
    "S - O": ("S − O", "same", "other"),
}
_FORMS = {
    "self_primed": "contextual pairs, self-primed",
    "steered": "contextual pairs, steered",
    "strength": "strength |e₁ − e₂|",
}
_PARTS = {"phi_k": ("on K, $\\phi_K$", BLUE), "phi_r": ("on R, $\\phi_R$", ORANGE), "remainder": ("on neither", GREY)}
_ROW, _BAR = 0.27, 0.2  # inches


def effects_with_verdict(effects: pd.DataFrame, verdict: Verdict) -> Figure:
    """Effects of primes by whose pronoun it is, with what is said of each, and the verdict in words.

    Args:
        effects: One row an occupation: `same`, `other`, `third`, `mention`, mean effects in logits. A column may be
            missing and a value nan.
        verdict: From `analysis.conflation.verdict.verdict`, of the same effects.

    Returns:
        A row for each of S, O, T, M and the differences within occupations, O - T and S - O: mean, interval, a dot an
        occupation, and the letter of its state on the right. The band is the margin.

    Example:
        Where O lies right of the band and T within it, the model follows the other referent, not any pronoun.
    """
    intervals = [verdict.intervals[name] for name in _OWNERS]
    table = pd.DataFrame(
        [{"effect_mean": one.mean, "effect_low": one.low, "effect_high": one.high, "n": one.n} for one in intervals]
    )
    headline = f"Verdict: {verdict.name}" + (f" ({verdict.grade})" if verdict.grade else "")
    n = occupations(table[table["n"] > 0])
    lines = [MEANINGS[verdict.name], f"margin ±{verdict.delta:.2f} logits (band){n}", _flips(verdict)]
    detail = wrapped("\n".join(lines), COLUMN)
    below = wrapped(", ".join(f"{letter}:\u00a0{text}" for letter, text in STATES.items()), COLUMN)
    text = LINE * (detail.count("\n") + below.count("\n") + 2)
    with drawing(COLUMN, 1.1 + text + _ROW * len(_OWNERS), headline, detail) as (figure, body):
        ax = body.subplots()
        ax.axvspan(-verdict.delta, verdict.delta, color=SHADE, lw=0, zorder=0)
        ax.axvline(0, color=BLACK, lw=0.6, zorder=1)
        for row, (_, prime, less) in enumerate(_OWNERS.values()):
            values = effects.reindex(columns=[prime])[prime].astype(float)
            if less is not None:
                values = values - effects.reindex(columns=[less])[less].astype(float)
            color, marker = (BLUE, "o") if less is None else (BLACK, "D")
            strip(ax, values, row, color, 0.55)
            dots(ax, table.iloc[[row]], "effect", [row], color, marker)
            if not np.isfinite(table["effect_mean"].iloc[row]):
                say(ax, "not measured", row)
        ax.axhline(3.5, color=GREY, lw=0.5)
        name_rows(ax, [name for name, _, _ in _OWNERS.values()])
        ax.set_xlabel("effect of the prime (logits)")
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        right = ax.secondary_yaxis("right")
        right.set_yticks(range(len(_OWNERS)), [verdict.states[name] for name in _OWNERS])
        right.tick_params(length=0)
        right.spines[:].set_visible(False)
        for label in right.get_yticklabels():
            label.set_fontweight("bold")
        ax.set_title("state", loc="right", x=1.06)
        body.supxlabel(below, fontsize=STYLE["font.size"])
    return figure


def _flips(verdict: Verdict) -> str:
    """Margins with which the verdict would be another."""
    sides = zip(verdict.flips_at, ("≤", ">"), strict=True)
    others = [f"{side} {flip.margin:.2f} ({flip.name})" for flip, side in sides if flip is not None]
    if not others:
        return f"the same with any margin of {MARGINS[0]:g} to {MARGINS[1]:g} logits"
    return f"another verdict: margin {', '.join(others)}"


def phi_bars(forms: Mapping[Form, Credit], random: RandomSets | None = None) -> Figure:
    """How much of contextuality depends on owner-specific heads, on owner-blind heads and on neither.

    Args:
        forms: From `analysis.conflation.credit.credit`, by form. One that is withheld is drawn as its reason.
        random: From `analysis.conflation.controls.random_sets`; None where no random heads were cut.

    Returns:
        Three bars a form, with intervals. With random sets a fourth row: what goes when the carriers alone are cut
        (v), beside a dot a random set, and p.

    Example:
        phi_K at 1 with random sets of equal effect near 0: contextuality is made by K.
    """
    known = [one.phi_k.n for one in forms.values() if one.phi_k is not None]
    n = f", n = {max(known)} occupations" if known else ""
    detail = wrapped("\n".join([f"share that depends on each kind of head{n}", *_about_random(random)]), COLUMN)
    n_rows = [1 if one.reason is not None else len(_PARTS) + (random is not None) for one in forms.values()]
    text = LINE * (detail.count("\n") + (2 if random is not None else 0))
    height = 0.9 + text + 0.3 * max(len(forms), 1) + _BAR * max(sum(n_rows), 3)
    with drawing(COLUMN, height, "What contextuality depends on", detail) as (figure, body):
        if not forms:
            absent(body.subplots())
            return figure
        panels = body.subplots(len(forms), 1, sharex=True, height_ratios=n_rows, squeeze=False)[:, 0]
        for ax in panels:
            ax.use_sticky_edges = False  # markers at 0 are whole; before any is drawn, as all share the axis
        for ax, (form, one) in zip(panels, forms.items(), strict=True):
            of = f"{_FORMS[form]}, {one.n_pairs} pairs" if form == "strength" else f"{one.n_pairs} {_FORMS[form]}"
            ax.set_title(of, loc="left", style="italic")
            if one.reason is not None:
                absent(ax, wrapped(f"withheld: {one.reason}", COLUMN - 0.5))
                continue
            ax.axvline(0, color=BLACK, lw=0.6, zorder=1)
            ax.axvline(1, color=GREY, lw=0.6, ls="--", zorder=1)
            for row, (name, (_, color)) in enumerate(_PARTS.items()):
                _share(ax, getattr(one, name), row, color)
            names = [label for label, _ in _PARTS.values()]
            if random is not None:
                _random(ax, random, form, len(names))
                names.append(f"v({random.cut}){_p(random, form)}")
            name_rows(ax, names)
            for tick in ax.get_yticklabels()[: len(_PARTS)]:
                tick.set_parse_math(True)
            ax.spines.left.set_visible(False)
        drawn = [ax for ax, one in zip(panels, forms.values(), strict=True) if one.reason is None]
        for ax in drawn[-1:]:
            ax.set_xlabel("share")
            ax.tick_params(labelbottom=True)  # also where the forms below are withheld
        if random is not None and drawn:
            looks = (("D", BLACK, f"{random.cut} cut"), ("o", PURPLE, "random sets of equal effect"))
            handles = [
                Line2D([], [], ls="", marker=marker, color=color, mew=0, ms=3.5, label=label)
                for marker, color, label in (*looks, ("o", GREY, "other random sets"))
            ]
            figure.legend(handles=handles, loc="outside lower center", ncols=2, handletextpad=0.1, columnspacing=0.8)
    return figure


def _p(random: RandomSets, form: Form) -> str:
    """p of the matched sets, else of all."""
    if form in random.p_matched:
        return f", p = {random.p_matched[form]:.2g}"
    return f", p = {random.p[form]:.2g} (all sets)" if form in random.p else ""


def _about_random(random: RandomSets | None) -> list[str]:
    if random is None:
        return []
    sets = f"{len(random.table)} random sets of heads, {random.n_matched} of equal effect"
    return [f"v: share that goes when {random.cut} alone is cut, beside {sets}"]


def _share(ax: Axes, share: Interval, row: int, color: str) -> None:
    one = pd.DataFrame([{"share_mean": share.mean, "share_low": share.low, "share_high": share.high}])
    bars(ax, one, "share", [row], color)


def _random(ax: Axes, random: RandomSets, form: Form, row: int) -> None:
    matched = random.table["matched"].to_numpy(dtype=bool)
    values = random.table[f"v_{form}"]
    for which, color in ((~matched, GREY), (matched, PURPLE)):
        strip(ax, values[which], row, color, 0.7)
    ax.scatter(random.v[form], row, s=16, c=BLACK, marker="D", lw=0, zorder=5)
