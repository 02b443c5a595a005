"""Brute force for interventions: full passes of a plain Hugging Face model, edited by torch hooks of its own.

Nothing here knows TransformerLens, caches or partial passes. Where a family computes what is written down for that
family from transformers' source; attention itself (scores, soft cap, mask, sink, softmax) is computed anew.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from referent_probe.models.interventions import Cut, Intervention, Patch, Row, Site

# Edits an activation in place. Its shape is [batch, position, heads, size]; of scores and patterns (query by key) the
# position is the query's and the size is that of the prompt. Scores have the site None: they cannot be patched.
Visit = Callable[[int, Site | None, Tensor], None]
Activations = dict[tuple[int, Site], Tensor]
Views = dict[Site, Tensor]

COPIES_A_PASS = 160


@dataclass(frozen=True)
class Places:
    """Where one block of one family computes what.

    Attributes:
        attention: The attention module.
        projection: Its output projection: heads' outputs go in.
        adds_attention: The module whose output is added to the stream: the projection, or a norm behind it.
        adds_mlp: The same of the MLP.
        queries_keys_values: The projections that make them, and how heads lie in each one's output.
    """

    attention: nn.Module
    projection: nn.Module
    adds_attention: nn.Module
    adds_mlp: nn.Module
    queries_keys_values: tuple[tuple[nn.Module, Callable[[Tensor], Views]], ...]


def by_head(tensor: Tensor, size: int) -> Tensor:
    return tensor.unflatten(-1, (-1, size))


def blocks_of(plain: Any) -> Sequence[nn.Module]:
    match plain.config.model_type:
        case "gpt2":
            return plain.transformer.h
        case "gpt_neox":
            return plain.gpt_neox.layers
        case _:
            return plain.model.layers


def places_of(plain: Any, block: Any) -> Places:
    config, family = plain.config, plain.config.model_type
    heads = config.num_attention_heads
    groups = getattr(config, "num_key_value_heads", heads)
    size = getattr(config, "head_dim", None) or config.hidden_size // heads

    def one(site: Site) -> Callable[[Tensor], Views]:
        return lambda output: {site: by_head(output, size)}

    def behind_one_another(output: Tensor) -> Views:
        parts = output.split([heads * size, groups * size, groups * size], dim=-1)
        return {site: by_head(part, size) for site, part in zip((Site.Q, Site.K, Site.V), parts, strict=True)}

    def head_after_head(output: Tensor) -> Views:
        parts = by_head(output, 3 * size).split(size, dim=-1)
        return dict(zip((Site.Q, Site.K, Site.V), parts, strict=True))

    match family:
        case "gpt2":
            attn = block.attn
            return Places(attn, attn.c_proj, attn.c_proj, block.mlp, ((attn.c_attn, behind_one_another),))
        case "gpt_neox":
            attn = block.attention
            return Places(attn, attn.dense, attn.dense, block.mlp, ((attn.query_key_value, head_after_head),))
        case "phi3":
            attn = block.self_attn
            return Places(attn, attn.o_proj, attn.o_proj, block.mlp, ((attn.qkv_proj, behind_one_another),))
    attn = block.self_attn
    three = ((attn.q_proj, one(Site.Q)), (attn.k_proj, one(Site.K)), (attn.v_proj, one(Site.V)))
    match family:
        case "llama" | "qwen2" | "gpt_oss":
            return Places(attn, attn.o_proj, attn.o_proj, block.mlp, three)
        case "gemma2" | "gemma3_text":
            adds = block.post_attention_layernorm, block.post_feedforward_layernorm
            return Places(attn, attn.o_proj, *adds, three)
    raise ValueError(f"no twin of {family}")


def attend(visit: Visit) -> Callable[..., tuple[Tensor, Tensor]]:
    """Attention in the place of transformers' `eager_attention_forward`."""

    def attention(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor,
        scaling: float,
        softcap: float | None = None,
        s_aux: Tensor | None = None,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        heads = query.shape[1]
        read = [head * key.shape[1] // heads for head in range(heads)]
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key[:, read]) * scaling
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.masked_fill(attention_mask < torch.finfo(scores.dtype).min / 2, -torch.inf)
        visit(module.layer_idx, None, scores.transpose(1, 2))
        if s_aux is None:
            weights = torch.softmax(scores, dim=-1)
        else:
            # The sink takes part in softmax as one more key, and has nothing to add.
            sink = s_aux[None, :, None, None].expand(*scores.shape[:-1], 1)
            weights = torch.exp(scores - torch.cat([scores, sink], dim=-1).logsumexp(dim=-1, keepdim=True))
        visit(module.layer_idx, Site.PATTERN, weights.transpose(1, 2))
        return torch.einsum("bhqk,bhkd->bqhd", weights, value[:, read]), weights

    return attention


@contextmanager
def visiting(plain: Any, visit: Visit) -> Iterator[None]:
    """Let `visit` edit all activations of the passes within."""
    handles = []

    def on_output(layer: int, views: Callable[[Tensor], Views]) -> Callable[..., Any]:
        def hook(module: nn.Module, args: Any, output: Any) -> Any:
            changed = (output[0] if isinstance(output, tuple) else output).clone()
            for site, view in views(changed).items():
                visit(layer, site, view)
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        return hook

    def on_input(layer: int, views: Callable[[Tensor], Views]) -> Callable[..., Any]:
        def hook(module: nn.Module, args: Any) -> Any:
            changed = args[0].clone()
            for site, view in views(changed).items():
                visit(layer, site, view)
            return (changed, *args[1:])

        return hook

    def whole(site: Site) -> Callable[[Tensor], Views]:
        return lambda tensor: {site: tensor[:, :, None]}

    def heads_outputs(tensor: Tensor) -> Views:
        return {Site.Z: by_head(tensor, tensor.shape[-1] // plain.config.num_attention_heads)}

    library = sys.modules[type(plain).__module__]
    theirs = library.eager_attention_forward
    try:
        library.eager_attention_forward = attend(visit)
        for layer, block in enumerate(blocks_of(plain)):
            places = places_of(plain, block)
            handles += [
                block.register_forward_pre_hook(on_input(layer, whole(Site.RESIDUAL))),
                places.projection.register_forward_pre_hook(on_input(layer, heads_outputs)),
                places.adds_attention.register_forward_hook(on_output(layer, whole(Site.ATTN_OUT))),
                places.adds_mlp.register_forward_hook(on_output(layer, whole(Site.MLP_OUT))),
                *(m.register_forward_hook(on_output(layer, views)) for m, views in places.queries_keys_values),
            ]
        yield
    finally:
        library.eager_attention_forward = theirs
        for handle in handles:
            handle.remove()


def keeping(kept: Activations) -> Visit:
    def visit(layer: int, site: Site | None, activation: Tensor) -> None:
        if site is not None:
            kept[layer, site] = activation.clone()

    return visit


def intervening(source: Activations, rows: Sequence[Sequence[Intervention]], batch: int) -> Visit:
    """Does row r's interventions, in their order, to members r * batch to (r + 1) * batch."""

    def place(one: Intervention) -> tuple[int, Site | None]:
        if isinstance(one, Patch):
            return one.layer, one.site
        return one.layer, None if one.renormalise else Site.PATTERN

    def act(activation: Tensor, one: Intervention) -> None:
        if isinstance(one, Cut):
            heads = range(activation.shape[2]) if one.head is None else [one.head]
            for query in one.queries:
                for head in heads:
                    activation[:, query, head, list(one.keys)] = -torch.inf if one.renormalise else 0.0
        else:
            at, head = list(one.positions), one.head or 0
            new = source[one.layer, one.site][:, at, head] if one.value is None else one.value
            activation[:, at, head] = new

    def visit(layer: int, site: Site | None, activation: Tensor) -> None:
        for r, row in enumerate(rows):
            for one in row:
                if place(one) == (layer, site):
                    act(activation[r * batch : (r + 1) * batch], one)

    return visit


def twin_activations(plain: Any, ids: Tensor, row: Sequence[Intervention] = ()) -> Activations:
    """All activations of a pass, each [batch, T, heads, size]; heads is 1 for those of the whole block.

    The row's interventions have values of their own, and what they change is given as changed.
    """
    kept: Activations = {}
    change, keep = intervening({}, [row], len(ids)), keeping(kept)

    def visit(layer: int, site: Site | None, activation: Tensor) -> None:
        change(layer, site, activation)
        keep(layer, site, activation)

    with torch.no_grad(), visiting(plain, visit):
        plain(ids, use_cache=False)
    return kept


def twin_logits(plain: Any, base: Tensor, source: Tensor | None, rows: Sequence[Row]) -> Tensor:
    """Last position's logits of `base` after each row's interventions, from full passes.

    Args:
        plain: One of the eight families, with eager attention.
        base: Token ids [batch, T].
        source: Token ids of the run that activations come from, of the same shape; None where all have values.
        rows: Each is done to a copy of `base` of its own; of interventions at the same place the later one stands.

    Returns:
        [batch, rows, vocabulary].
    """
    batch = len(base)
    activations = {} if source is None else twin_activations(plain, source)
    each = [(row,) if isinstance(row, (Patch, Cut)) else tuple(row) for row in rows]
    step = max(1, COPIES_A_PASS // batch)
    parts = []
    for begin in range(0, len(each), step):
        some = each[begin : begin + step]
        with torch.no_grad(), visiting(plain, intervening(activations, some, batch)):
            logits = plain(base.repeat(len(some), 1), use_cache=False, logits_to_keep=1).logits[:, -1]
        parts.append(logits.unflatten(0, (len(some), batch)).transpose(0, 1))
    return torch.cat(parts, dim=1)
