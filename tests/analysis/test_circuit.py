"""Circuits judged on tables worked by hand: additive heads, a backup head, heads that are missing or idle."""

from collections.abc import Callable, Sequence
from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.circuit import CircuitChecks, changed_by_ablation, check_circuit
from referent_probe.randomness import generator

OCCUPATIONS = ("cook", "nurse", "guard", "clerk", "baker", "pilot", "tutor", "miner")
Working = Callable[[frozenset[str]], float]
"""Effect of the prime when these heads alone run on."""


def additive(**effects: float) -> Working:
    return lambda working: sum(effect for head, effect in effects.items() if head in working)


def table_of(model: Working, everything: Sequence[str], circuit: Sequence[str], noise: float = 0.0) -> pd.DataFrame:
    """What the job measures, of every set of the circuit's heads, in two contrasts of each occupation."""
    rng = generator(0, "circuit", *circuit)
    total = model(frozenset(everything))
    rows = []
    for removed in chain.from_iterable(combinations(circuit, k) for k in range(len(circuit) + 1)):
        for of, kept in (("circuit", circuit), ("model", everything)):
            effect = model(frozenset(kept) - set(removed))
            for occupation in OCCUPATIONS:
                for _ in range(2):
                    one = effect + noise * rng.normal()
                    row = {"occupation": occupation, "of": of, "removed": " ".join(removed), "effect": one}
                    rows.append(row | {"total_effect": total})
    return pd.DataFrame(rows)


def judged(model: Working, everything: Sequence[str], circuit: Sequence[str], noise: float = 0.0) -> CircuitChecks:
    return check_circuit(table_of(model, everything, circuit, noise), circuit, seed=0)


HEADS = ("0.1", "2.3", "3.0", "3.1")
MODEL = additive(**{"0.1": 3.0, "2.3": 0.95, "3.0": -0.5, "3.1": 0.0})
"""F(M) = 3.45."""


def test_all_heads_that_matter_are_complete_and_minimal() -> None:
    checks = judged(MODEL, HEADS, HEADS[:3])
    assert (checks.complete, checks.minimal, checks.not_needed) == (True, True, ())
    assert checks.faithfulness == pytest.approx((1, 1, 1))
    table = checks.table
    (whole,) = table[table["check"] == "faithfulness"].to_dict("records")
    assert (whole["size"], whole["circuit_mean"], whole["model_mean"], whole["n"]) == (3, 3.45, 3.45, 8)
    sets = table[table["check"] == "completeness"].set_index("removed")
    assert sets["circuit_mean"].to_dict() == pytest.approx(
        {
            "0.1": 0.45,
            "2.3": 2.5,
            "3.0": 3.95,
            "0.1 2.3": -0.5,
            "0.1 3.0": 0.95,
            "2.3 3.0": 3.0,
            "0.1 2.3 3.0": 0.0,
        }
    )
    assert sets["model_mean"].to_dict() == pytest.approx(sets["circuit_mean"].to_dict())
    assert sets["label"].to_dict() == {
        name: {1: "one head", 2: "all heads but one", 3: "all heads"}[len(name.split(" "))] for name in sets.index
    }
    assert sets["size"].to_dict() == {name: 3 - len(name.split(" ")) for name in sets.index}
    needed = table[table["check"] == "minimality"].set_index("label")["change_mean"]
    assert needed.to_dict() == pytest.approx({"0.1": 3.0, "2.3": 0.95, "3.0": -0.5})


def test_without_a_head_that_matters_it_is_not_complete() -> None:
    checks = judged(MODEL, HEADS, ("0.1", "3.0"))
    assert (checks.complete, checks.minimal) == (False, True)
    assert checks.faithfulness[0] == pytest.approx(2.5 / 3.45)
    nearly = judged(additive(a=3.0, b=0.3), ("a", "b"), ("a",))  # 0.3 of 3.3 is within a tenth
    assert nearly.complete
    assert not judged(additive(a=3.0, b=0.4), ("a", "b"), ("a",)).complete  # 0.4 of 3.4 is not


def test_a_head_too_many_is_named() -> None:
    checks = judged(MODEL, HEADS, HEADS)
    assert (checks.complete, checks.minimal, checks.not_needed) == (True, False, ("3.1",))
    small = judged(additive(a=3.0, b=0.02), ("a", "b"), ("a", "b"))  # under a hundredth of 3.02
    assert (small.minimal, small.not_needed) == (False, ("b",))
    assert judged(additive(a=3.0, b=0.04), ("a", "b"), ("a", "b")).minimal


