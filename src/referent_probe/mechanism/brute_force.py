"""The same interventions the plain way: one full pass, hooks, nothing reused. The oracle of every run."""

from typing import Any

import torch
from torch import Tensor

from referent_probe.models.resume import Patch, Site


def full_patched_logits(bridge: Any, base: Tensor, source: Tensor, patch: Patch) -> Tensor:
    """Last position's logits of `base` with one activation taken from `source`.

    Both prompts go through the whole model side by side, and a TransformerLens hook copies the activation over.

    Args:
        bridge: A `TransformerBridge`.
        base: Token ids [T] of the run that is patched.
        source: Token ids [T] of the run that the activation comes from.
        patch: Which activation.

    Returns:
        Logits [vocabulary].
    """
    at = list(patch.positions)

    def copy_head(z: Tensor, hook: Any) -> Tensor:
        shape = z.shape
        by_head = z.reshape(*shape[:2], int(bridge.cfg.n_heads), -1).clone()
        by_head[0, at, patch.head] = by_head[1, at, patch.head]
        whole: Tensor = by_head.reshape(shape)
        return whole

    def copy_residual(residual: Tensor, hook: Any) -> Tensor:
        changed = residual.clone()
        changed[0, at] = residual[1, at]
        return changed

    hook = {
        Site.HEAD: (f"blocks.{patch.layer}.attn.o.hook_in", copy_head),
        Site.RESIDUAL: (f"blocks.{patch.layer}.hook_in", copy_residual),
    }[patch.site]
    with bridge.hooks(fwd_hooks=[hook]):
        logits: Tensor = bridge.original_model(torch.stack([base, source])).logits[0, -1]
    return logits
