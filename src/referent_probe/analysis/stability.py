"""Is the ranking of heads the same elsewhere: in other occupations, cases, option orders, directions or wordings.

Two maps are compared by the rank correlation of their mean effects over all heads, with sign, and by the heads that
lead them, by size. Most heads of a map do next to nothing, and their order is noise: the correlation may be low though
the leading heads agree. Maps of few occupations agree less because they are noisier, so every comparison is read
against that of random halves.
"""

import warnings
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ConstantInputWarning, kendalltau, pearsonr, rankdata

from referent_probe.analysis.carriers import DIRECTIONS, occupation_effects
from referent_probe.analysis.held_out import halves
from referent_probe.analysis.resampling import resampled_intervals
from referent_probe.errors import OptionError
from referent_probe.randomness import generator

LEADING = 10
"""Heads that count as leading."""

SPLITS = 200
"""Random splits of the occupations into halves."""

_MEASURES = ("spearman", "low", "high", "overlap_10", "kendall_10")
_COLUMNS = ("comparison", "direction", "a", "b", "n_a", "n_b", *_MEASURES, "interval_of")
_OVER_SPLITS = f"95 % range over {SPLITS} random splits"
_OVER_OCCUPATIONS = "95 % bootstrap interval over occupations"


def ranking_stability(
    heads: pd.DataFrame, contrasts: pd.DataFrame, seed: int, others: Mapping[str, pd.DataFrame] | None = None
) -> pd.DataFrame:
    """Agreement of the ranking of heads between parts of a run, and with other runs.

    Args:
        heads: Table "heads".
        contrasts: Table "contrasts", for case and option order.
        seed: Of splits and bootstrap.
        others: Name to table "heads" of another run of the same architecture (another wording, another model).

    Returns:
        One row a comparison and direction. `comparison`: "random halves"; "split-half reliability (Spearman-Brown)",
        2r / (1 + r) of the row before, 0 where halves disagree: what two maps of as many occupations each would be
        expected to correlate by; "case", "option order", "run"; and "direction", once. `direction`; `a` and `b`, what
        is compared; `spearman`, -1 to 1, with `low`, `high` and `interval_of`, what these are over: of the halves mean
        and range, else estimate and percentile bootstrap interval, in which occupations that both sides share are
        resampled together. Resampling adds noise to both maps, so such an interval leans towards 0 and is widened to
        hold its estimate. `overlap_10`: share of the ten leading heads (largest |mean|) that both have, 0 to 1.
        `kendall_10`: Kendall's tau-b of the places of the heads that lead either, -1 to 1, places beyond ten tied.
        Both are nan with ten heads or fewer, or heads all of one size: none leads. `n_a` and `n_b` count occupations.

    Raises:
        OptionError: Another run has other layers and heads.

    Source: Spearman 1904; Spearman 1910 and Brown 1910 on halves; Fagin, Kumar and Sivakumar 2003, Comparing top k
    lists (neutral ties).

    Example:
        A run compared with itself under `others` has `spearman` and `overlap_10` 1.
    """
    whole = occupation_effects(heads)
    rows = [row for direction in DIRECTIONS for row in _halves(whole[[direction]], direction, seed)]
    of_contrast = contrasts.set_index("contrast")
    pairs: list[tuple[str, str, pd.DataFrame, str, pd.DataFrame]] = []
    for comparison, column in (("case", "case"), ("option order", "option_order")):
        values = heads["contrast"].map(of_contrast[column])
        parts = {str(value): occupation_effects(part) for value, part in heads.groupby(values)}
        pairs += [(comparison, a, parts[a], b, parts[b]) for a, b in combinations(sorted(parts), 2)]
    for name, other in (others or {}).items():
        effects = occupation_effects(other)
        if not effects.columns.equals(whole.columns):
            raise OptionError(
                f"run {name!r} has {effects.shape[1] // 2} heads, this one {whole.shape[1] // 2}, or in other layers: "
                "give a run of the same architecture"
            )
        pairs.append(("run", "this run", whole, name, effects))
    for comparison, name_a, a, name_b, b in pairs:
        for direction in DIRECTIONS:
            names = {"comparison": comparison, "direction": direction, "a": name_a, "b": name_b}
            rows.append(names | _agreement(a[[direction]], b[[direction]], seed))
    first, second = DIRECTIONS
    names = {"comparison": "direction", "direction": f"{first} and {second}", "a": first, "b": second}
    rows.append(names | _agreement(whole[[first]], whole[[second]], seed))
    return pd.DataFrame(rows)[list(_COLUMNS)]


