"""Direct logit attribution against the plain model's own parts, on every family."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from referent_probe.mechanism.attention import Attribution, attribute
from referent_probe.models.interventions import Site
from referent_probe.models.record import Recorded, record

LENGTH, DIFFERS, LAYERS, HEADS = 20, 7, 4, 4
TOKENS = (9, 200)
CLOSE = 1e-5
POST_NORM = ("gemma2", "gemma3")
LAYER_NORM = ("gpt2", "gpt-neox")


@dataclass(frozen=True)
class Block:
    """A plain Hugging Face block's parts: what writes into the residual stream, and the heads' projection."""

    attention: nn.Module
    mlp: nn.Module
    projection: nn.Module
    attention_writes: nn.Module
    mlp_writes: nn.Module


def blocks_and_norm(tiny: Any) -> tuple[list[Block], nn.Module]:
    match tiny.family:
        case "gpt2":
            body = tiny.plain.transformer
            return [Block(b.attn, b.mlp, b.attn.c_proj, b.attn, b.mlp) for b in body.h], body.ln_f
        case "gpt-neox":
            body = tiny.plain.gpt_neox
            parts = [Block(b.attention, b.mlp, b.attention.dense, b.attention, b.mlp) for b in body.layers]
            return parts, body.final_layer_norm
        case family:
            body = tiny.plain.model
            return [
                Block(
                    b.self_attn,
                    b.mlp,
                    b.self_attn.o_proj,
                    b.post_attention_layernorm if family in POST_NORM else b.self_attn,
                    b.post_feedforward_layernorm if family in POST_NORM else b.mlp,
                )
                for b in body.layers
            ], body.norm


@dataclass(frozen=True)
class PlainParts:
    """One plain pass, last position, float64.

    Attributes:
        embedding: Residual stream entering the first block [2, d_model].
        attention: What each block's attention adds to it, 4 x [2, d_model].
        mlp: What each block's MLP adds, 4 x [2, d_model].
        z: Heads' outputs [2, heads, d_head], per block.
        projected: What the output projection returns [2, d_model], per block.
        final: Residual stream that the final norm reads [2, d_model].
        normed: What it returns.
        difference: Logit difference before any soft cap [2].
        patterns: Attention of the last position [2, heads, T], per block.
    """

    embedding: Tensor
    attention: list[Tensor]
    mlp: list[Tensor]
    z: list[Tensor]
    projected: list[Tensor]
    final: Tensor
    normed: Tensor
    difference: Tensor
    patterns: list[Tensor]


def first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def plain_pass(tiny: Any) -> PlainParts:
    blocks, norm = blocks_and_norm(tiny)
    inputs: dict[nn.Module, Tensor] = {}
    outputs: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if args:
            inputs[module] = args[0][:, -1].double()
        outputs[module] = first(output)[:, -1].double()

    modules = {m for b in blocks for m in (b.projection, b.attention_writes, b.mlp_writes)} | {norm}
    handles = [module.register_forward_hook(keep) for module in modules]
    out = tiny.plain(tiny.ids, output_hidden_states=True, output_attentions=True)
    for handle in handles:
        handle.remove()
    logits = out.logits[:, -1].double()
    cap = getattr(tiny.plain.config, "final_logit_softcapping", None)
    if cap:
        logits = cap * torch.atanh(logits / cap)
    return PlainParts(
        embedding=out.hidden_states[0][:, -1].double(),
        attention=[outputs[b.attention_writes] for b in blocks],
        mlp=[outputs[b.mlp_writes] for b in blocks],
        z=[inputs[b.projection].unflatten(-1, (HEADS, -1)) for b in blocks],
        projected=[outputs[b.projection] for b in blocks],
        final=inputs[norm],
        normed=outputs[norm],
        difference=logits[:, TOKENS[0]] - logits[:, TOKENS[1]],
        patterns=[a[:, :, -1].double() for a in out.attentions],
    )


def frozen(tiny: Any, norm: nn.Module, x: Tensor, direction: Tensor) -> Callable[[Tensor], Tensor]:
    """The norm with its scale held at its value for x, as a function of a part of x, along a direction."""
    gain = norm.weight.double() + (1 if tiny.family in POST_NORM else 0)

    def centre(v: Tensor) -> Tensor:
        return v - v.mean(-1, keepdim=True) if tiny.family in LAYER_NORM else v

    epsilon = getattr(norm, "variance_epsilon", getattr(norm, "eps", None))
    scale = (centre(x).square().mean(-1) + epsilon).sqrt()
    return lambda part: (centre(part) * gain * direction).sum(-1) / scale


def unembedding(tiny: Any) -> Tensor:
    weight = tiny.plain.get_output_embeddings().weight.double()
    return weight[TOKENS[0]] - weight[TOKENS[1]]


def projection_parts(tiny: Any, projection: nn.Module) -> tuple[Tensor, Tensor]:
    """The output projection as a matrix [heads * d_head, d_model] and a bias [d_model]."""
    weight = projection.weight.double()
    matrix = weight if tiny.family == "gpt2" else weight.T
    bias = getattr(projection, "bias", None)
    return matrix, torch.zeros(matrix.shape[1], dtype=torch.float64) if bias is None else bias.double()


def largest(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max())


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[Recorded, PlainParts]]:
    return {}


@pytest.fixture
def run(tiny: Any, runs: dict[str, tuple[Recorded, PlainParts]]) -> Recorded:
    if tiny.family not in runs:
        runs[tiny.family] = record(tiny.bridge, tiny.ids, DIFFERS, sites=[Site.MLP_OUT]), plain_pass(tiny)
    return runs[tiny.family][0]


@pytest.fixture
def parts(tiny: Any, run: Recorded, runs: dict[str, tuple[Recorded, PlainParts]]) -> PlainParts:
    return runs[tiny.family][1]


def attributed(tiny: Any, run: Recorded, source: int = DIFFERS) -> tuple[Attribution, Tensor, Tensor]:
    result = attribute(tiny.bridge, run, TOKENS)
    assert result.reason is None
    assert result.direct is not None
    assert result.from_source is not None
    shape = (2, LAYERS, HEADS)
    assert result.direct.shape == shape
    assert result.attention.shape == result.from_source.shape == (*shape, LENGTH)
    return result, result.direct, result.from_source[..., source]


def test_the_plain_parts_add_up(tiny: Any, parts: PlainParts) -> None:
    """The oracle itself: residual stream and logit difference are sums of the parts that it is made of."""
    total = parts.embedding + sum(parts.attention) + sum(parts.mlp)
    assert largest(total, parts.final) < CLOSE
    assert largest((parts.normed * unembedding(tiny)).sum(-1), parts.difference) < CLOSE


def test_heads_and_all_the_rest_make_the_logit_difference(tiny: Any, run: Recorded, parts: PlainParts) -> None:
    _, direct, _ = attributed(tiny, run)
    blocks, norm = blocks_and_norm(tiny)
    through = frozen(tiny, norm, parts.final, unembedding(tiny))
    rest = through(parts.embedding + sum(parts.mlp))
    for block in blocks:
        _, bias = projection_parts(tiny, block.projection)
        if tiny.family in POST_NORM:
            assert not bias.any()
        rest = rest + through(bias.expand_as(parts.final))
    if tiny.family in LAYER_NORM:
        rest = rest + (norm.bias.double() * unembedding(tiny)).sum()
    assert largest(direct.sum((1, 2)) + rest, parts.difference) < CLOSE
    assert float(direct.abs().max()) > 1e-3


def test_all_parts_are_told_and_add_up(tiny: Any, run: Recorded, parts: PlainParts) -> None:
    result, _, _ = attributed(tiny, run)
    errors = result.largest_error()
    assert set(errors) == {"parts", "sources"}
    assert max(errors.values()) < CLOSE
    assert largest(result.logit_difference, parts.difference) < CLOSE
    _, norm = blocks_and_norm(tiny)
    through = frozen(tiny, norm, parts.final, unembedding(tiny))
    assert result.embedding is not None
    assert result.mlps is not None
    assert largest(result.embedding, through(parts.embedding)) < CLOSE
    assert largest(result.mlps, torch.stack([through(mlp) for mlp in parts.mlp], dim=1)) < CLOSE


def test_each_blocks_heads_make_what_its_attention_writes(tiny: Any, run: Recorded, parts: PlainParts) -> None:
    _, direct, _ = attributed(tiny, run)
    blocks, norm = blocks_and_norm(tiny)
    through = frozen(tiny, norm, parts.final, unembedding(tiny))
    for layer, block in enumerate(blocks):
        _, bias = projection_parts(tiny, block.projection)
        assert largest(direct[:, layer].sum(-1), through(parts.attention[layer] - bias)) < CLOSE


def test_each_head_by_its_own_columns_of_the_projection(tiny: Any, run: Recorded, parts: PlainParts) -> None:
    _, direct, _ = attributed(tiny, run)
    blocks, norm = blocks_and_norm(tiny)
    for layer, block in enumerate(blocks):
        matrix, _ = projection_parts(tiny, block.projection)
        written = torch.einsum("bhe,hed->bhd", parts.z[layer], matrix.unflatten(0, (HEADS, -1)))
        for head in range(HEADS):
            part = written[:, head]
            if tiny.family in POST_NORM:
                post, x = block.attention_writes, parts.projected[layer]
                scale = (x.square().mean(-1, keepdim=True) + post.eps).sqrt()
                part = part * (1 + post.weight.double()) / scale
            expected = frozen(tiny, norm, parts.final, unembedding(tiny))(part)
            assert largest(direct[:, layer, head], expected) < CLOSE


def test_edges_from_all_sources_make_the_head(tiny: Any, run: Recorded) -> None:
    _, direct, _ = attributed(tiny, run)
    edges = [attributed(tiny, run, source)[2] for source in range(LENGTH)]
    assert largest(torch.stack(edges).sum(0), direct) < CLOSE


def test_attention_is_the_plain_models(tiny: Any, run: Recorded, parts: PlainParts) -> None:
    shares = attribute(tiny.bridge, run, TOKENS).attention
    assert largest(shares, torch.stack(parts.patterns, dim=1)) < CLOSE
    assert bool(((shares >= 0) & (shares <= 1)).all())
    total = shares.sum(-1)
    if tiny.family == "gpt-oss":  # a learned sink takes its share
        assert bool((total < 1 - 1e-3).all())
    else:
        assert largest(total, torch.ones_like(total)) < CLOSE


def test_a_source_outside_the_window_gives_nothing(tiny: Any, run: Recorded) -> None:
    result, _, edge = attributed(tiny, run, DIFFERS)  # 12 positions before the last one, and the window is 6
    windows = {"phi3": [0, 1, 2, 3], "gemma2": [0, 2], "gemma3": [0, 2], "gpt-oss": [0, 2]}.get(tiny.family, [])
    for layer in range(LAYERS):
        reached = layer not in windows
        assert bool((result.attention[:, layer, :, DIFFERS] > 0).all()) == reached
        assert bool((edge[:, layer] != 0).all()) == reached


def test_swapping_the_tokens_turns_the_sign(tiny: Any, run: Recorded) -> None:
    _, direct, edge = attributed(tiny, run)
    other = attribute(tiny.bridge, run, (TOKENS[1], TOKENS[0]))
    assert other.direct is not None
    assert other.from_source is not None
    assert largest(direct, -other.direct) < 1e-12
    assert largest(edge, -other.from_source[..., DIFFERS]) < 1e-12


def test_members_of_a_batch_do_not_mix(tiny: Any, run: Recorded) -> None:
    _, direct, edge = attributed(tiny, run)
    swapped = attribute(tiny.bridge, run.take([1, 0]), TOKENS)
    assert swapped.direct is not None
    assert swapped.from_source is not None
    assert largest(swapped.direct.flip(0), direct) < CLOSE
    assert largest(swapped.from_source.flip(0)[..., DIFFERS], edge) < CLOSE
    assert largest(swapped.attention.flip(0), attribute(tiny.bridge, run, TOKENS).attention) < CLOSE


def test_it_does_not_depend_on_where_recording_starts(tiny: Any, run: Recorded) -> None:
    _, direct, edge = attributed(tiny, run)
    _, direct_0, edge_0 = attributed(tiny, record(tiny.bridge, tiny.ids, 0, sites=[Site.MLP_OUT]))
    assert largest(direct, direct_0) < CLOSE
    assert largest(edge, edge_0) < CLOSE


def test_a_head_that_attends_to_the_source_alone(tiny_model: Callable[[str], Any]) -> None:
    tiny = tiny_model("llama")
    run = record(tiny.bridge, tiny.ids[:1, :1], 0, sites=[Site.MLP_OUT])  # a prompt of one token
    result = attribute(tiny.bridge, run, TOKENS)
    assert result.direct is not None
    assert result.from_source is not None
    assert bool((result.attention == 1).all())
    assert largest(result.direct, result.from_source[..., 0]) < 1e-7


@pytest.mark.parametrize("where", ["ln_final", "ln1_post"])
def test_a_norm_of_an_unknown_kind_is_not_misread(where: str, build_tiny: Callable[..., Any]) -> None:
    tiny = build_tiny("gemma2", layers=2)
    norm = tiny.bridge.ln_final if where == "ln_final" else tiny.bridge.blocks[1].ln1_post
    forward = norm.original_component.forward
    norm.__dict__["forward"] = lambda x: forward(x).tanh()
    result = attribute(tiny.bridge, record(tiny.bridge, tiny.ids, DIFFERS, sites=[Site.MLP_OUT]), TOKENS)
    assert result.direct is None
    assert result.from_source is None
    assert result.reason is not None
    assert "neither RMSNorm nor LayerNorm" in result.reason
    assert result.attention.shape == (2, 2, HEADS, LENGTH)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "gpt-neox"])
def test_transformer_lens_says_the_same(family: str, build_tiny: Callable[..., Any]) -> None:
    """Its own analysis, which wants a bridge with folded weights: the same for every head."""
    from transformer_lens.tools.analysis.direct_logit_attribution import direct_logit_attribution

    tiny, folded = build_tiny(family), build_tiny(family)
    run = record(tiny.bridge, tiny.ids, DIFFERS, sites=[Site.MLP_OUT])
    # Folded value biases would move a part of each head to the output bias, which is nobody's.
    folded.bridge.enable_compatibility_mode(disable_warnings=True, fold_value_biases=False)
    theirs = direct_logit_attribution(folded.bridge, tiny.ids[:1], TOKENS[0], TOKENS[1], unit="head", pos=-1)
    ours = attribute(tiny.bridge, run, TOKENS).direct
    assert ours is not None
    by_label = dict(zip(theirs.labels, theirs.attribution.flatten().tolist(), strict=True))
    for layer in range(LAYERS):
        for head in range(HEADS):
            assert math.isclose(by_label[f"L{layer}H{head}"], float(ours[0, layer, head]), abs_tol=1e-4)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Cohere", "changes its logits after the unembedding"),
        ("Granite", "scales what each block adds"),
        ("Olmo", "final norm"),
    ],
)
def test_models_that_scale_logits_or_blocks_get_a_reason_instead_of_wrong_numbers(
    kind: str, reason: str, tokenizer: Any, tmp_path: Path
) -> None:
    import transformers
    from transformer_lens.model_bridge import TransformerBridge

    extra = {"Cohere": {"logit_scale": 0.0625}, "Granite": {"residual_multiplier": 0.22}, "Olmo": {}}[kind]
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **extra,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    model.config.architectures = [type(model).__name__]
    bridge = TransformerBridge.boot_transformers(str(tmp_path), hf_model=model, tokenizer=tokenizer, device="cpu")
    ids = torch.randint(5, 300, (2, LENGTH))
    with torch.no_grad():
        result = attribute(bridge, record(bridge, ids, 0, sites=[Site.MLP_OUT]), TOKENS)
    assert result.direct is None
    assert reason in str(result.reason)


def test_behind_a_gate_a_source_gets_no_share_but_the_head_does(build_tiny: Callable[..., Any]) -> None:
    """A gate on z, as in gated attention: attention times values is then not what a head puts out."""
    tiny = build_tiny("llama", layers=2)
    for block in tiny.bridge.blocks:
        block.attn.o.register_forward_pre_hook(lambda module, args: (args[0] * 0.5, *args[1:]))
    run = record(tiny.bridge, tiny.ids, DIFFERS, sites=[Site.MLP_OUT])
    gated = Recorded(**{**run.__dict__, "z": tuple(z * 0.5 for z in run.z)})
    result = attribute(tiny.bridge, gated, TOKENS)
    assert result.direct is not None
    assert result.from_source is None
    assert "gate" in str(result.reason)
