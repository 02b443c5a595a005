"""What n draws a cell would have said of a model whose probabilities are known: false contextual calls, missed ones.

Two ways to call a pair contextual from draws are set side by side. The plain call: dC of the relative frequencies is
above 0. The honest call: the intersection-union test of `agreement_test` rejects. Both read the four agreement rates of
`RATES`, so a truth is an array of rates: that of a pair built on the boundary dC = 0, where every call is false, or
those of the pairs of a finished measurement, whose exact probabilities are taken as the truth.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from referent_probe.analysis.agreement_form import agreement_form
from referent_probe.analysis.agreement_test import (
    agreement_test,
    benjamini_hochberg,
    either_order,
    sampled_delta_c,
)
from referent_probe.analysis.behaviour.arrays import ORDERS, as_arrays
from referent_probe.analysis.behaviour.finished import FinishedRun
from referent_probe.errors import OptionError, RunError
from referent_probe.randomness import generator

DRAWS = (20, 50, 100, 200, 1000, 5000)
"""Valid draws a cell."""

LEVEL = 0.05
"""Of the honest test: of each order by itself, of the union of two (half of it each), and as false discovery rate."""

BOUNDARIES = {"equal rates": (0.5, 0.5, 0.5, 0.5), "generic boundary": (0.5, 0.95, 0.5, 0.05)}
"""Rates with dC = 0, in the order of `RATES`. In the second, sentence 2's smallest rate is sentence 1's largest, and
the two others are far away: one comparison decides. That it is a rate of 1/2 keeps ties of frequencies rare."""

CALLS = {"plain": "plain", "honest": "honest", "honest_bh": "BH"}
"""Ways to call, with their names in print: `honest_bh` is adjusted over the pairs of a data set."""

COLUMNS = ("truth", "draws", "option_order", "call", "quantity", "share", "low", "high", "count", "of", "exact")


@dataclass(frozen=True, eq=False)
class Truth:
    """Exact agreement rates of pairs, taken as what draws are made of.

    Attributes:
        model: Name of the model.
        temperature: Of the sampling that the rates are of.
        rates: `[pair, 2, 4]`: option orders as in `ORDERS`, rates as in `RATES`; 0 to 1.
        n_left_out: Pairs with a missing member or a cell without an exact probability.
    """

    model: str
    temperature: float
    rates: NDArray[np.float64]
    n_left_out: int

    @property
    def delta_c(self) -> NDArray[np.float64]:
        """Exact dC of the `steered` reading, `[pair, 2]`."""
        return np.asarray(agreement_form(*np.moveaxis(self.rates, -1, 0)))


def truth_of_run(run: FinishedRun) -> Truth:
    """The exact rates of a finished measurement, at its primary temperature.

    Args:
        run: From `behaviour.finished.read_run`.

    Raises:
        RunError: The settings cf or cm were not measured, or no pair has all its probabilities.
    """
    arrays = as_arrays(run.tables, run.model, run.temperature)
    name = repr(str(run.folder))
    missing = [setting for setting in ("cf", "cm") if setting not in arrays.settings]
    if missing:
        raise RunError(f"{name} has no {' and no '.join(missing)}: measure it with the settings c0, cf and cm")
    cf, cm = arrays.setting("cf"), arrays.setting("cm")
    p = arrays.p_share[arrays.pair_rows][..., arrays.primary]  # pair, sentence, setting, option order
    rates = np.stack([p[:, 1, cf], 1 - p[:, 1, cm], p[:, 0, cf], 1 - p[:, 0, cm]], axis=-1)
    known = np.isfinite(rates).all(axis=(1, 2))
    if not known.any():
        raise RunError(f"{name} has no pair with cf and cm in both option orders: measure whole pairs")
    return Truth(run.model, run.temperature, rates[known], int((~known).sum()) + arrays.n_broken_pairs)


def sampling_noise(
    rates: ArrayLike,
    truth: str,
    *,
    orders: tuple[str, str] = ORDERS,
    draws: Sequence[int] = DRAWS,
    n_data_sets: int = 100,
    level: float = LEVEL,
    seed: int = 0,
    notify: Callable[[str], None] = lambda message: None,
) -> pd.DataFrame:
    """Shares of false and of missed contextual calls among simulated data sets, against draws a cell.

    Args:
        rates: `[pair, 2, 4]`, true agreement rates: option orders, then the order of `RATES`; 0 to 1.
        truth: Name of the truth, for the table and the key of the randomness.
        orders: Names of the two option orders.
        draws: Valid draws a cell; other numbers do not change what one of them gives.
        n_data_sets: Simulated data sets of all pairs, for each number of draws.
        level: Of the honest test, 0 to 1/2.
        seed: Same seed, same table.
        notify: Told when a number of draws is done.

    Returns:
        `COLUMNS`, a row a number of draws, option order (or "union": at least one of the two), call of `CALLS`, and
        quantity:

        - `false_calls`: share of pairs with exact dC <= 0 that are called; `count` calls among `of` simulated pairs;
        - `missed`: share of pairs with exact dC > 0 that are not called;
        - `false_among_calls`: share of calls that are false, averaged over data sets (0 in one without calls): the
          false discovery rate. `of` data sets, no count.

        Intervals are of 95 %: Clopper-Pearson, and Student's t for the last (of two data sets or more). They say how
        exact the simulation is. A quantity of no pairs has no row, and `exact` is NaN.

    Raises:
        OptionError: The rates have another shape or are no probabilities.

    Example:
        Sentence 2 always agrees with its prime and sentence 1 never: contextual, and every call finds it.

        >>> table = sampling_noise([[[1, 1, 0, 0]] * 2], "clear", draws=[20], n_data_sets=10)
        >>> table.loc[table["quantity"] == "missed", ["option_order", "share", "of"]].drop_duplicates()
           option_order  share  of
        0            mf    0.0  10
        6            fm    0.0  10
        12        union    0.0  10
    """
    exact = np.asarray(rates, dtype=np.float64)
    if exact.ndim != 3 or exact.shape[1:] != (2, 4):
        raise OptionError(f"rates have shape {exact.shape}: give [pair, 2, 4], two option orders and four rates.")
    contextual = np.asarray(agreement_form(*np.moveaxis(exact, -1, 0))) > 0
    one, other = contextual[:, 0], contextual[:, 1]
    is_contextual = {orders[0]: one, orders[1]: other, "union": one | other}
    rows = []
    for done, n in enumerate(draws, start=1):
        # Rounding may carry a probability a little beyond 0 or 1.
        rng, p = generator(seed, "sampling noise", truth, n), np.clip(exact, 0, 1)
        calls = _calls(rng.binomial(n, p, (n_data_sets, *p.shape)), n, level, orders)
        for order, call, called in calls:
            about = {"truth": truth, "draws": n, "option_order": order, "call": call}
            rows += [about | found for found in _errors(called, is_contextual[order])]
        notify(f"{truth}: {n} draws a cell simulated ({done} of {len(draws)})")
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"count": float, "exact": float})


def plain_call_probability(rates: ArrayLike, n: int) -> float:
    """Exact probability that dC of the relative frequencies is above 0, in one option order.

    Args:
        rates: `[4]`, true agreement rates in the order of `RATES`; 0 to 1.
        n: Valid draws a cell.

    Example:
        One draw a cell: both of sentence 2 must agree and none of sentence 1, or the reverse; 2 of 16 ways.

        >>> round(plain_call_probability([0.5, 0.5, 0.5, 0.5], 1), 6)
        0.125
    """
    counts = np.arange(n + 1)[:, None]
    at_most, above = binom.cdf(counts, n, rates), binom.sf(counts, n, rates)
    total = 0.0
    for more, less in ((slice(0, 2), slice(2, 4)), (slice(2, 4), slice(0, 2))):
        largest_is = np.diff(at_most[:, less].prod(axis=1), prepend=0.0)  # of the sentence that agrees less
        total += float(largest_is @ above[:, more].prod(axis=1))
    return total


def boundary_noise(*, n_simulations: int = 2000, **options: Any) -> pd.DataFrame:
    """False calls of a pair at each of `BOUNDARIES`, in one option order and in the union of two alike.

    Args:
        n_simulations: Simulated pairs, each in two option orders, for each boundary and number of draws.
        options: `draws`, `level`, `seed` and `notify` of `sampling_noise`.

    Returns:
        Table like `sampling_noise`: `false_calls` alone, for the option orders "one" and "union" and the calls `plain`
        and `honest`. Beside the simulated share of plain calls stands the `exact` one.
    """
    tables = [
        sampling_noise([[rates] * 2], truth, orders=("one", "other"), n_data_sets=n_simulations, **options)
        for truth, rates in BOUNDARIES.items()
    ]
    table = pd.concat(tables, ignore_index=True)
    kept = (table["option_order"] != "other") & (table["call"] != "honest_bh") & (table["quantity"] == "false_calls")
    table = table[kept].reset_index(drop=True)
    one = [
        plain_call_probability(BOUNDARIES[truth], n) for truth, n in zip(table["truth"], table["draws"], strict=True)
    ]
    exact = np.where(table["option_order"] == "one", one, 1 - (1 - np.array(one)) ** 2)
    return table.assign(exact=np.where(table["call"] == "plain", exact, np.nan))


def _calls(
    agreements: NDArray[np.int64], n: int, level: float, orders: tuple[str, str]
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Option order or union, call, and whether each pair of each data set is called, `[data set, pair]`."""
    p, plain = agreement_test(agreements, n), sampled_delta_c(agreements, n) > 0
    either = (plain[..., 0] | plain[..., 1], either_order(p[..., 0], p[..., 1]))
    for order, (above, p_values) in {
        orders[0]: (plain[..., 0], p[..., 0]),
        orders[1]: (plain[..., 1], p[..., 1]),
        "union": either,
    }.items():
        yield order, "plain", above
        yield order, "honest", p_values <= level
        yield order, "honest_bh", np.stack([benjamini_hochberg(data_set) <= level for data_set in p_values])


def _errors(called: NDArray[np.bool_], contextual: NDArray[np.bool_]) -> Iterator[dict[str, Any]]:
    false, missed = called[:, ~contextual], ~called[:, contextual]
    for quantity, wrong in (("false_calls", false), ("missed", missed)):
        if wrong.size:
            count = int(wrong.sum())
            low, high = proportion_confint(count, wrong.size, method="beta")
            ends = {"low": float(low), "high": float(high)}
            yield {"quantity": quantity, "share": count / wrong.size, **ends, "count": count, "of": wrong.size}
    if len(called) > 1:
        proportions = false.sum(axis=1) / np.maximum(called.sum(axis=1), 1)
        low, high = np.clip(DescrStatsW(proportions).tconfint_mean(), 0, 1)
        share = {"share": proportions.mean(), "low": low, "high": high}
        yield {"quantity": "false_among_calls", **share, "count": np.nan, "of": len(called)}
