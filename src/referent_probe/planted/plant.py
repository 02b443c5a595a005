"""Writing a planted model: an ordinary model folder, its stimuli, frames and wording, and the truth about it."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, get_args

import numpy as np
import torch

from referent_probe.analysis.contextuality import delta_c
from referent_probe.errors import OptionError
from referent_probe.models.tokens import encode
from referent_probe.models.unpack import quiet_transformers
from referent_probe.planted.grammar import OCCUPATIONS, PARTICIPANTS, PROMPTS, frames_toml, stimuli_tsv
from referent_probe.planted.heads import N_LAYERS, heads_of
from referent_probe.planted.network import KINDS, Architecture, build, measured_lengths
from referent_probe.planted.rules import MIDPOINT, PRIMES, RULES, Referent, Rule
from referent_probe.planted.words import prior_of, tokenizer_of, tokens_of, vocabulary
from referent_probe.run_files import writing
from referent_probe.stimuli.frames import load_frames
from referent_probe.stimuli.joint_prompts import joint_prompt
from referent_probe.stimuli.options import FORMS, Gender, OptionOrder
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import DEFAULT_WORDING, Prompt, choice_prompt, load_wording
from referent_probe.stimuli.questions import SYSTEM, questions
from referent_probe.stimuli.templates import Pair, Template, load_stimuli

NAMES = tuple(RULES)
"""Of the planted models."""

READS = {
    "own": "the pronoun of the blank's own referent",
    "other": "the pronoun of the other person of the target sentence",
    "own or other": "a pronoun of either person of the target sentence",
    "last": "the last gendered word of the passage",
}

GROUPED_QUERY = ("contraster", "gated-repeater", "saturator")
"""Models that are by default of the second architecture."""


def plant(name: str, out: str | Path, architecture: Architecture | None = None) -> Path:
    """Write a planted model.

    The folder is an ordinary Hugging Face model with `stimuli.tsv`, `frames.toml` and `prompts.toml` in its vocabulary,
    which the commands read where the folder is the model, and `truth.json`: `rule`; `carriers` (layer, head, what it
    reads, where, its effect in logits and the class of referent that it works for); `support` (heads that find
    sentences and people, on which carriers depend) and `distractors` (heads that look at pronouns and write nothing of
    use); `midpoints` by template and `effects` by prime and template, in logits; `delta_c` by estimator and pair, at
    temperature 1; `verdict`.

    Args:
        name: One of `NAMES`.
        out: Folder, absent or empty.
        architecture: "plain" (GPT-2) or "grouped-query" (Llama); None for the model's own.

    Returns:
        The folder.

    Raises:
        OptionError: The name or the architecture is unknown, or the folder is in the way.
        RunError: The folder cannot be written.

    Example:
        >>> plant("repeater", "repeater")  # doctest: +SKIP
        PosixPath('repeater')
    """
    quiet_transformers()
    folder = Path(out)
    if name not in RULES:
        raise OptionError(f"no planted model {name!r}; give one of {', '.join(NAMES)}")
    if architecture is None:
        architecture = "grouped-query" if name in GROUPED_QUERY else "plain"
    if architecture not in get_args(Architecture):
        raise OptionError(f"no architecture {architecture!r}; give one of {', '.join(get_args(Architecture))}")
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise OptionError(f"{str(folder)!r} is there already and not an empty folder; name another one with --out")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _write(aside, RULES[name], architecture)
            aside.chmod(0o755)
            for file in aside.iterdir():
                file.chmod(0o644)
            aside.replace(folder)  # whole or absent
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return folder


def _write(folder: Path, rule: Rule, architecture: Architecture) -> None:
    for file, text in (("stimuli.tsv", stimuli_tsv()), ("frames.toml", frames_toml()), ("prompts.toml", PROMPTS)):
        (folder / file).write_text(text, encoding="utf-8")
    pairs, wording = load_stimuli(folder / "stimuli.tsv").pairs, load_wording(folder / "prompts.toml")
    prompts = [
        choice_prompt(template, pair.partner(template), setting, OptionOrder.MASCULINE_FIRST, wording)
        for pair in pairs
        for template in pair.members
        for setting in ContextSetting
    ]
    tokens = tokens_of(_texts(folder, pairs, prompts))
    tokenizer = tokenizer_of(tokens)
    sample = next(p for p in prompts if p.setting is ContextSetting.CF)
    ids, kinds = _kinds(encode(sample, tokenizer))
    words, heads = vocabulary(tokens, rule), heads_of(rule)
    lengths: Mapping[tuple[int, str], float] = dict.fromkeys(
        [(layer, kind) for layer in range(N_LAYERS + 1) for kind in (*KINDS, "inner")], 8.0
    )
    for _ in range(3):  # what is read by the first guess moves the next block's length
        network = build(heads, words, lengths, architecture)
        lengths = measured_lengths(network, ids, kinds)
    build(heads, words, lengths, architecture).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    truth = truth_of(rule, pairs) | {"architecture": architecture}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")


def truth_of(rule: Rule, pairs: Sequence[Pair]) -> dict[str, Any]:
    """What `truth.json` says, but for the architecture."""
    templates: list[tuple[Template, Referent]] = [
        (template, template.antecedent.value) for pair in pairs for template in pair.members
    ]
    midpoints = {t.id: MIDPOINT + rule.prior * prior_of(t.antecedent_noun) for t, _ in templates}
    effects = {prime: {t.id: rule.effect(prime, referent) for t, referent in templates} for prime in PRIMES}
    return {
        "name": rule.name,
        "rule": rule.words,
        **_heads(rule),
        "midpoints": midpoints,
        "effects": effects,
        "delta_c": {
            estimator: {pair.id: _delta_c(pair, midpoints, effects["partner"], estimator) for pair in pairs}
            for estimator in ("self_primed", "steered")
        },
        "verdict": rule.verdict,
        "unit": "logits; temperature 1",
    }


def _delta_c(pair: Pair, midpoints: Mapping[str, float], effects: Mapping[str, float], estimator: Any) -> float:
    one, two = (template.id for template in pair.members)

    def p(member: str, prime: float) -> float:
        return float(1 / (1 + np.exp(-midpoints[member] - prime * effects[member] / 2)))

    six = [p(one, 0), p(two, 0), p(two, 1), p(two, -1), p(one, 1), p(one, -1)]
    return float(delta_c(*six, estimator=estimator))


def _heads(rule: Rule) -> dict[str, Any]:
    """Every head once: carriers, those that they depend on, distractors, and the saturator's constant one."""
    heads = heads_of(rule)
    carriers = [
        {
            "layer": 4,
            "head": head,
            "reads": READS[carrier.reads],
            "where": "target-slot",
            "effect": carrier.effect,
            "only": carrier.only,
        }
        for head, carrier in _placed(rule)
    ]
    if any(carrier.reads != "last" for carrier in rule.carriers):
        reads = "the gendered word of its sentence, for the heads of block 4"
        carriers.insert(0, {"layer": 1, "head": 1, "reads": reads, "where": "sentence-end"})
    named = {(carrier["layer"], carrier["head"]) for carrier in carriers}
    constant = [{"layer": 4, "head": 2}] if rule.constant else []
    distractors = [place for place, head in heads.items() if "distraction" in head.writes]
    support = [
        p for p in heads if p not in named and p not in distractors and {"layer": p[0], "head": p[1]} not in constant
    ]
    listed = {"carriers": carriers, "support": _places(support), "distractors": _places(distractors)}
    return listed | ({"constant": constant} if constant else {})


