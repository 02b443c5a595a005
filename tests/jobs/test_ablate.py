"""Ablation of heads on planted models; values that stand in come from plain passes."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from referent_probe.errors import OptionError
from referent_probe.jobs.ablate import KINDS, AblateJob
from referent_probe.mechanism.ablation_values import Pool
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.tokens import encode
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import choice_prompt, load_wording
from referent_probe.stimuli.templates import load_stimuli
from tests.jobs.planted import Do, Done, rows
from tests.twins import twin_activations, twin_logits

NOUN = (3, 0)
"""Brings the noun of the blank's person to the target slot: its output differs from prompt to prompt."""


@pytest.fixture(scope="module")
def saturator(do: Do) -> Done:
    return do("saturator", AblateJob())


def test_carriers_lose_what_is_theirs_under_every_kind(saturator: Done) -> None:
    table = saturator.table("effects").set_index(["label", "what"])
    effects = saturator.truth["target_slot_effects"]
    for head in ("4.0", "4.1"):
        for kind in KINDS:
            row = table.loc[(head, kind)]
            assert row["removed_mean"] == pytest.approx(effects[head], abs=0.01)
            assert row["removed_mean"] + row["remaining_mean"] == pytest.approx(saturator.total, abs=1e-6)
            assert row["removed_counts"]
    assert table["total"].to_numpy() == pytest.approx(saturator.total)


def test_distractors_lose_nothing_under_any_kind(saturator: Done) -> None:
    table = saturator.table("effects")
    idle = {f"{head['layer']}.{head['head']}" for head in saturator.truth["distractors"]}
    for kind in KINDS:
        found = table[(table["what"] == kind) & table["label"].isin(idle)]
        assert len(found) == len(idle) >= 5
        assert found["removed_mean"].abs().max() < 1e-3
        assert found["midpoint_shift_mean"].abs().max() < 1e-3
        assert not found["removed_counts"].any()


def test_the_constant_head_holds_the_midpoint_and_carries_nothing(saturator: Done) -> None:
    (constant,) = (f"{head['layer']}.{head['head']}" for head in saturator.truth["constant"])
    row = saturator.effects(label=constant, what="zero").iloc[0]
    assert row["midpoint_shift_mean"] == pytest.approx(-3, abs=0.03)
    assert row["remaining_mean"] == pytest.approx(saturator.total, abs=0.01)
    assert not row["removed_counts"]
    for kind in ("mean", "resample", "unprimed", "null"):
        assert abs(saturator.effects(label=constant, what=kind).iloc[0]["midpoint_shift_mean"]) < 0.01


def test_what_counts_under_every_kind_is_said(saturator: Done) -> None:
    text = saturator.summary["in_words"]
    assert "20 sets of heads by zero, mean, resample, unprimed, null" in text
    assert "changes under every kind for 4.0, 4.1, under some for 3.0, 3.2" in text
    shown = {row[0] for row in saturator.summary["leading"][1:]}
    assert {"4.0", "4.1", "3.0", "3.2"} <= shown
    assert len(saturator.summary["leading"]) == 1 + 12 * len(KINDS)
    assert (saturator.folder / "figures" / "ablations.pdf").is_file()


class ByHand:
    """The same ablations by full passes of a plain model."""

    def __init__(self, network: Any, done: Done) -> None:
        self.network, self.contrasts = network, done.contrasts
        self.z = cache(lambda ids: twin_activations(network, torch.tensor([ids])))

    def output(self, ids: tuple[int, ...], head: tuple[int, int]) -> torch.Tensor:
        """A head's output at the last position [d_head]."""
        activation: torch.Tensor = self.z(ids)[head[0], Site.Z][0, -1, head[1]]
        return activation

    def log_odds(self, contrast: Contrast, head: tuple[int, int], value: torch.Tensor) -> list[float]:
        ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids])
        patch = Patch(head[0], Site.Z, (contrast.length - 1,), head[1], value[None, None])
        logits = twin_logits(self.network, ids, None, [patch])[:, 0, list(contrast.tokens)].double()
        found: list[float] = (logits[:, 0] - logits[:, 1]).tolist()
        return found

    def alike(self, contrast: Contrast) -> list[Contrast]:
        """Contrasts of the same case and order of options; itself too."""
        return [
            other
            for other in self.contrasts.values()
            if (other.template.case, other.order) == (contrast.template.case, contrast.order)
        ]


