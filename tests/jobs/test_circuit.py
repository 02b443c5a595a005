"""Circuits of planted models: the planted one, one with a head missing, one with a head too many, all heads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from referent_probe.errors import OptionError
from referent_probe.jobs.circuit import CircuitJob
from referent_probe.models.interventions import Patch, Site
from tests.jobs.planted import Do, Done, context_of, rows
from tests.twins import twin_logits

EVERYTHING = [(layer, head) for layer in range(5) for head in range(4)]


@pytest.fixture(scope="module")
def planted_circuit(do: Do) -> Done:
    return do("gated-conflater", CircuitJob(top=(1, 2, 20)))


@pytest.fixture(scope="module")
def all_heads(do: Do) -> Done:
    return do("gated-conflater", CircuitJob("all", top=(1,)), pairs=2)


def test_the_planted_circuit_is_found_faithful_complete_and_minimal(planted_circuit: Done) -> None:
    found = planted_circuit.summary["circuit"]
    assert (found["heads"], found["given"]) == (["4.1", "4.0"], False)
    assert found["faithfulness"]["share"] == pytest.approx(1, abs=1e-3)
    assert (found["complete"], found["minimal"], found["not_needed"]) == (True, True, [])
    checks = planted_circuit.table("circuit_checks")
    needed = rows(checks, check="minimality").set_index("label")["change_mean"]
    known = {head: planted_circuit.truth["target_slot_effects"][head] for head in ("4.1", "4.0")}
    assert needed.to_dict() == pytest.approx(known, abs=0.01)
    left = rows(checks, check="completeness").set_index("removed")
    expected = {"4.1": known["4.0"], "4.0": known["4.1"], "4.1 4.0": 0.0}
    for of in ("circuit", "model"):
        assert left[f"{of}_mean"].to_dict() == pytest.approx(expected, abs=0.01)
    text = planted_circuit.summary["in_words"]
    assert "Circuit 4.1, 4.0 (the carriers of all occupations" in text
    assert "It is complete (within 10% of the model for every set of its heads removed) and minimal." in text
    assert "no other heads take over" in text


def test_with_a_head_missing_it_is_not_complete(do: Do) -> None:
    """4.0 carries a quarter of a logit of 2.25, more than a tenth."""
    done = do("gated-conflater", CircuitJob("4.1", top=(1,)), pairs=2)
    found = done.summary["circuit"]
    assert (found["given"], found["complete"], found["minimal"]) == (True, False, True)
    assert found["faithfulness"]["share"] == pytest.approx(2 / 2.25, abs=0.005)
    assert "It is not complete" in done.summary["in_words"]
    assert "(as named)" in done.summary["in_words"]


def test_with_a_head_too_many_it_is_not_minimal_and_the_head_is_named(do: Do) -> None:
    done = do("gated-conflater", CircuitJob("4.0, 4.1,4.3", top=(1,)), pairs=2)
    distractors = {f"{head['layer']}.{head['head']}" for head in done.truth["distractors"]}
    found = done.summary["circuit"]
    assert (found["heads"], found["complete"], found["minimal"]) == (["4.0", "4.1", "4.3"], True, False)
    assert set(found["not_needed"]) == {"4.3"} <= distractors
    assert "and not minimal: not needed 4.3." in done.summary["in_words"]


def test_all_heads_have_the_total_effect_and_none_has_nothing(all_heads: Done) -> None:
    table = all_heads.table("interventions")
    before = all_heads.table("contrasts").set_index("contrast")
    names = " ".join(f"{layer}.{head}" for layer, head in EVERYTHING)
    for of, removed, own in (("circuit", "", True), ("model", "", True), ("circuit", names, False)):
        cells = rows(table, kind="circuit", what=of, label=removed).set_index("contrast")
        for run, other in (("cf", "cm"), ("cm", "cf")):
            known = before[f"log_odds_{run if own else other}"]
            assert cells[f"log_odds_{run}"].to_numpy() == pytest.approx(known[cells.index].to_numpy(), abs=1e-5)
    found = all_heads.summary["circuit"]
    assert found["faithfulness"]["share"] == pytest.approx(1, abs=1e-6)
    assert (found["complete"], found["minimal"], len(found["not_needed"])) == (True, False, 18)
    assert len(all_heads.table("dependent_heads")) == 0
    checks = all_heads.table("circuit_checks")
    assert set(rows(checks, check="completeness")["label"]) == {
        "one head", "all heads but one", "several heads", "all heads",
    }  # fmt: skip


def test_the_carriers_together_have_all_of_the_effect(planted_circuit: Done) -> None:
    table = planted_circuit.table("joint_shares").set_index(["way", "k", "direction"])
    for way in ("1", "2", "both"):
        for direction in ("denoise", "noise"):
            assert table.loc[(way, 1, direction), "share"] == pytest.approx(2 / 2.25, abs=0.005)
            for k in (2, 20):
                row = table.loc[(way, k, direction)]
                assert row["share"] == pytest.approx(1, abs=1e-3)
                assert row["share_of_singles"] == pytest.approx(1, abs=2e-3)
                assert row["joint"] == pytest.approx(planted_circuit.total, abs=0.01)
    assert table.loc["1", "n"].tolist() == [3] * 6
    assert table.loc["both", "n"].tolist() == [6] * 6
    assert "The 1 leading head of the other half carry 89%" in planted_circuit.summary["in_words"]
    assert len(planted_circuit.summary["leading"]) == 1 + 3 * 2


def test_an_occupation_is_patched_by_the_ranking_of_the_half_that_it_is_not_in(planted_circuit: Done) -> None:
    from referent_probe.analysis.held_out import halves

    table = rows(planted_circuit.table("interventions"), kind="circuit", what="top")
    first, second = halves(table["occupation"], 0)
    way = table["label"].str.split(":").str[0]
    assert set(table["occupation"][way == "2"]) == set(first)
    assert set(table["occupation"][way == "1"]) == set(second)


def test_sets_of_heads_equal_full_passes(
    planted_circuit: Done, planted: Callable[[str], Path], plain: Callable[[Path], Any]
) -> None:
    """The circuit without 4.0: every head but 4.1 from the other run."""
    network = plain(planted("gated-conflater"))
    for contrast in list(planted_circuit.contrasts.values())[::7]:
        ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids])
        slot = (contrast.length - 1,)
        row = [Patch(layer, Site.Z, slot, head) for layer, head in EVERYTHING if (layer, head) != (4, 1)]
        logits = twin_logits(network, ids, ids.flip(0), [row])[:, 0, list(contrast.tokens)].double()
        cell = rows(
            planted_circuit.table("interventions"), contrast=contrast.id, kind="circuit", what="circuit", label="4.0"
        )
        assert cell[["log_odds_cf", "log_odds_cm"]].iloc[0].tolist() == pytest.approx(
            (logits[:, 0] - logits[:, 1]).tolist(), abs=1e-4
        )


def test_without_carriers_the_leading_heads_are_tried_and_nothing_is_claimed(do: Do) -> None:
    """The binder never hears the other person's pronoun."""
    done = do("binder", CircuitJob(largest=6, top=(1,)), pairs=2)
    found = done.summary["circuit"]
    assert (len(found["heads"]), found["complete"], found["minimal"]) == (6, None, None)
    assert found["faithfulness"]["share"] is None
    assert "The total effect is too near 0 to say whether it is complete or minimal." in done.summary["in_words"]
    assert done.table("joint_shares")["share"].isna().all()
    assert (done.folder / "figures" / "circuit_checks.png").is_file()


