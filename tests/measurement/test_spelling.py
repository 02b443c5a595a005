import doctest
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measurement.small_models import parse

from referent_probe.errors import ModelError, PromptError
from referent_probe.measurement import spelling as module
from referent_probe.measurement.spelling import (
    FEMININE,
    MASCULINE,
    OPEN,
    OTHER,
    THEY,
    Reader,
    Spelled,
    Vocabulary,
    reader_of,
)
from referent_probe.stimuli.options import FORMS, Case, Forms

CODES = {"FEMININE": FEMININE, "MASCULINE": MASCULINE, "THEY": THEY, "OTHER": OTHER}


def read(text: str | bytes, forms: Forms = FORMS[Case.NOMINATIVE]) -> int:
    """A whole answer, at the length limit."""
    reader = Reader(Vocabulary([]), forms)
    reached = reader.advance(Spelled(), text if isinstance(text, bytes) else text.encode())
    return reader.decided(reached.word) if isinstance(reached, Spelled) else reached


def test_example_in_docstring() -> None:
    assert doctest.testmod(module) == (0, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("she", "FEMININE"),
        (" \n\u00a0she.", "FEMININE"),
        ('SHE"', "FEMININE"),
        ("She's", "FEMININE"),
        ("she’s", "FEMININE"),
        ("she1", "FEMININE"),
        ("she-", "FEMININE"),
        ("she_", "FEMININE"),
        ("she\ufffd", "FEMININE"),
        ("ſhe", "FEMININE"),
        ("he", "MASCULINE"),
        ("they ", "THEY"),
        ("hers", "OTHER"),
        ("her", "OTHER"),
        ("shé", "OTHER"),
        ("sheé", "OTHER"),
        ("sheש", "OTHER"),
        ("*she*", "OTHER"),
        ('"she"', "OTHER"),
        ("\u200bshe", "OTHER"),
        ("sh", "OTHER"),
        ("s he", "OTHER"),
        ("", "OTHER"),
        (" ", "OTHER"),
        (".she", "OTHER"),
        (b"she\xc3", "FEMININE"),
        (b"she\xc3\xa9", "OTHER"),
        (b"she\xc3\x97", "FEMININE"),
        (b"she\xc3x", "FEMININE"),
        (b"she\xff", "FEMININE"),
        (b"\xc2\xa0she", "FEMININE"),
        (b"\xc2she", "OTHER"),
    ],
)
def test_the_rule(text: str | bytes, expected: str) -> None:
    assert read(text) == CODES[expected]


def test_her_is_an_option_where_the_case_says_so() -> None:
    assert read("Her.", FORMS[Case.POSSESSIVE]) == FEMININE
    assert read("he", FORMS[Case.ACCUSATIVE]) == OTHER
    assert read("hers", FORMS[Case.ACCUSATIVE]) == OTHER


@pytest.mark.parametrize(
    ("forms", "message"),
    [
        (Forms("", "he", "they"), "feminine form '' is not one run of letters"),
        (Forms("she", " he", "they"), "masculine form ' he' is not one run of letters"),
        (Forms("she", "he", "s/he"), "they form 's/he'"),
        (Forms("her", "Her", "them"), "masculine form 'Her' equals the feminine form; give three different"),
        (Forms("her", "him", "her"), "they form 'her' equals the feminine form"),
        (Forms("her", "him", "him"), "they form 'him' equals the masculine form"),
    ],
)
def test_forms_that_no_answer_tells_apart_are_refused(forms: Forms, message: str) -> None:
    with pytest.raises(PromptError, match=message) as refusal:
        Reader(Vocabulary([]), forms)
    assert "\n" not in str(refusal.value)


PIECES = st.one_of(
    st.text(alphabet="sherTHEYim \n.'é×\u00a0ſ\ufffd", max_size=4).map(str.encode),
    st.sampled_from([b"\xc3", b"\xa9", b"\x97", b"\xc2", b"\xa0she", b"\xe2\x80", b"\xff", b"e\xc3", b"\x97he"]),
)


