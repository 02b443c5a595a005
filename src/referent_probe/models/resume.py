"""Exact patched runs that compute only what a patch can change.

In a causal model a patch at block l and positions >= p leaves every block below l, and every position before p, as
it was. So a patched run needs the tokens from p on, in the blocks from l on, with the keys and values of the earlier
positions taken from the unpatched run. Many such runs share one pass: each is a *row* of tokens behind the same
prefix, and a row joins the pass at the block where its patch is. All heads at the last position cost about one and a
half forward passes this way.

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
from referent_probe.models.memory import is_out_of_memory, pass_bytes, refuse_too_little
from referent_probe.models.prefix import prefix_cache
from referent_probe.models.record import Recorded

# Tokens of one member of the batch that a pass takes at most: more cost memory and win no speed.
PACKED_TOKENS = 640
# Rows of more tokens than this lie beside one another instead of behind one another.
WIDEST_PACKED = 4


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
        halvings: How often memory ran out and passes were made half as large; 0 means that batches were as planned,
            so that the same call gives the same bytes.
    """

    logits: Tensor
    token_blocks: int
    halvings: int = 0


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
        ModelError: Memory does not suffice for a single patched run.

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
    left = sorted(range(len(patches)), key=lambda i: patches[i].layer)
    rows_a_pass = max(1, PACKED_TOKENS // (base.length - first))
    logits: dict[int, Tensor] = {}
    token_blocks = halvings = 0
    while left:
        chosen = left[:rows_a_pass]
        one_pass = _Pass(base, source, [patches[i] for i in chosen], first)
        try:
            values = one_pass.run(bridge, tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(chosen) == 1:
                refuse_too_little(
                    one_pass.bytes(bridge.original_model), str(base.ids.device), f"a prompt of {base.length} tokens"
                )
                raise
            rows_a_pass, halvings = len(chosen) // 2, halvings + 1
            continue
        token_blocks += one_pass.token_blocks
        logits.update({i: values[:, row] for row, i in enumerate(chosen)})
        left = left[len(chosen) :]
    return Sweep(torch.stack([logits[i] for i in range(len(patches))], dim=1), token_blocks, halvings)


class _Pass:
    """One pass over rows that join it block by block.

    Narrow rows lie behind one another along the position axis: they share one copy of the prefix, and a mask keeps
    them apart. Wide rows lie beside one another along the batch axis, each with its own copy of the prefix, since
    attention between rows, computed and masked away, would cost more than the copies.
    """

    def __init__(self, base: Recorded, source: Recorded, patches: Sequence[Patch], first: int) -> None:
        self.base, self.source, self.patches, self.first = base, source, patches, first
        self.width = base.length - first
        self.offset = first - base.start
        self.batch = int(base.ids.shape[0])
        self.beside = self.width > WIDEST_PACKED
        self.joined = [sum(p.layer <= layer for p in patches) for layer in range(len(base.residual))]
        # Blocks below the first patch see one token that nobody reads: cheaper than taking them out.
        self.token_blocks = sum(max(1, rows * self.width) for rows in self.joined)
        self._masks: dict[int, Tensor] = {}

    def bytes(self, network: Any) -> int:
        """About how much memory the pass takes."""
        rows = len(self.patches)
        return pass_bytes(
            network,
            tokens=self.batch * rows * self.width,
            keys=self.first + (self.width if self.beside else rows * self.width),
            prefixes=self.batch * (rows if self.beside else 1),
            prefix=self.first,
        )

    def run(self, bridge: Any, tokens: Sequence[int]) -> Tensor:
        """Logits [batch, patches, tokens] of each row's last token."""
        base, rows = self.base, len(self.patches)
        if self.beside:
            shape, ends = (rows, 1), torch.tensor([self.width - 1], device=base.ids.device)
        else:
            shape = (1, rows)
            ends = torch.arange(rows, device=base.ids.device) * self.width + self.width - 1
        ids = base.ids[:, self.first :].repeat(shape)
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
                position_ids=base.positions[:, self.first :].repeat(shape),
                past_key_values=prefix_cache(base.keys, base.values, self.first),
                use_cache=True,
                logits_to_keep=ends,
            )
        logits: Tensor = output.logits
        return logits.reshape(rows, self.batch, -1).transpose(0, 1) if self.beside else logits

    def _part(self, tensor: Tensor, rows: slice) -> Tensor:
        """Some rows of what passes through a block [batch, position, …]."""
        if self.beside:
            return tensor[rows.start * self.batch : rows.stop * self.batch]
        return tensor[:, rows.start * self.width : rows.stop * self.width]

    def _enter(self, block: nn.Module, hidden: Tensor, named: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        layer = block_index(block)
        before, now = self.joined[layer - 1] if layer else 0, self.joined[layer]
        named = dict(named, attention_mask=self._mask(layer, now))
        if now == 0:
            return hidden[: self.batch, :1], self._cut(named, lambda table: table[: self.batch, :1])
        parts = [self._part(hidden, slice(0, before))] if before else []
        for patch in self.patches[before:now]:
            fresh = self.base.residual[layer][:, self.offset :]
            if patch.site is Site.RESIDUAL:
                fresh = fresh.clone()
                at = [p - self.base.start for p in patch.positions]
                fresh[:, [i - self.offset for i in at]] = self.source.residual[layer][:, at]
            parts.append(fresh)
        whole = torch.cat(parts, dim=0 if self.beside else 1)
        return whole, self._cut(named, lambda table: self._part(table, slice(0, now)))

    def _cut(self, named: dict[str, Any], cut: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """The block's other arguments for the rows that take part."""
        if named.get("position_ids") is not None:
            named["position_ids"] = cut(named["position_ids"])
        if named.get("position_embeddings") is not None:
            named["position_embeddings"] = tuple(cut(table) for table in named["position_embeddings"])
        return named

    def _mask(self, layer: int, rows: int) -> Tensor:
        """What may not be attended to, as a number to add [batch or 1, 1, positions, prefix and positions]."""
        visible, count = self.base.visible[layer], len(self.patches)
        if id(visible) not in self._masks:
            own = visible[:, self.offset :]
            if not self.beside:
                apart = torch.eye(count, dtype=torch.bool, device=own.device)[None]
                own_rows = torch.kron(apart, own[:, :, self.first :])
                own = torch.cat([own[:, :, : self.first].repeat(1, count, 1), own_rows], dim=2)
            elif len(own) > 1:
                own = own.repeat(count, 1, 1)
            dtype = self.base.residual[0].dtype
            mask = torch.zeros(own.shape, dtype=dtype, device=own.device)
            self._masks[id(visible)] = mask.masked_fill(~own, torch.finfo(dtype).min)[:, None]
        mask = self._masks[id(visible)]
        if self.beside and len(mask) > 1:
            mask = mask[: max(1, rows) * self.batch]
        positions = (self.width if self.beside else rows * self.width) if rows else 1
        return mask[:, :, :positions, : self.first + positions]

    def _patch_heads(self, layer: int) -> Callable[..., Tensor]:
        source = self.source.z[layer]

        def hook(z: Tensor, hook: Any) -> Tensor:
            flat = z.flatten(2).clone()
            for row, patch in enumerate(self.patches):
                if patch.layer != layer or patch.site is not Site.HEAD or patch.head is None:
                    continue
                at = [p - self.first for p in patch.positions]
                kept = [p - self.base.start for p in patch.positions]
                of_head = self.base.head_slice(patch.head)
                self._part(flat, slice(row, row + 1))[:, at, of_head] = source[:, kept, of_head]
            return flat.view(z.shape)

        return hook
