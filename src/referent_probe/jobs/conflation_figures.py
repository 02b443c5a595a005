"""The drawings of the conflation job, from what it found."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from referent_probe.analysis.carriers import DIRECTIONS
from referent_probe.analysis.conflation.bridge import Bridge
from referent_probe.analysis.conflation.carrier_sets import CarrierSets, difference, head_maps
from referent_probe.analysis.conflation.head_map_agreement import MapAgreement
from referent_probe.analysis.conflation.pair_rows import CUTS, pair_rows
from referent_probe.analysis.conflation.verdict import Verdict
from referent_probe.figures_conflation import effects_with_verdict, phi_bars
from referent_probe.figures_conflation_heads import difference_maps
from referent_probe.figures_conflation_pairs import cut_pair_by_pair, delta_c_split


def conflation_figures(
    *,
    effects: pd.DataFrame,
    found: Verdict,
    rows: pd.DataFrame,
    crossed: Bridge,
    head_effects: pd.DataFrame,
    agreement: Sequence[MapAgreement],
    carriers: Sequence[CarrierSets],
) -> Mapping[str, Figure]:
    """All drawings by name.

    Args:
        effects: S, O, T, M by occupation.
        found: The behavioural verdict on them.
        rows: Held-out templates with their cuts.
        crossed: The bridge from them.
        head_effects: From `conflation_plan.head_effects_of`.
        agreement: Of the head maps.
        carriers: K and R of every choice.
    """
    return {
        "effects": effects_with_verdict(effects, found),
        "head_maps": difference_maps(difference_map_table(head_effects, carriers), agreement),
        "cut_pair_by_pair": cut_pair_by_pair(rows),
        "delta_c": delta_c_split(delta_c_rows(rows), crossed.split, crossed.transitions),
        "phi": phi_bars(crossed.forms, crossed.random),
    }


def difference_map_table(head_effects: pd.DataFrame, carriers: Sequence[CarrierSets]) -> pd.DataFrame:
    """Maps of other - third and same - third, means over the occupations that have all three, with who is a carrier.

    Args:
        head_effects: Effects of single heads, as in `carrier_sets.carrier_sets`.
        carriers: K and R of every choice.

    Returns:
        The table that `figures_conflation_heads.difference_maps` takes.
    """
    maps = head_maps(head_effects, ["same", "other", "third"])
    other, same = (difference(maps[prime], maps["third"]) for prime in ("other", "same"))
    shared = other.index.intersection(same.index)
    means = pd.DataFrame({"other_less_third": other.loc[shared].mean(), "same_less_third": same.loc[shared].mean()})
    table = means.rename_axis(["direction", "layer", "head"]).loc[list(DIRECTIONS)].reset_index()
    heads = list(zip(table["layer"], table["head"], strict=True))
    named = {"in_k": [set(one.k) for one in carriers], "in_r": [set(one.r) for one in carriers]}
    shares: dict[str, Any] = {
        name: [float(np.mean([head in one for one in sets])) for head in heads] for name, sets in named.items()
    }
    return table.assign(**shares, n=len(shared))


def delta_c_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """dC of every held-out pair and option order before and after each cut.

    Args:
        rows: As in `pair_rows.pair_rows`.

    Returns:
        The table that `figures_conflation_pairs.delta_c_split` takes.
    """
    pairs = pair_rows(rows)
    parts = [
        pairs.keys.assign(
            reading=reading,
            cut=cut,
            before=pairs.delta_c(reading),
            after=pairs.delta_c(reading, m=pairs.m_after[cut], e=pairs.e_after[cut]),
        )
        for reading in pairs.readings
        for cut in CUTS
    ]
    return pd.concat(parts, ignore_index=True)
