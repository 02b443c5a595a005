"""The two sentences of a pair as a system of contexts: dC and what stands beside it, a row a pair.

Single-blank prompts and whole sentences give `self_primed` and `steered` (and, for comparison, `released` and
`printed`); prompts with both blanks give `joint`, which is primary, and its rank-4 form. Where option order is averaged
out ("both"), probabilities or tables are averaged before dC is taken: the order is a coin.
"""

import itertools
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.analysis.behaviour.arrays import ORDERS, Arrays, gridded
from referent_probe.analysis.behaviour.shifts import LogOdds, sigmoid
from referent_probe.analysis.behaviour.single_blank import contextuality_of
from referent_probe.analysis.contextuality import (
    THRESHOLDS,
    Estimator,
    cyclic_delta_c,
    delta_c_joint_parts,
)
from referent_probe.analysis.joint_tables import (
    list_order_cycle,
    log_odds_ratio_difference,
    qq_statistic,
)

CALLS = tuple(f"contextual_{threshold:g}" for threshold in THRESHOLDS)
"""Columns of the table of pairs that say whether dC is above each threshold."""

COLUMNS = (
    "model",
    "reading",
    "pair",
    "occupation",
    "participant",
    "case",
    "estimator",
    "option_order",
    "temperature",
    "delta_c",
    "correlation_difference",
    "signalling",
    *CALLS,
    "u_minus_v",
    "log_odds_ratio_difference",
    "qq",
    "unexplored",
    "p",
    "p_adjusted",
)
"""Of the table of pairs."""

ESTIMATORS = (
    "joint",
    "self_primed",
    "steered",
    "released",
    "printed",
    "joint_rank_4_o1",
    "joint_rank_4_o2",
    "joint_rank_4",
)
"""All, in the order of tables; the last is the union of the two before it, over sentence orders."""


def single_blank_pairs(run: Arrays) -> pd.DataFrame:
    """Pairs by `self_primed`, `steered`, `released` and `printed`: either option order and both, every temperature.

    Without c0, cf or cm there are no rows.
    """
    if not {"c0", "cf", "cm"} <= set(run.settings):
        return _no_pairs()
    wanted = [run.setting(name) for name in ("c0", "cf", "cm")]
    p = np.moveaxis(run.p_share[run.pair_rows][:, :, wanted], 2, -1)  # pair, sentence, order, temperature, setting
    bounds = run.probabilities["unexplored"][run.pair_rows][:, :, wanted].max(axis=(1, 2))  # pair, order, temperature
    pieces = []
    for order, (i, temperature) in itertools.product((*ORDERS, "both"), enumerate(run.temperatures)):
        place = ORDERS.index(order) if order in ORDERS else slice(None)
        six = p[:, :, place, i] if order in ORDERS else p[:, :, :, i].mean(axis=2)
        bound = bounds[:, place, i] if order in ORDERS else bounds[:, :, i].max(axis=1)
        for estimator in get_args(Estimator):
            columns = contextuality_of(six, estimator=estimator)
            keys = {"estimator": estimator, "option_order": order, "temperature": temperature}
            pieces.append(_rows(run, columns | {"unexplored": bound}, keys))
    return pd.concat(pieces, ignore_index=True)


def sentence_pairs(run: Arrays, odds: LogOdds) -> pd.DataFrame:
    """Pairs by `self_primed` and `steered` from whole-sentence scores, T = 1; no option order."""
    if not {"c0", "cf", "cm"} <= set(odds.settings):
        return _no_pairs()
    wanted = [odds.settings.index(name) for name in ("c0", "cf", "cm")]
    six = sigmoid(odds.values[run.pair_rows][:, :, wanted, 0])
    pieces = []
    for estimator in ("self_primed", "steered"):
        columns = contextuality_of(six, estimator=estimator, reading=odds.reading)
        keys = {"estimator": estimator, "option_order": "none", "temperature": 1.0}
        pieces.append(_rows(run, columns, keys, reading=odds.reading))
    return pd.concat(pieces, ignore_index=True)


