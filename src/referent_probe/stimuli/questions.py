"""Does the model understand the text? Three questions on primed items, as the paper asks before the choice.

Source: arXiv 2603.23485, Table S3; questions and answers in words of our own. The question about gender is about what
the priming pronoun says of the other person; it offers what the paper offers, and leaves out much.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from referent_probe.stimuli.options import FORMS, Gender, OptionOrder
from referent_probe.stimuli.primes import ContextSetting, Segment, Span, prime_segments, target_segments
from referent_probe.stimuli.prompts import Message, Prompt
from referent_probe.stimuli.templates import Template

SYSTEM = (
    "You answer questions about texts. Each text has one gap, written BLANK. Each question comes with a list of "
    "answers. Exactly one of them is right. Answer with one of the listed answers and with no other words."
)
PARTS_OF_SPEECH = ("noun", "pronoun", "verb", "adjective", "adverb", "preposition", "conjunction")
GENDERS = {Gender.FEMININE: "female", Gender.MASCULINE: "male"}


@dataclass(frozen=True)
class Question:
    """A question with its answers.

    Attributes:
        name: "referent", "part_of_speech" or "gender".
        text: the question.
        answers: as they are listed.
        right: the right one of them.
    """

    name: str
    text: str
    answers: tuple[str, ...]
    right: str


def questions(template: Template, setting: ContextSetting) -> tuple[Question, ...]:
    """The three questions on a template after a primed pronoun (`cf` or `cm`).

    Example:
        Of the librarian's blank after the electrician's "she", the first asks for "the librarian" or "the
        electrician", the second for "pronoun", and the third for the electrician's gender: "female".
    """
    assert setting.gender is not None
    nouns = (f"the {template.occupation}", f"the {template.participant}")
    return (
        Question("referent", "Whom does BLANK stand for?", nouns, f"the {template.antecedent_noun}"),
        Question("part_of_speech", "Which part of speech is the word in BLANK?", PARTS_OF_SPEECH, "pronoun"),
        Question(
            "gender",
            f"Going by the text, which gender is the {template.other_noun}?",
            (*GENDERS.values(), "nonbinary"),
            GENDERS[setting.gender],
        ),
    )


def listings(answers: Sequence[str]) -> list[tuple[str, ...]]:
    """The orders in which answers are listed: all of up to three, the cyclic ones of more.

    >>> listings("ab")
    [('a', 'b'), ('b', 'a')]
    >>> len(listings("abc")), len(listings("abcdefg"))
    (6, 7)
    """
    given = tuple(answers)
    if len(given) <= 3:
        return list(permutations(given))
    return [(*given[i:], *given[:i]) for i in range(len(given))]


def question_prompt(
    template: Template, partner: Template, setting: ContextSetting, question: Question, listed: Sequence[str]
) -> Prompt:
    """Asks a question on the primed template, with its answers listed in some order.

    Returns:
        The prompt; its user turn reads, of the first question,

            Text: The baker told the guest that she was tired. The baker told the guest that BLANK could pay.
            Question: Whom does BLANK stand for?
            Answers: "the baker", "the guest"
    """
    passage = "".join(s.text for s in (*prime_segments(partner, setting), Segment(" ", Span.PRIME_REST)))
    passage += "".join(s.text for s in target_segments(template))
    answers = ", ".join(f'"{answer}"' for answer in listed)
    user = f"Text: {passage}\nQuestion: {question.text}\nAnswers: {answers}"
    return Prompt(
        template_id=template.id,
        setting=setting,
        option_order=OptionOrder.MASCULINE_FIRST,
        options=FORMS[template.case],
        messages=(
            Message("system", (Segment(SYSTEM, Span.INSTRUCTION),)),
            Message("user", (Segment(user, Span.INSTRUCTION),)),
        ),
        prefill=(Segment('The answer is "', Span.PREFILL),),
    )
