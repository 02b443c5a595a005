"""Primes of one template differ in whose pronoun it is, and in as little else as can be."""

import doctest
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from referent_probe.errors import OptionError, StimuliError
from referent_probe.stimuli import conflation_primes as module
from referent_probe.stimuli.builtin_frames import builtin_frames, builtin_mentions, frames_for, mentions_for
from referent_probe.stimuli.conflation_primes import (
    ConflationPrime,
    PrimedPrompts,
    antecedent_is_first,
    primed_prompts,
    unprimed_prompts,
)
from referent_probe.stimuli.frame_rotation import FrameRotation, rotate_frames
from referent_probe.stimuli.frames import Frame
from referent_probe.stimuli.options import FORMS, Case, Gender, OptionOrder
from referent_probe.stimuli.person_questions import person_prompt, person_questions
from referent_probe.stimuli.primes import ContextSetting, Segment, Span, target_segments
from referent_probe.stimuli.prompts import DEFAULT_WORDING, Prompt, PromptWording, choice_prompt, load_wording
from referent_probe.stimuli.questions import listings
from referent_probe.stimuli.templates import Pair, Role, StimulusSet, Template, load_stimuli
from referent_probe.stimuli.third_roles import ThirdRoles, third_roles

FM = OptionOrder.FEMININE_FIRST
P = ConflationPrime
PRONOUNS = {form for forms in FORMS.values() for form in (forms.feminine, forms.masculine)}
WHOLE = {P.SAME: 2, P.OTHER: 2, P.THIRD: 2, P.MENTION: 2, P.BOTH: 4, P.PARTNER: 1, P.THIRD_FRAME: 1} | dict.fromkeys(
    (P.CROSS_OTHER, P.CROSS_THIRD), 1
)
"""How many of each prime a template has by default."""


