"""From heads in terms of features to the weights of an ordinary transformer, of one of two architectures.

Features lie along fixed orthogonal directions, none of which moves the mean of the residual stream, so that both kinds
of norm divide by its length alone. That length is measured at each block and kind of token, and read against.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from referent_probe.planted.architectures import (
    HEAD,
    INNER,
    ROTARY_HEAD,
    WIDTH,
    Array,
    AttentionWeights,
    fill_gpt2,
    fill_llama,
    gpt2,
    llama,
)
from referent_probe.planted.heads import N_HEADS, N_LAYERS, SENTENCES, Functional, Head, features
from referent_probe.randomness import generator

Architecture = Literal["plain", "grouped-query"]
"""GPT-2, with learned positions that are zero; or Llama, with two key-value heads and rotary positions, whose slow
components alone are used."""

_LENGTH = 8.0  # of every token's embedding
_SMALL = {"answer": 0.1, "answer_prior": 0.1, "distraction": 0.1}  # so that they do not change the length
_FASTEST = 12  # of the rotary pairs that are used: it turns by 1e-7 a position
Lengths = Mapping[tuple[int, str], float]
"""Of the residual stream that enters a block (or the final norm), by block and kind of token."""


@dataclass(frozen=True)
class Vocabulary:
    """Token features, and what is read for each token's logit."""

    embeddings: Sequence[Functional]
    logits: Mapping[int, Functional]


class _Basis:
    """Directions of features in the residual stream."""

    def __init__(self) -> None:
        self.names = features()
        self.index = {name: i for i, name in enumerate(self.names)}
        mixed = generator(0, "planted basis").normal(size=(WIDTH, WIDTH))
        mixed[:, 0] = 1.0
        directions = np.linalg.qr(mixed)[0][:, 1 : len(self.names) + 1]  # orthogonal to the mean
        self.scale = np.array([_SMALL.get(name, 1.0) for name in self.names])
        self.write = directions * self.scale
        self.read = (directions / self.scale).T

    def row(self, functional: Functional, length: float) -> tuple[Array, float]:
        """Weights over the normed residual stream of that length, and a bias."""
        weights = np.zeros(len(self.names))
        for name, weight in functional.items():
            if name != "1":
                weights[self.index[name]] = weight
        return weights @ self.read * length / WIDTH**0.5, functional.get("1", 0.0)

    def rows(self, functionals: Sequence[Functional], lengths: Sequence[float]) -> tuple[Array, Array]:
        found = [self.row(f, length) for f, length in zip(functionals, lengths, strict=True)]
        return np.array([w for w, _ in found]).reshape(-1, WIDTH), np.array([b for _, b in found])


def build(rule_heads: Mapping[tuple[int, int], Head], words: Vocabulary, lengths: Lengths, kind: Architecture) -> Any:
    """A Hugging Face model with these heads.

    Args:
        rule_heads: By layer and head, all of them.
        words: Its vocabulary.
        lengths: Of the residual stream; `measured_lengths` gives them.
        kind: Architecture.
    """
    basis = _Basis()
    blocks = [
        _block(basis, [rule_heads[layer, head] for head in range(N_HEADS)], lengths, layer, kind)
        for layer in range(N_LAYERS)
    ]
    embeddings = np.array([_embedding(basis, f) for f in words.embeddings])
    unembed = np.zeros((len(embeddings), WIDTH))
    for token, functional in words.logits.items():
        unembed[token], _ = basis.row(functional, lengths[N_LAYERS, "quote"])
    with torch.no_grad():
        network = (gpt2 if kind == "plain" else llama)(len(embeddings))
        fill = fill_gpt2 if kind == "plain" else fill_llama
        fill(network, blocks, _counting(basis, lengths, kind), embeddings, unembed)
    return network.eval().requires_grad_(False)


def _embedding(basis: _Basis, functional: Functional) -> Array:
    values = np.zeros(len(basis.names))
    for name, value in functional.items():
        values[basis.index[name]] = value
    values[basis.index["pad"]] = (_LENGTH**2 - np.square(values * basis.scale).sum()) ** 0.5
    along: Array = basis.write @ values
    return along


