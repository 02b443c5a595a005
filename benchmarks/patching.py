"""How much faster than TransformerLens' own patching, on the same cells of one frozen prompt?

    python benchmarks/patching.py [--model NAME] [--cells 10]

Three sweeps, denoising: every head at the target slot; every head over all positions from the first difference; the
residual stream by layer and position. TransformerLens' `generic_activation_patch` runs a random subset of the same
cells, one full pass each, and its time is extrapolated to all of them. Both sides' unpatched passes are left out of
times and counts. Times are of one process; the ratios are what they are for. The last line of the output is the same
as JSON.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from gradients import beside_gradients
from rich.console import Console
from rich.table import Table

from referent_probe import cli, cli_options
from referent_probe.mechanism.contrasts import Contrast, build_contrasts
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.load import LoadedModel, load_model
from referent_probe.models.record import Recorded, record
from referent_probe.models.resume import patched_logits
from referent_probe.provenance import versions
from referent_probe.randomness import generator
from referent_probe.stimuli.options import Case
from referent_probe.stimuli.templates import Pair, Piece, Role, Template, draw_pairs, load_stimuli

OPENING = (Piece("The ", "text"), Piece("librarian", "occupation"), Piece(" greeted the ", "text"),
           Piece("electrician", "participant"), Piece(" at the back door after the alarm had woken ", "text"),
           Piece("BLANK", "blank"))  # fmt: skip
ENDINGS = (
    " in the reading room among new books.",
    " in the van among fuses and wires.",
)


@dataclass(frozen=True)
class Result:
    """One sweep: counts, times in seconds, and ratios to TransformerLens (above 1: faster or cheaper)."""

    sweep: str
    cells: int
    seconds: float
    transformer_lens_seconds: float
    transformer_lens_cells_run: int
    times_faster: float
    forward_equivalents: float
    times_fewer_token_blocks: float
    token_blocks_over_floor: float
    max_abs_diff: float


def frozen_contrast(model: LoadedModel) -> Contrast:
    """The prompt of the benchmark, which does not change with the built-in sentences."""
    members = tuple(
        Template(f"b{i}", "b", i, Case.ACCUSATIVE, "librarian", "electrician", role, (*OPENING, Piece(ending, "text")))
        for i, (role, ending) in enumerate(zip(Role, ENDINGS, strict=True))
    )
    return build_contrasts([Pair("b", (members[0], members[1]))], model.tokenizer, quirks=model.quirks)[0]


def sweeps(model: LoadedModel, contrast: Contrast) -> dict[str, list[Patch]]:
    """The cells of each sweep."""
    layers, heads = range(model.n_layers), range(model.n_heads)
    reached = tuple(range(contrast.first_difference, contrast.length))
    return {
        "heads, target slot": [Patch(i, Site.Z, (contrast.length - 1,), h) for i in layers for h in heads],
        "heads, all positions": [Patch(i, Site.Z, reached, h) for i in layers for h in heads],
        "residual, layer x position": [Patch(i, Site.RESIDUAL, (p,)) for p in reached for i in layers],
    }


def run_ours(
    model: LoadedModel, contrast: Contrast, patches: Sequence[Patch], base: Recorded, source: Recorded
) -> tuple[torch.Tensor, int]:
    """Log-odds of each patched run, and the token-blocks."""
    values, token_blocks = torch.empty(len(patches), dtype=torch.float64), 0
    for first in sorted({patch.positions[0] for patch in patches}):
        chosen = [i for i, patch in enumerate(patches) if patch.positions[0] == first]
        swept = patched_logits(model.bridge, base, source, [patches[i] for i in chosen], contrast.tokens)
        values[chosen] = (swept.logits[0, :, 0] - swept.logits[0, :, 1]).double().cpu()
        token_blocks += swept.token_blocks
    return values, token_blocks


def run_theirs(
    model: LoadedModel, contrast: Contrast, patches: Sequence[Patch], cache: Any
) -> tuple[torch.Tensor, list[float]]:
    """The same by `generic_activation_patch`, with the seconds of each cell."""
    from transformer_lens.patching import generic_activation_patch

    ids = torch.tensor([contrast.masculine.ids], device=model.device)
    feminine, masculine = contrast.tokens
    values, seconds = [], []
    for patch in patches:
        began = time.perf_counter()
        value = generic_activation_patch(
            model.bridge,
            ids,
            cache,
            lambda logits: logits[0, -1, feminine] - logits[0, -1, masculine],
            _setter(patch),
            "z" if patch.site is Site.Z else "resid_pre",
            index_df=pd.DataFrame({"layer": [patch.layer]}),
        )
        seconds.append(time.perf_counter() - began)
        values.append(value.double().cpu().flatten())
    return torch.cat(values), seconds


def _setter(patch: Patch) -> Callable[..., torch.Tensor]:
    at = list(patch.positions)

    def setter(activation: torch.Tensor, index: Any, clean: torch.Tensor) -> torch.Tensor:
        if patch.site is Site.Z:
            activation[:, at, patch.head] = clean[:, at, patch.head]
        else:
            activation[:, at] = clean[:, at]
        return activation

    return setter


def floor(model: LoadedModel, contrast: Contrast, patches: Sequence[Patch]) -> int:
    """Token-blocks that these patches can change: blocks above a head's, or from a residual's on, later positions."""
    blocks = [model.n_layers - patch.layer - (patch.site is Site.Z) for patch in patches]
    return sum(n * (contrast.length - patch.positions[0]) for n, patch in zip(blocks, patches, strict=True))


def measure(model: LoadedModel, contrast: Contrast, name: str, patches: list[Patch], cells: int, seed: int) -> Result:
    """Time one sweep, and TransformerLens on a random subset of its cells."""
    chosen = generator(seed, name).choice(len(patches), size=min(cells, len(patches)), replace=False).tolist()
    _, cache = model.bridge.run_with_cache(torch.tensor([contrast.feminine.ids], device=model.device))
    some = [patches[i] for i in chosen]
    # Half of theirs before ours and half after: what else the machine does falls on both.
    half = len(some) // 2
    values, seconds = run_theirs(model, contrast, some[:half], cache)
    ids = torch.tensor([contrast.masculine.ids, contrast.feminine.ids], device=model.device)
    run = record(model.bridge, ids, contrast.first_difference)
    base, source = run.take([0]), run.take([1])
    times: list[float] = []
    while len(times) < 5 and sum(times) < 10:
        began = time.perf_counter()
        ours, token_blocks = run_ours(model, contrast, patches, base, source)
        times.append(time.perf_counter() - began)
    more_values, more_seconds = run_theirs(model, contrast, some[half:], cache)
    theirs = statistics.median(seconds + more_seconds) * len(patches)
    full = model.n_layers * contrast.length
    return Result(
        sweep=name,
        cells=len(patches),
        seconds=statistics.median(times),
        transformer_lens_seconds=theirs,
        transformer_lens_cells_run=len(some),
        times_faster=theirs / statistics.median(times),
        forward_equivalents=token_blocks / full,
        times_fewer_token_blocks=len(patches) * full / token_blocks,
        token_blocks_over_floor=token_blocks / floor(model, contrast, patches),
        max_abs_diff=float((ours[chosen] - torch.cat([values, more_values])).abs().max()),
    )


def main(
    model: cli_options.ModelOption = cli_options.DEFAULT_MODEL,
    cells: Annotated[int, typer.Option("--cells", min=2, help="Cells that TransformerLens runs, a sweep.")] = 10,
    items: Annotated[int, typer.Option("--items", min=1, help="Pairs on which gradients are compared.")] = 2,
    seed: cli_options.SeedOption = 0,
    device: cli_options.DeviceOption = "auto",
) -> None:
    """Compare patched sweeps with TransformerLens' generic_activation_patch on the same cells."""
    loaded = load_model(model, device=device)
    contrast = frozen_contrast(loaded)
    results = [
        measure(loaded, contrast, name, patches, cells, seed) for name, patches in sweeps(loaded, contrast).items()
    ]
    table = Table(
        box=None, title=f"{model}: T = {contrast.length} tokens, first difference at {contrast.first_difference}"
    )
    for name in ("sweep", "cells", "s", "theirs s", "faster", "fwd-eq.", "/ floor", "diff"):
        table.add_column(name, justify="left" if name == "sweep" else "right")
    for r in results:
        table.add_row(
            r.sweep, str(r.cells), f"{r.seconds:.2f}", f"{r.transformer_lens_seconds:.0f}", f"{r.times_faster:.1f}",
            f"{r.forward_equivalents:.2f}", f"{r.token_blocks_over_floor:.2f}", f"{r.max_abs_diff:.0e}",
        )  # fmt: skip
    Console().print(table)
    pairs = draw_pairs(load_stimuli(), items, seed)
    given = [c for c in build_contrasts(pairs, loaded.tokenizer, quirks=loaded.quirks) if c.order == "mf"]
    gradients = beside_gradients(loaded, [c for c in given if c.left_out is None])
    Console().print(
        f"Beside gradient attribution patching, {gradients.items} contrasts at the target slot: exact takes "
        f"{gradients.exact_seconds:.2f} s, gradients {gradients.gradient_seconds:.2f} s "
        f"({gradients.times_cheaper:.1f} times); Spearman {gradients.rank_correlation:.2f}; of the ten leading heads "
        f"{gradients.missed:.0%} are missed and {gradients.wrong_sign:.0%} have the wrong sign"
    )
    about = {"model": model, "tokens": contrast.length, "first_difference": contrast.first_difference}
    about |= {"threads": torch.get_num_threads(), "device": loaded.device, "versions": versions()}
    print(json.dumps(about | {"sweeps": [asdict(r) for r in results], "gradients": asdict(gradients)}))


if __name__ == "__main__":
    cli.run_command(main)
