"""How token paths spell an answer: one rule, applied to bytes, so that it holds for every tokenizer.

**The rule.** The answer is what is generated after the prompt and its prefill. Leading white space is skipped; the
answer is then the run of letters (`str.isalpha`) that follows, compared with the forms without regard to case
(`str.casefold`). The first character that is not a letter, the end of sequence or the length limit decides. So
" Her." is "her"; "hers" is none of she, he, her, him; "*she*" is no answer, since it begins with a non-letter.

An apostrophe is a non-letter, as a closing quotation mark is, from which it cannot be told without reading on: "he's"
is "he". So are digits, hyphens, combining marks and special tokens, whatever these are called. A form of which the
other begins, "he" in "her", is told from it by the whole run.

A token may hold part of a character's UTF-8 bytes, so "she" and the first byte of "é" is undecided. Bytes that turn
out to be no UTF-8 are non-letters (U+FFFD), as decoders show them.
"""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers.convert_slow_tokenizer import bytes_to_unicode

from referent_probe.errors import ModelError, PromptError
from referent_probe.stimuli.options import Forms

FEMININE, MASCULINE, THEY, OTHER, OPEN = range(5)
"""What a token makes of an answer: one of the forms, none of them, or not decided yet."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BYTE_OF_CHARACTER = {character: byte for byte, character in bytes_to_unicode().items()}
_NOT_A_LETTER = "\ufffd".encode()


@dataclass(frozen=True)
class Spelled:
    """An undecided answer.

    Attributes:
        word: Letters so far, case-folded; the beginning of a form. "" before the first letter.
        pending: First bytes of a character that is not complete.
    """

    word: str = ""
    pending: bytes = b""


class Vocabulary:
    """What each token adds to a text in which others precede it.

    Attributes:
        data: Per token, its UTF-8 bytes; empty for ids without text.
        lead: Per token, code point of its first character behind white space, case-folded; -1 where there is none,
            or where the bytes are not whole characters. [vocabulary]
        starts_with_letter: Per token, whether its very first character is a letter. [vocabulary], bool
    """

    def __init__(self, data: Sequence[bytes]) -> None:
        self.data = tuple(data)
        self.lead = np.full(len(self.data), -1, dtype=np.int32)
        self.starts_with_letter = np.zeros(len(self.data), dtype=bool)
        for token, piece in enumerate(self.data):
            try:
                text = piece.decode()
            except UnicodeDecodeError:
                continue
            if stripped := text.lstrip():
                self.lead[token] = ord(stripped[0].casefold()[0])
                self.starts_with_letter[token] = text[0].isalpha()

    @classmethod
    def of(cls, tokenizer: Any, size: int) -> "Vocabulary":
        """The vocabulary of a fast tokenizer, for a model with `size` logits.

        Tokens are decoded behind another one, since decoders treat the first differently (SentencePiece drops its
        space). Special tokens count as one non-letter.

        Raises:
            ModelError: Decoding is not the joining of what tokens add.
        """
        anchor = list(tokenizer("a", add_special_tokens=False)["input_ids"])
        backend = tokenizer.backend_tokenizer
        before = backend.decode(anchor, skip_special_tokens=False)
        texts = backend.decode_batch([[*anchor, token] for token in range(size)], skip_special_tokens=False)
        if not before or not all(text.startswith(before) for text in texts):
            raise ModelError(
                f"the tokenizer {type(tokenizer).__name__} decodes 'a' to {before!r} and changes it when tokens "
                "follow, so that answers cannot be spelled token by token; give a byte-level or SentencePiece model"
            )
        special = set(tokenizer.all_special_ids)
        special |= {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
        data = []
        for token, text in enumerate(texts):
            added = text[len(before) :]
            if token in special:
                data.append(_NOT_A_LETTER)
            elif "\ufffd" in added:
                data.append(_raw_bytes(tokenizer.convert_ids_to_tokens(token), added))
            else:
                data.append(added.encode())
        return cls(data)


@dataclass(frozen=True)
class Outcomes:
    """What each token of the vocabulary makes of one undecided answer.

    Attributes:
        codes: `FEMININE` to `OPEN` [vocabulary].
        at_limit: The same if the token is the last one that may be drawn: `OPEN` is decided.
        open_ids: The tokens after which the answer is still open, ascending.
        states: What is spelled after each of them.
    """

    codes: NDArray[np.int8]
    at_limit: NDArray[np.int8]
    open_ids: NDArray[np.int64]
    states: tuple[Spelled, ...]


class Reader:
    """Reads the forms off token paths; what a token makes of an undecided answer is worked out once.

    Args:
        vocabulary: What tokens add.
        forms: The accepted answers, each one run of letters, no two alike.
        eos_ids: Tokens that end an answer, whatever their text.

    Raises:
        PromptError: A form is empty, holds a non-letter, or equals another.

    Example:
        >>> reader = Reader(Vocabulary([b"he", b"r", b"."]), Forms("her", "him", "them"))
        >>> he = reader.advance(Spelled(), b"he")
        >>> he, [int(code) for code in reader.outcomes(he).codes] == [OTHER, OPEN, OTHER]
        (Spelled(word='he', pending=b''), True)
    """

    def __init__(self, vocabulary: Vocabulary, forms: Forms, eos_ids: Sequence[int] = ()) -> None:
        check_forms(forms)
        self.vocabulary = vocabulary
        self.words = {form.casefold(): code for code, form in enumerate((forms.feminine, forms.masculine, forms.they))}
        self.eos = np.array([i for i in eos_ids if 0 <= i < len(vocabulary.data)], dtype=np.int64)
        self._known: dict[Spelled, Outcomes] = {}

    def advance(self, state: Spelled, data: bytes) -> Spelled | int:
        """The answer after some more bytes: still open, or one of `FEMININE` to `OTHER`."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(state.pending + data)
        pending = decoder.getstate()[0]
        if not state.word:
            text = text.lstrip()
        letters = "".join(takewhile(str.isalpha, text))
        word = state.word + letters.casefold()
        if len(letters) < len(text):
            return self.decided(word)
        return Spelled(word, pending) if any(w.startswith(word) for w in self.words) else OTHER

    def decided(self, word: str) -> int:
        """The answer if nothing more comes."""
        return self.words.get(word, OTHER)

    def outcomes(self, state: Spelled) -> Outcomes:
        """What each token makes of an undecided answer."""
        if state not in self._known:
            self._known[state] = self._outcomes(state)
        return self._known[state]

    def _outcomes(self, state: Spelled) -> Outcomes:
        """Most tokens are told by their first character; only the rest is spelled out."""
        lead, decided = self.vocabulary.lead, self.decided(state.word)
        following = [ord(w[len(state.word)]) for w in self.words if w.startswith(state.word) and w != state.word]
        goes_on = np.isin(lead, following)
        if state.pending:  # whole characters behind part of one make that one a non-letter
            codes, unclear = np.full(len(lead), decided, dtype=np.int8), lead < 0
        elif state.word:
            letter = self.vocabulary.starts_with_letter
            codes, unclear = np.where(letter, OTHER, decided).astype(np.int8), (lead < 0) | (letter & goes_on)
        else:
            codes, unclear = np.full(len(lead), OTHER, dtype=np.int8), (lead < 0) | goes_on
        states: dict[int, Spelled] = {}
        at_limit = codes.copy()
        for token in np.flatnonzero(unclear).tolist():
            reached = self.advance(state, self.vocabulary.data[token])
            if isinstance(reached, Spelled):
                states[token] = reached
                codes[token], at_limit[token] = OPEN, self.decided(reached.word)
            else:
                codes[token] = at_limit[token] = reached
        codes[self.eos] = at_limit[self.eos] = decided
        open_ids = np.flatnonzero(codes == OPEN)
        return Outcomes(codes, at_limit, open_ids, tuple(states[token] for token in open_ids.tolist()))


