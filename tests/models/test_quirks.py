"""Quirks seen in templates, and what they do to a prompt."""

import dataclasses
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest
from tests.models.test_tokens import CHATML, GENERATE, INSTRUCTION, LOOP, RAISES_ON_SYSTEM, TURN, prompt, text_of

from referent_probe.errors import PromptError
from referent_probe.models.quirks import FIXED_DATE, HARMONY_ANSWER, PLAIN, Quirks, with_template
from referent_probe.models.tokens import answer_token, encode
from referent_probe.stimuli.primes import Span

BODY = LOOP + TURN + "{{ m.content }}<|end|>\n"
THINKS = BODY + GENERATE.replace(
    "assistant\n",
    "assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}",
)
OPENS_THINKING = BODY + GENERATE.replace("assistant\n", "assistant\n<think>\n")
HARMONY = (
    "{{ '<|start|>system<|message|>You are a model.\nCurrent date: ' + strftime_now('%Y-%m-%d') + '<|end|>' }}"
    "{% for m in messages %}<|start|>{{ 'developer' if m.role == 'system' else m.role }}<|message|>{{ m.content }}"
    "<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)


class TestSeen:
    @pytest.mark.parametrize("template", [CHATML, RAISES_ON_SYSTEM, None])
    def test_nothing_in_a_plain_template(self, template: str | None, make_tokenizer: Callable[..., Any]) -> None:
        assert with_template(PLAIN, make_tokenizer(template)) == PLAIN

    def test_a_thinking_switch(self, make_tokenizer: Callable[..., Any]) -> None:
        assert with_template(PLAIN, make_tokenizer(THINKS)) == Quirks(thinking_switch=True)

    def test_an_open_thinking_block(self, make_tokenizer: Callable[..., Any]) -> None:
        assert with_template(PLAIN, make_tokenizer(OPENS_THINKING)).assistant_opening == "\n</think>\n\n"
        without_newline = OPENS_THINKING.replace("<think>\n", "<think>")
        assert with_template(PLAIN, make_tokenizer(without_newline)).assistant_opening == "\n\n</think>\n\n"

    def test_harmony_and_its_date(self, make_tokenizer: Callable[..., Any]) -> None:
        expected = Quirks(assistant_opening=HARMONY_ANSWER, date=FIXED_DATE)
        assert with_template(PLAIN, make_tokenizer(HARMONY)) == expected

    def test_what_is_known_stays(self, make_tokenizer: Callable[..., Any]) -> None:
        known = Quirks(
            system_turn=False, prefill=False, assistant_opening="->", quantisation="mxfp4", date="2025-01-31"
        )
        assert with_template(known, make_tokenizer(HARMONY)) == known

    def test_a_template_that_takes_no_message_is_left_to_encode(self, make_tokenizer: Callable[..., Any]) -> None:
        assert with_template(PLAIN, make_tokenizer("{{ raise_exception('not today') }}")) == PLAIN

    @pytest.mark.parametrize("fault", ["{{ 1 + 'a' }}", "{{ 1/0 }}", "{{ range(10 ** 9) }}", "{% for"])
    def test_a_template_that_fails_is_left_to_encode(self, fault: str, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(CHATML + fault)
        assert with_template(PLAIN, tokenizer) == PLAIN
        with pytest.raises(PromptError, match="the chat template refuses the messages"):
            encode(prompt(), tokenizer, with_template(PLAIN, tokenizer))

    def test_they_go_into_a_manifest(self) -> None:
        assert set(PLAIN.as_dict()) == {field.name for field in dataclasses.fields(Quirks)}


class TestPrompts:
    @pytest.mark.parametrize("template", [CHATML, THINKS, OPENS_THINKING])
    def test_none_is_as_without(self, template: str, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(template)
        assert encode(prompt(), tokenizer, PLAIN) == encode(prompt(), tokenizer)

    @pytest.mark.parametrize(
        ("template", "ending"),
        [
            (THINKS, "<|turn|>assistant\n<think>\n\n</think>\n\n"),
            (OPENS_THINKING, "<|turn|>assistant\n<think>\n\n</think>\n\n"),
            (HARMONY, "<|start|>assistant<|channel|>final<|message|>"),
        ],
        ids=["switch", "open block", "harmony"],
    )
    def test_the_answer_follows_no_reasoning(
        self, template: str, ending: str, make_tokenizer: Callable[..., Any]
    ) -> None:
        tokenizer = make_tokenizer(template)
        encoded = encode(prompt(), tokenizer, with_template(PLAIN, tokenizer))
        assert encoded.text.endswith(f'{ending}The word is "')
        assert text_of(encoded, Span.FORMAT).endswith(ending)
        assert text_of(encoded, Span.PREFILL).strip() == "The word is"
        assert text_of(encoded, Span.PRIMING_PRONOUN) == " she"
        assert tokenizer.decode([answer_token(encoded, "she", tokenizer)]) == "she"

    def test_an_opening_that_the_template_writes_is_not_doubled(self, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(CHATML + "[answer]")
        encoded = encode(prompt(), tokenizer, Quirks(assistant_opening="[answer]"))
        assert encoded.text.count("[answer]") == 1

    def test_an_opening_needs_a_template(self, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(None)
        assert encode(prompt(), tokenizer, Quirks(assistant_opening="->")) == encode(prompt(), tokenizer)

    def test_the_date_is_the_same_every_day(self, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(HARMONY)
        encoded = encode(prompt(), tokenizer, with_template(PLAIN, tokenizer))
        assert f"Current date: {FIXED_DATE}<|end|>" in encoded.text
        assert f"Current date: {date.today()}<|end|>" in encode(prompt(), tokenizer).text
        assert "Current date: 2001-02-03" in encode(prompt(), tokenizer, Quirks(date="2001-02-03")).text

    @pytest.mark.parametrize("form", ["%d %b %Y", "%A, %B %d, %Y", "%Y-%m-%dT%H:%M:%S", "%y%j", "plain"])
    def test_any_form_of_the_date(self, form: str, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(
            "\n" + CHATML + "{%- macro day() %}{{ strftime_now('" + form + "') }}{% endmacro %}[{{ day() }}]"
        )
        encoded = encode(prompt(), tokenizer, Quirks(date="2024-07-06"))
        assert f"[{datetime(2024, 7, 6).strftime(form)}]" in encoded.text
        assert encoded.text.startswith("\n<s>")

    def test_without_a_system_turn_instructions_begin_the_user_turn(self, make_tokenizer: Callable[..., Any]) -> None:
        tokenizer = make_tokenizer(CHATML)
        encoded = encode(prompt(), tokenizer, Quirks(system_turn=False))
        assert not encoded.has_system_turn
        assert encoded.text.startswith(f"<s><|turn|>user\n{INSTRUCTION}\n\nText: The baker")
        assert encoded == encode(prompt(), make_tokenizer(RAISES_ON_SYSTEM))

    @pytest.mark.parametrize("template", [CHATML, None])
    def test_without_a_prefill_the_prompt_ends_where_the_answer_starts(
        self, template: str | None, make_tokenizer: Callable[..., Any]
    ) -> None:
        tokenizer = make_tokenizer(template)
        encoded = encode(prompt(), tokenizer, Quirks(prefill=False))
        whole = encode(prompt(), tokenizer)
        assert encoded.positions(Span.PREFILL) == ()
        assert whole.text == encoded.text + 'The word is "'
        assert encoded.spans[-1] is Span.TARGET_SLOT
