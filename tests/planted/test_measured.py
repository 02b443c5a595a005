"""Planted models are measured and analysed in full, and what comes out is their truth."""

import gc
import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from referent_probe.analysing import analyse
from referent_probe.errors import PromptError, StimuliError
from referent_probe.measure_settings import MeasureSettings
from referent_probe.measurement.comprehension import as_answered, asked_of
from referent_probe.measurement.joint import joint_prompts
from referent_probe.measurement.readings import own_tokens
from referent_probe.measurement.sentences import whole_sentences
from referent_probe.measuring import measure
from referent_probe.models.load import LoadedModel, load_model
from referent_probe.models.reading import read
from referent_probe.models.tokens import encode, refuse_unknown
from referent_probe.planted.grammar import OCCUPATIONS
from referent_probe.planted.plant import NAMES, plant
from referent_probe.priming_pronoun import Settings, patch_priming_pronoun
from referent_probe.stimuli.frames import frame_prompt, load_frames
from referent_probe.stimuli.options import FORMS, Gender, OptionOrder
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import DEFAULT_WORDING, choice_prompt, load_wording
from referent_probe.stimuli.templates import load_stimuli
from tests.measured import few_resamples_in

PLAIN, GROUPED = "conflater", "gated-repeater"
ROUNDING = 5e-5
"""Logits; half of what `measure` lets pass."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Callable[..., Path]:
    return cache(lambda name, architecture=None: plant(name, tmp_path_factory.mktemp("planted") / name, architecture))


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        few_resamples_in(patch)
        yield
    gc.unfreeze()


def measured(model: Path, out: Path, pairs: int) -> Path:
    """The run folder of a measurement with all its parts."""
    said: list[str] = []
    done = measure(MeasureSettings(str(model), pairs=pairs, comprehension_pairs=1, out=out), notify=said.append)
    assert said[0] == f"stimuli: {model}/stimuli.tsv; wording: {model}/prompts.toml"
    assert done.summary["self_check"]["max_abs_diff"] < ROUNDING
    assert all(len(done.table(name)) for name in ("choices", "answers", "joint", "sentences", "comprehension"))
    return out


def check_analysed(runs: list[Path], models: list[Path], pairs: int) -> None:
    """The analysis finds dC at temperature 1 as the truth has it."""
    found = analyse(runs).pairs
    for model in models:
        truth = json.loads((model / "truth.json").read_text())
        rows = found[(found["model"] == model.name) & (found["temperature"] == 1) & (found["reading"] == "choice")]
        rows = rows[rows["estimator"].isin(list(truth["delta_c"]))]
        assert len(rows) == pairs * 2 * 3  # both estimators, both option orders, and with these averaged out
        wanted = [truth["delta_c"][e][pair] for e, pair in zip(rows["estimator"], rows["pair"], strict=True)]
        assert np.abs(rows["delta_c"].to_numpy() - wanted).max() < 0.02


def test_two_models_are_measured_and_analysed_in_full(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where an analysis of several runs makes its folder
    # Drawing takes longer than all else, and is done below.
    monkeypatch.setattr("referent_probe.analysing._drawn", lambda tables, summary: {})
    models = [folder(PLAIN), folder(GROUPED)]
    check_analysed([measured(model, tmp_path / model.name, pairs=2) for model in models], models, pairs=2)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["plain", "grouped-query"])
@pytest.mark.parametrize("name", NAMES)
def test_every_model_in_full(folder: Callable[..., Path], tmp_path: Path, name: str, architecture: str) -> None:
    model = folder(name, architecture)
    check_analysed([measured(model, tmp_path / "run", pairs=12)], [model], pairs=12)


@pytest.fixture(scope="module")
def loaded(folder: Callable[..., Path]) -> Callable[[str], LoadedModel]:
    return cache(lambda name: load_model(str(folder(name)), interventions=False))


def test_the_vocabulary_has_every_word_that_is_put_to_a_model(
    folder: Callable[..., Path], loaded: Callable[[str], LoadedModel]
) -> None:
    """Of every fifteenth pair and every frame; each prompt is encoded, which refuses unknown words."""
    place, model = folder(PLAIN), loaded(PLAIN)
    pairs, wording = load_stimuli(place / "stimuli.tsv").pairs, load_wording(place / "prompts.toml")
    for pair, number in ((pair, n) for pair in pairs[::15] for n in (0, 1)):
        template = pair.members[number]
        for setting, order, words in product(ContextSetting, OptionOrder, (wording, DEFAULT_WORDING)):
            encode(choice_prompt(template, pair.partner(template), setting, order, words), model.tokenizer)
        joint_prompts(model, pair)
        primed = [setting for setting in ContextSetting if setting.gender is not None]
        asked, prompts = asked_of(model, pair, template, primed)
        for (_, _, _, listed), prompt in zip(asked, prompts, strict=True):
            for answer in listed:
                ids = own_tokens(prompt, as_answered(answer), model.tokenizer)
                assert ids is not None
                refuse_unknown(ids, [answer] * len(ids), model.tokenizer)
        for text in (text for setting in ContextSetting for text in whole_sentences(pair, template, setting)):
            ids = model.tokenizer(text)["input_ids"]
            refuse_unknown(ids, [text] * len(ids), model.tokenizer)
    template = pairs[0].members[0]
    for i, frame in enumerate(load_frames(place / "frames.toml")):
        prompt = frame_prompt(template, frame, OCCUPATIONS[i], Gender.FEMININE, OptionOrder.FEMININE_FIRST, wording)
        encode(prompt, model.tokenizer)


def largest_difference(model: LoadedModel, ids: list[list[tuple[int, ...]]]) -> float:
    """Between shared and full passes, in log-probabilities, as `measure` compares them."""
    largest = 0.0
    for rows in ids:
        shared = read(model, rows).logits.double().log_softmax(-1)
        with torch.no_grad():
            full = torch.stack([model.network(torch.tensor([row])).logits[0, -1] for row in rows])
        full = full.double().log_softmax(-1)
        likely = full.topk(20, dim=-1).indices
        largest = max(largest, float((shared - full).gather(-1, likely).abs().max()))
    return largest


def test_shared_and_full_passes_differ_by_rounding_alone(folder: Callable[..., Path]) -> None:
    """Little in single precision, and a millionth of that in double precision."""
    place = folder(GROUPED)
    model = load_model(str(place), interventions=False)
    wording = load_wording(place / "prompts.toml")
    ids = [
        [
            encode(choice_prompt(t, pair.partner(t), setting, order, wording), model.tokenizer).ids
            for setting, order in product(ContextSetting, OptionOrder)
        ]
        for pair in load_stimuli(place / "stimuli.tsv").pairs[::45]
        for t in pair.members
    ]
    assert largest_difference(model, ids) < ROUNDING
    model.network.double()
    assert largest_difference(model, ids) < 1e-10


@pytest.mark.parametrize("job", ["measure", "patch"])
@pytest.mark.parametrize(("name", "error"), [("stimuli.tsv", StimuliError), ("prompts.toml", PromptError)])
def test_a_folder_that_lost_its_own_sentences_or_wording_is_refused(
    folder: Callable[..., Path], tmp_path: Path, job: str, name: str, error: type[Exception]
) -> None:
    for file in folder(PLAIN).iterdir():
        if file.name != name:
            (tmp_path / file.name).symlink_to(file)
    run: Callable[[], Any] = {
        "measure": lambda: measure(MeasureSettings(str(tmp_path), pairs=1, out=tmp_path / "run")),
        "patch": lambda: patch_priming_pronoun(Settings(str(tmp_path), pairs=1, out=tmp_path / "run")),
    }[job]
    with pytest.raises(error, match=rf"is a planted model's .* lacks '{name}'"):
        run()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("job", ["measure", "patch"])
def test_a_refused_run_leaves_no_folder_and_the_line_says_what_was_read(
    folder: Callable[..., Path], tmp_path: Path, job: str
) -> None:
    model, said = str(folder(PLAIN)), []  # type: tuple[str, list[str]]
    run: Callable[[], Any] = {
        "measure": lambda: measure(
            MeasureSettings(model, stimuli="builtin", pairs=1, out=tmp_path / "run"), notify=said.append
        ),
        "patch": lambda: patch_priming_pronoun(
            Settings(model, stimuli="builtin", pairs=1, out=tmp_path / "run"), notify=said.append
        ),
    }[job]
    with pytest.raises(PromptError, match="vocabulary lacks"):
        run()
    assert said[0] == f"stimuli: builtin; wording: {model}/prompts.toml"
    assert list(tmp_path.iterdir()) == []


def test_an_answer_is_one_of_the_two(loaded: Callable[[str], LoadedModel], folder: Callable[..., Path]) -> None:
    place, model = folder(PLAIN), loaded(PLAIN)
    pair, wording = load_stimuli(place / "stimuli.tsv").pairs[4], load_wording(place / "prompts.toml")
    template = pair.members[0]
    prompt = choice_prompt(template, pair.members[1], ContextSetting.C0, OptionOrder.MASCULINE_FIRST, wording)
    forms = FORMS[pair.case]
    wanted = model.tokenizer.convert_tokens_to_ids([forms.feminine, forms.masculine])
    logits = read(model, [encode(prompt, model.tokenizer).ids]).logits[0]
    assert float(logits.softmax(-1)[wanted].sum()) > 0.999