@lru_cache(maxsize=2)
def vocabulary_of(tokenizer: Any, size: int, n_tokens: int) -> Vocabulary:
    """`Vocabulary.of`, once for each tokenizer (`n_tokens` is its length, so that added tokens are seen)."""
    return Vocabulary.of(tokenizer, size)


@lru_cache(maxsize=16)
def reader_of(tokenizer: Any, size: int, n_tokens: int, forms: Forms, eos_ids: tuple[int, ...]) -> Reader:
    """The `Reader` of a tokenizer and forms, kept with what it has worked out."""
    return Reader(vocabulary_of(tokenizer, size, n_tokens), forms, eos_ids)


def check_forms(forms: Forms) -> None:
    """Refuse forms that no answer could equal or that are alike.

    Raises:
        PromptError: A form is empty, holds a non-letter, or equals another.
    """
    named = {"feminine": forms.feminine, "masculine": forms.masculine, "they": forms.they}
    seen: dict[str, str] = {}
    for name, form in named.items():
        if not form.isalpha():
            raise PromptError(
                f"the {name} form {form!r} is not one run of letters, so that no answer is read as it; give a word "
                "without spaces or other characters"
            )
        if form.casefold() in seen:
            raise PromptError(
                f"the {name} form {form!r} equals the {seen[form.casefold()]} form; give three different words "
                "(case does not count)"
            )
        seen[form.casefold()] = name


def _raw_bytes(token: str, text: str) -> bytes:
    """The bytes of a token whose text alone is no UTF-8."""
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(match[1], 16)])
    if all(character in _BYTE_OF_CHARACTER for character in token):
        return bytes(_BYTE_OF_CHARACTER[character] for character in token)
    return text.encode()
