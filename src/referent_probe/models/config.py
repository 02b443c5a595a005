"""A model folder's config files: whether they can be used, and what they say."""

from typing import Any

import transformers

from referent_probe.errors import ModelError
from referent_probe.models.source import ModelSource
from referent_probe.models.unpack import one_line


def read_config(source: ModelSource, options: dict[str, Any]) -> Any:
    """The folder's config.

    Args:
        source: The model.
        options: For transformers: `local_files_only`, `trust_remote_code`.

    Raises:
        ModelError: It cannot be read, or is no causal language model's.
    """
    try:
        config = transformers.AutoConfig.from_pretrained(source.folder, **options)
    except Exception as error:  # JSON, unknown architectures and remote code each raise their own kinds
        raise ModelError(
            f"{source.name!r}: its config cannot be used ({one_line(error)}); an architecture that brings its own "
            "code needs trust_remote_code=True, which you should give to authors you trust only"
        ) from error
    architecture = (getattr(config, "architectures", None) or [""])[0]
    causal = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    named_causal = architecture.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"))
    encoder_only = bool(architecture) and not named_causal
    if (
        config.is_encoder_decoder
        or encoder_only
        or (config.model_type not in causal and not options["trust_remote_code"])
    ):
        raise ModelError(
            f"{source.name!r} is a {architecture or config.model_type}, not a causal language model: it has no next "
            "token to read a pronoun from; give a decoder-only model (…ForCausalLM)"
        )
    if not architecture:
        config.architectures = [causal[config.model_type]]
    return config


def quantisation(config: Any) -> str | None:
    """How the stored weights are packed ("mxfp4"); None where they are not."""
    stored = getattr(config, "quantization_config", None)
    method = stored.get("quant_method") if isinstance(stored, dict) else getattr(stored, "quant_method", None)
    return None if method is None else str(getattr(method, "value", method))


def longest_prompt(config: Any) -> int | None:
    """Positions up to which a pass in two parts and a whole one agree; None where the config names no limit."""
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    limits = [getattr(text, "max_position_embeddings", None)]
    for part in (rope, *(part for part in rope.values() if isinstance(part, dict))):  # one for all, or by kind of block
        if part.get("rope_type") in ("dynamic", "longrope"):
            limits += [source.get("original_max_position_embeddings") for source in (part, vars(text))]
    return min((int(limit) for limit in limits if limit), default=None)


def check_generation_config(source: ModelSource) -> None:
    """Refuse one that cannot be read: transformers would go on without it, and whole answers have other numbers."""
    if not (source.folder / "generation_config.json").exists():
        return
    try:
        transformers.GenerationConfig.from_pretrained(source.folder, local_files_only=True)
    except Exception as error:  # what is no JSON and what is no table raise different kinds
        raise ModelError(
            f"{source.name!r}: its generation_config.json cannot be read ({one_line(error)}); get the file again, or "
            "remove it if the model has no settings of its own for sampling"
        ) from error