@pytest.fixture(scope="module")
def by_hand(saturator: Done, planted: Callable[[str], Path], plain: Callable[[Path], Any]) -> ByHand:
    return ByHand(plain(planted("saturator")), saturator)


def stored(done: Done, contrast: Contrast, head: tuple[int, int], kind: str) -> list[float]:
    table = rows(
        done.table("interventions"), contrast=contrast.id, label=f"{head[0]}.{head[1]}", what=kind, where="target-slot"
    )
    values: list[float] = table[["log_odds_cf", "log_odds_cm"]].iloc[0].tolist()
    return values


def some(done: Done) -> Sequence[Contrast]:
    return list(done.contrasts.values())[::5]


def test_the_mean_is_that_of_prompts_of_the_kind(saturator: Done, by_hand: ByHand) -> None:
    for contrast in some(saturator):
        prompts = [p.ids for other in by_hand.alike(contrast) for p in (other.feminine, other.masculine)]
        mean = torch.stack([by_hand.output(ids, NOUN) for ids in prompts]).mean(0)
        assert len(prompts) == 8  # two pairs of each case, two sentences each, two primes
        assert stored(saturator, contrast, NOUN, "mean") == pytest.approx(
            by_hand.log_odds(contrast, NOUN, mean), abs=1e-4
        )


@pytest.mark.parametrize(("kind", "setting"), [("unprimed", ContextSetting.C0), ("null", ContextSetting.N1)])
def test_values_without_a_priming_pronoun(
    kind: str, setting: ContextSetting, saturator: Done, by_hand: ByHand, planted: Callable[[str], Path],
    loaded: Callable[[Path], Any],
) -> None:  # fmt: skip
    folder = planted("saturator")
    pairs = {pair.id: pair for pair in load_stimuli(folder / "stimuli.tsv").pairs}
    for contrast in some(saturator):
        template = contrast.template
        prompt = choice_prompt(
            template, pairs[contrast.pair].partner(template), setting, contrast.order,
            load_wording(folder / "prompts.toml"),
        )  # fmt: skip
        value = by_hand.output(encode(prompt, loaded(folder).tokenizer).ids, (4, 2))
        assert stored(saturator, contrast, (4, 2), kind) == pytest.approx(
            by_hand.log_odds(contrast, (4, 2), value), abs=1e-4
        )


def test_resampling_draws_another_occupations_prompt_of_the_kind(saturator: Done, by_hand: ByHand) -> None:
    moved = []
    for contrast in some(saturator):
        others = [o for o in by_hand.alike(contrast) if o.template.occupation != contrast.template.occupation]
        values = [by_hand.output(p.ids, NOUN) for o in others for p in (o.feminine, o.masculine)]
        known = [by_hand.log_odds(contrast, NOUN, value) for value in values]
        found = stored(saturator, contrast, NOUN, "resample")
        assert min(max(abs(a - b) for a, b in zip(found, one, strict=True)) for one in known) < 1e-4
        own = by_hand.log_odds(contrast, NOUN, by_hand.output(contrast.feminine.ids, NOUN))
        moved.append(abs(found[0] - own[0]))
    assert max(moved) > 0.1  # so that its own output would be told from another's


def test_named_heads_are_ablated_together_too(do: Do) -> None:
    done = do("gated-conflater", AblateJob("4.0,4.1", ("zero", "mean")), pairs=2)
    table = done.table("effects").set_index(["label", "what"])
    assert list(dict.fromkeys(table.index.get_level_values("label"))) == ["4.0", "4.1", "together"]
    for kind in ("zero", "mean"):
        assert table.loc[("together", kind), "remaining_mean"] == pytest.approx(0, abs=0.01)
        assert table.loc[("together", kind), "removed_mean"] == pytest.approx(done.total, abs=0.01)
    assert table.loc[("together", "zero"), "head"] == -1
    assert done.summary["leading"][1][0] == "together"