def joint_pairs(run: Arrays) -> pd.DataFrame:
    """Pairs by `joint`, both lists in the same order or averaged over all four, and rank 4 in either sentence order.

    The rank-4 contents are a sentence in its own option order; its estimators are `joint_rank_4_o1` (sentence 1 comes
    first) and `joint_rank_4_o2`. Whole pairs of the choices only.

    Raises:
        RunError: A row comes twice.
    """
    table = run.tables["joint"]
    table = table[table["pair"].isin(set(run.pairs["pair"]))]
    if table.empty:
        return _no_pairs()
    keys = ["pair", "sentence_order", "option_order_1", "option_order_2", "temperature"]
    temperatures = tuple(sorted(float(t) for t in table["temperature"].unique()))
    axes = (tuple(run.pairs["pair"]), (1, 2), ORDERS, ORDERS, temperatures)
    cells = ["p_ff", "p_fm", "p_mf", "p_mm"]
    arrays = gridded(table, keys, axes, [*cells, "unexplored"], f"joint answers of {run.model!r}")
    joint = np.stack([arrays[cell] for cell in cells], axis=-1).reshape(*arrays["p_ff"].shape, 2, 2)
    pieces = []
    for i, temperature in enumerate(temperatures):
        at, bounds = joint[:, :, :, :, i], arrays["unexplored"][..., i]
        for order in (*ORDERS, "both"):
            place = ORDERS.index(order) if order in ORDERS else 0
            tables = at.mean(axis=(2, 3)) if order == "both" else at[:, :, place, place]
            bound = bounds.max(axis=(1, 2, 3)) if order == "both" else bounds[:, :, place, place].max(axis=1)
            columns = _joint_columns(tables[:, 0], tables[:, 1]) | {"unexplored": bound}
            pieces.append(
                _rows(run, columns, {"estimator": "joint", "option_order": order, "temperature": temperature})
            )
        for sentence_order in (1, 2):
            one = at[:, sentence_order - 1]
            correlations, marginals = list_order_cycle(one)
            dc = np.asarray(cyclic_delta_c(correlations, marginals))
            signalling = np.abs(marginals[..., 0] - marginals[..., 1]).sum(axis=-1)
            columns = {
                "delta_c": dc,  # and in place of the first term, s_odd - 2
                "correlation_difference": dc + signalling,
                "signalling": signalling,
                "unexplored": bounds[:, sentence_order - 1].max(axis=(1, 2)),
            }
            estimator = f"joint_rank_4_o{sentence_order}"
            keys_4 = {"estimator": estimator, "option_order": "both", "temperature": temperature}
            pieces.append(_rows(run, columns, keys_4))
    return pd.concat(pieces, ignore_index=True)


def _joint_columns(o1: NDArray[np.float64], o2: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    parts = delta_c_joint_parts(o1, o2)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Rows of o1 are the answers to sentence 1, which comes first there; columns of o2 those to sentence 2.
        second = o1[:, :, 0] / o1.sum(axis=2)
        first = o2[:, 0, :] / o2.sum(axis=1)
    return {
        "delta_c": np.asarray(parts.delta_c),
        "correlation_difference": np.asarray(parts.correlation_difference),
        "signalling": np.asarray(parts.signalling),
        "u_minus_v": (second[:, 0] - second[:, 1]) - (first[:, 0] - first[:, 1]),
        "log_odds_ratio_difference": np.asarray(log_odds_ratio_difference(o1, o2)),
        "qq": np.asarray(qq_statistic(o1, o2)),
    }


def _rows(
    run: Arrays, columns: dict[str, NDArray[np.float64]], keys: dict[str, Any], reading: str = "choice"
) -> pd.DataFrame:
    """One row a pair; a call is null where dC is missing."""
    table = run.pairs.assign(model=run.model, reading=reading, **keys, **columns)
    for name, threshold in zip(CALLS, THRESHOLDS, strict=True):
        dc = table["delta_c"]
        table[name] = (dc > threshold).astype("boolean").mask(dc.isna())
    missing = {name: np.nan for name in COLUMNS if name not in table.columns}
    return table.assign(**missing)[list(COLUMNS)]


def _no_pairs() -> pd.DataFrame:
    return pd.DataFrame(columns=list(COLUMNS))
