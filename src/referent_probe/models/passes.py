"""One partial pass: rows of tokens behind a shared prefix, each with its own interventions.

Nothing here knows an architecture. Masks, rotary tables and logits are the model's own: the masks are read off the
recorded pass, and the rest is cut to the tokens that take part.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from referent_probe.models.blocks import block_index, entering, unembed_only
from referent_probe.models.interventions import Cut, Intervention, Patch, Site
from referent_probe.models.memory import pass_bytes
from referent_probe.models.prefix import prefix_cache
from referent_probe.models.record import Recorded

# Rows of more tokens than this lie beside one another instead of behind one another.
WIDEST_PACKED = 4

Hook = tuple[str, Callable[..., Tensor]]


class _Stop(Exception):
    """What is wanted has been read; the blocks above need not be computed."""


def joining(rows: Sequence[Sequence[Intervention]], width: int, blocks: int) -> tuple[list[int], int]:
    """How many rows take part in each block, and the tokens times blocks of the pass."""
    begins = [min(one.layer for one in row) for row in rows]
    joined = [sum(begin <= layer for begin in begins) for layer in range(blocks)]
    # Blocks below the first patch see one token that nobody reads: cheaper than taking them out.
    return joined, sum(max(1, count * width) for count in joined)


class Pass:
    """One pass over rows that join it block by block, each at the block of its first intervention.

    Narrow rows lie behind one another along the position axis: they share one copy of the prefix, and a mask keeps
    them apart. Wide rows lie beside one another along the batch axis, each with its own copy of the prefix, since
    attention between rows, computed and masked away, would cost more than the copies.

    Attributes:
        token_blocks: Tokens times blocks that it computes, for one member of the batch.
    """

    def __init__(
        self, base: Recorded, source: Recorded | None, rows: Sequence[Sequence[Intervention]], first: int
    ) -> None:
        self.base, self.source, self.rows, self.first = base, source, rows, first
        self.width = base.length - first
        self.batch = int(base.ids.shape[0])
        self.beside = self.width > WIDEST_PACKED
        self.joined, self.token_blocks = joining(rows, self.width, base.blocks)
        self._masks: dict[int, Tensor] = {}

    def bytes(self, network: Any) -> int:
        """About how much memory it takes."""
        rows = len(self.rows)
        return pass_bytes(
            network,
            tokens=self.batch * rows * self.width,
            keys=self.first + (self.width if self.beside else rows * self.width),
            prefixes=self.batch * (rows if self.beside else 1),
            prefix=self.first,
        )

    def run(self, bridge: Any, tokens: Sequence[int]) -> Tensor:
        """Logits [batch, rows, tokens] of each row's last token."""
        logits = self._forward(bridge, tokens, self._hooks())
        rows = len(self.rows)
        return logits.reshape(rows, self.batch, -1).transpose(0, 1) if self.beside else logits

    def read(self, bridge: Any, layer: int, sites: Sequence[Site]) -> dict[Site, Tensor]:
        """What the rows compute in one block [batch, rows, width, heads * d_head]; blocks above are not computed."""
        found: dict[Site, Tensor] = {}

        def keep(site: Site) -> Callable[..., Tensor]:
            def hook(tensor: Tensor, hook: Any) -> Tensor:
                flat = tensor.flatten(2)
                shape = (len(self.rows), self.batch) if self.beside else (self.batch, len(self.rows))
                by_row = flat.reshape(*shape, self.width, -1)
                found[site] = (by_row.transpose(0, 1) if self.beside else by_row).clone()
                if len(found) == len(sites):
                    raise _Stop
                return tensor

            return hook

        try:
            self._forward(bridge, [0], [*self._hooks(), *((site.hook_name(layer), keep(site)) for site in sites)])
        except _Stop:
            return found
        raise RuntimeError(f"hooks on {', '.join(sites)} did not fire in block {layer}")

    def _forward(self, bridge: Any, tokens: Sequence[int], hooks: list[Hook]) -> Tensor:
        base, rows = self.base, len(self.rows)
        if self.beside:
            shape, ends = (rows, 1), torch.tensor([self.width - 1], device=base.ids.device)
        else:
            shape = (1, rows)
            ends = torch.arange(rows, device=base.ids.device) * self.width + self.width - 1
        ids = base.ids[:, self.first :].repeat(shape)
        with ExitStack() as stack:
            stack.enter_context(entering(bridge.blocks, self._enter))
            stack.enter_context(bridge.hooks(fwd_hooks=hooks))
            stack.enter_context(unembed_only(bridge, tokens))
            output = bridge.original_model(
                ids,
                position_ids=base.positions[:, self.first :].repeat(shape),
                past_key_values=prefix_cache(base.keys, base.values, self.first),
                use_cache=True,
                logits_to_keep=ends,
            )
        logits: Tensor = output.logits
        return logits

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
        fresh = self.base.residual[layer][:, self.first - self.base.start :]
        whole = torch.cat([*parts, *[fresh] * (now - before)], dim=0 if self.beside else 1)
        for row in range(now):
            for one in self.rows[row]:
                if one.layer == layer and isinstance(one, Patch) and one.site is Site.RESIDUAL:
                    at = [p - self.first for p in one.positions]
                    self._part(whole, slice(row, row + 1))[:, at] = self._value(one)
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
        visible, count = self.base.visible[layer], len(self.rows)
        if id(visible) not in self._masks:
            own = visible[:, self.first - self.base.start :]
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

    def _value(self, patch: Patch) -> Tensor:
        """What the activation becomes [batch, positions, size], or what broadcasts to it."""
        if patch.value is not None:
            return patch.value.to(self.base.residual[0])
        assert self.source is not None
        return self.source.activation(patch.site, patch.layer, patch.positions, patch.head)

    def _hooks(self) -> list[Hook]:
        """A hook a place in the model, for all rows that are changed there."""
        places: dict[str, list[tuple[int, Intervention]]] = {}
        for row, interventions in enumerate(self.rows):
            for one in interventions:
                if isinstance(one, Cut):
                    name = f"blocks.{one.layer}.attn.{'hook_attn_scores' if one.renormalise else 'hook_pattern'}"
                elif one.site is not Site.RESIDUAL:
                    name = one.site.hook_name(one.layer)
                else:
                    continue
                places.setdefault(name, []).append((row, one))
        return [(name, self._hook(changes)) for name, changes in places.items()]

    def _hook(self, changes: Sequence[tuple[int, Intervention]]) -> Callable[..., Tensor]:
        def hook(tensor: Tensor, hook: Any) -> Tensor:
            changed = tensor.clone()
            for row, one in changes:
                if isinstance(one, Cut):
                    self._hide(changed, row, one)
                elif one.site is Site.PATTERN:
                    self._replace_pattern(changed, row, one)
                else:
                    flat = changed.flatten(2)  # a view: a clone is contiguous
                    heads = self.base.heads_at(one.site)
                    size = flat.shape[-1] // heads
                    begin = (one.head or 0) * size
                    at = [p - self.first for p in one.positions]
                    self._part(flat, slice(row, row + 1))[:, at, begin : begin + size] = self._value(one)
            return changed

        return hook

    def _edges(self, attention: Tensor, row: int, queries: Sequence[int]) -> tuple[Tensor, list[int], int]:
        """A row's part of scores or patterns [batch, heads, queries, keys], its queries, where its own keys begin."""
        if self.beside:
            part = attention[row * self.batch : (row + 1) * self.batch]
            return part, [q - self.first for q in queries], self.first
        begin = row * self.width
        return attention, [begin + q - self.first for q in queries], self.first + begin

    def _hide(self, attention: Tensor, row: int, cut: Cut) -> None:
        part, queries, own = self._edges(attention, row, cut.queries)
        keys = [k if k < self.first else own + k - self.first for k in cut.keys]
        heads = slice(None) if cut.head is None else slice(cut.head, cut.head + 1)
        hidden = torch.finfo(attention.dtype).min if cut.renormalise else 0.0
        for query in queries:
            part[:, heads, query, keys] = hidden

    def _replace_pattern(self, attention: Tensor, row: int, patch: Patch) -> None:
        part, queries, own = self._edges(attention, row, patch.positions)
        value = self._value(patch)
        value = value.expand(self.batch, len(queries), self.base.length)
        part[:, patch.head, queries, : self.first] = value[..., : self.first]
        part[:, patch.head, queries, own : own + self.width] = value[..., self.first :]
