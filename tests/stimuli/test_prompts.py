import os
from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from referent_probe.errors import PromptError
from referent_probe.stimuli.options import FORMS, Case, OptionOrder, ordered_options
from referent_probe.stimuli.primes import ContextSetting, Segment, Span, prime_segments, target_segments
from referent_probe.stimuli.prompts import DEFAULT_WORDING, PromptWording, choice_prompt, load_wording
from referent_probe.stimuli.templates import Pair, StimulusSet, load_stimuli

SLOTS = "{passage} {option_1} {option_2}"


@pytest.fixture
def pair(cells: list[list[str]], write: Callable[[list[list[str]]], Path]) -> Pair:
    return load_stimuli(write(cells)).pairs[1]


def test_the_default_prompt_by_hand(pair: Pair) -> None:
    target, partner = pair.members
    prompt = choice_prompt(target, partner, ContextSetting.CF, OptionOrder.FEMININE_FIRST)
    system, user = prompt.messages
    assert (prompt.template_id, prompt.setting, prompt.option_order) == ("002a", "cf", "fm")
    assert prompt.options == FORMS[Case.POSSESSIVE]
    assert system.role == "system"
    assert system.text.endswith("answer with one of the two words and with no other word.")
    assert system.segments[0].span is Span.INSTRUCTION
    assert (user.role, user.text) == (
        "user",
        "Text: The rower met the tailor to see her torn team jacket mended. "
        "The rower met the tailor to see BLANK sewing machine at work.\n"
        'Is BLANK "her" or "his"?',
    )
    assert user.segments == (
        Segment("Text: ", Span.INSTRUCTION),
        *prime_segments(partner, ContextSetting.CF),
        Segment(" ", Span.PRIME_AFTER_PRONOUN),
        *target_segments(target),
        Segment('\nIs BLANK "', Span.FORMAT),
        Segment("her", Span.OPTION_FEMININE),
        Segment('" or "', Span.FORMAT),
        Segment("his", Span.OPTION_MASCULINE),
        Segment('"?', Span.FORMAT),
    )
    assert prompt.prefill == (Segment('The word is "', Span.PREFILL),)


def test_without_a_prime_the_passage_is_the_target(pair: Pair) -> None:
    prompt = choice_prompt(*pair.members, ContextSetting.C0, OptionOrder.MASCULINE_FIRST)
    assert prompt.messages[1].text.startswith("Text: " + pair.members[0].text + "\n")
    assert prompt.messages[1].text.endswith('"his" or "her"?')


def test_options_may_stand_before_the_passage(pair: Pair) -> None:
    wording = PromptWording("mine", "", "Put {option_1} or {option_2} into: {passage} Now!", "")
    prompt = choice_prompt(*pair.members, ContextSetting.C0, OptionOrder.MASCULINE_FIRST, wording)
    (user,) = prompt.messages
    assert user.segments[:5] == (
        Segment("Put ", Span.INSTRUCTION),
        Segment("his", Span.OPTION_MASCULINE),
        Segment(" or ", Span.INSTRUCTION),
        Segment("her", Span.OPTION_FEMININE),
        Segment(" into: ", Span.INSTRUCTION),
    )
    assert user.segments[-1] == Segment(" Now!", Span.FORMAT)
    assert prompt.prefill == ()


words = st.text(st.characters(codec="utf-8"), max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    number=st.integers(0, 10_000),
    setting=st.sampled_from(ContextSetting),
    order=st.sampled_from(OptionOrder),
    slots=st.permutations(["{passage}", "{option_1}", "{option_2}"]),
    fixed=st.tuples(words, words, words, words),
)
def test_segments_spell_the_messages(
    builtin: StimulusSet,
    number: int,
    setting: ContextSetting,
    order: OptionOrder,
    slots: list[str],
    fixed: tuple[str, ...],
) -> None:
    target, partner = builtin.pairs[number % len(builtin.pairs)].members
    braced = [text.replace("{", "{{").replace("}", "}}") for text in fixed]
    user = braced[0] + "".join(slot + text for slot, text in zip(slots, braced[1:], strict=True))
    prompt = choice_prompt(target, partner, setting, order, PromptWording("any", fixed[0][:1], user, ""))
    first, second = ordered_options(target.case, order)
    prime = "".join(segment.text for segment in prime_segments(partner, setting))
    prime = prime + " " if prime else ""
    expected = user.format(passage=prime + target.text, option_1=first, option_2=second)
    assert prompt.messages[-1].text == expected
    assert all(segment.text for message in prompt.messages for segment in message.segments)
    assert len(prompt.messages) == 1 + bool(fixed[0])


