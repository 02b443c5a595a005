"""Intervals and tests in which the cluster (the occupation) is the unit that is drawn.

Pairs of one occupation share a noun, and contrasts of one pair share both sentences; resampling rows would count them
as independent. So rows are averaged within their cluster first, and only clusters are resampled or sign-flipped.
Every function takes the seed of its randomness; nothing here is random by itself.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import DegenerateDataWarning, bootstrap

from referent_probe.randomness import generator

_CHUNK = 4_000_000  # float64 numbers held at a time: 32 MB
_TIE = 1e-9  # relative; sums of the same numbers in another order differ by less


@dataclass(frozen=True)
class Interval:
    """A mean over clusters with its confidence interval.

    Attributes:
        mean: Mean of the cluster means, in `unit`.
        low: Lower end of the interval, in `unit`; nan where there is no interval.
        high: Upper end of the interval, in `unit`; nan where there is no interval.
        n: Number of clusters.
        unit: Unit of mean, low and high.
        n_of: What `n` counts, in the plural.

    Example:
        >>> str(Interval(1.234, 0.981, 1.472, n=20, unit="logits"))
        '1.23 [0.98, 1.47] logits, n = 20 occupations'
        >>> str(Interval(1.234, float("nan"), float("nan"), n=1, unit="logits"))
        '1.23 logits (no interval), n = 1 occupations'
    """

    mean: float
    low: float
    high: float
    n: int
    unit: str
    n_of: str = "occupations"

    def __str__(self) -> str:
        """Three significant digits of the largest number, and as many decimals in the others."""
        largest = max((abs(x) for x in (self.mean, self.low, self.high) if math.isfinite(x)), default=0.0)
        decimals = max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 2
        mean, low, high = (f"{x:.{decimals}f}" for x in (self.mean, self.low, self.high))
        has_interval = math.isfinite(self.low) and math.isfinite(self.high)
        estimate = f"{mean} [{low}, {high}] {self.unit}" if has_interval else f"{mean} {self.unit} (no interval)"
        return f"{estimate}, n = {self.n} {self.n_of}"


def cluster_means(values: ArrayLike, clusters: Sequence[str | int]) -> NDArray[np.float64]:
    """Mean of the rows of every cluster: `[n_rows]` or `[n_rows, n_cells]` to `[n_clusters, n_cells]`.

    Clusters come in the order of their sorted labels. Pass every cell at once, so that the rows agree.

    Raises:
        ValueError: Numbers of rows and labels differ, there are no rows, or a value is not finite.

    Example:
        >>> cluster_means([1.0, 3.0, 5.0], ["nurse", "nurse", "cook"]).tolist()
        [[5.0], [2.0]]
    """
    rows = np.asarray(values, dtype=np.float64)
    if len(rows) != len(clusters):
        raise ValueError(f"{len(rows)} values but {len(clusters)} cluster labels: give one label to each value.")
    frame = pd.DataFrame(rows.reshape(len(rows), -1) if rows.size else rows)
    return _checked(frame.groupby(np.asarray(clusters), sort=True).mean().to_numpy(dtype=np.float64))


def cluster_bootstrap_interval(
    values: ArrayLike,
    clusters: Sequence[str | int],
    *,
    confidence: float = 0.95,
    n_resamples: int = 9999,
    seed: int,
    unit: str = "logits",
    n_of: str = "occupations",
) -> Interval:
    """Mean over clusters with its bootstrap interval: BCa, or percentile where BCa is undefined.

    Rows are averaged within their cluster, clusters are resampled. With one cluster there is no interval: low and high
    are nan. With few clusters (under about ten) the interval is too short: it covers less than it promises.

    Args:
        values: `[n_rows]`, in `unit`.
        clusters: `[n_rows]`, the cluster of every row.
        confidence: Between 0 and 1.
        n_resamples: Bootstrap samples.
        seed: Same seed, same interval.
        unit: Unit of the values, kept in the result.
        n_of: What a cluster is, in the plural, kept in the result.

    Raises:
        ValueError: Numbers of rows and labels differ, there are no rows, or a value is not finite.

    Source: Efron 1987, Better bootstrap confidence intervals; `scipy.stats.bootstrap`.

    Example:
        >>> cluster_bootstrap_interval([2.0, 2.0, 2.0], ["nurse", "cook", "cook"], seed=0)
        Interval(mean=2.0, low=2.0, high=2.0, n=2, unit='logits', n_of='occupations')
    """
    means = cluster_means(np.asarray(values).reshape(-1), clusters)
    cell = bootstrap_intervals(means, confidence=confidence, n_resamples=n_resamples, seed=seed).iloc[0]
    return Interval(float(cell["mean"]), float(cell["low"]), float(cell["high"]), len(means), unit, n_of)


def bootstrap_intervals(
    effects: ArrayLike, *, confidence: float = 0.95, n_resamples: int = 9999, seed: int
) -> pd.DataFrame:
    """`cluster_bootstrap_interval` for many cells at once, each over the same resampled clusters.

    Args:
        effects: `[n_clusters, n_cells]`, one mean per cluster and cell (see `cluster_means`).
        confidence: Between 0 and 1; of each cell by itself, not of all together.
        n_resamples: Bootstrap samples.
        seed: Same seed, same intervals.

    Returns:
        One row per cell, in order: `mean`, `low`, `high`, in the unit of the effects. With one cluster low and high are
        nan; a cell that is the same in every cluster has an interval of zero width.

    Raises:
        ValueError: There are no clusters, or an effect is not finite.

    Example:
        >>> bootstrap_intervals([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], seed=0)
           mean  low  high
        0   1.0  1.0   1.0
        1   0.0  0.0   0.0
    """
    cells = _checked(effects)
    table = pd.DataFrame({"mean": cells.mean(axis=0), "low": np.nan, "high": np.nan})
    if len(cells) < 2:
        return table
    varies = np.ptp(cells, axis=0) > _TIE * np.abs(cells).max(axis=0)
    table.loc[~varies, "low"] = table.loc[~varies, "high"] = table["mean"]
    columns, step = np.flatnonzero(varies), max(1, _CHUNK // n_resamples)
    for block in (columns[i : i + step] for i in range(0, len(columns), step)):
        table.loc[block, ["low", "high"]] = _bootstrap(cells[:, block], confidence, n_resamples, seed)
    return table


def max_t_sign_flip(effects: ArrayLike, *, n_flips: int = 10_000, seed: int) -> NDArray[np.float64]:
    """Two-sided p values, adjusted over all cells, that the mean over clusters is zero.

    The statistic of a cell is t of its mean over clusters. Under the null a cluster's effects are symmetric about
    zero, so the signs of whole clusters (all cells of a row together) are flipped, and a cell's |t| is compared with
    the largest |t*| of any cell: the chance of one false claim among all cells is held at the level, and the
    dependence between cells costs nothing. Where there are no more than `n_flips` sign patterns all are enumerated
    (p = count / 2^n, identity included), else `n_flips` are drawn (p = (1 + count) / (1 + n_flips)). The smallest p
    that n clusters can give is 2 / 2^n: below 6 clusters nothing can reach 0.05.

    Args:
        effects: `[n_clusters, n_cells]`, one mean per cluster and cell (see `cluster_means`).
        n_flips: Sign patterns at most.
        seed: Same seed, same p values; without influence where all patterns are enumerated.

    Returns:
        `[n_cells]`, above 0 and at most 1. A cell that is zero in every cluster has p = 1; one that is the same and
        not zero in every cluster has an infinite t.

    Raises:
        ValueError: There are no clusters, or an effect is not finite.

    Source: Westfall and Young 1993, Resampling-based multiple testing; Winkler et al. 2014, Permutation inference for
    the general linear model.

    Example:
        Six clusters, 64 patterns; only the identity and its mirror image give the first cell a t as large.

        >>> max_t_sign_flip([[1, 0], [2, 0], [1, 0], [2, 0], [1, 0], [2, 0]], seed=0).tolist()
        [0.03125, 1.0]
    """
    cells = _checked(effects)
    n_clusters, n_cells = cells.shape
    # Flips leave the sum of squares alone, so t² = (n - 1) r² / (1 - r²) with r = sum / sqrt(n · sum of squares):
    # |t| grows with |r|, which lies in 0..1 and stays finite where t is not. One matrix product gives all r*.
    scale = np.abs(cells).max(axis=0)
    scaled = cells / np.where(scale > 0, scale, 1.0)  # squares of tiny numbers would vanish
    norms = np.sqrt(n_clusters * np.square(scaled).sum(axis=0))
    unit_cells = scaled / np.where(norms > 0, norms, 1.0)

    exact = 2**n_clusters <= n_flips
    signs = _all_signs(n_clusters) if exact else _drawn_signs(n_clusters, n_flips, seed)
    step = max(1, _CHUNK // max(1, n_cells))
    largest = np.concatenate(
        [np.abs(signs[i : i + step] @ unit_cells).max(axis=1, initial=0.0) for i in range(0, len(signs), step)]
    )
    observed = np.abs(unit_cells.sum(axis=0))
    count = len(signs) - np.searchsorted(np.sort(largest), observed - _TIE, side="left")
    p_values: NDArray[np.float64] = count / len(signs) if exact else (1 + count) / (1 + len(signs))
    return p_values


def _checked(effects: ArrayLike) -> NDArray[np.float64]:
    cells = np.asarray(effects, dtype=np.float64)
    if cells.ndim != 2 or not len(cells):
        raise ValueError(f"effects have shape {cells.shape}: give [n_clusters, n_cells] with at least one cluster.")
    if not np.isfinite(cells).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(cells))} effects are not finite: leave those cells out.")
    return cells


def _bootstrap(cells: NDArray[np.float64], confidence: float, n_resamples: int, seed: int) -> NDArray[np.float64]:
    """Low and high ends, `[n_cells, 2]`: BCa, and percentile in the cells where scipy's BCa is nan."""
    settings = {"axis": 0, "confidence_level": confidence, "batch": max(1, _CHUNK // cells.size)}
    rng = generator(seed, "bootstrap")
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        bca = bootstrap((cells,), np.mean, n_resamples=n_resamples, method="BCa", rng=rng, **settings)
    again = {"n_resamples": 0, "bootstrap_result": bca}  # the same resamples, read another way
    percentile = bootstrap((cells,), np.mean, method="percentile", **again, **settings)
    ends, plain = (np.column_stack(result.confidence_interval) for result in (bca, percentile))
    return np.where(np.isnan(ends).any(axis=1, keepdims=True), plain, ends)


def _all_signs(n_clusters: int) -> NDArray[np.float64]:
    """Every pattern of -1 and 1, `[2^n_clusters, n_clusters]`."""
    bits = np.arange(2**n_clusters)[:, None] >> np.arange(n_clusters) & 1
    return 1.0 - 2.0 * bits.astype(np.float64)


def _drawn_signs(n_clusters: int, n_flips: int, seed: int) -> NDArray[np.float64]:
    """Random patterns of -1 and 1, `[n_flips, n_clusters]`."""
    return generator(seed, "sign flips").choice(np.array([-1.0, 1.0]), size=(n_flips, n_clusters))
