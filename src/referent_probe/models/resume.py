"""Exact patched runs that compute only what a patch can change.

In a causal model a patch at block l and positions >= p leaves every block below l, and every position before p, as
it was. So a patched run needs the tokens from p on, in the blocks from l on, with the keys and values of the earlier
positions taken from the unpatched run. Many such runs share one pass: each is a *row* of tokens behind the same
prefix, rows lie one behind the other along the position axis, a mask keeps them apart, and a row joins the pass at
the block where its patch is. All heads at the last position cost about one and a half forward passes this way.

Nothing here knows an architecture. Masks, rotary tables and logits are the model's own: the masks are read off the
recorded pass, and the rest is cut to the tokens that take part.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from referent_probe.models.blocks import block_index, entering, unembed_only
from referent_probe.models.prefix import prefix_cache
from referent_probe.models.record import Recorded

# Attention between packed rows is computed and masked away, so its cost grows with the square of what is packed.
PACKED_TOKENS = 640


class Site(StrEnum):
    """Where an activation is patched: the residual stream entering a block, or a head's output z."""

    RESIDUAL = "resid_pre"
    HEAD = "z"


@dataclass(frozen=True)
class Patch:
    """One intervention: take the activation at `site` from another run.

    Attributes:
        layer: Block, from 0.
        site: `Site.RESIDUAL` or `Site.HEAD`.
        positions: Token positions in the prompt, ascending.
        head: Query head, from 0; None for the residual stream.
    """

    layer: int
    site: Site
    positions: tuple[int, ...]
    head: int | None = None


@dataclass(frozen=True)
class Sweep:
    """Result of `patched_logits`.

    Attributes:
        logits: Last position's logits of each patched run [batch, patches, tokens asked for].
        token_blocks: Tokens times blocks computed, for one member of the batch.
    """

    logits: Tensor
    token_blocks: int


