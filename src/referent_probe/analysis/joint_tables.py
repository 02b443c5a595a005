"""Joint tables of the two blanks of a pair, in both sentence orders, and what is read off them beside dC.

A joint table is `[..., 2, 2]`: axis -2 is sentence 1, axis -1 sentence 2, index 0 feminine, index 1 masculine, in
either sentence order. o1 is the order in which sentence 1 comes first, o2 the one in which sentence 2 does.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from referent_probe.errors import OptionError

IDENTITY_TOLERANCE = 1e-9
"""How far two routes to the same float64 number may differ; too fine for calling a pair contextual."""

_SUM_TOLERANCE = 1e-6  # tables come from float32 logits


def checked_probabilities(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The values as float64, after a look whether all lie in 0..1; NaN passes.

    Raises:
        OptionError: A value lies outside 0..1 by more than `IDENTITY_TOLERANCE`, or is no number.

    Example:
        >>> checked_probabilities("p", [0, 0.5])
        array([0. , 0.5])
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise OptionError(f"{name} is {values!r}: give numbers from 0 to 1.") from e
    outside = array[(array < -IDENTITY_TOLERANCE) | (array > 1 + IDENTITY_TOLERANCE)]
    if outside.size:
        raise OptionError(f"{name} holds {outside[0]:g}: give probabilities, from 0 to 1.")
    return array


def checked_joint(name: str, joint: ArrayLike) -> NDArray[np.float64]:
    """A joint table, or an array of them, as float64; a table that holds NaN passes.

    Raises:
        OptionError: The last two axes are not 2 x 2, a cell lies outside 0..1, or a table's sum is off 1 by over 1e-6.

    Example:
        >>> checked_joint("joint", [[0.5, 0], [0, 0.5]]).shape
        (2, 2)
    """
    tables = checked_probabilities(name, joint)
    if tables.shape[-2:] != (2, 2):
        raise OptionError(f"{name} has shape {tables.shape}: give [..., 2, 2], sentence 1 by sentence 2.")
    sums = tables.sum(axis=(-2, -1))
    off = sums[np.abs(sums - 1) > _SUM_TOLERANCE]
    if off.size:
        raise OptionError(f"{name} holds a table that sums to {off[0]:g}: divide its cells by their sum.")
    return tables


def scalar_or_array(values: NDArray[np.float64]) -> float | NDArray[np.float64]:
    """A float for an array without axes, any other array as it is.

    Example:
        >>> scalar_or_array(np.array(0.5))
        0.5
    """
    return float(values) if values.ndim == 0 else values


def self_primed_joint(
    p: ArrayLike, q: ArrayLike, a_f: ArrayLike, a_m: ArrayLike, b_f: ArrayLike, b_m: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The joint tables that single-blank prompts imply: the first blank unprimed, the second primed by its answer.

    In o1, P(x1, x2) = P(x1 | c0) P(x2 | primed by x1); in o2 the same with the sentences swapped. With p = q = 1/2
    these are the tables of the `steered` reading, in which a fair coin sets the prime.

    Args:
        p: P(feminine) of sentence 1, unprimed; 0 to 1, as all others. Arrays broadcast.
        q: P(feminine) of sentence 2, unprimed.
        a_f: P(feminine) of sentence 2, primed by sentence 1 with its feminine pronoun.
        a_m: The same, masculine pronoun.
        b_f: P(feminine) of sentence 1, primed by sentence 2 with its feminine pronoun.
        b_m: The same, masculine pronoun.

    Returns:
        The tables in o1 and in o2, each `[..., 2, 2]`, indexed [sentence 1, sentence 2] in both.

    Raises:
        OptionError: A value lies outside 0..1.

    Example:
        Sentence 2 copies its prime, sentence 1 pays no heed to it.

        >>> o1, o2 = self_primed_joint(0.5, 0.5, 1, 0, 0.5, 0.5)
        >>> o1.tolist(), o2.tolist()
        ([[0.5, 0.0], [0.0, 0.5]], [[0.25, 0.25], [0.25, 0.25]])
    """
    names = ("p", "q", "a_f", "a_m", "b_f", "b_m")
    checked = [checked_probabilities(*pair) for pair in zip(names, (p, q, a_f, a_m, b_f, b_m), strict=True)]
    one, two, af, am, bf, bm = np.broadcast_arrays(*checked)
    o1 = [[one * af, one * (1 - af)], [(1 - one) * am, (1 - one) * (1 - am)]]
    o2 = [[two * bf, (1 - two) * bm], [two * (1 - bf), (1 - two) * (1 - bm)]]
    return _cells_last(o1), _cells_last(o2)


