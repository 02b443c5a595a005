"""Oracles: dC of six probabilities written out; the table of planted models."""

import doctest
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.conflation import pair_rows as module
from referent_probe.analysis.conflation.pair_rows import delta_c_of, pair_rows
from referent_probe.analysis.contextuality import delta_c
from referent_probe.errors import OptionError
from referent_probe.planted.grammar import stimuli_tsv
from referent_probe.planted.rules import RULES
from referent_probe.planted.truth import truth_of
from referent_probe.stimuli.templates import load_stimuli

Table = Callable[..., pd.DataFrame]


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def test_members_are_put_beside_each_other_in_any_order(at_random: Table) -> None:
    table = at_random(0)
    rows = pair_rows(table.sample(frac=1, random_state=0))
    assert (len(rows.keys), rows.n_pairs(), rows.left_out) == (96, 48, 0)
    for i in (0, 7, 95):
        key = rows.keys.iloc[i]
        own = table[(table["pair"] == key["pair"]) & (table["option_order"] == key["option_order"])].set_index("member")
        assert rows.e[i].tolist() == [own.loc[1, "e"], own.loc[2, "e"]]
        assert rows.m_after["KR"][i].tolist() == [own.loc[1, "m_KR"], own.loc[2, "m_KR"]]
        p = {
            prime: {j: 1 / (1 + np.exp(-own.loc[j, "m"] - sign * own.loc[j, "e"] / 2)) for j in (1, 2)}
            for prime, sign in (("f", 1), ("m", -1))
        }
        p["0"] = {j: 1 / (1 + np.exp(-own.loc[j, "m0"])) for j in (1, 2)}
        six = p["0"][1], p["0"][2], p["f"][2], p["m"][2], p["f"][1], p["m"][1]
        assert rows.delta_c("self_primed")[i] == pytest.approx(delta_c(*six, estimator="self_primed"))
        assert rows.delta_c("steered")[i] == pytest.approx(delta_c(*six, estimator="steered"))


def test_planted_models_have_the_dc_of_the_design(planted: Table) -> None:
    printed = {
        "binder": -0.10,
        "conflater": -0.04,
        "repeater": -0.04,
        "gated-conflater": 0.57,
        "gated-repeater": 0.57,
        "conflater-with-gated-repeater": 0.33,
        "repeater-with-gated-conflater": 0.33,
        "saturator": 0.57,
    }
    for name, value in printed.items():
        assert pair_rows(planted(name)).delta_c("steered") == pytest.approx(value, abs=0.006), name
    mixed = pair_rows(planted("conflater-with-gated-repeater"))
    assert mixed.delta_c("steered", e=mixed.e_after["K"]) == pytest.approx(0.55, abs=0.006)
    assert mixed.delta_c("steered", e=mixed.e_after["R"]) == pytest.approx(-0.08, abs=0.006)
    mixed = pair_rows(planted("repeater-with-gated-conflater"))
    assert mixed.delta_c("steered", e=mixed.e_after["R"]) == pytest.approx(0.55, abs=0.006)
    assert mixed.delta_c("steered", e=mixed.e_after["K"]) == pytest.approx(-0.08, abs=0.006)
    lost = pair_rows(planted("saturator", constant=3.0))
    assert lost.delta_c("steered", m=lost.m_after["K"]) == pytest.approx(-1.34, abs=0.006)


def test_the_truth_of_planted_folders_is_the_same_number(tmp_path: Path) -> None:
    (tmp_path / "stimuli.tsv").write_text(stimuli_tsv(), encoding="utf-8")
    pairs = load_stimuli(tmp_path / "stimuli.tsv").pairs[:6]
    for name in ("gated-conflater", "repeater-with-gated-conflater", "stereotyper"):
        truth = truth_of(RULES[name], pairs)
        members = [[t.id for t in pair.members] for pair in pairs]
        m, e = (
            np.array([[of[t] for t in ids] for ids in members])
            for of in (truth["midpoints"], truth["effects"]["partner"])
        )
        for reading in ("self_primed", "steered"):
            found = delta_c_of(m, e, reading, m0=m)
            assert found == pytest.approx(list(truth["delta_c"][reading].values()))


def test_rows_with_unknown_numbers_are_left_out(at_random: Table) -> None:
    table = at_random(1)
    table.loc[0, "e_K"] = np.nan
    rows = pair_rows(table.drop(index=5))
    assert (rows.left_out, len(rows.keys)) == (2, 94)


def test_optional_columns_may_be_missing_or_empty(at_random: Table) -> None:
    for table in (
        at_random(2).drop(columns=["m0", "e_third_frame"]),
        at_random(2).assign(m0=np.nan, e_third_frame=np.nan),
    ):
        rows = pair_rows(table)
        assert (rows.m0, rows.e_third_frame, rows.readings, len(rows.keys)) == (None, None, ("steered",), 96)
        with pytest.raises(OptionError, match=r"self_primed takes unprimed log-odds"):
            rows.delta_c("self_primed")


def test_a_pair_counts_once_whatever_its_orders(at_random: Table) -> None:
    rows = pair_rows(at_random(3))
    which = (rows.keys["pair"] == "pair 03").to_numpy()
    assert (which.sum(), rows.n_pairs(which)) == (2, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns=["e_K", "pair"]), r"lacks 'pair', 'e_K'"),
        (lambda t: t.assign(member=t["member"] - 1), r"member 0: the sentences of a pair are 1 and 2"),
        (lambda t: pd.concat([t, t.head(1)]), r"role 00, pair 00, fm, 1 comes twice"),
        (lambda t: t[t["member"] == 1], r"96 pairs by option order, none with all numbers"),
    ],
)
def test_wrong_tables_are_refused(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str, at_random: Table
) -> None:
    with pytest.raises(OptionError, match=message):
        pair_rows(change(at_random(4)))
