"""Spans, rendering and answer tokens, with a small tokenizer whose words are mostly split."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from referent_probe.errors import PromptError
from referent_probe.models.tokens import EncodedPrompt, answer_token, encode, refuse_prefix_options
from referent_probe.stimuli.options import FORMS, Case, OptionOrder
from referent_probe.stimuli.primes import ContextSetting, Segment, Span
from referent_probe.stimuli.prompts import DEFAULT_WORDING, Message, Prompt, PromptWording, choice_prompt
from referent_probe.stimuli.templates import Piece, Role, Template

TURN = "<|turn|>{{ m.role }}\n"
GENERATE = "{% endfor %}{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
LOOP = "{{ bos_token }}{% for m in messages %}"
CHATML = LOOP + TURN + "{{ m.content }}<|end|>\n" + GENERATE
WITHOUT_SYSTEM = LOOP + "{% if m.role != 'system' %}" + TURN + "{{ m.content }}<|end|>\n{% endif %}" + GENERATE
RAISES_ON_SYSTEM = (
    LOOP
    + "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    + TURN
    + "{{ m.content }}<|end|>\n"
    + GENERATE
)
TRIMS = LOOP + TURN + "{{ m.content | trim }}<|end|>\n" + GENERATE
SHOUTS = LOOP + TURN + "{{ m.content | upper }}<|end|>\n" + GENERATE
REPEATS = LOOP + TURN + "{{ m.content }}{{ m.content }}<|end|>\n" + GENERATE
OWN_SYSTEM = (
    "{% if messages[0].role != 'system' %}<|turn|>system\nYou are a helpful assistant.<|end|>\n{% endif %}"
    "{% for m in messages %}" + TURN + "{{ m.content }}<|end|>\n" + GENERATE
)
INSTRUCTION = DEFAULT_WORDING.system


def sentence(
    occupation: str = "baker", participant: str = "guest", *, owner: Role = Role.PARTICIPANT, end: str = " could pay."
) -> Template:
    """ "The baker told the guest that BLANK could pay." """
    return Template(
        id="001a",
        pair="001",
        row=2,
        case=Case.NOMINATIVE,
        occupation=occupation,
        participant=participant,
        antecedent=owner,
        pieces=(
            Piece("The ", "text"),
            Piece(occupation, "occupation"),
            Piece(" told the ", "text"),
            Piece(participant, "participant"),
            Piece(" that ", "text"),
            Piece("BLANK", "blank"),
            Piece(end, "text"),
        ),
    )


def prompt(
    occupation: str = "baker",
    participant: str = "guest",
    *,
    setting: ContextSetting = ContextSetting.CF,
    wording: PromptWording = DEFAULT_WORDING,
    end: str = " could pay.",
) -> Prompt:
    partner = sentence(occupation, participant, owner=Role.OCCUPATION, end=" was tired.")
    target = sentence(occupation, participant, end=end)
    return choice_prompt(target, partner, setting, OptionOrder.MASCULINE_FIRST, wording)


def text_of(encoded: EncodedPrompt, span: Span) -> str:
    return "".join(encoded.pieces[i] for i in encoded.positions(span))


def before(encoded: EncodedPrompt, position: int) -> str:
    return "".join(encoded.pieces[:position])


class TestSpans:
    def test_they_cover_every_token_and_the_target_slot_is_last(self, tokenizer: Any) -> None:
        encoded = encode(prompt(), tokenizer)
        assert len(encoded.ids) == len(encoded.spans) == len(encoded.pieces)
        assert "".join(encoded.pieces) == encoded.text == tokenizer.decode(list(encoded.ids))
        positions = [encoded.positions(span) for span in Span]
        assert sorted(i for at in positions for i in at) == list(range(len(encoded.ids)))
        assert encoded.positions(Span.TARGET_SLOT) == (len(encoded.ids) - 1,)

    def test_they_hold_their_words(self, tokenizer: Any) -> None:
        encoded = encode(prompt(), tokenizer)
        assert {span: text_of(encoded, span).strip() for span in Span} == {
            Span.INSTRUCTION: f"<s><|turn|>system\n{INSTRUCTION}<|end|>\n<|turn|>user\nText:",
            Span.PRIME_OWNER: "baker",
            Span.PRIME_NONOWNER: "guest",
            Span.PRIMING_PRONOUN: "she",
            Span.PRIME_AFTER_PRONOUN: "was tired.",
            Span.PRIME_REST: "The told the that",
            Span.ANTECEDENT: "guest",
            Span.OTHER_REFERENT: "baker",
            Span.BLANK: "BLANK",
            Span.TARGET_REST: "The told the that could pay.",
            Span.OPTION_FEMININE: "she",
            Span.OPTION_MASCULINE: "he",
            Span.FORMAT: 'Is BLANK "" or ""?<|end|>\n<|turn|>assistant',
            Span.PREFILL: "The word is",
            Span.TARGET_SLOT: '"',
        }

    def test_the_priming_pronoun_is_one_token_and_the_only_difference(self, tokenizer: Any) -> None:
        feminine, masculine = (
            encode(prompt(setting=setting), tokenizer) for setting in (ContextSetting.CF, ContextSetting.CM)
        )
        (at,) = feminine.positions(Span.PRIMING_PRONOUN)
        assert masculine.positions(Span.PRIMING_PRONOUN) == (at,)
        assert (feminine.pieces[at], masculine.pieces[at]) == (" she", " he")
        assert [i for i in range(len(feminine.ids)) if feminine.ids[i] != masculine.ids[i]] == [at]

    def test_without_a_prime_its_spans_are_empty(self, tokenizer: Any) -> None:
        encoded = encode(prompt(setting=ContextSetting.C0), tokenizer)
        for span in (Span.PRIME_OWNER, Span.PRIME_NONOWNER, Span.PRIMING_PRONOUN, Span.PRIME_AFTER_PRONOUN):
            assert encoded.positions(span) == ()
        assert text_of(encoded, Span.ANTECEDENT).strip() == "guest"

    def test_a_word_that_occurs_often_is_taken_where_it_belongs(self, tokenizer: Any) -> None:
        wording = PromptWording("w", "A baker and a guest: she or he, BLANK?", DEFAULT_WORDING.user, "The guest: she? ")
        encoded = encode(prompt(wording=wording, end=" met a baker and a guest; she knew BLANK."), tokenizer)
        assert encoded.text.count("guest") == 5
        assert encoded.text.count("she") == 5
        head = "Text: The baker told the guest that"
        prime = head + " she was tired. The baker told the"
        for span, preceding in (
            (Span.PRIME_OWNER, "Text: The"),
            (Span.PRIME_NONOWNER, "Text: The baker told the"),
            (Span.PRIMING_PRONOUN, head),
            (Span.OTHER_REFERENT, head + " she was tired. The"),
            (Span.ANTECEDENT, prime),
            (Span.BLANK, prime + " guest that"),
        ):
            at = encoded.positions(span)
            assert at == tuple(range(at[0], at[-1] + 1))
            assert before(encoded, at[0]).endswith(preceding)
        (option,) = encoded.positions(Span.OPTION_FEMININE)
        assert before(encoded, option).endswith('Is BLANK "he" or "')

    def test_a_role_may_be_split_into_many_tokens(self, tokenizer: Any) -> None:
        encoded = encode(prompt("otorhinolaryngologist", "vice-chancellor"), tokenizer)
        assert len(encoded.positions(Span.OTHER_REFERENT)) > 8
        assert text_of(encoded, Span.OTHER_REFERENT).strip() == "otorhinolaryngologist"
        assert text_of(encoded, Span.PRIME_OWNER).strip() == "otorhinolaryngologist"
        assert text_of(encoded, Span.ANTECEDENT).strip() == "vice-chancellor"

    @settings(max_examples=60, deadline=None)
    @given(
        occupation=st.from_regex(r"[A-Za-z]{1,9}([ '-][a-z]{1,9}){0,2}", fullmatch=True),
        participant=st.from_regex(r"[A-Za-z]{1,9}([ '-][a-z]{1,9}){0,2}", fullmatch=True),
        setting=st.sampled_from([ContextSetting.CF, ContextSetting.CM]),
        plain=st.booleans(),
    )
    def test_any_role_nouns_are_found(
        self,
        occupation: str,
        participant: str,
        setting: ContextSetting,
        plain: bool,
        make_tokenizer: Callable[..., Any],
    ) -> None:
        encoded = encode(prompt(occupation, participant, setting=setting), make_tokenizer(None if plain else CHATML))
        pronoun = "she" if setting is ContextSetting.CF else "he"
        for span, word in (
            (Span.PRIME_OWNER, occupation),
            (Span.PRIME_NONOWNER, participant),
            (Span.PRIMING_PRONOUN, pronoun),
            (Span.OTHER_REFERENT, occupation),
            (Span.ANTECEDENT, participant),
            (Span.BLANK, "BLANK"),
            (Span.OPTION_FEMININE, "she"),
            (Span.OPTION_MASCULINE, "he"),
        ):
            assert text_of(encoded, span).strip() == word
        assert encoded.spans[-1] is Span.TARGET_SLOT

    @pytest.mark.parametrize("noun", ["señora", "ﬁsher", "医生", "cafe\u0301 owner", "🧑‍🍳"])
    def test_nouns_beyond_ascii_keep_their_places(self, noun: str, tokenizer: Any) -> None:
        encoded = encode(prompt(noun, "guest"), tokenizer)
        at = encoded.positions(Span.PRIME_OWNER)
        assert tokenizer.decode([encoded.ids[i] for i in at]).strip() == noun
        assert text_of(encoded, Span.PRIME_NONOWNER).strip() == "guest"

    def test_an_empty_role_is_refused(self, tokenizer: Any) -> None:
        with pytest.raises(PromptError, match="no token of the prompt covers the span"):
            encode(prompt("", "guest"), tokenizer)


class TestRendering:
    @pytest.mark.parametrize("template", [CHATML, WITHOUT_SYSTEM, RAISES_ON_SYSTEM, TRIMS])
    def test_a_bos_that_the_template_writes_is_not_doubled(
        self, template: str, make_tokenizer: Callable[..., Any]
    ) -> None:
        tokenizer = make_tokenizer(template)
        encoded = encode(prompt(), tokenizer)
        assert encoded.ids[0] == tokenizer.bos_token_id
        assert encoded.ids.count(tokenizer.bos_token_id) == 1

    def test_ids_are_those_of_apply_chat_template(self, tokenizer: Any) -> None:
        asked = prompt()
        turns = [{"role": m.role, "content": m.text} for m in asked.messages]
        ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
        prefill = tokenizer(DEFAULT_WORDING.prefill, add_special_tokens=False)["input_ids"]
        assert encode(asked, tokenizer).ids == (*ids, *prefill)

    def test_a_system_turn_stays_one(self, tokenizer: Any) -> None:
        assert encode(prompt(), tokenizer).has_system_turn

    @pytest.mark.parametrize("template", [WITHOUT_SYSTEM, RAISES_ON_SYSTEM], ids=["left out", "refused"])
    def test_without_one_the_instruction_joins_the_user_turn(
        self, template: str, make_tokenizer: Callable[..., Any]
    ) -> None:
        encoded = encode(prompt(), make_tokenizer(template))
        assert not encoded.has_system_turn
        assert encoded.text.startswith(f"<s><|turn|>user\n{INSTRUCTION}\n\nText: The baker")
        assert text_of(encoded, Span.INSTRUCTION).strip() == f"<s><|turn|>user\n{INSTRUCTION}\n\nText:"
        assert text_of(encoded, Span.ANTECEDENT) == " guest"

    def test_a_wording_without_system_text(self, make_tokenizer: Callable[..., Any]) -> None:
        wording = PromptWording("w", "", DEFAULT_WORDING.user, DEFAULT_WORDING.prefill)
        encoded = encode(prompt(wording=wording), make_tokenizer(CHATML))
        assert not encoded.has_system_turn
        assert encoded.text.startswith("<s><|turn|>user\nText: ")

    def test_a_template_that_inserts_a_system_turn_of_its_own(self, make_tokenizer: Callable[..., Any]) -> None:
        wording = PromptWording("w", "", DEFAULT_WORDING.user, DEFAULT_WORDING.prefill)
        encoded = encode(prompt(wording=wording), make_tokenizer(OWN_SYSTEM))
        assert text_of(encoded, Span.INSTRUCTION).startswith("<|turn|>system\nYou are a helpful assistant.<|end|>")
        assert "helpful" not in encode(prompt(), make_tokenizer(OWN_SYSTEM)).text

    def test_a_template_that_trims(self, make_tokenizer: Callable[..., Any]) -> None:
        assert encode(prompt(), make_tokenizer(TRIMS)).text == encode(prompt(), make_tokenizer(CHATML)).text
        padded = PromptWording("w", "", DEFAULT_WORDING.user + "  ", DEFAULT_WORDING.prefill)
        with pytest.raises(PromptError, match=r"changes its text; .*--prompts"):
            encode(prompt(wording=padded), make_tokenizer(TRIMS))

    @pytest.mark.parametrize("template", [SHOUTS, REPEATS])
    def test_a_template_that_alters_the_text_is_refused(
        self, template: str, make_tokenizer: Callable[..., Any]
    ) -> None:
        with pytest.raises(PromptError, match="changes its text") as refusal:
            encode(prompt(), make_tokenizer(template))
        assert "\n" not in str(refusal.value)

    def test_a_template_that_takes_no_message_is_refused_with_its_reason(
        self, make_tokenizer: Callable[..., Any]
    ) -> None:
        with pytest.raises(PromptError, match=r"not today.*--prompts"):
            encode(prompt(), make_tokenizer("{{ raise_exception('not today') }}"))

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("{{ 1 + 'a' }}", "unsupported operand type"),
            ("{{ 1/0 }}", "division by zero"),
            ("{{ messages[9].content }}", "has no element 9"),
            ("{{ range(10 ** 9) }}", "Range too big"),
            ("{{ raise_exception('two\nlines') }}", "two lines"),
            ("{{ {}['key'].missing }}", "has no attribute 'key'"),
            ("{% for", "unexpected"),
        ],
    )
    def test_a_template_that_fails_is_refused_with_its_reason(
        self, fault: str, reason: str, make_tokenizer: Callable[..., Any]
    ) -> None:
        with pytest.raises(PromptError) as caught:
            encode(prompt(), make_tokenizer(CHATML + fault))
        message = str(caught.value)
        assert "\n" not in message
        assert message.startswith("the chat template refuses the messages (")
        assert reason.lower() in message.lower()
        assert "--prompts" in message

    def test_without_a_chat_template_turns_are_paragraphs(self, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(None)
        encoded = encode(prompt(), tokenizer)
        question = encoded.text.removeprefix(f"{INSTRUCTION}\n\nText: ")
        assert question.endswith('Is BLANK "he" or "she"?\nThe word is "')
        assert encoded.ids[0] == tokenizer.bos_token_id
        assert encoded.ids.count(tokenizer.bos_token_id) == 1
        assert (encoded.spans[0], encoded.pieces[0]) == (Span.INSTRUCTION, "")
        assert not encoded.has_system_turn
        assert "".join(encoded.pieces) == encoded.text

    def test_a_tokenizer_that_adds_nothing(self, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(None, adds_bos=False)
        encoded = encode(prompt(), tokenizer)
        assert tokenizer.bos_token_id not in encoded.ids
        assert encoded.pieces[0] == "Y"

    def test_no_prefill_ends_with_the_generation_prompt(self, tokenizer: Any) -> None:
        wording = PromptWording("w", "", DEFAULT_WORDING.user, "")
        encoded = encode(prompt(wording=wording), tokenizer)
        assert encoded.text.endswith("<|end|>\n<|turn|>assistant\n")
        assert encoded.spans[-1] is Span.TARGET_SLOT
        assert encoded.positions(Span.PREFILL) == ()

    def test_a_tokenizer_without_offsets_is_refused(self) -> None:
        with pytest.raises(PromptError, match=r"SimpleNamespace reports no character offsets.*tokenizer\.json"):
            encode(prompt(), SimpleNamespace(is_fast=False, chat_template=None))

    def test_empty_messages_are_left_out(self, tokenizer: Any) -> None:
        asked = prompt()
        silent = Prompt(
            asked.template_id,
            asked.setting,
            asked.option_order,
            asked.options,
            (Message("system", ()), asked.messages[1]),
            asked.prefill,
        )
        assert encode(silent, tokenizer).text.startswith("<s><|turn|>user\nText")


class TestAnswerToken:
    @pytest.mark.parametrize("answer", ["she", "he", "her", "him", "his", "they", "them", "their"])
    @pytest.mark.parametrize("chat", [CHATML, None], ids=["chat", "plain"])
    def test_it_continues_the_prompt(self, answer: str, chat: str | None, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(chat)
        encoded = encode(prompt(), tokenizer)
        token = answer_token(encoded, answer, tokenizer)
        assert token == tokenizer.convert_tokens_to_ids(answer)
        assert tokenizer.decode([*encoded.ids, token]).endswith(f'The word is "{answer}')

    def test_a_leading_space_makes_another_token(self, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(CHATML)
        encoded = encode(prompt(wording=PromptWording("w", "", DEFAULT_WORDING.user, "Answer:")), tokenizer)
        assert answer_token(encoded, " she", tokenizer) == tokenizer.convert_tokens_to_ids("Ġshe")
        assert answer_token(encoded, "she", tokenizer) == tokenizer.convert_tokens_to_ids("she")

    @pytest.mark.parametrize("answer", ["xylophonist", "she was", "", "hers"])
    def test_an_answer_of_several_tokens_or_none_is_refused(self, answer: str, tokenizer: Any) -> None:
        with pytest.raises(PromptError, match="not one token of its own") as refusal:
            answer_token(encode(prompt(), tokenizer), answer, tokenizer)
        assert repr(answer) in str(refusal.value)
        assert "\n" not in str(refusal.value)

    def test_an_answer_that_joins_the_end_of_the_prompt_is_refused(self, tokenizer: Any) -> None:
        encoded = encode(prompt(wording=PromptWording("w", "", DEFAULT_WORDING.user, "It is ")), tokenizer)
        with pytest.raises(PromptError, match=r"the end becomes \['Ġshe'\].*--prompts"):
            answer_token(encoded, "she", tokenizer)

    def test_a_tokenizer_that_closes_plain_text_is_refused(self, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(None, adds_eos=True)
        with pytest.raises(PromptError, match="she"):
            answer_token(encode(prompt(), tokenizer), "she", tokenizer)


class TestPrefixOptions:
    def test_the_options_of_every_case_pass(self) -> None:
        for forms in FORMS.values():
            refuse_prefix_options((forms.feminine, forms.masculine))

    @pytest.mark.parametrize("options", [("he", "her"), ("her", "he"), ("she", "she"), ("", "she"), ("a", "b", "ab")])
    def test_an_option_that_begins_another_is_refused(self, options: tuple[str, ...]) -> None:
        with pytest.raises(PromptError, match="is a prefix of"):
            refuse_prefix_options(options)


class TestSharedTokens:
    """ " she" is one token; here several segments share it."""

    def shared(self, make_tokenizer: Callable[..., Any], *segments: tuple[str, Span]) -> dict[str, Span]:
        asked, cut = prompt(), tuple(Segment(text, span) for text, span in segments)
        message = Prompt("t", asked.setting, asked.option_order, asked.options, (Message("user", cut),), ())
        encoded = encode(message, make_tokenizer(None))
        return dict(zip(encoded.pieces, encoded.spans, strict=True))

    @pytest.mark.parametrize(("one", "two"), [(" ", "she"), (" s", "he"), (" sh", "e")])
    @pytest.mark.parametrize("filling", [Span.INSTRUCTION, Span.PRIME_AFTER_PRONOUN, Span.TARGET_REST, Span.FORMAT])
    def test_a_named_span_wins_over_filling(
        self, one: str, two: str, filling: Span, make_tokenizer: Callable[..., Any]
    ) -> None:
        pronoun = Span.PRIMING_PRONOUN
        for first, second in ((filling, pronoun), (pronoun, filling)):
            of_pieces = self.shared(make_tokenizer, ("x", filling), (one, first), (two, second), (" y", filling))
            assert of_pieces[" she"] is pronoun

    def test_of_two_fillings_the_later_one_has_it(self, make_tokenizer: Callable[..., Any]) -> None:
        of_pieces = self.shared(make_tokenizer, ("x sh", Span.INSTRUCTION), ("e y", Span.FORMAT))
        assert of_pieces[" she"] is Span.FORMAT

    def test_two_named_spans_in_one_token_are_refused(self, make_tokenizer: Callable[..., Any]) -> None:
        with pytest.raises(PromptError, match="no token of the prompt covers the span"):
            self.shared(make_tokenizer, (" sh", Span.BLANK), ("e", Span.ANTECEDENT), (" y", Span.FORMAT))
