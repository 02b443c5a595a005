from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from referent_probe.stimuli.joint_prompts import joint_prompt
from referent_probe.stimuli.options import FORMS, OptionOrder
from referent_probe.stimuli.templates import Pair, StimulusSet, load_stimuli

MF, FM = OptionOrder.MASCULINE_FIRST, OptionOrder.FEMININE_FIRST


@pytest.fixture
def pair(cells: list[list[str]], write: Callable[[list[list[str]]], Path]) -> Pair:
    return load_stimuli(write(cells)).pairs[1]


def test_both_sentence_orders_by_hand(pair: Pair) -> None:
    prompt = joint_prompt(pair, 1, (FM, MF))
    assert prompt.messages[1].text == (
        "Text: The rower met the tailor to see BLANK1 sewing machine at work. "
        "The rower met the tailor to see BLANK2 torn team jacket mended.\n"
        'Is BLANK1 "her" or "his"?\n'
        'Is BLANK2 "his" or "her"?'
    ) or prompt.messages[1].text == (
        "Text: The rower met the tailor to see BLANK1 torn team jacket mended. "
        "The rower met the tailor to see BLANK2 sewing machine at work.\n"
        'Is BLANK1 "her" or "his"?\n'
        'Is BLANK2 "his" or "her"?'
    )
    first, second = (member.text for member in pair.members)
    turned = joint_prompt(pair, 2, (FM, MF))
    assert turned.messages[1].text == (
        f"Text: {second.replace('BLANK', 'BLANK1')} {first.replace('BLANK', 'BLANK2')}\n"
        'Is BLANK1 "his" or "her"?\n'
        'Is BLANK2 "her" or "his"?'
    )
    assert prompt.options == FORMS[pair.case]


def test_the_first_answer_is_put_before_the_second_blank(pair: Pair) -> None:
    asked = joint_prompt(pair, 1, (MF, MF))
    answered = joint_prompt(pair, 1, (MF, MF), "her")
    assert asked.messages == answered.messages
    assert asked.prefill[0].text == 'BLANK1 is "'
    assert answered.prefill[0].text == 'BLANK1 is "her". BLANK2 is "'


def test_the_eight_ways_to_ask_differ(builtin: StimulusSet) -> None:
    for pair in builtin.pairs:
        shown = {joint_prompt(pair, o, (a, b)).messages for o, a, b in product((1, 2), OptionOrder, OptionOrder)}
        assert len(shown) == 8
