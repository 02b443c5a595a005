"""The whole bridge on planted models, its words and its JSON."""

import doctest
import json
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from referent_probe.analysis.conflation import bridge as module
from referent_probe.analysis.conflation import mechanism as words
from referent_probe.analysis.conflation.bridge import bridge
from referent_probe.analysis.conflation.credit import Credit
from referent_probe.analysis.conflation.mechanism import mechanism
from referent_probe.analysis.inference import Interval

Table = Callable[..., pd.DataFrame]


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(words).failed == 0


def sets_of(table: pd.DataFrame, factors: list[float]) -> pd.DataFrame:
    columns = ["pair", "member", "option_order"]
    return pd.concat([table[columns].assign(e=table["e"] * f, set=i) for i, f in enumerate(factors)])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gated-conflater", "person-level"),
        ("gated-repeater", "owner-blind"),
        ("conflater-with-gated-repeater", "owner-blind"),
        ("repeater-with-gated-conflater", "person-level"),
        ("conflater", "undecided"),
        ("stereotyper", "undecided"),
    ],
)
def test_planted_models_get_their_mechanism(name: str, expected: str, planted: Table) -> None:
    found = bridge(planted(name), seed=0, n_resamples=199)
    assert found.mechanism.name == expected
    assert found.mechanism.form == ("strength" if expected == "undecided" else "self_primed")
    assert (found.n_rows, found.n_pairs, found.n_occupations, found.left_out) == (24, 24, 24, 0)


def test_the_saturator_is_not_taken_for_a_carrier(planted: Table) -> None:
    table = planted("saturator", constant=3.0)
    found = bridge(table.assign(**{f"e_{cut}": table["e"] for cut in ("K", "R", "KR")}), seed=0, n_resamples=199)
    assert found.mechanism.name == "neither"
    lost = found.transitions.set_index(["reading", "cut", "changed"])["lost"]
    assert (lost.loc[("steered", "K", "e and m")], lost.loc[("steered", "K", "e")]) == (24, 0)


def test_the_sentence_with_random_heads(planted: Table) -> None:
    table = planted("gated-conflater")
    sentence = bridge(table, sets_of(table, [0.1, 0.05, 1.0]), seed=0, n_resamples=199).mechanism.sentence
    assert sentence == (
        "Of the 24 contextual pairs, 100% [86%, 100%] depend on heads that read the other person's pronoun as such, "
        "0% [0%, 14%] on heads that copy any pronoun, the rest on neither; 2 sets of random heads of equal effect: "
        "0% in the mean, against 100% when K is cut (p = 0.33)."
    )
    none = bridge(table, sets_of(table, [1.0] * 5), seed=0, n_resamples=199).mechanism.sentence
    assert none.endswith("none of 5 random sets removes as much of the prime's effect as K (100%).")
    assert bridge(table, seed=0, n_resamples=199).mechanism.sentence.endswith("random heads were not cut.")


def test_the_sentence_where_few_pairs_are_contextual(planted: Table) -> None:
    found = bridge(planted("gated-repeater", n_pairs=12), seed=0, n_resamples=199)
    assert found.mechanism.name == "owner-blind"
    assert found.mechanism.sentence == (
        "Of the difference in how strongly the two sentences of a pair follow their prime (12 pairs; under 20 held-out "
        "pairs are contextual: 12), 0% [0%, 0%] depends on heads that read the other person's pronoun as such, "
        "100% [100%, 100%] on heads that copy any pronoun, the rest on neither; random heads were not cut."
    )
    nothing = bridge(planted("conflater"), seed=0, n_resamples=199).mechanism.sentence
    assert nothing.startswith("Nothing can be said of what contextuality depends on: the effects on the two sentences")


def share(low: float, mean: float, high: float) -> Interval:
    return Interval(mean, low, high, 30, "share")


NAN = float("nan")


@pytest.mark.parametrize(
    ("k", "r", "rest", "expected"),
    [
        (share(0.55, 0.7, 0.8), share(0.0, 0.2, 0.3), share(0.0, 0.1, 0.2), "person-level"),
        (share(0.0, 0.2, 0.3), share(0.55, 0.7, 0.8), share(0.0, 0.1, 0.2), "owner-blind"),
        (share(0.45, 0.6, 0.7), share(0.1, 0.2, 0.3), share(0.1, 0.2, 0.3), "undecided"),
        (share(0.25, 0.5, 0.7), share(0.21, 0.4, 0.6), share(0.0, 0.1, 0.2), "both"),
        (share(0.0, 0.1, 0.2), share(0.0, 0.1, 0.2), share(0.6, 0.8, 0.9), "neither"),
        # Over 1 in sum, which the strength form can be: above 0.5, and not above the other.
        (share(0.55, 0.7, 0.8), share(0.6, 0.75, 0.9), share(-0.6, -0.45, -0.2), "both"),
        (share(NAN, 0.9, NAN), share(NAN, 0.1, NAN), share(NAN, 0.0, NAN), "undecided"),
    ],
)
def test_the_verdict_by_hand(k: Interval, r: Interval, rest: Interval, expected: str) -> None:
    whole = Credit("steered", 30, {}, k, r, rest, None)
    found = mechanism({"steered": whole, "strength": replace(whole, form="strength")}, None)
    assert (found.name, found.form) == (expected, "steered")
    assert ("[no interval]" in found.sentence) == (k is not None and k.low != k.low)


def test_json_is_json_and_holds_all(at_random: Table) -> None:
    table = at_random(0)
    found = bridge(table, sets_of(table, [0.5, 0.8]), seed=0, n_resamples=199)
    read = json.loads(json.dumps(found.as_json(), allow_nan=False))
    phi = found.forms["strength"].phi_k
    assert phi is not None
    assert read["forms"]["strength"]["phi_K"]["mean"] == phi.mean
    assert read["forms"]["steered"]["reason"] is None
    assert {len(read["split"]), len(read["transitions"])} == {12}
    assert (read["random"]["n_sets"], len(read["random"]["sets"])) == (2, 2)
    assert read["mechanism"]["sentence"] == found.mechanism.sentence
    assert set(read["removed"]) == {"K", "R", "KR"}
    assert set(read["twin"]) == {"self_primed", "steered", "strength"}
    empty = bridge(at_random(1).drop(columns=["m0", "e_third_frame"]), seed=0, n_resamples=199).as_json()
    assert (empty["twin"], empty["random"], list(empty["forms"])) == ({}, None, ["steered", "strength"])
    json.dumps(bridge(at_random(2, n_occupations=3), seed=0, n_resamples=99).as_json(), allow_nan=False)


def test_the_same_seed_gives_the_same_and_nothing_is_changed(at_random: Table) -> None:
    table = at_random(3)
    copy = table.copy(deep=True)
    one, other = (bridge(t, seed=4, n_resamples=199).as_json() for t in (table, table.sample(frac=1, random_state=1)))
    assert one == other
    pd.testing.assert_frame_equal(table, copy)
