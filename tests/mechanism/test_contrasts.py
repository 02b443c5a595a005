import dataclasses
from typing import Any

import pytest

from referent_probe.errors import PromptError
from referent_probe.mechanism import contrasts as module
from referent_probe.mechanism.contrasts import build_contrasts
from referent_probe.stimuli.options import FORMS
from referent_probe.stimuli.primes import Span
from referent_probe.stimuli.templates import Pair, draw_pairs, load_stimuli


@pytest.fixture(scope="module")
def pairs() -> tuple[Pair, ...]:
    return draw_pairs(load_stimuli(), 6, seed=1)


def test_a_pair_has_four_contrasts_that_differ_in_the_pronoun_alone(pairs: tuple[Pair, ...], tokenizer: Any) -> None:
    built = build_contrasts(pairs, tokenizer)
    assert len(built) == 4 * len(pairs)
    assert len({c.id for c in built}) == len(built)
    for contrast in built:
        assert contrast.left_out is None
        feminine, masculine = contrast.feminine.ids, contrast.masculine.ids
        assert [i for i, (a, b) in enumerate(zip(feminine, masculine, strict=True)) if a != b] == [
            contrast.first_difference
        ]
        forms = FORMS[contrast.template.case]
        at = contrast.first_difference
        assert contrast.feminine.pieces[at].strip() == forms.feminine
        assert contrast.masculine.pieces[at].strip() == forms.masculine
        assert contrast.feminine.spans[-1] is Span.TARGET_SLOT
        assert tokenizer.decode(list(contrast.tokens)) == forms.feminine + forms.masculine


def test_the_prime_is_the_partner_and_owner_and_antecedent_are_different_people(
    pairs: tuple[Pair, ...], tokenizer: Any
) -> None:
    for contrast in build_contrasts(pairs, tokenizer):
        words = {
            span: "".join(contrast.feminine.pieces[i] for i in contrast.feminine.positions(span)).strip()
            for span in (Span.PRIME_OWNER, Span.PRIME_NONOWNER, Span.ANTECEDENT, Span.OTHER_REFERENT)
        }
        assert words[Span.ANTECEDENT] == contrast.template.antecedent_noun
        assert words[Span.PRIME_OWNER] == words[Span.OTHER_REFERENT] == contrast.template.other_noun
        assert words[Span.PRIME_NONOWNER] == words[Span.ANTECEDENT]


def test_a_contrast_that_differs_elsewhere_stays_with_its_reason(
    pairs: tuple[Pair, ...], tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, spoiled = module.encode, []

    def encode(prompt: Any, *rest: Any) -> Any:
        encoded = real(prompt, *rest)
        if prompt.template_id == pairs[0].members[0].id and prompt.setting == "cm":
            spoiled.append(prompt)
            ids = list(encoded.ids)
            ids[2] += 1
            return dataclasses.replace(encoded, ids=tuple(ids))
        return encoded

    monkeypatch.setattr(module, "encode", encode)
    built = build_contrasts(pairs, tokenizer)
    left_out = [c for c in built if c.left_out]
    assert len(left_out) == len(spoiled) == 2
    assert all("differ in 2 tokens" in str(c.left_out) for c in left_out)


def test_pronouns_of_unequal_length_are_left_out_and_shown(
    pairs: tuple[Pair, ...], tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.encode

    def encode(prompt: Any, *rest: Any) -> Any:
        encoded = real(prompt, *rest)
        if prompt.setting != "cf" or prompt.template_id != pairs[0].members[1].id:
            return encoded
        at = encoded.positions(Span.PRIMING_PRONOUN)[0]
        longer = {
            name: (*getattr(encoded, name)[: at + 1], *getattr(encoded, name)[at:])
            for name in ("ids", "spans", "pieces")
        }
        return dataclasses.replace(encoded, **longer)

    monkeypatch.setattr(module, "encode", encode)
    reasons = [c.left_out for c in build_contrasts(pairs, tokenizer) if c.left_out]
    assert len(reasons) == 2
    assert "not one token each" in reasons[0]


def test_if_all_are_left_out_it_says_so(
    pairs: tuple[Pair, ...], tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "reason_to_leave_out", lambda feminine, masculine: "they differ")
    with pytest.raises(PromptError, match="none of 24 contrasts can be patched: they differ"):
        build_contrasts(pairs, tokenizer)
