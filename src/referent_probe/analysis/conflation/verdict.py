"""The behavioural verdict: does the model take one person's pronoun for another's?

The rule table is fixed before data are seen. A model that repeats any pronoun and one that conflates two people of a
sentence answer alike to the other person's pronoun; they differ in what a third person's does. The margin is printed
with every verdict, and so are the margins at which it would be another one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from referent_probe.analysis.conflation.intervals import N_RESAMPLES
from referent_probe.analysis.conflation.power import power
from referent_probe.analysis.conflation.states import LEVEL, Estimate, State, margin, quantities
from referent_probe.analysis.inference import Interval

RULES: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("undecided", {"O": "U"}),
    ("faithful", {"O": "Z", "S": "P", "T": "ZU"}),
    ("insensitive", {"O": "Z", "S": "Z", "T": "Z"}),
    ("undecided", {"O": "Z", "S": "U"}),
    ("undecided", {"O": "Z", "S": "Z", "T": "U"}),
    ("mixed", {"O": "Z"}),
    ("undecided", {"T": "U"}),
    ("undecided", {"D": "U"}),
    ("conflating", {"O": "P", "T": "Z", "D": "P", "S": "P"}),
    ("misbinding", {"O": "P", "T": "Z", "D": "P", "S": "ZN"}),
    ("undecided", {"O": "P", "T": "Z", "D": "P", "S": "U"}),
    ("repeating", {"O": "P", "T": "P", "D": "Z"}),
    ("contrasting", {"O": "N", "T": "Z", "D": "N"}),
    ("avoiding", {"O": "N", "T": "N", "D": "Z"}),
    ("mixed", {"O": "PN", "T": "PN", "D": "PN"}),
    ("undecided", {}),
)
"""Verdict, and the states that each quantity may have for it; the first row that matches holds."""

MEANINGS: Mapping[str, str] = {
    "faithful": "follows the blank's own referent's pronoun, and not the other person's",
    "insensitive": "follows nobody's pronoun",
    "conflating": "follows the other person's pronoun, and not a third person's",
    "misbinding": "follows the other person's pronoun, and not the blank's own referent's",
    "repeating": "follows the other person's pronoun and a third person's alike: it repeats, whoever's it is",
    "contrasting": "answers against the other person's pronoun, and not against a third person's",
    "avoiding": "answers against any pronoun",
    "mixed": "does more than one thing",
    "undecided": "the data do not tell",
}
MARGINS = (0.01, 10.0)
"""Logits between which margins are tried for another verdict."""

_CONFLATING = {"Z": "full", "P": "partial", "N": "over", "U": "ungraded"}
_REPEATING = {"P": "token level", "Z": "person level"}


@dataclass(frozen=True)
class Flip:
    """The nearest margin, in logits, from which (going away from the one used) the verdict would be another."""

    margin: float
    name: str


@dataclass(frozen=True)
class Verdict:
    """A verdict on behaviour with all that it rests on.

    Attributes:
        name: Of `MEANINGS`.
        grade: How far: conflating is "full" (as much as the own pronoun), "partial", "over" or "ungraded"; repeating is
            "with a faithful part" (the own pronoun does more), "token level" (a pronoun that is nobody's does it too)
            or "person level" (it does not), or two of these; None for other verdicts and where nothing is known.
        states: State of every quantity that has one, by name as in `states.QUANTITIES`.
        delta: Margin, logits.
        intervals: Mean of every quantity with its 95 % interval over occupations, logits.
        words: The verdict in words, with numbers and margins.
        flips_at: The nearest flips below and above the margin; None where there is none within `MARGINS`.
    """

    name: str
    grade: str | None
    states: Mapping[str, State]
    delta: float
    intervals: Mapping[str, Interval]
    words: str
    flips_at: tuple[Flip | None, Flip | None]


@dataclass(frozen=True)
class Levels:
    """Levels of the tests for one quantity: 0.05 by itself, less where several models are corrected for."""

    zero: float = LEVEL
    sign: float = LEVEL


def verdict(effects: pd.DataFrame, seed: int, *, n_resamples: int = N_RESAMPLES) -> Verdict:
    """The verdict on one model.

    Args:
        effects: One row an occupation, columns same, other, third, mention: mean effects in logits. A column may be
            missing and a value nan.
        seed: Of halves and bootstrap.
        n_resamples: Bootstrap samples.

    Example:
        >>> effects = pd.DataFrame({"same": 4.0, "other": 4.0, "third": 0.0}, index=list("abcdefghijkl"))
        >>> found = verdict(effects, seed=0)
        >>> found.name, found.grade, found.delta, found.flips_at
        ('conflating', 'full', 1.0, (None, Flip(margin=4.0, name='insensitive')))
    """
    delta = margin(effects.reindex(columns=["same"])["same"].astype(float), seed, n_resamples=n_resamples)
    return judged(quantities(effects, seed, n_resamples=n_resamples), delta)


def judged(estimates: Mapping[str, Estimate], delta: float, levels: Mapping[str, Levels] | None = None) -> Verdict:
    """The verdict from estimates.

    Args:
        estimates: From `states.quantities`.
        delta: Margin, logits, above 0.
        levels: Of the tests by quantity; 0.05 where none is given.
    """
    of = {name: (levels or {}).get(name, Levels()) for name in estimates}
    states = {name: one.state(delta, of[name].zero, of[name].sign) for name, one in estimates.items()}
    name, grade = decide(states), graded(states)
    flips = _flips(estimates, of, delta, name)
    intervals = {quantity: estimate.interval() for quantity, estimate in estimates.items()}
    words = _in_words(name, grade, states, estimates, delta, flips)
    return Verdict(name, grade, states, delta, intervals, words, flips)


def decide(states: Mapping[str, State]) -> str:
    """First row of `RULES` that the states of O, S, T and D match.

    Example:
        >>> decide({"O": "P", "S": "P", "T": "Z", "D": "P"}), decide({"O": "P", "S": "U", "T": "P", "D": "Z"})
        ('conflating', 'repeating')
    """
    return next(name for name, row in RULES if all(states[quantity] in allowed for quantity, allowed in row.items()))


def graded(states: Mapping[str, State]) -> str | None:
    """Grade of the verdict on these states, S - O and M among them; None where there is none.

    Example:
        >>> graded({"O": "P", "S": "P", "T": "P", "D": "Z", "S - O": "P", "M": "Z"})
        'with a faithful part, person level'
    """
    name = decide(states)
    if name == "conflating":
        return _CONFLATING[states["S - O"]]
    if name != "repeating":
        return None
    parts = ["with a faithful part"] if states["S - O"] == "P" else []
    parts += [_REPEATING[states["M"]]] if states["M"] in _REPEATING else []
    return ", ".join(parts) or None


def _flips(
    estimates: Mapping[str, Estimate], levels: Mapping[str, Levels], delta: float, name: str
) -> tuple[Flip | None, Flip | None]:
    # States change with the margin only where it passes the end of an interval, so these margins alone are tried.
    ends = sorted(
        end
        for q in ("O", "S", "T", "D")
        if MARGINS[0] <= (end := estimates[q].zero_above(levels[q].zero)) <= MARGINS[1]
    )

    def at(tried: float) -> str:
        return decide({q: one.state(tried, levels[q].zero, levels[q].sign) for q, one in estimates.items()})

    below = (Flip(end, at(end)) for end in reversed(ends) if end < delta)
    above = (Flip(end, at(math.nextafter(end, math.inf))) for end in ends if end >= delta)
    return next((f for f in below if f.name != name), None), next((f for f in above if f.name != name), None)


def _in_words(
    name: str,
    grade: str | None,
    states: Mapping[str, State],
    estimates: Mapping[str, Estimate],
    delta: float,
    flips: tuple[Flip | None, Flip | None],
) -> str:
    shown = ("D", "T") if name == "mixed" else ("S", "O", "T", "D")
    labels = {"D": "O - T"}
    numbers = ", ".join(f"{labels.get(q, q)} = {estimates[q].interval()}" for q in shown if estimates[q].distribution.n)
    parts = [f"{name}{f' ({grade})' if grade else ''}: {MEANINGS[name]}. {numbers or 'No effect was measured'}."]
    others = [
        f"{flip.name} {side} {flip.margin:.2f}"
        for flip, side in zip(flips, ("with a margin of at most", "with one above"), strict=True)
        if flip
    ]
    parts.append(f"Margin {delta:.2f} logits; {', '.join(others) or 'with no other margin another verdict'}.")
    if name == "undecided":
        parts += [_missing(estimates[q], estimates["S"], delta) for q in ("O", "T", "D", "S") if states[q] == "U"]
    return " ".join(parts)


def _missing(estimate: Estimate, same: Estimate, delta: float) -> str:
    """What an undecided quantity lacks."""
    label = {"D": "O - T"}.get(estimate.name, estimate.name)
    if not estimate.standard_deviation > 0:
        return f"{label} has {estimate.distribution.n} occupations, too few for an interval."
    cue = float(same.distribution.estimate[0])
    effect = cue if np.isfinite(cue) and abs(cue) > delta else delta
    return f"{label} is undecided: {power(estimate.distribution.n, estimate.standard_deviation, effect, delta)}."
