"""Attention attribution at the target slot: what each head writes into the logit difference, and from where.

A head's output z passes the output projection, the residual stream, the final norm and the unembedding. With the
norm's scale held at its value in the run, that path is linear, so that contributions add up (Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits"; the norm is frozen as in Wang et al., arXiv 2211.00593).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from referent_probe.models.record import Recorded


@dataclass(frozen=True)
class Attribution:
    """Attention and attribution at the target slot, for each member of the batch.

    Attributes:
        attention: Share of each head's attention that one source position receives [batch, layers, heads], 0 to 1.
        direct: Direct logit attribution of each head [batch, layers, heads], logits; None where the model's norms
            are not linear in this way (`reason` says which).
        from_source: The part of `direct` that comes from the source position, same shape; None where a head's output
            is not its attention times values (gated attention).
        reason: Why there is no attribution; None where there is.
    """

    attention: Tensor
    direct: Tensor | None
    from_source: Tensor | None
    reason: str | None


def attribute(bridge: Any, run: Recorded, source: int, tokens: tuple[int, int]) -> Attribution:
    """Direct logit attribution of every head, in all and through its edge to one source position.

    Args:
        bridge: A `TransformerBridge`.
        run: A recorded pass.
        source: Position of the source token, e.g. the priming pronoun.
        tokens: Vocabulary ids; the attribution is to the first one's logit minus the second one's. A soft cap on
            the logits (Gemma 2) comes after it and is left out.

    Example:
        A head that attends to the source alone has `attention` 1 and `from_source` equal to `direct`.
    """
    attention = torch.stack([pattern[:, :, source] for pattern in run.pattern], dim=1).double()
    direction, reason = _final_direction(bridge, run, tokens)
    if direction is None:
        return Attribution(attention, None, None, reason)
    direct, from_source, gated = [], [], False
    for layer, block in enumerate(bridge.blocks):
        heads = run.pattern[layer].shape[1]
        last = run.z[layer][:, -1].reshape(len(run.ids), heads, -1)
        group = heads // run.values[layer].shape[1]
        values = run.values[layer].repeat_interleave(group, dim=1)
        edges = run.pattern[layer][..., None] * values
        edge = edges[:, :, source]
        gated = gated or not torch.allclose(edges.sum(2), last, rtol=1e-3, atol=1e-3 * float(last.abs().max()))
        towards: Tensor | None = direction
        if hasattr(block, "ln1_post"):
            attention_output = block.attn.o(run.z[layer][:, -1:])[:, 0]
            towards = _through_norm(block.ln1_post, attention_output, direction)
        if towards is None:
            return Attribution(attention, None, None, "the norm after attention is neither RMSNorm nor LayerNorm")
        direct.append(_project(block.attn.o, last, towards))
        from_source.append(_project(block.attn.o, edge, towards))
    if gated:
        return Attribution(attention, torch.stack(direct, dim=1), None, "a gate stands between attention and output")
    return Attribution(attention, torch.stack(direct, dim=1), torch.stack(from_source, dim=1), None)


def _project(output_projection: Any, z: Tensor, direction: Tensor) -> Tensor:
    """Each head's z [batch, heads, d_head] through the output projection, along a direction [batch, d_model]."""
    batch, heads, size = z.shape
    alone = torch.zeros(batch, heads + 1, heads, size, dtype=z.dtype, device=z.device)
    alone[:, torch.arange(heads), torch.arange(heads)] = z
    written = output_projection(alone.flatten(2)).double()
    # The last row holds no head: what it writes is the bias, which is nobody's.
    return torch.einsum("bhd,bd->bh", written[:, :-1] - written[:, -1:], direction)


def _final_direction(bridge: Any, run: Recorded, tokens: tuple[int, int]) -> tuple[Tensor | None, str | None]:
    """Gradient of the logit difference in the residual stream, with the final norm's scale held [batch, d_model].

    None, with the reason, where the model does more to residual stream or logits than this takes into account.
    """
    config = bridge.original_model.config.get_text_config()
    if getattr(config, "residual_multiplier", 1.0) != 1.0:
        return None, "the model scales what each block adds to the residual stream"
    unembed = bridge.original_model.get_output_embeddings()
    linear = getattr(unembed, "original_component", unembed)
    difference = linear.weight[tokens[0]].double() - linear.weight[tokens[1]].double()
    direction = _through_norm(bridge.ln_final, run.final_residual, difference.expand(len(run.ids), -1))
    if direction is None:
        return None, "the final norm is neither RMSNorm nor LayerNorm"
    normed = bridge.ln_final(run.final_residual).double()
    ends = normed @ difference
    if linear.bias is not None:
        ends = ends + linear.bias[tokens[0]].double() - linear.bias[tokens[1]].double()
    logits = run.logits.double()
    if (cap := getattr(config, "final_logit_softcapping", None)) is not None:
        logits = cap * torch.atanh(logits / cap)
    found = logits[:, tokens[0]] - logits[:, tokens[1]]
    tolerance = 1e-3 if linear.weight.dtype == torch.float32 else 0.1
    if not torch.allclose(ends, found, rtol=tolerance, atol=tolerance * float(logits.std())):
        return None, "the model changes its logits after the unembedding"
    return direction, None


def _through_norm(norm: Any, x: Tensor, direction: Tensor) -> Tensor | None:
    """Pull a direction [batch, d] back through a norm whose scale is held at its value for `x` [batch, d].

    None where the norm's output is not what the formula says, so that a norm of an unknown kind is never misread.
    """
    given, x = x, x.double()
    centred = x if norm.uses_rms_norm else x - x.mean(-1, keepdim=True)
    epsilon = next(
        (float(getattr(norm.original_component, name)) for name in ("variance_epsilon", "eps")
         if hasattr(norm.original_component, name)),
        0.0,
    )  # fmt: skip
    scale = (centred.pow(2).mean(-1, keepdim=True) + epsilon).sqrt()
    weight = getattr(norm.original_component, "weight", None)
    bias = getattr(norm.original_component, "bias", None)
    offset = 1.0 if norm.uses_weight_offset else 0.0
    gain = torch.ones_like(x) if weight is None else weight.double() + offset
    expected = centred / scale * gain + (0.0 if bias is None else bias.double())
    actual = norm(given).double()
    tolerance = 1e-4 if given.dtype == torch.float32 else 5e-2
    if not torch.allclose(expected, actual, rtol=tolerance, atol=tolerance * float(actual.abs().max())):
        return None
    pulled: Tensor = direction * gain / scale
    return pulled if norm.uses_rms_norm else pulled - pulled.mean(-1, keepdim=True)
