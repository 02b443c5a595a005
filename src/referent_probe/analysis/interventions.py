"""Effects of interventions, with intervals over occupations and tests that are corrected over all cells."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.analysis.carriers import FEWEST_OCCUPATIONS, share_of_total
from referent_probe.analysis.inference import Interval, bootstrap_intervals, cluster_means, max_t_sign_flip
from referent_probe.randomness import generator

CELL = ["kind", "what", "layer", "last_layer", "head", "where", "label"]
"""What names a cell."""

MEASURES = ("denoise", "noise", "remaining", "removed", "midpoint_shift")
"""`denoise`: cm run after the intervention less before. `noise`: cf run before less after. `remaining`: total effect
of the prime when both runs are changed alike. `removed`: what the total effect loses by it. `midpoint_shift`: how far
the mean of both runs moves. All in logits."""


def per_contrast(interventions: pd.DataFrame, contrasts: pd.DataFrame) -> pd.DataFrame:
    """Table "interventions" with `MEASURES`, a row a cell and contrast.

    Args:
        interventions: Table "interventions".
        contrasts: Table "contrasts" of the same run.

    Example:
        An intervention that makes both runs say the same leaves `remaining` 0 and has `removed` the total effect.
    """
    before = contrasts.set_index("contrast")[["total_effect", "log_odds_cf", "log_odds_cm"]]
    table = interventions.join(before.add_suffix("_before"), on="contrast")
    feminine, masculine = table["log_odds_cf_before"], table["log_odds_cm_before"]
    table["denoise"] = table["log_odds_cm"] - masculine
    table["noise"] = feminine - table["log_odds_cf"]
    table["remaining"] = table["log_odds_cf"] - table["log_odds_cm"]
    table["removed"] = table["total_effect_before"] - table["remaining"]
    table["midpoint_shift"] = (table["log_odds_cf"] + table["log_odds_cm"] - feminine - masculine) / 2
    return table.rename(columns={"total_effect_before": "total_effect"})


def cell_effects(
    table: pd.DataFrame, measures: Sequence[str], smallest: float, seed: int, tested: Sequence[str] | None = None
) -> pd.DataFrame:
    """One row a cell: the mean of each measure with its interval, its corrected p value, and whether it counts.

    Args:
        table: From `per_contrast`; a cell may be missing in some contrasts, and its n is then smaller.
        measures: Of `MEASURES`.
        smallest: Smallest effect of interest, logits.
        seed: Of bootstrap and sign flips.
        tested: The measures that are tested, together; None for all.

    Returns:
        The columns of `CELL`; `n` (occupations), `n_contrasts`, `reason`; for each measure `_mean`, `_low`, `_high`
        (logits; 95 % over occupations); for each that is tested `_p_max_t` (over all cells and tested measures that
        were computed in every occupation; NaN under six occupations) and `_counts` (p at most 0.05 and at least the
        smallest effect).

    Example:
        With 30 layers, 13 spans and one direction, p values are corrected for those of 390 cells that were computed.
    """
    rows, values = [], []
    occupations = sorted(table["occupation"].unique())
    for key, part in table.groupby(CELL, sort=False, dropna=False):
        known = part.dropna(subset=list(measures), how="all")
        reasons = part["reason"].dropna()
        row = dict(zip(CELL, key, strict=True)) | {
            "n": known["occupation"].nunique(),
            "n_contrasts": len(known),
            "reason": reasons.iloc[0] if len(reasons) == len(part) else None,
        }
        rows.append(row)
        values.append({name: _means(known, name, occupations) for name in measures})
    effects = pd.DataFrame(rows, columns=[*CELL, "n", "n_contrasts", "reason"])
    computed = effects["reason"].isna().to_numpy()
    for name in measures:
        cells = np.column_stack([value[name] for value in values])
        for end, column in _intervals(cells, seed).items():
            effects[f"{name}_{end}"] = column
    tested = measures if tested is None else tested
    p_values = _corrected([np.column_stack([v[name] for v in values])[:, computed] for name in tested], seed)
    for name, p in zip(tested, p_values, strict=True):
        effects[f"{name}_p_max_t"] = np.nan
        effects.loc[computed, f"{name}_p_max_t"] = p
        large = effects[f"{name}_mean"].abs() >= smallest
        effects[f"{name}_counts"] = (effects[f"{name}_p_max_t"] <= 0.05) & large
    return effects


def _means(part: pd.DataFrame, name: str, occupations: Sequence[str]) -> NDArray[np.float64]:
    """Mean of each occupation [n occupations], NaN where it has none."""
    means = part.groupby("occupation")[name].mean().reindex(list(occupations))
    return means.to_numpy(dtype=np.float64)


def _intervals(cells: NDArray[np.float64], seed: int) -> dict[str, NDArray[np.float64]]:
    """Mean, low and high of each column; columns with the same occupations are resampled together."""
    found = {part: np.full(cells.shape[1], np.nan) for part in ("mean", "low", "high")}
    known = np.isfinite(cells)
    patterns, which = np.unique(known, axis=1, return_inverse=True)
    for i in range(patterns.shape[1]):
        rows, columns = patterns[:, i], np.flatnonzero(which.ravel() == i)
        if not rows.any():
            continue
        intervals = bootstrap_intervals(cells[np.ix_(rows, columns)], seed=seed)
        for part in found:
            found[part][columns] = intervals[part]
    return found


def _corrected(groups: Sequence[NDArray[np.float64]], seed: int) -> list[NDArray[np.float64]]:
    """p values corrected over all columns of all groups that are known in every occupation."""
    joined = np.concatenate(groups, axis=1)
    p = np.full(joined.shape[1], np.nan)
    whole = np.isfinite(joined).all(axis=0)
    if len(joined) >= FEWEST_OCCUPATIONS and whole.any():
        p[whole] = max_t_sign_flip(joined[:, whole], seed=seed)
    return np.split(p, np.cumsum([group.shape[1] for group in groups])[:-1])


def share_carried(table: pd.DataFrame, measure: str, seed: int) -> Interval | None:
    """A measure's mean over the total effect's, with a 95 % interval over occupations.

    Args:
        table: Rows of one cell, from `per_contrast`.
        measure: Of `MEASURES`.
        seed: Of the bootstrap.

    Returns:
        None where the interval of the total effect covers 0, so that a share of it means nothing.
    """
    means = cluster_means(table[[measure, "total_effect"]].to_numpy(), list(table["occupation"]))
    total = bootstrap_intervals(means[:, 1:], seed=seed).iloc[0]
    if len(means) < 2 or not (total["low"] > 0 or total["high"] < 0):
        return None
    return share_of_total(means[:, 0], means[:, 1], generator(seed, "share of total"))
