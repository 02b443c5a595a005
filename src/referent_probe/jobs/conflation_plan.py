"""Which heads are cut where: carriers are chosen on the other half of the occupations, in the other option order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from referent_probe.analysis.carriers import CarrierRule, smallest_effect
from referent_probe.analysis.conflation.carrier_sets import CarrierSets, Head, carrier_sets
from referent_probe.analysis.held_out import halves
from referent_probe.analysis.interventions import per_contrast
from referent_probe.analysis.matched_sets import MatchedSets, matched_sets
from referent_probe.jobs.job import Tables

if TYPE_CHECKING:
    from referent_probe.mechanism.contrasts import Contrast

Key = tuple[int, str]
"""Half of the occupations (1 or 2) and order of the options on which carriers are chosen."""


@dataclass(frozen=True)
class Plan:
    """Carriers and random sets by where they are chosen.

    Attributes:
        carriers: By half and order.
        random: Random sets that match K, or R where there is no K.
        matched: Which of the two.
        first: Occupations of the first half.
        orders: Orders of the options that were run.
    """

    carriers: Mapping[Key, CarrierSets]
    random: Mapping[Key, MatchedSets]
    matched: str
    first: frozenset[str]
    orders: tuple[str, ...]

    def key_for(self, occupation: str, order: str) -> Key:
        """Where the carriers of a contrast are chosen: neither its occupation nor, with two, its order took part."""
        other = next((one for one in self.orders if one != order), order)
        return 2 if occupation in self.first else 1, other

    def sets_for(self, contrast: "Contrast") -> dict[str, Sequence[Head]]:
        """Sets of heads that are cut in a contrast, by name."""
        key = self.key_for(contrast.template.occupation, str(contrast.order))
        found = self.carriers[key]
        random = {f"random {i}": heads for i, heads in enumerate(self.random[key].sets)}
        return {"K": found.k, "R": found.r, "KR": (*found.k, *found.r), **random}


def head_effects_of(tables: Tables) -> pd.DataFrame:
    """Single effects of heads at the target slot after every prime, a row a contrast and head.

    Returns:
        Columns `prime`, `contrast`, `occupation`, `option_order`, `layer`, `head`, `denoise`, `noise`.
    """
    patched = tables["interventions"]
    known = tables["prime_contrasts"].drop_duplicates("contrast")
    effects = per_contrast(patched[patched["kind"] == "patch"], known)
    orders = effects["contrast"].map(known.set_index("contrast")["option_order"])
    columns = ["contrast", "occupation", "layer", "head", "denoise", "noise"]
    return effects[columns].assign(prime=effects["contrast"].map(prime_of), option_order=orders)


def prime_of(contrast: str) -> str:
    """The prime that a contrast's id names: "004a-mf-other" is `other`, "004a-mf" the partner."""
    parts = contrast.split("-", 2)
    return parts[2] if len(parts) == 3 else "partner"


def plan_of(tables: Tables, random_sets: int, smallest_share: float, seed: int) -> Plan:
    """Choose carriers and grow random sets.

    Args:
        tables: With the heads' and the single cuts' stages done.
        random_sets: Sets to grow for each choice.
        smallest_share: Smallest effect of interest as a share of the effect of `other`.
        seed: Of halves, tests and sets.
    """
    effects = head_effects_of(tables)
    occupations = sorted(effects["occupation"].unique())
    first, second = halves(occupations, seed)
    orders = tuple(sorted(effects["option_order"].unique()))
    rule = CarrierRule(smallest_share=smallest_share)
    known = tables["prime_contrasts"].drop_duplicates("contrast")
    others = known[known["contrast"].map(prime_of) == "other"]
    single, before = _single_cuts(tables)
    carriers: dict[Key, CarrierSets] = {}
    for half, members in ((1, first), (2, second)):
        for order in orders:
            chosen = effects[effects["occupation"].isin(members) & (effects["option_order"] == order)]
            measured = others[others["occupation"].isin(members) & (others["option_order"] == order)]
            carriers[half, order] = carrier_sets(chosen, smallest_effect(measured, rule), seed, rule)
    matched = "K" if any(found.k for found in carriers.values()) else "R"
    random: dict[Key, MatchedSets] = {}
    of_contrast = known.set_index("contrast")
    for (half, order), found in carriers.items():
        rows = of_contrast.loc[before.index]
        used = before.index[rows["occupation"].isin(first if half == 1 else second) & (rows["option_order"] == order)]
        heads = found.k if matched == "K" else found.r
        # Growing looks at the training half alone; what a set removes elsewhere is measured there.
        random[half, order] = matched_sets(
            before[used], single.loc[used], heads, (*found.k, *found.r), random_sets, seed
        )
    return Plan(carriers, random, matched, frozenset(first), orders)


def _single_cuts(tables: Tables) -> tuple[pd.DataFrame, "pd.Series[float]"]:
    """Effect of the partner prime with one head's edges cut (contrast by head), and uncut."""
    cuts = tables["interventions"]
    cuts = cuts[(cuts["kind"] == "knockout") & (cuts["what"] == "one head")]
    left = cuts.assign(effect=cuts["log_odds_cf"] - cuts["log_odds_cm"])
    wide = left.pivot(index="contrast", columns=["layer", "head"], values="effect")
    before = tables["contrasts"].dropna(subset=["total_effect"]).set_index("contrast")["total_effect"]
    return wide, before.loc[wide.index]
