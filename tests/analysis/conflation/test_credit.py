"""Oracles: planted models whose carriers are known; the shares counted by hand."""

import doctest
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.conflation import credit as module
from referent_probe.analysis.conflation.credit import Credit, amounts, credit
from referent_probe.analysis.conflation.pair_rows import CUTS, delta_c_of, pair_rows

Table = Callable[..., pd.DataFrame]
FORMS = ("self_primed", "steered", "strength")


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def phis(found: Credit) -> tuple[float, float, float]:
    assert found.phi_k is not None
    assert found.phi_r is not None
    assert found.remainder is not None
    return found.phi_k.mean, found.phi_r.mean, found.remainder.mean


@pytest.mark.parametrize(
    ("name", "expected", "v"),
    [
        ("gated-conflater", (1.0, 0.0, 0.0), (1.0, 0.0, 1.0)),
        ("gated-repeater", (0.0, 1.0, 0.0), (0.0, 1.0, 1.0)),
        ("conflater-with-gated-repeater", (0.0, 1.0, 0.0), (0.0, 1.0, 1.0)),
        ("repeater-with-gated-conflater", (1.0, 0.0, 0.0), (1.0, 0.0, 1.0)),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_planted_models_are_credited_to_the_heads_that_do_it(
    form: str, name: str, expected: tuple[float, float, float], v: tuple[float, float, float], planted: Table
) -> None:
    found = credit(pair_rows(planted(name)), form, seed=0)
    assert phis(found) == pytest.approx(expected)
    assert [found.v[cut].mean for cut in CUTS] == pytest.approx(v)
    assert (found.n_pairs, found.reason) == (24, None)
    sure = [x for x in (found.phi_k, found.phi_r) if x is not None and x.mean > 0.5]
    assert sure[0].low > 0.8
    if form == "strength":
        assert sure[0].low == sure[0].high == pytest.approx(1.0)


@pytest.mark.parametrize("form", FORMS)
def test_a_head_that_moves_the_midpoint_alone_is_not_credited(form: str, planted: Table) -> None:
    table = planted("saturator", constant=3.0)
    untouched = table.assign(**{f"e_{cut}": table["e"] for cut in CUTS})
    found = credit(pair_rows(untouched), form, seed=0)
    assert phis(found) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("name", ["binder", "conflater", "repeater", "stereotyper"])
def test_nothing_is_credited_where_there_is_no_contextuality(name: str, planted: Table) -> None:
    rows = pair_rows(planted(name))
    for form in FORMS:
        found = credit(rows, form, seed=0)
        assert (found.phi_k, found.v) == (None, {})
        assert found.reason is not None
    assert credit(rows, "steered", seed=0).reason == "0 contextual pairs, under 20"
    assert "differ by under 0.001 logits" in str(credit(rows, "strength", seed=0).reason)


def test_under_twenty_contextual_pairs_the_strength_form_stands_alone(planted: Table) -> None:
    rows = pair_rows(planted("gated-conflater", n_pairs=19))
    withheld = credit(rows, "self_primed", seed=0)
    assert (withheld.phi_k, withheld.n_pairs, withheld.reason) == (None, 19, "19 contextual pairs, under 20")
    assert phis(credit(rows, "strength", seed=0)) == (1.0, 0.0, 0.0)
    # Both option orders of one pair are one pair.
    twice = pd.concat([planted("gated-conflater", n_pairs=19).assign(option_order=o) for o in ("fm", "mf")])
    assert credit(pair_rows(twice), "steered", seed=0).n_pairs == 19


def test_without_unprimed_log_odds_there_is_no_self_primed_form(at_random: Table) -> None:
    found = credit(pair_rows(at_random(0).drop(columns="m0")), "self_primed", seed=0)
    assert found.reason == "the unprimed log-odds are not known"


@pytest.mark.parametrize("reading", ["self_primed", "steered"])
def test_shares_are_those_counted_pair_by_pair(reading: str, at_random: Table) -> None:
    rows = pair_rows(at_random(5))
    found = credit(rows, reading, seed=0)
    stopped = dict.fromkeys(CUTS, 0)
    n = 0
    for i in range(len(rows.keys)):
        assert rows.m0 is not None
        own = {"reading": reading, "m0": rows.m0[i]}
        if delta_c_of(rows.m[i], rows.e[i], **own) <= 0.01:
            continue
        n += 1
        for cut in CUTS:
            stopped[cut] += bool(delta_c_of(rows.m[i], rows.e_after[cut][i], **own) <= 0.01)
    v = {cut: stopped[cut] / n for cut in CUTS}
    assert n > 20
    assert {cut: found.v[cut].mean for cut in CUTS} == pytest.approx(v)
    expected = (v["K"] + v["KR"] - v["R"]) / 2, (v["R"] + v["KR"] - v["K"]) / 2, 1 - v["KR"]
    assert phis(found) == pytest.approx(expected)


def test_strength_is_the_difference_of_means(at_random: Table) -> None:
    rows = pair_rows(at_random(6))
    found = credit(rows, "strength", seed=0)
    mean = {cut: np.abs(np.diff(rows.e_after[cut], axis=1)).mean() for cut in CUTS}
    v = {cut: 1 - mean[cut] / np.abs(np.diff(rows.e, axis=1)).mean() for cut in CUTS}
    assert {cut: found.v[cut].mean for cut in CUTS} == pytest.approx(v)
    assert phis(found)[0] == pytest.approx((v["K"] + v["KR"] - v["R"]) / 2)


@pytest.mark.parametrize("form", FORMS)
def test_the_three_parts_add_up_to_one_and_intervals_hold_them(form: str, at_random: Table) -> None:
    for seed in range(3):
        found = credit(pair_rows(at_random(seed)), form, seed=0)
        assert sum(phis(found)) == pytest.approx(1.0)
        for part in (found.phi_k, found.phi_r, found.remainder, *found.v.values()):
            assert part is not None
            assert part.low < part.mean < part.high
            if form != "strength":
                assert part.low >= -0.5
                assert part.high <= 1.0


def test_a_cut_may_strengthen_what_it_is_to_weaken(at_random: Table) -> None:
    table = at_random(7)
    stronger = table.assign(e_K=table["e"] * 2, e_KR=table["e"] * 2, e_R=table["e"])
    found = credit(pair_rows(stronger), "strength", seed=0)
    assert found.v["K"].mean == pytest.approx(-1.0)
    assert phis(found) == pytest.approx((-1.0, 0.0, 2.0))


def test_amounts_of_many_sets_are_those_of_each(at_random: Table) -> None:
    rows = pair_rows(at_random(8))
    for form in FORMS:
        together = amounts(rows, form, np.stack([rows.e_after[cut] for cut in CUTS]))
        for i, cut in enumerate(CUTS):
            alone = amounts(rows, form, rows.e_after[cut])
            assert together[i].tolist() == alone.tolist()
