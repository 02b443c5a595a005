"""Reach into a model's own forward pass: what enters each block, and which tokens are unembedded."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


def block_index(block: Any) -> int:
    """A block's number; TransformerLens names it `blocks.3` or, by the source model, `model.layers.3`."""
    return int(str(block.name).rsplit(".", 1)[-1])


@contextmanager
def entering(
    blocks: Sequence[nn.Module],
    edit: Callable[[nn.Module, Tensor, dict[str, Any]], tuple[Tensor, dict[str, Any]]],
) -> Iterator[None]:
    """Let `edit(block, hidden, other arguments by name)` change what enters each block; undone on leaving."""
    handles = []

    def hook(block: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = list(inspect.signature(block.original_component.forward).parameters)
        named = dict(zip(names, args, strict=False)) | kwargs
        hidden, named = edit(block, named.pop(names[0]), named)
        return (hidden,), named

    try:
        for block in blocks:
            handles.append(block.register_forward_pre_hook(hook, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def unembed_only(bridge: Any, tokens: Sequence[int]) -> Iterator[None]:
    """Compute these tokens' logits alone; whatever the model does to logits afterwards (soft caps) still applies."""
    unembed = bridge.original_model.get_output_embeddings()
    linear = getattr(unembed, "original_component", unembed)
    chosen = torch.as_tensor(list(tokens), device=linear.weight.device)
    weight = linear.weight[chosen]
    bias = None if linear.bias is None else linear.bias[chosen]
    linear.__dict__["forward"] = lambda hidden: nn.functional.linear(hidden, weight, bias)
    try:
        yield
    finally:
        del linear.__dict__["forward"]
