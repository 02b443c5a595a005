"""The same interventions the plain way: one full pass, hooks, nothing reused. The oracle of every run."""

from collections.abc import Callable, Sequence
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


def full_path_logits(
    bridge: Any,
    base: Tensor,
    source: Tensor,
    sender: tuple[int, int],
    receiver: tuple[int, int],
    site: Site,
    positions: Sequence[int],
) -> Tensor:
    """Last position's logits after one path between two heads, by full passes in which all else is held.

    The receiver's output changes at the last position alone, as in `paths.path_logits` with `at_target_slot`.

    Args:
        bridge: A `TransformerBridge`.
        base: Token ids [T] of the run that is changed.
        source: Token ids [T] of the run that the sender's output comes from.
        sender: Layer and head.
        receiver: Layer and head of a later block.
        site: Its input: `Site.Q`, `Site.K` or `Site.V`.
        positions: Where the sender's output is taken from the source, and the receiver reads it.

    Returns:
        Logits [vocabulary].
    """
    (first, _), (last, head), at = sender, receiver, list(positions)
    between = [(layer, Site.ATTN_OUT) for layer in range(first + 1, last)]
    between += [(layer, Site.MLP_OUT) for layer in range(first, last)]
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> tuple[str, Callable[..., None]]:
        return name, lambda tensor, hook: kept.__setitem__(name, tensor.clone())

    names = [Site.Z.hook_name(first), Site.Z.hook_name(last), *(s.hook_name(layer) for layer, s in between)]
    with bridge.hooks(fwd_hooks=[keep(name) for name in names]):
        bridge.original_model(torch.stack([base, source]))

    def send(z: Tensor, hook: Any) -> Tensor:
        changed, other = _by_head(z, bridge).clone(), _by_head(kept[names[0]], bridge)
        changed[0, at, sender[1]] = other[1, at, sender[1]]
        return changed.reshape(z.shape)

    def hold(name: str) -> tuple[str, Callable[..., Tensor]]:
        return name, lambda tensor, hook: kept[name][:1]

    read: list[Tensor] = []
    hooks = [(names[0], send), *(hold(name) for name in names[2:])]
    with bridge.hooks(fwd_hooks=[*hooks, (site.hook_name(last), lambda tensor, hook: read.append(tensor.clone()))]):
        bridge.original_model(base[None])
    heads = int(bridge.cfg.n_heads)
    shared = head * read[0].shape[2] // heads  # of grouped-query attention, keys and values by group

    def receive(tensor: Tensor, hook: Any) -> Tensor:
        changed = tensor.clone()
        changed[:, at, shared] = read[0][:, at, shared]
        return changed

    def only_the_receiver(z: Tensor, hook: Any) -> Tensor:
        changed = _by_head(kept[names[1]][:1], bridge).clone()
        changed[:, -1, head] = _by_head(z, bridge)[:, -1, head]
        return changed.reshape(z.shape)

    with bridge.hooks(fwd_hooks=[(site.hook_name(last), receive), (names[1], only_the_receiver)]):
        logits: Tensor = bridge.original_model(base[None]).logits[0, -1]
    return logits


def _by_head(z: Tensor, bridge: Any) -> Tensor:
    return z.reshape(*z.shape[:2], int(bridge.cfg.n_heads), -1)