def test_prompts_of_one_template_all_differ(pair: Pair) -> None:
    prompts = [choice_prompt(*pair.members, *which) for which in product(ContextSetting, OptionOrder)]
    assert len({prompt.messages for prompt in prompts}) == 14


def save(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def toml(user: str = SLOTS, system: str = "", prefill: str = "") -> str:
    return f"system = '''{system}'''\nuser = '''{user}'''\nprefill = '''{prefill}'''\n"


def test_loads_a_wording(tmp_path: Path) -> None:
    assert load_wording(save(tmp_path, toml(system="Choose."))) == PromptWording("mine", "Choose.", SLOTS, "")
    assert load_wording(save(tmp_path, "name = 'ours'\n" + toml())).name == "ours"
    default = toml(DEFAULT_WORDING.user, DEFAULT_WORDING.system, DEFAULT_WORDING.prefill)
    assert load_wording(save(tmp_path, "name = 'default'\n" + default)) == DEFAULT_WORDING


@pytest.mark.parametrize("slots", list(permutations(SLOTS.split())))
def test_slots_stand_in_any_order(slots: tuple[str, ...], tmp_path: Path) -> None:
    assert load_wording(save(tmp_path, toml("".join(slots)))).user == "".join(slots)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the key 'system'"),
        ("system = ''\nprefill = ''", "lacks the key 'user'"),
        (f"system = ''\nuser = '{SLOTS}'", "lacks the key 'prefill'"),
        (toml() + "usr = ''", "unknown key 'usr'"),
        (toml() + "name = 3", "key 'name': 3 is not text"),
        (f"system = ['a']\nuser = '{SLOTS}'\nprefill = ''", "key 'system' ... is not text"),
        ("[user]\ntext = ''", "key 'user' ... is not text"),
        ("system = ''\nuser = open", "is not TOML ... line 2"),
        (toml() + toml(), "is not TOML ... line 4"),
        ("a = " + "[" * 100_000, "is not TOML"),
        ("a" + ".a" * 300_000 + " = 1", "dotted key of over 50 names"),
        ("[" + "'a' . " * 100_000 + "a]", "dotted key of over 50 names"),
        ("a" * 900_000, "is not TOML"),
        ("#" * 1_000_001, "is larger than 1000000 bytes"),
        ("usr = " + "[" * 50 + "]" * 50, "unknown key 'usr'"),
        ("name = 0x" + "f" * 90_000, "key 'name' ... is not text"),
        (toml("{option_1} {option_2}"), "key 'user': slot 'passage' stands there 0 times"),
        (toml(SLOTS + "{option_2}"), "key 'user': slot 'option_2' stands there 2 times"),
        (toml(SLOTS + "{option_3}"), "key 'user': unknown slot 'option_3'"),
        (toml(SLOTS + "{}"), "key 'user': unknown slot ''"),
        (toml(SLOTS + "{0}"), "key 'user': unknown slot '0'"),
        (toml(SLOTS + "{passage.id}"), "key 'user': unknown slot 'passage.id'"),
        (toml(SLOTS + "{two\nlines}"), "key 'user': unknown slot 'two\\nlines'"),
        (toml(SLOTS.replace("passage", "passage!r")), "key 'user': slot 'passage' has a format"),
        (toml(SLOTS.replace("passage", "passage:>9")), "key 'user': slot 'passage' has a format"),
        (toml(SLOTS + " {"), "key 'user' ... for braces"),
        (toml(SLOTS + " }"), "key 'user' ... for braces"),
        (toml(SLOTS + " {passage"), "key 'user' ... for braces"),
        (toml(system="Read {passage}."), "key 'system': slot 'passage' is not filled there"),
        (toml(prefill="{option_1}"), "key 'prefill': slot 'option_1' is not filled there"),
    ],
)
def test_refuses_wording(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PromptError) as caught:
        load_wording(save(tmp_path, text))
    for part in message.split(" ... "):
        assert part in str(caught.value)
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in tmp_path / "absent.toml", tmp_path, tmp_path / "pipe", "/dev/zero", "a\0b":
        with pytest.raises(PromptError, match="cannot read"):
            load_wording(path)
    (tmp_path / "latin.toml").write_bytes("system = 'é'".encode("latin-1"))
    with pytest.raises(PromptError, match="is not TOML"):
        load_wording(tmp_path / "latin.toml")


def test_refuses_a_wording_made_in_python() -> None:
    with pytest.raises(PromptError, match="stands there 0 times"):
        PromptWording("mine", "", "Nothing to fill.", "")
