"""How much of contextuality goes with each set of heads: Shapley's division of what cuts take away.

A pair's amount is 1 if it is contextual and 0 if not, or the difference in how strongly its two sentences follow their
prime; v(A) is the share of all amounts that is gone after the heads of A are cut, through the effects e alone. Two
sets, K and R, may act together, so each is credited with the mean of what it adds first and what it adds last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.analysis.carriers import ROUNDING
from referent_probe.analysis.conflation.intervals import N_RESAMPLES, studentized
from referent_probe.analysis.conflation.pair_rows import CUTS, Cut, PairRows, Reading
from referent_probe.analysis.inference import Interval

Form = Literal["self_primed", "steered", "strength"]
"""Contextual pairs by either reading of dC, or the strength form, without threshold and without the model's base."""

FEWEST_PAIRS = 20
"""Contextual held-out pairs for a statement about them."""


@dataclass(frozen=True)
class Credit:
    """Division of one form of contextuality among owner-specific heads, owner-blind heads and the rest.

    Attributes:
        form: What is divided.
        n_pairs: Contextual pairs, or for the strength form all.
        v: Share that is gone after each cut; empty where withheld. 95 % intervals over occupations, all.
        phi_k: Share that depends on owner-specific heads, K; None where withheld.
        phi_r: Share that depends on owner-blind heads, R; None where withheld.
        remainder: Share that depends on neither; the three add up to 1. None where withheld.
        reason: Why they are withheld; None where they are not.
    """

    form: Form
    n_pairs: int
    v: Mapping[Cut, Interval]
    phi_k: Interval | None
    phi_r: Interval | None
    remainder: Interval | None
    reason: str | None


def credit(rows: PairRows, form: Form, seed: int, *, n_resamples: int = N_RESAMPLES) -> Credit:
    """Divide one form among K, R and the rest: phi_K = 1/2 [v(K) + v(KR) - v(R)], phi_R likewise, 1 - v(KR).

    Args:
        rows: Held-out pairs.
        form: For "self_primed" and "steered" v is the share of contextual pairs whose dC(m, e after the cut) is at most
            0.01; withheld under 20 contextual pairs (one that is contextual in both option orders counts once). For
            "strength" it is 1 - (mean |e1 - e2| after the cut) / (before) over all pairs, which may be negative.
        seed: Of the bootstrap.
        n_resamples: Bootstrap samples.

    Source: Shapley 1953, A value for n-person games, for two players.

    Example:
        Where cutting K alone leaves nothing and cutting R changes nothing, phi_K is 1 and phi_R 0.
    """
    if form == "self_primed" and rows.m0 is None:
        return Credit(form, 0, {}, None, None, None, "the unprimed log-odds are not known")
    before = amounts(rows, form, rows.e)
    n_pairs = rows.n_pairs(before > 0) if form != "strength" else rows.n_pairs()
    if form != "strength" and n_pairs < FEWEST_PAIRS:
        return Credit(form, n_pairs, {}, None, None, None, f"{n_pairs} contextual pairs, under {FEWEST_PAIRS}")
    if not len(before) or before.mean() < ROUNDING:
        why = f"the effects on the two sentences of a pair differ by under {ROUNDING} logits in the mean"
        return Credit(form, n_pairs, {}, None, None, None, why)
    of_k, of_r, of_both = (amounts(rows, form, rows.e_after[cut]) for cut in CUTS)
    parts = {
        "K": before - of_k,
        "R": before - of_r,
        "KR": before - of_both,
        "phi_k": (before - of_k - of_both + of_r) / 2,
        "phi_r": (before - of_r - of_both + of_k) / 2,
        "remainder": of_both,
    }
    found = dict(zip(parts, shares(rows, form, before, list(parts.values()), seed, n_resamples), strict=True))
    v: dict[Cut, Interval] = {cut: found[cut] for cut in CUTS}
    return Credit(form, n_pairs, v, found["phi_k"], found["phi_r"], found["remainder"], None)


def amounts(rows: PairRows, form: Form, e: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each row has of the form with these effects, of what it had before: `[n_rows]`, or `[n_sets, n_rows]`.

    For `self_primed` and `steered` 1 where the row was contextual and still is, with midpoints as they were, 0
    elsewhere; for `strength` |e1 - e2|, logits.

    Args:
        rows: Held-out pairs.
        form: What is counted.
        e: `[n_rows, 2]` or `[n_sets, n_rows, 2]`, logits.
    """
    if form == "strength":
        return np.asarray(np.abs(e[..., 0] - e[..., 1]))
    reading: Reading = form
    return (rows.contextual(reading) & rows.contextual(reading, e=e)).astype(np.float64)


def shares(
    rows: PairRows,
    form: Form,
    before: NDArray[np.float64],
    parts: list[NDArray[np.float64]],
    seed: int,
    n_resamples: int = N_RESAMPLES,
) -> list[Interval]:
    """Sums of the parts over the sum before, `[n_rows]` each, with 95 % intervals over occupations.

    Of shares of pairs the intervals end where shares do: at 1, and at 0, or -1/2 for a phi of pairs that stop under
    another cut alone; and where all occupations agree they are exact binomial ones over occupations.
    """
    table = pd.DataFrame(np.column_stack([*parts, before]))
    sums = table.groupby(rows.keys["occupation"].to_numpy()).sum().to_numpy(dtype=np.float64)
    found = studentized(sums[:, :-1], sums[:, -1:], n_resamples=n_resamples, seed=seed)
    least = [-0.5 if (part < 0).any() else 0.0 for part in parts]
    low, high = found.interval() if form == "strength" else found.bounded_interval(least, 1.0)
    return [
        Interval(float(found.estimate[i]), float(low[i]), float(high[i]), found.n, "share") for i in range(len(parts))
    ]
