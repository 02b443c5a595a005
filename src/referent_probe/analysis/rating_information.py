"""What the answer says about the rating of the role that the pronoun stands for: mutual information, in bits.

The rating takes as many values as there are roles, and any such factor would seem informative, so ratings are put into
bins of equal count, and their information is set against that of ratings shuffled over roles.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from referent_probe.analysis.inference import Interval
from referent_probe.analysis.information import bits_of_sums, pooled_bits, rows_with_probability
from referent_probe.analysis.resampling import shuffled_over_roles
from referent_probe.errors import OptionError


@dataclass(frozen=True)
class RatingInformation:
    """Mutual information of answer and binned rating, beside what shuffled ratings give.

    Attributes:
        observed: In bits, with its interval over occupations, the bins held fixed; n counts occupations.
        shuffled: Mean over the shuffles, in bits.
        difference: Observed minus `shuffled`, in bits, below 0 where shuffled ratings say more; `shuffled` held fixed.
        p_value: One-sided, that the rating says no more than a shuffled one.
        bin_sizes: Templates in each bin; ties are not split, so these need not be equal.
        n_templates: Templates counted.
        n_roles: Roles among these.
        n_unrated: Templates left out because their role has no rating.
        n_left_out: Rated templates left out because they have no finite probability.
    """

    observed: Interval
    shuffled: float
    difference: Interval
    p_value: float
    bin_sizes: tuple[int, ...]
    n_templates: int
    n_roles: int
    n_unrated: int
    n_left_out: int


def rating_information_bits(
    p_feminine: ArrayLike,
    roles: Sequence[str],
    ratings: Mapping[str, float],
    clusters: Sequence[str | int],
    *,
    bins: int = 3,
    n_shuffles: int = 2000,
    n_resamples: int = 2000,
    seed: int,
    n_of: str = "occupations",
) -> RatingInformation:
    """I(X; rating) with the rating in equal-count bins of templates, minus what ratings shuffled over roles give.

    Args:
        p_feminine: `[n_templates]`, 0 to 1; nan where there is none.
        roles: `[n_templates]`, the noun that the pronoun stands for.
        ratings: Role to femininity, 0 to 1; templates of other roles are left out.
        clusters: `[n_templates]`, the occupation.
        bins: Number of bins, at least 2.
        n_shuffles: Shuffles of the ratings over the roles, each binned anew.
        n_resamples: As in `information_bits`, and so are `seed` and `n_of`.

    Raises:
        OptionError: Fewer than 2 bins, or a probability is below 0 or above 1.
        ValueError: Lengths differ.

    Example:
        Four roles of two templates; two in three shuffles tear the bins apart.

        >>> roles, p = ["cook", "cook", "smith", "smith", "nurse", "nurse", "nanny", "nanny"], [0.0] * 4 + [1.0] * 4
        >>> scale = {"cook": 0.4, "smith": 0.1, "nurse": 0.7, "nanny": 0.9}
        >>> found = rating_information_bits(p, roles, scale, roles, bins=2, seed=0)
        >>> found.observed.mean, round(found.shuffled, 1), found.bin_sizes
        (1.0, 0.3, (4, 4))
    """
    if bins < 2:
        raise OptionError(f"cannot put ratings into {bins} bins: give a number from 2")
    rated = np.array([role in ratings for role in roles], dtype=bool)
    given = rows_with_probability(p_feminine, clusters, rated, role=roles)
    codes, names = pd.factorize(given["role"], sort=True)
    of_role, p = np.array([ratings[name] for name in names], dtype=np.float64), given["p"].to_numpy()
    binned = equal_count_bins(of_role[codes][None], bins)
    observed = pooled_bits(given.assign(factor=binned[0]), n_resamples, seed, n_of)
    orders = shuffled_over_roles(of_role, np.bincount(codes), n_shuffles, seed)
    shuffled = _binned_information(equal_count_bins(orders[:, codes], bins), p, bins)
    baseline, n_rated = float(shuffled.mean()), int(rated.sum())
    ends = {end: getattr(observed, end) - baseline for end in ("mean", "low", "high")}
    as_large = int((shuffled >= observed.mean - 1e-12).sum())
    return RatingInformation(
        observed,
        baseline,
        replace(observed, **ends),
        (1 + as_large) / (1 + n_shuffles) if len(given) else math.nan,
        tuple(np.bincount(binned[0], minlength=bins).tolist()),
        len(given),
        len(names),
        len(rated) - n_rated,
        n_rated - len(given),
    )


def equal_count_bins(values: NDArray[np.float64], bins: int) -> NDArray[np.int_]:
    """Each row's values in bins of equal count, 0 to bins - 1, as `pandas.qcut` cuts them; ties stay together.

    Example:
        >>> equal_count_bins(np.array([[0.1, 0.9, 0.5, 0.2]]), 2).tolist()
        [[0, 1, 1, 0]]
    """
    if not values.shape[1]:
        return np.zeros(values.shape, dtype=int)
    edges = np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1], axis=1)
    return np.asarray((values > edges[:, :, None]).sum(axis=0))


def _binned_information(binned: NDArray[np.int_], p: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Information for every row of bins, `[n, n_templates]`."""
    members = [binned == value for value in range(bins)]
    size = np.stack([inside.sum(axis=1) for inside in members], axis=1)
    return bits_of_sums(size.astype(float), np.stack([inside @ p for inside in members], axis=1))
