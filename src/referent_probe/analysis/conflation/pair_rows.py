"""The rows of the bridge: both sentences of a pair in one option order, with midpoint and effect before and after cuts.

For each template m is the midpoint of its log-odds after a feminine and after a masculine prime, e their difference.
The four primed probabilities of a pair, and so its dC, follow from the two m and the two e.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from referent_probe.analysis.contextuality import delta_c
from referent_probe.errors import OptionError

Cut = Literal["K", "R", "KR"]
"""Carriers whose edges to the prime are blocked: owner-specific ones, owner-blind ones, both."""
Reading = Literal["self_primed", "steered"]
CUTS: tuple[Cut, ...] = get_args(Cut)
READINGS: tuple[Reading, ...] = get_args(Reading)

CONTEXTUAL_ABOVE = 0.01
"""dC above which a pair counts as contextual: out of reach of rounding."""

_KEYS = ["occupation", "pair", "option_order"]
_AFTER = [f"{what}_{cut}" for cut in CUTS for what in ("m", "e")]


@dataclass(frozen=True, eq=False)
class PairRows:
    """Pairs by option order; arrays are `[n_rows, 2]`, member 1 first, in logits.

    Attributes:
        keys: `occupation`, `pair`, `option_order` of every row.
        m: Midpoints.
        e: Effects.
        m_after: Midpoints after each cut.
        e_after: Effects after each cut.
        m0: Unprimed log-odds, held when something is cut; None where they are not known.
        e_third_frame: Effects of the prime in which both roles are others; None where not measured.
        left_out: Rows in which a number is not known for either member.
    """

    keys: pd.DataFrame
    m: NDArray[np.float64]
    e: NDArray[np.float64]
    m_after: Mapping[Cut, NDArray[np.float64]]
    e_after: Mapping[Cut, NDArray[np.float64]]
    m0: NDArray[np.float64] | None
    e_third_frame: NDArray[np.float64] | None
    left_out: int

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Those that can be had: `self_primed` takes unprimed log-odds."""
        return READINGS if self.m0 is not None else ("steered",)

    def delta_c(
        self, reading: Reading, *, m: NDArray[np.float64] | None = None, e: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """dC of every row, `[n_rows]`, with other midpoints or effects where these are given; m0 is held."""
        return delta_c_of(self.m if m is None else m, self.e if e is None else e, reading, m0=self.m0)

    def contextual(
        self, reading: Reading, *, m: NDArray[np.float64] | None = None, e: NDArray[np.float64] | None = None
    ) -> NDArray[np.bool_]:
        """Whether dC is above 0.01, `[n_rows]`."""
        return self.delta_c(reading, m=m, e=e) > CONTEXTUAL_ABOVE

    def n_pairs(self, which: NDArray[np.bool_] | None = None) -> int:
        """Pairs with at least one row, or one of these rows; a pair counts once, whatever its option orders."""
        return int(self.keys["pair"][slice(None) if which is None else which].nunique())


def pair_rows(table: pd.DataFrame) -> PairRows:
    """Put the two members of every pair beside each other.

    Args:
        table: One row a template and option order, held out from the choice of carriers: `pair`, `occupation`,
            `member` (1 or 2), `option_order`, `m`, `e`, and for each cut A of K, R, KR `m_A` and `e_A`, logits.
            Optional: `m0`, `e_third_frame`. Other columns are not read.

    Returns:
        Rows sorted by occupation, pair and option order. One in which a number is nan, or a member missing, is left
        out.

    Raises:
        OptionError: A column is missing, a member is neither 1 nor 2, a row comes twice, or no pair is whole.

    Example:
        >>> both = {"pair": "p", "occupation": "cook", "option_order": "fm", "m": 0.1}
        >>> both |= {name: 0.0 for name in ("m_K", "e_K", "m_R", "e_R", "m_KR", "e_KR")}
        >>> rows = pair_rows(pd.DataFrame([both | {"member": 1, "e": 0.5}, both | {"member": 2, "e": 4.0}]))
        >>> rows.e.tolist(), rows.delta_c("steered").round(2).tolist()
        ([[0.5, 4.0]], [0.57])
    """
    needed = ["m", "e", *_AFTER]
    missing = [name for name in (*_KEYS, "member", *needed) if name not in table.columns]
    if missing:
        raise OptionError(f"the table of held-out pairs lacks {', '.join(map(repr, missing))}: give these columns.")
    strange = table.loc[~table["member"].isin([1, 2]), "member"]
    if len(strange):
        raise OptionError(f"member {strange.iloc[0]}: the sentences of a pair are 1 and 2.")
    names = needed + [name for name in ("m0", "e_third_frame") if name in table.columns and table[name].notna().any()]
    if table.duplicated([*_KEYS, "member"]).any():
        twice = table.loc[table.duplicated([*_KEYS, "member"]), [*_KEYS, "member"]].iloc[0]
        raise OptionError(
            f"{', '.join(map(str, twice))} comes twice: give one row for each member and option order of a pair."
        )
    wide = table.pivot(index=_KEYS, columns="member", values=names).sort_index()
    wide = wide.reindex(columns=pd.MultiIndex.from_product([names, [1, 2]]))
    known = wide.dropna()
    if known.empty:
        raise OptionError(
            f"{len(wide)} pairs by option order, none with all numbers for both members: give whole pairs."
        )
    arrays = {name: known[name].to_numpy(dtype=np.float64) for name in names}
    return PairRows(
        known.index.to_frame(index=False),
        arrays["m"],
        arrays["e"],
        {cut: arrays[f"m_{cut}"] for cut in CUTS},
        {cut: arrays[f"e_{cut}"] for cut in CUTS},
        arrays.get("m0"),
        arrays.get("e_third_frame"),
        len(wide) - len(known),
    )


def delta_c_of(
    m: NDArray[np.float64], e: NDArray[np.float64], reading: Reading, *, m0: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """dC of pairs from midpoints and effects at T = 1.

    Args:
        m: `[..., 2]`, midpoints of sentences 1 and 2, logits.
        e: `[..., 2]`, effects, logits.
        reading: "self_primed" or "steered".
        m0: `[..., 2]`, unprimed log-odds; needed for `self_primed`.

    Raises:
        OptionError: The reading needs unprimed log-odds and there are none.

    Example:
        Equal strength is never contextual; unequal strength is.

        >>> m = np.array([0.1, 0.1])
        >>> [round(float(delta_c_of(m, np.array(e), "steered")), 2) for e in ([4.0, 4.0], [0.5, 4.0])]
        [-0.04, 0.57]
    """
    if reading == "self_primed" and m0 is None:
        raise OptionError("self_primed takes unprimed log-odds: give them as m0, or read dC steered.")
    p = expit(m if m0 is None else m0)
    feminine, masculine = expit(m + e / 2), expit(m - e / 2)
    six = p[..., 0], p[..., 1], feminine[..., 1], masculine[..., 1], feminine[..., 0], masculine[..., 0]
    return np.asarray(delta_c(*six, estimator=reading), dtype=np.float64)
