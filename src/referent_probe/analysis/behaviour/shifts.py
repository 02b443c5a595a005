"""How far a context setting shifts the log-odds, whether that is within the margin, and whether it follows the prime.

One code for both readings: log-odds of the prompt's options in either option order, and log-odds of the whole sentence
with either pronoun filled in, which knows no option order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from referent_probe.analysis.behaviour.arrays import ORDERS, Arrays, gridded
from referent_probe.analysis.behaviour.clustered import RESAMPLES, clustered_means, share_interval
from referent_probe.analysis.behaviour.quantities import found
from referent_probe.analysis.divergence import bernoulli_kl_bits, expected_smoothed_kl_bits
from referent_probe.analysis.invariance import SENSITIVITY_MARGINS, difference_p, invariance, noise_floor

CLUSTERS = {"occupation": "occupations", "participant": "participants"}
"""The unit that is resampled, and the two-way check of it."""


@dataclass(frozen=True, eq=False)
class LogOdds:
    """Log-odds of one reading.

    Attributes:
        reading: "choice" or "whole_sentence".
        orders: Names of the option orders; ("none",) for whole sentences.
        settings: Context settings.
        values: `[template, setting, order]`, logits.
    """

    reading: str
    orders: tuple[str, ...]
    settings: tuple[str, ...]
    values: NDArray[np.float64]

    def of(self, setting: str, order: str, base: str | None = "c0") -> NDArray[np.float64]:
        """Log-odds of a setting, minus those of another; order "both" has all templates once an order."""
        with np.errstate(invalid="ignore"):  # infinite in both: no number
            shift = self.values[:, self.settings.index(setting)]
            if base is not None:
                shift = shift - self.values[:, self.settings.index(base)]
        return shift.T.reshape(-1) if order == "both" else shift[:, self.orders.index(order)]

    @property
    def all_orders(self) -> tuple[str, ...]:
        """The orders, and "both" where there are two."""
        return (*self.orders, "both") if len(self.orders) > 1 else self.orders


def choice_log_odds(run: Arrays) -> LogOdds:
    """Log-odds of the prompt's options."""
    return LogOdds("choice", ORDERS, run.settings, run.log_odds)


def sentence_log_odds(run: Arrays) -> LogOdds | None:
    """Log-odds of whole sentences; None where the run has no sentence scores.

    Raises:
        RunError: The table has a row twice, or a template or setting that the choices lack.
    """
    table = run.tables["sentences"]
    if table.empty:
        return None
    settings = tuple(name for name in run.settings if name in set(table["setting"]))
    axes = (tuple(run.templates["template"]), settings)
    values = gridded(table, ["template", "setting"], axes, ["log_odds"], f"sentence scores of {run.model!r}")
    return LogOdds("whole_sentence", ("none",), settings, values["log_odds"][:, :, None])


def shift_quantities(odds: LogOdds, templates: pd.DataFrame, margin: float, seed: int) -> list[dict[str, Any]]:
    """Shifts from c0, equivalence at the margin and at two others, noise floor; occupations, participants beside.

    Raises:
        OptionError: The margin is not above 0.
    """
    others = [setting for setting in odds.settings if setting != "c0"]
    if "c0" not in odds.settings or not others:
        return []
    rows = []
    for order in odds.all_orders:
        shifts = {setting: odds.of(setting, order) for setting in others}
        times = len(odds.orders) if order == "both" else 1
        for factor, n_of in CLUSTERS.items():
            names = np.tile(templates[factor].to_numpy(), times).tolist()
            options: dict[str, Any] = {"n_resamples": RESAMPLES, "seed": seed, "n_of": n_of}
            margins = (margin, *SENSITIVITY_MARGINS) if factor == "occupation" else (margin,)
            for at in dict.fromkeys(margins):
                for result in invariance(shifts, names, margin=at, **options).values():
                    rows += _of_setting(result, order, factor, odds.reading, with_mean=at == margin)
            if {"n1", "n2"} <= set(others):
                floor = noise_floor(shifts["n1"], shifts["n2"], names, **options)
                common = _common(order, odds.reading, floor.n_templates, floor.n_left_out)
                rows.append(found("noise_floor", floor.root_mean_square, factor=factor, **common))
    return rows


def _common(order: str, reading: str, n_rows: int, n_left_out: int) -> dict[str, Any]:
    rows_of = "prompts" if order == "both" else "templates"
    return {
        "option_order": order,
        "reading": reading,
        "n_rows": n_rows,
        "rows_of": rows_of,
        "n_left_out": n_left_out,
    }


def _of_setting(result: Any, order: str, factor: str, reading: str, *, with_mean: bool) -> list[dict[str, Any]]:
    common = _common(order, reading, result.n_templates, result.n_left_out)
    common |= {"setting": result.setting, "factor": factor}
    rows = [
        found("share_within_margin", share_interval(result.share_within), threshold=result.margin, **common),
        found(
            "equivalence",
            result.mean,
            threshold=result.margin,
            p=result.p_equivalence,
            p_adjusted=result.p_equivalence_holm,
            verdict=result.verdict,
            **common,
        ),
    ]
    if with_mean:
        p, adjusted = result.p_difference, result.p_difference_holm
        rows.append(found("mean_shift", result.mean, p=p, p_adjusted=adjusted, **common))
        rows.append(found("rms_shift", result.root_mean_square, **common))
    return rows


