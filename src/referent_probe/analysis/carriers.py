"""Which heads carry the priming pronoun's effect: intervals over occupations, and claims corrected for all heads.

A head is called a carrier in a direction when (1) its mean effect differs from zero by a max-t sign-flip test over all
heads and both directions, and (2) the mean is at least a smallest effect of interest: exact arithmetic makes tiny
consistent effects significant. The smallest effect of interest is a share of the total effect, measured by its root
mean square over contrasts; where all contrasts agree that is the mean, and where they cancel it does not shrink to
nothing. Under six occupations no sign-flip test can reach 5 %, and no head is called anything.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import bootstrap

from referent_probe.analysis.inference import (
    Interval,
    bootstrap_intervals,
    cluster_bootstrap_interval,
    cluster_means,
    max_t_sign_flip,
)
from referent_probe.randomness import generator

FEWEST_OCCUPATIONS = 6  # for a claim about heads
ENOUGH_OCCUPATIONS = 10  # under these a bootstrap interval covers less than it promises
ROUNDING = 1e-3  # logits; ten times what the self-check lets pass in float32
DIRECTIONS = ("denoise", "noise")
_ATTRIBUTIONS = ("attention_to_prime", "direct_logit_attribution", "prime_attribution")


@dataclass(frozen=True)
class CarrierRule:
    """What it takes to be called a carrier.

    Attributes:
        level: Of the family-wise test over all heads and both directions, 0 to 1.
        smallest_share: Smallest effect of interest, as a share of the total effect's root mean square, 0 to 1.
    """

    level: float = 0.05
    smallest_share: float = 0.01


def total_effect(contrasts: pd.DataFrame, seed: int) -> Interval:
    """Mean total effect over occupations, in logits, with a 95 % bootstrap interval.

    Args:
        contrasts: Table "contrasts", rows with a reason in `left_out` not counted.
        seed: Of the bootstrap.
    """
    used = contrasts[contrasts["left_out"].isna()]
    return cluster_bootstrap_interval(used["total_effect"], list(used["occupation"]), seed=seed)


def smallest_effect(contrasts: pd.DataFrame, rule: CarrierRule) -> float:
    """Smallest effect of interest, in logits; never below `ROUNDING`, where rounding may pass for an effect.

    Example:
        Total effects of +1 and -1 logit and a share of 0.01 give 0.01, not 0.
    """
    share = rule.smallest_share * np.sqrt((contrasts["total_effect"].dropna() ** 2).mean())
    return float(max(share, ROUNDING))


def occupation_effects(heads: pd.DataFrame) -> pd.DataFrame:
    """Mean effects of every head in every occupation, in logits: what is resampled and sign-flipped.

    Args:
        heads: Table "heads"; the effects and whose they are, are read.

    Returns:
        `[n_occupations, 2 * n_heads]`: occupations sorted, columns (direction, layer, head), denoise first.

    Raises:
        ValueError: A head lacks a contrast, or an effect is not finite.

    Example:
        >>> occupation_effects(pd.DataFrame({"contrast": ["a", "b"], "occupation": "cook", "layer": 0, "head": 1,
        ...     "denoise": [1.0, 2.0], "noise": [0.0, 4.0]})).loc["cook"].tolist()
        [1.5, 2.0]
    """
    ordered = heads.sort_values(["contrast", "layer", "head"])
    cells = ordered.pivot(index=["contrast", "occupation"], columns=["layer", "head"], values=list(DIRECTIONS))
    occupations = list(cells.index.get_level_values("occupation"))
    means = cluster_means(cells.to_numpy(dtype=np.float64), occupations)
    return pd.DataFrame(means, index=pd.Index(sorted(set(occupations)), name="occupation"), columns=cells.columns)


def called_carriers(
    effects: ArrayLike, smallest: float, rule: CarrierRule, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The rule itself: which cells (head and direction) differ from zero and are large enough.

    Args:
        effects: `[n_occupations, n_cells]`, as `occupation_effects` gives them; the test is over all of these cells.
        smallest: From `smallest_effect`.
        rule: What a carrier is.
        seed: Of the sign flips.

    Returns:
        p values adjusted over the cells, NaN under six occupations, and which cells are called; both `[n_cells]`.

    Example:
        >>> p, called = called_carriers([[1.0, 0.001]] * 6, 0.01, CarrierRule(), seed=0)
        >>> p.tolist(), called.tolist()
        ([0.03125, 0.03125], [True, False])
    """
    cells = np.asarray(effects, dtype=np.float64)
    if len(cells) < FEWEST_OCCUPATIONS:
        return np.full(cells.shape[1], np.nan), np.zeros(cells.shape[1], dtype=bool)
    p_values = max_t_sign_flip(cells, seed=seed)
    return p_values, (p_values <= rule.level) & (np.abs(cells.mean(axis=0)) >= smallest)


