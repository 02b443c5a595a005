"""How far a context setting moves the answer: Kullback-Leibler divergence from the unprimed answer, in bits.

The exact divergence has no bound, so that a few saturated templates may carry its mean; the published values come from
counts of draws, smoothed, and are bounded. So three columns stand beside each other: exact mean, exact median, and the
expected divergence of smoothed draws, which is the one to set beside a published value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr, xlogy
from scipy.stats import binom

from referent_probe.analysis.inference import Interval, cluster_bootstrap_interval
from referent_probe.analysis.resampling import resampled_intervals
from referent_probe.errors import OptionError

DRAWS = 200
"""Draws of a cell in the paper."""


@dataclass(frozen=True)
class Divergence:
    """Divergence of one context setting from the unprimed one, over the templates.

    Attributes:
        exact_mean: Of the finite exact divergences, over occupations, in bits.
        exact_median: Of all exact divergences, infinite ones too, over templates; resampled by occupation, in bits.
        smoothed_mean: Of the expected divergence of smoothed draws, over occupations, in bits.
        n_templates: Templates with both probabilities.
        n_infinite: Of these, the ones whose exact divergence is infinite; not in `exact_mean`.
        n_left_out: Templates without one of the two probabilities (nan); in nothing.
    """

    exact_mean: Interval
    exact_median: Interval
    smoothed_mean: Interval
    n_templates: int
    n_infinite: int
    n_left_out: int


def bernoulli_kl_bits(p: ArrayLike, q: ArrayLike) -> NDArray[np.float64]:
    """Kullback-Leibler divergence of a yes-no answer with probability `p` from one with `q`, in bits.

    p log2(p/q) + (1-p) log2((1-p)/(1-q)), with 0 log 0 = 0: infinite where q is 0 or 1 and p is not the same, and nan
    where either is nan. Not symmetric: `q` is the reference.

    Args:
        p: Probabilities, 0 to 1, any shape.
        q: Probabilities, 0 to 1, of a shape that broadcasts with p's.

    Returns:
        Bits, 0 to infinity, in the broadcast shape.

    Raises:
        OptionError: A value is below 0 or above 1.

    Source: Kullback and Leibler 1951, On information and sufficiency.

    Example:
        >>> bernoulli_kl_bits([1.0, 0.5, 0.0, 0.5], [0.5, 0.5, 0.0, 1.0]).tolist()
        [1.0, 0.0, 0.0, inf]
        >>> round(float(bernoulli_kl_bits(0.999, 1e-6)), 1)
        19.9
    """
    p, q = _probabilities(p, "p"), _probabilities(q, "q")
    nats = rel_entr(p, q) + rel_entr(1 - p, 1 - q)
    # Where p is nearly q the two terms cancel, and rounding may leave -1e-17.
    return np.asarray(np.maximum(nats, 0.0) / math.log(2))


def expected_smoothed_kl_bits(p: ArrayLike, q: ArrayLike, n: int = DRAWS) -> NDArray[np.float64]:
    """What `bernoulli_kl_bits` gives on average when p and q are estimated from n draws each, in bits.

    The estimates are (k + 0.5)/(n + 1), k ~ Binomial(n, p) and, independently, Binomial(n, q). The expectation is
    exact: a divergence is a sum of products of a function of the one count and a function of the other, so the double
    sum over both counts falls apart into single ones. It is above 0 even for p = q, as the draws differ (about
    1/(n ln 2) bits for p = q = 0.5), and at most `largest_smoothed_kl_bits(n)`.

    Args:
        p: Probabilities, 0 to 1, any shape.
        q: Probabilities, 0 to 1, of a shape that broadcasts with p's.
        n: Draws on each side, at least 1.

    Returns:
        Bits, finite, in the broadcast shape; nan where either is nan.

    Raises:
        OptionError: A value is below 0 or above 1, or n is below 1.

    Source: the estimator of the contextual-invariance paper (arXiv 2603.23485), which takes 200 draws.

    Example:
        One draw, certain on both sides: estimates 3/4 and 1/4, and 3/4 log2 3 - 1/4 log2 3 = log2(3)/2.

        >>> round(float(expected_smoothed_kl_bits(1.0, 0.0, n=1)), 4)
        0.7925
    """
    p, q = _probabilities(p, "p"), _probabilities(q, "q")
    if n < 1:
        raise OptionError(f"cannot smooth {n} draws: give a number from 1")
    counts = np.arange(n + 1)
    share = (counts + 0.5) / (n + 1)
    minus_entropy = xlogy(share, share) + xlogy(1 - share, 1 - share)
    of_p, of_q = (binom.pmf(counts, n, x[..., None]) for x in (p, q))
    log_q, log_not_q = of_q @ np.log(share), of_q @ np.log(1 - share)
    mean_p = of_p @ share
    nats = of_p @ minus_entropy - mean_p * log_q - (1 - mean_p) * log_not_q
    return np.asarray(np.maximum(nats, 0.0) / math.log(2))


def largest_smoothed_kl_bits(n: int = DRAWS) -> float:
    """The largest divergence that n smoothed draws on each side can show, in bits: n/(n + 1) log2(2n + 1).

    Example:
        >>> round(largest_smoothed_kl_bits(200), 3)
        8.604
    """
    return n / (n + 1) * math.log2(2 * n + 1)


def divergence_from_unprimed(
    p: ArrayLike,
    unprimed: ArrayLike,
    clusters: Sequence[str | int],
    *,
    n_draws: int = DRAWS,
    n_resamples: int = 2000,
    seed: int,
    n_of: str = "occupations",
) -> Divergence:
    """The three columns of one context setting: exact mean, exact median, expected smoothed mean, with intervals.

    Args:
        p: `[n_templates]`, p(feminine) in the setting, 0 to 1; nan where there is none.
        unprimed: `[n_templates]`, p(feminine) of the same templates without a prime, 0 to 1.
        clusters: `[n_templates]`, the occupation of every template.
        n_draws: Draws on each side of the smoothed divergence.
        n_resamples: Bootstrap samples of the occupations.
        seed: Same seed, same intervals.
        n_of: What a cluster is, in the plural.

    Raises:
        OptionError: A probability is below 0 or above 1.
        ValueError: Lengths differ.

    Example:
        >>> found = divergence_from_unprimed([1.0, 0.5, 0.5], [0.5, 0.5, 1.0], ["cook", "nurse", "nurse"], seed=0)
        >>> found.exact_mean.mean, found.exact_median.mean, found.n_infinite
        (0.5, 1.0, 1)
    """
    p, unprimed, labels = np.asarray(p, dtype=float), np.asarray(unprimed, dtype=float), np.asarray(clusters)
    if not p.shape == unprimed.shape == labels.shape:
        raise ValueError(f"{p.shape} and {unprimed.shape} probabilities but {labels.shape} clusters: give one of each.")
    known = ~(np.isnan(p) | np.isnan(unprimed))
    exact, smoothed = bernoulli_kl_bits(p, unprimed), expected_smoothed_kl_bits(p, unprimed, n_draws)
    finite = known & np.isfinite(exact)

    def mean(bits: NDArray[np.float64], rows: NDArray[np.bool_]) -> Interval:
        if not rows.any():
            return Interval(math.nan, math.nan, math.nan, 0, "bits", n_of)
        return cluster_bootstrap_interval(
            bits[rows],
            labels[rows].tolist(),
            n_resamples=n_resamples,
            seed=seed,
            unit="bits",
            n_of=n_of,
        )

    codes, names = pd.factorize(labels[known], sort=True)
    (median,) = resampled_intervals(
        lambda drawn: weighted_medians(exact[known], drawn[:, codes])[None],
        len(names),
        n_resamples=n_resamples,
        seed=seed,
        unit="bits",
        n_of=n_of,
    )
    n_known = int(known.sum())
    return Divergence(
        mean(exact, finite), median, mean(smoothed, known), n_known, n_known - int(finite.sum()), len(p) - n_known
    )


def weighted_medians(values: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    """Median of values that occur a whole number of times each: values `[n]`, times `[n_medians, n]`.

    Infinite values are allowed; the median of nothing is nan.

    Example:
        The medians of 1, 1, 5 and of 1, 5:

        >>> weighted_medians([5.0, 1.0], [[1, 2], [1, 1]]).tolist()
        [1.0, 3.0]
    """
    values, weights = np.asarray(values, dtype=float), np.asarray(weights)
    if not len(values):
        return np.full(len(weights), math.nan)
    order = np.argsort(values)
    ordered, up_to = values[order], np.cumsum(weights[:, order], axis=1)
    total = up_to[:, -1]
    low = ordered[(up_to <= (total[:, None] - 1) // 2).sum(axis=1).clip(max=len(values) - 1)]
    high = ordered[(up_to <= total[:, None] // 2).sum(axis=1).clip(max=len(values) - 1)]
    return np.where(total > 0, np.where(low == high, low, (low + high) / 2), math.nan)


def _probabilities(values: ArrayLike, name: str) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    outside = found[(found < 0) | (found > 1)]
    if outside.size:
        raise OptionError(f"{name} = {outside[0]!s} is no probability: give values from 0 to 1")
    return found
