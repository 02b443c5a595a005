"""Templates with one blank, their pairs, and sets of them: loading and drawing.

A stimuli file has the columns `occupation(0)`, `other-participant(1)`, `answer` (0: the blank stands for the
occupation, 1: for the participant), `pronoun_type` and `template`; two rows in succession form a pair. A row such as

    baker <tab> guest <tab> 1 <tab> $NOM_PRONOUN <tab> The $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN ...

becomes "The baker told the guest that BLANK ...".
"""

import random
import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from referent_probe.errors import OptionError, StimuliError
from referent_probe.stimuli.check import check_rows
from referent_probe.stimuli.options import Case
from referent_probe.stimuli.quoting import quoted
from referent_probe.stimuli.rows import BLANKS, OCCUPATION, PARTICIPANT, PLACEHOLDER, Row, read_table

BLANK = "BLANK"
"""How a prompt writes the missing word."""


class Role(StrEnum):
    """The two people of a template."""

    OCCUPATION = "occupation"
    PARTICIPANT = "participant"


@dataclass(frozen=True)
class Piece:
    """A stretch of a template: fixed text, a role noun or the blank (whose text is "BLANK")."""

    text: str
    kind: Literal["text", "occupation", "participant", "blank"]


@dataclass(frozen=True)
class Template:
    """A sentence with one blank.

    Attributes:
        id: pair id and a letter, "001a".
        pair: id of its pair, "001".
        row: line of the file, the header being line 1.
        case: of the pronoun that fills the blank.
        occupation: occupational noun, "baker".
        participant: noun of the other person, "guest".
        antecedent: the role that the blank stands for.
        pieces: the sentence, in order.
    """

    id: str
    pair: str
    row: int
    case: Case
    occupation: str
    participant: str
    antecedent: Role
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The sentence, with the blank as "BLANK"."""
        return self.filled(BLANK)

    def filled(self, pronoun: str) -> str:
        """The sentence with `pronoun` in the blank: "The baker told the guest that she could pay."."""
        return "".join(pronoun if piece.kind == "blank" else piece.text for piece in self.pieces)

    @property
    def antecedent_noun(self) -> str:
        """The noun that the blank stands for."""
        return self.occupation if self.antecedent is Role.OCCUPATION else self.participant

    @property
    def other_noun(self) -> str:
        """The noun that the blank does not stand for."""
        return self.participant if self.antecedent is Role.OCCUPATION else self.occupation


@dataclass(frozen=True)
class Pair:
    """Two templates with the same case, roles and opening, and different antecedents."""

    id: str
    members: tuple[Template, Template]

    @property
    def case(self) -> Case:
        """The case that both members share."""
        return self.members[0].case

    @property
    def occupation(self) -> str:
        """The occupational noun that both members share."""
        return self.members[0].occupation

    @property
    def participant(self) -> str:
        """The noun of the other person that both members share."""
        return self.members[0].participant

    def partner(self, template: Template) -> Template:
        """The other member.

        Raises:
            ValueError: `template` is not a member.
        """
        return self.members[1 - self.members.index(template)]


@dataclass(frozen=True)
class StimulusSet:
    """All pairs of one file, in its order, with the sha256 of the file's TSV bytes."""

    name: str
    sha256: str
    pairs: tuple[Pair, ...] = field(repr=False)  # hundreds of sentences


def load_stimuli(source: str | Path = "builtin", password: str | None = None) -> StimulusSet:
    """Loads a set of stimuli, and refuses one that breaks a rule of `check`.

    Texts stay as the file has them; only white space around a cell goes.

    Args:
        source: "builtin", or the path of a TSV file or of a zip that holds one.
        password: of an encrypted zip; WinoPron's published one is tried first.

    Returns:
        The set, with pairs "001", "002", ... of members "001a" and "001b" in the order of the file.

    Raises:
        StimuliError: the file cannot be read, is no stimuli file, or breaks a rule.
    """
    table = read_table(source, password)
    if violations := check_rows(table.rows):
        first = "; ".join(str(violation) for violation in violations[:3])
        raise StimuliError(
            f"{str(source)!r} breaks the rules {len(violations)} time(s): {first}: "
            f"run `referent-probe stimuli check {shlex.quote(str(source))}`"
        )
    pairs = zip(table.rows[::2], table.rows[1::2], strict=True)
    return StimulusSet(
        table.name, table.sha256, tuple(_pair(f"{number:03d}", *rows) for number, rows in enumerate(pairs, start=1))
    )


