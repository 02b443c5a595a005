"""Does a context setting leave the answer alone: equivalence of log-odds to the unprimed setting.

A mean shift that does not differ from zero is no invariance: templates may be too few, or opposite shifts cancel. So
the mean is tested for equivalence as well as for a difference, and beside it stand the share of templates whose own
shift is within the margin and the root mean square shift. Shifts are differences of log-odds (feminine over masculine
option) from unwarped logits at T = 1. Occupations are the unit; participants as clusters are a two-way check.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from referent_probe.analysis.inference import Interval, cluster_bootstrap_interval, cluster_means
from referent_probe.errors import OptionError

MARGIN = 0.2
"""Logits: 5 points of probability at p = 0.5."""

SENSITIVITY_MARGINS = (0.1, 0.36)
"""Logits: 2.5 and 9 points of probability at p = 0.5."""

Verdict = Literal["equivalent", "different", "both", "undecided"]
"""Of a mean shift: within the margin, not zero, not zero yet within the margin, neither shown."""


@dataclass(frozen=True)
class Invariance:
    """How far one context setting shifts the log-odds.

    Attributes:
        setting: Context setting.
        margin: Largest shift that counts as none, in logits.
        mean: Mean shift over occupations, in logits.
        root_mean_square: Root of the mean squared shift over occupations, in logits, at least |mean|.
        share_within: Share of templates with |shift| below the margin, mean over occupations, 0 to 1.
        p_equivalence: Of the mean being at or beyond the margin (two one-sided t tests on occupation means).
        p_difference: Of the mean being zero (two-sided t test on occupation means).
        p_equivalence_holm: Holm's adjustment over the settings that were given together.
        p_difference_holm: The same for the other test.
        verdict: From the two adjusted p values; on the mean, not on single templates.
        n_templates: Templates counted.
        n_left_out: Templates left out because their shift is not finite.
    """

    setting: str
    margin: float
    mean: Interval
    root_mean_square: Interval
    share_within: Interval
    p_equivalence: float
    p_difference: float
    p_equivalence_holm: float
    p_difference_holm: float
    verdict: Verdict
    n_templates: int
    n_left_out: int


@dataclass(frozen=True)
class NoiseFloor:
    """How far two settings that should do nothing differ: root mean square over occupations, in logits.

    `n_templates` count; `n_left_out` have a shift that is not finite.
    """

    root_mean_square: Interval
    n_templates: int
    n_left_out: int


def invariance(
    shifts: Mapping[str, ArrayLike],
    clusters: Sequence[str | int],
    *,
    margin: float = MARGIN,
    level: float = 0.05,
    n_resamples: int = 9999,
    seed: int,
    n_of: str = "occupations",
) -> dict[str, Invariance]:
    """Mean shift, root mean square shift, share within the margin and verdict, per context setting.

    A verdict goes by Holm's p values, at most the level, adjusted over the settings for either test by itself.

    Args:
        shifts: Setting to `[n_templates]`, log-odds minus those of the unprimed setting, in logits.
        clusters: `[n_templates]`, its occupation; or its participant, with `n_of="participants"`.
        margin: Largest shift that counts as none, above 0, in logits.
        level: Of the verdict, over all settings, between 0 and 1.
        n_resamples: Bootstrap samples.
        seed: Same seed, same intervals.
        n_of: What a cluster is, in the plural.

    Returns:
        One result per setting, in the order given; with fewer than two clusters p is nan and does not count for Holm.

    Raises:
        OptionError: The margin is not above 0.
        ValueError: Numbers of shifts and clusters differ.

    Source: Schuirmann 1987, A comparison of the two one-sided tests procedure; Holm 1979, A simple sequentially
    rejective multiple test procedure; `statsmodels`.

    Example:
        A shift that is small and sure, one that cancels, one that is large:

        >>> small, cancels, large = [0.05, 0.06, 0.05, 0.06], [2.0, -2.0, 2.0, -2.0], [2.0, 2.1, 2.0, 2.1]
        >>> found = invariance({"n1": small, "n2": cancels, "cf": large}, ["a", "b", "c", "d"], seed=0)
        >>> [(x.setting, x.verdict, x.share_within.mean) for x in found.values()]
        [('n1', 'both', 1.0), ('n2', 'undecided', 0.0), ('cf', 'different', 0.0)]
    """
    if not margin > 0:
        raise OptionError(f"--margin {margin} is no margin: give a number of logits above 0")
    options = {"n_resamples": n_resamples, "seed": seed, "n_of": n_of}
    kept = {setting: _finite(values, clusters) for setting, values in shifts.items()}
    means = [cluster_means(rows, names)[:, 0] if len(rows) else rows for rows, names in kept.values()]
    equivalence = [equivalence_p(x, margin) for x in means]
    difference = [difference_p(x) for x in means]
    adjusted = list(zip(holm(equivalence), holm(difference), strict=True))
    return {
        setting: Invariance(
            setting,
            margin,
            _interval(rows, names, "logits", options),
            _root(_interval(np.square(rows), names, "logits", options)),
            _interval((np.abs(rows) < margin).astype(float), names, "share", options),
            equivalence[i],
            difference[i],
            *adjusted[i],
            verdict(*adjusted[i], level),
            len(rows),
            len(clusters) - len(rows),
        )
        for i, (setting, (rows, names)) in enumerate(kept.items())
    }


def noise_floor(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[str | int],
    *,
    n_resamples: int = 9999,
    seed: int,
    n_of: str = "occupations",
) -> NoiseFloor:
    """Root mean square difference between the shifts of two null primes: what a prime does by merely being there.

    Args:
        first: `[n_templates]`, shifts under the one null prime, in logits.
        second: `[n_templates]`, shifts under the other.
        clusters: As in `invariance`, and so are `n_resamples`, `seed` and `n_of`.

    Raises:
        ValueError: Numbers of shifts and clusters differ.

    Example:
        >>> str(noise_floor([0.3, 0.1, 0.2], [0.0, 0.4, 0.5], ["cook", "nurse", "baker"], seed=0).root_mean_square)
        '0.300 [0.300, 0.300] logits, n = 3 occupations'
    """
    with np.errstate(invalid="ignore"):  # infinite on both sides: left out
        rows, names = _finite(np.subtract(first, second, dtype=np.float64), clusters)
    options = {"n_resamples": n_resamples, "seed": seed, "n_of": n_of}
    floor = _root(_interval(np.square(rows), names, "logits", options))
    return NoiseFloor(floor, len(rows), len(clusters) - len(rows))


def equivalence_p(means: ArrayLike, margin: float) -> float:
    """p of the mean of `[n_clusters]` being at or beyond plus or minus the margin: the larger of two one-sided t tests.

    0 to 1; nan with fewer than two clusters. Where all clusters agree, 0 within the margin and 1 elsewhere.

    Example:
        >>> equivalence_p([0.01, -0.01, 0.02, -0.02], 0.2) < 0.001
        True
    """
    values = np.asarray(means, dtype=np.float64)
    if len(values) < 2:
        return math.nan
    if np.ptp(values) == 0:
        return float(abs(values[0]) >= margin)
    return float(DescrStatsW(values).ttost_mean(-margin, margin)[0])


def difference_p(means: ArrayLike) -> float:
    """p of the mean of `[n_clusters]` being zero: two-sided t test.

    0 to 1; nan with fewer than two clusters. Where all clusters agree, 1 at zero and 0 elsewhere.

    Example:
        >>> difference_p([1.0, -1.0, 2.0, -2.0])
        1.0
    """
    values = np.asarray(means, dtype=np.float64)
    if len(values) < 2:
        return math.nan
    if np.ptp(values) == 0:
        return float(values[0] == 0)
    return float(DescrStatsW(values).ttest_mean(0.0)[1])


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values; nan stays nan and does not count.

    Example:
        >>> holm([0.01, 0.04, float("nan")])
        [0.02, 0.04, nan]
    """
    adjusted = np.array(p_values, dtype=np.float64)
    known = ~np.isnan(adjusted)
    if known.any():
        adjusted[known] = multipletests(adjusted[known], method="holm")[1]
    return [float(p) for p in adjusted]


