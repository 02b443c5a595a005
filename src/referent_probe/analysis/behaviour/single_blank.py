"""A pair as a system of contexts, from prompts with a single blank: dC, what stands beside it, and what has no dC."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from referent_probe.analysis.contextuality import Estimator, delta_c_parts
from referent_probe.analysis.joint_tables import log_odds_ratio_difference, qq_statistic, self_primed_joint
from referent_probe.errors import OptionError

FOR_COMPARISON = ("released", "printed")
"""Estimators that are no system of contexts, so that nothing but dC is said of them."""


def refuse_left_context(reading: str) -> None:
    """Refuses a reading that cannot tell the members of a pair apart.

    Raises:
        OptionError: The reading is "left_context".

    Example:
        >>> refuse_left_context("whole_sentence")
    """
    if reading == "left_context":
        raise OptionError(
            "reading 'left_context' says nothing about pairs: both members have the same text before the blank, so "
            "that their scores cannot differ; give 'choice' or 'whole_sentence'"
        )


def contextuality_of(
    probabilities: NDArray[np.float64],
    *,
    settings: Sequence[str] = ("cf", "cm"),
    estimator: Estimator = "self_primed",
    reading: str = "choice",
) -> dict[str, NDArray[np.float64]]:
    """dC of pairs from single-blank probabilities, with its parts and what stands beside it.

    Args:
        probabilities: `[..., 2, 3]`: sentence 1 and 2; p(f|c) unprimed, and in the two settings, in their order.
        settings: The feminine and the masculine prime: ("cf", "cm").
        estimator: As in `contextuality.delta_c`.
        reading: What was scored: "choice" or "whole_sentence".

    Returns:
        `delta_c`, `correlation_difference`, `signalling`, `u_minus_v`, `log_odds_ratio_difference` and `qq`, each
        `[...]`; the last three NaN for estimators that are `FOR_COMPARISON`.

    Raises:
        OptionError: A setting's prime has no pronoun, the reading is "left_context", or a value is no probability.

    Example:
        Sentence 1 is unbiased, sentence 2 masculine; each prime shifts both alike.

        >>> six = np.array([[0.5, 0.881, 0.119], [0.119, 0.5, 0.018]])
        >>> round(float(contextuality_of(six, estimator="steered")["delta_c"]), 2)
        -0.2
    """
    refuse_left_context(reading)
    if tuple(settings) != ("cf", "cm"):
        without = ", ".join(repr(name) for name in settings if name not in ("cf", "cm")) or repr(tuple(settings))
        raise OptionError(
            f"no dC for {without}: without a priming pronoun there is no second answer, so no system of contexts; "
            "give ('cf', 'cm'), and see shift and divergence of the others"
        )
    p, b_f, b_m = np.moveaxis(probabilities[..., 0, :], -1, 0)
    q, a_f, a_m = np.moveaxis(probabilities[..., 1, :], -1, 0)
    primed = (a_f, a_m, b_f, b_m)
    parts = delta_c_parts(p, q, *primed, estimator=estimator)
    columns: dict[str, Any] = {"correlation_difference": parts.correlation_difference, "signalling": parts.signalling}
    if estimator in FOR_COMPARISON:
        beside: dict[str, Any] = dict.fromkeys(
            ("u_minus_v", "log_odds_ratio_difference", "qq"), np.full(p.shape, np.nan)
        )
    else:
        first, second = (0.5, 0.5) if estimator == "steered" else (p, q)
        tables = self_primed_joint(first, second, *primed)
        beside = {
            "u_minus_v": (a_f - a_m) - (b_f - b_m),
            "log_odds_ratio_difference": log_odds_ratio_difference(*tables),
            "qq": qq_statistic(*tables),
        }
    return {name: np.asarray(x) for name, x in {"delta_c": parts.delta_c, **columns, **beside}.items()}
