"""Laws: p values count, halving halves, repeaters do not care whose pronoun it is."""

import doctest
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.conflation import controls as module
from referent_probe.analysis.conflation.controls import random_sets, removed, shrink, twin
from referent_probe.analysis.conflation.credit import Credit, Form, credit
from referent_probe.analysis.conflation.pair_rows import PairRows, pair_rows
from referent_probe.errors import OptionError

Table = Callable[..., pd.DataFrame]
FORMS: tuple[Form, ...] = ("self_primed", "steered", "strength")


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def forms_of(rows: PairRows) -> dict[Form, Credit]:
    return {form: credit(rows, form, seed=0, n_resamples=99) for form in FORMS}


def sets_of(table: pd.DataFrame, factors: list[float]) -> pd.DataFrame:
    """Random sets that leave these parts of every effect."""
    columns = ["pair", "member", "option_order"]
    return pd.concat(
        [table[columns].assign(e=table["e"] * factor, set=f"set {i:03}") for i, factor in enumerate(factors)]
    ).sample(frac=1, random_state=0)


def test_random_sets_are_counted(planted: Table) -> None:
    table = planted("gated-conflater")
    rows = pair_rows(table)
    found = random_sets(rows, sets_of(table, [1.0, 0.9, 0.0, 0.5, 0.1]), forms_of(rows))
    assert found.table["removed"].tolist() == pytest.approx([0.0, 0.1, 1.0, 0.5, 0.9])
    assert found.removed == 1.0
    assert found.table["matched"].tolist() == [False, False, True, False, True]
    assert found.n_matched == 2
    assert found.v == {"self_primed": 1.0, "steered": 1.0, "strength": 1.0}
    assert found.table["v_strength"].tolist() == pytest.approx([0.0, 0.1, 1.0, 0.5, 0.9])
    assert found.p["strength"] == pytest.approx(2 / 6)  # the set that leaves nothing
    assert found.p_matched["strength"] == pytest.approx(2 / 3)
    assert found.table["v_steered"].tolist()[:3] == [0.0, 0.0, 1.0]


def test_without_a_set_that_removes_as_much_there_is_no_matched_p(planted: Table) -> None:
    table = planted("gated-conflater")
    rows = pair_rows(table)
    found = random_sets(rows, sets_of(table, [1.0 - 0.001 * i for i in range(200)]), forms_of(rows))
    assert (found.n_matched, found.p_matched, len(found.table)) == (0, {}, 200)
    assert found.p["strength"] == 1 / 201


def test_the_cut_itself_among_the_sets_is_as_large(at_random: Table) -> None:
    table = at_random(0)
    rows = pair_rows(table)
    columns = ["pair", "member", "option_order"]
    itself = table[columns].assign(e=table["e_R"], set="R")
    found = random_sets(rows, itself, forms_of(rows), "R")
    assert found.p == dict.fromkeys(FORMS, 1.0)
    assert found.table["removed"].tolist() == pytest.approx([found.removed])
    assert [found.table[f"v_{form}"][0] for form in FORMS] == pytest.approx([found.v[form] for form in FORMS])


def test_forms_that_are_withheld_are_left_out(planted: Table) -> None:
    table = planted("gated-conflater", n_pairs=10)
    rows = pair_rows(table)
    found = random_sets(rows, sets_of(table, [0.5]), forms_of(rows))
    assert list(found.v) == ["strength"]
    assert "v_steered" not in found.table


def test_sets_that_lack_a_template_are_refused(at_random: Table) -> None:
    table = at_random(1)
    rows = pair_rows(table)
    sets = sets_of(table, [0.5, 0.6])
    with pytest.raises(OptionError, match=r"no effect for \('pair "):
        random_sets(rows, sets.iloc[1:], forms_of(rows))
    with pytest.raises(OptionError, match=r"lacks 'set'"):
        random_sets(rows, sets.drop(columns="set"), forms_of(rows))
    with pytest.raises(OptionError, match=r"lacks rows"):
        random_sets(rows, sets.head(0), forms_of(rows))


def test_a_shrink_has_the_mean_effect_of_the_cut(at_random: Table) -> None:
    table = at_random(2).assign(e_K=lambda t: t["e"] / 2)
    rows = pair_rows(table)
    found = shrink(rows, forms_of(rows)).set_index(["form", "cut"])
    assert found.loc[("strength", "K"), ["factor", "v", "v_cut"]].tolist() == pytest.approx([0.5, 0.5, 0.5])
    of_r = found.loc[("steered", "R")]
    assert of_r["factor"] == pytest.approx(np.abs(rows.e_after["R"]).mean() / np.abs(rows.e).mean())
    # A cut that is a shrink does what the shrink does, in every form.
    for form in FORMS:
        assert found.loc[(form, "K"), "v"] == found.loc[(form, "K"), "v_cut"]
    assert len(found) == 9


def test_a_mere_shrink_stops_contextual_pairs(planted: Table) -> None:
    """The reason for the control: nothing owner-specific has been touched."""
    table = planted("repeater-with-gated-conflater")
    weaker = pair_rows(table.assign(e_K=table["e"] * 0.1))
    assert shrink(weaker, forms_of(weaker)).set_index(["form", "cut"]).loc[("steered", "K"), "v"] == 1.0


def test_removed_is_a_share_and_may_be_negative(planted: Table) -> None:
    rows = pair_rows(planted("gated-conflater"))
    assert removed(rows, np.stack([rows.e, rows.e * 0, rows.e * 2])).tolist() == [0.0, 1.0, -1.0]
    assert np.isnan(removed(pair_rows(planted("stereotyper")), rows.e * 0))


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("gated-conflater", 1.0),
        ("gated-repeater", 0.0),
        ("conflater-with-gated-repeater", 0.0),
        ("repeater-with-gated-conflater", 1.0),
    ],
)
def test_the_twin_agrees_with_the_carriers_of_planted_models(name: str, gone: float, planted: Table) -> None:
    rows = pair_rows(planted(name))
    found = twin(rows, forms_of(rows), seed=0)
    assert {form: share.mean for form, share in found.items()} == pytest.approx(dict.fromkeys(FORMS, gone))


def test_there_is_no_twin_without_the_prime(at_random: Table) -> None:
    rows = pair_rows(at_random(3).drop(columns="e_third_frame"))
    assert twin(rows, forms_of(rows), seed=0) == {}
