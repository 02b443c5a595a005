"""Random sets of heads that remove as much of the prime's effect as a given set: the control of a cut.

Equal numbers of heads are no control: most heads do nothing. A set is grown, head by head, from the layers of the given
one, until what its heads remove, added up, is within a fifth of what the given set removes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from referent_probe.randomness import generator

Head = tuple[int, int]
WITHIN = 0.2
"""Share by which the removed effect may differ."""


@dataclass(frozen=True)
class MatchedSets:
    """Random sets of heads.

    Attributes:
        sets: Those that reach the effect.
        tried: How many were grown.
        wanted: Mean size of the effect that the given set removes, by single effects added up; logits.
        reason: Why there is none; None where there is one.
    """

    sets: tuple[tuple[Head, ...], ...]
    tried: int
    wanted: float
    reason: str | None


def matched_sets(
    before: pd.Series, after: pd.DataFrame, heads: Sequence[Head], excluded: Sequence[Head], count: int, seed: int
) -> MatchedSets:
    """Grow random sets whose predicted removal is that of `heads`.

    Args:
        before: Effect of the prime by contrast, logits.
        after: Effect by contrast (rows) when one head's edges to the prime are cut; a column a head (layer, head).
        heads: The given set.
        excluded: Heads that no random set may have, besides `heads`.
        count: Sets to grow.
        seed: Of the draws.

    Returns:
        The sets, by the order in which they were grown; removal is the fall of the mean size of the effect, with the
        changes of single heads added up. What the sets really remove is to be measured.

    Example:
        Where no other head of these layers moves the effect, none reaches it, and the reason says so.
    """
    if not heads:
        return MatchedSets((), 0, 0.0, "the set has no heads")
    effect = before.to_numpy(dtype=np.float64)
    change = after.loc[before.index]
    names = change.columns.to_frame(index=False)
    columns = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(names.iloc[:, 0], names.iloc[:, 1], strict=True))}
    moved = effect[:, None] - change.to_numpy(dtype=np.float64)

    def removed(chosen: Sequence[Head]) -> float:
        left = effect - moved[:, [columns[head] for head in chosen]].sum(axis=1)
        return float(np.abs(effect).mean() - np.abs(left).mean())

    wanted = removed(heads)
    if wanted <= 0:
        return MatchedSets((), 0, wanted, "the set does not make the effect smaller")
    layers = [layer for layer, _ in heads]
    pool = [head for head in columns if head[0] in layers and head not in {*heads, *excluded}]
    rng = generator(seed, "matched sets")
    found: list[tuple[Head, ...]] = []
    for _ in range(count):
        chosen: list[Head] = []
        best: tuple[Head, ...] = ()
        best_gap = np.inf
        for i in rng.permutation(len(pool)):
            chosen.append(pool[int(i)])
            gap = abs(removed(chosen) / wanted - 1)
            if gap < best_gap:
                best, best_gap = tuple(chosen), gap
            if gap <= WITHIN:
                break
        if best_gap <= WITHIN:
            found.append(best)
    reason = None if found else f"no set of other heads of these layers removes within {WITHIN:.0%} of it"
    return MatchedSets(tuple(found), count, wanted, reason)
