"""Cells: interventions with their names, run on a contrast, and checked against brute force."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from referent_probe.measurement.choice import Choice, next_token_choice
from referent_probe.mechanism.brute_force import full_patched_logits
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.models.interventions import Intervention, Patch, Row, Site, interventions_of
from referent_probe.models.load import LoadedModel
from referent_probe.models.record import Recorded, record
from referent_probe.models.resume import patched_logits, planned_token_blocks
from referent_probe.randomness import generator
from referent_probe.records import INTERVENTIONS, SELF_CHECKS

CF, CM = 0, 1
"""Rows of the batch: the prompts with the feminine and with the masculine prime."""


@dataclass(frozen=True)
class Cell:
    """An intervention and what it is called in tables.

    Attributes:
        kind: "patch", "knockout", "ablation" or "circuit".
        what: The site that is patched, the kind of knockout or ablation.
        layer: First block.
        last_layer: Last block.
        head: Head; -1 for whole blocks or several heads.
        where: The place: a span, a position, "all".
        label: What sets it apart from other cells of the same place: what is cut, which heads.
        row: What is done; () where nothing is computed.
        reason: Why nothing is computed; None where it is.
    """

    kind: str
    what: str
    layer: int
    last_layer: int
    head: int
    where: str
    label: str
    row: tuple[Intervention, ...]
    reason: str | None = None


@dataclass(frozen=True)
class Scene:
    """A contrast's two prompts, run once.

    Attributes:
        contrast: The contrast.
        run: Both prompts, `CF` and `CM`, recorded.
        choices: What each of them answers.
    """

    contrast: Contrast
    run: Recorded
    choices: tuple[Choice, Choice]


def set_scene(model: LoadedModel, contrast: Contrast, sites: Sequence[Site]) -> Scene:
    """Run both prompts of a contrast and keep what patched runs need.

    Args:
        model: The model.
        contrast: Not one that was left out.
        sites: What to keep beside the residual stream and the heads' outputs.
    """
    ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids], device=model.device)
    run = record(model.bridge, ids, contrast.first_difference, sites=sites)
    feminine, masculine = (
        next_token_choice(run.logits[row].double().cpu().numpy(), *contrast.tokens, contrast.they) for row in (CF, CM)
    )
    return Scene(contrast, run, (feminine, masculine))


def sites_of(cells: Sequence[Cell]) -> list[Site]:
    """What must be recorded for cells that take activations from the other run."""
    patches = (one for cell in cells for one in cell.row if isinstance(one, Patch))
    return list(dict.fromkeys(one.site for one in patches))


def planned_blocks(cells: Sequence[Cell], length: int, blocks: int) -> int:
    """Tokens times blocks that `run_cells` will compute for one direction, over a prompt of `length` tokens."""
    return sum(
        planned_token_blocks([row for _, row in rows], length - first, blocks)
        for first, rows in _by_first([cell.row for cell in cells if cell.reason is None]).items()
    )


def run_cells(
    model: LoadedModel, scene: Scene, cells: Sequence[Cell], direction: str = "both"
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Run every cell in both runs of a contrast.

    Args:
        model: The model.
        scene: From `set_scene`.
        cells: Their activations come from the other run of the contrast, or are given.
        direction: "denoise" changes the cm run alone, "noise" the cf run, "both" both in one pass.

    Returns:
        Table "interventions", and what was measured: `token_blocks` (one direction), `halvings`, `seconds_cells`.
    """
    began = time.perf_counter()
    members = {"both": [CF, CM], "noise": [CF], "denoise": [CM]}[direction]
    base, source = scene.run.take(members), scene.run.take([1 - m for m in members])
    computed = [i for i, cell in enumerate(cells) if cell.reason is None]
    odds = np.full((len(cells), 2), np.nan)
    for i, cell in enumerate(cells):
        if cell.reason is not None:  # it cannot matter: what the run says anyway
            odds[i, members] = [scene.choices[m].log_odds for m in members]
    blocks = halvings = 0
    for rows in _by_first([cells[i].row for i in computed]).values():
        given = [tuple(_of_members(one, members) for one in row) for _, row in rows]
        swept = patched_logits(model.bridge, base, source, given, scene.contrast.tokens)
        odds[np.ix_([computed[i] for i, _ in rows], members)] = log_odds(swept.logits).T
        blocks, halvings = blocks + swept.token_blocks, halvings + swept.halvings
    table = pd.DataFrame(
        [(c.kind, c.what, c.layer, c.last_layer, c.head, c.where, c.label, c.reason) for c in cells],
        columns=["kind", "what", "layer", "last_layer", "head", "where", "label", "reason"],
    )
    table["log_odds_cf"], table["log_odds_cm"] = odds[:, CF], odds[:, CM]
    for i, (name, value) in enumerate(keys(scene.contrast).items()):
        table.insert(i, name, value)
    measured = {"token_blocks": blocks, "halvings": halvings, "seconds_cells": time.perf_counter() - began}
    return table[[column.name for column in INTERVENTIONS]], measured


