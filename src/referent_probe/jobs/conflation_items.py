"""What the conflation job runs on: primed prompts by pair, and primed contrasts whose heads are patched."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from referent_probe.errors import PromptError
from referent_probe.jobs.job import Context
from referent_probe.stimuli.beside_model import stimuli_for
from referent_probe.stimuli.builtin_frames import frames_for, mentions_for
from referent_probe.stimuli.conflation_primes import (
    ConflationPrime,
    PrimedPrompts,
    primed_prompts,
    unprimed_prompts,
)
from referent_probe.stimuli.frame_rotation import FrameRotation, rotate_frames
from referent_probe.stimuli.options import OptionOrder
from referent_probe.stimuli.prompts import Prompt
from referent_probe.stimuli.templates import Pair, Template, load_stimuli
from referent_probe.stimuli.third_roles import ThirdRoles, third_roles

if TYPE_CHECKING:
    from referent_probe.jobs.conflation import ConflationJob
    from referent_probe.mechanism.contrasts import Contrast

PATCHED = (
    ConflationPrime.SAME,
    ConflationPrime.OTHER,
    ConflationPrime.THIRD,
    ConflationPrime.PARTNER,
    ConflationPrime.THIRD_FRAME,
)
"""Primes after which heads are patched; of those with frames, the template's first one."""


@dataclass(frozen=True)
class Item:
    """A pair with all its primed prompts.

    Attributes:
        id: Of the pair.
        pair: The pair.
    """

    id: str
    pair: Pair


@dataclass(frozen=True)
class Material:
    """Everything that is asked.

    Attributes:
        items: The pairs.
        orders: Orders of the options.
        rotation: Frames by template.
        thirds: Third persons by pair.
        contrasts: Of `PATCHED` but the partner, by id, those that can be patched.
        damaged: Contrasts on which damage is looked for: the own person's pronoun, alone and beside the other's.
        skipped: Why a kind of prime is missing, by its name.
    """

    items: tuple[Item, ...]
    orders: tuple[OptionOrder, ...]
    rotation: FrameRotation
    thirds: Mapping[str, ThirdRoles]
    contrasts: tuple["Contrast", ...]
    damaged: tuple["Contrast", ...]
    skipped: Mapping[str, str]

    def primed(self, context: Context, pair: Pair, template: Template, order: OptionOrder) -> tuple[PrimedPrompts, ...]:
        """All primes of a template."""
        frames = self.rotation.by_template[template.id]
        return primed_prompts(pair, template, order, frames, self.thirds[pair.id], context.wording)

    def unprimed(self, context: Context, pair: Pair, template: Template, order: OptionOrder) -> Mapping[str, Prompt]:
        """Prompts without a priming pronoun, by setting."""
        return {str(k): v for k, v in unprimed_prompts(pair, template, order, context.wording).items()}


def material_for(context: Context, job: "ConflationJob") -> Material:
    """Choose frames and third persons, and encode what is patched; the same for the same settings.

    Raises:
        StimuliError: No frame fits a case, or nobody can be the third person.
    """
    return _material(_Key(context, job))


@dataclass(frozen=True, eq=False)
class _Key:
    context: Context
    job: "ConflationJob"

    def __hash__(self) -> int:
        return hash((id(self.context.model), self.job))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.context.model is other.context.model and self.job == other.job


@cache
def _material(key: _Key) -> Material:
    context, job = key.context, key.job
    settings, tokenizer = context.settings, context.model.tokenizer
    unknown = tokenizer.unk_token_id

    def length(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    def knows(text: str) -> bool:
        return unknown is None or unknown not in tokenizer(text, add_special_tokens=False)["input_ids"]

    pairs = list(context.pairs.values())
    everything = load_stimuli(stimuli_for(settings.model, settings.stimuli), settings.password).pairs
    rotation = rotate_frames(
        pairs,
        frames_for(settings.model, job.frames),
        mentions_for(settings.model, job.frames),
        length,
        settings.seed,
        at_hand=job.frames_at_hand,
        per_template=job.frames_per_template,
        knows=knows,
    )
    orders = tuple(order for order in OptionOrder if settings.order in ("both", order))
    thirds = third_roles(pairs, length, settings.seed, everything)
    material = Material(
        tuple(Item(pair.id, pair) for pair in pairs), orders, rotation, thirds, (), (), dict(rotation.skipped)
    )
    patched, damaged = _contrasts(context, material)
    return Material(**{**material.__dict__, "contrasts": patched, "damaged": damaged})


def _contrasts(context: Context, material: Material) -> tuple[tuple["Contrast", ...], tuple["Contrast", ...]]:
    from referent_probe.mechanism.primed import as_contrast
    from referent_probe.models.tokens import encode

    tokens = {contrast.template.case: (contrast.tokens, contrast.they) for contrast in context.contrasts}
    patched, damaged = [], []
    for item in material.items:
        for template in item.pair.members:
            for order in material.orders:
                seen: set[str] = set()
                for primed in material.primed(context, item.pair, template, order):
                    key = f"{primed.prime}" if primed.prime is not ConflationPrime.BOTH else "both"
                    wanted = primed.prime in PATCHED or primed.prime is ConflationPrime.BOTH
                    if primed.prime is ConflationPrime.PARTNER or not wanted or key in seen:
                        continue
                    seen.add(key)
                    encoded = tuple(
                        encode(prompt, context.model.tokenizer, context.model.quirks)
                        for prompt in (primed.feminine, primed.masculine)
                    )
                    options, they = tokens[template.case]
                    contrast = as_contrast(template, order, key, (encoded[0], encoded[1]), options, they)
                    if contrast.left_out is not None:
                        continue
                    if primed.prime in PATCHED:
                        patched.append(contrast)
                    if primed.prime in (ConflationPrime.SAME, ConflationPrime.BOTH):
                        damaged.append(contrast)
    if not patched:
        raise PromptError(
            "no prime differs in one token alone with this tokenizer; use a model that keeps pronouns whole"
        )
    return tuple(patched), tuple(damaged)
