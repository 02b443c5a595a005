"""Path patching: one head's effect through one edge, with everything between left as it was.

Head to logits: the head's change reaches the final residual stream alone; the final norm is computed anew, so that the
result is exact. Head to head: the sender's change reaches the residual stream entering the receiver's block alone;
the receiver's queries, keys or values are computed from it, everything else of that block from the unchanged stream,
and what the receiver then puts out goes on through the model (Goldowsky-Dill et al., arXiv 2304.05969; Wang et al.,
arXiv 2211.00593, who let MLPs between follow, are another definition).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from referent_probe.models.interventions import Patch, Site
from referent_probe.models.record import Recorded
from referent_probe.models.resume import Sweep, block_activations, patched_logits

PATHS = {"q": Site.Q, "k": Site.K, "v": Site.V}
"""Inputs of a receiver."""

Head = tuple[int, int]
"""Layer and head, from 0."""


def written(bridge: Any, layer: int, z: Tensor) -> Tensor:
    """What a block's attention adds to the residual stream, from its heads' outputs.

    Args:
        bridge: A `TransformerBridge`.
        layer: Block, from 0.
        z: Heads' outputs [batch, positions, heads * d_head].

    Returns:
        [batch, positions, d_model], behind a norm where the model has one after attention.
    """
    block = bridge.blocks[layer]
    out: Tensor = block.attn.o(z)
    return block.ln1_post(out) if hasattr(block, "ln1_post") else out


def change_written(bridge: Any, base: Recorded, source: Recorded, head: Head, positions: Sequence[int]) -> Tensor:
    """How the residual stream changes where one head's output is the source's [batch, positions, d_model]."""
    layer, number = head
    z = base.activation(Site.Z, layer, positions)
    changed = z.clone()
    size = z.shape[-1] // base.heads
    changed[..., number * size : (number + 1) * size] = source.activation(Site.Z, layer, positions, number)
    return written(bridge, layer, changed) - written(bridge, layer, z)


def direct_logits(
    bridge: Any, base: Recorded, source: Recorded, heads: Sequence[Head], tokens: Sequence[int]
) -> Tensor:
    """Last position's logits where each head's output is the source's for the path straight to the logits.

    Args:
        bridge: A `TransformerBridge`.
        base: The run that is changed.
        source: The run that the output comes from.
        heads: Senders, one patched run each.
        tokens: Vocabulary ids.

    Returns:
        [batch, heads, tokens], the model's own cap on logits included.

    Example:
        With source and base the same run, every row is the run's own logits.
    """
    slot = (base.length - 1,)
    changes = [change_written(bridge, base, source, head, slot)[:, 0] for head in heads]
    streams = base.final_residual[:, None] + torch.stack(changes, dim=1)
    unembed = bridge.original_model.get_output_embeddings()
    linear = getattr(unembed, "original_component", unembed)
    chosen = torch.as_tensor(list(tokens), device=streams.device)
    normed = bridge.ln_final(streams)
    logits: Tensor = normed @ linear.weight[chosen].T
    if linear.bias is not None:
        logits = logits + linear.bias[chosen]
    cap = getattr(bridge.original_model.config.get_text_config(), "final_logit_softcapping", None)
    return logits if cap is None else cap * torch.tanh(logits / cap)


def path_logits(
    bridge: Any,
    base: Recorded,
    source: Recorded,
    senders: Sequence[Head],
    receiver: Head,
    through: str,
    positions: Sequence[int],
    tokens: Sequence[int],
    *,
    at_target_slot: bool = False,
) -> Sweep:
    """Last position's logits where each sender's change reaches one receiver through its queries, keys or values.

    Args:
        bridge: A `TransformerBridge`.
        base: The run that is changed, recorded with `Site.Q`, `Site.K` and `Site.V`.
        source: The run that the senders' outputs come from.
        senders: Heads of earlier blocks, one patched run each.
        receiver: The head whose input changes. Of grouped-query attention, keys and values change for this query head
            alone, though others read the same ones.
        through: "q", "k" or "v".
        positions: Where the sender's output is taken from the source, and the receiver reads it: queries, or keys and
            values, at these positions.
        tokens: Vocabulary ids.
        at_target_slot: Whether what the receiver puts out changes at the last position alone; that costs less.

    Raises:
        ValueError: A sender does not come before the receiver.

    Example:
        `path_logits(bridge, cm, cf, [(3, 1)], (7, 0), "v", prime, [she, he])` is what head 7.0 carries of what head
        3.1 wrote at the prime's positions.
    """
    layer, head = receiver
    late = [sender for sender in senders if sender[0] >= layer]
    if late:
        raise ValueError(f"head {late[0][0]}.{late[0][1]} does not come before head {layer}.{head}")
    site, first = PATHS[through], min(positions)
    at, later = [p - first for p in positions], tuple(range(first, base.length))
    streams = [
        Patch(layer, Site.RESIDUAL, tuple(positions), value=base.activation(Site.RESIDUAL, layer, positions) + change)
        for change in (change_written(bridge, base, source, sender, positions) for sender in senders)
    ]
    group = base.heads // base.heads_at(site)
    read = head // group
    inputs = block_activations(bridge, base, layer, streams, [site])[site][:, :, at]
    size = inputs.shape[-1] // base.heads_at(site)
    values = inputs[..., read * size : (read + 1) * size]
    rows = [Patch(layer, site, tuple(positions), read, value=values[:, row]) for row in range(len(senders))]
    if at_target_slot:
        outputs = block_activations(bridge, base, layer, rows, [Site.Z])[Site.Z][:, :, -1:]
        size, slot = outputs.shape[-1] // base.heads, (base.length - 1,)
        z = outputs[..., head * size : (head + 1) * size]
        rows = [Patch(layer, Site.Z, slot, head, value=z[:, row]) for row in range(len(senders))]
        return patched_logits(bridge, base, None, rows, tokens)
    # The other query heads of the group keep what they put out.
    others = [h for h in range(read * group, (read + 1) * group) if h != head]
    kept = [Patch(layer, Site.Z, later, h, value=base.activation(Site.Z, layer, later, h)) for h in others]
    return patched_logits(bridge, base, None, [(row, *kept) for row in rows], tokens)
