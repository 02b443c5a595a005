"""The main job on planted models calls carriers exactly the heads that their truth names at the target slot."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from referent_probe.errors import PromptError
from referent_probe.measure_settings import MeasureSettings
from referent_probe.measuring import measure
from referent_probe.planted.plant import NAMES, plant
from referent_probe.priming_pronoun import Settings, patch_priming_pronoun

PAIRS = 8
TOLERANCE = 0.01
"""Of an effect, as the README promises; logits of those below 1."""
UNMOVED = ("binder", "stereotyper")
"""The partner prime does not move them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Callable[[str], Path]:
    return cache(lambda name: plant(name, tmp_path_factory.mktemp("planted") / name))


def draw(folder: Path, out: Path, seed: int) -> None:
    truth = json.loads((folder / "truth.json").read_text())
    done = patch_priming_pronoun(Settings(str(folder), pairs=PAIRS, flow_pairs=0, seed=seed, out=out, device="cpu"))
    wanted = {(head["layer"], head["head"]) for head in truth["carriers"] if head["where"] == "target-slot"}
    called = done.heads[done.heads["carrier"] == "both"]
    assert set(done.heads["carrier"]) <= {"both", "none"}
    found = set(zip(called["layer"].tolist(), called["head"].tolist(), strict=True))
    assert found == (set() if truth["name"] in UNMOVED else wanted)
    expected = truth["target_slot_effects"]
    assert len(expected) == len(done.heads) == 20
    for head in done.heads.itertuples():
        wanted = expected[f"{head.layer}.{head.head}"]
        tolerance = TOLERANCE * max(abs(wanted), 1)
        assert (head.denoise_mean, head.noise_mean) == pytest.approx((wanted, wanted), abs=tolerance)
    assert done.summary["total_effect"]["mean"] == pytest.approx(sum(expected.values()), abs=TOLERANCE * 4)
    effects = truth["effects"]["partner"]
    occupations = done.summary["n_occupations"]
    assert occupations == PAIRS
    assert min(effects.values()) - 0.05 <= done.summary["total_effect"]["mean"] <= max(effects.values()) + 0.05


@pytest.mark.parametrize("name", NAMES)
def test_carriers_are_those_of_the_truth(folder: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    draw(folder(name), tmp_path / "run", seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(1, 10))
def test_carriers_are_those_of_the_truth_in_ten_draws(
    folder: Callable[[str], Path], tmp_path: Path, name: str, seed: int
) -> None:
    draw(folder(name), tmp_path / "run", seed)


def test_words_that_the_vocabulary_lacks_are_refused(folder: Callable[[str], Path], tmp_path: Path) -> None:
    model = str(folder("conflater"))
    message = r"the model's vocabulary lacks '[^']+'.*; give sentences \(--stimuli\) and a wording \(--prompts\)"
    with pytest.raises(PromptError, match=message):
        patch_priming_pronoun(Settings(model, stimuli="builtin", out=tmp_path / "one"))
    with pytest.raises(PromptError, match=message):
        measure(MeasureSettings(model, stimuli="builtin", out=tmp_path / "two", pairs=2))
    wording = tmp_path / "wording.toml"
    wording.write_text("system = ''\nuser = '{passage} Choose {option_1} or {option_2} for BLANK.'\nprefill = ''\n")
    with pytest.raises(PromptError, match=r"lacks 'Choose'; give sentences"):
        patch_priming_pronoun(Settings(model, prompts=wording, out=tmp_path / "three"))
