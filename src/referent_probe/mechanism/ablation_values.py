"""What ablated heads put out instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from referent_probe.mechanism.cells import Cell, Scene, with_values
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.models.interventions import Patch
from referent_probe.models.load import LoadedModel
from referent_probe.models.record import record
from referent_probe.models.tokens import encode
from referent_probe.randomness import generator
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import PromptWording, choice_prompt
from referent_probe.stimuli.templates import Pair

_SETTINGS = {"unprimed": ContextSetting.C0, "null": ContextSetting.N1}


@dataclass(frozen=True)
class Pool:
    """Heads' outputs at the target slot of many prompts.

    Attributes:
        z: [contrasts, cf and cm, layers, heads * d_head].
        contrasts: Their ids.
        strata: Case and option order of each; a prompt is replaced by one of its own kind.
        occupations: Of each.
    """

    z: Tensor
    contrasts: tuple[str, ...]
    strata: tuple[tuple[str, str], ...]
    occupations: tuple[str, ...]

    def mean(self, contrast: Contrast) -> Tensor:
        """Mean over the prompts of a contrast's kind, both primes alike [layers, heads * d_head]."""
        kind = _kind(contrast)
        return self.z[[i for i, other in enumerate(self.strata) if other == kind]].mean((0, 1))

    def other(self, contrast: Contrast, seed: int) -> Tensor:
        """Of one prompt of the same kind, of another occupation where there is one [layers, heads * d_head]."""
        kind = _kind(contrast)
        own = contrast.template.occupation
        alike = [i for i, other in enumerate(self.strata) if other == kind and self.contrasts[i] != contrast.id]
        chosen = [i for i in alike if self.occupations[i] != own] or alike or [self.contrasts.index(contrast.id)]
        rng = generator(seed, "resample", contrast.id)
        return self.z[chosen[int(rng.integers(len(chosen)))], int(rng.integers(2))]


def collect_pool(
    model: LoadedModel, contrasts: Sequence[Contrast], each: Callable[[int], None] = lambda done: None
) -> Pool:
    """Run all contrasts once for their heads' outputs at the target slot.

    Args:
        model: The model.
        contrasts: Not those that were left out.
        each: Told how many are done.
    """
    kept = []
    for done, contrast in enumerate(contrasts, start=1):
        ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids], device=model.device)
        run = record(model.bridge, ids, contrast.first_difference)
        kept.append(torch.stack([z[:, -1] for z in run.z], dim=1))
        each(done)
    return Pool(
        torch.stack(kept),
        tuple(c.id for c in contrasts),
        tuple(_kind(c) for c in contrasts),
        tuple(c.template.occupation for c in contrasts),
    )


def _kind(contrast: Contrast) -> tuple[str, str]:
    return str(contrast.template.case), str(contrast.order)


def fill(
    model: LoadedModel,
    scene: Scene,
    cells: Sequence[Cell],
    pool: Pool | None,
    pairs: dict[str, Pair],
    wording: PromptWording,
    seed: int,
) -> list[Cell]:
    """Ablation cells with their values; both runs of a contrast get the same ones.

    Args:
        model: The model.
        scene: The contrast's.
        cells: Of `sweeps.ablation_cells`; others are left as they are.
        pool: For the mean and for another prompt's output; None where neither is asked for.
        pairs: By id, for the prompts without a prime.
        wording: Of the prompts.
        seed: Of the choice of another prompt.
    """
    kinds = dict.fromkeys(cell.what for cell in cells if cell.kind == "ablation")
    outputs: dict[str, Tensor] = {}
    for kind in kinds:
        if kind == "zero":
            outputs[kind] = torch.zeros_like(torch.stack([z[0, -1] for z in scene.run.z]))
        elif kind in _SETTINGS:
            outputs[kind] = _at_target_slot(model, scene.contrast, pairs, _SETTINGS[kind], wording)
        else:
            assert pool is not None
            outputs[kind] = pool.mean(scene.contrast) if kind == "mean" else pool.other(scene.contrast, seed)
    size = scene.run.z[0].shape[-1] // scene.run.heads

    def value(output: Tensor) -> Callable[[Patch], Tensor]:
        def of(patch: Patch) -> Tensor:
            assert patch.head is not None
            return output[patch.layer, patch.head * size : (patch.head + 1) * size][None, None]

        return of

    return [_filled(cell, value(outputs[cell.what])) if cell.kind == "ablation" else cell for cell in cells]


def _filled(cell: Cell, value: Callable[[Patch], Tensor]) -> Cell:
    return Cell(**{**cell.__dict__, "row": with_values(cell.row, value)})


def _at_target_slot(
    model: LoadedModel, contrast: Contrast, pairs: dict[str, Pair], setting: ContextSetting, wording: PromptWording
) -> Tensor:
    template = contrast.template
    prompt = choice_prompt(template, pairs[contrast.pair].partner(template), setting, contrast.order, wording)
    ids = torch.tensor([encode(prompt, model.tokenizer, model.quirks).ids], device=model.device)
    run = record(model.bridge, ids, ids.shape[1] - 1)
    return torch.stack([z[0, -1] for z in run.z])