def qq_statistic(joint_o1: ArrayLike, joint_o2: ArrayLike) -> float | NDArray[np.float64]:
    """P(the two answers agree) in o1, minus the same in o2; -1 to 1.

    dC of the joint tables is twice its size minus the signalling. Quantum models of question order predict 0.

    Args:
        joint_o1: `[..., 2, 2]`, sentence 1 by sentence 2, where sentence 1 comes first.
        joint_o2: The same, where sentence 2 comes first.

    Raises:
        OptionError: A table is negative, does not sum to 1 or is not 2 x 2.

    Source: Wang, Solloway, Shiffrin, Busemeyer 2014, Context effects produced by question orders reveal quantum nature
    of human judgments.

    Example:
        >>> qq_statistic([[0.5, 0.0], [0.0, 0.5]], [[0.25, 0.25], [0.25, 0.25]])
        0.5
    """
    o1, o2 = checked_joint("joint_o1", joint_o1), checked_joint("joint_o2", joint_o2)
    return scalar_or_array(np.asarray(np.trace(o1, axis1=-2, axis2=-1) - np.trace(o2, axis1=-2, axis2=-1)))


def log_odds_ratio(joint: ArrayLike) -> float | NDArray[np.float64]:
    """ln of P(f,f) P(m,m) / (P(f,m) P(m,f)): how strongly the two answers go together, in logits.

    For `self_primed` tables it is the shift of the primed sentence's log-odds between the two primes. Positive: they
    agree; infinite where a cell is 0, NaN where that leaves it undefined.

    Raises:
        OptionError: A table is negative, does not sum to 1 or is not 2 x 2.

    Example:
        >>> round(log_odds_ratio([[0.4, 0.1], [0.1, 0.4]]), 4)  # ln 16
        2.7726
    """
    tables = checked_joint("joint", joint)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.maximum(tables, 0.0))
        ratio = logs[..., 0, 0] + logs[..., 1, 1] - logs[..., 0, 1] - logs[..., 1, 0]
    return scalar_or_array(np.asarray(ratio))


def log_odds_ratio_difference(joint_o1: ArrayLike, joint_o2: ArrayLike) -> float | NDArray[np.float64]:
    """`log_odds_ratio` in o1 minus that in o2, in logits: 0 for copying by an equal logit shift on both sentences.

    Raises:
        OptionError: A table is negative, does not sum to 1 or is not 2 x 2.

    Example:
        >>> log_odds_ratio_difference([[0.4, 0.1], [0.1, 0.4]], [[0.4, 0.1], [0.1, 0.4]])
        0.0
    """
    with np.errstate(invalid="ignore"):
        return scalar_or_array(np.asarray(log_odds_ratio(joint_o1)) - np.asarray(log_odds_ratio(joint_o2)))


def list_order_cycle(joints: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expectations of the rank-4 system whose contents are a sentence in its own option order.

    Both blanks are answered in one sentence order, under each of the four combinations of list orders. The contexts are
    cycled (0,0), (1,0), (1,1), (0,1), so that neighbours share one content.

    Args:
        joints: `[..., 2, 2, 2, 2]`: list order of sentence 1, list order of sentence 2, answer to sentence 1, answer to
            sentence 2.

    Returns:
        `correlations [..., 4]` and `marginals [..., 4, 2]`, as `contextuality.cyclic_delta_c` takes them; feminine is
        +1. The contents are sentence 1 in order 0, sentence 1 in order 1, sentence 2 in order 0, sentence 2 in order 1.

    Raises:
        OptionError: A table is negative, does not sum to 1, or the last four axes are not 2.

    Example:
        >>> correlations, marginals = list_order_cycle(np.full((2, 2, 2, 2), 0.25))
        >>> correlations.tolist(), marginals.shape
        ([0.0, 0.0, 0.0, 0.0], (4, 2))
    """
    tables = checked_joint("joints", joints)
    if tables.shape[-4:] != (2, 2, 2, 2):
        raise OptionError(f"joints has shape {tables.shape}: give [..., 2, 2, 2, 2], list orders before answers.")
    signs = np.array([1.0, -1.0])
    correlations = np.einsum("...st,s,t->...", tables, signs, signs)
    first = np.einsum("...st,s->...", tables, signs)  # by list order of sentence 1, then its two contexts
    second = np.swapaxes(np.einsum("...st,t->...", tables, signs), -1, -2)
    cycle = [correlations[..., i, j] for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))]
    return np.stack(cycle, axis=-1), np.concatenate([first, second], axis=-2)


def _cells_last(cells: list[list[NDArray[np.float64]]]) -> NDArray[np.float64]:
    return np.stack([np.stack(row, axis=-1) for row in cells], axis=-2)
