import doctest
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from referent_probe.errors import ModelError, OptionError
from referent_probe.measurement import warp as module
from referent_probe.measurement.warp import ResolvedSettings, SamplingSettings, resolve_settings, warp


def model_with(**settings: Any) -> Any:
    """What `resolve_settings` reads of a model."""
    original = SimpleNamespace(generation_config=GenerationConfig(**settings))
    return SimpleNamespace(network=original, source=SimpleNamespace(name="some-model"))


def test_example_in_docstring() -> None:
    assert doctest.testmod(module) == (0, 2)


@pytest.mark.parametrize(("temperature", "top_k"), [(0.5, 40), (0.5, 7), (1.0, None), (1.0, 3), (0.3, None), (2.0, 1)])
@pytest.mark.parametrize("ties", [False, True])
def test_equals_the_scores_of_generate(
    small_model: Callable[..., Any], temperature: float, top_k: int | None, ties: bool
) -> None:
    small = small_model("byte-level", 5)
    head = small.plain.lm_head.weight
    before = head.detach().clone()
    try:
        if ties:  # every token ties with its neighbour, so an odd k cuts a tie
            with torch.no_grad():
                head[1::2] = head[: 2 * len(head[1::2]) : 2]
        torch.manual_seed(1)
        out = small.plain.generate(
            torch.tensor([small.prompt.ids]),
            attention_mask=torch.ones(1, len(small.prompt.ids), dtype=torch.long),
            do_sample=True,
            temperature=temperature,
            top_k=top_k or 0,  # None would be 50
            max_new_tokens=4,
            num_return_sequences=3,
            output_scores=True,
            output_logits=True,
            return_dict_in_generate=True,
        )
    finally:
        with torch.no_grad():
            head.copy_(before)
    settings = SamplingSettings(temperature, top_k)
    assert len(out.scores) >= 2
    for logits, scores in zip(out.logits, out.scores, strict=True):
        assert torch.equal(warp(logits, settings), scores)
    if ties and top_k in (1, 3, 7):
        assert set((out.scores[0] > -torch.inf).sum(-1).tolist()) == {top_k + 1}


def test_temperature_one_and_no_top_k_change_nothing() -> None:
    logits = torch.randn(2, 9)
    assert torch.equal(warp(logits, SamplingSettings(1.0, None)), logits)


def test_top_k_above_the_vocabulary_keeps_all() -> None:
    assert bool(warp(torch.randn(1, 9), SamplingSettings(1.0, 100)).isfinite().all())


@pytest.mark.parametrize(("value", "temperature"), [(float("nan"), 0.5), (float("inf"), 0.5), (1e5, 1e-40)])
def test_scores_that_are_no_numbers_are_refused(value: float, temperature: float) -> None:
    with pytest.raises(ModelError, match="not finite numbers; load the model in float32"):
        warp(torch.tensor([[0.0, value]]), SamplingSettings(temperature))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature 0.0 .* use a small temperature or read the next token"),
        ({"temperature": -1.0}, "temperature -1.0"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"temperature": float("inf")}, "temperature inf"),
        ({"top_k": 0}, "top_k 0 .* give None for the whole vocabulary"),
        ({"top_k": 2.5}, "top_k 2.5"),
        ({"max_new_tokens": 0}, "max_new_tokens 0 .* at least 1"),
        ({"max_new_tokens": True}, "max_new_tokens True"),
    ],
)
def test_settings_out_of_range_are_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as refusal:
        SamplingSettings(**settings)
    assert "\n" not in str(refusal.value)


def test_defaults_are_the_papers() -> None:
    resolved = resolve_settings(model_with())
    assert (resolved.temperature, resolved.top_k, resolved.max_new_tokens) == (0.5, 40, 6)
    assert (resolved.eos_ids, resolved.replaced, resolved.overridden) == ((), (), ())


def test_what_is_replaced_is_recorded() -> None:
    own = model_with(temperature=0.6, top_k=40, do_sample=False, max_length=2048, eos_token_id=[2, 7], pad_token_id=0)
    resolved = resolve_settings(own, SamplingSettings(0.5, 40, 3))
    assert resolved.eos_ids == (2, 7)
    assert resolved.replaced == (("temperature", 0.6, 0.5), ("do_sample", False, True), ("max_length", 2048, None))
    assert resolved.as_dict()["max_new_tokens"] == 3
    assert resolve_settings(model_with(eos_token_id=4)).eos_ids == (4,)


CHANGES = {
    "top_p": 0.9,
    "min_p": 0.1,
    "typical_p": 0.5,
    "top_h": 0.4,
    "repetition_penalty": 1.05,
    "no_repeat_ngram_size": 2,
    "suppress_tokens": [3],
    "begin_suppress_tokens": [3],
    "bad_words_ids": [[3]],
    "sequence_bias": [[[3], 1.0]],
    "min_new_tokens": 2,
    "min_length": 1,
    "forced_eos_token_id": 2,
    "forced_bos_token_id": 2,
    "guidance_scale": 1.5,
    "num_beams": 2,
    "stop_strings": ["."],
    "epsilon_cutoff": 0.1,
    "eta_cutoff": 0.1,
    "exponential_decay_length_penalty": [1, 1.1],
    "token_healing": True,
    "remove_invalid_values": True,
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_would_change_scores_is_refused_until_switched_off(name: str) -> None:
    own = model_with(**{name: CHANGES[name]}, do_sample=True)
    with pytest.raises(ModelError, match=f"'some-model': its generation_config sets {name} = ") as refusal:
        resolve_settings(own)
    assert f"--override {name}" in str(refusal.value)
    resolved = resolve_settings(own, override=[name])
    assert [overridden for overridden, _ in resolved.overridden] == [name]


def test_values_that_do_nothing_pass() -> None:
    own = model_with(top_p=1.0, repetition_penalty=1.0, num_beams=1, min_length=0, use_cache=False, typical_p=1.0)
    assert resolve_settings(own, override=["top_p"]).overridden == ()


def test_all_defaults_of_transformers_pass() -> None:
    defaults = GenerationConfig._get_default_generation_params()
    assert isinstance(resolve_settings(model_with(**defaults)), ResolvedSettings)


def test_what_transformers_does_not_know_has_no_effect_there_either() -> None:
    assert resolve_settings(model_with(chat_format="chatml")).overridden == ()


@pytest.mark.parametrize("name", ["topp", "temperature", "eos_token_id"])
def test_what_cannot_be_switched_off_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"override '{name}' is no setting"):
        resolve_settings(model_with(), override=[name])


def test_a_saved_models_own_settings_are_read(small_model: Callable[..., Any]) -> None:
    assert resolve_settings(small_model("byte-level", 0, (2, 3)).loaded).eos_ids == (2, 3)
