"""Exact patching of heads at the target slot beside its gradient approximation, on the same items.

Gradient attribution patching (TransformerLens' `attribution_patch`) takes two forward passes and one backward pass for
all heads at all positions; at the target slot alone, exact patching costs about as much. What the approximation gets
wrong is said by rank correlation, by heads of which it mistakes the sign, and by false negatives.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import spearmanr

from referent_probe.mechanism.contrasts import Contrast
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.load import LoadedModel
from referent_probe.models.record import record
from referent_probe.models.resume import patched_logits

LEADING = 10


@dataclass(frozen=True)
class Gradients:
    """What gradients cost and miss, beside exact patching at the target slot.

    Attributes:
        items: Contrasts.
        exact_seconds: A contrast, unpatched pass included.
        gradient_seconds: A contrast, both forward passes included.
        times_cheaper: Exact beside gradients; above 1 the exact sweep is cheaper.
        rank_correlation: Spearman, over heads, mean over contrasts.
        missed: Share of the ten leading heads that are not among the gradients' ten, mean over contrasts.
        wrong_sign: Share of the ten leading heads of which the sign is wrong.
    """

    items: int
    exact_seconds: float
    gradient_seconds: float
    times_cheaper: float
    rank_correlation: float
    missed: float
    wrong_sign: float


def beside_gradients(model: LoadedModel, contrasts: Sequence[Contrast]) -> Gradients:
    """Run both on the same contrasts, denoising."""
    exact_seconds, gradient_seconds, rows = [], [], []
    for contrast in contrasts:
        began = time.perf_counter()
        exact = _exact(model, contrast)
        exact_seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
        gradient = _by_gradients(model, contrast)
        gradient_seconds.append(time.perf_counter() - began)
        rows.append(_agreement(exact, gradient))
    correlation, missed, wrong = np.mean(rows, axis=0)
    exact_median, gradient_median = float(np.median(exact_seconds)), float(np.median(gradient_seconds))
    return Gradients(
        items=len(contrasts),
        exact_seconds=exact_median,
        gradient_seconds=gradient_median,
        times_cheaper=gradient_median / exact_median,
        rank_correlation=float(correlation),
        missed=float(missed),
        wrong_sign=float(wrong),
    )


def _exact(model: LoadedModel, contrast: Contrast) -> np.ndarray:
    """Effect of every head at the target slot, denoising, layer by layer."""
    ids = torch.tensor([contrast.masculine.ids, contrast.feminine.ids], device=model.device)
    run = record(model.bridge, ids, contrast.first_difference)
    slot, (she, he) = (contrast.length - 1,), contrast.tokens
    patches = [Patch(layer, Site.Z, slot, head) for layer in range(model.n_layers) for head in range(model.n_heads)]
    swept = patched_logits(model.bridge, run.take([0]), run.take([1]), patches, contrast.tokens).logits[0].double()
    before = float(run.logits[0, she] - run.logits[0, he])
    return (swept[:, 0] - swept[:, 1]).cpu().numpy() - before


def _by_gradients(model: LoadedModel, contrast: Contrast) -> np.ndarray:
    """The same, to first order."""
    from transformer_lens.tools.analysis.attribution_patching import attribution_patch

    she, he = contrast.tokens
    masculine, feminine = (
        torch.tensor([prompt.ids], device=model.device) for prompt in (contrast.masculine, contrast.feminine)
    )
    model.bridge.requires_grad_(True)
    try:
        found = attribution_patch(
            model.bridge, feminine, masculine, lambda logits: (logits[..., -1, she] - logits[..., -1, he]).sum()
        )
    finally:
        model.bridge.requires_grad_(False)
    effects = np.zeros((model.n_layers, model.n_heads))
    for node, score in found.node_scores.items():
        if node.kind == "attn_head_out" and node.position == contrast.length - 1:
            effects[node.layer, node.head] = score
    return effects.ravel()


def _agreement(exact: np.ndarray, gradient: np.ndarray) -> tuple[float, float, float]:
    leading = np.argsort(-np.abs(exact))[:LEADING]
    kept = set(np.argsort(-np.abs(gradient))[:LEADING].tolist())
    missed = np.mean([head not in kept for head in leading.tolist()])
    wrong = np.mean(np.sign(exact[leading]) != np.sign(gradient[leading]))
    return float(spearmanr(exact, gradient).statistic), float(missed), float(wrong)
