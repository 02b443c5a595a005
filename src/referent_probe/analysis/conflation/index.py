"""The conflation index: what the other person's pronoun does, as a share of what the referent's own does."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from referent_probe.analysis.conflation.intervals import N_RESAMPLES, studentized
from referent_probe.analysis.inference import Interval


@dataclass(frozen=True)
class ConflationIndex:
    """O / S, or why there is none.

    Attributes:
        interval: The ratio with its 95 % interval: 0 for a faithful model, 1 for one to which both pronouns are the
            same. None where it is undefined.
        reason: Why it is undefined; None where it is not.
    """

    interval: Interval | None
    reason: str | None


def conflation_index(effects: pd.DataFrame, seed: int, *, n_resamples: int = N_RESAMPLES) -> ConflationIndex:
    """O / S over the occupations in which both are known, with a Fieller interval.

    Args:
        effects: One row an occupation, columns `same` and `other`: mean effects in logits; nan where not measured.
        seed: Of the bootstrap that says whether S differs from 0.
        n_resamples: Bootstrap samples.

    Returns:
        The index; undefined where the 95 % interval of S covers 0, by Student's t (Fieller's interval is then no
        interval) or by the studentised bootstrap (the one printed with S), or under two occupations.

    Source: Fieller 1954, Some problems in interval estimation.

    Example:
        >>> effects = pd.DataFrame({"same": 4.0, "other": 3.0}, index=["cook", "nurse"])
        >>> conflation_index(effects - effects, seed=0).reason
        'the interval of S covers 0: S = 0.00 [0.00, 0.00] logits, n = 2 occupations'
        >>> str(conflation_index(effects, seed=0).interval)
        '0.750 [0.750, 0.750] of the effect of the own pronoun, n = 2 occupations'
    """
    known = effects[["other", "same"]].astype(float).dropna().sort_index()
    n = len(known)
    if n < 2:
        return ConflationIndex(None, f"{n} occupations with both effects")
    same = studentized(known[["same"]], n_resamples=n_resamples, seed=seed).as_interval(0, "logits")
    if np.isnan(same.low):
        return ConflationIndex(None, f"S = {same}")
    (other_mean, same_mean), covariance = known.mean(), np.cov(known.to_numpy(), rowvar=False) / n
    (other_var, both), (_, same_var) = covariance * student_t.ppf(0.975, n - 1) ** 2
    a, b, c = same_mean**2 - same_var, other_mean * same_mean - both, other_mean**2 - other_var
    if a <= 0 or same.low <= 0 <= same.high:
        return ConflationIndex(None, f"the interval of S covers 0: S = {same}")
    half = np.sqrt(max(0.0, b**2 - a * c))
    interval = Interval(
        other_mean / same_mean, (b - half) / a, (b + half) / a, n, "of the effect of the own pronoun", same.n_of
    )
    return ConflationIndex(interval, None)
