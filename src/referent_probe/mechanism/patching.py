"""Activation patching of a contrast: every head at the target slot in both directions, and the residual stream.

Denoising patches the run with the masculine prime from the run with the feminine one (is this activation sufficient?);
noising patches the other way round (is it necessary?). Both effects have the sign of the total effect where the
activation carries it (Zhang and Nanda, arXiv 2309.16042; Heimersheim and Nanda, arXiv 2404.15255).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from referent_probe.measurement.choice import Choice, next_token_choice
from referent_probe.mechanism.attention import Attribution, attribute
from referent_probe.mechanism.brute_force import full_patched_logits
from referent_probe.mechanism.cells import CF, CM, keys, log_odds
from referent_probe.mechanism.contrast_table import contrast_table
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.mechanism.plan import Work, reached
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.load import LoadedModel
from referent_probe.models.record import Recorded, record
from referent_probe.models.resume import Sweep, patched_logits
from referent_probe.randomness import generator
from referent_probe.records import FLOW, HEADS, SELF_CHECKS
from referent_probe.stimuli.primes import Span

BEFORE_THE_PRIME = "before the first difference, so that causality leaves nothing to patch"


@dataclass(frozen=True)
class Patched:
    """Results of one contrast: tables by the schemas of `records`, and seconds and counts by name."""

    tables: dict[str, pd.DataFrame]
    measured: dict[str, float]


def patch_contrast(model: LoadedModel, work: Work) -> Patched:
    """Run everything that was planned for one contrast.

    Example:
        On a model of 30 layers and 9 heads the table "heads" has 270 rows; the effect of a head that carries the
        whole prime would equal `total_effect` in both directions.
    """
    contrast = work.contrast
    if contrast.left_out is not None:
        empty = {name: pd.DataFrame(columns=[c.name for c in schema]) for name, schema in _LATER_SCHEMAS}
        return Patched({"contrasts": contrast_table(contrast, None, 0), **empty}, {})
    began = time.perf_counter()
    ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids], device=model.device)
    run = record(model.bridge, ids, contrast.first_difference, sites=[Site.MLP_OUT])
    choices = [
        next_token_choice(run.logits[row].double().cpu().numpy(), *contrast.tokens, contrast.they) for row in (CF, CM)
    ]
    recorded = time.perf_counter()
    given = attribute(model.bridge, run, contrast.tokens)
    heads, slot = _sweep_heads(model, contrast, run, choices, given)
    swept = time.perf_counter()
    flow, halvings = pd.DataFrame(columns=[c.name for c in FLOW]), 0
    if work.flow:
        flow, halvings = _sweep_flow(model, contrast, run, choices)
    flowed = time.perf_counter()
    checks = _self_check(model, work, ids, heads, flow, choices)
    measured = {
        "seconds": time.perf_counter() - began,
        "seconds_recording": recorded - began,
        "seconds_target_slot": swept - recorded,
        "seconds_flow": flowed - swept,
        "seconds_checks": time.perf_counter() - flowed,
        "halvings": slot.halvings + halvings,
        **{f"attribution_error_{name}": error for name, error in given.largest_error().items()},
    }
    tables = {
        "contrasts": contrast_table(contrast, choices, slot.token_blocks),
        "heads": heads,
        "flow": flow,
        "self_checks": checks,
    }
    return Patched(tables, measured)


_LATER_SCHEMAS = (("heads", HEADS), ("flow", FLOW), ("self_checks", SELF_CHECKS))


def _sweep_heads(
    model: LoadedModel, contrast: Contrast, run: Recorded, choices: Sequence[Choice], given: Attribution
) -> tuple[pd.DataFrame, Sweep]:
    slot, prime = (contrast.length - 1,), contrast.first_difference
    cells = [(layer, head) for layer in range(model.n_layers) for head in range(model.n_heads)]
    patches = [Patch(layer, Site.Z, slot, head) for layer, head in cells]
    # Both directions in one pass: each prompt is patched from the other.
    swept = patched_logits(model.bridge, run, run.take([CM, CF]), patches, contrast.tokens)
    odds = log_odds(swept.logits)
    table = pd.DataFrame(cells, columns=["layer", "head"])
    for i, (name, value) in enumerate(keys(contrast).items()):
        table.insert(i, name, value)
    table["denoise"] = odds[CM] - choices[CM].log_odds
    table["noise"] = choices[CF].log_odds - odds[CF]
    for name, values in (
        ("attention_to_prime", given.attention[..., prime]),
        ("direct_logit_attribution", given.direct),
        ("prime_attribution", None if given.from_source is None else given.from_source[..., prime]),
    ):
        for row, setting in ((CF, "cf"), (CM, "cm")):
            table[f"{name}_{setting}"] = np.nan if values is None else values[row].flatten().cpu().numpy()
    return table, swept


def _sweep_flow(
    model: LoadedModel, contrast: Contrast, run: Recorded, choices: Sequence[Choice]
) -> tuple[pd.DataFrame, int]:
    base, source = run.take([CM]), run.take([CF])
    tables, halvings = [], 0
    for span in dict.fromkeys(contrast.feminine.spans):
        positions, later = contrast.feminine.positions(span), reached(contrast, span)
        table = pd.DataFrame({"layer": range(model.n_layers), "span": str(span)})
        table["span_position"], table["span_tokens"] = positions[0], len(positions)
        if later:
            patches = [Patch(layer, Site.RESIDUAL, later) for layer in range(model.n_layers)]
            swept = patched_logits(model.bridge, base, source, patches, contrast.tokens)
            halvings += swept.halvings
            table["effect"], table["reason"] = log_odds(swept.logits)[0] - choices[CM].log_odds, None
        else:
            table["effect"], table["reason"] = 0.0, BEFORE_THE_PRIME
        tables.append(table)
    flow = pd.concat(tables, ignore_index=True)
    for i, (name, value) in enumerate(keys(contrast).items()):
        flow.insert(i, name, value)
    return flow, halvings


def _self_check(
    model: LoadedModel, work: Work, ids: Tensor, heads: pd.DataFrame, flow: pd.DataFrame, choices: Sequence[Choice]
) -> pd.DataFrame:
    contrast, slot = work.contrast, (work.contrast.length - 1,)
    rows: list[dict[str, object]] = []

    def add(sweep: str, patch: Patch, span: str, fast: float) -> None:
        base, source = (CF, CM) if sweep == "noise" else (CM, CF)
        logits = full_patched_logits(model.bridge, ids[base], ids[source], patch)
        moved = float(log_odds(logits[list(contrast.tokens)])) - choices[base].log_odds
        slow = -moved if sweep == "noise" else moved
        head = -1 if patch.head is None else patch.head
        rows.append(
            {"contrast": contrast.id, "sweep": sweep, "layer": patch.layer, "head": head, "span": span}
            | {"fast": fast, "brute_force": slow, "abs_diff": abs(fast - slow)}
        )

    for layer, head in work.head_checks:
        cell = heads[(heads["layer"] == layer) & (heads["head"] == head)].iloc[0]
        for sweep in ("denoise", "noise"):
            add(sweep, Patch(layer, Site.Z, slot, head), str(Span.TARGET_SLOT), float(cell[sweep]))
    computed = flow[flow["reason"].isna()] if len(flow) else flow
    if len(computed) and work.flow_checks:
        rng = generator(work.seed, "flow cells", contrast.id)
        for i in rng.choice(len(computed), size=min(work.flow_checks, len(computed)), replace=False):
            cell = computed.iloc[int(i)]
            positions = contrast.feminine.positions(Span(cell["span"]))
            patch = Patch(int(cell["layer"]), Site.RESIDUAL, positions)
            add("flow", patch, str(cell["span"]), float(cell["effect"]))
    return pd.DataFrame(rows, columns=[c.name for c in SELF_CHECKS])
