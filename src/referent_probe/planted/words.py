"""The vocabulary of the planted models, and their tokenizer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from referent_probe.planted.grammar import (
    OCCUPATION_WORDS,
    OCCUPATIONS,
    PARTICIPANT_WORDS,
    PARTICIPANTS,
    WORD,
    words_of,
)
from referent_probe.planted.heads import CODE, SENTENCES, Functional, code
from referent_probe.planted.network import Vocabulary
from referent_probe.planted.rules import MIDPOINT, Rule
from referent_probe.randomness import generator
from referent_probe.stimuli.options import FORMS, Case, Gender
from referent_probe.stimuli.ratings import rating

BOS, EOS, UNKNOWN = "<s>", "</s>", "<unknown>"
LARGEST_COMMON = 8
"""Codes of two role nouns, of 32 numbers that are 1 or -1, agree in their product by this much at most."""

_CASES = {Case.NOMINATIVE: "n", Case.ACCUSATIVE: "a", Case.POSSESSIVE: "p"}
_TASTED = ("role", "dot", "blank", *(f"sentence{i}" for i in range(SENTENCES)), *code("noun"))
_PRIOR = 6.0  # logits between ratings 0 and 1
_CHAT = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def tokens_of(texts: Iterable[str]) -> list[str]:
    """Every token of the texts, special ones first, in alphabetical order."""
    return [BOS, EOS, UNKNOWN, *sorted(set(words_of(set(texts))))]


def tokenizer_of(tokens: Sequence[str]) -> Any:
    """A fast tokenizer that cuts text as `grammar.WORD` does, with a chat template that adds the first token alone."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token=UNKNOWN))
    plain.pre_tokenizer = pre_tokenizers.Split(Regex(WORD.pattern), "isolated")
    plain.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token=BOS, eos_token=EOS, unk_token=UNKNOWN, pad_token=EOS,
        clean_up_tokenization_spaces=False, model_max_length=256,
    )  # fmt: skip
    tokenizer.chat_template = _CHAT
    return tokenizer


def vocabulary(tokens: Sequence[str], rule: Rule) -> Vocabulary:
    """What each token says to the model, and what is read for its logit."""
    codes = _codes(len(OCCUPATIONS) + len(PARTICIPANTS))
    roles = dict(zip((*OCCUPATIONS, *PARTICIPANTS), codes, strict=True))
    embeddings = [_features(token, roles) for token in tokens]
    index = {token: i for i, token in enumerate(tokens)}
    logits = _other_logits(tokens)
    for case, forms in FORMS.items():
        for gender, sign in ((Gender.FEMININE, 0.5), (Gender.MASCULINE, -0.5)):
            read = logits[index[forms.of(gender)]]
            read[f"shown_{_CASES[case]}"] = 20.0
            read |= {"answer": sign, "quote": sign * (MIDPOINT - rule.constant)}
            if rule.prior:
                read["answer_prior"] = sign
    logits[index['"']] = {"gendered": 40.0}  # a word that is an answer is followed by its closing mark
    return Vocabulary(embeddings, logits)


def _other_logits(tokens: Sequence[str]) -> dict[int, dict[str, float]]:
    """A weak taste of every token but the pronouns, drawn in a fixed order.

    Without it the logits behind most texts would all be 0, and nothing could be checked on them.
    """
    rng = generator(0, "planted logits")
    drawn = rng.normal(size=(len(tokens), len(_TASTED))) / 4
    forms = {form for forms in FORMS.values() for form in (forms.feminine, forms.masculine)}
    return {
        i: {} if token in forms else dict(zip(_TASTED, row, strict=True))
        for i, (token, row) in enumerate(zip(tokens, drawn.tolist(), strict=True))
    }


def prior_of(noun: str) -> float:
    """The role prior of the stereotyper: how far the log-odds move with the noun's rating, 0 without one; in logits."""
    rated = rating(noun)
    return 0.0 if rated is None else _PRIOR * (rated - 0.5)


def _features(token: str, roles: Mapping[str, Sequence[float]]) -> Functional:
    word = token.strip(" ")
    if word in roles:
        kind = "role_occupation" if word in OCCUPATIONS else "role_participant"
        return {"role": 1.0, kind: 1.0, "prior": prior_of(word), **dict(zip(code("noun"), roles[word], strict=True))}
    for case, forms in FORMS.items():
        if word == forms.masculine:
            return {"gendered": 1.0, "gender": -1.0, f"case_{_CASES[case]}": 1.0}
        if word == forms.feminine:
            return {"gendered": 1.0, "gender": 1.0}
    flags = {BOS: "first", ".": "dot", "Is": "question", '"': "quote", "BLANK": "blank"}
    flags |= dict.fromkeys(OCCUPATION_WORDS, "word_occupation") | dict.fromkeys(PARTICIPANT_WORDS, "word_participant")
    return {flags[word]: 1.0} if word in flags else {}


def _codes(n: int) -> list[list[float]]:
    """Codes of n nouns, the first that fit, drawn in a fixed order."""
    rng, kept = generator(0, "planted codes"), np.empty((0, CODE))
    while len(kept) < n:
        drawn = rng.choice([-1.0, 1.0], size=(4096, CODE))
        for candidate in drawn[np.abs(drawn @ kept.T).max(axis=1, initial=0) <= LARGEST_COMMON]:
            if len(kept) < n and np.abs(kept @ candidate).max(initial=0) <= LARGEST_COMMON:
                kept = np.vstack([kept, candidate])
    return [[float(number) for number in code] for code in kept]
