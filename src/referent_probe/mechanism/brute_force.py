"""The same interventions the plain way: one full pass, hooks, nothing reused. The oracle of every run."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from referent_probe.models.interventions import Cut, Intervention, Patch, Row, Site, interventions_of


def full_patched_logits(bridge: Any, base: Tensor, source: Tensor, row: Row) -> Tensor:
    """Last position's logits of `base` after interventions, with activations taken from `source`.

    Both prompts go through the whole model side by side, and TransformerLens hooks copy what is patched over.

    Args:
        bridge: A `TransformerBridge`.
        base: Token ids [T] of the run that is changed.
        source: Token ids [T] of the run that activations come from.
        row: One intervention, or several together. Values of their own are [1, positions, size].

    Returns:
        Logits [vocabulary].
    """
    hooks = [(_place(one), _hook(bridge, one)) for one in interventions_of(row)]
    with bridge.hooks(fwd_hooks=hooks):
        logits: Tensor = bridge.original_model(torch.stack([base, source])).logits[0, -1]
    return logits


def _place(one: Intervention) -> str:
    if isinstance(one, Cut):
        return f"blocks.{one.layer}.attn.{'hook_attn_scores' if one.renormalise else 'hook_pattern'}"
    return one.site.hook_name(one.layer)


def _hook(bridge: Any, one: Intervention) -> Callable[..., Tensor]:
    def cut(attention: Tensor, hook: Any) -> Tensor:
        assert isinstance(one, Cut)
        changed = attention.clone()
        heads = range(attention.shape[1]) if one.head is None else [one.head]
        for head in heads:
            for query in one.queries:
                changed[0, head, query, list(one.keys)] = torch.finfo(attention.dtype).min if one.renormalise else 0.0
        return changed

    def patch(activation: Tensor, hook: Any) -> Tensor:
        assert isinstance(one, Patch)
        changed, at = activation.clone(), list(one.positions)
        if one.site is Site.PATTERN:
            changed[0, one.head, at] = changed[1, one.head, at] if one.value is None else one.value[0]
            return changed
        if one.head is None:
            changed[0, at] = changed[1, at] if one.value is None else one.value[0]
            return changed
        config = bridge.cfg
        count = config.n_heads
        if one.site.by_key_value_head:
            count = getattr(config, "n_key_value_heads", None) or count
        by_head = changed.reshape(*changed.shape[:2], int(count), -1)
        by_head[0, at, one.head] = by_head[1, at, one.head] if one.value is None else one.value[0]
        return by_head.reshape(activation.shape)

    return cut if isinstance(one, Cut) else patch
