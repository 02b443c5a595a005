"""Verdicts on several models at once: Holm's correction of the tests behind the states."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from statsmodels.stats.multitest import multipletests

from referent_probe.analysis.conflation.intervals import N_RESAMPLES
from referent_probe.analysis.conflation.states import LEVEL, QUANTITIES, Estimate, margin, quantities
from referent_probe.analysis.conflation.verdict import Levels, Verdict, judged


def verdicts(models: Mapping[str, pd.DataFrame], seed: int, *, n_resamples: int = N_RESAMPLES) -> dict[str, Verdict]:
    """Verdicts on several models, the states of each quantity corrected for the number of models.

    The family is the models, for each quantity and each of the two tests by itself: that it is within the margin (two
    one-sided tests) and that it is not zero (two-sided). A false verdict such as "conflating" takes a false claim about
    one of its quantities, and the chance of any such claim among the models is held at 5 % for each. Margins are those
    of the model alone; flips leave the other models' p values as they are.

    Args:
        models: Effects by name of the model, as in `verdict.verdict`.
        seed: Of halves and bootstrap.
        n_resamples: Bootstrap samples.

    Returns:
        By name. With one model the verdict is that of `verdict.verdict`.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure; `statsmodels`.

    Example:
        >>> sure = pd.DataFrame({"same": 4.0, "other": 0.0, "third": 0.0}, index=list("abcdefghijkl"))
        >>> {name: found.name for name, found in verdicts({"a": sure, "b": sure * 0}, seed=0).items()}
        {'a': 'faithful', 'b': 'insensitive'}
    """
    estimates = {name: quantities(effects, seed, n_resamples=n_resamples) for name, effects in models.items()}
    deltas = {
        name: margin(effects.reindex(columns=["same"])["same"].astype(float), seed, n_resamples=n_resamples)
        for name, effects in models.items()
    }
    table = p_values(estimates, deltas)
    levels: dict[str, dict[str, Levels]] = {name: {} for name in models}
    for quantity in QUANTITIES:
        rows = table[table["quantity"] == quantity].set_index("model")
        for name in models:
            others = rows.drop(name)
            levels[name][quantity] = Levels(holm_level(others["p_equivalence"]), holm_level(others["p_difference"]))
    return {name: judged(estimates[name], deltas[name], levels[name]) for name in models}


def p_values(estimates: Mapping[str, Mapping[str, Estimate]], deltas: Mapping[str, float]) -> pd.DataFrame:
    """p values behind the states, with Holm's adjustment over the models.

    Args:
        estimates: By model, from `states.quantities`.
        deltas: Margins by model, logits.

    Returns:
        One row a model and quantity: `model`, `quantity`, `p_equivalence` (of the effect being at or beyond the
        margin), `p_difference` (of it being 0), and both with `_holm`, adjusted over the models for the quantity; nan
        where there are too few occupations, which do not count.
    """
    rows = [
        {
            "model": model,
            "quantity": quantity,
            "p_equivalence": float(one.distribution.p_equivalence(deltas[model])[0]),
            "p_difference": float(one.distribution.p_difference()[0]),
        }
        for model, of_model in estimates.items()
        for quantity, one in of_model.items()
    ]
    table = pd.DataFrame(rows)
    for column in ("p_equivalence", "p_difference"):
        table[f"{column}_holm"] = np.nan
        for _, part in table.dropna(subset=[column]).groupby("quantity"):
            table.loc[part.index, f"{column}_holm"] = multipletests(part[column], method="holm")[1]
    return table


def holm_level(others: ArrayLike, level: float = LEVEL) -> float:
    """The largest p that Holm's procedure still rejects beside those of the others, nan among them not counted.

    An interval of that level, in place of 95 %, says what the adjusted p value says.

    Example:
        Beside a p that is rejected in any case there is nothing left to correct for; beside one that is not, the level
        is halved.

        >>> holm_level([0.001]), holm_level([0.9])
        (0.05, 0.025)
    """
    known = np.asarray(others, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return level
    # The step at which this one comes last: after all of the others that are rejected before it.
    rejected = multipletests([1.0, *known], alpha=level, method="holm")[0].sum()
    return float(level / (len(known) + 1 - rejected))
