"""The heads of a planted model, in terms of features: what each asks for, what it is found by, and what it moves.

The path of a pronoun's gender: block 0 counts sentences, so that every token knows its own (and whether the question
has begun). In block 1 the full stop of each sentence finds its class word and its gendered word, in block 2 the nouns
of the person that the class word points to, the sentence's owner, and of the other one. In block 3 the target slot
finds the sentence with the blank, and takes both nouns. In block 4 it looks for full stops whose owner is the noun that
it wants, or for the last gendered word, and takes the gender.

A score is 0 for a token that a head does not look for, and every head has a place to rest: the first token, whose score
lies between that of what is looked for and that of everything else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from referent_probe.planted.rules import Carrier, Rule

CODE = 32
"""Numbers that stand for a role noun."""

SENTENCES = 6
"""Sentences of a passage that are told apart."""

N_LAYERS, N_HEADS = 5, 4

Functional = Mapping[str, float]
"""A number that is read from features: weights by feature; "1" is always 1."""


@dataclass(frozen=True)
class Head:
    """One attention head.

    Attributes:
        channels: What is multiplied in a score: what the query reads, and what the key reads.
        values: What is read at the keys.
        writes: Feature to weights of the values.
        asks: Kind of token that the query is made for, as in `network.KINDS`; sets the scale it reads at.
        finds: Kind of token that is looked for.
    """

    channels: tuple[tuple[Functional, Functional], ...] = ()
    values: tuple[Functional, ...] = ()
    writes: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    asks: str = "any"
    finds: str = "any"


def code(slot: str) -> Iterator[str]:
    """The features of a role noun's code in a slot."""
    return (f"{slot}{i}" for i in range(CODE))


def features() -> list[str]:
    """All features of the residual stream, in order."""
    flags = """
        pad first dot role role_occupation role_participant word_occupation word_participant gendered gender blank quote
        question case_n case_a case_p prior count_sentences count_questions asked referent_occupation
        referent_participant has_gender has_blank owner_gender shown_n shown_a shown_p answer answer_prior distraction
    """
    return [*flags.split(), *(f"sentence{i}" for i in range(SENTENCES)), *code("noun"), *code("other_noun")]


def _rest(score: float) -> tuple[Functional, Functional]:
    return {"1": 1.0}, {"first": score}


def _same_sentence(strength: float) -> Iterator[tuple[Functional, Functional]]:
    """For the query of a full stop, which counts itself: its own sentence has one less. The first token is in none."""
    for i in range(SENTENCES - 1):
        key = {f"sentence{i}": 1.0} | ({"first": -1.0} if i == 0 else {})
        yield {f"sentence{i + 1}": strength}, key


def _copy(*names: str) -> tuple[Functional, ...]:
    return tuple({name: 1.0} for name in names)


def _count(what: str, into: str) -> Head:
    """Looks evenly at the first token and all that are counted: n/(n + 1) of its attention."""
    return Head((({"1": 1.0}, {"first": 30.0, what: 30.0}),), _copy(what), {into: {0: 0.3}})


def distractor(asks: str = "any") -> Head:
    """Looks at gendered words of the passage, and writes that it has."""
    keys = {"gendered": 30.0, "asked": -60.0}
    return Head((({"1": 1.0}, keys), _rest(15.0)), _copy("gendered"), {"distraction": {0: 0.3}}, asks, "pronoun")


def _at_dots(flags: Functional, values: tuple[str, ...], into: tuple[str, ...]) -> Head:
    """A full stop finds the one flagged word of its sentence."""
    channels = (*_same_sentence(30.0), ({"dot": 30.0}, flags), _rest(45.0))
    return Head(channels, _copy(*values), {to: {i: 1.0} for i, to in enumerate(into)}, "dot")


def _options_reader() -> Head:
    """The target slot reads the case off the masculine option, the only one whose form tells its case.

    All of its attention lies there. If it lay on both options evenly, rounding of their equal scores would decide how
    evenly, and would come out enlarged in the logits.
    """
    masculine = {"case_n": 1.0, "case_a": 1.0, "case_p": 1.0}
    channels = (({"quote": 30.0}, masculine), ({"quote": 30.0}, {"asked": 1.0}), _rest(45.0))
    into = {name: {i: 1.0} for i, name in enumerate(("shown_n", "shown_a", "shown_p"))}
    return Head(channels, _copy("case_n", "case_a", "case_p"), into, "quote", "pronoun")


