"""Tiny random models of eight families and a small tokenizer, for every test that needs a model.

torch and transformers are imported inside the fixtures, so that tests of stimuli and analysis stay quick.
"""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FAMILIES = ("llama", "qwen2", "gemma2", "gemma3", "phi3", "gpt-oss", "gpt2", "gpt-neox")
LENGTH, DIFFERS, WINDOW = 20, 7, 6
"""Tokens of the prompts, where the two differ, and the sliding window of the families that have one."""

PRONOUNS = ("she", "he", "her", "him", "his", "they", "them", "their")
CHATML = (
    "{{ bos_token }}{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class TinyModel:
    """Four blocks of four heads with random weights.

    Attributes:
        family: One of `FAMILIES`.
        plain: The Hugging Face model, never seen by TransformerLens.
        bridge: A bridge around a copy of it.
        ids: Two prompts [2, 20] that differ at position 7 alone.
    """

    family: str
    plain: Any
    bridge: Any
    ids: Any


@pytest.fixture(scope="session")
def one_thread() -> None:
    """Shared cores: more threads are slower for models of this size."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def make_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Builds a byte-level BPE tokenizer, saved and reloaded.

    Every pronoun is one token, with and without a space before it; most other words are several.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    sentences = [f'"{word}" {word} {word}' for word in PRONOUNS for _ in range(20)] + [
        "The baker told the guest that she had lost the keys.",
        "The guest thanked the baker because he was kind to them.",
        'Is BLANK "her" or "him"? The word is "him"',
    ]

    @cache
    def make(chat_template: str | None = CHATML, adds_bos: bool = True, adds_eos: bool = False) -> Any:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=330,
            special_tokens=["<pad>", "<s>", "</s>", "<|turn|>", "<|end|>"],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(sentences, trainer)
        if adds_bos:
            tokenizer.post_processor = processors.TemplateProcessing(
                single="<s> $A </s>" if adds_eos else "<s> $A",
                special_tokens=[("<s>", tokenizer.token_to_id("<s>")), ("</s>", tokenizer.token_to_id("</s>"))],
            )
        folder = tmp_path_factory.mktemp("tokenizer")
        fresh = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            bos_token="<s>",
            eos_token="</s>",
            pad_token="<pad>",
            chat_template=chat_template,
        )
        fresh.save_pretrained(folder)
        return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)

    return make


@pytest.fixture(scope="session")
def tokenizer(make_tokenizer: Callable[..., Any]) -> Any:
    """The small tokenizer with a chat template that has a system turn and writes BOS itself."""
    return make_tokenizer()


def _config(family: str, vocabulary: int, layers: int) -> Any:
    import transformers as hf

    shape = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 1024,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    grouped = shape | {"num_key_value_heads": 2}
    experts = {"intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2}
    kinds = [("sliding_attention", "full_attention")[layer % 2] for layer in range(layers)]
    match family:
        case "llama":
            return hf.LlamaConfig(**grouped)
        case "qwen2":
            return hf.Qwen2Config(**grouped)
        case "gemma2":
            return hf.Gemma2Config(**grouped, head_dim=8, sliding_window=WINDOW, layer_types=kinds)
        case "gemma3":
            return hf.Gemma3TextConfig(**grouped, head_dim=8, sliding_window=WINDOW, layer_types=kinds)
        case "phi3":
            return hf.Phi3Config(**grouped, sliding_window=WINDOW)
        case "gpt-oss":
            return hf.GptOssConfig(**grouped | experts, head_dim=8, sliding_window=WINDOW, layer_types=kinds)
        case "gpt2":
            return hf.GPT2Config(
                vocab_size=vocabulary,
                n_embd=32,
                n_layer=layers,
                n_head=4,
                n_positions=1024,
                bos_token_id=1,
                eos_token_id=2,
            )
        case "gpt-neox":
            return hf.GPTNeoXConfig(**shape)
        case "phi":  # beyond the eight: a bias on the logits
            return hf.PhiConfig(**shape)
    raise ValueError(family)


@pytest.fixture(scope="session")
def build_plain(one_thread: None, tokenizer: Any) -> Callable[..., Any]:
    """Builds a Hugging Face model of a family: random weights of scale 0.2, norms and biases included."""
    import torch
    from transformers import AutoModelForCausalLM

    def build(family: str, layers: int = 4, seed: int = 0) -> Any:
        torch.manual_seed(seed)
        config = _config(family, len(tokenizer), layers)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().requires_grad_(False)
        for parameter in model.parameters():
            noise = torch.randn_like(parameter) * 0.2
            parameter.copy_(noise if parameter.ndim > 1 else parameter + noise)
        model.config.architectures = [type(model).__name__]
        return model

    return build


@pytest.fixture(scope="session")
def build_tiny(
    build_plain: Callable[..., Any], tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., TinyModel]:
    """Builds a `TinyModel` that the caller may spoil."""
    import torch
    from transformer_lens.model_bridge import TransformerBridge

    def build(family: str, layers: int = 4, seed: int = 0) -> TinyModel:
        plain = build_plain(family, layers, seed)
        # A path as name: TransformerLens warns of names that look like its old ones.
        name = str(tmp_path_factory.mktemp(family))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bridge = TransformerBridge.boot_transformers(
                name, hf_model=copy.deepcopy(plain), tokenizer=tokenizer, device="cpu"
            )
        ids = torch.randint(5, len(tokenizer), (1, LENGTH), generator=torch.Generator().manual_seed(3)).repeat(2, 1)
        ids[1, DIFFERS] = 5 + (ids[0, DIFFERS] + 3) % (len(tokenizer) - 5)
        return TinyModel(family, plain, bridge.eval().requires_grad_(False), ids)

    return build


@pytest.fixture(scope="session")
def tiny_model(build_tiny: Callable[..., TinyModel]) -> Callable[[str], TinyModel]:
    """The tiny model of a family, built once; leave it as you found it."""
    return cache(build_tiny)


@pytest.fixture(scope="session", params=FAMILIES)
def tiny(request: pytest.FixtureRequest, tiny_model: Callable[[str], TinyModel]) -> TinyModel:
    """The tiny models of all families, one after the other; leave them as you found them."""
    return tiny_model(request.param)


@pytest.fixture(scope="session")
def save_tiny(build_plain: Callable[..., Any], tokenizer: Any) -> Callable[..., Path]:
    """Saves a tiny model and its tokenizer as a folder that `load_model` takes."""

    def save(folder: Path, family: str = "llama", layers: int = 2) -> Path:
        build_plain(family, layers).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save
