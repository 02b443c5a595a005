"""Surveys of planted models: their carriers, held out; flow; attribution that adds up; primes that they ignore."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from referent_probe.errors import OptionError
from referent_probe.jobs.survey import SurveyJob
from referent_probe.models.tokens import encode
from referent_probe.planted.plant import NAMES
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import choice_prompt, load_wording
from referent_probe.stimuli.templates import load_stimuli
from tests.jobs import surveys
from tests.jobs.planted import Do, Done, rows


@pytest.fixture(scope="module")
def conflater(do: Do) -> Done:
    return surveys.of_conflater(do)


@pytest.fixture(scope="module")
def gated_repeater(do: Do) -> Done:
    return surveys.of_gated_repeater(do)


@pytest.fixture(scope="module")
def binder(do: Do) -> Done:
    return surveys.of_binder(do)


def carriers_are_the_truths(done: Done) -> None:
    heads = done.table("head_effects").set_index(["layer", "head"])
    effects = {tuple(map(int, head.split("."))): value for head, value in done.truth["target_slot_effects"].items()}
    called = {place: "both" if value else "none" for place, value in effects.items()}
    assert heads["carrier"].to_dict() == called
    for direction in ("denoise", "noise"):
        assert heads[f"{direction}_mean"].to_dict() == pytest.approx(effects, abs=0.02)


def confirmed_are_the_truths(done: Done) -> None:
    named = {head: value for head, value in done.truth["target_slot_effects"].items() if value}
    confirmed = {
        (f"{row['layer']}.{row['head']}", row["direction"], row["ways"])
        for row in done.summary["held_out"]["confirmed"]
    }
    assert confirmed == {(head, direction, 2) for head in named for direction in ("denoise", "noise")}
    table = done.table("held_out")
    assert len(table) == 4 * len(named)
    assert set(table["n_choosing"]) == set(table["n_held_out"]) == {done.summary["n_occupations"] // 2}
    for row in table.to_dict("records"):
        assert row["effect_held_out"] == pytest.approx(named[f"{row['layer']}.{row['head']}"], abs=0.02)


def test_carriers_and_those_that_are_confirmed_are_the_truths(conflater: Done) -> None:
    carriers_are_the_truths(conflater)
    confirmed_are_the_truths(conflater)
    text = conflater.summary["in_words"]
    assert "over 20 heads x 2 directions" in text
    assert "confirmed on the other: 4.0 (denoising and noising) both ways, none one way" in text
    for direction in ("denoise", "noise"):
        share = conflater.summary["carried"][direction]["share_of_total"]
        assert share["mean"] == pytest.approx(1, abs=1e-3)
    assert {file.stem for file in (conflater.folder / "figures").glob("*.png")} == {
        "head_map", "attention_by_layer", "pair_effects", "flow_map", "sources",
    }  # fmt: skip


def test_with_few_occupations_carriers_are_called_and_nothing_is_held_out(gated_repeater: Done) -> None:
    carriers_are_the_truths(gated_repeater)
    assert gated_repeater.summary["held_out"]["reason"].startswith("6 occupations: a half has under 6")
    assert "Held out, nothing is claimed: 6 occupations" in gated_repeater.summary["in_words"]
    assert gated_repeater.summary["leading_heads_by_span"] == []
    assert (
        "more than half of the effect sits at the priming pronoun up to layer 4" in gated_repeater.summary["in_words"]
    )


def test_a_model_that_never_hears_the_other_person_has_no_carrier(binder: Done) -> None:
    heads = binder.table("head_effects")
    assert set(heads["carrier"]) == {"none"}
    assert "at least 0.001 logits): none." in binder.summary["in_words"]
    assert binder.summary["carried"]["denoise"] == {"sum_of_effects": None, "share_of_total": None}
    assert (binder.summary["flow"], len(binder.table("flow_effects"))) == ([], 0)
    assert not (binder.folder / "figures" / "flow_map.png").exists()


@pytest.mark.parametrize("of", [surveys.of_conflater, surveys.of_gated_repeater, surveys.of_binder])
def test_attribution_adds_up(of: Callable[[Do], Done], do: Do) -> None:
    done = of(do)
    for identity in ("heads_and_rest_to_logit_difference", "sources_to_heads"):
        assert 0 <= done.summary["self_check"]["attribution_identities"][identity] < 1e-3
    parts = done.table("parts")
    contrasts = done.table("contrasts").set_index("contrast")
    attributions = done.table("attributions")
    for run in ("cf", "cm"):
        wide = parts.pivot(index="contrast", columns="part", values=f"value_{run}")
        assert wide.drop(columns=["all", "logit_difference"]).sum(axis=1).to_numpy() == pytest.approx(
            wide["logit_difference"].to_numpy(), abs=1e-3
        )
        assert wide["all"].to_numpy() == pytest.approx(wide["logit_difference"].to_numpy(), abs=1e-3)
        assert wide["logit_difference"].to_numpy() == pytest.approx(
            contrasts[f"log_odds_{run}"][wide.index].to_numpy(), abs=1e-4
        )
        of_heads = attributions.groupby("contrast")[f"attribution_{run}"].sum()
        assert of_heads[wide.index].to_numpy() == pytest.approx(wide["heads"].to_numpy(), abs=1e-3)
        attention = attributions.groupby(["contrast", "layer", "head"])[f"attention_{run}"].sum()
        assert attention.to_numpy() == pytest.approx(1, abs=1e-4)


def test_the_carrier_writes_what_it_takes_from_the_end_of_the_prime(conflater: Done) -> None:
    table = rows(conflater.table("attribution_by_span"), layer=4, head=0).set_index("span")["attribution_mean"]
    assert table["prime_after_pronoun"] == pytest.approx(conflater.total, abs=0.05)
    assert table.drop("prime_after_pronoun").abs().max() < 0.05
    heads = conflater.table("head_effects").set_index(["layer", "head"])
    assert heads.loc[(4, 0), "direct_logit_attribution_mean"] == pytest.approx(table.sum(), abs=1e-3)
    change = conflater.table("parts_of_logit_difference").set_index("part")["change_mean"]
    assert change["heads"] == pytest.approx(conflater.total, abs=0.05)
    assert change.drop(["heads", "all", "logit_difference"]).abs().max() < 0.05


def test_primes_without_a_pronoun_leave_models_alone_that_ignore_them(
    conflater: Done, planted: Callable[[str], Path], plain: Callable[[Path], Any], loaded: Callable[[Path], Any]
) -> None:
    shifts = conflater.table("control_effects").set_index("setting")
    assert set(shifts.index) == {"n1", "n2", "r_np", "r_both"}
    assert shifts[["shift_mean", "size_mean"]].abs().to_numpy().max() < 0.01
    assert (shifts["n"] == 12).all()
    table, folder = conflater.table("controls"), planted("conflater")
    midpoints = table["contrast"].str.removesuffix("-mf").map(conflater.truth["midpoints"])
    assert table["log_odds"].to_numpy() == pytest.approx(midpoints.to_numpy(), abs=0.02)
    pairs = {pair.id: pair for pair in load_stimuli(folder / "stimuli.tsv").pairs}
    for row in table.to_dict("records")[::23]:
        contrast = conflater.contrasts[row["contrast"]]
        template = contrast.template
        prompt = choice_prompt(
            template, pairs[contrast.pair].partner(template), ContextSetting(row["setting"]), contrast.order,
            load_wording(folder / "prompts.toml"),
        )  # fmt: skip
        ids = encode(prompt, loaded(folder).tokenizer).ids
        logits = plain(folder)(torch.tensor([ids])).logits[0, -1, list(contrast.tokens)]
        assert (row["tokens"], row["log_odds"]) == (len(ids), pytest.approx(float(logits[0] - logits[1]), abs=1e-4))


def test_the_leading_heads_by_span(conflater: Done) -> None:
    """The carrier acts at the target slot alone; its own sweep and that by span are told apart."""
    table = conflater.table("span_effects")
    carrier = rows(table, layer=4, head=0).set_index("where")
    assert carrier.loc["target-slot", "denoise_mean"] == pytest.approx(conflater.total, abs=0.01)
    others = carrier.drop("target-slot")
    assert others[["denoise_mean", "noise_mean"]].abs().to_numpy().max() < 0.01
    assert others.loc["instruction", "reason"].startswith("before the first difference")
    assert table.groupby(["layer", "head"]).ngroups == 2
    assert (table["n_contrasts"] == 24).all()
    both = conflater.table("interventions").query("where == 'target-slot' and what == 'z' and layer == 4 and head == 0")
    twice = both.groupby("contrast")[["log_odds_cf", "log_odds_cm"]]
    assert (twice.size() == 2).all()
    assert (twice.max() - twice.min()).to_numpy().max() < 1e-4


def test_the_flow_is_of_the_pairs_that_were_asked_for(conflater: Done) -> None:
    flow = conflater.table("flow_effects")
    swept = rows(conflater.table("interventions"), what="resid")
    assert (swept["pair"].nunique(), set(flow["n"]), set(flow["n_contrasts"])) == (2, {2}, {4})
    assert swept["log_odds_cf"].isna().all()
    wide = flow.pivot(index="layer", columns="where", values="denoise_mean") / conflater.total
    assert wide["priming-pronoun"].tolist() == pytest.approx([1, 1, 0, 0, 0], abs=0.01)
    assert wide["prime-after-pronoun"].tolist() == pytest.approx([0, 0, 1, 1, 1], abs=0.01)


def test_stability_is_told_within_the_run(conflater: Done) -> None:
    table = conflater.table("stability")
    assert {"random halves", "case", "direction"} <= set(table["comparison"])
    assert "Rankings of heads on random halves of the occupations" in conflater.summary["in_words"]
    json = conflater.summary["stability"]
    assert [row["comparison"] for row in json] == table["comparison"].tolist()
    assert all(row["spearman"] is None or math.isfinite(row["spearman"]) for row in json)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_planted_model_is_read_rightly(name: str, do: Do) -> None:
    done = do(name, SurveyJob(flow_pairs=2, leading=2), pairs=24)
    carriers_are_the_truths(done)
    if any(done.truth["target_slot_effects"].values()):
        confirmed_are_the_truths(done)
    assert done.table("control_effects")["size_mean"].max() < 0.05


def test_refusals() -> None:
    with pytest.raises(OptionError, match=r"--flow-pairs -1 is below 0; give 0 or more"):
        SurveyJob(flow_pairs=-1)
    with pytest.raises(OptionError, match=r"--leading -2 is below 0; give 0 or more"):
        SurveyJob(leading=-2)
