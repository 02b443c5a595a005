"""Shares of contextual pairs, what their dC is made of, and how far several models agree on them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from referent_probe.analysis.behaviour.clustered import Clustered, clustered_means, share_interval
from referent_probe.analysis.behaviour.quantities import found
from referent_probe.analysis.behaviour.single_blank import FOR_COMPARISON
from referent_probe.analysis.contextuality import THRESHOLDS

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of dC, its first term and its signalling, over pairs."""

_PARTS = {
    "delta_c": "dC",
    "correlation_difference": "dC",
    "signalling": "dC",
    "u_minus_v": "probability",
    "log_odds_ratio_difference": "logits",
    "qq": "probability",
}
_SYSTEM = ["reading", "estimator", "option_order", "temperature"]


def call_table(pairs: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Which pair is contextual: a row a pair, a column each reading, estimator, option order and temperature.

    The union over option orders is among them (for rank 4, over sentence orders): 1 where either is contextual, 0
    where neither is, NaN where one was not measured.

    Args:
        pairs: Table of pairs of one model.
        threshold: dC above which a pair is contextual.
    """
    values = pairs.set_index([*_SYSTEM, "pair"])["delta_c"].unstack("pair")
    calls = values.gt(threshold).astype(float).mask(values.isna()).T
    unions = {}
    for reading, estimator, order, temperature in _keys(calls):
        if order == "mf":
            members = [(reading, estimator, name, temperature) for name in ("mf", "fm")]
            unions[reading, estimator, "union", temperature] = members
        elif estimator == "joint_rank_4_o1":
            members = [(reading, f"joint_rank_4_o{i}", "both", temperature) for i in (1, 2)]
            unions[reading, "joint_rank_4", "union", temperature] = members
    joined = {
        name: calls[members].max(axis=1, skipna=False)
        for name, members in unions.items()
        if all(member in calls.columns for member in members)
    }
    both = pd.concat(
        [calls, pd.DataFrame(joined, index=calls.index, columns=pd.MultiIndex.from_tuples(joined))], axis=1
    )
    return both.rename_axis(columns=_SYSTEM) if joined else calls


def contextual_quantities(pairs: pd.DataFrame, primary: float, seed: int) -> list[dict[str, Any]]:
    """Shares at every threshold, and means and quantiles of dC's parts; intervals over occupations.

    Shares are given at every temperature, the rest at the primary one (whole sentences: at theirs).
    """
    if pairs.empty:
        return []
    occupation = pairs.drop_duplicates("pair").set_index("pair")["occupation"]
    rows = []
    for threshold in THRESHOLDS:
        calls = call_table(pairs, threshold)
        names = occupation.loc[calls.index].to_numpy()
        shares = clustered_means(calls.to_numpy(), names, seed=seed, unit="share of pairs")
        for key, share in zip(_keys(calls), shares, strict=True):
            share = replace(share, interval=share_interval(share.interval))
            rows.append(_row("contextual_share", share, key, threshold=threshold))
    kept = pairs[(pairs["temperature"] == primary) | (pairs["reading"] != "choice")]
    for column, unit in _PARTS.items():
        values = kept.set_index([*_SYSTEM, "pair"])[column].unstack("pair").T
        names = occupation.loc[values.index].to_numpy()
        parted = column not in ("delta_c", "correlation_difference", "signalling")
        wanted = [key for key in _keys(values) if not (parted and key[1] in (*FOR_COMPARISON, *_RANK_4))]
        means = clustered_means(values[wanted].to_numpy(), names, seed=seed, unit=unit)
        rows += [_row(f"{column}_mean", mean, key) for key, mean in zip(wanted, means, strict=True)]
        if parted:
            sizes = clustered_means(values[wanted].abs().to_numpy(), names, seed=seed, unit=unit)
            rows += [_row(f"{column}_absolute_mean", mean, key) for key, mean in zip(wanted, sizes, strict=True)]
        else:
            rows += [row for key in wanted for row in _quantiles(column, values[key], key)]
    return rows


def _keys(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Of the columns: reading, estimator, option order, temperature."""
    keys: list[tuple[Any, ...]] = table.columns.tolist()  # type: ignore[assignment]
    return keys


_RANK_4 = ("joint_rank_4_o1", "joint_rank_4_o2")


def _row(quantity: str, mean: Clustered, key: tuple[Any, ...], **more: Any) -> dict[str, Any]:
    reading, estimator, order, temperature = key
    note = "for comparison with the published analysis; no system of contexts" if estimator in FOR_COMPARISON else None
    return found(
        quantity,
        mean.interval,
        n_rows=mean.n_rows,
        rows_of="pairs",
        n_left_out=mean.n_left_out,
        reading=reading,
        estimator=estimator,
        option_order=order,
        temperature=temperature,
        note=note,
        **more,
    )


def _quantiles(column: str, values: "pd.Series[float]", key: tuple[Any, ...]) -> list[dict[str, Any]]:
    reading, estimator, order, temperature = key
    known = values.dropna().to_numpy()
    ends = np.quantile(known, QUANTILES) if len(known) else np.full(len(QUANTILES), np.nan)
    return [
        found(
            f"{column}_quantile",
            float(end),
            n_rows=len(known),
            rows_of="pairs",
            n_left_out=len(values) - len(known),
            reading=reading,
            estimator=estimator,
            option_order=order,
            temperature=temperature,
            factor=f"{quantile:g}",
        )
        for quantile, end in zip(QUANTILES, ends, strict=True)
    ]


def overlap_quantities(pairs: Mapping[str, pd.DataFrame], primary: Mapping[str, float]) -> list[dict[str, Any]]:
    """Between models: pairs contextual in exactly these models, and in both of two, of those in either.

    Args:
        pairs: Model to its table of pairs. A pair counts where every model has it.
        primary: Model to its primary temperature; the temperature of the rows is the first model's.

    Returns:
        Rows of `quantities.found` with a `model` of their own, names joined by " & ".
    """
    models, rows = list(pairs), []
    for threshold in THRESHOLDS:
        calls = {model: _at_primary(call_table(pairs[model], threshold), primary[model]) for model in models}
        systems = [key for key in _keys(calls[models[0]]) if all(key in calls[model].columns for model in models)]
        for key in systems:
            table = pd.DataFrame({model: calls[model][key] for model in models}).dropna().astype(bool)
            rows += _overlap(table, models, dict(zip(_SYSTEM, (*key, primary[models[0]]), strict=True)), threshold)
    return rows


def _at_primary(calls: pd.DataFrame, primary: float) -> pd.DataFrame:
    """The calls at the primary temperature (whole sentences: at theirs), without the temperature in their key."""
    kept = [key for key in _keys(calls) if key[3] == primary or key[0] != "choice"]
    part = calls[kept]
    part.columns = pd.MultiIndex.from_tuples([key[:3] for key in kept])
    return part


def _overlap(
    table: pd.DataFrame, models: Sequence[str], keys: Mapping[str, Any], threshold: float
) -> list[dict[str, Any]]:
    about: dict[str, Any] = {"n_rows": len(table), "rows_of": "pairs", "threshold": threshold, **keys}
    rows = []
    for size in range(1, len(models) + 1):
        for chosen in itertools.combinations(models, size):
            exactly = (table == [model in chosen for model in models]).all(axis=1).sum()
            rows.append({"model": " & ".join(chosen), **found("overlap_pairs", float(exactly), **about)})
    for one, other in itertools.combinations(models, 2):
        either = int((table[one] | table[other]).sum())
        both = int((table[one] & table[other]).sum())
        shared = both / either if either else np.nan
        note = f"{both} in both, {either} in either"
        rows.append({"model": f"{one} & {other}", **found("overlap_jaccard", shared, note=note, **about)})
    return rows
