"""Attention attribution at the target slot: what each head writes into the logit difference, and from where.

A head's output z passes the output projection, the residual stream, the final norm and the unembedding. With the
norm's scale held at its value in the run, that path is linear, so that contributions add up (Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits"; the norm is frozen as in Wang et al., arXiv 2211.00593).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from referent_probe.models.interventions import Site
from referent_probe.models.record import Recorded


@dataclass(frozen=True)
class Attribution:
    """What makes up the logit difference at the target slot, for each member of the batch, in logits.

    Heads, embedding, MLPs, biases and what the final norm and the unembedding add by themselves sum to the logit
    difference; a head's sources sum to the head.

    Attributes:
        attention: Each head's attention from the target slot to every source position [batch, layers, heads, T],
            0 to 1.
        logit_difference: Of the run, before a soft cap on logits (Gemma 2) [batch].
        direct: Direct logit attribution of each head [batch, layers, heads]; None where the model's norms are not
            linear in this way (`reason` says which), as are the others.
        from_source: The part of `direct` that comes from every source position [batch, layers, heads, T]; None too
            where a head's output is not its attention times values (gated attention).
        embedding: Of the residual stream that enters block 0 [batch].
        mlps: Of each block's MLP [batch, layers].
        biases: Of each attention's output bias [batch, layers].
        constant: Of the final norm's and the unembedding's biases [batch].
        reason: Why something is missing; None where nothing is.
    """

    attention: Tensor
    logit_difference: Tensor
    direct: Tensor | None = None
    from_source: Tensor | None = None
    embedding: Tensor | None = None
    mlps: Tensor | None = None
    biases: Tensor | None = None
    constant: Tensor | None = None
    reason: str | None = None

    def parts(self) -> dict[str, Tensor]:
        """What makes up the logit difference, by kind [batch], logits; empty where there is no attribution."""
        found = {
            "embedding": self.embedding,
            "heads": None if self.direct is None else self.direct.sum((1, 2)),
            "mlps": None if self.mlps is None else self.mlps.sum(1),
            "biases": None if self.biases is None else self.biases.sum(1),
            "constant": self.constant,
        }
        return {name: part for name, part in found.items() if part is not None}

    def largest_error(self) -> dict[str, float]:
        """How far the identities are off: sources against heads, and all parts against the logit difference; logits.

        Empty where there is no attribution.
        """
        if self.direct is None:
            return {}
        total = torch.stack(list(self.parts().values())).sum(0)
        errors = {"parts": float((total - self.logit_difference).abs().max())}
        if self.from_source is not None:
            errors["sources"] = float((self.from_source.sum(-1) - self.direct).abs().max())
        return errors


def attribute(bridge: Any, run: Recorded, tokens: tuple[int, int]) -> Attribution:
    """Direct logit attribution of every head, by source position, and of everything else.

    Args:
        bridge: A `TransformerBridge`.
        run: A recorded pass, with `Site.MLP_OUT`.
        tokens: Vocabulary ids; the attribution is to the first one's logit minus the second one's. A soft cap on
            the logits (Gemma 2) comes after it and is left out.

    Example:
        A head that attends to one source alone has `attention` 1 there, and `from_source` equal to `direct`.
    """
    attention = torch.stack(run.pattern, dim=1).double()
    ends = _ends(bridge, run, tokens)
    if ends.reason is not None:
        return Attribution(attention, ends.logit_difference, reason=ends.reason)
    direct, from_source, biases, gated = [], [], [], False
    for layer, block in enumerate(bridge.blocks):
        pattern, last = run.pattern[layer], run.z[layer][:, -1]
        group = run.heads // run.key_value_heads
        values = run.values[layer].repeat_interleave(group, dim=1)
        towards = _behind_attention(block, run.z[layer][:, -1:], ends.direction)
        if towards is None:
            reason = "the norm after attention is neither RMSNorm nor LayerNorm"
            return Attribution(attention, ends.logit_difference, reason=reason)
        pulled = pull_back(block.attn.o, last, towards).reshape(len(last), run.heads, -1)
        by_head = last.reshape(len(last), run.heads, -1)
        direct.append((by_head.double() * pulled).sum(-1))
        biases.append(_bias(block, last, towards, ends.direction))
        from_source.append(pattern.double() * torch.einsum("bhtd,bhd->bht", values.double(), pulled))
        mixed = torch.einsum("bht,bhtd->bhd", pattern, values)
        gated = gated or not torch.allclose(mixed, by_head, rtol=1e-3, atol=1e-3 * float(last.abs().max()))
    return Attribution(
        attention=attention,
        logit_difference=ends.logit_difference,
        direct=torch.stack(direct, dim=1),
        from_source=None if gated else torch.stack(from_source, dim=1),
        embedding=_along(run.residual[0][:, -1], ends.direction),
        mlps=torch.stack([_along(mlp[:, -1], ends.direction) for mlp in run.more[Site.MLP_OUT]], dim=1),
        biases=torch.stack(biases, dim=1),
        constant=ends.constant,
        reason="a gate stands between attention and output" if gated else None,
    )


def final_direction(bridge: Any, run: Recorded, layer: int, tokens: tuple[int, int]) -> Tensor | None:
    """Gradient of the logit difference at what a block's output projection writes, norms' scales held [batch, d_model].

    None where the model's norms are not linear in this way.
    """
    ends = _ends(bridge, run, tokens)
    if ends.reason is not None:
        return None
    return _behind_attention(bridge.blocks[layer], run.z[layer][:, -1:], ends.direction)


def by_span(values: Tensor, spans: Sequence[Sequence[int]]) -> Tensor:
    """Sums over each span's source positions [..., T] to [..., spans].

    Example:
        >>> by_span(torch.tensor([1.0, 2.0, 4.0]), [(0, 2), (1,)]).tolist()
        [5.0, 2.0]
    """
    return torch.stack([values[..., list(positions)].sum(-1) for positions in spans], dim=-1)


def _along(x: Tensor, direction: Tensor) -> Tensor:
    return (x.double() * direction).sum(-1)


def pull_back(linear: Any, x: Tensor, direction: Tensor) -> Tensor:
    """A direction [batch, d_model] in a linear map's output, as one in its input [batch, d_in]: its gradient."""
    given = x[:, None].detach().clone().requires_grad_()
    with torch.enable_grad():
        along = (linear(given)[:, 0].double() * direction).sum()
        (gradient,) = torch.autograd.grad(along, given)
    pulled: Tensor = gradient[:, 0].double()
    return pulled