def patched_logits(
    bridge: Any, base: Recorded, source: Recorded, patches: Sequence[Patch], tokens: Sequence[int]
) -> Sweep:
    """Last position's logits of `base` with each patch's activation taken from `source`, one patch at a time.

    Exact: equal to a full run with the same patch up to rounding. Patches should start at the same first position
    (their earliest one sets where the rows begin) and may lie in different blocks.

    Args:
        bridge: A `TransformerBridge`.
        base: The run that is patched.
        source: The run that the activations come from, of the same shape; row i of its batch goes into row i.
        patches: At least one; positions at or after `base.start`.
        tokens: Vocabulary ids whose logits are wanted.

    Raises:
        ValueError: No patch, a block, head or position that the runs lack, or runs of unlike shape.

    Example:
        `patched_logits(bridge, cm, cf, [Patch(3, Site.HEAD, (91,), head=5)], [she, he])` is denoising of head 3.5
        at the last position of a prompt of 92 tokens.
    """
    if not patches:
        raise ValueError("no patch given")
    if base.ids.shape != source.ids.shape or base.start != source.start:
        raise ValueError(f"base {tuple(base.ids.shape)} and source {tuple(source.ids.shape)} do not match")
    blocks, heads = len(base.residual), base.pattern[0].shape[1]
    for patch in patches:
        head_is_there = patch.site is Site.RESIDUAL or (patch.head is not None and 0 <= patch.head < heads)
        if not (0 <= patch.layer < blocks and patch.positions and head_is_there):
            raise ValueError(f"{patch} names no place in a model of {blocks} blocks with {heads} heads")
    first = min(min(patch.positions) for patch in patches)
    last = max(max(patch.positions) for patch in patches)
    if first < base.start or last >= base.length:
        raise ValueError(f"positions {first} to {last} lie outside {base.start} to {base.length - 1}")
    order = sorted(range(len(patches)), key=lambda i: patches[i].layer)
    rows_a_pass = max(1, PACKED_TOKENS // (base.length - first))
    logits: list[Tensor | None] = [None] * len(patches)
    token_blocks = 0
    for begin in range(0, len(order), rows_a_pass):
        chosen = order[begin : begin + rows_a_pass]
        packed = _Packed(base, source, [patches[i] for i in chosen], first)
        values = packed.run(bridge, tokens)
        token_blocks += packed.token_blocks
        for row, i in enumerate(chosen):
            logits[i] = values[:, row]
    return Sweep(torch.stack([value for value in logits if value is not None], dim=1), token_blocks)


class _Packed:
    """One pass over rows that lie behind one another and join it block by block."""

    def __init__(self, base: Recorded, source: Recorded, patches: Sequence[Patch], first: int) -> None:
        self.base, self.source, self.patches, self.first = base, source, patches, first
        self.width = base.length - first
        self.offset = first - base.start
        self.joined = [sum(p.layer <= layer for p in patches) for layer in range(len(base.residual))]
        # Blocks below the first patch see one token that nobody reads: cheaper than taking them out.
        self.token_blocks = sum(max(1, rows * self.width) for rows in self.joined)
        self._masks: dict[int, Tensor] = {}

    def run(self, bridge: Any, tokens: Sequence[int]) -> Tensor:
        """Logits [batch, patches, tokens] of each row's last token."""
        base, rows = self.base, len(self.patches)
        ids = base.ids[:, self.first :].repeat(1, rows)
        positions = torch.arange(self.first, base.length, device=ids.device).repeat(rows)[None]
        ends = torch.arange(rows, device=ids.device) * self.width + self.width - 1
        heads = [
            (f"blocks.{layer}.attn.o.hook_in", self._patch_heads(layer))
            for layer in sorted({p.layer for p in self.patches if p.site is Site.HEAD})
        ]
        with ExitStack() as stack:
            stack.enter_context(entering(bridge.blocks, self._enter))
            stack.enter_context(bridge.hooks(fwd_hooks=heads))
            stack.enter_context(unembed_only(bridge, tokens))
            output = bridge.original_model(
                ids,
                position_ids=positions.expand(ids.shape[0], -1),
                past_key_values=prefix_cache(base.keys, base.values, self.first),
                use_cache=True,
                logits_to_keep=ends,
            )
        logits: Tensor = output.logits
        return logits

    def _enter(self, block: nn.Module, hidden: Tensor, named: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        layer = block_index(block)
        before = self.joined[layer - 1] if layer else 0
        now = self.joined[layer]
        parts = [hidden[:, : before * self.width]]
        for patch in self.patches[before:now]:
            fresh = self.base.residual[layer][:, self.offset :]
            if patch.site is Site.RESIDUAL:
                fresh = fresh.clone()
                at = [p - self.base.start for p in patch.positions]
                fresh[:, [i - self.offset for i in at]] = self.source.residual[layer][:, at]
            parts.append(fresh)
        taking_part = now * self.width
        if taking_part == 0:
            parts, taking_part = [hidden[:, :1]], 1
        return torch.cat(parts, dim=1), self._cut(named, layer, taking_part)

    def _cut(self, named: dict[str, Any], layer: int, tokens: int) -> dict[str, Any]:
        """The block's other arguments for the first `tokens` packed tokens, with the mask that keeps rows apart."""
        named = dict(named)
        if named.get("position_ids") is not None:
            named["position_ids"] = named["position_ids"][:, :tokens]
        if named.get("position_embeddings") is not None:
            named["position_embeddings"] = tuple(table[:, :tokens] for table in named["position_embeddings"])
        named["attention_mask"] = self._mask(layer)[:, :, :tokens, : self.first + tokens]
        return named

    def _mask(self, layer: int) -> Tensor:
        visible = self.base.visible[layer]
        if id(visible) not in self._masks:
            own = visible[self.offset :]
            rows = len(self.patches)
            apart = torch.kron(torch.eye(rows, dtype=torch.bool, device=own.device), own[:, self.first :])
            seen = torch.cat([own[:, : self.first].repeat(rows, 1), apart], dim=1)
            dtype = self.base.residual[0].dtype
            mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
            self._masks[id(visible)] = mask.masked_fill(~seen, torch.finfo(dtype).min)[None, None]
        return self._masks[id(visible)]

    def _patch_heads(self, layer: int) -> Callable[..., Tensor]:
        source = self.source.z[layer]

        def hook(z: Tensor, hook: Any) -> Tensor:
            flat = z.flatten(2).clone()
            for row, patch in enumerate(self.patches):
                if patch.layer != layer or patch.site is not Site.HEAD or patch.head is None:
                    continue
                at = [row * self.width + p - self.first for p in patch.positions]
                kept = [p - self.base.start for p in patch.positions]
                of_head = self.base.head_slice(patch.head)
                flat[:, at, of_head] = source[:, kept, of_head]
            return flat.view(z.shape)

        return hook
