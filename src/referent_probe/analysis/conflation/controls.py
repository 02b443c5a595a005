"""What would do the same as cutting the carriers: random heads of equal effect, a mere shrinking of the prime's effect,
and the prime in which both roles are others.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.analysis.conflation.credit import Credit, Form, amounts, shares
from referent_probe.analysis.conflation.intervals import N_RESAMPLES
from referent_probe.analysis.conflation.pair_rows import CUTS, Cut, PairRows
from referent_probe.analysis.inference import Interval
from referent_probe.errors import OptionError

MATCHED_WITHIN = 0.2
"""Share by which what a random set removes of mean |e| may differ from what the carriers remove."""


@dataclass(frozen=True, eq=False)
class RandomSets:
    """Random head sets beside a cut of the carriers.

    Attributes:
        cut: Which carriers.
        table: One row a random set: `set`, `removed` (of mean |e|, as a share), `matched` (within 20 % of what the cut
            removes), and its v in each form that is not withheld, as `v_self_primed`, `v_steered`, `v_strength`.
        removed: Share of mean |e| that the cut removes.
        v: Its own v, by form.
        p: By form: (1 + number of sets with v at least as large) / (1 + number of sets), over all sets.
        p_matched: The same over the matched sets alone; empty where there is none. A set that removes less is no
            control, and makes p too small.
    """

    cut: Cut
    table: pd.DataFrame
    removed: float
    v: Mapping[Form, float]
    p: Mapping[Form, float]
    p_matched: Mapping[Form, float]

    @property
    def n_matched(self) -> int:
        """Number of sets that remove as much."""
        return int(self.table["matched"].sum())


def removed(rows: PairRows, e: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of mean |e| over templates that is gone with these effects, `[n_rows, 2]` or `[n_sets, n_rows, 2]`.

    Below 0 where effects grow; nan where there was none.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(1 - np.abs(e).mean(axis=(-2, -1)) / np.float64(np.abs(rows.e).mean()))


def random_sets(rows: PairRows, table: pd.DataFrame, forms: Mapping[Form, Credit], cut: Cut = "K") -> RandomSets:
    """Compare a cut of the carriers with cuts of random head sets.

    Args:
        rows: Held-out pairs.
        table: One row a random set, template and option order: `set`, `pair`, `member`, `option_order`, `e` (after that
            set is cut, logits). Rows of pairs that were left out are not read.
        forms: From `credit.credit`; those that are withheld there are here.
        cut: Which carriers the sets were grown for.

    Raises:
        OptionError: There is no set, or a set lacks a template.

    Example:
        Of 200 sets none has a v as large as that of K: p = 1/201.
    """
    e = _effects(rows, table)
    found = pd.DataFrame({"set": sorted(table["set"].unique()), "removed": removed(rows, e)})
    of_cut = float(removed(rows, rows.e_after[cut]))
    found["matched"] = (found["removed"] - of_cut).abs() <= MATCHED_WITHIN * abs(of_cut)
    v: dict[Form, float] = {}
    p: dict[Form, float] = {}
    p_matched: dict[Form, float] = {}
    for form in (form for form, one in forms.items() if one.reason is None):
        before = amounts(rows, form, rows.e).sum()
        v[form] = float(1 - amounts(rows, form, rows.e_after[cut]).sum() / before)
        found[f"v_{form}"] = 1 - amounts(rows, form, e).sum(axis=-1) / before
        # Sums of the same numbers in another order are as large.
        as_large = found[f"v_{form}"] >= v[form] - 1e-9
        p[form] = float((1 + as_large.sum()) / (1 + len(found)))
        if found["matched"].any():
            p_matched[form] = float((1 + as_large[found["matched"]].sum()) / (1 + found["matched"].sum()))
    return RandomSets(cut, found, of_cut, v, p, p_matched)


def shrink(rows: PairRows, forms: Mapping[Form, Credit]) -> pd.DataFrame:
    """What multiplying all effects by one factor does, the factor that leaves the mean |e| that each cut leaves.

    Returns:
        One row a form that is not withheld and cut: `form`, `cut`, `factor`, `v` of the shrink, `v_cut` of the cut.
        Where they are alike, the cut does no more than to weaken the prime.

    Example:
        Halving all effects halves every |e1 - e2|: the strength form's v is 0.5.
    """
    found = []
    for form in (form for form, one in forms.items() if one.reason is None):
        before = amounts(rows, form, rows.e).sum()
        for cut in CUTS:
            factor = float(1 - removed(rows, rows.e_after[cut]))
            after, of_cut = amounts(rows, form, rows.e * factor), amounts(rows, form, rows.e_after[cut])
            v, v_cut = float(1 - after.sum() / before), float(1 - of_cut.sum() / before)
            found.append({"form": form, "cut": cut, "factor": factor, "v": v, "v_cut": v_cut})
    return pd.DataFrame(found, columns=["form", "cut", "factor", "v", "v_cut"])


def twin(
    rows: PairRows, forms: Mapping[Form, Credit], seed: int, *, n_resamples: int = N_RESAMPLES
) -> dict[Form, Interval]:
    """Share that is gone where the effects are those of the prime with both roles replaced, midpoints as they were.

    No intervention, but a counterfactual: what is owner-specific is not there, what is owner-blind is. To be read
    beside phi_K.

    Returns:
        By form, with 95 % intervals over occupations; without the forms that are withheld, and empty where the effects
        of `third_frame` are not known.

    Example:
        A model that repeats any pronoun has the same effects after either prime: 0.
    """
    if rows.e_third_frame is None:
        return {}
    found: dict[Form, Interval] = {}
    for form in (form for form, one in forms.items() if one.reason is None):
        before = amounts(rows, form, rows.e)
        gone = before - amounts(rows, form, rows.e_third_frame)
        [found[form]] = shares(rows, form, before, [gone], seed, n_resamples)
    return found


def _effects(rows: PairRows, table: pd.DataFrame) -> NDArray[np.float64]:
    """`[n_sets, n_rows, 2]`, in the order of the sets' names and of the rows."""
    missing = [name for name in ("set", "pair", "member", "option_order", "e") if name not in table.columns]
    if missing or not len(table):
        raise OptionError(f"the table of random sets lacks {', '.join(map(repr, missing)) or 'rows'}: give them.")
    wide = table.pivot(index="set", columns=["pair", "option_order", "member"], values="e").sort_index()
    keys = rows.keys[["pair", "option_order"]].itertuples(index=False, name=None)
    wanted = pd.MultiIndex.from_tuples([(*key, member) for key in keys for member in (1, 2)], names=wide.columns.names)
    effects = wide.reindex(columns=wanted)
    if effects.isna().any(axis=None):
        first = effects.columns[effects.isna().any()][0]
        raise OptionError(f"a random set has no effect for {first}: give one for every template and option order.")
    return effects.to_numpy(dtype=np.float64).reshape(len(effects), -1, 2)