def follow_quantities(odds: LogOdds, templates: pd.DataFrame, margin: float, seed: int) -> list[dict[str, Any]]:
    """Log-odds in cf minus in cm: mean, root mean square, and shares of templates that follow or oppose the prime.

    The verdict goes by the interval of the mean: it follows where the interval is above 0, opposes where it is below.
    """
    if not {"cf", "cm"} <= set(odds.settings):
        return []
    rows = []
    for order in odds.all_orders:
        shift = odds.of("cf", order, base="cm")
        table = pd.concat([templates] * (len(odds.orders) if order == "both" else 1), ignore_index=True)
        for factor in ("all", *dict.fromkeys(templates["case"])):
            kept = np.ones(len(table), dtype=bool) if factor == "all" else (table["case"] == factor).to_numpy()
            rows += _follow(shift[kept], table[kept], margin, order, factor, odds.reading, seed)
    return rows


def _follow(
    shift: NDArray[np.float64], table: pd.DataFrame, margin: float, order: str, factor: str, reading: str, seed: int
) -> list[dict[str, Any]]:
    known = np.isfinite(shift)
    columns = [shift, shift**2, np.where(known, shift > margin, np.nan), np.where(known, shift < -margin, np.nan)]
    names = table["occupation"].to_numpy()
    mean, square, follows, opposes = clustered_means(np.stack(columns, axis=1), names, seed=seed, unit="logits")
    p = difference_p(pd.Series(shift[known]).groupby(names[known]).mean().to_numpy()) if known.any() else np.nan
    low, high = mean.interval.low, mean.interval.high
    squared = square.interval
    # An interval of the mean square, root taken, is that of the root mean square: the root is monotone.
    low_root, high_root = math.sqrt(squared.low), math.sqrt(squared.high)
    root = replace(squared, mean=math.sqrt(squared.mean), low=low_root, high=high_root)
    common = _common(order, reading, mean.n_rows, mean.n_left_out) | {"factor": factor}
    verdict = "follows" if low > 0 else "opposes" if high < 0 else "undecided"
    return [
        found("follow_shift", mean.interval, p=p, verdict=verdict, **common),
        found("follow_rms", root, **common),
        found("share_following", share_interval(follows.interval), threshold=margin, **common),
        found("share_opposing", share_interval(opposes.interval), threshold=margin, **common),
    ]


def shifts_table(run: Arrays, odds: LogOdds, ratings: Mapping[str, float]) -> pd.DataFrame:
    """A row for every template, setting and option order: log-odds, shift from c0, p(f|c), and its divergence.

    The setting "cf-cm" has the difference of the two. p(f|c) of the choice reading is that at the primary temperature;
    of whole sentences it is the sigmoid of the log-odds.
    """
    templates = run.templates
    about = templates[["template", "pair", "occupation", "participant", "case", "antecedent"]].assign(
        rating=[ratings.get(noun.lower(), np.nan) for noun in templates["antecedent_noun"]]
    )
    probabilities = run.p_share[..., run.primary] if odds.reading == "choice" else sigmoid(odds.values)
    temperature = run.temperatures[run.primary] if odds.reading == "choice" else 1.0
    pieces, nothing = [], np.full(len(templates), np.nan)
    for i, order in enumerate(odds.orders):
        has_base = "c0" in odds.settings
        base = probabilities[:, odds.settings.index("c0"), i] if has_base else nothing
        for at, setting in enumerate(odds.settings):
            p = probabilities[:, at, i]
            columns: dict[str, Any] = {
                "setting": setting,
                "log_odds": odds.values[:, at, i],
                "shift": odds.of(setting, order) if has_base else nothing,
                "p_feminine_share": p,
                "p_feminine_share_c0": base,
                "kl_bits": bernoulli_kl_bits(p, base),
                "kl_smoothed_bits": expected_smoothed_kl_bits(p, base),
            }
            pieces.append(about.assign(option_order=order, **columns))
        if {"cf", "cm"} <= set(odds.settings):
            difference = about.assign(option_order=order, setting="cf-cm", shift=odds.of("cf", order, base="cm"))
            pieces.append(difference.reindex(columns=pieces[0].columns))
    table = pd.concat(pieces, ignore_index=True)
    table.insert(0, "reading", odds.reading)
    table.insert(0, "model", run.model)
    table["temperature"] = temperature
    return table


def sigmoid(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of log-odds; infinite ones give 0 and 1.

    Example:
        >>> sigmoid(np.array([0.0, -np.inf])).tolist()
        [0.5, 0.0]
    """
    return np.asarray(expit(log_odds))
