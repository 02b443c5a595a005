"""dC as agreement: the closed forms that say what a positive degree of contextuality means.

Both equal their definitions in `contextuality` for every input, and both are exactly 0 where the rates are equal, which
the definitions are only up to rounding: counts are full of ties, so sampled data go this way.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from referent_probe.analysis.joint_tables import checked_joint, checked_probabilities, scalar_or_array


def agreement_form(c2_f: ArrayLike, c2_m: ArrayLike, c1_f: ArrayLike, c1_m: ArrayLike) -> float | NDArray[np.float64]:
    """dC of `steered` by the rates at which each sentence agrees with its prime: the same number, told plainly.

    2 max(min(c2_f, c2_m) - max(c1_f, c1_m), min(c1_f, c1_m) - max(c2_f, c2_m)). It is positive where one sentence
    agrees with its prime more than the other does, whatever the two primes' genders. Equal rates give exactly 0.

    Args:
        c2_f: P(sentence 2 agrees with its prime | the prime is feminine) = a_f; 0 to 1. Arrays broadcast.
        c2_m: The same, masculine prime: 1 - a_m.
        c1_f: The same of sentence 1, feminine prime: b_f.
        c1_m: The same of sentence 1, masculine prime: 1 - b_m.

    Raises:
        OptionError: A value lies outside 0..1.

    Example:
        >>> agreement_form(0.75, 1.0, 0.5, 0.25)  # sentence 2 agrees at least 0.25 more often
        0.5
    """
    names = ("c2_f", "c2_m", "c1_f", "c1_m")
    two_f, two_m, one_f, one_m = (
        checked_probabilities(*pair) for pair in zip(names, (c2_f, c2_m, c1_f, c1_m), strict=True)
    )
    second_more = np.minimum(two_f, two_m) - np.maximum(one_f, one_m)
    first_more = np.minimum(one_f, one_m) - np.maximum(two_f, two_m)
    return scalar_or_array(np.asarray(2 * np.maximum(second_more, first_more)))


def agreement_form_joint(joint_o1: ArrayLike, joint_o2: ArrayLike) -> float | NDArray[np.float64]:
    """dC of `joint` and `self_primed` by cells: the same number as `delta_c_joint`, told plainly.

    With D = P_o1 - P_o2: 4 max(min(Dff, Dmm, -Dfm, -Dmf), min(-Dff, -Dmm, Dfm, Dmf)). It is positive where both
    agreeing cells gain and both disagreeing cells lose from one order to the other. Equal tables give exactly 0.

    Raises:
        OptionError: A table is negative, its sum is off 1 by over 1e-6, or it is not 2 x 2.

    Example:
        >>> agreement_form_joint([[0.5, 0.0], [0.0, 0.5]], [[0.25, 0.25], [0.25, 0.25]])
        1.0
    """
    difference = checked_joint("joint_o1", joint_o1) - checked_joint("joint_o2", joint_o2)
    gains = difference * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return scalar_or_array(np.asarray(4 * np.maximum(gains.min(axis=(-2, -1)), -gains.max(axis=(-2, -1)))))
