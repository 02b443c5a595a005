"""Which heads read whose pronoun: owner-specific carriers, K, and owner-blind ones, R.

A head that copies any pronoun moves the answer after `other` as after `third`; one that reads the other person's
pronoun as such does so after `other` alone. So owner-specific heads are told by differences between primes, twice: in
one-person frames and in the main job's prime, whose frames have nothing in common. Both must show it, in both
directions of patching and with one sign.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.analysis.carriers import DIRECTIONS, FEWEST_OCCUPATIONS, CarrierRule, called_carriers
from referent_probe.errors import OptionError

PRIMES = ("same", "other", "third", "partner", "third_frame")
CONTRASTS: Mapping[str, tuple[str, str | None]] = {
    "other - third": ("other", "third"),
    "partner - third_frame": ("partner", "third_frame"),
    "third_frame": ("third_frame", None),
}
"""Tested effects: of the first prime, less that of the second."""

Head = tuple[int, int]
"""Layer and number within it."""


@dataclass(frozen=True, eq=False)
class CarrierSets:
    """Owner-specific and owner-blind heads.

    Attributes:
        table: One row a head: `layer`, `head`; for each of `CONTRASTS` and direction the mean effect over occupations,
            `CONTRAST, DIRECTION mean` (logits), and its p value adjusted over all heads and both directions,
            `CONTRAST, DIRECTION p` (nan under six occupations); `set`: "K", "R" or "".
        k: Owner-specific heads, by layer and number.
        r: Owner-blind heads.
        smallest: Smallest effect of interest, logits.
        n_occupations: By contrast: occupations in which its primes were measured.
        reason: Why no head can be called anything; None where one can.
    """

    table: pd.DataFrame
    k: tuple[Head, ...]
    r: tuple[Head, ...]
    smallest: float
    n_occupations: Mapping[str, int]
    reason: str | None


def carrier_sets(effects: pd.DataFrame, smallest: float, seed: int, rule: CarrierRule | None = None) -> CarrierSets:
    """Find both sets on the training half.

    K: other - third and partner - third_frame both differ from 0 by a max-t sign-flip test over all heads and both
    directions, in both directions, all four with one sign; and other - third is at least the smallest effect in both
    directions. R: third_frame differs from 0 in both directions with one sign, is at least the smallest effect, and the
    head is not in K.

    Args:
        effects: Effects of single heads, patched at the target slot: `prime` (of `PRIMES`), `occupation`, `layer`,
            `head`, `denoise`, `noise` in logits. Rows of one prime and occupation are averaged.
        smallest: Smallest effect of interest, logits: `carriers.smallest_effect` of the contrasts of `other`.
        seed: Of the sign flips.
        rule: Level of the tests; 5 % where none is given.

    Raises:
        OptionError: A prime that is tested, or a head in one of its occupations, is missing.

    Source: Westfall and Young 1993; Berger 1982, Multiparameter hypothesis testing, on joining tests by "and".

    Example:
        A head with 1 logit after `other` and `partner` and none after `third` and `third_frame` is in K.
    """
    rule = rule or CarrierRule()
    maps = head_maps(effects, [prime for pair in CONTRASTS.values() for prime in pair if prime])
    table = maps["other"][DIRECTIONS[0]].columns.to_frame(index=False)
    found: dict[str, NDArray[np.float64]] = {}
    n_occupations = {}
    for contrast, (prime, less) in CONTRASTS.items():
        cells = maps[prime] if less is None else difference(maps[prime], maps[less])
        n_occupations[contrast] = len(cells)
        # Of partner - third_frame presence and sign are asked, not size: its share of a longer prime is another.
        least = 0.0 if contrast == "partner - third_frame" else smallest
        p, called = called_carriers(cells, least, rule, seed)
        means = cells.mean().to_numpy(dtype=np.float64)
        for direction, mean, p_value in zip(DIRECTIONS, np.split(means, 2), np.split(p, 2), strict=True):
            table[f"{contrast}, {direction} mean"], table[f"{contrast}, {direction} p"] = mean, p_value
        signs = np.where(called, np.sign(means), 0.0).reshape(2, -1)
        found[contrast] = np.where(signs[0] == signs[1], signs[0], 0.0)  # in both directions, or not at all
    specific, in_pairs, blind = found.values()
    in_k = (specific != 0) & (specific == in_pairs)
    table["set"] = np.select([in_k, blind != 0], ["K", "R"], "")
    few = {name: n for name, n in n_occupations.items() if n < FEWEST_OCCUPATIONS}
    reason = "; ".join(f"{name}: {n} occupations, under {FEWEST_OCCUPATIONS}" for name, n in few.items()) or None
    return CarrierSets(table, _heads(table, "K"), _heads(table, "R"), smallest, n_occupations, reason)


def _heads(table: pd.DataFrame, name: str) -> tuple[Head, ...]:
    rows = table[table["set"] == name]
    return tuple((int(layer), int(head)) for layer, head in zip(rows["layer"], rows["head"], strict=True))


def head_maps(effects: pd.DataFrame, primes: list[str]) -> dict[str, pd.DataFrame]:
    """Mean effects of every head by occupation, for each prime.

    Args:
        effects: As in `carrier_sets`.
        primes: Which.

    Returns:
        By prime: occupations by (direction, layer, head), all with the same columns in the same order, logits.

    Raises:
        OptionError: A prime is missing, or a head in one of its occupations.

    Example:
        With 270 heads every map has 540 columns.
    """
    absent = [prime for prime in primes if not effects["prime"].eq(prime).any()]
    if absent:
        raise OptionError(f"no head effects after {', '.join(map(repr, absent))}: patch heads on these primes too.")
    used = effects[effects["prime"].isin(primes)]
    means = used.groupby(["prime", "occupation", "layer", "head"], as_index=False)[list(DIRECTIONS)].mean()
    wide = means.pivot(index=["prime", "occupation"], columns=["layer", "head"], values=list(DIRECTIONS))
    if wide.isna().any(axis=None):
        row, column = (int(i[0]) for i in np.nonzero(wide.isna().to_numpy()))
        prime, occupation = wide.index.to_frame().iloc[row]
        direction, layer, head = wide.columns.to_frame().iloc[column]
        raise OptionError(f"no {direction} of head {layer}.{head} after {prime!r} in {occupation!r}: give every head.")
    of_prime = wide.index.get_level_values("prime")
    return {prime: wide[of_prime == prime].droplevel("prime") for prime in primes}


def difference(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """First less second, over the occupations that both have."""
    shared = first.index.intersection(second.index)
    return first.loc[shared] - second.loc[shared]
