"""Primes that differ in whose pronoun it is: what the verdict on referent conflation is drawn from.

Prompts come in twos that differ in the gender of one pronoun; the effect of a prime is the log-odds after the feminine
one less those after the masculine one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from referent_probe.stimuli.frame_rotation import TemplateFrames
from referent_probe.stimuli.frames import Frame, Prime, owner_of
from referent_probe.stimuli.options import FORMS, Gender, OptionOrder
from referent_probe.stimuli.primes import NULL_PRIMES, ContextSetting, Segment, Span, prime_segments
from referent_probe.stimuli.prompts import DEFAULT_WORDING, Prompt, PromptWording, choice_prompt, prompt_after
from referent_probe.stimuli.templates import Pair, Role, Template
from referent_probe.stimuli.third_roles import ThirdRoles

SETTINGS: Mapping[Gender, ContextSetting] = {
    Gender.FEMININE: ContextSetting.CF,
    Gender.MASCULINE: ContextSetting.CM,
}
"""Under which setting a prompt with that priming pronoun goes."""

UNPRIMED = (ContextSetting.C0, *NULL_PRIMES, ContextSetting.R_NP)


class ConflationPrime(StrEnum):
    """Whose pronoun a prime has.

    `SAME`: the blank's own referent's. `OTHER`: the other person's of the target sentence. `THIRD`: that of somebody
    who is not in it. `MENTION`: nobody's, the word stands as a word. `BOTH`: there are two, one of each person of the
    target sentence. `PARTNER`: the other person's, in the other sentence of the pair, the paper's prime. `THIRD_FRAME`:
    the same sentence about two people who are not in the target sentence. `CROSS_OTHER`, `CROSS_THIRD`: as `OTHER` and
    `THIRD`, with a pronoun of another case than the blank's.
    """

    SAME = "same"
    OTHER = "other"
    THIRD = "third"
    MENTION = "mention"
    BOTH = "both"
    PARTNER = "partner"
    THIRD_FRAME = "third_frame"
    CROSS_OTHER = "cross_other"
    CROSS_THIRD = "cross_third"


@dataclass(frozen=True)
class PrimedPrompts:
    """Two prompts that differ in the gender of one priming pronoun.

    Attributes:
        prime: Whose pronoun it is.
        variant: Of `both`, what is held, such as "own first, other feminine"; of `mention`, its sentence; of the cross
            primes, the case of their pronoun; else "".
        frame: Text of the frame with its slots, of `both` that of the own person's; of `mention` the one whose distance
            it has; "" of `partner` and `third_frame`.
        owner_noun: Of the person whose pronoun varies; None of `mention`.
        feminine: Prompt with the feminine form; its setting is `cf`.
        masculine: Prompt with the masculine form; its setting is `cm`.
    """

    prime: ConflationPrime
    variant: str
    frame: str
    owner_noun: str | None
    feminine: Prompt
    masculine: Prompt


def antecedent_is_first(template: Template) -> bool:
    """Whether the sentence names the blank's own referent before the other person.

    Example:
        True of "The baker told the guest that BLANK was tired.", of the baker's blank.
    """
    people = [piece.kind for piece in template.pieces if piece.kind in tuple(Role)]
    return people[0] == template.antecedent


def primed_prompts(
    pair: Pair,
    template: Template,
    order: OptionOrder,
    frames: TemplateFrames,
    thirds: ThirdRoles,
    wording: PromptWording = DEFAULT_WORDING,
) -> tuple[PrimedPrompts, ...]:
    """All primes of a template.

    `same`, `other`, `third` and `mention` come with each of the template's frames, and differ in the role noun alone
    (`mention` in all words but the pronoun). `both` comes with the first frame about the own person and another one
    about the other: in two orders, and with either gender of the other's pronoun. In each the own pronoun varies, so
    that the other's effect is half a difference between variants' sums, and that of the last position a difference
    between orders. The cross primes come with one frame. `mention` and the cross primes are missing where `frames` has
    none.

    Args:
        pair: The template's.
        template: Target sentence.
        order: Which option is shown first.
        frames: Of this template, from `rotate_frames`.
        thirds: Of this pair, from `third_roles`.
        wording: The fixed words.

    Raises:
        StimuliError: A third person is in the target sentence.

    Example:
        The feminine prompt of `other`, of the guest's blank, reads

            Text: The baker finally made up her mind. The baker told the guest that BLANK could pay.
    """
    partner, third = pair.partner(template), thirds.of(_role_of_other(template)).noun
    nouns = {prime: owner_of(template, prime, third) for prime in Prime}
    texts = (
        *_one_person(nouns, frames),
        *_mentions(template, frames),
        *_both(nouns, frames),
        *(
            _Text(prime, {g: prime_segments(s, SETTINGS[g]) for g in SETTINGS}, s.antecedent_noun)
            for prime, s in (
                (ConflationPrime.PARTNER, partner),
                (ConflationPrime.THIRD_FRAME, _with_roles(partner, thirds)),
            )
        ),
        *_cross(nouns, frames),
    )
    return tuple(
        PrimedPrompts(
            text.prime,
            text.variant,
            text.frame,
            text.noun,
            *(prompt_after(template, text.segments[g], SETTINGS[g], order, wording) for g in SETTINGS),
        )
        for text in texts
    )


def unprimed_prompts(
    pair: Pair, template: Template, order: OptionOrder, wording: PromptWording = DEFAULT_WORDING
) -> Mapping[ContextSetting, Prompt]:
    """Prompts without a priming pronoun: nothing before the target, the null primes, and the partner with a noun.

    Args:
        pair: The template's.
        template: Target sentence.
        order: Which option is shown first.
        wording: The fixed words.

    Returns:
        By setting: `c0`, `n1`, `n2`, and `r_np`, the prime `referent_only`.
    """
    partner = pair.partner(template)
    return {setting: choice_prompt(template, partner, setting, order, wording) for setting in UNPRIMED}


def _role_of_other(template: Template) -> Role:
    return Role.PARTICIPANT if template.antecedent is Role.OCCUPATION else Role.OCCUPATION


@dataclass(frozen=True)
class _Text:
    """A prime before it is put into a prompt."""

    prime: ConflationPrime
    segments: Mapping[Gender, tuple[Segment, ...]]
    noun: str | None
    frame: str = ""
    variant: str = ""


def _about(frame: Frame, noun: str) -> dict[Gender, tuple[Segment, ...]]:
    return {gender: frame.segments(noun, gender) for gender in SETTINGS}


def _one_person(nouns: Mapping[Prime, str], frames: TemplateFrames) -> Iterator[_Text]:
    for prime, noun in nouns.items():
        for frame in frames.own:
            yield _Text(ConflationPrime(prime), _about(frame, noun), noun, frame.text)


def _mentions(template: Template, frames: TemplateFrames) -> Iterator[_Text]:
    forms = FORMS[template.case]
    for frame, matched in zip(frames.own if frames.mentions else (), frames.mentions, strict=True):
        segments = {gender: matched.mention.segments(forms.of(gender)) for gender in SETTINGS}
        yield _Text(ConflationPrime.MENTION, segments, None, frame.text, matched.mention.text)


def _both(nouns: Mapping[Prime, str], frames: TemplateFrames) -> Iterator[_Text]:
    """Only the own person's pronoun is the priming one; as in the partner, all after it is after it."""
    own, after = frames.own[0], Span.PRIME_AFTER_PRONOUN
    spans = {Span.PRIME_OWNER: Span.PRIME_NONOWNER}
    for held in SETTINGS:
        other = frames.others[0].segments(nouns[Prime.OTHER], held)
        behind = (Segment(" ", after), *(replace(part, span=after) for part in other))
        ahead = (
            *(replace(part, span=spans.get(part.span, Span.PRIME_REST)) for part in other),
            Segment(" ", Span.PRIME_REST),
        )
        for place, first, last in (("first", (), behind), ("last", ahead, ())):
            segments = {g: (*first, *varied, *last) for g, varied in _about(own, nouns[Prime.SAME]).items()}
            variant = f"own {place}, other {held}"
            yield _Text(ConflationPrime.BOTH, segments, nouns[Prime.SAME], own.text, variant)


def _cross(nouns: Mapping[Prime, str], frames: TemplateFrames) -> Iterator[_Text]:
    if frames.cross is None:
        return
    for prime in (Prime.OTHER, Prime.THIRD):
        segments = _about(frames.cross, nouns[prime])
        case = str(frames.cross.case)
        yield _Text(ConflationPrime(f"cross_{prime}"), segments, nouns[prime], frames.cross.text, case)


def _with_roles(template: Template, thirds: ThirdRoles) -> Template:
    """The sentence about the two third persons."""
    nouns: dict[str, str] = {role: thirds.of(role).noun for role in Role}
    pieces = tuple(replace(piece, text=nouns.get(piece.kind, piece.text)) for piece in template.pieces)
    return replace(template, occupation=nouns["occupation"], participant=nouns["participant"], pieces=pieces)
