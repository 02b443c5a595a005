"""Does a cut leave alone what it should: the effect of the own pronoun, unprimed choices, loss on neutral text?"""

from dataclasses import dataclass
from typing import Any

import pandas as pd
from statsmodels.stats.weightstats import DescrStatsW

from referent_probe.analysis.inference import Interval
from referent_probe.analysis.invariance import equivalence_p
from referent_probe.analysis.summary_parts import as_json, number
from referent_probe.errors import OptionError

LEVEL = 0.05


@dataclass(frozen=True)
class Damage:
    """What a cut does to something that it should leave alone.

    Attributes:
        what: Name of it.
        change: After less before, mean over occupations with its 90 % interval (Student's t), which lies within the
            margin where p is below 0.05.
        margin: Largest change that counts as none, in the unit of the change.
        p: Of the change being at or beyond the margin: two one-sided paired t tests; nan under two occupations.
        words: "survives", "is damaged" (the interval lies beyond the margin) or "is not shown to survive", in a clause.
    """

    what: str
    change: Interval
    margin: float
    p: float
    words: str

    @property
    def survives(self) -> bool:
        """Whether the change is shown to be within the margin."""
        return self.p <= LEVEL

    def as_json(self) -> dict[str, Any]:
        """All of it for `summary.json`."""
        change = as_json(self.change) | {"confidence": 0.9}
        return {"what": self.what, "change": change, "margin": self.margin, "p": number(self.p), "words": self.words}


def damage(
    what: str, before: "pd.Series[float]", after: "pd.Series[float]", margin: float, *, unit: str = "logits"
) -> Damage:
    """Compare something before and after a cut, paired by occupation.

    Args:
        what: Name of it, as the subject of a sentence.
        before: By occupation.
        after: By occupation; those that both have are compared, and of them those that are known in both.
        margin: Largest change that counts as none, above 0.
        unit: Of all.

    Raises:
        OptionError: The margin is not above 0.

    Source: Schuirmann 1987, A comparison of the two one-sided tests procedure; `statsmodels`.

    Example:
        >>> before = pd.Series([4.0, 3.0, 5.0], index=["cook", "nurse", "guard"])
        >>> damage("the effect of same", before, before, 0.2).words
        'the effect of same survives the cut: it changes by 0.00 [0.00, 0.00] logits, n = 3 occupations (margin 0.20)'
    """
    if not margin > 0:
        raise OptionError(f"margin {margin} is no margin: give a number above 0.")
    change = (after - before).dropna().astype(float).to_numpy()
    n, mean = len(change), float(change.mean()) if len(change) else float("nan")
    low, high = DescrStatsW(change).tconfint_mean(2 * LEVEL) if n > 1 else (float("nan"), float("nan"))
    interval, p = Interval(mean, float(low), float(high), n, unit), equivalence_p(change, margin)
    if p <= LEVEL:
        how = "survives the cut"
    elif high < -margin or low > margin:
        how = "is damaged by the cut"
    else:
        how = "is not shown to survive the cut"
    return Damage(what, interval, margin, p, f"{what} {how}: it changes by {interval} (margin {margin:.2f})")