def verdict(p_equivalence: float, p_difference: float, level: float) -> Verdict:
    """The verdict on a mean shift, from two p values; nan shows nothing.

    Example:
        >>> verdict(0.01, 0.3, 0.05), verdict(0.01, 0.01, 0.05), verdict(0.3, 0.3, 0.05)
        ('equivalent', 'both', 'undecided')
    """
    if p_equivalence <= level:
        return "both" if p_difference <= level else "equivalent"
    return "different" if p_difference <= level else "undecided"


def _finite(values: ArrayLike, clusters: Sequence[str | int]) -> tuple[NDArray[np.float64], list[str | int]]:
    rows = np.asarray(values, dtype=np.float64)
    if rows.shape != (len(clusters),):
        raise ValueError(f"shifts have shape {rows.shape} but there are {len(clusters)} clusters: give one to each.")
    known = np.isfinite(rows)
    return rows[known], [name for name, is_known in zip(clusters, known, strict=True) if is_known]


def _interval(rows: NDArray[np.float64], names: list[str | int], unit: str, options: dict[str, Any]) -> Interval:
    if not len(rows):
        return Interval(math.nan, math.nan, math.nan, 0, unit, options["n_of"])
    return cluster_bootstrap_interval(rows, names, unit=unit, **options)


def _root(square: Interval) -> Interval:
    # A bootstrap interval of the mean square, root taken, is that of the root mean square: the root is monotone.
    return replace(square, mean=math.sqrt(square.mean), low=math.sqrt(square.low), high=math.sqrt(square.high))