def test_choices_without_a_prime_tell_damage(
    do: Do, planted: Callable[[str], Path], plain: Callable[[Path], Any], loaded: Callable[[Path], Any]
) -> None:
    """Of the saturator's constant head, which holds them: at 0 they fall by 3, at its mean they stay."""
    done = do("saturator", AblateJob("4.2", ("zero", "mean")), pairs=3)
    table = done.table("controls")
    folder = planted("saturator")
    by_hand = ByHand(plain(folder), done)
    pairs = {pair.id: pair for pair in load_stimuli(folder / "stimuli.tsv").pairs}
    for contrast in some(done):
        template, own = contrast.template, rows(table, contrast=contrast.id).set_index("setting")["log_odds"]
        partner, wording = pairs[contrast.pair].partner(template), load_wording(folder / "prompts.toml")
        prompt = choice_prompt(template, partner, ContextSetting.C0, contrast.order, wording)
        ids = torch.tensor([encode(prompt, loaded(folder).tokenizer).ids])
        alike = [p.ids for other in by_hand.alike(contrast) for p in (other.feminine, other.masculine)]
        mean = torch.stack([by_hand.output(one, (4, 2)) for one in alike]).mean(0)
        patches = [Patch(4, Site.Z, (ids.shape[1] - 1,), 2, value[None, None]) for value in (0 * mean, mean)]
        logits = twin_logits(by_hand.network, ids, None, [(), *patches])[0][:, list(contrast.tokens)].double()
        assert own[["c0", "c0, zero", "c0, mean"]].tolist() == pytest.approx(
            (logits[:, 0] - logits[:, 1]).tolist(), abs=1e-4
        )
    wide = table.pivot(index="contrast", columns="setting", values="log_odds")
    assert (wide["c0, zero"] - wide["c0"]).to_numpy() == pytest.approx(-3, abs=0.03)
    assert (wide["c0, mean"] - wide["c0"]).abs().max() < 0.01
    assert len(done.summary["damage"]) == 2
    assert "neutral texts" in done.summary["in_words"]


class TestPool:
    """Drawing from a pool made by hand: contrasts 0 to 3 of two occupations, one kind; contrast 4 of another kind."""

    def pool(self) -> Pool:
        z = torch.arange(10, dtype=torch.float32).reshape(5, 2, 1, 1)
        kinds = (*[("nominative", "mf")] * 4, ("accusative", "mf"))
        return Pool(z, tuple("abcde"), kinds, ("cook", "cook", "nurse", "nurse", "cook"))

    def contrast(self, name: str, case: str, occupation: str) -> Any:
        return SimpleNamespace(id=name, order="mf", template=SimpleNamespace(case=case, occupation=occupation))

    def test_mean(self) -> None:
        assert float(self.pool().mean(self.contrast("a", "nominative", "cook"))) == 3.5
        assert float(self.pool().mean(self.contrast("e", "accusative", "cook"))) == 8.5

    def test_another_occupation_of_the_kind_by_seed(self) -> None:
        drawn = {seed: float(self.pool().other(self.contrast("a", "nominative", "cook"), seed)) for seed in range(60)}
        assert set(drawn.values()) == {4, 5, 6, 7}  # the nurse's, with both primes
        again = self.pool().other(self.contrast("a", "nominative", "cook"), 7)
        assert float(again) == drawn[7]

    def test_without_another_occupation_another_prompt_and_else_its_own(self) -> None:
        pool = Pool(self.pool().z[:3], tuple("abc"), (("nominative", "mf"),) * 2 + (("x", "mf"),), ("cook",) * 3)
        found = {float(pool.other(self.contrast("a", "nominative", "cook"), seed)) for seed in range(30)}
        assert found == {2, 3}
        alone = {float(pool.other(self.contrast("c", "x", "cook"), seed)) for seed in range(30)}
        assert alone == {4, 5}


def test_refusals() -> None:
    with pytest.raises(OptionError, match=r"--kinds 'noise' is unknown; give some of zero, mean, resample, unprimed"):
        AblateJob(kinds=("zero", "noise"))
    for few in ((), ("zero",), ("zero", "zero")):
        with pytest.raises(OptionError, match=r"--kinds '.*': give at least two of zero, mean"):
            AblateJob(kinds=few)
    for heads in ("", "20", "a.b", "1.2,", "1.-2", "1.2.3"):
        with pytest.raises(OptionError, match=r"'.*' names no head: write LAYER.HEAD, as in 20.3,26.0"):
            AblateJob(heads)
