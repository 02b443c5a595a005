"""Context settings, and the sentences of a prompt cut into named spans."""

from dataclasses import dataclass
from enum import StrEnum

from referent_probe.stimuli.options import FORMS, Gender
from referent_probe.stimuli.templates import BLANK, Role, Template


class ContextSetting(StrEnum):
    """What stands before the target sentence: nothing, or the partner with a feminine or a masculine pronoun."""

    C0 = "c0"
    CF = "cf"
    CM = "cm"

    @property
    def gender(self) -> Gender | None:
        """The gender of the priming pronoun; None without a prime."""
        return {ContextSetting.CF: Gender.FEMININE, ContextSetting.CM: Gender.MASCULINE}.get(self)


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
    """The partner sentence, its blank filled with the primed pronoun in the partner's own case; () for `c0`.

    The noun that the pronoun stands for is `prime_owner`, the other one `prime_nonowner`, fixed text before the
    pronoun `prime_rest`, and everything after it `prime_after_pronoun`: for `cf`,
    The |baker: prime_owner| told the |guest: prime_nonowner| that |she: priming_pronoun| was tired.
    """
    if setting.gender is None:
        return ()
    pronoun = Segment(FORMS[partner.case].of(setting.gender), Span.PRIMING_PRONOUN)
    return _segments(partner, pronoun, Span.PRIME_OWNER, Span.PRIME_NONOWNER, Span.PRIME_REST, Span.PRIME_AFTER_PRONOUN)


def target_segments(template: Template) -> tuple[Segment, ...]:
    """The target sentence with its blank as "BLANK".

    The noun that the blank stands for is `antecedent`, the other one `other_referent`; fixed text, and everything
    after the blank, is `target_rest`.
    """
    blank = Segment(BLANK, Span.BLANK)
    return _segments(template, blank, Span.ANTECEDENT, Span.OTHER_REFERENT, Span.TARGET_REST, Span.TARGET_REST)


def _segments(
    template: Template, slot: Segment, antecedent: Span, other: Span, before: Span, after: Span
) -> tuple[Segment, ...]:
    """Cuts a sentence at its blank, which becomes `slot`; role nouns have their own spans only before it."""
    place = [piece.kind for piece in template.pieces].index("blank")
    spans = {"text": before, Role.OCCUPATION: other, Role.PARTICIPANT: other} | {template.antecedent: antecedent}
    head = tuple(Segment(piece.text, spans[piece.kind]) for piece in template.pieces[:place])
    tail = tuple(Segment(piece.text, after) for piece in template.pieces[place + 1 :])
    return (*head, slot, *tail)