def check_cells(
    model: LoadedModel, scene: Scene, cells: Sequence[Cell], table: pd.DataFrame, checks: int, seed: int
) -> pd.DataFrame:
    """Compare random cells with full passes, in every direction that was computed: table "self_checks"."""
    contrast, run = scene.contrast, scene.run
    computed = [i for i, cell in enumerate(cells) if cell.reason is None]
    rng = generator(seed, "cells", contrast.id)
    rows = []
    for i in rng.choice(computed, size=min(checks, len(computed)), replace=False) if computed else ():
        cell = cells[int(i)]
        for base, setting in ((CF, "cf"), (CM, "cm")):
            fast = float(table[f"log_odds_{setting}"].iloc[int(i)])
            if fast != fast:
                continue
            row = tuple(_of_members(one, [base]) for one in cell.row)
            logits = full_patched_logits(model.bridge, run.ids[base], run.ids[1 - base], row)
            slow = float(log_odds(logits[list(contrast.tokens)]))
            rows.append(
                {"contrast": contrast.id, "sweep": f"{cell.kind} {cell.what} {setting}", "layer": cell.layer}
                | {"head": cell.head, "span": cell.where, "fast": fast, "brute_force": slow}
                | {"abs_diff": abs(fast - slow)}
            )
    return pd.DataFrame(rows, columns=[c.name for c in SELF_CHECKS])


def keys(contrast: Contrast) -> dict[str, str]:
    """The columns that name a contrast in every table."""
    return {"contrast": contrast.id, "pair": contrast.pair, "occupation": contrast.template.occupation}


def log_odds(logits: Tensor) -> NDArray[np.float64]:
    """Feminine minus masculine logit, from logits whose last axis holds the two."""
    values: NDArray[np.float64] = logits.double().cpu().numpy()
    difference: NDArray[np.float64] = values[..., 0] - values[..., 1]
    return difference


def with_values(row: Row, value: Callable[[Patch], Tensor]) -> tuple[Intervention, ...]:
    """A row whose patches become given values instead of the other run's."""
    return tuple(replace(one, value=value(one)) if isinstance(one, Patch) else one for one in interventions_of(row))


def _of_members(one: Intervention, members: Sequence[int]) -> Intervention:
    """The part of a value that belongs to some members of the batch."""
    if isinstance(one, Patch) and one.value is not None and one.value.ndim > 1 and len(one.value) > 1:
        return replace(one, value=one.value[list(members)])
    return one


def _by_first(rows: Sequence[Sequence[Intervention]]) -> dict[int, list[tuple[int, Sequence[Intervention]]]]:
    """Rows with their numbers, by the first position that they touch."""
    groups: dict[int, list[tuple[int, Sequence[Intervention]]]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(min(one.first for one in row), []).append((i, row))
    return groups
