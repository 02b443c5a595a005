"""Effects of primes by whose pronoun it is, and what can be said of each: zero, positive, negative or unknown.

An effect of a prime is the log-odds after its feminine form less those after its masculine form, in raw logits at
T = 1. S, O, T and M are the effects of `same`, `other`, `third` and `mention`, averaged within occupations, which are
the unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.analysis.conflation.intervals import N_RESAMPLES, Studentized, studentized
from referent_probe.analysis.held_out import halves
from referent_probe.analysis.inference import Interval

State = Literal["Z", "P", "N", "U"]
"""Within the margin of zero, above zero, below zero, not known."""

PRIMES = ("same", "other", "third", "mention")
QUANTITIES = ("O", "S", "T", "D", "S - O", "M")
"""D is O - T; both differences are taken within occupations."""

SMALLEST_MARGIN = 0.2
"""Logits: 5 points of probability at p = 0.5."""
MARGIN_SHARE = 0.25
"""Of what `same` is sure to do."""
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class Estimate:
    """One quantity over occupations.

    Attributes:
        name: Of `QUANTITIES`.
        distribution: Of its mean over the occupations in which it is known, in logits.

    Example:
        >>> str(quantities(pd.DataFrame({"same": [2.0, 2.0]}, index=["cook", "nurse"]), seed=0)["S"].interval())
        '2.00 [2.00, 2.00] logits, n = 2 occupations'
    """

    name: str
    distribution: Studentized

    def interval(self, confidence: float = 0.95) -> Interval:
        """Mean with its interval, logits; nan without occupations, no ends where there are too few."""
        return self.distribution.as_interval(0, "logits", confidence=confidence)

    def zero_above(self, level: float = LEVEL) -> float:
        """Margin in logits above which the state is Z; nan where there is no interval."""
        return float(np.abs(self.distribution.interval(1 - 2 * level)).max())

    def state(self, delta: float, zero_level: float = LEVEL, sign_level: float = LEVEL) -> State:
        """Z if the 90 % interval lies within the margin; else P or N if the 95 % interval lies above or below 0.

        Args:
            delta: Margin, logits, above 0.
            zero_level: Of the equivalence test; 0.05 is the 90 % interval.
            sign_level: Of the two-sided test; 0.05 is the 95 % interval.
        """
        if self.zero_above(zero_level) < delta:
            return "Z"
        low, high = self.distribution.interval(1 - sign_level)[:, 0]
        return "P" if low > 0 else "N" if high < 0 else "U"

    @property
    def standard_deviation(self) -> float:
        """Over occupations, logits."""
        return float(self.distribution.error[0] * np.sqrt(self.distribution.n))


def quantities(effects: pd.DataFrame, seed: int, *, n_resamples: int = N_RESAMPLES) -> Mapping[str, Estimate]:
    """All quantities, each over the occupations in which it is known.

    Args:
        effects: One row an occupation, columns of `PRIMES`, mean effects in logits. A column may be missing and a value
            nan: the prime was not measured there.
        seed: Of the bootstrap.
        n_resamples: Bootstrap samples.

    Returns:
        By name, in the order of `QUANTITIES`. One without any occupation has a mean of nan and is in state U.

    Raises:
        ValueError: An occupation comes twice, or an effect is infinite.

    Example:
        >>> effects = pd.DataFrame({"same": 4.0, "other": 3.0, "third": 1.0}, index=["cook", "nurse"])
        >>> {name: estimate.state(0.5) for name, estimate in quantities(effects, seed=0).items()}
        {'O': 'P', 'S': 'P', 'T': 'P', 'D': 'P', 'S - O': 'P', 'M': 'U'}
    """
    if effects.index.has_duplicates:
        twice = effects.index[effects.index.duplicated()][0]
        raise ValueError(f"occupation {twice!r} comes twice: average its rows first.")
    # Sorted, so that the order of the rows changes no resample.
    same, other, third, mention = (effects.sort_index().reindex(columns=[p])[p].astype(float) for p in PRIMES)
    series = (other, same, third, other - third, same - other, mention)
    return {
        name: Estimate(name, studentized(_known(values), n_resamples=n_resamples, seed=seed))
        for name, values in zip(QUANTITIES, series, strict=True)
    }


def margin(same: "pd.Series[float]", seed: int, *, n_resamples: int = N_RESAMPLES) -> float:
    """Largest effect that counts as none: a quarter of what the legitimate cue is sure to do, at least 0.2 logits.

    What it is sure to do, L, is the mean over two random halves of the occupations of the lower end of the 95 %
    interval of S in that half, 0 where that is negative or, under six occupations, unknown.

    Args:
        same: S by occupation, in logits; nan where it was not measured.
        seed: Of the split and the bootstrap.
        n_resamples: Bootstrap samples.

    Example:
        >>> margin(pd.Series(4.0, index=list("abcdefghijkl")), seed=0), margin(pd.Series(dtype=float), seed=0)
        (1.0, 0.2)
    """
    known = same.dropna()
    lowest = []
    for half in halves(known.index, seed):
        values = _known(known.loc[list(half)])
        [low] = studentized(values, n_resamples=n_resamples, seed=seed).interval()[0]
        lowest.append(max(0.0, np.nan_to_num(low)))
    return float(max(SMALLEST_MARGIN, MARGIN_SHARE * np.mean(lowest)))


def state(values: "pd.Series[float]", delta: float, seed: int) -> State:
    """State of one quantity by occupation.

    Args:
        values: By occupation, in logits; nan where it is not known.
        delta: Margin, logits, above 0.
        seed: Of the bootstrap.

    Example:
        >>> state(pd.Series(0.1, index=["cook", "nurse"]), 0.2, seed=0), state(pd.Series([0.1]), 0.2, seed=0)
        ('Z', 'U')
    """
    return Estimate("", studentized(_known(values.sort_index()), seed=seed)).state(delta)


def _known(values: "pd.Series[float]") -> NDArray[np.float64]:
    return np.asarray(values.dropna(), dtype=np.float64)[:, None]
