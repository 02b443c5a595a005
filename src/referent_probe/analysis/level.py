"""How often the rule calls a head a carrier where there is nothing to find, on the effects of a run itself.

A null model made from numbers that somebody thought up may be kinder than the data. Here the null is the run's own
effects, with their heavy tails and their dependence between heads, and the sign of everything that one occupation
shows turned at random, as if feminine and masculine had been mixed up between occupations.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from referent_probe.analysis.carriers import CarrierRule, called_carriers, occupation_effects, smallest_effect
from referent_probe.randomness import generator


@dataclass(frozen=True)
class FalseCarrierRate:
    """In how many draws of the null any head was called a carrier.

    Attributes:
        draws: Draws of the null.
        false: Draws in which any head was called a carrier in any direction.
        share: false / draws, 0 to 1.
        p_value: One-sided binomial test that the rate is above the rule's level: small where it is.
        n_occupations: Occupations; under six nothing can be called and the share says nothing.

    Example:
        >>> FalseCarrierRate(500, 20, 0.04, 0.87, 24).share
        0.04
    """

    draws: int
    false: int
    share: float
    p_value: float
    n_occupations: int


def false_carrier_rate(
    heads: pd.DataFrame, contrasts: pd.DataFrame, rule: CarrierRule, seed: int, draws: int = 500
) -> FalseCarrierRate:
    """Call carriers in many draws of a null in which the sign of all of an occupation's effects is random.

    An occupation's effects of all heads in both directions, and its total effects, keep or change their sign together.
    Heads that do carry something make the null wider, not false: turned at random their mean is zero too. The smallest
    effect of interest stays what it is, for it knows no sign. The share is at most the level, but for the luck of the
    draws, and below it where occupations are few (the p values of n occupations are multiples of 2 / 2^n) or where
    significant effects are smaller than the smallest of interest.

    Relabelling cf as cm would do a little more than turn signs: denoising would become minus noising. Where the two
    differ their means would not be zero under random relabelling, so that is no null for single directions.

    Args:
        heads: Table "heads".
        contrasts: Table "contrasts".
        rule: What a carrier is.
        seed: Of the draws, and of the sign flips of every draw's own test.
        draws: How many, at least 1.

    Source: Westfall and Young 1993, Resampling-based multiple testing; Eklund, Nichols and Knutsson 2016, Cluster
    failure (rates of false claims on the data themselves).

    Example:
        >>> false_carrier_rate(heads, contrasts, CarrierRule(), seed=0).p_value > 0.01  # doctest: +SKIP
        True
    """
    effects = occupation_effects(heads).to_numpy(dtype=np.float64)
    smallest = smallest_effect(contrasts, rule)
    rng = generator(seed, "false carriers")
    signs = rng.choice(np.array([-1.0, 1.0]), size=(draws, len(effects), 1))
    seeds = rng.integers(2**32, size=draws).tolist()
    called = [called_carriers(s * effects, smallest, rule, own)[1] for s, own in zip(signs, seeds, strict=True)]
    false = int(np.any(called, axis=1).sum())
    p_value = float(binomtest(false, draws, rule.level, alternative="greater").pvalue)
    return FalseCarrierRate(draws, false, false / draws, p_value, len(effects))
