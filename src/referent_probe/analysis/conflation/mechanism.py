"""What the bridge says, in a word and in a sentence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from referent_probe.analysis.conflation.controls import RandomSets
from referent_probe.analysis.conflation.credit import FEWEST_PAIRS, Credit, Form
from referent_probe.analysis.inference import Interval

MechanismName = Literal["person-level", "owner-blind", "both", "neither", "undecided"]

MOST = 0.5
"""Share above which the whole interval must lie for one kind of head to be what contextuality is made of."""
SOME = 0.2
"""Share above which both intervals must lie for it to be made of both."""


@dataclass(frozen=True)
class Mechanism:
    """What contextuality depends on.

    Attributes:
        name: "person-level": the 95 % interval of phi_K lies above 0.5, and above the estimate of phi_R.
            "owner-blind": the same of phi_R. "both": both intervals lie above 0.2. "neither": that of the remainder
            lies above 0.5. "undecided" otherwise, and where the phi are withheld. The first that holds.
        form: Which form of contextuality it is about.
        sentence: The answer, with numbers.
    """

    name: MechanismName
    form: Form
    sentence: str


def mechanism(forms: Mapping[Form, Credit], random: RandomSets | None) -> Mechanism:
    """The verdict on the main form: contextual pairs by `self_primed` (`steered` where m0 is not known), and the
    strength form where fewer than 20 held-out pairs are contextual.

    Args:
        forms: From `credit.credit`, all three.
        random: From `controls.random_sets`, or None.
    """
    by_pairs = forms["self_primed" if "self_primed" in forms else "steered"]
    main = by_pairs if by_pairs.reason is None else forms["strength"]
    return Mechanism(_name(main), main.form, _sentence(main, by_pairs, random))


def _name(main: Credit) -> MechanismName:
    k, r, rest = main.phi_k, main.phi_r, main.remainder
    if k is None or r is None or rest is None:
        return "undecided"
    # Comparisons with nan, where there are too few occupations for an interval, are False.
    if k.low > MOST and k.low > r.mean:
        return "person-level"
    if r.low > MOST and r.low > k.mean:
        return "owner-blind"
    if k.low > SOME and r.low > SOME:
        return "both"
    return "neither" if rest.low > MOST else "undecided"


def _sentence(main: Credit, by_pairs: Credit, random: RandomSets | None) -> str:
    if main.phi_k is None or main.phi_r is None:
        return f"Nothing can be said of what contextuality depends on: {main.reason}."
    shares = (
        f"{_share(main.phi_k)} depend{{s}} on heads that read the other person's pronoun as such, "
        f"{_share(main.phi_r)} on heads that copy any pronoun, the rest on neither; {_controls(main, random)}."
    )
    if main.form != "strength":
        return f"Of the {main.n_pairs} contextual pairs, {shares.format(s='')}"
    few = f"under {FEWEST_PAIRS} held-out pairs are contextual: {by_pairs.n_pairs}"
    if by_pairs.n_pairs >= FEWEST_PAIRS:
        few = str(by_pairs.reason)
    return (
        f"Of the difference in how strongly the two sentences of a pair follow their prime ({main.n_pairs} pairs; "
        f"{few}), {shares.format(s='s')}"
    )


def _controls(main: Credit, random: RandomSets | None) -> str:
    if random is None:
        return "random heads were not cut"
    if not random.n_matched:
        return (
            f"none of {len(random.table)} random sets removes as much of the prime's effect as {random.cut} "
            f"({random.removed:.0%})"
        )
    matched = random.table.loc[random.table["matched"], f"v_{main.form}"]
    return (
        f"{random.n_matched} sets of random heads of equal effect: {matched.mean():.0%} in the mean, against "
        f"{random.v[main.form]:.0%} when {random.cut} is cut (p = {random.p_matched[main.form]:.2g})"
    )


def _share(interval: Interval) -> str:
    if math.isnan(interval.low):
        return f"{interval.mean:.0%} [no interval]"
    return f"{interval.mean:.0%} [{interval.low:.0%}, {interval.high:.0%}]"
