"""Names, and what is said of each model."""

import re

import pytest

from referent_probe.models.quirks import HARMONY_ANSWER, PLAIN
from referent_probe.models.registry import DEFAULT_MODEL, KNOWN, known_model

PAPER = {
    "openai/gpt-oss-20b",
    "microsoft/phi-4",
    "google/gemma-3-12b-it",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.2-1B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
}


def test_the_papers_six_and_two_packaged_ones() -> None:
    assert {model.hub_id for model in KNOWN.values() if model.hub_id} == PAPER
    assert [name for name, model in KNOWN.items() if model.packaged] == [DEFAULT_MODEL, "gemma-3-270m"]


@pytest.mark.parametrize("name", KNOWN)
def test_every_entry_is_whole(name: str) -> None:
    model = KNOWN[name]
    assert model.name == name == name.lower()
    assert 1e8 < model.parameters < 1e11
    assert model.licence
    assert (model.hub_id is None) != (model.packaged is None)
    if model.packaged is not None:
        assert re.fullmatch(r"[0-9a-f]{64}", model.packaged.sha256)
        assert all(re.fullmatch(r"[\w-]+==[\d.]+", requirement) for requirement in model.packaged.requirements)
        assert any(package.file for package in model.packaged.packages)


@pytest.mark.parametrize("hub_id", sorted(PAPER))
def test_a_short_name_is_the_end_of_the_hub_id(hub_id: str) -> None:
    short = hub_id.split("/")[1]
    assert known_model(short) is known_model(hub_id) is known_model(short.lower())
    assert known_model(hub_id) is not None


@pytest.mark.parametrize("name", ["", "phi", "org/phi-4", "openai/gpt-oss-120b", "./phi-4"])
def test_what_is_not_known(name: str) -> None:
    assert known_model(name) is None


def test_quirks() -> None:
    assert KNOWN["gpt-oss-20b"].quirks.assistant_opening == HARMONY_ANSWER
    assert KNOWN["gpt-oss-20b"].quirks.quantisation == "mxfp4"
    assert not KNOWN["gemma-3-12b-it"].quirks.system_turn
    assert KNOWN["phi-4"].quirks == KNOWN[DEFAULT_MODEL].quirks == PLAIN
    assert {name for name, model in KNOWN.items() if model.gated} == {
        "gemma-3-12b-it",
        "llama-3.1-8b-instruct",
        "llama-3.2-1b-instruct",
    }
