"""Load a causal language model, bridge it to TransformerLens, and prove it right before it is used."""

import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

# Set before huggingface_hub is imported: nothing is sent anywhere.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
import transformers

from referent_probe.errors import ModelError
from referent_probe.models.checks import (
    LoadChecks,
    check_bridge,
    check_network,
    probe_ids,
)
from referent_probe.models.config import check_generation_config, longest_prompt, quantisation, read_config
from referent_probe.models.quirks import PLAIN, Quirks, with_template
from referent_probe.models.registry import DEFAULT_MODEL, known_model
from referent_probe.models.source import ModelSource, find_model
from referent_probe.models.unpack import one_line, quiet_transformers
from referent_probe.models.weights import check_vocabulary, check_weights
from referent_probe.precision import Dtype


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be measured and, where it was bridged, for interventions.

    Attributes:
        source: Where it came from and which weights it has.
        network: The Hugging Face model: eager attention, evaluation mode, gradients off. Where there is a bridge, its
            blocks are the bridge's.
        bridge: TransformerLens `TransformerBridge` of it; None where it was loaded without interventions.
        tokenizer: Its Hugging Face tokenizer.
        checks: What was proved at load, with the largest differences.
        device: Torch device.
        dtype: Of the weights.
        n_layers: Blocks.
        n_heads: Query heads a block.
        quirks: How prompts are put to it: what the registry says of its name, and what its chat template shows.
        longest_prompt: Positions up to which a pass in two parts and a whole one agree: those of the config or, where
            the rotation of keys changes with the length ("dynamic", "longrope"), those before it changes; None where
            the config names none.
    """

    source: ModelSource
    network: Any
    bridge: Any
    tokenizer: Any
    checks: LoadChecks
    device: str
    dtype: Dtype
    n_layers: int
    n_heads: int
    quirks: Quirks = PLAIN
    longest_prompt: int | None = None


def load_model(
    name: str = DEFAULT_MODEL,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: Dtype = "float32",
    trust_remote_code: bool = False,
    interventions: bool = True,
    notify: Callable[[str], None] = lambda message: None,
) -> LoadedModel:
    """Load a model and check that what is computed in parts, and patched, is exact.

    Args:
        name: A name of the registry ("smollm2-135m-instruct", "phi-4"), a folder, a GGUF file, or a Hub id.
        revision: Branch, tag or commit, for a Hub id.
        device: "auto" (CUDA where there is one, else CPU), "cpu", "cuda", "cuda:1", ….
        dtype: "float32" (exact to about 1e-5 logits), "bfloat16" or "float16".
        trust_remote_code: Let a model folder run its own Python code. Off unless you trust its authors.
        interventions: Whether to bridge the model to TransformerLens, which patching and attention need. Without it
            loading takes less time and memory, and all that can be measured is what the model says.
        notify: Told what happens, a line at a time: before anything that takes long, and what was loaded and proved.

    Raises:
        ModelError: Not found, damaged, not a causal language model, unknown to TransformerLens, or a check failed
            (the message names the installed versions).

    Example:
        >>> model = load_model()  # doctest: +SKIP
        >>> model.n_layers, model.n_heads  # doctest: +SKIP
        (30, 9)
    """
    quiet_transformers()
    where, known = _device(device), known_model(name)
    source = find_model(name, revision=revision, notify=notify)
    notify(f"loading {name}")
    options = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    config = read_config(source, options)
    check_generation_config(source)
    quantised, longest = quantisation(config), longest_prompt(config)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source.folder, **options)
    except Exception as error:  # each tokenizer class raises its own kinds
        raise ModelError(
            f"{name!r}: its tokenizer cannot be read ({one_line(error)}); the folder needs a tokenizer.json"
        ) from error
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"{name!r}: its tokenizer {type(tokenizer).__name__} reports no character offsets, by which words "
            "are found in a prompt; the folder needs a tokenizer.json"
        )
    packing = {"quantization_config": transformers.Mxfp4Config(dequantize=True)} if quantised == "mxfp4" else {}
    try:
        hf_model, loading = transformers.AutoModelForCausalLM.from_pretrained(
            source.folder,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation="eager",
            use_safetensors=True,
            output_loading_info=True,
            **packing,
            **options,
        )
    except Exception as error:  # safetensors, transformers and torch each raise their own kinds
        raise ModelError(
            f"{name!r}: its weights cannot be read ({one_line(error)}); get the folder again, or save it again"
        ) from error
    check_weights(name, hf_model, loading)
    check_vocabulary(name, tokenizer, int(hf_model.get_input_embeddings().weight.shape[0]))
    hf_model = hf_model.to(where).eval().requires_grad_(False)
    ids = probe_ids(config.get_text_config().vocab_size, where)[:, :longest]
    # Before booting: the bridge rewires this very model, and would afterwards be compared with itself.
    with torch.no_grad():
        plain_logits = hf_model(ids).logits
    bridge = _boot(source, hf_model, tokenizer, where, dtype) if interventions else None
    if bridge is None:
        checks = check_network(hf_model, ids, plain_logits, dtype, name)
    else:
        _check_blocks(name, bridge, type(hf_model).__name__)
        checks = check_bridge(bridge, ids, plain_logits, dtype, name)
    text = config.get_text_config()
    n_layers, n_heads = int(text.num_hidden_layers), int(text.num_attention_heads)
    notify(f"{name}: {n_layers} layers x {n_heads} heads, {dtype} on {where}")
    notify(f"checked: {checks.in_one_line()}")
    return LoadedModel(
        source=source,
        network=hf_model if bridge is None else bridge.original_model,
        bridge=bridge,
        tokenizer=tokenizer,
        checks=checks,
        device=str(where),
        dtype=dtype,
        n_layers=n_layers,
        n_heads=n_heads,
        quirks=replace(with_template(known.quirks if known else PLAIN, tokenizer), quantisation=quantised),
        longest_prompt=longest,
    )


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        where = torch.device(device)
        if where.type not in ("cpu", "cuda", "mps"):
            raise ModelError(f"device {device!r} is none that this program knows; give cpu, cuda, mps or auto")
        torch.zeros(1, device=where).item()
    except NotImplementedError as error:  # what torch was built without
        raise ModelError(f"device {device!r} is not there; give cpu or auto") from error
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {device!r} cannot be used ({one_line(error)}); give cpu, cuda or auto") from error
    return where


def _check_blocks(name: str, bridge: Any, architecture: str) -> None:
    blocks = list(getattr(bridge, "blocks", ()))
    without = [layer for layer, block in enumerate(blocks) if not hasattr(block, "attn")]
    if not blocks or without:
        lacks = f"has no attention in {len(without)} of its {len(blocks)} blocks" if blocks else "has no blocks"
        raise ModelError(
            f"{name!r} is a {architecture} and {lacks}, so that there are no heads to patch; give a decoder with "
            "attention in every block"
        )


def _boot(source: ModelSource, hf_model: Any, tokenizer: Any, where: torch.device, dtype: Dtype) -> Any:
    from transformer_lens.model_bridge import TransformerBridge

    try:
        with warnings.catch_warnings(), _nothing_installed():
            warnings.simplefilter("ignore")  # about defaults that are set here
            bridge = TransformerBridge.boot_transformers(
                str(source.folder), hf_model=hf_model, tokenizer=tokenizer, device=where, dtype=getattr(torch, dtype)
            )
    except Exception as error:  # unsupported architectures raise many kinds
        raise ModelError(
            f"TransformerLens cannot bridge {source.name!r} ({type(hf_model).__name__}): {one_line(error)}; "
            "give a model of a family that it supports"
        ) from error
    return bridge.eval().requires_grad_(False)


@contextmanager
def _nothing_installed() -> Iterator[None]:
    """Keep TransformerLens from installing torchvision with pip, and another torch with it, for a model with images.

    It does so in silence where a processor cannot be read, which a model that gets text alone does not need.
    """

    def refuse(command: Any, *rest: Any, **options: Any) -> int:
        raise OSError(f"nothing is run while a model is loaded: {command}")

    with patch.object(subprocess, "check_call", refuse):
        yield
