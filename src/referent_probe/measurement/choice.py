"""Probabilities of the options, read from the next-token logits at the target slot."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax


@dataclass(frozen=True)
class Choice:
    """What the model answers, at temperature 1 and over the whole vocabulary.

    Attributes:
        log_odds: Feminine over masculine option, in logits (nats); any real number.
        p_feminine: Probability of the feminine option, 0 to 1.
        p_masculine: Probability of the masculine option, 0 to 1.
        p_they: Probability of the form of "they" in the same case, 0 to 1; None where it is not one token.
        p_other: What is left, 0 to 1: answers that are none of these.
    """

    log_odds: float
    p_feminine: float
    p_masculine: float
    p_they: float | None
    p_other: float


def next_token_choice(logits: ArrayLike, feminine: int, masculine: int, they: int | None = None) -> Choice:
    """Read a choice from one position's logits.

    Args:
        logits: [vocabulary], unwarped.
        feminine: Id of the feminine option's token.
        masculine: Id of the masculine option's token.
        they: Id of the token of "they" in this case, if it is one token.

    Source: arXiv 2603.23485, the probability of an answer; here from logits, without sampling.

    Example:
        >>> choice = next_token_choice([0.0, 0.0, 0.0, 0.0], feminine=0, masculine=1, they=2)
        >>> choice.log_odds, choice.p_feminine, choice.p_other
        (0.0, 0.25, 0.25)
    """
    log_p = log_softmax(np.asarray(logits, dtype=np.float64))
    p = np.exp(log_p)
    named = [feminine, masculine] + ([] if they is None else [they])
    return Choice(
        log_odds=float(log_p[feminine] - log_p[masculine]),
        p_feminine=float(p[feminine]),
        p_masculine=float(p[masculine]),
        p_they=None if they is None else float(p[they]),
        # Rounding may add up to a hair more than 1.
        p_other=min(1.0, float(np.delete(p, named).sum())),
    )
