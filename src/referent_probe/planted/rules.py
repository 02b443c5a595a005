"""The planted models: which of their heads reads whose pronoun, and what follows for behaviour, known beforehand.

Source: the table of planted models in the design of the conflation verdict; dC by Contextuality-by-Default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Reads = Literal["own", "own or other", "other", "last"]
"""Whose pronoun moves a head: that of the blank's own referent, of either person of the target sentence, of the other
person, or the last gendered word of the passage, whoever's it is."""

Referent = Literal["occupation", "participant"]

PRIMES = ("partner", "same", "other", "third", "third_frame")
"""Primes with known effects: the paper's, and one-person frames by whose the pronoun is; `third_frame` is the paper's
with both roles replaced."""

MIDPOINT = 0.1
"""Logits; mean of the log-odds after a feminine and after a masculine prime, where not said otherwise."""


@dataclass(frozen=True)
class Carrier:
    """A head that carries a pronoun's gender to the answer.

    Attributes:
        reads: Whose pronoun.
        effect: Log-odds after its feminine form less those after its masculine form, in logits.
        only: Class of the blank's referent for which it works; None for both.
    """

    reads: Reads
    effect: float
    only: Referent | None = None

    def moved_by(self, prime: str) -> bool:
        """Whether a prime of `PRIMES` moves it.

        >>> Carrier("own", 4.0).moved_by("partner")
        False
        """
        owner = {"same": "own", "other": "other", "partner": "other"}.get(prime, "third")
        return self.reads == "last" or owner in self.reads.split(" or ")


@dataclass(frozen=True)
class Rule:
    """A planted model.

    Attributes:
        name: As it is asked for.
        words: What it does, in a sentence.
        carriers: The heads of its last block that carry gender.
        verdict: What the conflation analysis must say of its behaviour.
        prior: Whether the referent's role noun sets the log-odds.
        constant: Logits that a head writes which reads no pronoun; taken away again elsewhere, so that the midpoint
            is 0.1 as long as the head works.
    """

    name: str
    words: str
    carriers: tuple[Carrier, ...]
    verdict: str
    prior: bool = False
    constant: float = 0.0

    def effect(self, prime: str, referent: Referent) -> float:
        """Effect of a prime on a blank of that class of referent, in logits."""
        return sum(c.effect for c in self.carriers if c.moved_by(prime) and c.only in (None, referent))


def _gated(reads: Reads, weak: float, strong: float) -> tuple[Carrier, ...]:
    both = Carrier(reads, weak, "occupation"), Carrier(reads, strong, "participant")
    return tuple(carrier for carrier in both if carrier.effect)


_EITHER: Reads = "own or other"

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("binder", "reads the pronoun of the blank's own referent only", (Carrier("own", 4.0),), "faithful"),
        Rule(
            "conflater",
            "reads a pronoun of either person of the target sentence",
            (Carrier(_EITHER, 4.0),),
            "conflating",
        ),
        Rule("repeater", "repeats the last gendered word, whoever's", (Carrier("last", 4.0),), "repeating"),
        Rule("contraster", "answers against the other person's pronoun", (Carrier("other", -4.0),), "contrasting"),
        Rule("avoider", "answers against the last gendered word", (Carrier("last", -4.0),), "avoiding"),
        Rule("stereotyper", "answers by the referent's role noun", (), "insensitive", prior=True),
        Rule("gated-conflater", "conflates, weakly for occupations", _gated(_EITHER, 0.5, 4.0), "conflating"),
        Rule("gated-repeater", "repeats, weakly for occupations", _gated("last", 0.5, 4.0), "repeating"),
        Rule(
            "conflater-with-gated-repeater",
            "conflates evenly, and repeats for participants",
            (Carrier(_EITHER, 2.0), *_gated("last", 0.0, 3.0)),
            "mixed",
        ),
        Rule(
            "repeater-with-gated-conflater",
            "repeats evenly, and conflates for participants",
            (Carrier("last", 2.0), *_gated(_EITHER, 0.0, 3.0)),
            "mixed",
        ),
        Rule(
            "saturator",
            "conflates, weakly for occupations, beside a head that reads no pronoun and holds the midpoint",
            _gated(_EITHER, 0.5, 4.0),
            "conflating",
            constant=3.0,
        ),
    )
}
"""By name."""
