"""Interventions on a run, as values: patch an activation, or cut attention.

What is patched comes from another run (activation patching), or is given (zero, mean, resample ablation, path
patching). What is cut is attention from queries to keys (attention knockout, Geva et al., arXiv 2304.14767).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Site(StrEnum):
    """Which activation of a block.

    `RESIDUAL`: the residual stream entering the block. `ATTN_OUT`, `MLP_OUT`: what attention and MLP add to it, after
    a norm behind them where the model has one. `Z`: a head's output before the output projection. `Q`, `K`, `V`: a
    head's queries, keys and values before positions are mixed in; of grouped-query attention, `K` and `V` by key-value
    head. `PATTERN`: a head's attention, by query.
    """

    RESIDUAL = "resid"
    ATTN_OUT = "attn_out"
    MLP_OUT = "mlp_out"
    Z = "z"
    Q = "q"
    K = "k"
    V = "v"
    PATTERN = "pattern"

    @property
    def by_head(self) -> bool:
        """Whether it is one of a head, not of the whole block."""
        return self not in (Site.RESIDUAL, Site.ATTN_OUT, Site.MLP_OUT)

    @property
    def by_key_value_head(self) -> bool:
        """Whether heads of a group share it."""
        return self in (Site.K, Site.V)

    def hook_name(self, layer: int) -> str:
        """TransformerLens' name of the place in the model."""
        return f"blocks.{layer}.{_HOOKS[self]}"


_HOOKS = {
    Site.RESIDUAL: "hook_in",
    Site.ATTN_OUT: "hook_attn_out",
    Site.MLP_OUT: "hook_mlp_out",
    Site.Z: "attn.o.hook_in",
    Site.Q: "attn.hook_q",
    Site.K: "attn.hook_k",
    Site.V: "attn.hook_v",
    Site.PATTERN: "attn.hook_pattern",
}


@dataclass(frozen=True, eq=False)
class Patch:
    """Take an activation from another run, or from a given value.

    Attributes:
        layer: Block, from 0.
        site: Which activation.
        positions: Token positions in the prompt, ascending; of a pattern, the queries.
        head: From 0; key-value head for `Site.K` and `Site.V`; None for the whole block.
        value: What it becomes, of a shape that broadcasts to [batch, positions, size]: size is d_model, d_head, or
            the prompt's length for a pattern. None for the activation of the source run.

    Example:
        `Patch(3, Site.Z, (91,), head=5, value=torch.zeros(1))` is zero ablation of head 3.5 at position 91.
    """

    layer: int
    site: Site
    positions: tuple[int, ...]
    head: int | None = None
    value: "Tensor | None" = None

    @property
    def first(self) -> int:
        """First position that is touched."""
        return min(self.positions)

    @property
    def last(self) -> int:
        """Last position that is touched."""
        return max(self.positions)


@dataclass(frozen=True)
class Cut:
    """Attention knockout: no attention from some queries to some keys.

    Attributes:
        layer: Block, from 0.
        queries: Positions whose attention is cut.
        keys: Positions that they no longer attend to.
        head: Query head, from 0; None for all heads of the block.
        renormalise: True to cut before softmax, so that the other keys receive what the cut ones lose; False to drop
            the edges after softmax, so that they receive nothing more (redistribution may mask importance).

    Example:
        `Cut(3, (91,), (55,))` hides position 55 from position 91 in block 3.
    """

    layer: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    head: int | None = None
    renormalise: bool = True

    @property
    def first(self) -> int:
        """First position that is touched."""
        return min(self.queries)

    @property
    def last(self) -> int:
        """Last position that is touched."""
        return max(self.queries)


Intervention = Patch | Cut
"""One of the two."""

Row = Intervention | Sequence[Intervention]
"""What is done to a run at once: one intervention, or several together; of two at one place the later one stands."""


def interventions_of(row: Row) -> tuple[Intervention, ...]:
    """A row's interventions."""
    return (row,) if isinstance(row, (Patch, Cut)) else tuple(row)


def check_place(intervention: Intervention, layers: int, heads: int, key_value_heads: int) -> None:
    """Refuse a place that a model does not have.

    Raises:
        ValueError: The layer or the head is not there, no position is given, or head and site do not go together.

    Example:
        >>> check_place(Patch(30, Site.Z, (91,), 0), layers=30, heads=9, key_value_heads=3)
        Traceback (most recent call last):
        ValueError: layer 30 is not there: the model has blocks 0 to 29
    """
    if not 0 <= intervention.layer < layers:
        raise ValueError(f"layer {intervention.layer} is not there: the model has blocks 0 to {layers - 1}")
    head = intervention.head
    if isinstance(intervention, Cut):
        count, what = heads, "head"
        if not intervention.queries or not intervention.keys:
            raise ValueError("a cut needs queries and keys")
    else:
        by_group = intervention.site.by_key_value_head
        count, what = (key_value_heads, "key-value head") if by_group else (heads, "head")
        if not intervention.positions:
            raise ValueError(f"no position is given for {intervention.site} of block {intervention.layer}")
        if intervention.site.by_head == (head is None):
            raise ValueError(f"{intervention.site} is {'of a head' if head is None else 'not of a head'}: head {head}")
    if head is not None and not 0 <= head < count:
        raise ValueError(f"{what} {head} is not there: block {intervention.layer} has 0 to {count - 1}")
