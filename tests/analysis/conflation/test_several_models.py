"""Oracles: Holm of statsmodels, and of the package, on adjusted p values."""

import doctest

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from referent_probe.analysis.conflation import several_models
from referent_probe.analysis.conflation.several_models import holm_level, p_values, verdicts
from referent_probe.analysis.conflation.states import margin, quantities
from referent_probe.analysis.conflation.verdict import verdict

OCCUPATIONS = [f"role {i:02}" for i in range(24)]


def model(seed: int, third: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    means = {"same": 4.0, "other": 4.0, "third": third}
    return pd.DataFrame({p: m + rng.normal(size=24) for p, m in means.items()}, index=OCCUPATIONS)


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(several_models).failed == 0


def test_one_model_is_corrected_for_nothing() -> None:
    found = verdicts({"only": model(0)}, seed=0)["only"]
    alone = verdict(model(0), seed=0)
    assert (found.name, found.words, found.flips_at) == (alone.name, alone.words, alone.flips_at)


def test_the_level_rejects_what_the_adjusted_p_value_does() -> None:
    rng = np.random.default_rng(1)
    for _ in range(15):
        own, *others = rng.beta(0.5, 12, size=rng.integers(1, 7))
        adjusted = multipletests([own, *others], method="holm")[1][0]
        assert (own <= holm_level(others)) == (adjusted <= 0.05)


def test_p_values_that_are_not_known_do_not_count() -> None:
    assert holm_level([]) == 0.05
    assert holm_level([np.nan, 0.9]) == holm_level([0.9]) == 0.025


def test_states_are_those_of_adjusted_p_values() -> None:
    models = {f"model {i}": model(i, third=0.35) for i in range(5)}
    found = verdicts(models, seed=0)
    estimates = {name: quantities(effects, seed=0) for name, effects in models.items()}
    deltas = {name: margin(effects["same"], seed=0) for name, effects in models.items()}
    table = p_values(estimates, deltas).set_index(["model", "quantity"])
    assert table.loc[("model 0", "M")].isna().all()
    for name, one in found.items():
        assert one.delta == deltas[name]
        for quantity in ("O", "S", "T", "D", "S - O"):
            row = table.loc[(name, quantity)]
            assert (one.states[quantity] == "Z") == (row["p_equivalence_holm"] <= 0.05)
            if one.states[quantity] != "Z":
                assert (one.states[quantity] in ("P", "N")) == (row["p_difference_holm"] <= 0.05)
    for quantity, part in table.groupby("quantity"):
        if quantity != "M":
            assert part["p_equivalence_holm"].tolist() == pytest.approx(
                multipletests(part["p_equivalence"], method="holm")[1].tolist()
            )


def test_more_models_decide_no_more() -> None:
    borderline = model(3, third=0.6)
    crowd = {f"model {i}": model(10 + i, third=2.0) for i in range(5)}
    alone, among = verdict(borderline, seed=0), verdicts({"it": borderline, **crowd}, seed=0)["it"]
    assert (alone.name, alone.states["T"], among.states["T"]) == ("conflating", "Z", "U")
    assert among.name == "undecided"
    above = among.flips_at[1]
    assert above is not None
    assert above.name == "conflating"
    assert above.margin > alone.delta
