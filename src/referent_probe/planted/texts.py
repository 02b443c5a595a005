"""Every text that a command may put to a planted model, from the functions that make the prompts themselves."""

from collections.abc import Iterator, Sequence
from itertools import product

from referent_probe.measurement.comprehension import as_answered, questions_on
from referent_probe.measurement.joint import joint_questions
from referent_probe.measurement.sentences import whole_sentences
from referent_probe.planted.grammar import OCCUPATIONS, PARTICIPANTS
from referent_probe.stimuli.frames import Frame, frame_prompt
from referent_probe.stimuli.options import FORMS, Case, Gender, OptionOrder
from referent_probe.stimuli.person_questions import person_prompt, person_questions
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import DEFAULT_WORDING, Prompt, PromptWording, choice_prompt
from referent_probe.stimuli.templates import Pair

_PRIMED = [setting for setting in ContextSetting if setting.gender is not None]


def texts_put_to_models(pairs: Sequence[Pair], frames: Sequence[Frame], wording: PromptWording) -> Iterator[str]:
    """Prompts as the planted models' chat template renders them, with every answer that is read behind them.

    Choices in the folder's wording and in the built-in one, both blanks of a pair at once, whole sentences, the
    questions of the comprehension check, and one-person primes about everybody with the questions on them.

    Args:
        pairs: All pairs of the stimuli.
        frames: Sentences about one person.
        wording: Of the choice prompt.
    """
    for pair in pairs:
        choices = _choices(pair, wording)
        for prompt in (*choices, *joint_questions(pair)):
            yield from _with_answers(prompt, _options(pair.case))
        for template in pair.members:
            for setting in ContextSetting:
                yield from whole_sentences(pair, template, setting)
            for (_, _, _, listed), prompt in zip(*questions_on(pair, template, _PRIMED), strict=True):
                yield from _with_answers(prompt, [as_answered(answer) for answer in listed])
    template = pairs[0].members[0]
    for frame, noun, gender, order in product(frames, (*OCCUPATIONS, *PARTICIPANTS), Gender, OptionOrder):
        yield from _with_answers(frame_prompt(template, frame, noun, gender, order, wording), _options(template.case))
    for question in person_questions(template, template.antecedent_noun):
        prompt = person_prompt(
            template, frames[0], template.antecedent_noun, Gender.FEMININE, question, question.answers
        )
        yield from _with_answers(prompt, [as_answered(answer) for answer in question.answers])


def _choices(pair: Pair, wording: PromptWording) -> list[Prompt]:
    return [
        choice_prompt(template, pair.partner(template), setting, order, words)
        for template in pair.members
        for setting, order, words in product(ContextSetting, OptionOrder, (wording, DEFAULT_WORDING))
    ]


def _options(case: Case) -> list[str]:
    forms = FORMS[case]
    return [as_answered(form) for form in (forms.feminine, forms.masculine, forms.they)]


def _with_answers(prompt: Prompt, answers: Sequence[str]) -> Iterator[str]:
    yield "".join(f"{message.text}\n" for message in prompt.messages)
    begun = "".join(segment.text for segment in prompt.prefill)
    for answer in answers:
        yield begun + answer