def length(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


@dataclass(frozen=True)
class Material:
    """Stimuli with their frames and third persons."""

    pairs: tuple[Pair, ...]
    rotation: FrameRotation
    thirds: dict[str, ThirdRoles]
    wording: PromptWording = DEFAULT_WORDING

    def primed(self, pair: Pair, template: Template, order: OptionOrder = FM) -> tuple[PrimedPrompts, ...]:
        frames = self.rotation.by_template[template.id]
        return primed_prompts(pair, template, order, frames, self.thirds[pair.id], self.wording)


def made(stimuli: StimulusSet, seed: int = 0, **options: Any) -> Material:
    rotation = rotate_frames(stimuli.pairs, builtin_frames(), builtin_mentions(), length, seed, **options)
    return Material(stimuli.pairs, rotation, dict(third_roles(stimuli.pairs, length, seed)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from referent_probe.planted.plant import plant

    return plant("conflater", tmp_path_factory.mktemp("planted") / "conflater")


@pytest.fixture(scope="module")
def tokenizer_of_planted(folder: Path) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def materials(builtin: StimulusSet, request: pytest.FixtureRequest) -> Callable[[str], Material]:
    """Of the built-in stimuli, of WinoPron, and of a planted model's folder."""

    @cache
    def material(name: str) -> Material:
        if name == "builtin":
            return made(builtin)
        if name == "winopron":
            return made(request.getfixturevalue("winopron"))
        folder, tokenizer = request.getfixturevalue("folder"), request.getfixturevalue("tokenizer_of_planted")
        stimuli = load_stimuli(folder / "stimuli.tsv")

        def knows(text: str) -> bool:
            return tokenizer.unk_token_id not in tokenizer(text)["input_ids"]

        def n_tokens(text: str) -> int:
            return len(tokenizer(text)["input_ids"])

        frames, mentions = frames_for(str(folder), None), mentions_for(str(folder), None)
        rotation = rotate_frames(stimuli.pairs, frames, mentions, n_tokens, 0, knows=knows)
        thirds = dict(third_roles(stimuli.pairs, n_tokens, 0))
        return Material(stimuli.pairs, rotation, thirds, load_wording(folder / "prompts.toml"))

    return material


EVERYWHERE = pytest.mark.parametrize("name", ["builtin", "winopron", "planted"])


def prime_of(prompt: Prompt) -> tuple[Segment, ...]:
    """The prime's segments: what is between instruction and target sentence."""
    return tuple(s for s in prompt.messages[-1].segments if s.span.startswith(("prime", "priming")))


def text_of(segments: tuple[Segment, ...]) -> str:
    return "".join(segment.text for segment in segments)


def by_prime(primed: tuple[PrimedPrompts, ...]) -> dict[ConflationPrime, list[PrimedPrompts]]:
    return {prime: [one for one in primed if one.prime is prime] for prime in ConflationPrime}


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


@EVERYWHERE
def test_a_template_has_every_prime(materials: Callable[[str], Material], name: str) -> None:
    material = materials(name)
    for pair in material.pairs:
        for template in pair.members:
            assert {p: len(found) for p, found in by_prime(material.primed(pair, template)).items()} == WHOLE


@EVERYWHERE
def test_the_two_prompts_differ_in_one_word(materials: Callable[[str], Material], name: str) -> None:
    """And that is the priming pronoun; all else is as in an unprimed prompt."""
    material = materials(name)
    for pair in material.pairs:
        for template in pair.members:
            plain = choice_prompt(template, template, ContextSetting.C0, FM, material.wording)
            for one in material.primed(pair, template):
                prompts = {Gender.FEMININE: one.feminine, Gender.MASCULINE: one.masculine}
                assert [str(p.setting) for p in prompts.values()] == ["cf", "cm"]
                lists = [p.messages[-1].segments for p in prompts.values()]
                differing = [(f, m) for f, m in zip(*lists, strict=True) if f != m]
                case = Case(one.variant) if one.prime.startswith("cross") else template.case
                forms = FORMS[case]
                span = Span.PRIMING_PRONOUN
                assert differing == [(Segment(forms.feminine, span), Segment(forms.masculine, span))]
                for prompt in prompts.values():
                    rest = [s for s in prompt.messages[-1].segments if not s.span.startswith(("prime", "priming"))]
                    assert tuple(rest) == plain.messages[-1].segments
                    assert prompt.messages[:-1] == plain.messages[:-1]
                    assert (prompt.prefill, prompt.options, prompt.template_id) == (
                        plain.prefill,
                        plain.options,
                        template.id,
                    )


@EVERYWHERE
def test_the_spans_cover_the_prime(materials: Callable[[str], Material], name: str) -> None:
    """One pronoun, before it the owner's noun, after it nothing but what comes after the pronoun."""
    material = materials(name)
    for pair in material.pairs:
        for template in pair.members:
            for one in material.primed(pair, template):
                segments = prime_of(one.feminine)
                spans = [s.span for s in segments]
                assert spans.count(Span.PRIMING_PRONOUN) == 1
                place = spans.index(Span.PRIMING_PRONOUN)
                assert set(spans[place + 1 :]) == {Span.PRIME_AFTER_PRONOUN}
                assert Span.PRIME_AFTER_PRONOUN not in spans[:place]
                owners = [s.text for s in segments if s.span is Span.PRIME_OWNER]
                assert owners == ([] if one.owner_noun is None else [one.owner_noun])
                nonowners = [s.text for s in segments if s.span is Span.PRIME_NONOWNER]
                has_one = one.prime in (P.PARTNER, P.THIRD_FRAME) or one.variant.startswith("own last")
                assert len(nonowners) == has_one
                assert text_of(segments).endswith(". ")
                found = [w for w in re.findall(r"\w+", text_of(segments)) if w in PRONOUNS]
                assert len(found) == (2 if one.prime is P.BOTH else 1)


@EVERYWHERE
def test_same_other_and_third_differ_in_the_noun_alone(materials: Callable[[str], Material], name: str) -> None:
    material = materials(name)
    for pair in material.pairs:
        for template in pair.members:
            found = by_prime(material.primed(pair, template))
            (role,) = {*Role} - {template.antecedent}
            third = material.thirds[pair.id].of(role)
            nouns = {P.SAME: template.antecedent_noun, P.OTHER: template.other_noun, P.THIRD: third.noun}
            assert third.instead_of == template.other_noun
            for same, other, stranger in zip(found[P.SAME], found[P.OTHER], found[P.THIRD], strict=True):
                primes = (same, other, stranger)
                assert {one.frame for one in primes} == {same.frame}
                assert [one.owner_noun for one in primes] == [*nouns.values()]
                for feminine in (True, False):
                    shown = [prime_of(one.feminine if feminine else one.masculine) for one in primes]
                    bare = {tuple(s for s in segments if s.span is not Span.PRIME_OWNER) for segments in shown}
                    assert len(bare) == 1
            assert [one.owner_noun for one in (*found[P.CROSS_OTHER], *found[P.CROSS_THIRD])] == [
                nouns[P.OTHER],
                nouns[P.THIRD],
            ]
            assert found[P.CROSS_OTHER][0].frame == found[P.CROSS_THIRD][0].frame


@EVERYWHERE
@pytest.mark.parametrize("per_template", [1, 2, 3, 4])
def test_every_frame_is_used_equally(materials: Callable[[str], Material], name: str, per_template: int) -> None:
    """Of each case 60 pairs and four frames: before first and before second sentences alike."""
    pairs = materials(name).pairs
    rotation = rotate_frames(pairs, builtin_frames(), builtin_mentions(), length, 3, per_template=per_template)
    for case, member in product(Case, (0, 1)):
        ids = [pair.members[member].id for pair in pairs if pair.case is case]
        counts = Counter(frame for i in ids for frame in rotation.by_template[i].own)
        assert all(frame.case is case for frame in counts)
        assert list(counts.values()) == [len(ids) * per_template // 4] * 4
        firsts = Counter(rotation.by_template[i].own[0] for i in ids)
        assert list(firsts.values()) == [len(ids) // 4] * 4
        assert Counter(f for i in ids for f in rotation.by_template[i].others) == counts
        crosses = Counter(rotation.by_template[i].cross for i in ids)
        assert max(crosses.values()) - min(crosses.values()) <= 1
    for frames in rotation.by_template.values():
        assert len(set(frames.own)) == per_template
        assert all(own != other for own, other in zip(frames.own, frames.others, strict=True))


def test_a_cross_frame_shares_no_form_with_the_blank(builtin: StimulusSet) -> None:
    cases = set()
    rotation = made(builtin).rotation
    for pair in builtin.pairs:
        for template in pair.members:
            cross = rotation.by_template[template.id].cross
            assert cross is not None
            cases.add((pair.case, cross.case))
    nominative, accusative, possessive = Case
    assert cases == {
        (nominative, accusative),
        (nominative, possessive),
        (accusative, nominative),
        (possessive, nominative),
    }


def test_the_first_frames_of_the_file_are_used(builtin: StimulusSet) -> None:
    for at_hand in (2, 5, 20):
        rotation = made(builtin, at_hand=at_hand).rotation
        used = {frame for frames in rotation.by_template.values() for frame in frames.own}
        assert used == {f for case in Case for f in [f for f in builtin_frames() if f.case is case][:at_hand]}


def test_a_single_frame_serves_both_people(builtin: StimulusSet) -> None:
    material = made(builtin, at_hand=1, per_template=1)
    pair = material.pairs[0]
    template, frame = pair.members[0], builtin_frames()[0]
    first = by_prime(material.primed(pair, template))[P.BOTH][0]
    own, other = (frame.filled(noun, Gender.FEMININE) for noun in (template.antecedent_noun, template.other_noun))
    assert text_of(prime_of(first.feminine)) == f"{own} {other} "


@EVERYWHERE
def test_both_is_two_by_two_in_both_orders(materials: Callable[[str], Material], name: str) -> None:
    material = materials(name)
    for pair in material.pairs[::7]:
        for template in pair.members:
            (frame, *_), (beside, *_) = (
                material.rotation.by_template[template.id].own,
                material.rotation.by_template[template.id].others,
            )
            shown = {}
            for one in by_prime(material.primed(pair, template))[P.BOTH]:
                for gender, prompt in ((Gender.FEMININE, one.feminine), (Gender.MASCULINE, one.masculine)):
                    shown[one.variant, gender] = text_of(prime_of(prompt))
                assert (one.frame, one.owner_noun) == (frame.text, template.antecedent_noun)
            expected = {}
            for own, other, first in product(Gender, Gender, (True, False)):
                sentences = [frame.filled(template.antecedent_noun, own), beside.filled(template.other_noun, other)]
                variant = f"own {'first' if first else 'last'}, other {other}"
                expected[variant, own] = " ".join(sentences if first else sentences[::-1]) + " "
            assert shown == expected
            assert len(set(shown.values())) == 8


@EVERYWHERE
def test_partner_and_third_frame_differ_in_the_nouns_alone(materials: Callable[[str], Material], name: str) -> None:
    material = materials(name)
    for pair in material.pairs:
        thirds = material.thirds[pair.id]
        for template in pair.members:
            found = by_prime(material.primed(pair, template))
            (partner,), (stranger,) = found[P.PARTNER], found[P.THIRD_FRAME]
            wanted = choice_prompt(template, pair.partner(template), ContextSetting.CF, FM, material.wording)
            assert partner.feminine == wanted
            assert (partner.owner_noun, stranger.owner_noun) == (template.other_noun, found[P.THIRD][0].owner_noun)
            swap = {pair.occupation: thirds.occupation.noun, pair.participant: thirds.participant.noun}
            people = (Span.PRIME_OWNER, Span.PRIME_NONOWNER)
            for own, other in zip(prime_of(partner.masculine), prime_of(stranger.masculine), strict=True):
                assert own.span is other.span
                if own.span in people:
                    assert other.text == swap[own.text]
                elif own.span is not Span.PRIME_AFTER_PRONOUN:
                    assert other.text == own.text
            assert not {pair.occupation, pair.participant} & {s.text for s in prime_of(stranger.masculine)}


def test_a_mention_is_the_same_token_at_the_same_distance(builtin: StimulusSet) -> None:
    material = made(builtin)
    for pair in builtin.pairs:
        for template in pair.members:
            found = by_prime(material.primed(pair, template))
            for other, mention in zip(found[P.OTHER], found[P.MENTION], strict=True):
                assert mention.frame == other.frame
                assert mention.owner_noun is None
                a, b = prime_of(other.feminine), prime_of(mention.feminine)
                assert text_of(b) == mention.variant.replace("PRONOUN", FORMS[template.case].feminine) + " "
                behind = [text_of(tuple(s for s in p if s.span is Span.PRIME_AFTER_PRONOUN)) for p in (a, b)]
                assert length(behind[0]) == length(behind[1])
                ahead = [p[[s.span for s in p].index(Span.PRIMING_PRONOUN) - 1].text for p in (a, b)]
                assert all(text.endswith(" ") for text in ahead)


def test_a_vocabulary_without_the_words_goes_without_mentions(builtin: StimulusSet) -> None:
    without = made(builtin, knows=lambda text: False)
    assert list(without.rotation.skipped) == ["mention"]
    assert re.fullmatch(
        r"the model's vocabulary lacks a word of every sentence, such as '.*'; write .* \[mention\] of the frames file",
        without.rotation.skipped["mention"],
    )
    assert not any(frames.mentions for frames in without.rotation.by_template.values())
    pair = builtin.pairs[0]
    assert not by_prime(without.primed(pair, pair.members[0]))[P.MENTION]
    known = [mention for mention in builtin_mentions() if "grid" in mention.text]
    some = rotate_frames(
        builtin.pairs, builtin_frames(), builtin_mentions(), length, 0, knows=lambda text: "grid" in text
    )
    assert {m.mention for frames in some.by_template.values() for m in frames.mentions} == {*known}
    assert some.skipped == {}
    none = rotate_frames(builtin.pairs, builtin_frames(), (), length, 0)
    assert none.skipped["mention"].startswith("no sentence about a word is given; write some")


def test_frames_of_one_case(cells: list[list[str]], write: Callable[[list[list[str]]], Path]) -> None:
    """Two pairs of two cases: refused without a frame of either, and without cross primes where no case is left."""
    both = load_stimuli(write(cells))
    possessive = [frame for frame in builtin_frames() if frame.case is Case.POSSESSIVE]
    with pytest.raises(
        StimuliError, match=r'hold 0 of the nominative case, .* takes 2: add \[\[frame\]\] tables with case = "nominat'
    ):
        rotate_frames(both.pairs, possessive, (), length, 0)
    rotation = rotate_frames(both.pairs[1:], possessive, builtin_mentions(), length, 0)
    assert list(rotation.skipped) == ["cross before possessive blanks"]
    pair = both.pairs[1]
    thirds = third_roles(both.pairs, length, 0)[pair.id]
    found = by_prime(primed_prompts(pair, pair.members[0], FM, rotation.by_template["002a"], thirds))
    assert {p: len(some) for p, some in found.items()} == {**WHOLE, P.CROSS_OTHER: 0, P.CROSS_THIRD: 0}


@pytest.mark.parametrize(("at_hand", "per_template"), [(4, 0), (4, 5), (0, 0), (-1, 1)])
def test_numbers_of_frames_that_cannot_be(builtin: StimulusSet, at_hand: int, per_template: int) -> None:
    with pytest.raises(OptionError, match=rf"^{per_template} frames for each template of {at_hand} at hand: give a nu"):
        made(builtin, at_hand=at_hand, per_template=per_template)


def test_too_few_frames_for_a_template(builtin: StimulusSet) -> None:
    one = [next(frame for frame in builtin_frames() if frame.case is case) for case in Case]
    with pytest.raises(StimuliError, match="hold 1 of the nominative case, and every template of that case takes 2"):
        rotate_frames(builtin.pairs, one, (), length, 0)


def test_the_seed_decides(builtin: StimulusSet) -> None:
    first, again, other = (made(builtin, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.rotation != other.rotation


@EVERYWHERE
def test_option_order_changes_the_options_alone(materials: Callable[[str], Material], name: str) -> None:
    material = materials(name)
    pair = material.pairs[1]
    for template in pair.members:
        primes = [material.primed(pair, template, order) for order in OptionOrder]
        for one, other in zip(*primes, strict=True):
            assert (one.prime, one.variant, one.frame) == (other.prime, other.variant, other.frame)
            assert prime_of(one.feminine) == prime_of(other.feminine)
            assert one.feminine.option_order != other.feminine.option_order


def test_unprimed_prompts(builtin: StimulusSet) -> None:
    for pair in builtin.pairs[:6]:
        for template in pair.members:
            found = unprimed_prompts(pair, template, FM)
            assert list(found) == ["c0", "n1", "n2", "r_np"]
            for setting, prompt in found.items():
                assert prompt == choice_prompt(template, pair.partner(template), setting, FM)
                assert not any(s.span is Span.PRIMING_PRONOUN for s in prompt.messages[-1].segments)


def test_who_is_named_first(builtin: StimulusSet) -> None:
    """The built-in stimuli are balanced; in each pair it is true of one sentence."""
    for pair in builtin.pairs:
        assert sum(antecedent_is_first(template) for template in pair.members) == 1
        for template in pair.members:
            text = text_of(target_segments(template))
            places = [re.search(rf"\b{noun}\b", text) for noun in (template.antecedent_noun, template.other_noun)]
            assert antecedent_is_first(template) == (places[0].start() < places[1].start())  # type: ignore[union-attr]


def test_the_manipulation_check_by_hand(cells: list[list[str]], write: Callable[[list[list[str]]], Path]) -> None:
    template = load_stimuli(write(cells)).pairs[1].members[1]
    frame = Frame(Case.ACCUSATIVE, "The ROLE had a bag with PRONOUN.")
    rights = {}
    for noun in ("rower", "tailor", "baker"):
        for question in person_questions(template, noun):
            assert question.answers == ("yes", "no")
            rights[noun, question.name] = question.right
            shown = set()
            for listed in listings(question.answers):
                prompt = person_prompt(template, frame, noun, Gender.MASCULINE, question, listed)
                answers = ", ".join(f'"{answer}"' for answer in listed)
                assert prompt.messages[1].text == (
                    f"Text: The {noun} had a bag with him. {template.text}\n"
                    f"Question: {question.text}\n"
                    f"Answers: {answers}"
                )
                shown.add(answers)
            assert len(shown) == 2
    assert (template.antecedent_noun, template.other_noun) == ("rower", "tailor")
    assert rights == {
        ("rower", "mentioned_again"): "yes",
        ("rower", "blank_is_same"): "yes",
        ("tailor", "mentioned_again"): "yes",
        ("tailor", "blank_is_same"): "no",
        ("baker", "mentioned_again"): "no",
        ("baker", "blank_is_same"): "no",
    }


def test_the_planted_conflater_is_moved_as_its_truth_says(
    materials: Callable[[str], Material], folder: Path, tokenizer_of_planted: Any, one_thread: None
) -> None:
    """Its vocabulary has all words of the primes, and the pronoun of either person moves it, a stranger's never."""
    import torch
    import transformers

    from referent_probe.models.tokens import encode

    network = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    effects, material = json.loads((folder / "truth.json").read_text())["effects"], materials("planted")

    def log_odds(prompt: Prompt) -> float:
        ids = encode(prompt, tokenizer_of_planted).ids
        options = tokenizer_of_planted.convert_tokens_to_ids([prompt.options.feminine, prompt.options.masculine])
        with torch.no_grad():
            feminine, masculine = network(torch.tensor([ids])).logits[0, -1, options].tolist()
        return float(feminine - masculine)

    names = {P.CROSS_OTHER: "other", P.CROSS_THIRD: "third", P.MENTION: "third"}
    for pair in material.pairs[::30]:
        for template in pair.members:
            for one in material.primed(pair, template):
                if one.prime is not P.BOTH:
                    effect = log_odds(one.feminine) - log_odds(one.masculine)
                    wanted = effects[names.get(one.prime, str(one.prime))][template.id]
                    assert effect == pytest.approx(wanted, abs=0.05), one
