"""What is answered in each context setting, and how far that lies from the unprimed answer."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from referent_probe.analysis.behaviour.arrays import ORDERS, Arrays
from referent_probe.analysis.behaviour.clustered import RESAMPLES, clustered_means
from referent_probe.analysis.behaviour.quantities import found
from referent_probe.analysis.divergence import DRAWS, divergence_from_unprimed, largest_smoothed_kl_bits
from referent_probe.analysis.inference import Interval


def answer_quantities(run: Arrays, seed: int) -> list[dict[str, Any]]:
    """Mean p(f|c), validity, they, other and order effect: every setting and temperature, with interval.

    In option order "both" a template counts twice, once an order.
    """
    occupations = run.templates["occupation"].to_numpy()
    rows = []
    keys = list(itertools.product(run.settings, ORDERS, run.temperatures))
    keys_both = list(itertools.product(run.settings, ["both"], run.temperatures))
    for quantity, array in (
        ("p_feminine_share", run.p_share),
        ("p_valid", run.p_valid),
        ("p_they", run.probabilities["p_they"]),
        ("p_other", run.probabilities["p_other"]),
    ):
        options: dict[str, Any] = {"seed": seed, "unit": "probability"}
        single = clustered_means(array.reshape(len(array), -1), occupations, **options)
        pooled = stacked(array)
        both = clustered_means(pooled.reshape(len(pooled), -1), np.tile(occupations, 2), **options)
        for (setting, order, temperature), mean in zip([*keys, *keys_both], [*single, *both], strict=True):
            rows.append(
                found(
                    quantity,
                    mean.interval,
                    n_rows=mean.n_rows,
                    rows_of="prompts" if order == "both" else "templates",
                    n_left_out=mean.n_left_out,
                    setting=setting,
                    option_order=order,
                    temperature=temperature,
                )
            )
    for i, temperature in enumerate(run.temperatures):
        bounds = run.probabilities["unexplored"][..., i]
        known = bounds[np.isfinite(bounds)]
        worst = float(known.max()) if known.size else np.nan
        rows.append(found("unexplored_largest", worst, n_rows=known.size, rows_of="prompts", temperature=temperature))
    return rows + _order_effects(run, seed)


def stacked(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Both option orders below each other: `[template, setting, order, …]` to `[2 template, setting, …]`."""
    return np.concatenate([array[:, :, order] for order in range(len(ORDERS))])


def _order_effects(run: Arrays, seed: int) -> list[dict[str, Any]]:
    difference = run.p_share[:, :, 0] - run.p_share[:, :, 1]
    flat = difference.reshape(len(difference), -1)
    keys = list(itertools.product(run.settings, run.temperatures))
    rows = []
    for quantity, cells in ("order_effect_absolute", np.abs(flat)), ("order_effect_signed", flat):
        means = clustered_means(cells, run.templates["occupation"].to_numpy(), seed=seed, unit="probability")
        for (setting, temperature), mean in zip(keys, means, strict=True):
            rows.append(
                found(
                    quantity,
                    mean.interval,
                    n_rows=mean.n_rows,
                    rows_of="templates",
                    n_left_out=mean.n_left_out,
                    setting=setting,
                    temperature=temperature,
                )
            )
    return rows


def divergence_quantities(run: Arrays, seed: int) -> list[dict[str, Any]]:
    """KL from c0 of every other setting, option order and temperature: exact mean, exact median, expected smoothed.

    The null and the referent-only primes have real divergences here, too.
    """
    if "c0" not in run.settings:
        return []
    occupations, base = run.templates["occupation"].to_numpy(), run.setting("c0")
    p, pooled = run.p_share, stacked(run.p_share)
    rows = []
    for setting, order, (i, temperature) in itertools.product(
        run.settings, (*ORDERS, "both"), enumerate(run.temperatures)
    ):
        if setting == "c0":
            continue
        at = run.setting(setting)
        if order == "both":
            here, there, clusters = pooled[:, at, i], pooled[:, base, i], np.tile(occupations, 2)
        else:
            place = ORDERS.index(order)
            here, there, clusters = p[:, at, place, i], p[:, base, place, i], occupations
        kl = divergence_from_unprimed(here, there, clusters.tolist(), n_resamples=RESAMPLES, seed=seed)
        keys: dict[str, Any] = {"setting": setting, "option_order": order, "temperature": temperature}
        rows_of = "prompts" if order == "both" else "templates"
        cap = f"{DRAWS} draws a cell, at most {largest_smoothed_kl_bits():.3f} bits"
        infinite = f"{kl.n_infinite} infinite ones left out" if kl.n_infinite else None
        for quantity, interval, absent, note in (
            ("kl_exact_mean", kl.exact_mean, kl.n_infinite, infinite),
            ("kl_exact_median", kl.exact_median, 0, _no_end(kl.exact_median)),
            ("kl_smoothed_mean", kl.smoothed_mean, 0, cap),
        ):
            rows.append(
                found(
                    quantity,
                    interval,
                    n_rows=kl.n_templates - absent,
                    rows_of=rows_of,
                    n_left_out=kl.n_left_out + absent,
                    note=note,
                    **keys,
                )
            )
    return rows


def _no_end(median: Interval) -> str | None:
    if not math.isinf(median.high):
        return None
    where = "in half of the cells and more" if math.isinf(median.mean) else "in over 2.5 % of the resamples"
    return f"infinite {where}: an option has probability 0 unprimed and not with the prime"
