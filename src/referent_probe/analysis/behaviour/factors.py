"""What the answer tells about the prompt: mutual information with each factor, at the primary temperature."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from referent_probe.analysis.behaviour.arrays import ORDERS, Arrays
from referent_probe.analysis.behaviour.clustered import RESAMPLES
from referent_probe.analysis.behaviour.quantities import found
from referent_probe.analysis.behaviour.roles import rating_quantities
from referent_probe.analysis.information import (
    Information,
    conditional_information_bits,
    information_bits,
    sampled_information_bits,
)

FACTORS = {
    "priming_pronoun": "setting",
    "role_type": "antecedent",
    "case": "case",
    "option_order": "option_order",
    "template": "template",
}
"""Each factor, and the column that holds its values. The template is the ceiling of what a template fixes."""

PRIMED = ("cf", "cm")


def information_quantities(run: Arrays, ratings: Mapping[str, float], seed: int) -> list[dict[str, Any]]:
    """Pooled and conditional information in c0 and in the primed settings together ("cf+cm"), by option order."""
    temperature = run.temperatures[run.primary]
    long = long_answers(run)
    rows = []
    for setting, members in ("c0", ("c0",)), ("cf+cm", PRIMED):
        if not set(members) <= set(run.settings):
            continue
        for order in (*ORDERS, "both"):
            part = long[long["setting"].isin(members)]
            part = part if order == "both" else part[part["option_order"] == order]
            keys = {"setting": setting, "option_order": order, "temperature": temperature}
            for factor, column in FACTORS.items():
                if part[column].nunique() < 2:
                    continue
                occupations = part["occupation"].tolist()
                pooled = information_bits(part["p"], part[column].tolist(), occupations, **_options(seed))
                rows.append(_row("mutual_information", pooled, factor, keys))
                if factor in ("priming_pronoun", "option_order"):
                    known = conditional_information_bits(
                        part["p"],
                        part[column].tolist(),
                        part["template"].tolist(),
                        occupations,
                        **_options(seed),
                    )
                    rows.append(_row("mutual_information_conditional", known, factor, keys))
            rows += rating_quantities(part["p"].to_numpy(), part, ratings, keys, seed)
    return rows


def sampled_information_quantities(run: Arrays, seed: int) -> list[dict[str, Any]]:
    """The pooled information of the draws, for the primed settings together; none without draws."""
    draws = run.tables["draws"]
    if draws.empty:
        return []
    about = run.templates[["template", "occupation", "antecedent", "case"]]
    table = draws[draws["setting"].isin(PRIMED)].merge(about, on="template")
    rows = []
    for temperature, of_temperature in table.groupby("temperature"):
        for order in (*ORDERS, "both"):
            part = of_temperature if order == "both" else of_temperature[of_temperature["option_order"] == order]
            keys = {"setting": "cf+cm", "option_order": order, "temperature": float(str(temperature))}
            for factor in ("priming_pronoun", "role_type", "case", "option_order"):
                column = FACTORS[factor]
                if part[column].nunique() < 2:
                    continue
                drawn = sampled_information_bits(
                    part["n_feminine"],
                    part["n_masculine"],
                    part[column].tolist(),
                    part["occupation"].tolist(),
                    n_resamples=200,  # scikit-learn's estimator goes one resample at a time
                    seed=seed,
                )
                rows.append(_row("mutual_information_sampled", drawn, factor, keys))
    return rows


def long_answers(run: Arrays) -> pd.DataFrame:
    """p(f|c) at the primary temperature: a row for every template, setting and option order."""
    p = run.p_share[..., run.primary]
    index = pd.MultiIndex.from_product(
        [run.templates["template"], run.settings, ORDERS], names=["template", "setting", "option_order"]
    )
    about = run.templates[["template", "occupation", "antecedent", "antecedent_noun", "case"]]
    return pd.DataFrame({"p": p.reshape(-1)}, index=index).reset_index().merge(about, on="template")


def _options(seed: int) -> dict[str, Any]:
    return {"n_resamples": RESAMPLES, "seed": seed}


def _row(quantity: str, result: Information, factor: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    n: dict[str, Any] = {"n_rows": result.n_rows, "rows_of": "prompts", "n_left_out": result.n_left_out}
    return found(quantity, result.bits, note=f"{result.n_values} values", factor=factor, **n, **keys)
