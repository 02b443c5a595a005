"""Laws: parts add up, transitions add up, what moves midpoints alone goes through m alone."""

import doctest
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from referent_probe.analysis.conflation import changes as module
from referent_probe.analysis.conflation.changes import split, transitions
from referent_probe.analysis.conflation.pair_rows import CUTS, PairRows, pair_rows

Table = Callable[..., pd.DataFrame]
Rows = Callable[[Mapping[str, NDArray[np.float64]]], PairRows]


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def test_the_parts_of_a_change_add_up_to_it(at_random: Table) -> None:
    rows = pair_rows(at_random(0))
    table = split(rows, seed=0, n_resamples=499)
    assert table["change"].to_numpy() == pytest.approx((table["through_e"] + table["through_m"]).to_numpy())
    assert len(table) == 2 * 3 * 2
    one = table.set_index(["reading", "cut", "pairs"]).loc[("steered", "R", "all")]
    change = rows.delta_c("steered", m=rows.m_after["R"], e=rows.e_after["R"]) - rows.delta_c("steered")
    assert (one["change"], one["n_rows"]) == (pytest.approx(change.mean()), 96)
    assert (table["change_low"] < table["change"]).all()
    contextual = table.set_index(["reading", "cut", "pairs"]).loc[("steered", "R", "contextual")]
    assert contextual["change"] == pytest.approx(change[rows.contextual("steered")].mean())
    assert contextual["n_rows"] == rows.contextual("steered").sum()


def test_damage_goes_through_the_midpoints_and_carrying_through_the_effects(planted: Table) -> None:
    table = planted("saturator", constant=3.0)
    damaged = pair_rows(table.assign(**{f"e_{cut}": table["e"] for cut in CUTS}))
    of = split(damaged, seed=0, n_resamples=99).set_index(["reading", "cut", "pairs"])
    row = of.loc[("steered", "K", "contextual")]
    assert row["through_e"] == 0.0
    assert row["through_m"] == row["change"] == pytest.approx(-1.34 - 0.57, abs=0.01)
    carried = split(pair_rows(planted("gated-conflater")), seed=0, n_resamples=99).set_index(
        ["reading", "cut", "pairs"]
    )
    row = carried.loc[("steered", "K", "contextual")]
    assert row["through_m"] == 0.0
    assert row["through_e"] == row["change"] == pytest.approx(-0.10 - 0.57, abs=0.01)
    assert carried.loc[("steered", "R", "contextual"), "change"] == 0.0


def test_the_order_of_replacement_does_not_matter(at_random: Table) -> None:
    """Taking the cut model for the model and the model for the cut one turns the signs of both parts."""
    table = at_random(1)
    turned = table.rename(columns={"m": "m_K", "m_K": "m", "e": "e_K", "e_K": "e"})
    there, back = (
        split(pair_rows(t), seed=0, n_resamples=99).set_index(["reading", "cut", "pairs"]).loc[("steered", "K", "all")]
        for t in (table, turned)
    )
    for part in ("change", "through_e", "through_m"):
        assert there[part] == pytest.approx(-back[part])


def test_where_no_pair_is_contextual_nothing_is_said_of_those(planted: Table) -> None:
    table = split(pair_rows(planted("conflater")), seed=0, n_resamples=99)
    contextual = table[table["pairs"] == "contextual"]
    assert (contextual["n_rows"] == 0).all()
    assert contextual[["change", "through_e", "through_e_low"]].isna().all(axis=None)
    assert table.loc[table["pairs"] == "all", "change"].notna().all()


def test_transitions_add_up(at_random: Table) -> None:
    rows = pair_rows(at_random(2))
    table = transitions(rows, seed=0, n_resamples=499)
    counts = table[["kept", "lost", "gained", "never"]]
    assert (counts.sum(axis=1) == table["n_rows"]).all()
    before = table["reading"].map(lambda r: rows.contextual(r).sum())
    assert (table["kept"] + table["lost"] == before).all()
    assert table["net_change"].to_numpy() == pytest.approx(
        ((table["gained"] - table["lost"]) / table["n_rows"]).to_numpy()
    )
    both = table.set_index(["reading", "cut", "changed"])
    after = rows.contextual("self_primed", m=rows.m_after["K"], e=rows.e_after["K"]).sum()
    assert both.loc[("self_primed", "K", "e and m"), ["kept", "gained"]].sum() == after
    after = rows.contextual("self_primed", e=rows.e_after["K"]).sum()
    assert both.loc[("self_primed", "K", "e"), ["kept", "gained"]].sum() == after


def test_jitter_stops_many_pairs_and_starts_about_as_many(rows_of: Rows) -> None:
    """Two readings of the same pairs with equal noise: neither has more contextuality than the other."""
    rng = np.random.default_rng(0)
    true = 2.0 + rng.normal(0.0, 0.8, size=(3000, 2))
    one, other = (true + rng.normal(0.0, 0.5, size=true.shape) for _ in range(2))
    rows = rows_of({"e": one, "e_K": other})
    row = transitions(rows, seed=0, n_resamples=199).set_index(["reading", "cut", "changed"]).loc[("steered", "K", "e")]
    assert row["lost"] / (row["kept"] + row["lost"]) > 0.2
    assert row["gained"] == pytest.approx(row["lost"], rel=0.15)
    assert row["net_change_low"] < 0 < row["net_change_high"]