def _placed(rule: Rule) -> Iterator[tuple[int, Any]]:
    """Carriers of block 4 with their heads, as `heads_of` places them."""
    yield from enumerate(carrier for carrier in rule.carriers if carrier.reads != "last")
    yield from enumerate((carrier for carrier in rule.carriers if carrier.reads == "last"), start=2)


def _places(places: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"layer": layer, "head": head} for layer, head in places]


def _texts(folder: Path, pairs: Sequence[Pair], prompts: Sequence[Prompt]) -> Iterator[str]:
    """Every text that a command may put to the model: choices, frames, both blanks at once, questions."""
    for prompt in prompts:
        yield "".join(message.text for message in prompt.messages) + "\n"
        yield "".join(segment.text for segment in prompt.prefill)
    for frame in load_frames(folder / "frames.toml"):
        for noun in (*OCCUPATIONS, *PARTICIPANTS):
            yield " ".join(frame.filled(noun, gender) for gender in Gender)
    orders = (OptionOrder.MASCULINE_FIRST, OptionOrder.FEMININE_FIRST)
    for pair in pairs:
        for template in pair.members:
            yield template.filled(FORMS[template.case].they)
            for question in questions(template, ContextSetting.CF):
                yield f'Text: Question: {question.text} Answers: "{"".join(question.answers)}", "{question.answers[0]}"'
                yield " ".join(question.answers)
        joint = joint_prompt(pair, 1, orders, FORMS[pair.case].feminine)
        yield "".join(message.text for message in joint.messages)
        yield "".join(segment.text for segment in joint.prefill)
    yield from (DEFAULT_WORDING.system, DEFAULT_WORDING.user, DEFAULT_WORDING.prefill, SYSTEM, "is.")
    for forms in FORMS.values():
        for form in (forms.feminine, forms.masculine, forms.they):
            yield f"{form} {form}"


def _kinds(encoded: Any) -> tuple[torch.Tensor, dict[str, list[int]]]:
    """A prompt's ids [1, T], and positions by kind of token; full stop and pronoun are those of the prime."""
    words = [piece.strip(" ") for piece in encoded.pieces]
    pronouns = {form for forms in FORMS.values() for form in (forms.feminine, forms.masculine)}

    def where(known: Sequence[str] | set[str]) -> list[int]:
        return [i for i, word in enumerate(words) if word in known]

    kinds = {"any": list(range(len(words))), "first": [0], "quote": [len(words) - 1], "dot": where(["."])[:1]}
    kinds |= {"pronoun": where(pronouns)[:1], "role": where([*OCCUPATIONS, *PARTICIPANTS])}
    return torch.tensor([encoded.ids]), kinds
