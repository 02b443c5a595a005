"""Fixtures of the small models of `tests/measurement/small_models.py`."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tests.measurement.small_models import FAVOURED, SmallModel, byte_level, encoded, finished, sentence_piece


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread: None) -> None:
    """All tests here compute on one thread."""


@pytest.fixture(scope="session")
def byte_level_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return finished(byte_level(), tmp_path_factory.mktemp("byte_level"))


@pytest.fixture(scope="session")
def sentence_piece_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return finished(sentence_piece(), tmp_path_factory.mktemp("sentence_piece"))


@pytest.fixture(scope="session")
def build_small(
    byte_level_tokenizer: Any, sentence_piece_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., SmallModel]:
    """Builds a `SmallModel`: kind of tokenizer, seed, several ends of sequence. Two logits have no token."""
    import torch
    import transformers as hf

    from referent_probe.models.load import load_model

    def build(kind: str, seed: int = 0, eos: int | tuple[int, ...] | None = 2) -> SmallModel:
        tokenizer = {"byte-level": byte_level_tokenizer, "sentence-piece": sentence_piece_tokenizer}[kind]
        folder = tmp_path_factory.mktemp(kind)
        config = hf.LlamaConfig(
            vocab_size=len(tokenizer) + 2,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=None,
        )
        torch.manual_seed(seed)
        model = hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().requires_grad_(False)
        for parameter in model.parameters():
            noise = torch.randn_like(parameter) * 0.3
            parameter.copy_(noise if parameter.ndim > 1 else parameter + noise)
        # A stream that is the same everywhere makes a bias, without which most answers would be none of the forms.
        model.model.embed_tokens.weight[:, 0] = 1.0
        model.lm_head.weight[tokenizer.convert_tokens_to_ids(FAVOURED[kind]), 0] = 1.2
        model.generation_config.eos_token_id = list(eos) if isinstance(eos, tuple) else eos
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        ids = torch.randint(8, len(tokenizer), (11,), generator=torch.Generator().manual_seed(seed)).tolist()
        ids.append(tokenizer.convert_tokens_to_ids('"'))
        plain = hf.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        return SmallModel(load_model(str(folder), device="cpu"), plain, encoded(tokenizer, ids))

    return build


@pytest.fixture(scope="session")
def small_model(build_small: Callable[..., SmallModel]) -> Callable[..., SmallModel]:
    """The same, built once; leave it as you found it."""
    return cache(build_small)


@pytest.fixture(scope="session", params=["byte-level", "sentence-piece"])
def small(request: pytest.FixtureRequest, small_model: Callable[..., SmallModel]) -> SmallModel:
    """A model with each kind of tokenizer, one after the other; leave it as you found it."""
    return small_model(request.param)
