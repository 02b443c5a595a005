"""Context settings, and the sentences of a prompt cut into named spans."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from referent_probe.stimuli.options import FORMS, Case, Gender
from referent_probe.stimuli.templates import BLANK, Role, Template


class ContextSetting(StrEnum):
    """What stands before the target sentence.

    `C0`: nothing. `CF`, `CM`: the partner with a feminine or a masculine pronoun. `N1`, `N2`: a null prime, a sentence
    that has nothing to do with it. `R_NP`: the partner with the noun phrase of its own referent for its pronoun.
    `R_BOTH`: a sentence that only names both people. The last two tell "a pronoun was there" from "the two people were
    mentioned again".
    """

    C0 = "c0"
    CF = "cf"
    CM = "cm"
    N1 = "n1"
    N2 = "n2"
    R_NP = "r_np"
    R_BOTH = "r_both"

    @property
    def gender(self) -> Gender | None:
        """The gender of the priming pronoun; None without one."""
        return {ContextSetting.CF: Gender.FEMININE, ContextSetting.CM: Gender.MASCULINE}.get(self)


NULL_PRIMES: Mapping[ContextSetting, str] = {ContextSetting.N1: "Grass is green.", ContextSetting.N2: "Ice is cold."}
"""Sentences without a pronoun, a person or a blank."""


class Span(StrEnum):
    """What a stretch of a prompt is; together the spans cover the prompt without overlap.

    `TARGET_SLOT` is the last position, whose next token answers the blank; no text has it, `models.tokens` assigns it.
    """

    INSTRUCTION = "instruction"
    PRIME_OWNER = "prime_owner"
    PRIME_NONOWNER = "prime_nonowner"
    PRIMING_PRONOUN = "priming_pronoun"
    PRIME_AFTER_PRONOUN = "prime_after_pronoun"
    PRIME_REST = "prime_rest"
    ANTECEDENT = "antecedent"
    OTHER_REFERENT = "other_referent"
    BLANK = "blank"
    TARGET_REST = "target_rest"
    OPTION_FEMININE = "option_feminine"
    OPTION_MASCULINE = "option_masculine"
    FORMAT = "format"
    PREFILL = "prefill"
    TARGET_SLOT = "target_slot"


@dataclass(frozen=True)
class Segment:
    """A stretch of text and the span it belongs to."""

    text: str
    span: Span


def prime_segments(partner: Template, setting: ContextSetting) -> tuple[Segment, ...]:
    """What stands before the target sentence: for `cf` and `cm`, the partner, its blank filled in its own case.

    The noun that the pronoun stands for is `prime_owner`, the other one `prime_nonowner`, fixed text before the
    pronoun `prime_rest`, and everything after it `prime_after_pronoun`: for `cf`,
    The |baker: prime_owner| told the |guest: prime_nonowner| that |she: priming_pronoun| was tired.

    Without a prime, (). For `r_np` the noun in the pronoun's place is `prime_owner` too: The baker told the guest that
    |the: prime_rest| |baker: prime_owner| was tired.
    """
    if setting is ContextSetting.C0:
        return ()
    if setting in NULL_PRIMES:
        return (Segment(NULL_PRIMES[setting], Span.PRIME_REST),)
    if setting is ContextSetting.R_BOTH:
        return _naming_both(partner)
    if setting is ContextSetting.R_NP:
        return _with_noun_phrase(partner)
    assert setting.gender is not None
    pronoun = Segment(FORMS[partner.case].of(setting.gender), Span.PRIMING_PRONOUN)
    return _segments(partner, pronoun, Span.PRIME_OWNER, Span.PRIME_NONOWNER, Span.PRIME_REST, Span.PRIME_AFTER_PRONOUN)


def target_segments(template: Template) -> tuple[Segment, ...]:
    """The target sentence with its blank as "BLANK".

    The noun that the blank stands for is `antecedent`, the other one `other_referent`; fixed text, and everything
    after the blank, is `target_rest`.
    """
    blank = Segment(BLANK, Span.BLANK)
    return _segments(template, blank, Span.ANTECEDENT, Span.OTHER_REFERENT, Span.TARGET_REST, Span.TARGET_REST)


def _with_noun_phrase(partner: Template) -> tuple[Segment, ...]:
    """The noun phrase stands where the pronoun was: "the baker", "the baker's" for a possessive."""
    noun = Segment(partner.antecedent_noun, Span.PRIME_OWNER)
    parts = _segments(partner, noun, Span.PRIME_OWNER, Span.PRIME_NONOWNER, Span.PRIME_REST, Span.PRIME_REST)
    place = max(i for i, part in enumerate(parts) if part is noun)
    ending = (Segment("'s", Span.PRIME_REST),) if partner.case is Case.POSSESSIVE else ()
    return (*parts[:place], Segment("the ", Span.PRIME_REST), noun, *ending, *parts[place + 1 :])


def _naming_both(partner: Template) -> tuple[Segment, ...]:
    """A frame with both nouns, in the order in which the partner names them first."""
    owner, other = (Span.PRIME_OWNER, partner.antecedent_noun), (Span.PRIME_NONOWNER, partner.other_noun)
    kinds = [piece.kind for piece in partner.pieces if piece.kind in tuple(Role)]
    first, second = (owner, other) if kinds[0] == partner.antecedent else (other, owner)
    return (
        Segment("This is about the ", Span.PRIME_REST),
        Segment(first[1], first[0]),
        Segment(" and the ", Span.PRIME_REST),
        Segment(second[1], second[0]),
        Segment(".", Span.PRIME_REST),
    )


def _segments(
    template: Template, slot: Segment, antecedent: Span, other: Span, before: Span, after: Span
) -> tuple[Segment, ...]:
    """Cuts a sentence at its blank, which becomes `slot`; role nouns have their own spans only before it."""
    place = [piece.kind for piece in template.pieces].index("blank")
    spans = {"text": before, Role.OCCUPATION: other, Role.PARTICIPANT: other} | {template.antecedent: antecedent}
    head = tuple(Segment(piece.text, spans[piece.kind]) for piece in template.pieces[:place])
    tail = tuple(Segment(piece.text, after) for piece in template.pieces[place + 1 :])
    return (*head, slot, *tail)
