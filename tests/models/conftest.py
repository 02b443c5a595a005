"""What the tests of models share beside the tiny models of `tests/conftest.py`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread: None) -> None:
    """All tests here compute on one thread."""


@pytest.fixture(scope="session")
def llama(build_plain: Callable[..., Any]) -> Any:
    """The Llama of two blocks that the folder and the GGUF file hold."""
    return build_plain("llama", 2)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory, save_tiny: Callable[..., Path]) -> Path:
    """A sound folder; read it, copy it, do not spoil it."""
    return save_tiny(tmp_path_factory.mktemp("saved"), "llama", 2)


@pytest.fixture(scope="session")
def gguf_file(llama: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Llama of two blocks as llama.cpp would write it, unquantised."""
    import json

    from gguf import GGUFWriter, TokenType

    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    config, bpe = llama.config, json.loads(tokenizer.backend_tokenizer.to_str())
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([TokenType.CONTROL if i < 5 else TokenType.NORMAL for i in range(len(words))])
    writer.add_token_merges([" ".join(pair) for pair in bpe["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    parts = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    for name, weight in llama.state_dict().items():
        module = name.removesuffix(".weight")
        array = weight.numpy()
        if module not in top:
            _, _, layer, part = module.split(".", 3)
            if part in ("self_attn.q_proj", "self_attn.k_proj"):
                # llama.cpp keeps the rotated halves of a head interleaved.
                halves = array.reshape(-1, 2, config.head_dim // 2, array.shape[1])
                array = halves.swapaxes(1, 2).reshape(array.shape).copy()
            module = f"blk.{layer}.{parts[part]}"
        writer.add_tensor(f"{top.get(module, module)}.weight", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
