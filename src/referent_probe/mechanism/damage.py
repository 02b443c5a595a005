"""What an ablation breaks besides: loss on neutral texts, and choices without a prime."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from referent_probe.mechanism.sweeps import Head
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.load import LoadedModel
from referent_probe.models.record import record
from referent_probe.models.resume import patched_logits

KINDS = ("zero", "mean")


def neutral_losses(model: LoadedModel, texts: Sequence[str], heads: Sequence[Head]) -> dict[str, list[float]] | None:
    """Mean loss of every text, whole and with heads ablated at all positions.

    Args:
        model: The model.
        texts: Of several tokens each.
        heads: Ablated together.

    Returns:
        Nats a token, a text: "none", and by kind: "zero", and "mean", the head's mean over all tokens of all texts.
        None where the vocabulary lacks the words.

    Example:
        Of no heads, all three are the same.
    """
    tokenizer = model.tokenizer
    rows = [torch.tensor([tokenizer(text)["input_ids"]], device=model.device) for text in texts]
    unknown = tokenizer.unk_token_id
    if any(len(ids[0]) < 3 or (unknown is not None and int((ids == unknown).sum())) for ids in rows):
        return None
    layers = sorted({layer for layer, _ in heads})
    kept: dict[int, list[Tensor]] = {layer: [] for layer in layers}

    def keep(layer: int) -> Callable[..., None]:
        return lambda z, hook: kept[layer].append(z.flatten(2)[0])

    name = "blocks.{}.attn.o.hook_in"
    with model.bridge.hooks(fwd_hooks=[(name.format(layer), keep(layer)) for layer in layers]):
        losses = {"none": [_loss(model, ids) for ids in rows]}
    means = {layer: torch.cat(parts).mean(0) for layer, parts in kept.items()}
    for kind in KINDS:
        hooks = [(name.format(layer), _replace(model, layer, heads, means[layer], kind)) for layer in layers]
        with model.bridge.hooks(fwd_hooks=hooks):
            losses[kind] = [_loss(model, ids) for ids in rows]
    return losses


def _replace(model: LoadedModel, layer: int, heads: Sequence[Head], mean: Tensor, kind: str) -> Callable[..., Tensor]:
    chosen = [head for of, head in heads if of == layer]

    def hook(z: Tensor, hook: Any) -> Tensor:
        changed = z.flatten(2).clone()
        size = changed.shape[-1] // model.n_heads
        for head in chosen:
            part = slice(head * size, (head + 1) * size)
            changed[..., part] = mean[part] if kind == "mean" else 0.0
        return changed.view(z.shape)

    return hook


def _loss(model: LoadedModel, ids: Tensor) -> float:
    logits = model.bridge.original_model(ids).logits[0, :-1].double()
    return float(torch.nn.functional.cross_entropy(logits, ids[0, 1:]))


def unprimed_choice(
    model: LoadedModel, ids: Sequence[int], tokens: tuple[int, int], heads: Sequence[Head], means: Tensor
) -> tuple[float, float, float]:
    """Log-odds without a prime: whole, with heads at the target slot at 0, and at their mean.

    Args:
        model: The model.
        ids: The prompt.
        tokens: Of the feminine and the masculine option.
        heads: Ablated together.
        means: Of every block's heads [layers, heads * d_head].
    """
    run = record(model.bridge, torch.tensor([list(ids)], device=model.device), len(ids) - 1)
    slot, size = (len(ids) - 1,), run.z[0].shape[-1] // run.heads
    rows = [
        [
            Patch(layer, Site.Z, slot, head, value=means[layer, head * size : (head + 1) * size] * factor)
            for layer, head in heads
        ]
        for factor in (0.0, 1.0)
    ]
    swept = patched_logits(model.bridge, run, None, rows, tokens).logits[0].double()
    before = run.logits[0].double()
    zero, mean = (float(row[0] - row[1]) for row in swept)
    return float(before[tokens[0]] - before[tokens[1]]), zero, mean
