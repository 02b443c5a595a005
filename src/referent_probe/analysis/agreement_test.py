"""The honest test of dC > 0 on sampled answers: an intersection-union test on agreement rates.

dC of relative frequencies is a difference between a smallest and a largest rate, so noise alone makes it positive: at
200 draws a cell, four equal rates give dC > 0 in about 30 % of option orders, and more draws do not help. dC > 0 says
that one sentence agrees with its prime more than the other does, whatever the two primes' genders: four inequalities,
each of which must be shown. The p value of such an intersection is the largest of the four (Berger 1982).

Rates come in the order c2_f, c2_m, c1_f, c1_m of `RATES`: sentence 2 agrees with a feminine and a masculine prime, then
sentence 1. Exact probabilities need no test of this kind.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import false_discovery_control, hypergeom

from referent_probe.analysis.agreement_form import agreement_form, agreement_form_joint
from referent_probe.errors import OptionError

RATES = ("c2_f", "c2_m", "c1_f", "c1_m")
"""Order of the four agreement rates on the last axis: sentence and gender of its prime."""


def fisher_greater(
    successes: ArrayLike, draws: ArrayLike, other_successes: ArrayLike, other_draws: ArrayLike
) -> NDArray[np.float64]:
    """One-sided p of Fisher's exact test that the first rate is greater than the other; arrays broadcast.

    Args:
        successes: Counts, whole and at most the draws.
        draws: Counts. 0 in either sample gives NaN.
        other_successes: As the first.
        other_draws: As the first.

    Returns:
        p values, 0 to 1, as `scipy.stats.fisher_exact(..., alternative="greater")` has them one by one.

    Raises:
        OptionError: A count is negative, not whole, or above its draws.

    Example:
        Three of three against none of three: 1 of the 20 ways to place three successes.

        >>> float(fisher_greater(3, 3, 0, 3).round(6))
        0.05
    """
    one, n_one = _checked_counts(successes, draws)
    two, n_two = _checked_counts(other_successes, other_draws)
    one, n_one, two, n_two = np.broadcast_arrays(one, n_one, two, n_two)
    # Few distinct tables among many pairs: each is worked out once.
    tables, where = np.unique(np.stack([one, n_one, two, n_two]).reshape(4, -1), axis=1, return_inverse=True)
    k, n, other, other_n = tables
    with np.errstate(all="ignore"):  # empty samples, overwritten below
        p_values = np.asarray(hypergeom.sf(k - 1, n + other_n, k + other, n), dtype=np.float64)
    p_values = np.where((n > 0) & (other_n > 0), np.clip(p_values, 0.0, 1.0), np.nan)
    return p_values[where.reshape(-1)].reshape(one.shape)


def agreement_directions(agreements: ArrayLike, draws: ArrayLike) -> NDArray[np.float64]:
    """p of each direction: the largest of its four one-sided Fisher tests.

    Args:
        agreements: `[..., 4]`, how often the answer agreed with its prime, in the order of `RATES`.
        draws: `[..., 4]`, valid draws.

    Returns:
        `[..., 2]`: p that sentence 2 agrees more than sentence 1 under all primes, and the reverse. NaN where one of
        the four cells has no valid draw.

    Raises:
        OptionError: The last axis is not 4, a count is negative, not whole, or above its draws.

    Example:
        Sentence 2 always agrees, sentence 1 never.

        >>> agreement_directions([3, 3, 0, 0], [3, 3, 3, 3]).round(6).tolist()
        [0.05, 1.0]
    """
    k, n = _checked_counts(agreements, draws)
    if k.shape[-1:] != (4,):
        raise OptionError(f"agreements have shape {k.shape}: give [..., 4], in the order {', '.join(RATES)}.")
    second, first = (k[..., :2, None], n[..., :2, None]), (k[..., None, 2:], n[..., None, 2:])
    directions = [fisher_greater(*second, *first), fisher_greater(*first, *second)]
    return np.stack([p.max(axis=(-2, -1)) for p in directions], axis=-1)


def agreement_test(agreements: ArrayLike, draws: ArrayLike) -> NDArray[np.float64]:
    """p of H0: dC <= 0 of the `steered` reading, for every pair: the smaller p of the two directions.

    Rejecting at or below an alpha up to 1/2 keeps the size at alpha without a correction for two directions: a pair
    cannot lie on the boundary of both unless all its rates are equal, and there the test is far more cautious. (Near 1
    it is not quite a p value: at alpha = 0.8, equal rates were rejected in 82 % of simulations.)

    Args:
        agreements: `[..., 4]`, how often the answer agreed with its prime, in the order of `RATES`.
        draws: `[..., 4]`, valid draws.

    Returns:
        `[...]`, 0 to 1. NaN where one of the four cells has no valid draw.

    Raises:
        OptionError: The last axis is not 4, a count is negative, not whole, or above its draws.

    Source: Berger 1982, Multiparameter hypothesis testing and acceptance sampling; Fisher's exact test.

    Example:
        >>> agreement_test([[3, 3, 0, 0], [3, 0, 3, 0]], [[3, 3, 3, 3], [3, 3, 3, 3]]).round(6).tolist()
        [0.05, 1.0]
    """
    return np.asarray(agreement_directions(agreements, draws).min(axis=-1))


def joint_agreement_test(counts_o1: ArrayLike, counts_o2: ArrayLike) -> NDArray[np.float64]:
    """p of H0: dC <= 0 of the sampled `joint` reading: the same test on the four cells.

    One direction: both agreeing cells have more in o1 and both disagreeing ones more in o2; the other: the reverse.

    Args:
        counts_o1: `[..., 2, 2]`, valid draws by answers to sentence 1 and sentence 2, where sentence 1 comes first.
        counts_o2: The same, indexed the same way, where sentence 2 comes first.

    Returns:
        `[...]`, 0 to 1. NaN where a table is empty.

    Raises:
        OptionError: The last two axes are not 2 x 2, or a count is negative or not whole.

    Example:
        >>> joint_agreement_test([[9, 0], [0, 9]], [[0, 9], [9, 0]]).round(6).tolist()
        0.000516
    """
    o1, o2 = _with_draws("counts_o1", counts_o1), _with_draws("counts_o2", counts_o2)
    more_in_o1, more_in_o2 = fisher_greater(*o1, *o2), fisher_greater(*o2, *o1)
    agree = np.eye(2, dtype=bool)
    directions = [np.where(agree, more_in_o1, more_in_o2), np.where(agree, more_in_o2, more_in_o1)]
    return np.asarray(np.minimum(*(p.max(axis=(-2, -1)) for p in directions)))


def either_order(p_one_order: ArrayLike, p_other_order: ArrayLike) -> NDArray[np.float64]:
    """p that a pair is contextual in at least one of the two option orders: min(1, twice the smaller p).

    NaN where either is NaN: nothing is claimed of a pair of which one order was not seen.

    Source: Bonferroni; at or below alpha where one order is at or below alpha/2.

    Example:
        >>> either_order([0.01, 0.8], [0.5, 0.9]).tolist()
        [0.02, 1.0]
    """
    one, other = np.asarray(p_one_order, dtype=np.float64), np.asarray(p_other_order, dtype=np.float64)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(one, other)))


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """p values of all pairs, adjusted for the false discovery rate; NaN is left out of the count and stays NaN.

    Args:
        p_values: Any shape, 0 to 1; all are one family.

    Source: Benjamini, Hochberg 1995, Controlling the false discovery rate; `scipy.stats.false_discovery_control`.

    Example:
        >>> benjamini_hochberg([0.01, 0.04, float("nan"), 0.03]).round(6).tolist()
        [0.03, 0.04, nan, 0.04]
    """
    adjusted = np.array(p_values, dtype=np.float64)
    seen = ~np.isnan(adjusted)
    if seen.any():
        adjusted[seen] = false_discovery_control(adjusted[seen], method="bh")
    return adjusted


def sampled_delta_c(agreements: ArrayLike, draws: ArrayLike) -> NDArray[np.float64]:
    """dC of the relative frequencies, `steered` reading: the plain estimate, whose sign proves nothing by itself.

    The plain call is `sampled_delta_c(...) > 0`. Ties give exactly 0. Arguments and errors as in `agreement_test`; NaN
    where a cell has no valid draw.

    Example:
        >>> sampled_delta_c([3, 3, 1, 2], [4, 4, 4, 4]).tolist()
        0.5
    """
    k, n = _checked_counts(agreements, draws)
    if k.shape[-1:] != (4,):
        raise OptionError(f"agreements have shape {k.shape}: give [..., 4], in the order {', '.join(RATES)}.")
    return np.asarray(agreement_form(*np.moveaxis(_frequencies(k, n), -1, 0)))


def sampled_delta_c_joint(counts_o1: ArrayLike, counts_o2: ArrayLike) -> NDArray[np.float64]:
    """dC of the relative frequencies, `joint` reading; see `sampled_delta_c` and `joint_agreement_test`.

    Example:
        >>> sampled_delta_c_joint([[2, 0], [0, 2]], [[1, 1], [1, 1]]).tolist()
        1.0
    """
    tables = [_frequencies(*_with_draws(*x)) for x in (("counts_o1", counts_o1), ("counts_o2", counts_o2))]
    return np.asarray(agreement_form_joint(*tables))


def _frequencies(k: NDArray[np.int64], n: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(n > 0, k / np.where(n > 0, n, 1), np.nan)


def _with_draws(name: str, counts: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cells, and their table's sum beside each."""
    cells = np.asarray(counts)
    if cells.shape[-2:] != (2, 2):
        raise OptionError(f"{name} has shape {cells.shape}: give [..., 2, 2], sentence 1 by sentence 2.")
    return _checked_counts(cells, np.broadcast_to(cells.sum(axis=(-2, -1), keepdims=True), cells.shape))


def _checked_counts(successes: ArrayLike, draws: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(draws, dtype=np.float64))
    wrong = ~((k >= 0) & (k <= n) & (k == np.floor(k)) & (n == np.floor(n)) & np.isfinite(n))
    if wrong.any():
        raise OptionError(f"{k[wrong][0]:g} of {n[wrong][0]:g} draws: give whole counts, at most as many as draws.")
    return k.astype(np.int64), n.astype(np.int64)
