from collections.abc import Callable
from pathlib import Path

import pytest

from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.questions import PARTS_OF_SPEECH, listings, question_prompt, questions
from referent_probe.stimuli.templates import Pair, StimulusSet, load_stimuli


@pytest.fixture
def pair(cells: list[list[str]], write: Callable[[list[list[str]]], Path]) -> Pair:
    return load_stimuli(write(cells)).pairs[1]


def test_the_three_questions_by_hand(pair: Pair) -> None:
    template = pair.members[1]
    asked = {q.name: q for q in questions(template, ContextSetting.CM)}
    assert set(asked["referent"].answers) == {"the rower", "the tailor"}
    assert asked["referent"].right == f"the {template.antecedent_noun}"
    assert (asked["part_of_speech"].answers, asked["part_of_speech"].right) == (PARTS_OF_SPEECH, "pronoun")
    assert asked["gender"].answers == ("female", "male", "nonbinary")
    assert asked["gender"].right == "male"
    assert asked["gender"].text == f"Going by the text, which gender is the {template.other_noun}?"


def test_a_question_as_it_is_asked(pair: Pair) -> None:
    template, partner = pair.members
    question = questions(template, ContextSetting.CF)[2]
    prompt = question_prompt(template, partner, ContextSetting.CF, question, ("male", "nonbinary", "female"))
    assert prompt.messages[1].text == (
        f"Text: {partner.filled('her')} {template.text}\n"
        f"Question: {question.text}\n"
        'Answers: "male", "nonbinary", "female"'
    )
    assert prompt.prefill[0].text == 'The answer is "'


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (2, 2), (3, 6), (4, 4), (7, 7)])
def test_every_answer_is_listed_at_every_place_equally_often(n: int, expected: int) -> None:
    given = tuple("abcdefg"[:n])
    found = listings(given)
    assert len(found) == len(set(found)) == expected
    assert found[0] == given
    for place in range(n):
        assert sorted(listed[place] for listed in found) == sorted(given * (expected // n))


def test_the_right_answer_is_one_of_the_answers(builtin: StimulusSet) -> None:
    for pair in builtin.pairs:
        for template in pair.members:
            for setting in (ContextSetting.CF, ContextSetting.CM):
                for question in questions(template, setting):
                    assert question.right in question.answers
                    assert len(set(question.answers)) == len(question.answers)
