"""What the leading heads carry together, as a share of the total effect, beside the sum of their single effects.

Heads are ranked on one half of the occupations and patched together on the other half. Single effects do not add up:
heads act through one another, share what either would do alone (the sum is larger than the joint effect) or stand in
for one another (the sum is smaller).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from referent_probe.analysis.carriers import DIRECTIONS, occupation_effects, share_of_total
from referent_probe.analysis.inference import bootstrap_intervals, cluster_means
from referent_probe.randomness import generator

Head = tuple[int, int]
"""Layer and query head, from 0."""

_ESTIMATES = ("joint", "sum_of_singles", "joint_less_sum", "total")
_SHARES = ("share", "share_of_singles")
_NO_SHARE = "the 95 % interval of the mean total effect covers 0, or there is one occupation"


def ranking(
    heads: pd.DataFrame, direction: Literal["denoise", "noise", "both"], occupations: Sequence[str]
) -> list[Head]:
    """All heads, by the size of their mean effect over some occupations; the largest first, whatever its sign.

    Args:
        heads: Table "heads".
        direction: "denoise", "noise", or "both" for the mean of the two, (denoise + noise) / 2.
        occupations: Those that choose; the others do not enter.

    Returns:
        Layer and head; of equals the earlier layer, then the earlier head.

    Raises:
        KeyError: An occupation that the table lacks.

    Example:
        >>> table = pd.DataFrame({"contrast": "a", "occupation": "cook", "layer": [0, 0], "head": [0, 1],
        ...     "denoise": [0.1, -0.3], "noise": [0.3, -0.3]})
        >>> ranking(table, "both", ["cook"])
        [(0, 1), (0, 0)]
    """
    means = occupation_effects(heads).loc[list(occupations)].mean()
    wanted = DIRECTIONS if direction == "both" else (direction,)
    size = np.abs(np.mean([means[one].to_numpy() for one in wanted], axis=0))
    order = np.argsort(-size, kind="stable")
    names = means[wanted[0]].index.to_frame(index=False).iloc[order]
    return [(int(layer), int(head)) for layer, head in names.itertuples(index=False)]


def joint_shares(
    joint: pd.DataFrame, heads: pd.DataFrame, rankings: Mapping[int, Sequence[Head]], seed: int
) -> pd.DataFrame:
    """Joint effect of the k leading heads, its share of the total effect, and the sum of the single effects.

    All estimates are over the held-out occupations of the joint effects; a share is a ratio of two means over them.
    The ranking is taken as given: the intervals know nothing of how it would differ with other choosing occupations.

    Args:
        joint: One row a contrast, way and k: `contrast`, `occupation`, `way` (which ranking was used; the contrast's
            occupation had no part in it), `k` (heads patched together, from the top), `denoise`, `noise`,
            `total_effect` (logits).
        heads: Table "heads" of the same contrasts: single effects.
        rankings: Way to heads, the leading one first.
        seed: Of the bootstrap; the same resamples for every k.

    Returns:
        One row a way (as text; "both" pools all, every occupation with the heads that the other half chose), k and
        direction. In logits, each with `_low` and `_high` (95 % over occupations): `joint`; `sum_of_singles`, of the
        same heads on the same contrasts; `joint_less_sum`, below 0 where heads of positive effect share one; `total`.
        `share` and `share_of_singles`, of the total effect, with `_low` and `_high`; these may lie below 0 or above 1,
        and are nan, with the `reason`, where the total effect is not told from 0. `n` counts occupations.

    Raises:
        ValueError: A ranking is shorter than k, a contrast has no single effects, or an occupation is in two ways.

    Source: Wang et al. 2022, Interpretability in the wild (2211.00593), sections 3.4 and 4.

    Example:
        Two heads that both copy the prime where one suffices have single noising effects of 0 and a joint one of 1:
        `sum_of_singles` is 0, `joint` is 1.
    """
    if (joint.groupby("occupation")["way"].nunique() > 1).any():
        raise ValueError("an occupation has joint effects in two ways: it is held out in one alone.")
    rows = _with_sums(joint, heads, rankings)
    ways = [(str(way), part) for way, part in rows.groupby("way")]
    if len(ways) > 1:
        ways.append(("both", rows))
    return pd.DataFrame(
        [
            {"way": way, "k": int(k), "direction": direction, **_estimates(part[part["k"] == k], direction, seed)}
            for way, part in ways
            for k in sorted(part["k"].unique())
            for direction in DIRECTIONS
        ]
    )


def _with_sums(joint: pd.DataFrame, heads: pd.DataFrame, rankings: Mapping[int, Sequence[Head]]) -> pd.DataFrame:
    """The joint effects with the sums of the same heads' single effects, `denoise_singles` and `noise_singles`."""
    parts: list[pd.DataFrame] = []
    for way, k in joint[["way", "k"]].drop_duplicates().itertuples(index=False):
        if len(rankings[way]) < k:
            raise ValueError(f"the ranking of way {way} has {len(rankings[way])} heads: no joint effect of {k}.")
        named = pd.DataFrame(rankings[way][:k], columns=["layer", "head"])
        sums = heads.merge(named, on=["layer", "head"]).groupby("contrast")[list(DIRECTIONS)].sum()
        part = joint[(joint["way"] == way) & (joint["k"] == k)]
        parts.append(part.join(sums.add_suffix("_singles"), on="contrast"))
    rows: pd.DataFrame = pd.concat(parts)
    if rows["denoise_singles"].isna().any():
        raise ValueError(
            f"no single effects of contrast {rows.loc[rows['denoise_singles'].isna(), 'contrast'].iloc[0]}"
        )
    return rows


def _estimates(rows: pd.DataFrame, direction: str, seed: int) -> dict[str, float | int | str | None]:
    joint, singles = rows[direction], rows[f"{direction}_singles"]
    values = np.column_stack([joint, singles, joint - singles, rows["total_effect"]])
    means = cluster_means(values, list(rows["occupation"]))
    row: dict[str, float | int | str | None] = {}
    for name, (mean, low, high) in zip(_ESTIMATES, bootstrap_intervals(means, seed=seed).to_numpy(), strict=True):
        row |= {name: float(mean), f"{name}_low": float(low), f"{name}_high": float(high)}
    known = low > 0 or high < 0  # of the total, the last; nan of one occupation is neither
    for name, column in zip(_SHARES, means.T[:2], strict=True):
        found = share_of_total(column, means[:, -1], generator(seed, "joint share")) if known else None
        ends = (found.mean, found.low, found.high) if found else (np.nan,) * 3
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
    return row | {"n": len(means), "reason": None if known else _NO_SHARE}
