"""What the answer says about the prompt: mutual information of the pronoun and a factor, in bits.

The answer X is feminine or masculine, with exact probabilities, so nothing is estimated from draws; a yes-no answer
carries at most one bit. The information about a template bounds that about anything a template fixes (its role type,
case, rating; for the last see `rating_information`). Intervals resample occupations; as information is never below 0,
one that ends just above 0 does not show that there is any.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr
from sklearn.metrics import mutual_info_score

from referent_probe.analysis.inference import Interval
from referent_probe.analysis.resampling import resampled_intervals
from referent_probe.errors import OptionError


@dataclass(frozen=True)
class Information:
    """Mutual information of answer and factor.

    Attributes:
        bits: 0 to 1 bit; n counts occupations.
        n_rows: Rows counted (a template in one setting and one option order).
        n_left_out: Rows left out because they have no finite probability, or no valid draw.
        n_values: Values that the factor takes.
    """

    bits: Interval
    n_rows: int
    n_left_out: int
    n_values: int


def binary_entropy_bits(p: ArrayLike) -> NDArray[np.float64]:
    """Entropy of a yes-no answer with probability p, 0 to 1 bit; nan where p is.

    Example:
        >>> binary_entropy_bits([0.0, 0.5, 1.0]).tolist()
        [0.0, 1.0, 0.0]
    """
    p = np.asarray(p, dtype=np.float64)
    return np.asarray((entr(p) + entr(1 - p)) / math.log(2))


def information_bits(
    p_feminine: ArrayLike,
    factor: Sequence[Hashable],
    clusters: Sequence[str | int],
    *,
    n_resamples: int = 2000,
    seed: int,
    n_of: str = "occupations",
) -> Information:
    """Pooled I(X; F) = H(mean p) - sum over values f of w_f H(mean p in f), with w_f the share of rows.

    With the template as factor this is the ceiling for whatever a template fixes.

    Args:
        p_feminine: `[n_rows]`, 0 to 1; nan where there is none.
        factor: `[n_rows]`, the value of priming pronoun, role type (antecedent), case, option order or template.
        clusters: `[n_rows]`, the occupation.
        n_resamples: Bootstrap samples of the clusters.
        seed: Same seed, same interval.
        n_of: What a cluster is, in the plural.

    Raises:
        OptionError: A probability is below 0 or above 1.
        ValueError: Lengths differ.

    Source: Cover and Thomas 2006, Elements of information theory, 2.4.

    Example:
        The answer tells the priming pronoun outright; the case not at all.

        >>> p, occupation = [1.0, 0.0, 1.0, 0.0], ["cook", "cook", "nurse", "nurse"]
        >>> information_bits(p, ["she", "he", "she", "he"], occupation, seed=0).bits.mean
        1.0
        >>> information_bits(p, ["nominative"] * 2 + ["accusative"] * 2, occupation, seed=0).bits.mean
        0.0
    """
    rows = rows_with_probability(p_feminine, clusters, factor=factor)
    bits = pooled_bits(rows, n_resamples, seed, n_of)
    return Information(bits, len(rows), len(clusters) - len(rows), rows["factor"].nunique())


def conditional_information_bits(
    p_feminine: ArrayLike,
    factor: Sequence[Hashable],
    templates: Sequence[Hashable],
    clusters: Sequence[str | int],
    *,
    n_resamples: int = 2000,
    seed: int,
    n_of: str = "occupations",
) -> Information:
    """I(X; F | template): the information about a factor when the template is known, averaged over templates.

    For factors that vary within a template: priming pronoun, option order. I(X; template) + I(X; F | template) is the
    information about both. Effects of opposite sign in different templates do not cancel here, as they do pooled.

    Args:
        p_feminine: As in `information_bits`, and so is `factor`.
        templates: `[n_rows]`, the id of the template.
        clusters: `[n_rows]`, the occupation, one for all rows of a template.
        n_resamples: As in `information_bits`, and so are `seed` and `n_of`.

    Raises:
        OptionError: A probability is below 0 or above 1.
        ValueError: Lengths differ, or a template has two clusters.

    Source: Cover and Thomas 2006, Elements of information theory, 2.5.

    Example:
        One template follows the prime, the other opposes it.

        >>> p, prime, template = [1.0, 0.0, 0.0, 1.0], ["she", "he", "she", "he"], ["1a", "1a", "1b", "1b"]
        >>> conditional_information_bits(p, prime, template, ["cook"] * 4, seed=0).bits.mean
        1.0
        >>> information_bits(p, prime, ["cook"] * 4, seed=0).bits.mean
        0.0
    """
    rows = rows_with_probability(p_feminine, clusters, factor=factor, template=templates)
    by_template = rows.groupby("template", sort=True)
    if (by_template["cluster"].nunique() > 1).any():
        raise ValueError("a template has rows in two clusters: give each template the cluster of its occupation.")
    of_template = by_template["p"].agg(["mean", "size"])
    cells = rows.groupby(["template", "factor"], sort=True)["p"].agg(["mean", "size"])
    # Bits times rows: sums of these over any set of templates, over the sum of rows, give the set's information.
    within = (cells["size"] * binary_entropy_bits(cells["mean"])).groupby(level="template").sum()
    bits_rows = of_template["size"] * binary_entropy_bits(of_template["mean"]) - within
    sums = pd.DataFrame({"bits": bits_rows, "size": of_template["size"]}).groupby(by_template["cluster"].first()).sum()

    def statistic(times: NDArray[np.int_]) -> NDArray[np.float64]:
        bits, size = (times @ sums.to_numpy()).T
        with np.errstate(invalid="ignore"):
            return np.asarray(np.maximum(bits / size, 0.0))[None]

    (bits,) = resampled_intervals(statistic, len(sums), n_resamples=n_resamples, seed=seed, unit="bits", n_of=n_of)
    return Information(bits, len(rows), len(clusters) - len(rows), rows["factor"].nunique())


def sampled_information_bits(
    feminine: ArrayLike,
    masculine: ArrayLike,
    factor: Sequence[Hashable],
    clusters: Sequence[str | int],
    *,
    n_resamples: int = 2000,
    seed: int,
    n_of: str = "occupations",
) -> Information:
    """Pooled I(X; F) of draws instead of probabilities, by scikit-learn's plug-in estimator: biased upward.

    Args:
        feminine: `[n_rows]`, number of feminine answers drawn.
        masculine: `[n_rows]`, number of masculine answers drawn; rows without either are left out.
        factor: As in `information_bits`, and so are `clusters`, `n_resamples`, `seed` and `n_of`.

    Raises:
        ValueError: Lengths differ.

    Source: `sklearn.metrics.mutual_info_score`, in bits.

    Example:
        >>> found = sampled_information_bits([200, 0], [0, 200], ["she", "he"], ["cook", "cook"], seed=0)
        >>> round(found.bits.mean, 6)
        1.0
    """
    counts = np.array([feminine, masculine], dtype=np.float64)
    drawn = counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        rows = rows_with_probability(
            counts[0] / drawn, clusters, factor=factor, feminine=counts[0], masculine=counts[1]
        )
    tables = np.stack([_sums(rows, answer) for answer in ("feminine", "masculine")], axis=1)

    def statistic(times: NDArray[np.int_]) -> NDArray[np.float64]:
        if not tables.size:
            return np.full((1, len(times)), math.nan)
        contingencies = np.tensordot(times, tables, axes=1)
        nats = [mutual_info_score(None, None, contingency=table) for table in contingencies]
        return np.array(nats)[None] / math.log(2)

    (bits,) = resampled_intervals(statistic, len(tables), n_resamples=n_resamples, seed=seed, unit="bits", n_of=n_of)
    return Information(bits, len(rows), len(clusters) - len(rows), tables.shape[2])


def rows_with_probability(
    p: ArrayLike, clusters: Sequence[str | int], used: NDArray[np.bool_] | None = None, **columns: Sequence[Hashable]
) -> pd.DataFrame:
    """The used rows with a finite p; ValueError where lengths differ, OptionError where p is no probability."""
    found = np.asarray(p, dtype=np.float64)
    if (outside := found[(found < 0) | (found > 1)]).size:
        raise OptionError(f"p = {outside[0]!s} is no probability: give values from 0 to 1")
    for name, column in {"clusters": clusters, **columns}.items():
        if found.shape != (len(column),):
            raise ValueError(f"{len(column)} {name} for p of shape {found.shape}: give one to each.")
    rows = pd.DataFrame({"p": found, "cluster": list(clusters), **{name: list(x) for name, x in columns.items()}})
    return rows[np.isfinite(found) if used is None else np.isfinite(found) & used]


def pooled_bits(rows: pd.DataFrame, n_resamples: int, seed: int, n_of: str) -> Interval:
    """Pooled information, in bits, of rows with the columns p, cluster and factor; resampled by cluster."""
    size, feminine = _sums(rows.assign(one=1.0), "one"), _sums(rows, "p")

    def statistic(times: NDArray[np.int_]) -> NDArray[np.float64]:
        return bits_of_sums(times @ size, times @ feminine)[None]

    (bits,) = resampled_intervals(statistic, len(size), n_resamples=n_resamples, seed=seed, unit="bits", n_of=n_of)
    return bits


def _sums(rows: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """Sum of a column for every cluster and value of the factor, `[n_clusters, n_values]`."""
    return rows.groupby(["cluster", "factor"], sort=True)[column].sum().unstack(fill_value=0).to_numpy(dtype=float)


def bits_of_sums(size: NDArray[np.float64], feminine: NDArray[np.float64]) -> NDArray[np.float64]:
    """Information from the rows of each value and their sum of p, both `[n, n_values]`; nan without rows."""
    total = size.sum(axis=1)
    with np.errstate(invalid="ignore"):
        within = size * binary_entropy_bits(np.clip(feminine / np.where(size > 0, size, 1), 0, 1))
        bits = binary_entropy_bits(np.clip(feminine.sum(axis=1) / total, 0, 1)) - within.sum(axis=1) / total
    return np.asarray(np.maximum(bits, 0.0))