@given(st.lists(PIECES, max_size=12), st.sampled_from(list(Case)), st.lists(PIECES, max_size=3))
def test_telling_tokens_by_their_first_character_equals_spelling_them(
    data: list[bytes], case: Case, path: list[bytes]
) -> None:
    reader = Reader(Vocabulary(data), FORMS[case])
    state: Spelled | int = Spelled()
    for piece in path:
        assert isinstance(state, Spelled)
        reached = reader.advance(state, piece)
        if not isinstance(reached, Spelled):
            break
        state = reached
    assert isinstance(state, Spelled)
    outcomes = reader.outcomes(state)
    open_states = dict(zip(outcomes.open_ids.tolist(), outcomes.states, strict=True))
    for token, piece in enumerate(data):
        expected = reader.advance(state, piece)
        if isinstance(expected, Spelled):
            assert outcomes.codes[token] == OPEN
            assert open_states[token] == expected
            assert outcomes.at_limit[token] == reader.decided(expected.word)
        else:
            assert outcomes.codes[token] == outcomes.at_limit[token] == expected


@given(st.lists(PIECES, max_size=6), st.sampled_from(list(Case)))
def test_token_by_token_equals_the_parse_of_the_whole_text(path: list[bytes], case: Case) -> None:
    forms = FORMS[case]
    reader = Reader(Vocabulary([]), forms)
    state: Spelled | int = Spelled()
    for piece in path:
        if isinstance(state, Spelled):
            state = reader.advance(state, piece)
    found = reader.decided(state.word) if isinstance(state, Spelled) else state
    word = parse(b"".join(path).decode(errors="replace")).replace("ſ", "s")
    assert found == {forms.feminine: FEMININE, forms.masculine: MASCULINE, forms.they: THEY}.get(word, OTHER)


def test_an_end_of_sequence_decides_whatever_its_text() -> None:
    reader = Reader(Vocabulary([b"he", b"r", b"r"]), FORMS[Case.NOMINATIVE], eos_ids=(2, 99))
    outcomes = reader.outcomes(Spelled("he"))
    assert outcomes.codes.tolist() == [OTHER, OTHER, MASCULINE]
    assert reader.outcomes(Spelled()).codes.tolist() == [OPEN, OTHER, OTHER]


@pytest.mark.parametrize("kind", ["byte_level_tokenizer", "sentence_piece_tokenizer"])
def test_bytes_of_tokens_join_to_what_the_tokenizer_decodes(kind: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(kind)
    size = len(tokenizer) + 2
    vocabulary = Vocabulary.of(tokenizer, size)
    he = tokenizer.convert_tokens_to_ids("he")
    plain = [token for token in range(size) if token >= 4]
    for path in product(plain, repeat=2):
        text = tokenizer.decode([he, *path], clean_up_tokenization_spaces=False).lstrip()
        joined = b"".join(vocabulary.data[token] for token in (he, *path)).decode(errors="replace")
        if kind.startswith("byte"):
            assert joined == text
        else:  # its byte tokens are shown one by one where they are no UTF-8
            assert parse(joined) == parse(text)
    assert [vocabulary.data[token].decode() for token in range(4)] == ["\ufffd"] * 4
    assert vocabulary.data[-1] == b""


def test_special_tokens_are_no_letters_whatever_they_are_called(tokenizer: Any, make_tokenizer: Any) -> None:
    from tokenizers import AddedToken

    fresh = make_tokenizer(chat_template=None, adds_bos=False)
    fresh.add_special_tokens({"additional_special_tokens": [AddedToken("she", special=True)]})
    fresh.add_tokens([AddedToken("they", special=False)])
    vocabulary = Vocabulary.of(fresh, len(fresh))
    assert vocabulary.data[fresh.convert_tokens_to_ids("she")] == "\ufffd".encode()
    assert vocabulary.data[fresh.convert_tokens_to_ids("they")] == b"they"


def test_a_tokenizer_that_rewrites_what_it_decoded_is_refused() -> None:
    class Backend:
        def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
            return "a"

        def decode_batch(self, many: list[list[int]], skip_special_tokens: bool) -> list[str]:
            return ["ab", "b"]

    class Odd:
        backend_tokenizer = Backend()

        def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
            return {"input_ids": [0]}

    with pytest.raises(ModelError, match="Odd decodes 'a' to 'a' and changes it"):
        Vocabulary.of(Odd(), 2)


def test_a_reader_is_kept_and_added_tokens_make_a_new_one(byte_level_tokenizer: Any) -> None:
    forms = FORMS[Case.NOMINATIVE]
    one = reader_of(byte_level_tokenizer, 40, 38, forms, (2,))
    assert reader_of(byte_level_tokenizer, 40, 38, forms, (2,)) is one
    assert reader_of(byte_level_tokenizer, 40, 39, forms, (2,)) is not one
    assert np.array_equal(one.outcomes(Spelled()).codes, one.outcomes(Spelled()).codes)