def _bias(block: Any, z: Tensor, towards: Tensor, direction: Tensor) -> Tensor:
    """What attention adds whatever its heads say [batch]: biases of the projection and of a norm behind it."""
    written = _along(block.attn.o(torch.zeros_like(z)[:, None])[:, 0], towards)
    if hasattr(block, "ln1_post") and getattr(block.ln1_post.original_component, "bias", None) is not None:
        written = written + _along(block.ln1_post.original_component.bias.expand_as(direction), direction)
    return written


def _behind_attention(block: Any, z: Tensor, direction: Tensor) -> Tensor | None:
    """A direction in the residual stream as one in what the output projection writes: through a norm behind it."""
    if not hasattr(block, "ln1_post"):
        return direction
    return _through_norm(block.ln1_post, block.attn.o(z)[:, 0], direction)


@dataclass(frozen=True)
class _Ends:
    """The logit difference, and its gradient in the residual stream with the final norm's scale held.

    Attributes:
        logit_difference: Before a soft cap [batch].
        direction: [batch, d_model].
        constant: What norm and unembedding add by themselves [batch].
        reason: Why there is no direction.
    """

    logit_difference: Tensor
    direction: Tensor
    constant: Tensor
    reason: str | None


def _ends(bridge: Any, run: Recorded, tokens: tuple[int, int]) -> _Ends:
    config = bridge.original_model.config.get_text_config()
    unembed = bridge.original_model.get_output_embeddings()
    linear = getattr(unembed, "original_component", unembed)
    difference = linear.weight[tokens[0]].double() - linear.weight[tokens[1]].double()
    logits = run.logits.double()
    if (cap := getattr(config, "final_logit_softcapping", None)) is not None:
        logits = cap * torch.atanh(logits / cap)
    found = logits[:, tokens[0]] - logits[:, tokens[1]]
    none = torch.zeros(0)
    if getattr(config, "residual_multiplier", 1.0) != 1.0:
        return _Ends(found, none, none, "the model scales what each block adds to the residual stream")
    direction = _through_norm(bridge.ln_final, run.final_residual, difference.expand(len(run.ids), -1))
    if direction is None:
        return _Ends(found, none, none, "the final norm is neither RMSNorm nor LayerNorm")
    constant = torch.zeros_like(found)
    if linear.bias is not None:
        constant = constant + linear.bias[tokens[0]].double() - linear.bias[tokens[1]].double()
    norm_bias = getattr(bridge.ln_final.original_component, "bias", None)
    ends = bridge.ln_final(run.final_residual).double() @ difference + constant
    if norm_bias is not None:
        constant = constant + norm_bias.double() @ difference
    tolerance = 1e-3 if linear.weight.dtype == torch.float32 else 0.1
    if not torch.allclose(ends, found, rtol=tolerance, atol=tolerance * float(logits.std())):
        return _Ends(found, none, none, "the model changes its logits after the unembedding")
    return _Ends(found, direction, constant, None)


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