def test_sets_that_are_removed() -> None:
    from referent_probe.jobs.circuit import SUBSETS, _subsets

    two, five = ((1, 0), (2, 0)), tuple((layer, 0) for layer in range(5))
    assert _subsets(two, 0) == [(), ((1, 0),), ((2, 0),), two]
    some = _subsets(five, 0)
    assert some == _subsets(five, 0) != _subsets(five, 1)
    assert len(set(some)) == len(some)
    assert {(), five, *((head,) for head in five)} <= set(some)
    assert all(tuple(head for head in five if head in removed) == removed for removed in some)
    assert 12 < len(some) <= 12 + SUBSETS
    assert len(_subsets(five[:4], 0)) == 2**4


def test_refusals(tiny_llama: Path, loaded: Callable[[Path], Any]) -> None:
    with pytest.raises(OptionError, match=r"--largest 0 is below 1; give 1 or more"):
        CircuitJob(largest=0)
    for top in ((), (0,), (2, -1)):
        with pytest.raises(OptionError, match=r"--top .*: give numbers from 1 on, as in 1,2,5,10"):
            CircuitJob(top=top)
    context = context_of(tiny_llama, loaded(tiny_llama))
    with pytest.raises(OptionError, match=r"--top '13,20': the model has 12 heads; give a number from 1 to 12"):
        CircuitJob(top=(13, 20)).check(context)
    with pytest.raises(OptionError, match=r"head 3.0 is not there: the model has layers 0 to 2 with heads 0 to 3"):
        CircuitJob("2.0,3.0").check(context)
    CircuitJob(top=(12, 13)).check(context)