def _pair(pair_id: str, first: Row, second: Row) -> Pair:
    return Pair(pair_id, (_template(pair_id, "a", first), _template(pair_id, "b", second)))


def _template(pair_id: str, letter: str, row: Row) -> Template:
    roles = {OCCUPATION: Piece(row.occupation, "occupation"), PARTICIPANT: Piece(row.participant, "participant")}
    known = roles | {row.pronoun_type: Piece(BLANK, "blank")}
    parts = re.split(f"({PLACEHOLDER})", row.template)
    return Template(
        id=pair_id + letter,
        pair=pair_id,
        row=row.line,
        case=BLANKS[row.pronoun_type],
        occupation=row.occupation,
        participant=row.participant,
        antecedent=Role.OCCUPATION if row.answer == "0" else Role.PARTICIPANT,
        pieces=tuple(known.get(part) or Piece(part, "text") for part in parts if part),
    )


LARGEST_SEED = 2**32 - 1
"""The seeds of numpy's oldest generators, too, and short enough for a folder's name."""

# A try may miss the balance of cases, because the last occupations of a round may lack the case that is due: two in
# five do so at worst, for 120 of WinoPron's pairs.
_TRIES = 20


def check_seed(seed: int) -> None:
    """Refuse a seed that is not from 0 to `LARGEST_SEED`.

    Raises:
        OptionError: It is out of range.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise OptionError(f"--seed {quoted(seed, 20)} is out of range: give a number from 0 to {LARGEST_SEED}")


def draw_pairs(stimuli: StimulusSet, n: int | None, seed: int) -> tuple[Pair, ...]:
    """Draws pairs at random, spread evenly over occupations, then over cases.

    No occupation comes a second time while another is unused (and so on for the third time), and the counts of the
    cases differ by at most one where the pairs allow it.

    Args:
        stimuli: the set to draw from.
        n: number of pairs; None for all.
        seed: same seed, same draw; 0 to `LARGEST_SEED`.

    Returns:
        `n` different pairs, in the order of the file.

    Raises:
        OptionError: `n` is below 1 or above the number of pairs, or `seed` is out of range.
    """
    check_seed(seed)
    if n is None:
        return stimuli.pairs
    if not 1 <= n <= len(stimuli.pairs):
        raise OptionError(
            f"cannot draw {quoted(n, 20)} pairs from the {len(stimuli.pairs)} of {stimuli.name!r}: "
            f"give a number from 1 to {len(stimuli.pairs)}"
        )
    rng = random.Random(f"draw_pairs {seed}")
    for _ in range(_TRIES):
        drawn = _draw_greedily(stimuli.pairs, n, rng)
        cases = Counter(pair.case for pair in drawn)
        if max(cases.values()) - min(cases[pair.case] for pair in stimuli.pairs) <= 1:
            break
    return tuple(pair for pair in stimuli.pairs if pair in drawn)


def _draw_greedily(pairs: tuple[Pair, ...], n: int, rng: random.Random) -> set[Pair]:
    """One pair after the other: of the least used occupations, the pair of the least used case, ties at random."""
    remaining = rng.sample(pairs, len(pairs))
    occupations: Counter[str] = Counter()
    cases: Counter[Case] = Counter()
    drawn: set[Pair] = set()
    for _ in range(n):
        pair = min(remaining, key=lambda p: (occupations[p.occupation], cases[p.case]))
        remaining.remove(pair)
        drawn.add(pair)
        occupations[pair.occupation] += 1
        cases[pair.case] += 1
    return drawn
