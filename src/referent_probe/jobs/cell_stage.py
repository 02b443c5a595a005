"""A stage that runs cells of every contrast, checks some, and attributes the logit difference where asked."""

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from referent_probe.jobs.job import Context, Stage, Tables

if TYPE_CHECKING:
    from referent_probe.mechanism.attention import Attribution
    from referent_probe.mechanism.cells import Cell, Scene
    from referent_probe.mechanism.contrasts import Contrast

CHECKS = 8
"""Cells of a stage that are compared with brute force, at least; one a contrast where there are more contrasts."""


def cell_stage(
    context: Context,
    name: str,
    cells_of: "Callable[[Contrast], Sequence[Cell]]",
    *,
    direction: str = "both",
    first: bool = True,
    fill: "Callable[[Scene, Sequence[Cell]], Sequence[Cell]] | None" = None,
    attribution: bool = False,
    extra_passes: float = 0.0,
) -> Stage:
    """A stage of cells.

    Args:
        context: What the job works on.
        name: Of the stage.
        cells_of: The cells of a contrast.
        direction: "both", "denoise" or "noise".
        first: Whether it writes the table "contrasts", which one stage of a job does.
        fill: Gives cells their values.
        attribution: Whether attention and attribution by span are written.
        extra_passes: Forward passes that `fill` takes.
    """
    from referent_probe.mechanism.attention import attribute
    from referent_probe.mechanism.cells import check_cells, run_cells, set_scene, sites_of
    from referent_probe.mechanism.contrast_table import contrast_table
    from referent_probe.models.interventions import Site

    model, seed = context.model, context.settings.seed
    checks = math.ceil(CHECKS / len(context.contrasts))

    def equivalents(contrast: "Contrast", token_blocks: float, n_checks: int) -> float:
        directions = 2 if direction == "both" else 1
        patched = directions * token_blocks / (contrast.length * model.n_layers)
        # Both prompts once, and for each check two prompts in each direction.
        return 2 + patched + 2 * directions * n_checks + extra_passes

    def cost(contrast: "Contrast") -> float:
        return equivalents(contrast, planned(contrast), checks)

    def planned(contrast: "Contrast") -> float:
        from referent_probe.mechanism.cells import planned_blocks

        return planned_blocks(cells_of(contrast), contrast.length, model.n_layers)

    def run(contrast: "Contrast") -> tuple[Tables, dict[str, float]]:
        began = time.perf_counter()
        cells = cells_of(contrast)
        scene = set_scene(model, contrast, [*sites_of(cells), *([Site.MLP_OUT] if attribution else [])])
        cells = fill(scene, cells) if fill else cells
        table, measured = run_cells(model, scene, cells, direction)
        checked = check_cells(model, scene, cells, table, checks, seed)
        tables = {"interventions": table, "self_checks": checked}
        if first:
            tables["contrasts"] = contrast_table(contrast, scene.choices, int(measured["token_blocks"]))
        if attribution:
            given = attribute(model.bridge, scene.run, contrast.tokens)
            measured |= {f"attribution_error_{part}": error for part, error in given.largest_error().items()}
            tables |= attribution_tables(contrast, given)
        measured["forward_equivalents"] = equivalents(contrast, measured["token_blocks"], checks)
        return tables, measured | {"seconds": time.perf_counter() - began}

    return Stage(name, cost, run)


def attribution_tables(contrast: "Contrast", given: "Attribution") -> Tables:
    """Tables "attributions" and "parts" of a contrast."""
    from referent_probe.mechanism.attention import by_span
    from referent_probe.mechanism.cells import CF, CM, keys

    spans = list(dict.fromkeys(contrast.feminine.spans))
    where = [contrast.feminine.positions(span) for span in spans]
    _, layers, heads, _ = given.attention.shape
    index = pd.MultiIndex.from_product([range(layers), range(heads), map(str, spans)], names=["layer", "head", "span"])
    table = pd.DataFrame(index=index).reset_index()
    for column, values in (("attention", given.attention), ("attribution", given.from_source)):
        for row, setting in ((CF, "cf"), (CM, "cm")):
            found = np.nan if values is None else by_span(values[row], where).flatten().cpu().numpy()
            table[f"{column}_{setting}"] = found
    table["attention_c0"] = np.nan
    parts = given.parts()
    rows = {name: part.cpu().tolist() for name, part in parts.items()}
    if parts:
        rows["all"] = np.sum(list(rows.values()), axis=0).tolist()
    rows["logit_difference"] = given.logit_difference.cpu().tolist()
    summed = pd.DataFrame(
        [{"part": name, "value_cf": value[CF], "value_cm": value[CM]} for name, value in rows.items()]
    )
    for i, (name, value) in enumerate(keys(contrast).items()):
        table.insert(i, name, value)
        summed.insert(i, name, value)
    return {"attributions": table, "parts": summed}
