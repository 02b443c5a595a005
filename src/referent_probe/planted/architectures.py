"""The two architectures of planted models, empty, and how weights are put into them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from referent_probe.planted.heads import N_HEADS, N_LAYERS

Array = NDArray[np.float64]

WIDTH, INNER, HEAD, ROTARY_HEAD, POSITIONS = 160, 64, 40, 64, 256
ROTARY_BASE = 1e20


@dataclass(frozen=True)
class AttentionWeights:
    """Weights and biases of a block's attention, by head, channel and residual stream."""

    q: Array
    q_bias: Array
    k: Array
    k_bias: Array
    v: Array
    v_bias: Array
    o: Array


def gpt2(n_tokens: int) -> Any:
    """An empty GPT-2 with a vocabulary of `n_tokens`; its positions stay zero."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=n_tokens, n_positions=POSITIONS, n_embd=WIDTH, n_layer=N_LAYERS, n_head=N_HEADS, n_inner=INNER,
            activation_function="gelu", tie_word_embeddings=False, bos_token_id=0, eos_token_id=1, pad_token_id=1,
        )
    )  # fmt: skip


def llama(n_tokens: int) -> Any:
    """An empty Llama with a vocabulary of `n_tokens`, two key-value heads and slow rotary positions."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=n_tokens, max_position_embeddings=POSITIONS, hidden_size=WIDTH, num_hidden_layers=N_LAYERS,
            num_attention_heads=N_HEADS, num_key_value_heads=N_HEADS // 2, head_dim=ROTARY_HEAD,
            intermediate_size=INNER, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": ROTARY_BASE},
            bos_token_id=0, eos_token_id=1, pad_token_id=1,
        )
    )  # fmt: skip


def _set(parameter: Tensor, values: Array) -> None:
    parameter.copy_(torch.as_tensor(values, dtype=parameter.dtype).reshape(parameter.shape))


def _begin(network: Any, embeddings: Array, unembed: Array) -> None:
    """Everything zero but norms, embeddings and unembedding."""
    for name, parameter in network.named_parameters():
        parameter.fill_(1.0 if name.endswith(("norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight")) else 0.0)
    _set(network.get_input_embeddings().weight, embeddings)
    _set(network.get_output_embeddings().weight, unembed)


def fill_gpt2(
    network: Any, blocks: Sequence[AttentionWeights], counting: tuple[Array, ...], embeddings: Array, unembed: Array
) -> None:
    """Put weights into the network of `gpt2`; arguments as `network.build` makes them."""
    _begin(network, embeddings, unembed)
    for block, weights in zip(network.transformer.h, blocks, strict=True):
        attention = block.attn
        flat = [part.reshape(-1, WIDTH) for part in (weights.q, weights.k, weights.v)]
        _set(attention.c_attn.weight, np.concatenate(flat).T)
        _set(
            attention.c_attn.bias, np.concatenate([b.ravel() for b in (weights.q_bias, weights.k_bias, weights.v_bias)])
        )
        _set(attention.c_proj.weight, weights.o.transpose(0, 2, 1).reshape(-1, WIDTH))
    inner, biases, out, bias = counting
    mlp = network.transformer.h[0].mlp
    _set(mlp.c_fc.weight, inner.T)
    _set(mlp.c_fc.bias, biases)
    _set(mlp.c_proj.weight, out.T)
    _set(mlp.c_proj.bias, bias)


def fill_llama(
    network: Any, blocks: Sequence[AttentionWeights], counting: tuple[Array, ...], embeddings: Array, unembed: Array
) -> None:
    """Put weights into the network of `llama`, whose heads 0 and 1, and 2 and 3, share keys and values."""
    _begin(network, embeddings, unembed)
    for block, weights in zip(network.model.layers, blocks, strict=True):
        attention = block.self_attn
        _set(attention.q_proj.weight, weights.q.reshape(-1, WIDTH))
        _set(attention.q_proj.bias, weights.q_bias.ravel())
        _set(attention.k_proj.weight, weights.k[::2].reshape(-1, WIDTH))
        _set(attention.k_proj.bias, weights.k_bias[::2].ravel())
        _set(attention.v_proj.weight, weights.v[::2].reshape(-1, WIDTH))
        _set(attention.v_proj.bias, weights.v_bias[::2].ravel())
        _set(attention.o_proj.weight, weights.o.transpose(1, 0, 2).reshape(WIDTH, -1))
    inner, biases, out, bias = counting
    mlp = network.model.layers[0].mlp
    _set(mlp.gate_proj.weight, inner)
    _set(mlp.gate_proj.bias, biases)
    mlp.up_proj.bias.fill_(1.0)
    _set(mlp.down_proj.weight, out)
    _set(mlp.down_proj.bias, bias)
