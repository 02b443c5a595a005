"""Manipulation check: does the model take the person of a one-person prime for the person that is meant?"""

from collections.abc import Mapping, Sequence
from typing import Literal

from referent_probe.stimuli.conflation_primes import SETTINGS
from referent_probe.stimuli.frames import Frame
from referent_probe.stimuli.options import Gender
from referent_probe.stimuli.primes import Span
from referent_probe.stimuli.prompts import Prompt
from referent_probe.stimuli.questions import Question, question_prompt
from referent_probe.stimuli.templates import BLANK, Piece, Role, Template

Kind = Literal["text", "occupation", "participant", "blank"]

ANSWERS = ("yes", "no")


def person_questions(template: Template, noun: str) -> tuple[Question, Question]:
    """Two questions on a target sentence after a frame about `noun`.

    Whether the person of the frame is mentioned again, as `same` and `other` mean and `third` does not; and whether the
    blank stands for that person, as `same` alone means. They speak of "the person", so that no noun tells the answer.

    Args:
        template: Target sentence.
        noun: Of the frame's person.

    Returns:
        "mentioned_again" and "blank_is_same"; their answers are to be listed in both orders (`questions.listings`).

    Example:
        After a frame about the baker, of the guest's blank beside a baker: "yes" and "no".
    """
    is_mentioned = noun in (template.occupation, template.participant)
    return (
        Question(
            "mentioned_again",
            "Is the person in the first sentence one of the two people in the second sentence?",
            ANSWERS,
            ANSWERS[not is_mentioned],
        ),
        Question(
            "blank_is_same",
            f"Does {BLANK} stand for the person in the first sentence?",
            ANSWERS,
            ANSWERS[noun != template.antecedent_noun],
        ),
    )


def person_prompt(
    template: Template, frame: Frame, noun: str, gender: Gender, question: Question, listed: Sequence[str]
) -> Prompt:
    """Asks one of them, with its answers listed in some order.

    Args:
        template: Target sentence.
        frame: Sentence of the prime.
        noun: Its person.
        gender: Of its pronoun.
        question: From `person_questions`.
        listed: Its answers.

    Returns:
        The prompt; its user turn reads, of the second question,

            Text: The baker finally made up her mind. The baker told the guest that BLANK could pay.
            Question: Does BLANK stand for the person in the first sentence?
            Answers: "yes", "no"
    """
    return question_prompt(template, _as_partner(frame, noun), SETTINGS[gender], question, listed)


def _as_partner(frame: Frame, noun: str) -> Template:
    """The frame in the partner's place: a sentence with a blank of its case, but without a second person."""
    kinds: Mapping[Span, Kind] = {Span.PRIME_OWNER: "occupation", Span.PRIMING_PRONOUN: "blank"}
    parts = frame.segments(noun, Gender.FEMININE)
    pieces = tuple(Piece(part.text, kinds.get(part.span, "text")) for part in parts)
    return Template("frame", "frame", 0, frame.case, noun, "", Role.OCCUPATION, pieces)