def test_a_head_is_needed_where_it_stands_in_for_another() -> None:
    """Either of two suffices: alone each changes nothing, and without the other everything."""

    def either(working: frozenset[str]) -> float:
        return 2.0 if working & {"1.0", "1.1"} else 0.0

    both = judged(either, ("1.0", "1.1", "2.0"), ("1.0", "1.1"))
    assert (both.complete, both.minimal) == (True, True)
    needed = both.table[both.table["check"] == "minimality"].set_index("label")["change_mean"]
    assert needed.to_dict() == {"1.0": 2.0, "1.1": 2.0}
    one = judged(either, ("1.0", "1.1", "2.0"), ("1.0",))  # faithful, but the model does without it
    assert one.faithfulness == pytest.approx((1, 1, 1))
    assert (one.complete, one.minimal) == (False, True)


def test_a_head_is_needed_by_the_size_of_its_changes() -> None:
    """Changes of opposite signs in two occupations do not cancel."""
    table = table_of(additive(a=2.0, b=0.0), ("a", "b"), ("a", "b"))
    sign = np.where(table["occupation"].isin(OCCUPATIONS[:4]), 1.0, -1.0)
    table["effect"] += 0.5 * sign * ~table["removed"].str.contains("b")
    assert check_circuit(table, ("a", "b"), seed=0).minimal


def test_one_head_and_a_total_effect_near_nothing() -> None:
    one = judged(additive(a=4.0), ("a",), ("a",))
    assert (one.complete, one.minimal, one.faithfulness) == (True, True, pytest.approx((1, 1, 1)))
    assert one.table[one.table["check"] == "completeness"]["label"].tolist() == ["all heads"]
    nothing = judged(additive(a=1e-5), ("a",), ("a",))
    assert (nothing.complete, nothing.minimal, nothing.not_needed) == (None, None, ())
    assert np.isnan(nothing.faithfulness).all()


def test_noise_widens_intervals_and_changes_no_verdict() -> None:
    checks = judged(MODEL, HEADS, HEADS[:3], noise=0.02)
    assert (checks.complete, checks.minimal) == (True, True)
    row = checks.table[checks.table["check"] == "minimality"].iloc[0]
    assert row["change_low"] < row["change_mean"] < row["change_high"]
    share, low, high = checks.faithfulness
    assert low < share < high
    assert share == pytest.approx(1, abs=0.01)


def changes(alone: dict[str, float], without: dict[str, float], noise: float = 0.001) -> pd.DataFrame:
    """Tables of single effects, each head's in two contrasts of eight occupations."""
    rng = generator(0, "backup")

    def rows(effects: dict[str, float]) -> pd.DataFrame:
        return pd.DataFrame(
            [
                {"contrast": f"{occupation} {i}", "occupation": occupation, "layer": layer, "head": head}
                | {"noise": effect + noise * rng.normal()}
                for occupation in OCCUPATIONS
                for i in (1, 2)
                for (layer, head), effect in ((tuple(map(int, name.split("."))), e) for name, e in effects.items())
            ]
        )

    return changed_by_ablation(rows(alone), rows(without), smallest=0.05, seed=0)


def test_of_two_heads_of_which_one_suffices_the_other_is_a_backup() -> None:
    """1.0 is held at the other run: 1.1, which alone changed nothing, now carries all of an effect of 2."""
    table = changes({"1.0": 0.0, "1.1": 0.0, "2.0": 0.5, "2.1": 0.0}, {"1.1": 2.0, "2.0": 0.1, "2.1": 0.02})
    table = table.set_index(["layer", "head"])
    assert list(table.index) == [(1, 1), (2, 0), (2, 1)]
    assert table["role"].tolist() == ["backup", "relies on them", "none"]  # the last changes by less than counts
    assert table["alone"].tolist() == pytest.approx([0, 0.5, 0], abs=0.002)
    assert table["without"].tolist() == pytest.approx([2, 0.1, 0.02], abs=0.002)
    assert table["change"].tolist() == pytest.approx([2, -0.4, 0.02], abs=0.002)
    assert table["p_max_t"].tolist()[:2] == [2 / 2**8] * 2
    assert (table["change_low"] < table["change"]).all()
    assert (table["change"] < table["change_high"]).all()


def test_noise_is_no_backup() -> None:
    table = changes({"1.0": 0.0, "1.1": 0.0}, {"1.1": 0.0}, noise=0.5)
    assert table["role"].tolist() == ["none"]
    assert table["p_max_t"].iloc[0] > 0.05


def test_without_heads_outside_there_is_nothing_to_change() -> None:
    empty = pd.DataFrame({"contrast": [], "occupation": [], "layer": [], "head": [], "noise": []})
    alone = pd.DataFrame({"contrast": ["a"], "occupation": ["a"], "layer": [0], "head": [0], "noise": [1.0]})
    table = changed_by_ablation(alone, empty, smallest=0.05, seed=0)
    assert len(table) == 0
    assert {"layer", "head", "alone", "without", "change", "p_max_t", "role"} <= set(table)
