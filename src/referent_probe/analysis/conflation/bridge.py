"""From heads to contextuality: how much of dC depends on which heads, with the controls that make it mean something.

Every complete cut of the edge to the priming pronoun ends dC, in a model that repeats as in one that conflates, and
most things that move effects or bases stop some pairs and start others. So what a cut takes away is counted through the
prime's effect alone, divided between owner-specific heads K and owner-blind heads R, set beside the pairs that start,
and beside random heads, a mere shrinking of the effect, and the prime with both roles replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import pandas as pd

from referent_probe.analysis.conflation.changes import split, transitions
from referent_probe.analysis.conflation.controls import RandomSets, random_sets, removed, shrink, twin
from referent_probe.analysis.conflation.credit import Credit, Form, credit
from referent_probe.analysis.conflation.intervals import N_RESAMPLES
from referent_probe.analysis.conflation.mechanism import Mechanism, mechanism
from referent_probe.analysis.conflation.pair_rows import CUTS, Cut, pair_rows
from referent_probe.analysis.inference import Interval
from referent_probe.analysis.summary_parts import as_json, number, records_in_json


@dataclass(frozen=True, eq=False)
class Bridge:
    """What contextuality depends on, on held-out pairs.

    Attributes:
        n_rows: Pairs by option orders.
        n_pairs: Pairs.
        n_occupations: Occupations.
        left_out: Rows that were left out because a number is not known.
        forms: phi_K, phi_R and remainder by form; "self_primed" only where unprimed log-odds are known.
        removed: Share of the prime's mean |e| that each cut removes.
        split: From `changes.split`.
        transitions: From `changes.transitions`.
        shrink: From `controls.shrink`.
        twin: From `controls.twin`.
        random: From `controls.random_sets`; None where no random sets were given.
        mechanism: Verdict and sentence.
    """

    n_rows: int
    n_pairs: int
    n_occupations: int
    left_out: int
    forms: Mapping[Form, Credit]
    removed: Mapping[Cut, float]
    split: pd.DataFrame
    transitions: pd.DataFrame
    shrink: pd.DataFrame
    twin: Mapping[Form, Interval]
    random: RandomSets | None
    mechanism: Mechanism

    def as_json(self) -> dict[str, Any]:
        """All of it in numbers, words, lists and mappings; null for what is not known."""
        return {
            "n_rows": self.n_rows,
            "n_pairs": self.n_pairs,
            "n_occupations": self.n_occupations,
            "left_out": self.left_out,
            "forms": {form: _credit_in_json(one) for form, one in self.forms.items()},
            "removed": {cut: number(share) for cut, share in self.removed.items()},
            "split": records_in_json(self.split),
            "transitions": records_in_json(self.transitions),
            "shrink": records_in_json(self.shrink),
            "twin": {form: as_json(share) for form, share in self.twin.items()},
            "random": None if self.random is None else _random_in_json(self.random),
            "mechanism": {
                "name": self.mechanism.name,
                "form": self.mechanism.form,
                "sentence": self.mechanism.sentence,
            },
        }


def bridge(
    table: pd.DataFrame,
    random: pd.DataFrame | None = None,
    *,
    random_for: Cut = "K",
    seed: int,
    n_resamples: int = N_RESAMPLES,
) -> Bridge:
    """Everything about one model.

    Args:
        table: One row a held-out template and option order; columns as in `pair_rows.pair_rows`. Where carriers are
            chosen on one option order and evaluated on the other, and back, each row holds what its own carriers do.
        random: Effects after each random head set, as in `controls.random_sets`; None where none was cut.
        random_for: The carriers that the random sets are matched to.
        seed: Of the bootstrap.
        n_resamples: Bootstrap samples.

    Raises:
        OptionError: A table lacks a column or a row.

    Example:
        >>> about = {"option_order": "fm", "m": 0.1, "m_K": 0.1, "m_R": 0.1, "m_KR": 0.1, "e_K": 0.0, "e_KR": 0.0}
        >>> pairs = pd.DataFrame([about | {"pair": i, "occupation": f"role {i}", "member": 1 + j, "e": e, "e_R": e}
        ...     for i in range(20) for j, e in enumerate((0.5, 4.0))])
        >>> found = bridge(pairs, seed=0)
        >>> found.mechanism.name, found.forms["steered"].phi_k.mean
        ('person-level', 1.0)
        >>> found.mechanism.sentence.split(";")[0]
        "Of the 20 contextual pairs, 100% [83%, 100%] depend on heads that read the other person's pronoun as such, \
0% [0%, 17%] on heads that copy any pronoun, the rest on neither"
    """
    rows = pair_rows(table)
    wanted: list[Form] = [form for form in get_args(Form) if form != "self_primed" or rows.m0 is not None]
    forms = {form: credit(rows, form, seed, n_resamples=n_resamples) for form in wanted}
    sets = None if random is None else random_sets(rows, random, forms, random_for)
    return Bridge(
        n_rows=len(rows.keys),
        n_pairs=rows.n_pairs(),
        n_occupations=int(rows.keys["occupation"].nunique()),
        left_out=rows.left_out,
        forms=forms,
        removed={cut: float(removed(rows, rows.e_after[cut])) for cut in CUTS},
        split=split(rows, seed, n_resamples=n_resamples),
        transitions=transitions(rows, seed, n_resamples=n_resamples),
        shrink=shrink(rows, forms),
        twin=twin(rows, forms, seed, n_resamples=n_resamples),
        random=sets,
        mechanism=mechanism(forms, sets),
    )


def _credit_in_json(one: Credit) -> dict[str, Any]:
    parts = {"phi_K": one.phi_k, "phi_R": one.phi_r, "remainder": one.remainder}
    return {
        "n_pairs": one.n_pairs,
        "v": {cut: as_json(share) for cut, share in one.v.items()},
        **{name: None if share is None else as_json(share) for name, share in parts.items()},
        "reason": one.reason,
    }


def _random_in_json(sets: RandomSets) -> dict[str, Any]:
    return {
        "cut": sets.cut,
        "n_sets": len(sets.table),
        "n_matched": sets.n_matched,
        "removed": number(sets.removed),
        "v": dict(sets.v),
        "p": dict(sets.p),
        "p_matched": dict(sets.p_matched),
        "sets": records_in_json(sets.table),
    }
