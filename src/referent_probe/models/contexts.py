"""What a model has read, and going on from it.

Rows of unlike length end together: their keys and values are padded at the left, and a mask hides the padding, so
that one pass goes on behind all of them. What is read is padded at the right, where causal attention needs no mask.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import Cache

from referent_probe.models.load import LoadedModel
from referent_probe.models.memory import is_out_of_memory
from referent_probe.models.prefix import empty_cache, prefix_cache, seen

_Result = TypeVar("_Result")

ROWS = 16
"""Sequences in one pass: enough to keep a few cores busy, few enough to hold the keys and values of."""

SHORT_ROWS = 64
"""Continuations in one pass, where nothing is held: each is a token or two, so that reading the weights costs most."""


@dataclass(frozen=True)
class Contexts:
    """Token sequences that a model has read.

    Attributes:
        keys: Per block, keys [n, key-value heads, L, d_head]; all rows end at L. None are there, nor the two next,
            where the logits alone were kept.
        values: Per block, values, same shape.
        padding: How many of a row's first positions hold nothing, n numbers.
        logits: Next-token logits behind each row [n, vocabulary], unwarped.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    padding: tuple[int, ...]
    logits: Tensor

    def take(self, rows: Sequence[int]) -> "Contexts":
        """These rows, in this order; a row may come twice."""
        chosen = torch.as_tensor(list(rows), device=self.logits.device)
        if not self.keys:
            return Contexts((), (), (), self.logits.index_select(0, chosen))
        padding = [self.padding[row] for row in rows]
        start = min(padding)  # padding in all of them

        def of(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(tensor[:, :, start:].index_select(0, chosen) for tensor in tensors)

        padding = [n - start for n in padding]
        return Contexts(of(self.keys), of(self.values), tuple(padding), self.logits.index_select(0, chosen))


def go_on(
    model: LoadedModel,
    contexts: Contexts | None,
    rows: Sequence[int],
    tails: Sequence[Sequence[int]],
    *,
    keep: bool = True,
) -> Contexts:
    """Read on behind contexts.

    Args:
        model: Loaded model.
        contexts: What was read before; None for nothing.
        rows: Behind which row each tail follows.
        tails: Token ids, one or more each.
        keep: Whether to hold what is needed to go on further; without it the logits alone are left.

    Returns:
        One row a tail.
    """
    parts = _in_chunks(lambda c: _pass(model, contexts, rows[c], tails[c], keep=keep), len(tails), ROWS)
    if len(parts) == 1:
        return parts[0]
    if not keep:
        return Contexts((), (), (), torch.cat([part.logits for part in parts]))
    length = max(part.keys[0].shape[2] for part in parts)

    def of(name: str, block: int) -> Tensor:
        tensors = [getattr(part, name)[block] for part in parts]
        return torch.cat([pad(tensor, (0, 0, length - tensor.shape[2], 0)) for tensor in tensors])

    blocks = range(len(parts[0].keys))
    return Contexts(
        keys=tuple(of("keys", block) for block in blocks),
        values=tuple(of("values", block) for block in blocks),
        padding=tuple(n + length - part.keys[0].shape[2] for part in parts for n in part.padding),
        logits=torch.cat([part.logits for part in parts]),
    )


def logits_behind(
    model: LoadedModel, contexts: Contexts, rows: Sequence[int], tails: Sequence[Sequence[int]]
) -> Tensor:
    """Next-token logits [n, vocabulary] behind tails, which are read as in `go_on` and not kept."""
    parts = _in_chunks(lambda c: _pass(model, contexts, rows[c], tails[c], keep=False).logits, len(tails), SHORT_ROWS)
    return torch.cat(parts)


def log_probabilities(
    model: LoadedModel, contexts: Contexts, rows: Sequence[int], tails: Sequence[Sequence[int]]
) -> list[NDArray[np.float64]]:
    """Log-probability of each token of each tail, given all before it, in nats; unwarped, temperature 1.

    Args:
        model: Loaded model.
        contexts: What was read before.
        rows: Behind which row each tail follows.
        tails: Token ids, one or more each.

    Returns:
        One array a tail, as long as it.

    Example:
        `log_probabilities(model, contexts, [0], [(17, 4)])[0].sum()` is the log-probability of both tokens in a row.
    """

    def score(chunk: slice) -> list[NDArray[np.float64]]:
        some, which = tails[chunk], rows[chunk]
        firsts = contexts.logits[list(which)].double().log_softmax(-1)
        found = [[float(first[tail[0]])] for first, tail in zip(firsts, some, strict=True)]
        longer = [i for i, tail in enumerate(some) if len(tail) > 1]
        if longer:
            begun = [some[i][:-1] for i in longer]
            wanted = torch.arange(max(map(len, begun)), device=model.device)
            logits, _, _ = _forward(model, contexts, [which[i] for i in longer], begun, wanted, keep=False)
            for row, i in zip(logits, longer, strict=True):
                rest = torch.tensor(some[i][1:], device=model.device)[:, None]
                log_p = row[: len(rest)].double().log_softmax(-1).gather(1, rest)[:, 0]
                found[i] += log_p.tolist()
        return [np.array(numbers) for numbers in found]

    return [array for part in _in_chunks(score, len(tails), ROWS) for array in part]


def _in_chunks(run: Callable[[slice], _Result], n: int, size: int) -> list[_Result]:
    """Runs 0..n in chunks of some size; one that does not fit into memory is halved."""
    results, waiting = [], [slice(i, min(i + size, n)) for i in range(0, n, size)]
    while waiting:
        chunk = waiting.pop(0)
        try:
            results.append(run(chunk))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or chunk.stop - chunk.start == 1:
                raise
            middle = (chunk.start + chunk.stop) // 2
            waiting[:0] = [slice(chunk.start, middle), slice(middle, chunk.stop)]
    return results


def _pass(
    model: LoadedModel, contexts: Contexts | None, rows: Sequence[int], tails: Sequence[Sequence[int]], *, keep: bool
) -> Contexts:
    lengths = torch.tensor([len(tail) for tail in tails], device=model.device)
    ends = torch.unique(lengths)  # logits of these positions only: a vocabulary is wide
    every, padding, cache = _forward(model, contexts, rows, tails, ends - 1, keep=keep)
    logits = every[torch.arange(len(tails), device=model.device), torch.searchsorted(ends, lengths)]
    if not keep:
        return Contexts((), (), (), logits)
    shift = lengths.max() - lengths
    keys, values = [list(tensors) for tensors in seen(cache, forget=True)]
    padding = padding + shift
    return Contexts(
        each(keys, lambda tensor: _end_together(tensor, shift)),
        each(values, lambda tensor: _end_together(tensor, shift)),
        tuple(padding.tolist()),
        logits,
    )


def each(tensors: list[Tensor], change: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    """Changes one block's tensor after the other, so that old and new are never all held at once."""
    for i in range(len(tensors)):
        tensors[i] = change(tensors[i])
    return tuple(tensors)


def _forward(
    model: LoadedModel,
    contexts: Contexts | None,
    rows: Sequence[int],
    tails: Sequence[Sequence[int]],
    wanted: Tensor,
    *,
    keep: bool,
) -> tuple[Tensor, Tensor, Cache]:
    """Logits [n, wanted, vocabulary] at the wanted positions of the tails, the rows' padding, and the cache."""
    device, longest = model.device, max(len(tail) for tail in tails)
    ids = torch.tensor([[*tail, *[tail[-1]] * (longest - len(tail))] for tail in tails], device=device)
    if contexts is None:
        cache, before = empty_cache(model.n_layers), 0
        padding = torch.zeros(len(ids), dtype=torch.long, device=device)
    else:
        if not contexts.keys:
            raise ValueError("these contexts were read with keep=False, so that nothing can go on from them")
        before = contexts.keys[0].shape[2]
        chosen = torch.as_tensor(list(rows), device=device)
        cache = prefix_cache(contexts.keys, contexts.values, before, rows=chosen, keep=keep)
        padding = torch.tensor(contexts.padding, device=device)[chosen]
    with torch.no_grad():
        logits: Tensor = model.network(
            ids,
            attention_mask=torch.arange(before + longest, device=device) >= padding[:, None] if padding.any() else None,
            position_ids=before - padding[:, None] + torch.arange(longest, device=device),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=wanted,
        ).logits
    return logits, padding, cache


def _end_together(tensor: Tensor, shift: Tensor) -> Tensor:
    """Moves each row [heads, L, d_head] to the right by its shift; what moves out at the end was padding."""
    if not bool(shift.any()):
        return tensor
    source = (torch.arange(tensor.shape[2], device=tensor.device) - shift[:, None]).clamp(min=0)
    return tensor.gather(2, source[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3]))
