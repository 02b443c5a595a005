"""Does the model's pronoun follow the stereotype: rank correlation of a role's rating and p(feminine).

Templates share roles (WinoPron: 279 rated templates, 61 roles, as informative as 27 roles with equally many templates),
and all templates of a role share its rating. So roles are resampled for the intervals, and ratings are shuffled over
roles for the p values; treating templates as independent rejects a true null far too often.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from referent_probe.analysis.inference import Interval
from referent_probe.analysis.resampling import resampled_intervals, shuffled_over_roles

Alignment = Literal["antecedent", "partner"]
"""Whose rating a template gets: that of the noun its pronoun stands for, or that of the other noun, which is the one
that the partner template's pronoun stands for. The second is wrong, and published."""

_CHUNK = 2_000_000  # float64 numbers held at a time: 16 MB


@dataclass(frozen=True)
class StereotypeCorrelation:
    """Spearman correlation of rating and p(feminine) in one context setting.

    Attributes:
        setting: Context setting.
        rho: Over templates, -1 to 1, with its interval over resampled roles; n counts roles.
        p_value: Two-sided, of no relation, by shuffling ratings over roles with equally many templates.
        difference: rho of the reference setting minus this one's, from the same resamples; None for the reference.
        n_templates: Templates counted, the same in every setting.
        effective_roles: Roles, weighed by their templates: (sum of n)² / sum of n², at most the number of roles.
        n_unrated: Templates left out because their role has no rating.
        n_without_probability: Rated templates left out because a setting has no finite probability.
    """

    setting: str
    rho: Interval
    p_value: float
    difference: Interval | None
    n_templates: int
    effective_roles: float
    n_unrated: int
    n_without_probability: int


def stereotype_correlations(
    p_feminine: Mapping[str, ArrayLike],
    antecedents: Sequence[str],
    others: Sequence[str],
    ratings: Mapping[str, float],
    *,
    alignment: Alignment = "antecedent",
    reference: str = "c0",
    n_resamples: int = 2000,
    n_permutations: int = 9999,
    seed: int,
) -> dict[str, StereotypeCorrelation]:
    """Spearman of rating and p(feminine) per context setting, and the difference to the reference setting.

    A template counts in all settings or in none, so that differences compare like with like.

    Args:
        p_feminine: Setting to `[n_templates]`, 0 to 1; nan where there is none.
        antecedents: `[n_templates]`, the noun that the blank stands for.
        others: `[n_templates]`, the noun that it does not stand for.
        ratings: Role to femininity, 0 to 1, higher for more women; roles that it lacks are left out.
        alignment: "antecedent", or "partner" for the released analysis' reading.
        reference: Setting that the others are compared with; where it is missing there are no differences.
        n_resamples: Bootstrap samples of the roles.
        n_permutations: Shuffles of the ratings over the roles.
        seed: Same seed, same intervals and p values.

    Returns:
        One result per setting, in the order given. rho is nan where p or the ratings do not vary.

    Raises:
        ValueError: Lengths differ.

    Source: Spearman 1904; the roles as unit after Efron and Tibshirani 1993, An introduction to the bootstrap, 8.

    Example:
        >>> found = stereotype_correlations({"c0": [0.9, 0.6, 0.2], "cf": [0.9, 0.2, 0.6]}, ["nurse", "child", "cook"],
        ...     ["guest"] * 3, {"nurse": 0.74, "child": 0.51, "cook": 0.4}, seed=0, n_resamples=99, n_permutations=99)
        >>> round(found["c0"].rho.mean, 3), round(found["cf"].rho.mean, 3), found["c0"].n_templates
        (1.0, 0.5, 3)
    """
    settings, nouns = list(p_feminine), antecedents if alignment == "antecedent" else others
    p = np.array([np.asarray(values, dtype=np.float64) for values in p_feminine.values()])
    if p.ndim != 2 or not p.shape[1] == len(antecedents) == len(others):
        raise ValueError(f"probabilities have shape {p.shape} but there are {len(nouns)} templates: give one to each.")
    rated = np.array([noun in ratings for noun in nouns], dtype=bool)
    used = rated & np.isfinite(p).all(axis=0)
    codes, roles = pd.factorize(np.asarray(nouns, dtype=object)[used], sort=True)
    of_role, p = np.array([ratings[role] for role in roles], dtype=np.float64), p[:, used]
    compared = settings.index(reference) if reference in settings else None

    def statistics(drawn: NDArray[np.int_]) -> NDArray[np.float64]:
        rho = _spearman(of_role[codes], p, drawn[:, codes])
        return rho if compared is None else np.concatenate([rho, rho[[compared]] - rho])

    intervals = resampled_intervals(
        statistics, len(roles), n_resamples=n_resamples, seed=seed, unit="rho", n_of="roles"
    )
    p_values = _permutation_p(of_role, codes, p, n_permutations, seed)
    sizes = np.bincount(codes) if len(codes) else np.zeros(1)
    effective = float(sizes.sum() ** 2 / max(1, np.square(sizes).sum()))
    return {
        setting: StereotypeCorrelation(
            setting,
            intervals[i],
            float(p_values[i]),
            None if compared in (None, i) else intervals[len(settings) + i],
            int(used.sum()),
            effective,
            int((~rated).sum()),
            int((rated & ~used).sum()),
        )
        for i, setting in enumerate(settings)
    }


