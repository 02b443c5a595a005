"""What the draws say: how many are answers, whether they fit the exact probabilities, and the honest test of dC > 0."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom

from referent_probe.analysis.agreement_test import agreement_test, benjamini_hochberg, either_order, sampled_delta_c
from referent_probe.analysis.behaviour.arrays import ORDERS, Arrays, gridded
from referent_probe.analysis.behaviour.clustered import clustered_means, share_interval
from referent_probe.analysis.behaviour.quantities import found
from referent_probe.analysis.behaviour.systems import COLUMNS
from referent_probe.errors import RunError

LEVEL = 0.05
"""Of the test, as false discovery rate over pairs."""

ESTIMATOR = "steered_sampled"
"""Name of the reading in the tables: dC of `steered` from relative frequencies."""


def draw_counts(run: Arrays) -> tuple[dict[str, NDArray[np.float64]], float] | None:
    """n, n_feminine, n_masculine as `[template, setting, option order]`, and their temperature; None without draws.

    Raises:
        RunError: Draws at several temperatures, a row that comes twice, or one that the choices lack.
    """
    table = run.tables["draws"]
    if table.empty:
        return None
    temperatures = table["temperature"].unique()
    if len(temperatures) > 1:
        raise RunError(f"the run of {run.model!r} has draws at {len(temperatures)} temperatures: measure it again")
    axes = (tuple(run.templates["template"]), run.settings, ORDERS)
    keys, columns = ["template", "setting", "option_order"], ["n", "n_feminine", "n_masculine"]
    return gridded(table, keys, axes, columns, f"draws of {run.model!r}"), float(temperatures[0])


def draw_quantities(run: Arrays, seed: int) -> list[dict[str, Any]]:
    """Valid draws by setting and order, and the share of cells outside the central 99 % of their exact p(f|c)."""
    counted = draw_counts(run)
    if counted is None:
        return []
    counts, temperature = counted
    valid = counts["n_feminine"] + counts["n_masculine"]
    drawn = np.isfinite(counts["n"])
    rows = [
        found(
            "draws_per_cell",
            float(valid[drawn].mean()),
            n_rows=int(drawn.sum()),
            rows_of="cells",
            n_left_out=int((valid[drawn] == 0).sum()),
            temperature=temperature,
            note=f"{int(valid[drawn].min())} to {int(valid[drawn].max())}; left out: cells without a valid draw",
        )
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = valid / counts["n"]
    occupations = run.templates["occupation"].to_numpy()
    means = clustered_means(share.reshape(len(share), -1), occupations, seed=seed, unit="share of draws")
    for mean, (setting, order) in zip(means, [(s, o) for s in run.settings for o in ORDERS], strict=True):
        keys: dict[str, Any] = {"setting": setting, "option_order": order, "temperature": temperature}
        about: dict[str, Any] = {"rows_of": "templates", "n_left_out": mean.n_left_out}
        rows.append(found("draws_valid_share", mean.interval, n_rows=mean.n_rows, **about, **keys))
    if temperature in run.temperatures:
        exact = run.p_share[..., run.temperatures.index(temperature)]
        known = np.isfinite(exact) & (valid > 0)
        k, n, p = counts["n_feminine"][known], valid[known], exact[known]
        outside = (binom.cdf(k, n, p) < 0.005) | (binom.sf(k - 1, n, p) < 0.005)
        note = f"{int(outside.sum())} cells; at most 1 % are expected"
        share_outside = float(outside.mean()) if outside.size else np.nan
        about = {"n_rows": outside.size, "rows_of": "cells", "n_left_out": int(known.size - known.sum()), "note": note}
        rows.append(found("draws_outside_99", share_outside, **about, temperature=temperature))
    return rows


def sampled_pairs(run: Arrays) -> pd.DataFrame:
    """Pairs by dC of relative frequencies, with the intersection-union p and its adjustment over pairs, either order.

    No rows without draws, or without draws in cf and cm. A pair with a cell without valid draw has NaN.
    """
    counted = draw_counts(run)
    if counted is None or not {"cf", "cm"} <= set(run.settings):
        return pd.DataFrame(columns=list(COLUMNS))
    counts, temperature = counted
    cf, cm = run.setting("cf"), run.setting("cm")
    pieces = []
    for i, order in enumerate(ORDERS):
        f, m = (np.nan_to_num(counts[name][run.pair_rows][..., i]) for name in ("n_feminine", "n_masculine"))
        # How often each sentence agrees with its prime: sentence 2 then 1, feminine then masculine prime.
        agreements = np.stack([f[:, 1, cf], m[:, 1, cm], f[:, 0, cf], m[:, 0, cm]], axis=-1)
        n = np.stack([(f + m)[:, sentence, at] for sentence, at in ((1, cf), (1, cm), (0, cf), (0, cm))], axis=-1)
        if not n.any():
            continue
        p = agreement_test(agreements, n)
        columns = {"delta_c": sampled_delta_c(agreements, n), "p": p, "p_adjusted": benjamini_hochberg(p)}
        about = {"model": run.model, "reading": "choice", "estimator": ESTIMATOR, "option_order": order}
        pieces.append(run.pairs.assign(**about, temperature=temperature, **columns).reindex(columns=list(COLUMNS)))
    return pd.concat(pieces, ignore_index=True) if pieces else pd.DataFrame(columns=list(COLUMNS))


def verdict_quantities(pairs: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """Share of pairs that the test rejects and that the plain call (dC > 0) names; either order and their union.

    Args:
        pairs: From `sampled_pairs`.
        seed: Of the intervals over occupations.
    """
    if pairs.empty:
        return []
    temperature = float(pairs["temperature"].iloc[0])
    by_order = {order: part.set_index("pair") for order, part in pairs.groupby("option_order")}
    parts = {order: (part["p_adjusted"], part["delta_c"], part["occupation"]) for order, part in by_order.items()}
    if len(by_order) == 2:
        one, other = (by_order[order] for order in ORDERS)
        p = pd.Series(benjamini_hochberg(either_order(one["p"], other["p"])), index=one.index)
        largest = one["delta_c"].where(one["delta_c"] > other["delta_c"], other["delta_c"])
        parts["union"] = (p, largest.where(one["delta_c"].notna() & other["delta_c"].notna()), one["occupation"])
    rows = []
    for order, (p_values, dc, occupation) in parts.items():
        cells = [(p_values <= LEVEL).where(p_values.notna()), (dc > 0).where(dc.notna())]
        table = np.stack([cell.to_numpy(dtype=float) for cell in cells], axis=1)
        means = clustered_means(table, occupation.to_numpy(), seed=seed, unit="share of pairs")
        named = (("test_rejected_share", LEVEL, "Benjamini-Hochberg over pairs"), ("plain_call_share", 0.0, None))
        for (quantity, threshold, note), mean in zip(named, means, strict=True):
            about: dict[str, Any] = {"n_rows": mean.n_rows, "rows_of": "pairs", "n_left_out": mean.n_left_out}
            about |= {"option_order": str(order), "temperature": temperature, "estimator": ESTIMATOR}
            rows.append(found(quantity, share_interval(mean.interval), note=note, threshold=threshold, **about))
    return rows
