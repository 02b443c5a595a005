"""Sampling settings: which of a model's own apply, and what they do to its scores.

`transformers.generate` takes temperature and top-k from its caller but keeps whatever else the model's
`generation_config.json` asks for (a nucleus, a repetition penalty, ...). Here nothing of that is applied unseen and
nothing is dropped unseen: what cannot be reproduced is refused, until the user switches it off by name.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper

from referent_probe.errors import ModelError, OptionError
from referent_probe.models.load import LoadedModel

_TIES = 24
"""Tokens looked at beyond the k-th, for those that tie with it; where these do not do, the whole row is looked at."""

# Replaced by `SamplingSettings`, and recorded where they differ. max_new_tokens goes before max_length in `generate`.
_GIVEN = ("temperature", "top_k", "do_sample", "max_new_tokens", "max_length")

# These change neither a score nor, when sampling one answer, where it ends.
_HARMLESS = frozenset(
    {
        *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),  # the second is read apart
        *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"),
        *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "compile_config", "disable_compile"),
        *("continuous_batching_config", "prefill_chunk_size", "low_memory", "num_return_sequences"),
        *("renormalize_logits", "early_stopping", "length_penalty", "diversity_penalty", "num_beam_groups"),
        *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
        *("max_matching_ngram_size", "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight"),
        *("transformers_version", "_from_model_config"),
    }
)

# The value at which a setting does nothing; None, False and empty lists do nothing for any of them.
_NEUTRAL: dict[str, float] = {
    "top_p": 1.0,
    "typical_p": 1.0,
    "min_p": 0.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "guidance_scale": 1.0,
    "num_beams": 1,
}


@dataclass(frozen=True)
class SamplingSettings:
    """How answers are drawn. The defaults are the paper's (arXiv 2603.23485).

    Attributes:
        temperature: Above 0; 1 leaves the scores as they are.
        top_k: Only so many of the highest scores can be drawn, and all that tie with the last of them; at least 1,
            None for the whole vocabulary.
        max_new_tokens: Length limit of an answer in tokens, at least 1; an end of sequence counts as one.

    Raises:
        OptionError: A value is out of range.
    """

    temperature: float = 0.5
    top_k: int | None = 40
    max_new_tokens: int = 6

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise OptionError(
                f"temperature {self.temperature!r} is not a number above 0; "
                "use a small temperature or read the next token"
            )
        if self.top_k is not None and not _is_count(self.top_k):
            raise OptionError(
                f"top_k {self.top_k!r} is not a whole number of at least 1; give None for the whole vocabulary"
            )
        if not _is_count(self.max_new_tokens):
            raise OptionError(
                f"max_new_tokens {self.max_new_tokens!r} is not a whole number of at least 1; the paper has 6"
            )


@dataclass(frozen=True)
class ResolvedSettings(SamplingSettings):
    """Settings joined with what the model's own generation_config says.

    Attributes:
        eos_ids: Tokens that end an answer; empty where the model names none.
        replaced: (name, the model's value, value used) where the two differ.
        overridden: (name, the model's value) of what the user switched off.
    """

    eos_ids: tuple[int, ...] = ()
    replaced: tuple[tuple[str, Any, Any], ...] = ()
    overridden: tuple[tuple[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for the manifest."""
        return asdict(self)


def resolve_settings(
    model: LoadedModel, given: SamplingSettings | None = None, *, override: Collection[str] = ()
) -> ResolvedSettings:
    """Join the settings that a user gives with the model's own.

    Args:
        model: Its `generation_config` is read.
        given: They replace the model's temperature, top_k, do_sample and length limit; the default is the paper's.
        override: Names of settings of the model to switch off, e.g. ["top_p"]; one that it lacks does no harm.

    Raises:
        ModelError: The model asks for something else that changes scores or ends answers.
        OptionError: `override` holds a name that cannot be switched off.

    Example:
        A model with temperature 0.6 and top_p 0.9 is refused, and with `override=["top_p"]` gives settings whose
        `replaced` holds ("temperature", 0.6, 0.5) and whose `overridden` is (("top_p", 0.9),).
    """
    given = given or SamplingSettings()
    config = model.network.generation_config or GenerationConfig()
    own, known = config.to_dict(), GenerationConfig().to_dict()
    for name in override:
        if name not in known or name in _HARMLESS or name in _GIVEN:
            raise OptionError(
                f"override {name!r} is no setting that can be switched off; give names such as {', '.join(_NEUTRAL)}"
            )
    # What this transformers does not know, it does not apply either.
    extra = {name: value for name, value in own.items() if name in known and not _does_nothing(name, value)}
    unsupported = {name: value for name, value in extra.items() if name not in override}
    if unsupported:
        listed = ", ".join(f"{name} = {value!r}" for name, value in unsupported.items())
        raise ModelError(
            f"{model.source.name!r}: its generation_config sets {listed}, which sampling would apply and exact "
            f"answer probabilities do not reproduce; measure without it by --override {','.join(unsupported)}"
        )
    used = {"temperature": given.temperature, "top_k": given.top_k, "do_sample": True}
    used |= {"max_new_tokens": given.max_new_tokens, "max_length": None}
    eos = own.get("eos_token_id")
    return ResolvedSettings(
        temperature=given.temperature,
        top_k=given.top_k,
        max_new_tokens=given.max_new_tokens,
        eos_ids=() if eos is None else tuple(eos) if isinstance(eos, list | tuple) else (eos,),
        replaced=tuple((n, own[n], used[n]) for n in _GIVEN if own.get(n) is not None and own[n] != used[n]),
        overridden=tuple((name, value) for name, value in extra.items() if name in override),
    )


def warp(logits: Tensor, settings: SamplingSettings) -> Tensor:
    """Scores as `generate` draws from them: by its own processors, in its order, in its float32.

    Args:
        logits: [n, vocabulary].
        settings: Temperature and top-k.

    Returns:
        Scores [n, vocabulary], float32; -inf where a token cannot be drawn.

    Raises:
        ModelError: Scores are not numbers, so that no token could be drawn.

    Example:
        >>> warp(torch.tensor([[1.0, 2.0, 2.0, 3.0]]), SamplingSettings(temperature=0.5, top_k=2)).tolist()
        [[-inf, 4.0, 4.0, 6.0]]
    """
    processors = LogitsProcessorList()
    if settings.temperature != 1:
        processors.append(TemperatureLogitsWarper(float(settings.temperature)))
    if settings.top_k is not None:
        processors.append(TopKLogitsWarper(int(settings.top_k)))
    # Temperature and top-k do not look at the tokens before.
    scores: Tensor = processors(None, logits.to(torch.float32))
    if bool((scores.isnan() | (scores == math.inf)).any()):
        raise ModelError(
            f"next-token scores at temperature {settings.temperature!r} are not finite numbers; load the model in "
            "float32 or give a larger temperature"
        )
    return scores


class Likely(NamedTuple):
    """What may be drawn next.

    Attributes:
        ids: Token ids [m].
        probabilities: Of each under each setting [settings, m]; each row sums to 1.
    """

    ids: NDArray[np.int64]
    probabilities: NDArray[np.float64]


def likely(logits: Tensor, settings: Sequence[SamplingSettings]) -> list[Likely]:
    """The tokens that can be drawn behind each row, under several settings that differ in temperature only.

    Args:
        logits: [n, vocabulary].
        settings: One or more; their top_k is the same.

    Returns:
        One a row. Tokens that no setting can draw may be left out; all others are there.

    Raises:
        ModelError: As `warp`.

    Example:
        >>> likely(torch.tensor([[0.0, 9.0, 9.0, 0.0]]), [SamplingSettings(top_k=1)])[0].probabilities.max()
        np.float64(0.5)
    """
    top_k, size = settings[0].top_k, logits.shape[1]
    values, ids = logits, torch.arange(size, device=logits.device).expand(len(logits), -1)
    if top_k is not None and top_k + _TIES < size:
        values, ids = logits.topk(top_k + _TIES)
    scores = [warp(values, setting) for setting in settings]
    if values is not logits and not all(bool(torch.isinf(score[:, -1]).all()) for score in scores):
        # So many tie with the k-th that some may have been cut off.
        values, ids = logits, torch.arange(size, device=logits.device).expand(len(logits), -1)
        scores = [warp(values, setting) for setting in settings]
    probabilities = torch.stack([score.double().softmax(-1) for score in scores], dim=1).cpu().numpy()
    return [
        Likely(numbers[drawn], p[:, drawn])
        for numbers, p in zip(ids.cpu().numpy(), probabilities, strict=True)
        for drawn in [np.flatnonzero((p > 0).any(0))]
    ]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _does_nothing(name: str, value: Any) -> bool:
    if name in _HARMLESS or name in _GIVEN or value is None or value is False:
        return True
    if isinstance(value, list | tuple | dict | str) and not value:
        return True
    return name in _NEUTRAL and value == _NEUTRAL[name]
