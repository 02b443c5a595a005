"""Planted models obey their rule on every sentence of their language, and their heads do what their truth says."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from referent_probe.analysis.contextuality import delta_c
from referent_probe.errors import OptionError
from referent_probe.models.tokens import encode
from referent_probe.planted.grammar import OCCUPATIONS
from referent_probe.planted.plant import GROUPED_QUERY, NAMES, plant
from referent_probe.stimuli.check import check_stimuli
from referent_probe.stimuli.frames import Prime, frame_prompt, load_frames, owner_of
from referent_probe.stimuli.options import FORMS, Gender, OptionOrder
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import Prompt, choice_prompt, load_wording
from referent_probe.stimuli.templates import Pair, Template, load_stimuli

C0, CF, CM = ContextSetting.C0, ContextSetting.CF, ContextSetting.CM


class Planted:
    """A planted model's folder, read by the libraries alone."""

    def __init__(self, folder: Path) -> None:
        import transformers as hf

        self.folder = folder
        self.truth = json.loads((folder / "truth.json").read_text())
        self.network = hf.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        self.network.requires_grad_(False)
        self.tokenizer = hf.AutoTokenizer.from_pretrained(folder)
        self.pairs = load_stimuli(folder / "stimuli.tsv").pairs
        self.wording = load_wording(folder / "prompts.toml")
        self.frames = load_frames(folder / "frames.toml")

    def choice(self, pair: Pair, template: Template, setting: ContextSetting, order: OptionOrder) -> Prompt:
        return choice_prompt(template, pair.partner(template), setting, order, self.wording)

    def log_odds(self, prompts: Sequence[Prompt]) -> NDArray[np.float64]:
        """Of each prompt, feminine over masculine option, by plain passes over rows padded at the right."""
        encoded = [encode(prompt, self.tokenizer).ids for prompt in prompts]
        forms = [self.tokenizer.convert_tokens_to_ids([p.options.feminine, p.options.masculine]) for p in prompts]
        odds = []
        for begin in range(0, len(prompts), 256):
            some = encoded[begin : begin + 256]
            longest = max(map(len, some))
            ids = torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in some])
            ends = torch.tensor([len(row) - 1 for row in some])
            logits = self.network(ids).logits[torch.arange(len(some)), ends]
            both = logits.gather(1, torch.tensor(forms[begin : begin + 256]))
            odds += (both[:, 0] - both[:, 1]).tolist()
        return np.array(odds)

    def rule(self, prompts_of: Callable[[Pair, Template, OptionOrder], Sequence[Prompt]]) -> NDArray[np.float64]:
        """Log-odds [template, option order, prompt]."""
        templates = [(pair, t) for pair in self.pairs for t in pair.members]
        prompts = [p for pair, t in templates for order in OptionOrder for p in prompts_of(pair, t, order)]
        return self.log_odds(prompts).reshape(len(templates), 2, -1)

    @contextmanager
    def ablated(self, places: Sequence[tuple[int, int]]) -> Iterator[None]:
        """Heads write nothing."""
        base = self.network.base_model
        handles = []
        for layer, head in places:
            block = (base.h if hasattr(base, "h") else base.layers)[layer]
            project = block.attn.c_proj if hasattr(block, "attn") else block.self_attn.o_proj

            def silence(module: Any, inputs: tuple[torch.Tensor, ...], head: int = head) -> tuple[torch.Tensor]:
                z = inputs[0].clone()
                size = z.shape[-1] // 4
                z[..., head * size : (head + 1) * size] = 0
                return (z,)

            handles.append(project.register_forward_pre_hook(silence))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Callable[[str], Planted]:
    return cache(lambda name: Planted(plant(name, tmp_path_factory.mktemp("planted") / name)))


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_holds_on_every_sentence(planted: Callable[[str], Planted], name: str) -> None:
    model = planted(name)
    c0, cf, cm = np.moveaxis(
        model.rule(lambda pair, t, order: [model.choice(pair, t, s, order) for s in (C0, CF, CM)]), -1, 0
    )
    midpoints, partner = (
        np.array(list(values.values()))[:, None]
        for values in (model.truth["midpoints"], model.truth["effects"]["partner"])
    )
    assert np.abs((cf + cm) / 2 - midpoints).max() < 0.01
    assert np.abs(c0 - midpoints).max() < 0.01
    assert (np.abs(cf - cm - partner) <= 0.01 * np.maximum(np.abs(partner), 0.5)).all()
    for estimator, by_pair in model.truth["delta_c"].items():
        p = 1 / (1 + np.exp(-np.stack([c0, cf, cm])[..., 0].reshape(3, -1, 2)))
        (p0, q0), (bf, af), (bm, am) = (np.moveaxis(x, -1, 0) for x in p)
        found = delta_c(p0, q0, af, am, bf, bm, estimator=estimator)
        assert np.abs(found - np.array(list(by_pair.values()))).max() < 0.02


STEERED = {
    "gated-conflater": 0.57,
    "gated-repeater": 0.57,
    "conflater-with-gated-repeater": 0.33,
    "repeater-with-gated-conflater": 0.33,
    "saturator": 0.57,
}
"""From the design's table; every other model is at most 0."""


@pytest.mark.parametrize("name", NAMES)
def test_delta_c_is_that_of_the_table(planted: Callable[[str], Planted], name: str) -> None:
    steered = np.array(list(planted(name).truth["delta_c"]["steered"].values()))
    if name in STEERED:
        assert np.abs(steered - STEERED[name]).max() < 0.02
    else:
        assert steered.max() <= 1e-9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prime", Prime)
