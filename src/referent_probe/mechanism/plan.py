"""Decide what is computed of which contrast, and what it will cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from referent_probe.mechanism.contrasts import Contrast
from referent_probe.models.load import LoadedModel
from referent_probe.models.memory import pass_bytes
from referent_probe.models.resume import PACKED_TOKENS
from referent_probe.randomness import generator
from referent_probe.stimuli.primes import Span


@dataclass(frozen=True)
class Work:
    """What to compute of one contrast.

    Attributes:
        contrast: The contrast.
        flow: Whether the residual stream is swept by layer and span.
        head_checks: Heads (layer, head) to compare with brute force, in both directions.
        flow_checks: Number of residual cells to compare with brute force.
        seed: Of the choice of residual cells.
    """

    contrast: Contrast
    flow: bool
    head_checks: tuple[tuple[int, int], ...]
    flow_checks: int
    seed: int


def plan(
    contrasts: Sequence[Contrast], model: LoadedModel, *, flow_pairs: int, seed: int, checks: int = 8
) -> tuple[Work, ...]:
    """Decide what is computed of which contrast.

    The residual stream is swept for `flow_pairs` pairs, spread over cases, masculine option first. Cells for the
    self-check are drawn by seed and spread over contrasts.

    Args:
        contrasts: From `build_contrasts`.
        model: The loaded model.
        flow_pairs: Number of pairs whose residual stream is swept.
        seed: Of the draw.
        checks: Cells a kind of sweep, at least.

    Returns:
        One piece of work a contrast, in their order; a contrast that was left out has nothing to compute.

    Example:
        32 contrasts of 8 pairs and `flow_pairs=2` give 32 pieces of work, four of them with `flow`.
    """
    rng = generator(seed, "self-check")
    usable = [c for c in contrasts if c.left_out is None]
    with_flow = spread_over_cases({c.pair: str(c.template.case) for c in usable}, flow_pairs)
    flow_ids = [c.id for c in usable if c.pair in with_flow and c.order == "mf"]
    heads: dict[str, list[tuple[int, int]]] = {c.id: [] for c in usable}
    order = [usable[i].id for i in rng.permutation(len(usable))]
    for i in range(max(checks, 1)):
        cell = (int(rng.integers(model.n_layers)), int(rng.integers(model.n_heads)))
        heads[order[i % len(order)]].append(cell)
    flow_counts = {
        c: len(part) for c, part in zip(flow_ids, np.array_split(range(checks), max(1, len(flow_ids))), strict=False)
    }
    return tuple(
        Work(c, c.id in flow_ids, tuple(heads.get(c.id, ())), flow_counts.get(c.id, 0), seed) for c in contrasts
    )


def spread_over_cases(cases: Mapping[str, str], n: int) -> set[str]:
    """The first n pairs, taking one of each case in turn."""
    turn: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for pair, case in cases.items():
        turn[pair] = seen[case]
        seen[case] += 1
    return set(sorted(turn, key=lambda pair: turn[pair])[:n])


def reached(contrast: Contrast, span: Span) -> tuple[int, ...]:
    """The span's positions from the priming pronoun on; before it both runs hold the same."""
    return tuple(p for p in contrast.feminine.positions(span) if p >= contrast.first_difference)


def expected_cost(work: Work, model: LoadedModel) -> float:
    """About how many forward passes of one prompt a contrast costs, 0 where it was left out: for the progress bar."""
    contrast, layers = work.contrast, model.n_layers
    if contrast.left_out is not None:
        return 0.0
    slot = 2 * (layers + 1) * model.n_heads / 2 / contrast.length
    firsts = {p for span in set(contrast.feminine.spans) if (p := reached(contrast, span))} if work.flow else set()
    flow = sum((contrast.length - positions[0]) * (layers + 1) / 2 / contrast.length for positions in firsts)
    return 2 + slot + flow + 4 * len(work.head_checks) + 2 * work.flow_checks


def expected_bytes(works: Sequence[Work], model: LoadedModel) -> int:
    """About how much memory the largest contrast takes beside the model, in bytes; 0 without work."""
    lengths = [(w.contrast.length, w.contrast.first_difference) for w in works if w.contrast.left_out is None]
    if not lengths:
        return 0
    longest, shortest_prefix = max(n for n, _ in lengths), min(first for _, first in lengths)
    cfg = model.bridge.cfg
    rows = min(PACKED_TOKENS, model.n_layers * model.n_heads)
    slot = pass_bytes(model.network, tokens=2 * rows, keys=longest + rows, prefixes=2, prefix=longest)
    whole = pass_bytes(model.network, tokens=2 * longest, keys=longest, prefixes=0, prefix=0)
    logits = 2 * longest * int(cfg.d_vocab) * 4
    kept = longest - shortest_prefix
    recorded = 8 * model.n_layers * (2 * kept * int(cfg.d_model) + 2 * longest * model.n_heads * int(cfg.d_head))
    return max(slot, whole + logits) + 2 * recorded
