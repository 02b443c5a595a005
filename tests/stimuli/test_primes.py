from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from referent_probe.stimuli.options import FORMS, Case, Gender
from referent_probe.stimuli.primes import NULL_PRIMES, ContextSetting, Segment, Span, prime_segments, target_segments
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
    assert [*ContextSetting] == ["c0", "cf", "cm", "n1", "n2", "r_np", "r_both"]
    assert [setting.gender for setting in ContextSetting] == [None, Gender.FEMININE, Gender.MASCULINE, *[None] * 4]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("possessive", "The rower met the tailor to see the tailor's sewing machine at work."),
        ("nominative", "The rower met the tailor to see the tailor sewing machine at work."),
    ],
)
def test_the_referent_only_prime_by_hand(kind: str, sentence: str, pair: Pair) -> None:
    member = replace(pair.members[0], case=Case(kind))
    segments = prime_segments(member, ContextSetting.R_NP)
    assert text(segments) == sentence
    assert [s.text for s in segments if s.span is Span.PRIME_OWNER] == ["tailor", "tailor"]
    assert [s.text for s in segments if s.span is Span.PRIME_NONOWNER] == ["rower"]


def test_the_prime_that_names_both_by_hand(pair: Pair) -> None:
    for member in pair.members:
        segments = prime_segments(member, ContextSetting.R_BOTH)
        assert text(segments) == "This is about the rower and the tailor."
        assert [s.text for s in segments if s.span is Span.PRIME_OWNER] == [member.antecedent_noun]


def test_primes_without_a_pronoun_hold_no_form_of_any(builtin: StimulusSet) -> None:
    forms = {form for case in Case for form in (FORMS[case].feminine, FORMS[case].masculine, FORMS[case].they)}
    for pair in builtin.pairs:
        for member in pair.members:
            for setting in ContextSetting:
                segments = prime_segments(member, setting)
                words = {word.strip(".,").lower() for word in text(segments).split()}
                assert bool(words & forms) == (setting.gender is not None)
                assert any(s.span is Span.PRIMING_PRONOUN for s in segments) == (setting.gender is not None)
                assert "BLANK" not in text(segments)


def test_null_primes_name_nobody(builtin: StimulusSet) -> None:
    shown = {text(prime_segments(m, s)) for p in builtin.pairs for m in p.members for s in NULL_PRIMES}
    assert shown == set(NULL_PRIMES.values())
    assert len(shown) == 2