def _spearman(x: NDArray[np.float64], y: NDArray[np.float64], times: NDArray[np.int_]) -> NDArray[np.float64]:
    """Spearman of rows that occur `times` `[n_draws, n]` each: x `[n]`, y `[n_y, n]`, to `[n_y, n_draws]`."""
    if not len(x):
        return np.full((len(y), len(times)), math.nan)
    of_x = _standardised_ranks(x, times)
    with np.errstate(invalid="ignore"):
        return np.array([(times * of_x * _standardised_ranks(values, times)).sum(axis=1) for values in y])


def _standardised_ranks(values: NDArray[np.float64], times: NDArray[np.int_]) -> NDArray[np.float64]:
    """Mid-ranks among rows that occur `times` each, mean 0 and sum of squares 1 over the draws; nan if all tie."""
    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    in_tie = np.add.reduceat(times[:, order], starts, axis=1)
    rank = np.cumsum(in_tie, axis=1) - (in_tie - 1) / 2
    centred = rank - (times.sum(axis=1, keepdims=True) + 1) / 2
    scale = np.sqrt((in_tie * np.square(centred)).sum(axis=1, keepdims=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((centred / scale)[:, place])


def _permutation_p(
    of_role: NDArray[np.float64], codes: NDArray[np.int_], p: NDArray[np.float64], n_permutations: int, seed: int
) -> NDArray[np.float64]:
    """Two-sided p values, `[n_settings]`; nan where rho is."""
    if not len(codes):
        return np.full(len(p), math.nan)
    once = np.ones((1, len(codes)), dtype=int)
    of_p = np.array([_standardised_ranks(values, once)[0] for values in p])
    observed = np.abs(_spearman(of_role[codes], p, once)[:, 0])
    count, step = np.zeros(len(p)), max(1, _CHUNK // len(codes))
    orders = shuffled_over_roles(of_role, np.bincount(codes, minlength=len(of_role)), n_permutations, seed)
    for block in (orders[i : i + step] for i in range(0, n_permutations, step)):
        ranks = rankdata(block[:, codes], axis=1)
        ranks -= ranks.mean(axis=1, keepdims=True)
        norms = np.sqrt(np.square(ranks).sum(axis=1))
        rho = of_p @ (ranks / np.where(norms > 0, norms, 1.0)[:, None]).T
        count += (np.abs(rho) >= observed[:, None] - 1e-9).sum(axis=1)
    return np.where(np.isnan(observed), math.nan, (1 + count) / (1 + n_permutations))
