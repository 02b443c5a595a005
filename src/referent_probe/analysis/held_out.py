"""Carriers chosen on one half of the occupations, tested on the other half, both ways.

The largest of many effects are large in part by chance, so an effect is too large on the occupations that chose it.
On the other half it is not, and only what was chosen is tested there. Each half is a few occupations: a head that is
not confirmed may still be a carrier.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from referent_probe.analysis.carriers import (
    FEWEST_OCCUPATIONS,
    CarrierRule,
    called_carriers,
    occupation_effects,
    smallest_effect,
)
from referent_probe.analysis.inference import bootstrap_intervals
from referent_probe.randomness import generator

_CELL = {"layer": "int64", "head": "int64", "direction": "object"}
_COLUMNS = {
    "way": "int64",
    **_CELL,
    "effect_chosen": "float64",
    "effect_held_out": "float64",
    "effect_held_out_low": "float64",
    "effect_held_out_high": "float64",
    "n_choosing": "int64",
    "n_held_out": "int64",
    "p_held_out": "float64",
    "confirmed": "bool",
}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What was chosen on one half of the occupations, and what of it the other half confirms.

    Attributes:
        table: One row a way (1: chosen on the first half of `halves`; 2: on the second), layer, head and direction
            that was chosen. `effect_chosen` is the mean effect on the choosing half and `effect_held_out` that on the
            other, with its 95 % interval in `_low` and `_high`, logits; `n_choosing` and `n_held_out` count
            occupations; `p_held_out` is adjusted over the rows of its way; `confirmed` says whether the effect is
            significant, large enough and of the same sign on the other half.
        confirmed: Columns `layer`, `head`, `direction`, `ways`: 2 for what is confirmed both ways, 1 for one way.
        reason: Why the table is empty; None where it is not.
    """

    table: pd.DataFrame
    confirmed: pd.DataFrame
    reason: str | None


def halves(occupations: Iterable[str], seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split occupations at random into two halves, whose sizes differ by at most one.

    Args:
        occupations: In any order; one that comes more than once counts once.
        seed: Same seed, same halves, whatever the order.

    Returns:
        Each half sorted; the first is the smaller where they differ.

    Example:
        >>> first, second = halves(["cook", "nurse", "guard", "cook"], seed=0)
        >>> len(first), len(second), sorted(first + second)
        (1, 2, ['cook', 'guard', 'nurse'])
    """
    names = sorted(set(occupations))
    order = generator(seed, "halves").permutation(len(names))
    first, second = order[: len(names) // 2], order[len(names) // 2 :]
    return tuple(names[i] for i in sorted(first)), tuple(names[i] for i in sorted(second))


def held_out_carriers(heads: pd.DataFrame, contrasts: pd.DataFrame, rule: CarrierRule, seed: int) -> HeldOut:
    """Choose carriers on one half of the occupations, test them on the other, and the other way round.

    On the choosing half a head is chosen in a direction by the rule of `carriers.head_effects`: all heads and both
    directions are corrected for. On the other half the test is over what was chosen alone. The smallest effect of
    interest is that of each half's own contrasts, so that nothing of the other half enters.

    Args:
        heads: Table "heads".
        contrasts: Table "contrasts".
        rule: What a carrier is, on both halves.
        seed: Of the split, the bootstrap and the sign flips.

    Returns:
        Tables without rows, and the reason, under twelve occupations (a half would have under six, with which no
        sign-flip test reaches 5 %) or where neither half chooses a head.

    Source: Cox 1975, A note on data-splitting for the evaluation of significance levels.

    Example:
        A head whose effect is one logit in every occupation is confirmed both ways: two rows of `table`, and one row
        of `confirmed` in each direction, with `ways` 2.
    """
    effects = occupation_effects(heads)
    if len(effects) < 2 * FEWEST_OCCUPATIONS:
        why = f"{len(effects)} occupations: a half has under {FEWEST_OCCUPATIONS}, too few for any claim"
        return _held_out([], why)
    split = halves(effects.index, seed)
    smallest = [smallest_effect(contrasts[contrasts["occupation"].isin(half)], rule) for half in split]
    parts: list[pd.DataFrame] = []
    for way in (0, 1):
        choosing, held_out = (effects.loc[list(half)] for half in (split[way], split[1 - way]))
        _, chosen = called_carriers(choosing, smallest[way], rule, seed)
        if not chosen.any():
            continue
        tested = held_out.loc[:, chosen]
        p_values, called = called_carriers(tested, smallest[1 - way], rule, seed)
        part = tested.columns.set_names(["direction", "layer", "head"]).to_frame(index=False)
        part["way"] = way + 1
        part["effect_chosen"] = choosing.loc[:, chosen].mean().to_numpy()
        names = {"mean": "effect_held_out", "low": "effect_held_out_low", "high": "effect_held_out_high"}
        part = part.join(bootstrap_intervals(tested, seed=seed).rename(columns=names))
        part["n_choosing"], part["n_held_out"] = len(choosing), len(held_out)
        part["p_held_out"] = p_values
        part["confirmed"] = called & (np.sign(part["effect_chosen"]) == np.sign(part["effect_held_out"]))
        parts.append(part)
    return _held_out(parts, None if parts else "neither half chooses a head: there is nothing to test")


def _held_out(parts: list[pd.DataFrame], reason: str | None) -> HeldOut:
    empty = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in _COLUMNS.items()})
    table = pd.concat(parts)[list(_COLUMNS)].astype(_COLUMNS) if parts else empty
    table = table.sort_values(["way", "layer", "head", "direction"], ignore_index=True)
    grouped = table[table["confirmed"]].groupby(list(_CELL), as_index=False)
    confirmed = grouped.agg(ways=("way", "size"))
    return HeldOut(table, confirmed.astype({**_CELL, "ways": "int64"}), reason)