def _block(basis: _Basis, heads: Sequence[Head], lengths: Lengths, layer: int, kind: Architecture) -> AttentionWeights:
    """Heads 0 and 1, and 2 and 3, have the same keys and values, each with queries and writes of its own."""
    size = HEAD if kind == "plain" else ROTARY_HEAD
    places = list(range(HEAD))
    if kind != "plain":  # slow rotary pairs only
        half = range(_FASTEST, ROTARY_HEAD // 2)
        places = [*half, *(i + ROTARY_HEAD // 2 for i in half)]
    shape = (N_HEADS, size)
    q, k, v = (np.zeros((*shape, WIDTH)) for _ in range(3))
    q_bias, k_bias, v_bias = (np.zeros(shape) for _ in range(3))
    o = np.zeros((N_HEADS, WIDTH, size))
    for group in range(0, N_HEADS, 2):
        members = heads[group : group + 2]
        keys = _distinct([(key, _kind(key, head)) for head in members for _, key in head.channels])
        values = _distinct([(value, _kind(value, head)) for head in members for value in head.values])
        for i, head in enumerate(members, start=group):
            asked: list[dict[str, float]] = [{} for _ in keys]
            for query, key in head.channels:
                at = keys.index((key, _kind(key, head)))
                asked[at] = {name: asked[at].get(name, 0.0) + query.get(name, 0.0) for name in {*asked[at], *query}}
            rows, bias = basis.rows(asked, [lengths[layer, head.asks]] * len(keys))
            at_keys = places[: len(keys)]
            q[i, at_keys], q_bias[i, at_keys] = rows * size**0.5, bias * size**0.5
            k[i, at_keys], k_bias[i, at_keys] = basis.rows(
                [key for key, _ in keys], [lengths[layer, finds] for _, finds in keys]
            )
            v[i, : len(values)], v_bias[i, : len(values)] = basis.rows(
                [value for value, _ in values], [lengths[layer, finds] for _, finds in values]
            )
            for feature, weights in head.writes.items():
                for value_index, weight in weights.items():
                    value = head.values[value_index]
                    at = values.index((value, _kind(value, head)))
                    o[i, :, at] += basis.write[:, basis.index[feature]] * weight
    return AttentionWeights(q, q_bias, k, k_bias, v, v_bias, o)


def _kind(functional: Functional, head: Head) -> str:
    """Kind of token at which a key or value is read."""
    return "first" if set(functional) == {"first"} else head.finds


def _distinct(items: Sequence[Any]) -> list[Any]:
    return [item for i, item in enumerate(items) if item not in items[:i]]


def _counting(basis: _Basis, lengths: Lengths, kind: Architecture) -> tuple[Array, Array, Array, Array]:
    """The inner layer of block 0: input weights and biases, output weights and biases. Turns counts into sentences."""
    sharp = 60.0  # from it on, both kinds of unit are straight lines with a corner
    rows: list[tuple[Array, float]] = []
    out, bias = np.zeros((WIDTH, INNER)), np.zeros(WIDTH)
    length = lengths[0, "inner"]

    def step(count: str, threshold: float, width: float) -> tuple[int, int]:
        """Two units whose difference is 0 below the threshold and 1 above it."""
        row, _ = basis.row({count: 1.0 / width}, length)
        for corner in (0.5, -0.5):
            rows.append((row * sharp, (corner - threshold / width) * sharp))
        return len(rows) - 2, len(rows) - 1

    def add(feature: str, units: tuple[int, int], weight: float) -> None:
        for unit, sign in zip(units, (1.0, -1.0), strict=True):
            out[:, unit] += basis.write[:, basis.index[feature]] * weight * sign / sharp

    share = [0.3 * n / (n + 1) for n in range(SENTENCES + 1)]
    bias += basis.write[:, basis.index["sentence0"]]
    for n in range(1, SENTENCES):
        units = step("count_sentences", (share[n - 1] + share[n]) / 2, (share[n] - share[n - 1]) / 4)
        add(f"sentence{n - 1}", units, -1.0)
        add(f"sentence{n}", units, 1.0)
    add("asked", step("count_questions", 0.075, 0.0375), 1.0)
    weights = np.zeros((INNER, WIDTH))
    biases = np.zeros(INNER)
    for i, (row, b) in enumerate(rows):
        weights[i], biases[i] = row, b
    return weights, biases, out, bias


KINDS = ("any", "dot", "quote", "pronoun", "role", "first")


def measured_lengths(network: Any, ids: Tensor, kinds: Mapping[str, Sequence[int]]) -> dict[tuple[int, str], float]:
    """Lengths of the residual stream in a run.

    Args:
        network: From `build`, whatever lengths it was built with.
        ids: Token ids of a prompt [1, T].
        kinds: Positions by kind of token.
    """
    found: dict[tuple[int, str], float] = {}
    base = network.base_model
    norms = [*((b.ln_1 if hasattr(b, "ln_1") else b.input_layernorm) for b in _blocks(base)), _last_norm(base)]
    first = _blocks(base)[0]
    inner = first.ln_2 if hasattr(first, "ln_2") else first.post_attention_layernorm

    def keep(layer: int) -> Any:
        def hook(module: Any, inputs: tuple[Tensor, ...]) -> None:
            lengths = inputs[0][0].double().norm(dim=-1)
            if layer < 0:
                found[0, "inner"] = float(lengths[list(kinds["any"])].mean())
                return
            for kind in KINDS:
                found[layer, kind] = float(lengths[list(kinds[kind])].mean())

        return hook

    handles = [norm.register_forward_pre_hook(keep(i)) for i, norm in enumerate(norms)]
    handles.append(inner.register_forward_pre_hook(keep(-1)))
    try:
        network(ids)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _blocks(base: Any) -> Any:
    return base.h if hasattr(base, "h") else base.layers


def _last_norm(base: Any) -> Any:
    return base.ln_f if hasattr(base, "ln_f") else base.norm
