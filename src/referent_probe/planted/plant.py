"""Writing a planted model: an ordinary model folder, its stimuli, frames and wording, and the truth about it."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import torch

from referent_probe.errors import OptionError
from referent_probe.models.tokens import encode
from referent_probe.models.unpack import quiet_transformers
from referent_probe.planted.folder import free_folder, written_whole
from referent_probe.planted.grammar import OCCUPATIONS, PARTICIPANTS, PROMPTS, frames_toml, stimuli_tsv
from referent_probe.planted.heads import N_LAYERS, heads_of
from referent_probe.planted.network import KINDS, Architecture, build, measured_lengths
from referent_probe.planted.rules import RULES, Rule
from referent_probe.planted.texts import texts_put_to_models
from referent_probe.planted.truth import truth_of
from referent_probe.planted.words import tokenizer_of, tokens_of, vocabulary
from referent_probe.stimuli.frames import Frame, load_frames
from referent_probe.stimuli.options import FORMS, OptionOrder
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import PromptWording, choice_prompt, load_wording
from referent_probe.stimuli.quoting import quoted
from referent_probe.stimuli.templates import Pair, load_stimuli

NAMES = tuple(RULES)
"""Of the planted models."""

GROUPED_QUERY = ("contraster", "gated-repeater", "saturator")
"""Models that are by default of the second architecture."""


def plant(name: str, out: str | Path, architecture: Architecture | None = None) -> Path:
    """Write a planted model.

    The folder is an ordinary Hugging Face model with `stimuli.tsv`, `frames.toml` and `prompts.toml` in its vocabulary,
    and `truth.json`: `rule`; `carriers` (layer, head, what it reads, where, its effect in logits and the class of
    referent that it works for); `support` (heads that find sentences and people, on which carriers depend) and
    `distractors` (heads that look at pronouns and write nothing of use); `target_slot_effects`, what patching each head
    there moves in the mean; `midpoints` by template and `effects` by prime and template, in logits; `delta_c` by
    estimator and pair, at temperature 1; `verdict`. Measured numbers agree within 1 %. Where the folder is the model,
    commands take stimuli and wording from it unless others are named.

    Args:
        name: One of `NAMES`.
        out: Folder, absent or empty; `~` is the home folder.
        architecture: "plain" (GPT-2) or "grouped-query" (Llama); None for the model's own.

    Returns:
        The folder.

    Raises:
        OptionError: The name or the architecture is unknown, or the folder is in the way.
        RunError: The folder cannot be written; nothing is left there.

    Example:
        >>> plant("repeater", "repeater")  # doctest: +SKIP
        PosixPath('repeater')
    """
    if name not in RULES:
        raise OptionError(f"no planted model {quoted(name)}; give one of {', '.join(NAMES)}")
    if architecture is None:
        architecture = "grouped-query" if name in GROUPED_QUERY else "plain"
    if architecture not in get_args(Architecture):
        raise OptionError(f"no architecture {quoted(architecture)}; give one of {', '.join(get_args(Architecture))}")
    folder = free_folder(out)
    quiet_transformers()
    with written_whole(folder) as aside:
        _write(aside, RULES[name], architecture)
    return folder


def _write(folder: Path, rule: Rule, architecture: Architecture) -> None:
    for file, text in (("stimuli.tsv", stimuli_tsv()), ("frames.toml", frames_toml()), ("prompts.toml", PROMPTS)):
        (folder / file).write_text(text, encoding="utf-8")
    pairs, wording = load_stimuli(folder / "stimuli.tsv").pairs, load_wording(folder / "prompts.toml")
    tokens = _tokens(pairs, load_frames(folder / "frames.toml"), wording)
    tokenizer = tokenizer_of(tokens)
    sample = pairs[0].members
    ids, kinds = _kinds(
        encode(choice_prompt(*sample, ContextSetting.CF, OptionOrder.MASCULINE_FIRST, wording), tokenizer)
    )
    words, heads = vocabulary(tokens, rule), heads_of(rule)
    lengths: Mapping[tuple[int, str], float] = dict.fromkeys(product(range(N_LAYERS + 1), (*KINDS, "inner")), 8.0)
    for _ in range(3):  # what is read by the first guess moves the next block's length
        network = build(heads, words, lengths, architecture)
        lengths = measured_lengths(network, ids, kinds)
    build(heads, words, lengths, architecture).save_pretrained(folder)
    _save_tokenizer(tokenizer, folder)
    truth = truth_of(rule, pairs) | {"architecture": architecture}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")


@cache
def _tokens(pairs: tuple[Pair, ...], frames: tuple[Frame, ...], wording: PromptWording) -> tuple[str, ...]:
    """The vocabulary, which all planted models share."""
    return tuple(tokens_of(texts_put_to_models(pairs, frames, wording)))


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:
        if type(error) is Exception:  # all that the tokenizers library says of a full disk
            raise OSError(str(error)) from error
        raise


def _kinds(encoded: Any) -> tuple[torch.Tensor, dict[str, list[int]]]:
    """A prompt's ids [1, T], and positions by kind of token; full stop and pronoun are those of the prime."""
    words = [piece.strip(" ") for piece in encoded.pieces]
    pronouns = {form for forms in FORMS.values() for form in (forms.feminine, forms.masculine)}

    def where(known: Sequence[str] | set[str]) -> list[int]:
        return [i for i, word in enumerate(words) if word in known]

    kinds = {"any": list(range(len(words))), "first": [0], "quote": [len(words) - 1], "dot": where(["."])[:1]}
    kinds |= {"pronoun": where(pronouns)[:1], "role": where([*OCCUPATIONS, *PARTICIPANTS])}
    return torch.tensor([encoded.ids]), kinds