def head_effects(heads: pd.DataFrame, smallest: float, rule: CarrierRule, seed: int) -> pd.DataFrame:
    """One row a head: effects in both directions, attention, attribution, and whether it is a carrier.

    Args:
        heads: Table "heads".
        smallest: From `smallest_effect`.
        rule: What a carrier is.
        seed: Of bootstrap and sign flips.

    Returns:
        Columns `layer`, `head`; for each of `denoise`, `noise`, `attention_to_prime`, `direct_logit_attribution`,
        `prime_attribution` the columns `_mean`, `_low`, `_high` (95 % over occupations; logits, attention 0 to 1);
        `denoise_p_max_t`, `noise_p_max_t` (NaN under six occupations); `carrier` (none, denoise, noise or both).
        The attributions are those of the cf run less those of the cm run, attention is their mean.

    Example:
        With 270 heads the p values are corrected for 540 tests.
    """
    wide = heads.sort_values(["contrast", "layer", "head"])
    for name in _ATTRIBUTIONS:
        feminine, masculine = wide[f"{name}_cf"], wide[f"{name}_cm"]
        wide[name] = (feminine + masculine) / 2 if name == "attention_to_prime" else feminine - masculine
    names = [*DIRECTIONS, *_ATTRIBUTIONS]
    cells = wide.pivot(index=["contrast", "occupation"], columns=["layer", "head"], values=names)
    occupations = list(cells.index.get_level_values("occupation"))
    table: pd.DataFrame = cells["denoise"].columns.to_frame(index=False)
    for name in names:
        values = cells[name].to_numpy(dtype=np.float64)
        known = bool(np.isfinite(values).all())
        interval = bootstrap_intervals(cluster_means(values, occupations), seed=seed) if known else None
        for part in ("mean", "low", "high"):
            table[f"{name}_{part}"] = np.nan if interval is None else interval[part].to_numpy()
    table["carrier"] = "none"
    p_values, called = called_carriers(occupation_effects(heads), smallest, rule, seed)
    in_denoising, in_noising = np.split(called, 2)
    table["denoise_p_max_t"], table["noise_p_max_t"] = np.split(p_values, 2)
    table.loc[in_denoising, "carrier"] = "denoise"
    table.loc[in_noising, "carrier"] = "noise"
    table.loc[in_denoising & in_noising, "carrier"] = "both"
    return table


def flow_effects(flow: pd.DataFrame, contrasts: pd.DataFrame) -> pd.DataFrame:
    """One row a layer and span: mean effect of patching the span's residual stream, with its range.

    So few pairs are swept that there is no interval; the smallest and the largest effect of any contrast stand instead.

    Args:
        flow: Table "flow".
        contrasts: Table "contrasts".

    Returns:
        Columns `layer`, `span`, `effect_mean`, `effect_min`, `effect_max`, `total_mean` (mean total effect of the
        same contrasts) in logits, `n_contrasts`, `n_occupations`, `reason`. Spans in the order of the prompt.
    """
    totals = contrasts.set_index("contrast")["total_effect"]
    joined = flow.assign(total=flow["contrast"].map(totals))
    order = joined.groupby("span")["span_position"].mean().sort_values().index
    grouped = joined.groupby(["span", "layer"])
    table = grouped.agg(
        effect_mean=("effect", "mean"),
        effect_min=("effect", "min"),
        effect_max=("effect", "max"),
        total_mean=("total", "mean"),
        n_contrasts=("contrast", "nunique"),
        n_occupations=("occupation", "nunique"),
        reason=("reason", "first"),
    ).reset_index()
    table["place"] = table["span"].map({span: i for i, span in enumerate(order)})
    return table.sort_values(["place", "layer"]).drop(columns="place").reset_index(drop=True)


def effects_by(contrasts: pd.DataFrame, column: str, seed: int) -> dict[str, Interval]:
    """Total effect within each value of a column, e.g. case or option order: opposite effects cancel in the mean."""
    used = contrasts[contrasts["left_out"].isna()]
    return {str(value): total_effect(part, seed) for value, part in used.groupby(column)}


def carried(
    heads: pd.DataFrame, head_table: pd.DataFrame, contrasts: pd.DataFrame, direction: str, seed: int
) -> tuple[Interval | None, Interval | None]:
    """Sum of the carriers' single effects, in logits and as a share of the total effect, over occupations.

    A sum of single effects, not the effect of all together: heads can act through one another, so that the share may
    lie below 0 or above 1.

    Args:
        heads: Table "heads".
        head_table: From `head_effects`.
        contrasts: Table "contrasts".
        direction: "denoise" or "noise".
        seed: Of the bootstrap.

    Returns:
        None and None without carriers; the share is None where the total effect's interval covers 0.
    """
    named = head_table.loc[head_table["carrier"].isin([direction, "both"]), ["layer", "head"]]
    if named.empty:
        return None, None
    chosen = heads.merge(named, on=["layer", "head"])
    sums = chosen.groupby(["contrast", "occupation"], as_index=False)[direction].sum()
    total = sums["contrast"].map(contrasts.set_index("contrast")["total_effect"])
    occupations = list(sums["occupation"])
    added = cluster_bootstrap_interval(sums[direction], occupations, seed=seed)
    whole = total_effect(contrasts, seed)
    if not (whole.low > 0 or whole.high < 0):
        return added, None
    means = cluster_means(np.column_stack([sums[direction], total]), occupations)
    return added, share_of_total(means[:, 0], means[:, 1], generator(seed, "carried", direction))


def share_of_total(effects: NDArray[np.float64], totals: NDArray[np.float64], rng: np.random.Generator) -> Interval:
    """Ratio of two means over occupations, which are resampled together: a percentile bootstrap interval of 95 %.

    Of use only where the interval of the mean total effect leaves 0 out; near 0 a ratio has no interval.

    Args:
        effects: `[n_occupations]`, mean effect in each, in logits; at least two.
        totals: `[n_occupations]`, mean total effect in each, in logits.
        rng: Of the bootstrap.

    Source: Efron and Tibshirani 1993, An introduction to the bootstrap, 10.3 and 13.3.

    Example:
        >>> str(share_of_total(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]), np.random.default_rng(0)))
        '0.500 [0.500, 0.500] share of the total effect, n = 3 occupations'
    """

    def ratio(a: NDArray[np.float64], b: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
        return np.asarray(a.mean(axis=axis) / b.mean(axis=axis))

    drawn = bootstrap((effects, totals), ratio, paired=True, vectorized=True, method="percentile", rng=rng)
    low, high = map(float, drawn.confidence_interval)
    return Interval(float(ratio(effects, totals)), low, high, len(effects), "share of the total effect")
