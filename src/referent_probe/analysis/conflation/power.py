"""How many occupations a verdict needs: power of the tests behind the states, by normal theory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats.power import TTestPower

from referent_probe.errors import OptionError

POWER = 0.8
MOST_OCCUPATIONS = 2000
"""Where a search for the number needed ends."""


@dataclass(frozen=True)
class Power:
    """What so many occupations can show.

    Attributes:
        n: Number of occupations.
        sd: Standard deviation of the effect over occupations, logits.
        effect: Effect to be detected, logits.
        delta: Margin, logits.
        detects: Chance that the 95 % interval of such an effect leaves 0 out, 0 to 1.
        shows_zero: Chance that the 90 % interval of an effect of 0 lies within the margin, 0 to 1.
        needed_to_detect: Occupations for a chance of 80 % of the one; None where it takes over 2000.
        needed_to_show_zero: Occupations for a chance of 80 % of the other; None where it takes over 2000.
    """

    n: int
    sd: float
    effect: float
    delta: float
    detects: float
    shows_zero: float
    needed_to_detect: int | None
    needed_to_show_zero: int | None

    def __str__(self) -> str:
        """In words."""
        return (
            f"with {self.n} occupations and an SD of {self.sd:.2f} logits, an effect of {self.effect:.2f} is detected "
            f"{self.detects:.0%} of the time (80 % takes {_number(self.needed_to_detect)}), and an effect of 0 is "
            f"shown to be within {self.delta:.2f} {self.shows_zero:.0%} of the time (80 % takes "
            f"{_number(self.needed_to_show_zero)})"
        )


def power(n_occupations: int, sd: float, effect: float, delta: float) -> Power:
    """Chance of detecting an effect and of showing that one of 0 is within the margin, and what 80 % of either takes.

    Args:
        n_occupations: At least 2.
        sd: Standard deviation over occupations, logits, above 0.
        effect: To be detected, logits, not 0: for a full conflater the effect of `same`.
        delta: Margin, logits, above 0.

    Raises:
        OptionError: A value is out of range.

    Source: noncentral t (`statsmodels.stats.power.TTestPower`); Schuirmann 1987 and Phillips 1990 on the power of two
    one-sided tests: at an effect of 0 both must reject, and either fails equally often.

    Example:
        >>> print(power(60, 1.5, 4.0, 0.85))
        with 60 occupations and an SD of 1.50 logits, an effect of 4.00 is detected 100% of the time (80 % takes 4), \
and an effect of 0 is shown to be within 0.85 99% of the time (80 % takes 29)
    """
    if not (n_occupations >= 2 and sd > 0 and effect != 0 and delta > 0):
        raise OptionError(
            f"power of {n_occupations} occupations, sd {sd:g}, effect {effect:g}, delta {delta:g}: give at least 2 "
            "occupations, sd and delta above 0, and an effect other than 0."
        )
    sizes = np.unique(np.append(np.arange(2, MOST_OCCUPATIONS + 1), n_occupations))
    detects = _power(abs(effect) / sd, sizes, 0.05, "two-sided")
    shows_zero = np.maximum(0.0, 2 * _power(delta / sd, sizes, 0.05, "larger") - 1)
    here = int(np.searchsorted(sizes, n_occupations))
    return Power(
        n_occupations,
        sd,
        effect,
        delta,
        float(detects[here]),
        float(shows_zero[here]),
        _needed(sizes, detects),
        _needed(sizes, shows_zero),
    )


def _power(effect_size: float, sizes: NDArray[np.int_], level: float, alternative: str) -> NDArray[np.float64]:
    found = TTestPower().power(effect_size, sizes, level, alternative=alternative)
    return np.nan_to_num(np.asarray(found, dtype=np.float64), nan=1.0)  # the noncentral t gives up far beyond 1


def _needed(sizes: NDArray[np.int_], chance: NDArray[np.float64]) -> int | None:
    enough = sizes[(chance >= POWER) & (sizes <= MOST_OCCUPATIONS)]
    return int(enough[0]) if len(enough) else None


def _number(needed: int | None) -> str:
    return f"over {MOST_OCCUPATIONS}" if needed is None else str(needed)
