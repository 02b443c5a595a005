"""The conflation job gives planted models the verdict and the carriers that their truth names."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from referent_probe.errors import OptionError, StimuliError
from referent_probe.jobs.conflation import ConflationJob
from referent_probe.jobs.run import run_job
from referent_probe.jobs.settings import JobSettings
from referent_probe.planted.plant import NAMES, plant

IN_CI = ("gated-conflater", "conflater-with-gated-repeater")
PHI = {
    "gated-conflater": (1, 0),
    "gated-repeater": (0, 1),
    "conflater-with-gated-repeater": (0, 1),
    "repeater-with-gated-conflater": (1, 0),
    "saturator": (1, 0),
}
"""phi_K and phi_R; in the other models no pair is contextual."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Callable[[str], Path]:
    return cache(lambda name: plant(name, tmp_path_factory.mktemp("planted") / name))


def judge(model: Path, out: Path, seed: int) -> dict[str, Any]:
    settings = JobSettings(str(model), pairs=24, seed=seed, out=out, device="cpu")
    return run_job(settings, ConflationJob(random_sets=20)).summary


def check(model: Path, out: Path, seed: int) -> None:
    truth, found = json.loads((model / "truth.json").read_text()), judge(model, out, seed)
    assert found["verdict"]["behavioural"] == truth["verdict"]
    heads = [head for head in truth["carriers"] if head["where"] == "target-slot"]

    def reading(*beginnings: str) -> set[str]:
        return {f"{head['layer']}.{head['head']}" for head in heads if head["reads"].startswith(beginnings)}

    owner_specific, owner_blind = reading("a pronoun", "the pronoun of the other"), reading("the last")
    assert set(found["carriers"]["K"]) == owner_specific
    assert set(found["carriers"]["R"]) == owner_blind
    assert found["carriers"]["K_sometimes"] == found["carriers"]["R_sometimes"] == {}
    for constant in truth.get("constant", []):
        assert f"{constant['layer']}.{constant['head']}" not in found["carriers"]["K"] + found["carriers"]["R"]
    bridge = found["bridge"]
    if truth["name"] in PHI:
        for name, wanted in zip(("phi_K", "phi_R"), PHI[truth["name"]], strict=True):
            assert bridge[name]["mean"] == pytest.approx(wanted, abs=0.1)
            assert bridge[f"{name}_strength"]["mean"] == pytest.approx(wanted, abs=0.1)
    else:
        assert bridge["phi_K"] is None
    assert found["self_check"]["max_abs_diff"] < 1e-4


@pytest.mark.parametrize("name", IN_CI)
def test_the_verdict_is_that_of_the_truth(folder: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    check(folder(name), tmp_path / "run", seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(10))
def test_the_verdict_is_that_of_the_truth_in_ten_draws(
    folder: Callable[[str], Path], tmp_path: Path, name: str, seed: int
) -> None:
    check(folder(name), tmp_path / "run", seed)


def test_bad_input(folder: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--frames-per-template 5 does not lie from 1 to the 4 frames at hand"):
        ConflationJob(frames_per_template=5)
    with pytest.raises(OptionError, match=r"--random-sets 0 is below 1"):
        ConflationJob(random_sets=0)
    model = str(folder("binder"))
    with pytest.raises(StimuliError, match="conflation needs third persons, and one pair has none"):
        run_job(JobSettings(model, pairs=1, out=tmp_path / "one"), ConflationJob())
    with pytest.raises(OptionError, match=r"6 occupations are too few for a verdict: .* Give more --pairs"):
        run_job(JobSettings(model, pairs=6, out=tmp_path / "six"), ConflationJob())
    assert not (tmp_path / "six").exists()
