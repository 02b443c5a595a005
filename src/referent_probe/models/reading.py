"""Read many token sequences, computing once what they begin with."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from referent_probe.models.contexts import Contexts, each, go_on
from referent_probe.models.load import LoadedModel

_NEAR = 8
"""Beginnings that differ by no more tokens than this count as one: a few tokens are cheaper computed twice."""


@dataclass(frozen=True)
class Root:
    """A beginning that all prompts of a kind share, read once for a whole run.

    Attributes:
        ids: Its tokens, one or more.
        contexts: The same, read: one row.
    """

    ids: tuple[int, ...]
    contexts: Contexts


def root_of(model: LoadedModel, sequences: Sequence[Sequence[int]]) -> Root | None:
    """What some sequences begin with alike, read; None where that is nothing.

    Args:
        model: Loaded model.
        sequences: Token ids; give the same ones whenever results must be the same to the byte.
    """
    ordered = sorted(tuple(ids) for ids in sequences)
    ids = ordered[0][: min(shared_length(ordered[0], ordered[-1]), len(ordered[0]) - 1)]
    return Root(ids, go_on(model, None, [0], [ids])) if ids else None


def read(
    model: LoadedModel, sequences: Sequence[Sequence[int]], root: Root | None = None, *, keep: bool = True
) -> Contexts:
    """Read token sequences, sharing passes over what they begin with.

    The order of the sequences changes nothing; their company changes logits by rounding.

    Args:
        model: Loaded model.
        sequences: Token ids, one token or more each.
        root: What they may all begin with, read before; one that they do not begin with is left aside.
        keep: Whether to hold what is needed to go on from there; without it the logits alone are left.

    Returns:
        One row a sequence, in their order.

    Raises:
        ValueError: There is no sequence, or an empty one.
        CacheLostError: The model does not hand keys and values on.

    Example:
        14 prompts of 120 tokens, all alike for 60 tokens and in pairs for 105, cost 60 + 7 * 45 + 14 * 15 = 585
        tokens instead of 1,680.
    """
    wanted = [tuple(ids) for ids in sequences]
    if not wanted or not all(wanted):
        raise ValueError("no sequence to read, or an empty one")
    distinct = order = sorted(set(wanted))
    base = None
    if root is not None and all(ids[:-1][: len(root.ids)] == root.ids for ids in distinct):
        base, distinct = root.contexts, [ids[len(root.ids) :] for ids in distinct]
    stems = _stems(distinct)
    bases = sorted(set(stems))
    done = shared_length(bases[0], bases[-1])
    if len(bases) > 1 and done == len(bases[0]):  # each must go on from there by a token or more
        done -= 1
    if done > (0 if base is None else _NEAR):
        base = go_on(model, base, [0], [bases[0][:done]])
    else:
        done = 0
    rows = [0] * len(distinct)
    if min(map(len, bases)) > done:
        base = go_on(model, base, [0] * len(bases), [stem[done:] for stem in bases])
        rows = [bases.index(stem) for stem in stems]
        tails = [ids[len(stem) :] for ids, stem in zip(distinct, stems, strict=True)]
    else:
        tails = [ids[done:] for ids in distinct]
    found = go_on(model, base, rows, tails, keep=keep)
    del base
    if wanted == order:
        return found
    places = torch.tensor([order.index(ids) for ids in wanted], device=model.device)
    keys, values, padding, logits = list(found.keys), list(found.values), found.padding, found.logits
    del found
    return Contexts(
        each(keys, lambda tensor: tensor.index_select(0, places)),
        each(values, lambda tensor: tensor.index_select(0, places)),
        tuple(padding[i] for i in places.tolist() if padding),
        logits.index_select(0, places),
    )


def shared_length(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike.

    >>> shared_length([1, 2, 3], [1, 2, 4])
    2
    """
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _stems(distinct: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """For each of the sorted sequences, a proper beginning that it shares with others, the longest but for `_NEAR`."""
    stems: list[tuple[int, ...]] = []
    between = [0, *(shared_length(a, b) for a, b in pairwise(distinct)), 0]
    for i, ids in enumerate(distinct):
        stem = ids[: min(max(between[i], between[i + 1]), len(ids) - 1)]
        if stems and len(stem) - len(stems[-1]) <= _NEAR and stem[: len(stems[-1])] == stems[-1]:
            stem = stems[-1]
        stems.append(stem)
    return stems
