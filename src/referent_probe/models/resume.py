"""Exact patched runs that compute only what a patch can change.

In a causal model a patch at block l and positions >= p leaves every block below l, and every position before p, as
it was. So a patched run needs the tokens from p on, in the blocks from l on, with the keys and values of the earlier
positions taken from the unpatched run. Many such runs share one pass: each is a *row* of tokens behind the same
prefix, and a row joins the pass at the block where its patch is. All heads at the last position cost about one and a
half forward passes this way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from referent_probe.models.interventions import Cut, Intervention, Patch, Row, Site, check_place, interventions_of
from referent_probe.models.memory import is_out_of_memory, refuse_too_little
from referent_probe.models.passes import Pass, joining
from referent_probe.models.record import Recorded

# Tokens of one member of the batch that a pass takes at most: more cost memory and win no speed.
PACKED_TOKENS = 640


@dataclass(frozen=True)
class Sweep:
    """Result of `patched_logits`.

    Attributes:
        logits: Last position's logits of each patched run [batch, rows, tokens asked for].
        token_blocks: Tokens times blocks computed, for one member of the batch.
        halvings: How often memory ran out and passes were made half as large; 0 means that batches were as planned,
            so that the same call gives the same bytes.
    """

    logits: Tensor
    token_blocks: int
    halvings: int = 0


def patched_logits(
    bridge: Any, base: Recorded, source: Recorded | None, rows: Sequence[Row], tokens: Sequence[int]
) -> Sweep:
    """Last position's logits of `base` after each row's interventions, one row at a time.

    Exact: equal to a full run with the same interventions up to rounding. Rows should start at the same first position
    (the earliest one sets where all begin) and may lie in different blocks; the interventions of one row act together.

    Args:
        bridge: A `TransformerBridge`.
        base: The run that is changed.
        source: The run that activations come from, of the same shape; row i of its batch goes into row i. None where
            every patch has a value of its own.
        rows: At least one; positions at or after `base.start`.
        tokens: Vocabulary ids whose logits are wanted.

    Raises:
        ValueError: No row, a block, head or position that the runs lack, a source that is missing or of unlike shape,
            or a cut that leaves a query nothing to attend to.
        ModelError: Memory does not suffice for a single patched run.

    Example:
        `patched_logits(bridge, cm, cf, [Patch(3, Site.Z, (91,), head=5)], [she, he])` is denoising of head 3.5
        at the last position of a prompt of 92 tokens.
    """
    checked = _checked(base, source, rows)
    first = min(one.first for row in checked for one in row)
    left = _in_order(checked)
    rows_a_pass = rows_of_a_pass(base.length - first)
    logits: dict[int, Tensor] = {}
    token_blocks = halvings = 0
    while left:
        chosen = left[:rows_a_pass]
        one_pass = Pass(base, source, [checked[i] for i in chosen], first)
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
    return Sweep(torch.stack([logits[i] for i in range(len(checked))], dim=1), token_blocks, halvings)


def rows_of_a_pass(width: int) -> int:
    """How many rows of so many tokens share a pass."""
    return max(1, PACKED_TOKENS // width)


def planned_token_blocks(rows: Sequence[Sequence[Intervention]], width: int, blocks: int) -> int:
    """Tokens times blocks that `patched_logits` will compute for rows that begin `width` tokens before the end.

    Example:
        >>> planned_token_blocks([(Patch(2, Site.Z, (9,), 0),), (Patch(3, Site.Z, (9,), 0),)], width=1, blocks=4)
        5
    """
    order, step = _in_order(rows), rows_of_a_pass(width)
    chosen = ([rows[i] for i in order[begin : begin + step]] for begin in range(0, len(order), step))
    return sum(joining(some, width, blocks)[1] for some in chosen)


def _in_order(rows: Sequence[Sequence[Intervention]]) -> list[int]:
    """Rows by the block at which they begin."""
    return sorted(range(len(rows)), key=lambda i: min(one.layer for one in rows[i]))


def block_activations(
    bridge: Any, base: Recorded, layer: int, rows: Sequence[Row], sites: Sequence[Site]
) -> dict[Site, Tensor]:
    """What one block computes after interventions in it; no block above is computed.

    Args:
        bridge: A `TransformerBridge`.
        base: The run that is changed.
        layer: Block, from 0.
        rows: Interventions in this block, each with a value of its own; all rows begin where the earliest one does.
        sites: What to read; not patterns.

    Returns:
        By site [batch, rows, tokens from the rows' first position on, heads * d_head].

    Raises:
        ValueError: As `patched_logits`, and for interventions in another block.

    Example:
        After a patch of the residual stream with what was recorded, the queries are those of the recorded run.
    """
    if Site.PATTERN in sites:
        raise ValueError("patterns cannot be read of one block: record a run with Site.PATTERN")
    checked = _checked(base, None, rows)
    if elsewhere := {one.layer for row in checked for one in row} - {layer}:
        raise ValueError(f"interventions in block {min(elsewhere)}: only those in block {layer} are run")
    first = min(one.first for row in checked for one in row)
    step = rows_of_a_pass(base.length - first)
    sites = list(dict.fromkeys(sites))
    parts = [
        Pass(base, None, checked[i : i + step], first).read(bridge, layer, sites) for i in range(0, len(checked), step)
    ]
    return {site: torch.cat([part[site] for part in parts], dim=1) for site in sites}


def _checked(base: Recorded, source: Recorded | None, rows: Sequence[Row]) -> list[tuple[Intervention, ...]]:
    checked = [interventions_of(row) for row in rows]
    if not checked or not all(checked):
        raise ValueError("no patch given")
    if source is not None and (base.ids.shape != source.ids.shape or base.start != source.start):
        raise ValueError(f"base {tuple(base.ids.shape)} and source {tuple(source.ids.shape)} do not match")
    for one in (one for row in checked for one in row):
        check_place(one, base.blocks, base.heads, base.key_value_heads)
        if one.first < base.start or one.last >= base.length:
            raise ValueError(f"positions {one.first} to {one.last} lie outside {base.start} to {base.length - 1}")
        if isinstance(one, Patch) and one.value is None and source is None:
            raise ValueError(f"{one.site} of block {one.layer} has neither a value nor a source run")
    for row in checked:
        _refuse_blindness(base, [one for one in row if isinstance(one, Cut)])
    return checked


def _refuse_blindness(base: Recorded, cuts: Sequence[Cut]) -> None:
    """A query that attends to nothing has no softmax; the cuts of a row act together."""
    hidden: dict[tuple[int, int | None], Tensor] = {}
    for cut in sorted(cuts, key=lambda cut: cut.head is not None):  # those of all heads first
        if not all(0 <= key < base.length for key in cut.keys):
            raise ValueError(f"keys {min(cut.keys)} to {max(cut.keys)} lie outside a prompt of {base.length} tokens")
        whole = hidden.get((cut.layer, None))
        place = (cut.layer, cut.head)
        if place not in hidden:
            left = base.visible[cut.layer] if whole is None or cut.head is None else whole
            hidden[place] = left.clone()
        rows = torch.tensor([q - base.start for q in cut.queries])
        hidden[place][:, rows[:, None], torch.tensor(list(cut.keys))] = False
    for (layer, _), left in hidden.items():
        blind = (~left.any(dim=2)).any(dim=0).nonzero().flatten().tolist()
        if blind:
            raise ValueError(
                f"block {layer}: a query of {[base.start + q for q in blind]} would have nothing left to attend to"
            )
