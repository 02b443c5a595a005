"""Keys and values of a prefix that many passes read and none changes.

transformers' own caches grow in place, so that one used twice is silently wrong, and drop what lies outside a sliding
window, so that they cannot be cut.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class CacheLostError(RuntimeError):
    """The model did not hand its cache on to attention, as with versions of two libraries that do not fit."""


class _PrefixLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of earlier positions in one block. A pass reads them and leaves them as they were."""

    is_sliding = False

    def __init__(self, keys: Tensor, values: Tensor, rows: Tensor | None = None, keep: bool = True) -> None:
        super().__init__()
        self.prefix = (keys, values)
        self.rows = rows
        self.keep = keep
        self.is_initialized = True
        self.seen: tuple[Tensor, Tensor] | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to set up; required by the base class."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        keys, values = (
            torch.cat([self._of_batch(old, len(new)), new], dim=2)
            for old, new in zip(self.prefix, (key_states, value_states), strict=True)
        )
        if self.keep:
            self.seen = (keys, values)
        return keys, values

    def _of_batch(self, old: Tensor, batch: int) -> Tensor:
        """The prefix of each member of a batch, copied for one block at a time."""
        if self.rows is not None:
            return old.index_select(0, self.rows)
        # One prefix serves a whole batch, or every so many members of it.
        return old.repeat(batch // len(old), 1, 1, 1)

    def get_seq_length(self) -> int:
        return int(self.prefix[0].shape[2])

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:
        return -1


class _RecordingLayer(_PrefixLayer):
    """A prefix of no positions, whatever the shape of a position."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1, 1, 0, 1), torch.zeros(1, 1, 0, 1))

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.seen = (key_states, value_states)
        return self.seen


def prefix_cache(
    keys: Sequence[Tensor], values: Sequence[Tensor], length: int, *, rows: Tensor | None = None, keep: bool = True
) -> Cache:
    """A cache holding the first `length` positions of `keys` and `values` (per block [n, heads, T, d_head]).

    Args:
        keys: Per block.
        values: Per block.
        length: Positions of the prefix.
        rows: Which of the n each member of a batch goes on from; None for all of them, over and over.
        keep: Whether `seen` shall tell, after a pass, the keys and values of all positions.
    """
    pairs = zip(keys, values, strict=True)
    return Cache(layers=[_PrefixLayer(k[:, :, :length], v[:, :, :length], rows, keep) for k, v in pairs])


def empty_cache(blocks: int) -> Cache:
    """A cache of no positions; afterwards `seen` tells what a pass computed."""
    return Cache(layers=[_RecordingLayer() for _ in range(blocks)])


def seen(cache: Cache, *, forget: bool = False) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Keys and values of all positions after a pass, prefix included, per block [batch, heads, T, d_head].

    Args:
        cache: Of the pass.
        forget: Whether the cache shall let go of them, so that they are freed when the caller lets go too.

    Raises:
        CacheLostError: Attention never saw the cache.
    """
    found = [layer.seen for layer in cache.layers if layer.seen is not None]
    if len(found) < len(cache.layers):
        raise CacheLostError(f"{len(cache.layers) - len(found)} of {len(cache.layers)} blocks never saw the cache")
    if forget:
        for layer in cache.layers:
            layer.seen = None
    return tuple(keys for keys, _ in found), tuple(values for _, values in found)
