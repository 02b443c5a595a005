from collections.abc import Callable
from pathlib import Path

import pytest

from referent_probe.stimuli.options import FORMS, Gender
from referent_probe.stimuli.primes import ContextSetting, Segment, Span, prime_segments, target_segments
from referent_probe.stimuli.templates import Pair, StimulusSet, load_stimuli

Write = Callable[[list[list[str]]], Path]


@pytest.fixture
def pair(cells: list[list[str]], write: Write) -> Pair:
    return load_stimuli(write(cells)).pairs[1]


def text(segments: tuple[Segment, ...]) -> str:
    return "".join(segment.text for segment in segments)


def test_prime_by_hand(pair: Pair) -> None:
    assert prime_segments(pair.members[0], ContextSetting.CM) == (
        Segment("The ", Span.PRIME_REST),
        Segment("rower", Span.PRIME_NONOWNER),
        Segment(" met the ", Span.PRIME_REST),
        Segment("tailor", Span.PRIME_OWNER),
        Segment(" to see ", Span.PRIME_REST),
        Segment("his", Span.PRIMING_PRONOUN),
        Segment(" sewing machine at work.", Span.PRIME_AFTER_PRONOUN),
    )


def test_target_by_hand(pair: Pair) -> None:
    assert target_segments(pair.members[1]) == (
        Segment("The ", Span.TARGET_REST),
        Segment("rower", Span.ANTECEDENT),
        Segment(" met the ", Span.TARGET_REST),
        Segment("tailor", Span.OTHER_REFERENT),
        Segment(" to see ", Span.TARGET_REST),
        Segment("BLANK", Span.BLANK),
        Segment(" torn team jacket mended.", Span.TARGET_REST),
    )


def test_a_role_noun_after_the_blank_has_no_span_of_its_own(cells: list[list[str]], write: Write) -> None:
    cells[3][4] = cells[3][4].replace("jacket mended", "jacket mended for the $PARTICIPANT")
    template = load_stimuli(write(cells)).pairs[1].members[1]
    assert target_segments(template)[-2:] == (Segment("rower", Span.TARGET_REST), Segment(".", Span.TARGET_REST))
    assert {segment.span for segment in prime_segments(template, ContextSetting.CF)[6:]} == {Span.PRIME_AFTER_PRONOUN}


def test_segments_spell_the_sentence(builtin: StimulusSet) -> None:
    for pair in builtin.pairs:
        for member in pair.members:
            forms = FORMS[member.case]
            assert text(prime_segments(member, ContextSetting.CF)) == member.filled(forms.feminine)
            assert text(prime_segments(member, ContextSetting.CM)) == member.filled(forms.masculine)
            assert prime_segments(member, ContextSetting.C0) == ()
            assert text(target_segments(member)) == member.text


def test_the_two_primes_differ_in_the_pronoun_alone(builtin: StimulusSet) -> None:
    for pair in builtin.pairs:
        feminine, masculine = (
            prime_segments(pair.members[0], setting) for setting in (ContextSetting.CF, ContextSetting.CM)
        )
        differing = [one.span for one, other in zip(feminine, masculine, strict=True) if one != other]
        assert differing == [Span.PRIMING_PRONOUN]


def test_the_owner_of_the_prime_is_the_other_referent_of_the_target(builtin: StimulusSet) -> None:
    for pair in builtin.pairs:
        nouns = {s.span: s.text for s in prime_segments(pair.members[1], ContextSetting.CF)}
        nouns |= {s.span: s.text for s in target_segments(pair.members[0])}
        assert nouns[Span.PRIME_OWNER] == nouns[Span.OTHER_REFERENT]
        assert nouns[Span.PRIME_NONOWNER] == nouns[Span.ANTECEDENT]


def test_settings_and_their_genders() -> None:
    assert [*ContextSetting] == ["c0", "cf", "cm"]
    assert [setting.gender for setting in ContextSetting] == [None, Gender.FEMININE, Gender.MASCULINE]