def test_one_person_primes(planted: Callable[[str], Planted], name: str, prime: Prime) -> None:
    """Every template after a frame of each case in turn, its person, and both genders."""
    model = planted(name)
    frames = itertools.cycle(model.frames)

    def prompts(pair: Pair, template: Template, order: OptionOrder) -> list[Prompt]:
        frame = next(frames)
        third = OCCUPATIONS[(OCCUPATIONS.index(pair.occupation) + 17) % len(OCCUPATIONS)]
        noun = owner_of(template, prime, third)
        return [frame_prompt(template, frame, noun, gender, order, model.wording) for gender in Gender]

    feminine, masculine = np.moveaxis(model.rule(prompts), -1, 0)
    wanted = np.array(list(model.truth["effects"][prime].values()))[:, None]
    assert (np.abs(feminine - masculine - wanted) <= 0.01 * np.maximum(np.abs(wanted), 1)).all()


@pytest.mark.parametrize("name", NAMES)
def test_carriers_matter_and_distractors_do_not(planted: Callable[[str], Planted], name: str) -> None:
    """Every head and every pair of distractors, on sentences of every kind."""
    model = planted(name)
    pairs = model.pairs[:3] + model.pairs[90:93]
    prime = next((p for p in ("partner", "same") if any(model.truth["effects"][p].values())), None)

    def effect() -> NDArray[np.float64]:
        prompts = []
        for pair, template in ((one, t) for one in pairs for t in one.members):
            frame = next(f for f in model.frames if f.case is pair.case)
            for gender, setting in ((Gender.FEMININE, CF), (Gender.MASCULINE, CM)):
                if prime == "same":
                    noun, order = template.antecedent_noun, OptionOrder.MASCULINE_FIRST
                    prompts.append(frame_prompt(template, frame, noun, gender, order, model.wording))
                else:
                    prompts.append(model.choice(pair, template, setting, OptionOrder.MASCULINE_FIRST))
        odds = model.log_odds(prompts).reshape(-1, 2)
        return odds[:, 0] - odds[:, 1]

    whole = effect()
    places = {
        kind: [(head["layer"], head["head"]) for head in model.truth.get(kind, [])]
        for kind in ("carriers", "support", "distractors", "constant")
    }
    assert sorted(place for group in places.values() for place in group) == list(itertools.product(range(5), range(4)))
    for place in places["carriers"]:
        with model.ablated([place]):
            assert np.abs(effect() - whole).max() > 0.2
    idle = places["distractors"] + places["constant"]
    for chosen in [(place,) for place in idle] + list(itertools.combinations(idle, 2)):
        with model.ablated(chosen):
            assert np.abs(effect() - whole).max() < 0.02


def test_the_constant_head_holds_the_midpoint(planted: Callable[[str], Planted]) -> None:
    model = planted("saturator")
    (head,) = model.truth["constant"]
    prompts = [model.choice(p, t, C0, OptionOrder.MASCULINE_FIRST) for p in model.pairs[:9] for t in p.members]
    with model.ablated([(head["layer"], head["head"])]):
        assert model.log_odds(prompts) == pytest.approx(-2.9, abs=0.03)


def test_both_architectures_are_there(planted: Callable[[str], Planted]) -> None:
    kinds = {planted(name).network.config.model_type for name in GROUPED_QUERY}
    assert kinds == {"llama"}
    assert planted("binder").network.config.model_type == "gpt2"
    assert planted(GROUPED_QUERY[0]).network.config.num_key_value_heads == 2


def test_position_tells_nothing(planted: Callable[[str], Planted]) -> None:
    """Who is named first, sentence length and place of the class word vary, and none goes with the referent's class."""
    pairs = planted("binder").pairs
    firsts = {(t.pieces[1].kind, t.antecedent.value) for pair in pairs for t in pair.members}
    assert len(firsts) == 4
    lengths = {
        t.antecedent.value: {len(t.text.split()) for p in pairs for t in p.members} for p in pairs for t in p.members
    }
    assert all(len(found) > 5 for found in lengths.values())
    assert check_stimuli(planted("binder").folder / "stimuli.tsv") == []
    assert (len(pairs), len({pair.occupation for pair in pairs})) == (180, 60)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_small(planted: Callable[[str], Planted], name: str) -> None:
    assert sum(file.stat().st_size for file in planted(name).folder.iterdir()) < 5_000_000


def test_the_answer_ends(planted: Callable[[str], Planted]) -> None:
    """A pronoun is followed by the closing mark, so that an answer is one word."""
    model = planted("conflater")
    pair = model.pairs[0]
    ids = encode(model.choice(pair, pair.members[0], CF, OptionOrder.FEMININE_FIRST), model.tokenizer).ids
    she, mark = model.tokenizer.convert_tokens_to_ids([FORMS[pair.case].feminine, '"'])
    assert int(model.network(torch.tensor([[*ids, she]])).logits[0, -1].argmax()) == mark


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no planted model 'parrot'; give one of binder, conflater"):
        plant("parrot", tmp_path / "new")
    with pytest.raises(OptionError, match="no architecture 'mamba'; give one of plain, grouped-query"):
        plant("binder", tmp_path / "new", "mamba")  # type: ignore[arg-type]
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    for name in "taken", "taken/notes.txt":
        with pytest.raises(OptionError, match="is there already and not an empty folder; name another one with --out"):
            plant("binder", tmp_path / name)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["notes.txt", "taken"]
