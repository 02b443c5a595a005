"""Do the heads that read the other person's pronoun as such also read the referent's own: correlation of head maps.

A conflater uses one mechanism for both people of the target sentence, so the maps of other - third and same - third
agree as well as either agrees with itself. The two maps are measured with the same `third`, whose noise enters both and
correlates them by itself, to about 1/2 where there is nothing else. So beside the plain correlation stands that between
one map on one half of the occupations and the other map on the other half, which shares no noise.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import pearsonr, rankdata

from referent_probe.analysis.carriers import DIRECTIONS
from referent_probe.analysis.conflation.carrier_sets import difference, head_maps
from referent_probe.analysis.held_out import halves
from referent_probe.analysis.inference import Interval
from referent_probe.analysis.resampling import resampled_intervals
from referent_probe.errors import OptionError
from referent_probe.randomness import generator

SPLITS = 200
"""Random halves."""


@dataclass(frozen=True)
class MapAgreement:
    """Rank correlation over heads of the maps other - third and same - third, in one direction of patching.

    Attributes:
        direction: "denoise" or "noise".
        spearman: Of the maps of all occupations, with a percentile bootstrap interval over occupations, -1 to 1.
            Inflated by the `third` that both share.
        ceiling: Geometric mean of the two maps' Spearman-Brown split-half reliabilities, 0 to 1: what it would be if
            both maps were the same but for noise.
        across_halves: Mean over random halves of the correlation of one map on one half with the other on the other
            half; free of shared noise.
        across_halves_ceiling: Geometric mean of the two maps' correlations between halves, the same for it, 0 to 1.
        n_heads: Number of heads.
    """

    direction: str
    spearman: Interval
    ceiling: float
    across_halves: float
    across_halves_ceiling: float
    n_heads: int


def map_agreement(effects: pd.DataFrame, seed: int, *, n_resamples: int = 2000) -> list[MapAgreement]:
    """Both directions.

    Args:
        effects: Effects of single heads, as in `carrier_sets.carrier_sets`; the primes same, other and third are read.
        seed: Of halves and bootstrap.
        n_resamples: Bootstrap samples.

    Raises:
        OptionError: A prime or a head is missing, or under two occupations have all three.

    Source: Spearman 1904 and 1910, Brown 1910.

    Example:
        Two maps that differ by noise alone have `across_halves` at its ceiling.
    """
    maps = head_maps(effects, ["same", "other", "third"])
    other, same = (difference(maps[prime], maps["third"]) for prime in ("other", "same"))
    shared = other.index.intersection(same.index)
    if len(shared) < 2:
        raise OptionError(f"{len(shared)} occupations with same, other and third: give at least two.")
    return [
        _agreement(other.loc[shared, [direction]], same.loc[shared, [direction]], direction, seed, n_resamples)
        for direction in DIRECTIONS
    ]


def _agreement(other: pd.DataFrame, same: pd.DataFrame, direction: str, seed: int, n_resamples: int) -> MapAgreement:
    a, b = (part.to_numpy(dtype=np.float64) for part in (other, same))
    [whole] = resampled_intervals(
        lambda times: _spearman(times @ a, times @ b)[None], len(a), n_resamples=n_resamples, seed=seed, unit="rho"
    )
    seeds = generator(seed, "random halves").integers(2**32, size=SPLITS).tolist()
    first = np.array([other.index.isin(halves(other.index, own)[0]) for own in seeds], dtype=np.float64)
    (a1, a2), (b1, b2) = ([half @ x for half in (first, 1 - first)] for x in (a, b))
    of_a, of_b = float(_spearman(a1, a2).mean()), float(_spearman(b1, b2).mean())
    across = float(((_spearman(a1, b2) + _spearman(a2, b1)) / 2).mean())
    reliabilities = [max(0.0, 2 * r / (1 + r)) for r in (of_a, of_b)]
    return MapAgreement(
        direction,
        whole,
        float(np.sqrt(np.prod(reliabilities))),
        across,
        float(np.sqrt(max(0.0, of_a) * max(0.0, of_b))),
        a.shape[1],
    )


def _spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every row of a with the same row of b, `[n_maps, n_heads]` each, sums or means alike."""
    return np.asarray(pearsonr(rankdata(a, axis=1), rankdata(b, axis=1), axis=1).statistic)
