"""Record an unpatched pass: everything that patched runs take from it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from referent_probe.models.blocks import entering
from referent_probe.models.interventions import Site
from referent_probe.models.prefix import empty_cache, prefix_cache, seen


@dataclass(frozen=True)
class Recorded:
    """An unpatched pass over a batch of prompts of equal length that agree on their first `start` tokens.

    Attributes:
        ids: Token ids [batch, T].
        start: First position at which the prompts may differ; activations are kept from here on, n = T - start.
        keys: Per block, keys of all positions [batch, key-value heads, T, d_head].
        values: Per block, values, same shape.
        positions: Position ids [batch, T]; padding at the left has 0.
        visible: Per block, which key positions a query position from `start` on may attend to [batch, n, T], bool, or
            [1, n, T] where nothing is padded; blocks of one kind share one tensor.
        residual: Per block, the residual stream entering it [batch, n, d_model].
        z: Per block, the heads' outputs, concatenated [batch, n, heads * d_head].
        pattern: Per block, attention of the last position [batch, heads, T].
        final_residual: Residual stream after the last block, last position [batch, d_model].
        logits: Logits of the last position [batch, vocabulary].
        more: What else was asked for, by site and block: attention's and the MLP's output [batch, n, d_model]; queries,
            keys and values before positions are mixed in [batch, n, heads * d_head]; patterns [batch, heads, n, T].
    """

    ids: Tensor
    start: int
    positions: Tensor
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    visible: tuple[Tensor, ...]
    residual: tuple[Tensor, ...]
    z: tuple[Tensor, ...]
    pattern: tuple[Tensor, ...]
    final_residual: Tensor
    logits: Tensor
    more: Mapping[Site, tuple[Tensor, ...]] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.residual)

    @property
    def heads(self) -> int:
        """Number of query heads of a block."""
        return int(self.pattern[0].shape[1])

    @property
    def key_value_heads(self) -> int:
        """Number of key-value heads of a block."""
        return int(self.keys[0].shape[1])

    def heads_at(self, site: Site) -> int:
        """Number of heads that an activation is cut into; 1 for one of the whole block."""
        if not site.by_head:
            return 1
        return self.key_value_heads if site.by_key_value_head else self.heads

    def activation(self, site: Site, layer: int, positions: Sequence[int], head: int | None = None) -> Tensor:
        """One activation [batch, positions, size]: size is d_model, d_head, or T for a pattern.

        Args:
            site: Which; what was not recorded cannot be had.
            layer: Block, from 0.
            positions: Of tokens, at or after `start`.
            head: Query head, or key-value head for keys and values; None for the whole block.

        Raises:
            ValueError: The site was not recorded.
        """
        at = [p - self.start for p in positions]
        if site is Site.RESIDUAL:
            return self.residual[layer][:, at]
        found = (self.z,) if site is Site.Z else (self.more[site],) if site in self.more else ()
        if not found:
            raise ValueError(f"{site} was not recorded: give it in `sites`")
        if site is Site.PATTERN:
            assert head is not None
            return found[0][layer][:, head, at]
        if head is None:
            return found[0][layer][:, at]
        size = found[0][layer].shape[-1] // self.heads_at(site)
        return found[0][layer][:, at, head * size : (head + 1) * size]

    @property
    def length(self) -> int:
        """Number of tokens T of each prompt."""
        return int(self.ids.shape[1])

    def take(self, rows: Sequence[int]) -> "Recorded":
        """The same run with these members of the batch, in this order: [1, 0] swaps two prompts."""
        chosen = torch.as_tensor(list(rows), device=self.ids.device)

        def of(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            once = {id(tensor): tensor.index_select(0, chosen) for tensor in tensors}
            return tuple(once[id(tensor)] for tensor in tensors)

        return Recorded(
            ids=self.ids.index_select(0, chosen),
            start=self.start,
            positions=self.positions.index_select(0, chosen),
            keys=of(self.keys),
            values=of(self.values),
            visible=of(self.visible) if self.visible[0].shape[0] > 1 else self.visible,
            residual=of(self.residual),
            z=of(self.z),
            pattern=of(self.pattern),
            final_residual=self.final_residual.index_select(0, chosen),
            logits=self.logits.index_select(0, chosen),
            more={site: of(tensors) for site, tensors in self.more.items()},
        )


def record(
    bridge: Any, ids: Tensor, start: int, padding: Sequence[int] | None = None, sites: Collection[Site] = ()
) -> Recorded:
    """Run prompts once and keep what patched runs need.

    Args:
        bridge: A `TransformerBridge`.
        ids: Token ids [batch, T], the same in all rows before `start`.
        start: First position that may differ, 0 <= start < T; the tokens before it are computed once.
        padding: For prompts of unlike length: how many tokens at the left of each row are padding. They are masked,
            positions count from the first real token, and all rows are computed whole.
        sites: What to keep beside the residual stream and the heads' outputs.

    Raises:
        ValueError: `start` is out of range, rows differ before it, or a row is all padding.
        CacheLostError: Attention never saw the cache, so that an earlier position's keys would be missing.

    Example:
        Two prompts of 92 tokens that part at token 55: `record(bridge, ids, 55).residual[0].shape` is
        [2, 37, d_model].
    """
    length = ids.shape[1]
    if not 0 <= start < length:
        raise ValueError(f"start {start} lies outside a prompt of {length} tokens")
    if padding is not None and not all(0 <= pad < length for pad in padding):
        raise ValueError(f"padding {list(padding)} leaves nothing of a prompt of {length} tokens")
    pads = torch.tensor(padding or [0] * len(ids), device=ids.device)[:, None]
    padded = bool(pads.any())
    if not padded and bool((ids[:, :start] != ids[:1, :start]).any()):
        raise ValueError(f"prompts differ before position {start}")
    positions = (torch.arange(length, device=ids.device) - pads).clamp(min=0)
    model, blocks = bridge.original_model, bridge.blocks
    cache = empty_cache(len(blocks))
    begin = 0 if padded else start
    if begin > 0:
        model(ids[:1, :start], past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = prefix_cache(*seen(cache), start)

    residual: list[Tensor] = []
    visible: list[Tensor] = []
    more = [site for site in Site if site in sites and site not in (Site.RESIDUAL, Site.Z)]
    kept: dict[str, list[Tensor]] = {name: [] for name in ("z", "pattern", "final", *(f"all {s}" for s in more))}

    def enter(block: nn.Module, hidden: Tensor, named: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        residual.append(hidden[:, start - begin :].clone())
        new = _visible(named.get("attention_mask"), length, start, hidden.device)
        visible.append(next((old for old in visible if torch.equal(old, new)), new))
        return hidden, named

    def from_start(site: Site) -> Callable[[Tensor], Tensor]:
        if site is Site.PATTERN:
            return lambda t: t[:, :, start - begin :]
        return lambda t: t.flatten(2)[:, start - begin :]

    def keep(name: str, cut: Callable[[Tensor], Tensor]) -> Callable[..., None]:
        return lambda tensor, hook: kept[name].append(cut(tensor).clone())

    hooks = [
        hook
        for layer in range(len(blocks))
        for hook in (
            (f"blocks.{layer}.attn.o.hook_in", keep("z", lambda t: t.flatten(2)[:, start - begin :])),
            (f"blocks.{layer}.attn.hook_pattern", keep("pattern", lambda t: t[:, :, -1])),
            *((site.hook_name(layer), keep(f"all {site}", from_start(site))) for site in more),
        )
    ]
    hooks.append((f"blocks.{len(blocks) - 1}.hook_out", keep("final", lambda t: t[:, -1])))
    with entering(blocks, enter), bridge.hooks(fwd_hooks=hooks):
        output = model(
            ids[:, begin:],
            attention_mask=torch.arange(length, device=ids.device) >= pads if padded else None,
            position_ids=positions[:, begin:],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
    keys, values = seen(cache)
    silent = [name for name, found in kept.items() if len(found) != len(blocks) and name != "final"]
    if silent or len(residual) != len(blocks):
        raise RuntimeError(f"hooks on {', '.join(silent) or 'blocks'} did not fire in all of {len(blocks)} blocks")
    return Recorded(
        ids=ids,
        start=start,
        positions=positions,
        keys=keys,
        values=values,
        visible=tuple(visible),
        residual=tuple(residual),
        z=tuple(kept["z"]),
        pattern=tuple(kept["pattern"]),
        final_residual=kept["final"][0],
        logits=output.logits[:, -1],
        more={site: tuple(kept[f"all {site}"]) for site in more},
    )


def _visible(mask: Tensor | None, length: int, start: int, device: torch.device) -> Tensor:
    """Which keys each query from `start` on may read [batch or 1, n, T], from the mask that the model gave a block."""
    if mask is None:
        return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, start:]
    allowed = mask[:, 0] if mask.dtype == torch.bool else mask[:, 0] > torch.finfo(mask.dtype).min / 2
    kept = allowed[:, -(length - start) :, :length]
    return kept[:1] if bool((kept == kept[:1]).all()) else kept
