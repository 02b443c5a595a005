"""Means over clusters with their intervals, for many columns at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

from referent_probe.analysis.inference import Interval, bootstrap_intervals, cluster_means

RESAMPLES = 2000
"""Bootstrap samples of every interval of an analysis."""


@dataclass(frozen=True)
class Clustered:
    """A mean over clusters.

    Attributes:
        interval: With n clusters; nan where no row has a finite number.
        n_rows: Rows counted.
        n_left_out: Rows without a finite number.
    """

    interval: Interval
    n_rows: int
    n_left_out: int


def clustered_means(
    cells: ArrayLike,
    clusters: Sequence[str | int] | NDArray[np.str_],
    *,
    seed: int,
    unit: str,
    n_of: str = "occupations",
) -> list[Clustered]:
    """`inference.cluster_bootstrap_interval` of every column, each over the rows where it is finite.

    Columns with the same rows share their resamples, and are worked out together.

    Args:
        cells: `[n_rows, n_cells]`, in `unit`.
        clusters: `[n_rows]`.
        seed: Same seed, same intervals.
        unit: Of the cells.
        n_of: What a cluster is, in the plural.

    Example:
        >>> found = clustered_means([[1.0, float("nan")], [1.0, 3.0]], ["cook", "nurse"], seed=0, unit="logits")
        >>> [(x.interval.mean, x.interval.n, x.n_rows, x.n_left_out) for x in found]
        [(1.0, 2, 2, 0), (3.0, 1, 1, 1)]
    """
    values, names = np.asarray(cells, dtype=np.float64), np.asarray(clusters)
    finite = np.isfinite(values)
    patterns, which = np.unique(finite, axis=1, return_inverse=True)
    results: dict[int, Clustered] = {}
    for number, pattern in enumerate(patterns.T):
        columns, n_rows = np.flatnonzero(which.reshape(-1) == number), int(pattern.sum())
        if not n_rows:
            nothing = Interval(np.nan, np.nan, np.nan, 0, unit, n_of)
            results |= {int(column): Clustered(nothing, 0, len(values)) for column in columns}
            continue
        means = cluster_means(values[np.ix_(pattern, columns)], names[pattern].tolist())
        table = bootstrap_intervals(means, n_resamples=RESAMPLES, seed=seed)
        for column, mean, low, high in zip(columns, table["mean"], table["low"], table["high"], strict=True):
            interval = Interval(float(mean), float(low), float(high), len(means), unit, n_of)
            results[int(column)] = Clustered(interval, n_rows, len(values) - n_rows)
    return [results[column] for column in range(values.shape[1])]


def share_interval(interval: Interval) -> Interval:
    """The interval of a share of rows, with an end of its own where no row is counted, or every one.

    Resampling zeros gives zeros, which would say that the share is 0 for certain. There the open end is the exact
    binomial one of the share of clusters that have any (or lack any), within which the share of rows must lie. No share
    says less about its far end than none would: 1 of 180 does not exclude what 0 of 180 does not.

    Source: Clopper and Pearson 1934, The use of confidence or fiducial limits; `scipy.stats.binomtest`.

    Example:
        >>> str(share_interval(Interval(0.0, 0.0, 0.0, 60, "share of pairs")))
        '0.0000 [0.0000, 0.0596] share of pairs, n = 60 occupations'
    """
    if interval.n < 2 or math.isnan(interval.mean):
        return interval
    none = float(binomtest(0, interval.n).proportion_ci(0.95, "exact").high)
    return replace(interval, low=min(interval.low, 1 - none), high=max(interval.high, none))
