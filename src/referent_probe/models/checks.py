"""What is proved of every model when it is loaded, since wrong versions are wrong in silence."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from referent_probe.errors import ModelError
from referent_probe.models.prefix import CacheLostError, empty_cache, prefix_cache, seen
from referent_probe.models.record import record
from referent_probe.models.resume import Patch, Site, patched_logits

# Largest difference that rounding explains, by dtype, in standard deviations of the logits. In half precisions the
# shape of a batch alone moves logits by this much, so that there the checks find gross faults only.
TOLERANCE = {"float32": 2e-4, "bfloat16": 0.25, "float16": 0.06}

# In names of tensors: a part that reads no text; the list of blocks and a block's number.
_TOWER = re.compile("vision|visual|image|audio|video")
_BLOCK = re.compile(r"(.*?\b(?:layers|h|blocks))\.(\d+)\.")


@dataclass(frozen=True)
class LoadChecks:
    """Largest absolute differences in logits, and one effect that must not be zero.

    The last three are None for a model that was loaded without interventions.

    Attributes:
        prefix_and_suffix_against_full: A pass in two parts through cached keys and values against one pass; nan where
            attention never saw the cache.
        bridge_against_hugging_face: Bridge against the plain model, all positions and tokens.
        patch_with_itself: Every head of the first, middle and last block patched with its own value; nan as above.
        edited_pattern_effect: How far the logits move when one block's attention is cut to its own position.
    """

    prefix_and_suffix_against_full: float
    bridge_against_hugging_face: float | None = None
    patch_with_itself: float | None = None
    edited_pattern_effect: float | None = None

    def in_one_line(self) -> str:
        """The checks as one line of text, as commands print it."""
        in_parts = f"prefix + suffix = full pass to {self.prefix_and_suffix_against_full:.0e}"
        if self.bridge_against_hugging_face is None:
            return in_parts
        return (
            f"bridge = Hugging Face to {self.bridge_against_hugging_face:.0e}, {in_parts}, patch with itself = "
            f"baseline to {self.patch_with_itself:.0e}, an edited attention pattern moves logits by "
            f"{self.edited_pattern_effect:.1g} (must not be 0)"
        )

    def as_dict(self) -> dict[str, float | None]:
        """The checks by name, for the manifest."""
        return asdict(self)


def probe_ids(vocabulary: int, device: torch.device) -> Tensor:
    """Token ids [1, 24] for the checks: fixed, spread over the vocabulary, none at its ends where markers lie."""
    steps = torch.arange(24)
    return (vocabulary // 7 + (steps * 7919 + steps**2 * 104_729) % max(1, vocabulary // 2))[None].to(device)


def check_weights(name: str, hf_model: Any, loading: Mapping[str, Any]) -> None:
    """Refuse weights that do not fit the config, which transformers says in its log alone, or are not numbers.

    Weights that no forward pass would use may be there: frequencies of rotary positions, causal masks, a tower for
    images that was left out.

    Args:
        name: For the message.
        hf_model: The plain Hugging Face model, loaded.
        loading: What `from_pretrained(..., output_loading_info=True)` tells.

    Raises:
        ModelError: Tensors are missing, weights of blocks or of the output layer are left over, or a weight is NaN or
            infinite. Names the first ones.
    """
    again = "get the folder again, or save it again"
    if missing := sorted(loading["missing_keys"]):  # filled with random numbers
        raise ModelError(
            f"{name!r}: its weights lack {len(missing)} tensors that its config asks for, {missing[0]!r} among them; "
            f"{again}"
        )
    if unused := _unused(hf_model, loading["unexpected_keys"]):
        raise ModelError(
            f"{name!r}: its weights hold {len(unused)} tensors for which its config has no place, "
            f"{' and '.join(map(repr, unused[:2]))} among them; give it the config.json that it was trained with "
            f"(num_hidden_layers?), or {again}"
        )
    embeddings, output = hf_model.get_input_embeddings(), hf_model.get_output_embeddings()
    tied = getattr(hf_model, "_tied_weights_keys", None) and getattr(hf_model.config, "tie_word_embeddings", False)
    if tied and output is not None and output.weight is not embeddings.weight:
        raise ModelError(
            f"{name!r}: its weights hold an output layer ('lm_head.weight') that differs from the embeddings, but its "
            "config sets tie_word_embeddings to true, by which it would not be used; set it to false in config.json, "
            f"or {again}"
        )
    for tensor, values in hf_model.named_parameters():
        # Extremes rather than a test of every number, which would need the memory of the tensor once more.
        if values.numel() and values.is_floating_point() and not all(e.isfinite() for e in values.aminmax()):
            hint = ", or load it as bfloat16 or float32" if values.dtype == torch.float16 else ""
            raise ModelError(f"{name!r}: its weights hold NaN or infinity in {tensor!r}; {again}{hint}")


def _unused(hf_model: Any, unexpected: Iterable[str]) -> list[str]:
    """Those of the unexpected tensors that belong to the blocks, or to a layer that the model has."""
    parameters = {key for key, _ in hf_model.named_parameters(remove_duplicate=False)}
    text = [block for key in parameters if (block := _BLOCK.match(key)) and not _TOWER.search(key)]
    lists, n_blocks = {block[1] for block in text}, 1 + max((int(block[2]) for block in text), default=-1)
    # Blocks that guess further tokens ahead, for speed.
    ahead = getattr(hf_model.config.get_text_config(), "num_nextn_predict_layers", None) or 0
    unused = []
    for key in sorted(key for key in unexpected if not _TOWER.search(key)):
        module, _, kind = key.rpartition(".")
        # A mask is kept as "attn.bias", where attention has no weight of its own.
        of_a_layer = kind == "bias" and f"{module}.weight" in parameters
        block = _BLOCK.match(key)
        if block and any(f".{known}".endswith(f".{block[1]}") for known in lists):
            index = int(block[2])
            if n_blocks <= index < n_blocks + ahead:
                continue
            if of_a_layer or kind == "weight" or (index >= n_blocks and not key.endswith("inv_freq")):
                unused.append(key)
        elif of_a_layer or module.endswith("lm_head"):
            unused.append(key)
    return unused


def check_vocabulary(name: str, tokenizer: Any, rows: int) -> None:
    """Refuse a tokenizer whose ids a prompt can hold and the embeddings, of so many rows, cannot.

    Raises:
        ModelError: There is such an id; names the last.
    """
    # A marker may lie beyond the embeddings, as Gemma's for images, where no prompt of text holds it.
    written = f"{tokenizer.chat_template or ''}{tokenizer.bos_token or ''}"
    markers = {index for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    beyond = {
        index: token
        for token, index in tokenizer.get_vocab().items()
        if index >= rows and not (index in markers and token not in written)
    }
    if beyond:
        last = max(beyond)
        raise ModelError(
            f"{name!r}: its tokenizer has ids up to {last} ({beyond[last]!r}), but the model's vocabulary has {rows} "
            f"tokens, ids 0 to {rows - 1}; give the folder the tokenizer that the model was trained with, or resize "
            "the model's embeddings"
        )


def check_bridge(bridge: Any, ids: Tensor, plain_logits: Tensor, dtype: str, name: str) -> LoadChecks:
    """Run the checks.

    Args:
        bridge: The booted `TransformerBridge`.
        ids: From `probe_ids`.
        plain_logits: The plain Hugging Face model's logits [1, T, vocabulary] on `ids`, taken before booting.
        dtype: Of the weights; sets the tolerance.
        name: For the message.

    Raises:
        ModelError: A check failed; names the installed versions and the cure.
    """
    return _checked(lambda: _measure(bridge, ids, plain_logits), plain_logits, dtype, name)


def check_network(network: Any, ids: Tensor, plain_logits: Tensor, dtype: str, name: str) -> LoadChecks:
    """Run those checks that need no bridge: arguments and errors of `check_bridge`, for the Hugging Face model."""
    return _checked(lambda: LoadChecks(_in_two_parts(network, ids, plain_logits)), plain_logits, dtype, name)


def _checked(measure: Callable[[], LoadChecks], plain_logits: Tensor, dtype: str, name: str) -> LoadChecks:
    versions = f"transformers {version('transformers')} and transformer-lens {version('transformer-lens')}"
    cure = (
        "install the versions in constraints.txt (transformers 5.23.0, transformer-lens 4.3.0) or, where these are "
        "installed, give a model of another family"
    )
    try:
        checks = measure()
    except Exception as error:  # whatever a model of an unforeseen make raises
        raise ModelError(
            f"{name!r} is refused with {versions}: its blocks cannot be recorded and gone on from "
            f"({' '.join(repr(error).split())[:300]}); {cure}"
        ) from error
    problems = [
        problem
        for wrong, problem in (
            (checks.bridge_against_hugging_face, "the bridge's logits differ from the plain Hugging Face model's"),
            (checks.prefix_and_suffix_against_full, "keys and values of a cached prefix are lost or misplaced"),
            (checks.patch_with_itself, "a run patched with its own activations differs from itself"),
        )
        if wrong is not None and not wrong <= TOLERANCE[dtype] * float(plain_logits.float().std())
    ]
    if checks.edited_pattern_effect is not None and not checks.edited_pattern_effect > 1e-6:
        problems.append("an edited attention pattern does not change the logits (a fused attention kernel?)")
    if problems:
        raise ModelError(f"{name!r} is refused with {versions}: {'; '.join(problems)} ({checks.in_one_line()}); {cure}")
    return checks


def _in_two_parts(network: Any, ids: Tensor, full: Tensor) -> float:
    """How far a pass in two parts is from the full pass; nan without a cache."""
    half, cache = ids.shape[1] // 2, empty_cache(int(network.config.get_text_config().num_hidden_layers))
    with torch.no_grad():
        first = network(ids[:, :half], past_key_values=cache, use_cache=True).logits
        try:
            keys, values = seen(cache)
        except CacheLostError:
            return float("nan")
        places = torch.arange(half, ids.shape[1], device=ids.device)[None]
        behind = prefix_cache(keys, values, half)
        rest = network(ids[:, half:], past_key_values=behind, position_ids=places, use_cache=True).logits
    return _largest(torch.cat([first, rest], dim=1) - full)


def _measure(bridge: Any, ids: Tensor, plain_logits: Tensor) -> LoadChecks:
    full = bridge.original_model(ids).logits
    in_two_parts, itself = _through_the_cache(bridge, ids, full)
    return LoadChecks(
        bridge_against_hugging_face=_largest(full - plain_logits),
        prefix_and_suffix_against_full=in_two_parts,
        patch_with_itself=itself,
        edited_pattern_effect=_largest(_with_edited_pattern(bridge, ids) - full),
    )


def _through_the_cache(bridge: Any, ids: Tensor, full: Tensor) -> tuple[float, float]:
    """How far a pass in two parts, and a run patched with itself, are from the full pass; nan without a cache."""
    try:
        run = record(bridge, ids, ids.shape[1] // 2)
    except CacheLostError:
        return float("nan"), float("nan")
    last, n_layers, n_heads = ids.shape[1] - 1, int(bridge.cfg.n_layers), int(bridge.cfg.n_heads)
    token = int(full[0, -1].argmax())
    patches = [
        Patch(layer, Site.HEAD, (last,), head)
        for layer in sorted({0, n_layers // 2, n_layers - 1})
        for head in range(n_heads)
    ]
    itself = patched_logits(bridge, run, run, patches, [token]).logits
    return _largest(run.logits - full[:, -1]), _largest(itself - full[:, -1, token])


def _with_edited_pattern(bridge: Any, ids: Tensor) -> Tensor:
    def own_position_only(pattern: Tensor, hook: Any) -> Tensor:
        return torch.eye(pattern.shape[-1], dtype=pattern.dtype, device=pattern.device).expand_as(pattern)

    with warnings.catch_warnings(), bridge.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", own_position_only)]):
        warnings.simplefilter("ignore")  # about edits without effect, which the caller finds out by their effect
        logits: Tensor = bridge.original_model(ids).logits
    return logits


def _largest(difference: Tensor) -> float:
    return float(difference.abs().max())