def agreement_of_runs(heads: pd.DataFrame, other: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Agreement of two runs' rankings of the same heads, a row a direction; columns as in `ranking_stability`.

    Args:
        heads: Table "heads" of one run.
        other: That of another run of the same architecture.
        seed: Of the bootstrap.
    """
    a, b = occupation_effects(heads), occupation_effects(other)
    return pd.DataFrame(
        [{"direction": direction, **_agreement(a[[direction]], b[[direction]], seed)} for direction in DIRECTIONS]
    )


def _halves(effects: pd.DataFrame, direction: str, seed: int) -> list[dict[str, object]]:
    """Two rows: correlation of random halves, and what it says of all occupations; `[n_occupations, n_heads]`."""
    n, maps = len(effects), effects.to_numpy(dtype=np.float64)
    spearman, overlap, kendall = np.full((3, SPLITS), np.nan)
    if n >= 2:
        seeds = generator(seed, "random halves").integers(2**32, size=SPLITS).tolist()
        in_first = np.array([effects.index.isin(halves(effects.index, own)[0]) for own in seeds], dtype=np.float64)
        means = [chosen @ maps / chosen.sum(axis=1, keepdims=True) for chosen in (in_first, 1 - in_first)]
        spearman = _spearman(*means)
        leading = np.array([_leading(a, b) for a, b in zip(*means, strict=True)])
        overlap, kendall = leading.T
    found = np.array([spearman.mean(), *np.quantile(spearman, [0.025, 0.975])])
    agreeing = np.where(found < 0, 0.0, found)  # a reliability is a share of variance; nan stays
    reliability = 2 * agreeing / (1 + agreeing)
    about = {"direction": direction, "interval_of": _OVER_SPLITS}
    of_halves = {"a": "half", "b": "other half", "n_a": n // 2, "n_b": n - n // 2}
    of_all = {"a": "all occupations", "b": "as many others", "n_a": n, "n_b": n}
    rows = [
        ("random halves", of_halves, [*found, overlap.mean(), kendall.mean()]),
        ("split-half reliability (Spearman-Brown)", of_all, [*reliability, np.nan, np.nan]),
    ]
    return [
        {"comparison": comparison, **about, **sides, **dict(zip(_MEASURES, map(float, numbers), strict=True))}
        for comparison, sides, numbers in rows
    ]


def _agreement(a: pd.DataFrame, b: pd.DataFrame, seed: int) -> dict[str, object]:
    """The numbers of a row, from `[n_occupations, n_heads]` each; the occupations need not be the same."""
    occupations = a.index.union(b.index)
    effects = [side.reindex(occupations, fill_value=0.0).to_numpy(dtype=np.float64) for side in (a, b)]

    def statistic(times: NDArray[np.int_]) -> NDArray[np.float64]:
        return _spearman(*(times @ side for side in effects))[None]  # sums rank as means do; nan where nothing is drawn

    [found] = resampled_intervals(statistic, len(occupations), seed=seed, unit="rho")
    overlap, kendall = _leading(a.mean().to_numpy(), b.mean().to_numpy())
    return {
        "spearman": found.mean,
        "low": found.low,
        "high": found.high,
        "interval_of": _OVER_OCCUPATIONS,
        "overlap_10": overlap,
        "kendall_10": kendall,
        "n_a": len(a),
        "n_b": len(b),
    }


def _spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every row of a with the same row of b, `[n_maps, n_heads]` each; nan where a row is constant or nan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        return np.asarray(pearsonr(rankdata(a, axis=1), rankdata(b, axis=1), axis=1).statistic)


def _leading(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    """Overlap and tau-b of the leading heads of two maps, `[n_heads]` each."""
    sizes = np.abs([a, b])
    if len(a) <= LEADING or not np.ptp(sizes, axis=1).all():
        return float("nan"), float("nan")
    places = rankdata(-sizes, axis=1, method="ordinal")
    leads = places <= LEADING
    in_either = leads.any(axis=0)
    tau = kendalltau(*np.minimum(places[:, in_either], LEADING + 1)).statistic
    return float(leads.all(axis=0).sum() / LEADING), float(tau)