def _person_finder(*, owner: bool) -> Head:
    """A full stop finds the noun of the person that its class word points to, or of the other one."""
    occupation, participant = ("role_occupation", "role_participant") if owner else (
        "role_participant", "role_occupation")  # fmt: skip
    channels = (
        *_same_sentence(30.0),
        ({"dot": 30.0}, {"role": 1.0}),
        ({"referent_occupation": 15.0}, {occupation: 1.0}),
        ({"referent_participant": 15.0}, {participant: 1.0}),
        _rest(52.0),
    )
    slot = "noun" if owner else "other_noun"
    into = {name: {i: 1.0} for i, name in enumerate(code(slot))}
    values = _copy(*code("noun"))
    if owner:
        into["answer_prior"], values = {CODE: 1.0}, (*values, {"prior": 1.0})
    return Head(channels, values, into, "dot", "role")


def _blank_finder(*, owner: bool) -> Head:
    """The target slot takes one of the nouns, and its class, from the full stop of the sentence with the blank."""
    channels = (({"quote": 30.0}, {"has_blank": 1.0}), _rest(15.0))
    names = tuple(code("noun" if owner else "other_noun"))
    if owner:
        names = (*names, "referent_occupation", "referent_participant", "answer_prior")
    return Head(channels, _copy(*names), {name: {i: 1.0} for i, name in enumerate(names)}, "quote", "dot")


_MATCH = 2.0


def _gate(carrier: Carrier, keys: Functional) -> tuple[tuple[Functional, Functional], ...]:
    """Sends a head to rest for the other class of referent."""
    return () if carrier.only is None else (({"1": 1.0, f"referent_{carrier.only}": -1.0}, keys),)


def _carrier(carrier: Carrier) -> Head:
    if carrier.reads == "last":
        keys = {"gendered": 60.0, "asked": -200.0} | {f"sentence{i}": 10.0 * i for i in range(SENTENCES)}
        channels = (({"1": 1.0}, keys), _rest(40.0), *_gate(carrier, {"gendered": -200.0}))
        return Head(channels, _copy("gender"), {"answer": {0: carrier.effect / 2}}, "quote", "pronoun")
    wanted = {"own": ("noun",), "other": ("other_noun",), "own or other": ("noun", "other_noun")}[carrier.reads]
    matches = (({f"{slot}{i}": _MATCH for slot in wanted}, {f"noun{i}": 1.0}) for i in range(CODE))
    lacks = ({"1": 1.0}, {"1": -40.0 * _MATCH, "has_gender": 40.0 * _MATCH})
    channels = (*matches, lacks, _rest(60.0 * _MATCH), *_gate(carrier, {"has_gender": -80.0 * _MATCH}))
    return Head(channels, _copy("owner_gender"), {"answer": {0: carrier.effect / 2}}, "quote", "dot")


def heads_of(rule: Rule) -> dict[tuple[int, int], Head]:
    """All heads of a planted model, by layer and head. Heads 0 and 1 may share keys and values, and so may 2 and 3."""
    heads = {
        (0, 0): _count("dot", "count_sentences"),
        (0, 1): _count("question", "count_questions"),
        (1, 0): _at_dots(
            {"word_occupation": 1.0, "word_participant": 1.0},
            ("word_occupation", "word_participant"),
            ("referent_occupation", "referent_participant"),
        ),
        (1, 1): _at_dots(
            {"gendered": 1.0, "blank": 1.0},
            ("gender", "gendered", "blank"),
            ("owner_gender", "has_gender", "has_blank"),
        ),
        (1, 2): _options_reader(),
        (2, 0): _person_finder(owner=True),
        (2, 1): _person_finder(owner=False),
        (3, 0): _blank_finder(owner=True),
        (3, 2): _blank_finder(owner=False),
    }
    matching = [carrier for carrier in rule.carriers if carrier.reads != "last"]
    last = [carrier for carrier in rule.carriers if carrier.reads == "last"]
    for first, group in ((0, matching), (2, last)):
        heads |= {(4, first + i): _carrier(carrier) for i, carrier in enumerate(group)}
    if rule.constant:
        heads[4, 2] = Head((_rest(30.0),), _copy("first"), {"answer": {0: rule.constant}}, "quote", "first")
    return {
        (layer, head): heads.get((layer, head), distractor()) for layer in range(N_LAYERS) for head in range(N_HEADS)
    }
