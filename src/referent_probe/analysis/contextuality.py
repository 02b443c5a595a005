"""Contextuality by Default: does what a sentence answers depend on its context beyond its own shift?

A pair is a cyclic system of rank 2: contents X1 and X2, the answers to sentences 1 and 2 (+1 feminine, -1 masculine),
in contexts o1 (sentence 1 first) and o2 (sentence 2 first). Its degree of contextuality is

    dC = |<X1X2>_o1 - <X1X2>_o2| - |<X1>_o1 - <X1>_o2| - |<X2>_o1 - <X2>_o2|

and the pair is contextual where dC > 0. dC > 0 excludes copying (or contrast) of *equal strength* on both sentences, as
a mixture or as an equal logit shift; copying of unequal strength is contextual.

Source: Dzhafarov, Zhang, Kujala 2015, Is there contextuality in behavioural and social systems?; Kujala, Dzhafarov,
Larsson 2015, Necessary and sufficient conditions for an extended noncontextuality in a broad class of quantum
mechanical systems.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from referent_probe.analysis.joint_tables import IDENTITY_TOLERANCE as IDENTITY_TOLERANCE
from referent_probe.analysis.joint_tables import (
    checked_joint,
    checked_probabilities,
    scalar_or_array,
    self_primed_joint,
)
from referent_probe.errors import OptionError

Estimator = Literal["self_primed", "steered", "released", "printed"]
"""Readings of dC on single-blank prompts: see `delta_c`."""

THRESHOLDS = (0.0, 0.01, 0.1)
"""Above which dC a pair is counted as contextual. 0.01 is primary: it is out of reach of float32 rounding."""


@dataclass(frozen=True)
class Parts:
    """What dC is made of.

    Attributes:
        correlation_difference: The first term, |<X1X2>_o1 - <X1X2>_o2|; 0 to 2. Float, or an array of any shape.
        signalling: How far the two marginals move between the contexts; at least 0. Of the same shape.

    Example:
        >>> Parts(correlation_difference=1.0, signalling=0.25).delta_c
        0.75
    """

    correlation_difference: float | NDArray[np.float64]
    signalling: float | NDArray[np.float64]

    @property
    def delta_c(self) -> float | NDArray[np.float64]:
        """First term minus signalling."""
        return self.correlation_difference - self.signalling


def delta_c(
    p: ArrayLike,
    q: ArrayLike,
    a_f: ArrayLike,
    a_m: ArrayLike,
    b_f: ArrayLike,
    b_m: ArrayLike,
    *,
    estimator: Estimator = "self_primed",
    coin: ArrayLike = 0.5,
) -> float | NDArray[np.float64]:
    """dC of a pair from six single-blank probabilities; contextual where above 0, or above a threshold.

    With u = a_f - a_m, v = b_f - b_m, w2 = a_f + a_m - 1, w1 = b_f + b_m - 1, the estimators are

    - `self_primed`: the first blank is answered unprimed, its answer primes the second. The system of the `joint`
      reading (`delta_c_joint`), put together from single-blank prompts.
    - `steered`: a coin sets the prime; |u - v| - |w2| - |w1| for a fair one. The paper's procedure, done right. Its
      sign depends on the coin, and its signalling is the model's bias.
    - `released`: |u - v + w2| - |w2| - |w1|, by the released code, whose correlation in o1 takes the prime's marginal
      of o2 in place of the target's. For comparison: it can be positive under equal logit shifts on both sentences.
    - `printed`: the marginals of `self_primed`, and their products in place of the correlations. For comparison: it is
      never positive, as |x1x2 - y1y2| <= |x1 - y1| + |x2 - y2| for numbers in -1..1.

    Args:
        p: P(feminine) of sentence 1, unprimed; 0 to 1, as all others. Arrays broadcast; NaN passes through.
        q: P(feminine) of sentence 2, unprimed. p and q are without influence on `steered` and `released`.
        a_f: P(feminine) of sentence 2, primed by sentence 1 with its feminine pronoun.
        a_m: The same, masculine pronoun.
        b_f: P(feminine) of sentence 1, primed by sentence 2 with its feminine pronoun.
        b_m: The same, masculine pronoun.
        estimator: One of the four above.
        coin: P(feminine) of the prime, for `steered` alone.

    Returns:
        dC, at most 2; a float where all six are scalars, else an array of their common shape.

    Raises:
        OptionError: A value lies outside 0..1, or the estimator is unknown.

    Example:
        Sentence 1 is unbiased, sentence 2 masculine at logit -2, and each prime shifts both alike by 2 logits.

        >>> six = 0.5, 0.119, 0.5, 0.018, 0.881, 0.119
        >>> [round(delta_c(*six, estimator=e), 2) for e in ("steered", "self_primed", "released")]
        [-0.2, -0.58, 0.28]
    """
    return delta_c_parts(p, q, a_f, a_m, b_f, b_m, estimator=estimator, coin=coin).delta_c


def delta_c_parts(
    p: ArrayLike,
    q: ArrayLike,
    a_f: ArrayLike,
    a_m: ArrayLike,
    b_f: ArrayLike,
    b_m: ArrayLike,
    *,
    estimator: Estimator = "self_primed",
    coin: ArrayLike = 0.5,
) -> Parts:
    """First term and signalling of `delta_c`, which see for arguments and errors.

    Example:
        >>> parts = delta_c_parts(0.5, 0.5, 1.0, 0.0, 0.5, 0.5, estimator="steered")
        >>> parts.correlation_difference, parts.signalling
        (1.0, 0.0)
    """
    if estimator not in get_args(Estimator):
        raise OptionError(f"estimator is {estimator!r}: give one of {', '.join(get_args(Estimator))}.")
    if estimator in ("steered", "released"):
        fair = checked_probabilities("coin", coin if estimator == "steered" else 0.5)
        # NaN in p or q is no matter here, but a value out of range and their shapes are.
        p, q = (fair + 0 * np.nan_to_num(checked_probabilities(*pair)) for pair in (("p", p), ("q", q)))
    o1, o2 = self_primed_joint(p, q, a_f, a_m, b_f, b_m)
    if estimator == "released":
        af, bf, bm = (np.asarray(x, dtype=np.float64) for x in (a_f, b_f, b_m))
        return _parts((2 * af - 1) - (bf - bm), _marginal_differences(o1, o2))  # u + w2 = 2 a_f - 1
    differences = _marginal_differences(o1, o2)
    if estimator == "printed":
        products = [_expectation(joint, -1) * _expectation(joint, -2) for joint in (o1, o2)]
        return _parts(products[0] - products[1], differences)
    return _parts(_correlation(o1) - _correlation(o2), differences)


def delta_c_joint(joint_o1: ArrayLike, joint_o2: ArrayLike) -> float | NDArray[np.float64]:
    """dC of a pair whose two blanks are answered in one go: the primary reading.

    Args:
        joint_o1: `[..., 2, 2]`, P(sentence 1 feminine/masculine, sentence 2 feminine/masculine), sentence 1 first.
        joint_o2: The same table, indexed the same way, where sentence 2 comes first.

    Returns:
        dC, -4 to 2; a float for two single tables, else an array of their common shape. NaN passes through.

    Raises:
        OptionError: A table is negative, its sum is off 1 by over 1e-6, or it is not 2 x 2.

    Example:
        The answers always agree in one order and never in the other, and no marginal moves.

        >>> delta_c_joint([[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]])
        2.0
    """
    return delta_c_joint_parts(joint_o1, joint_o2).delta_c


def delta_c_joint_parts(joint_o1: ArrayLike, joint_o2: ArrayLike) -> Parts:
    """First term (twice the size of `joint_tables.qq_statistic`) and signalling of `delta_c_joint`, which see.

    Example:
        >>> delta_c_joint_parts([[1.0, 0.0], [0.0, 0.0]], [[0.5, 0.0], [0.0, 0.5]])
        Parts(correlation_difference=0.0, signalling=2.0)
    """
    o1, o2 = checked_joint("joint_o1", joint_o1), checked_joint("joint_o2", joint_o2)
    return _parts(_correlation(o1) - _correlation(o2), _marginal_differences(o1, o2))


def cyclic_delta_c(correlations: ArrayLike, marginals: ArrayLike) -> float | NDArray[np.float64]:
    """dC of a cyclic system of any rank n: s_odd(correlations) - (n - 2) - sum of the marginal differences.

    Context i holds contents i and i + 1, the last one contents n and 1. s_odd is the largest sum of the correlations
    under signs of which an odd number is minus: the sum of their sizes, less twice the smallest size where an even
    number of them is negative.

    Args:
        correlations: `[..., n]`, expectation of the product of the two contents of every context, in cyclic order.
        marginals: `[..., n, 2]`, for every content its expectations in its two contexts, contents and contexts in any
            order. Both -1 to 1; NaN passes through.

    Returns:
        dC, at most 2; a float for one system.

    Raises:
        OptionError: A value lies outside -1..1, n is under 2, or the shapes do not fit.

    Source: Kujala, Dzhafarov, Larsson 2015, equation for cyclic systems.

    Example:
        A Popescu-Rohrlich box, rank 4: the most that any system can reach.

        >>> cyclic_delta_c([1, 1, 1, -1], [[0, 0], [0, 0], [0, 0], [0, 0]])
        2.0
    """
    products = _checked_expectations("correlations", correlations)
    expectations = _checked_expectations("marginals", marginals)
    n = products.shape[-1] if products.ndim else 0
    if n < 2 or expectations.shape[-2:] != (n, 2):
        shapes = f"correlations have shape {products.shape}, marginals {expectations.shape}"
        raise OptionError(f"{shapes}: give [..., n] and [..., n, 2] with n of 2 or more.")
    sizes = np.abs(products)
    even = np.count_nonzero(products < 0, axis=-1) % 2 == 0
    s_odd = sizes.sum(axis=-1) - np.where(even, 2 * sizes.min(axis=-1), 0.0)
    signalling = np.abs(expectations[..., 0] - expectations[..., 1]).sum(axis=-1)
    return scalar_or_array(np.asarray(s_odd - (n - 2) - signalling))


def _parts(correlation_difference: NDArray[np.float64], signalling: NDArray[np.float64]) -> Parts:
    first, second = np.broadcast_arrays(np.abs(correlation_difference), signalling)
    return Parts(scalar_or_array(first), scalar_or_array(second))


def _correlation(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """<X1X2>: P(agree) - P(disagree)."""
    agree, disagree = joint[..., 0, 0] + joint[..., 1, 1], joint[..., 0, 1] + joint[..., 1, 0]
    return np.asarray(agree - disagree)


def _expectation(joint: NDArray[np.float64], other_axis: int) -> NDArray[np.float64]:
    """P(feminine) - P(masculine) of one sentence, summed over the axis of the other."""
    marginal = joint.sum(axis=other_axis)
    return np.asarray(marginal[..., 0] - marginal[..., 1])


def _marginal_differences(o1: NDArray[np.float64], o2: NDArray[np.float64]) -> NDArray[np.float64]:
    moved = [np.abs(_expectation(o1, axis) - _expectation(o2, axis)) for axis in (-1, -2)]
    return np.asarray(moved[0] + moved[1])


def _checked_expectations(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    outside = array[np.abs(array) > 1 + IDENTITY_TOLERANCE]
    if outside.size:
        raise OptionError(f"{name} holds {outside[0]:g}: give expectations of +1 and -1, from -1 to 1.")
    return array
