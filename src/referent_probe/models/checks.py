"""What is proved of every model when it is loaded, since wrong versions are wrong in silence."""

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from referent_probe.errors import ModelError
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.prefix import CacheLostError, empty_cache, prefix_cache, seen
from referent_probe.models.record import record
from referent_probe.models.resume import patched_logits

# Largest difference that rounding explains, by dtype, in standard deviations of the logits. In half precisions the
# shape of a batch alone moves logits by this much, so that there the checks find gross faults only.
TOLERANCE = {"float32": 2e-4, "bfloat16": 0.25, "float16": 0.06}


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
        Patch(layer, Site.Z, (last,), head)
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
