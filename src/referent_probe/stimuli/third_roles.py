"""Third persons: roles that are not in a target sentence, and match those that are."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from referent_probe.errors import StimuliError
from referent_probe.randomness import generator
from referent_probe.stimuli.quoting import quoted
from referent_probe.stimuli.ratings import rating
from referent_probe.stimuli.templates import Pair, Role

RATING_MARGIN = 0.1
"""Share of women: the largest difference that counts as a match."""

_ROUNDING = 1e-9

# What a choice costs, in tokens of a difference in length; the first is never paid.
_IS_NAMED = 1e9
_OTHER_CLASS = 1e6
_LIKE_A_WORD_OF_THE_SENTENCES = 1e4
_BEYOND_MARGIN = 1e3
_SERVED_ONCE_MORE = 10.0
_UNRATED = 5.0
_FOR_THE_SAME_ROLE_AGAIN = 2.0


@dataclass(frozen=True)
class Third:
    """Somebody in the place of a person of the target sentence.

    Attributes:
        noun: Of the role.
        instead_of: Noun of the person.
        rating_difference: Rating of the role less that of the person, -1 to 1; None where one of them has none.
        length_difference: Tokens of the noun less those of the person's.
    """

    noun: str
    instead_of: str
    rating_difference: float | None
    length_difference: int

    @property
    def is_matched(self) -> bool:
        """Equally long, and not known to differ in rating by more than `RATING_MARGIN`."""
        return self.length_difference == 0 and abs(self.rating_difference or 0.0) <= RATING_MARGIN + _ROUNDING


@dataclass(frozen=True)
class ThirdRoles:
    """Those who stand for the two people of a pair.

    Attributes:
        pair: Its id.
        occupation: Instead of its occupation.
        participant: Instead of its participant, and somebody else.
    """

    pair: str
    occupation: Third
    participant: Third

    def of(self, role: Role) -> Third:
        """The one who stands for that person."""
        return self.occupation if role is Role.OCCUPATION else self.participant


def third_roles(
    pairs: Sequence[Pair],
    length: Callable[[str], int],
    seed: int,
    pool: Sequence[Pair] = (),
    ratings: Callable[[str], float | None] = rating,
) -> Mapping[str, ThirdRoles]:
    """Choose for both people of every pair a role from outside it.

    In each round every noun has one of its pairs served, and every noun serves at most once, where there are enough:
    together the rounds are a Latin rectangle, as good a one as the matching allows. Within a round the least total
    mismatch is found (assignment problem). What counts, in this order: the noun is not in the pair; it is of the same
    class; it shares no head word with the sentences ("bus driver" and "taxi driver"); the ratings differ by at most
    `RATING_MARGIN` where both are known; all serve equally often; both or neither are rated; the lengths are equal.
    Ties are drawn.

    Args:
        pairs: Of the run.
        length: Tokens of a noun as it stands in a sentence, given with the space before it.
        seed: Of the run.
        pool: Pairs whose roles may serve beside those of `pairs`: the whole set of stimuli, where a run has few.
        ratings: Share of women by noun, 0 to 1; None where it is not known.

    Returns:
        By pair id, in the order of `pairs`.

    Raises:
        StimuliError: A pair has nobody outside it.

    Example:
        For a pair of baker (0.49) and guest, the curator (0.44) instead of the baker.
    """
    nouns = _Nouns.of((*pairs, *pool), length, ratings)
    chosen: dict[Role, dict[str, str]] = {role: {} for role in Role}
    for role in Role:
        rng = generator(seed, "third roles", role)
        fixed = _mismatch(nouns) + np.where(nouns.is_a(role), 0.0, _OTHER_CLASS)
        served = np.zeros(len(nouns.listed))
        again = np.zeros_like(fixed)
        for turn in _rounds([pairs[i] for i in rng.permutation(len(pairs))], role):
            people = [nouns.place(_noun(pair, role)) for pair in turn]
            costs = fixed[people] + _SERVED_ONCE_MORE * served + _FOR_THE_SAME_ROLE_AGAIN * again[people]
            costs += [_named(pair, chosen[Role.OCCUPATION].get(pair.id, ""), nouns.listed) for pair in turn]
            columns = _assigned(costs + rng.random(costs.shape) / 2)
            paid = costs[np.arange(len(turn)), columns]
            if (paid >= _IS_NAMED).any():
                raise StimuliError(_too_few(turn[int(paid.argmax())], role, len(nouns.listed)))
            np.add.at(served, columns, 1)
            again[people, columns] += 1
            chosen[role] |= {pair.id: nouns.listed[column] for pair, column in zip(turn, columns, strict=True)}
    return {
        pair.id: ThirdRoles(pair.id, *(nouns.third(chosen[role][pair.id], _noun(pair, role)) for role in Role))
        for pair in pairs
    }


@dataclass(frozen=True)
class _Nouns:
    """All role nouns, occupations first, with what they are matched by."""

    listed: tuple[str, ...]
    by_role: Mapping[Role, frozenset[str]]
    ratings: Mapping[str, float | None]
    lengths: Mapping[str, int]

    @classmethod
    def of(
        cls, pairs: Sequence[Pair], length: Callable[[str], int], ratings: Callable[[str], float | None]
    ) -> "_Nouns":
        listed = tuple(dict.fromkeys(_noun(pair, role) for role in Role for pair in pairs))
        by_role = {role: frozenset(_noun(pair, role) for pair in pairs) for role in Role}
        rated = {noun: ratings(noun) for noun in listed}
        return cls(listed, by_role, rated, {noun: length(f" {noun}") for noun in listed})

    def is_a(self, role: Role) -> list[bool]:
        return [noun in self.by_role[role] for noun in self.listed]

    def place(self, noun: str) -> int:
        return self.listed.index(noun)

    def third(self, noun: str, person: str) -> Third:
        one, other = self.ratings[noun], self.ratings[person]
        difference = None if one is None or other is None else one - other
        return Third(noun, person, difference, self.lengths[noun] - self.lengths[person])


def _noun(pair: Pair, role: Role) -> str:
    return pair.occupation if role is Role.OCCUPATION else pair.participant


def _rounds(pairs: Sequence[Pair], role: Role) -> Iterator[list[Pair]]:
    """Groups in which every noun of a class has one pair at most."""
    seen: Counter[str] = Counter()
    groups: dict[int, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(seen[_noun(pair, role)], []).append(pair)
        seen[_noun(pair, role)] += 1
    yield from groups.values()


def _mismatch(nouns: _Nouns) -> NDArray[np.float64]:
    """Costs of rating and length [noun, noun in its place]."""
    ratings = np.array([nouns.ratings[noun] for noun in nouns.listed], dtype=np.float64)  # nan for None
    lengths = np.array([nouns.lengths[noun] for noun in nouns.listed], dtype=np.float64)
    excess = np.nan_to_num(np.abs(ratings[:, None] - ratings) - RATING_MARGIN)
    one_is_unrated = np.isnan(ratings)[:, None] != np.isnan(ratings)
    beyond = np.where(excess > _ROUNDING, _BEYOND_MARGIN * (1 + excess), 0.0)
    costs: NDArray[np.float64] = beyond + _UNRATED * one_is_unrated + np.abs(lengths[:, None] - lengths)
    return costs


def _assigned(costs: NDArray[np.float64]) -> NDArray[np.intp]:
    """For each row a column of its own, at the least total cost; shared ones where there are too few that may serve."""
    rows, columns = linear_sum_assignment(costs)
    if (costs[rows, columns] >= _IS_NAMED).any():
        copies = np.hstack([costs + copy * _SERVED_ONCE_MORE for copy in range(len(costs))])
        columns = linear_sum_assignment(copies)[1] % costs.shape[1]
    found: NDArray[np.intp] = columns
    return found


def _named(pair: Pair, taken: str, nouns: Sequence[str]) -> list[float]:
    """Costs of being named in the pair's sentences or taken already, or of a noun whose head word is named."""
    words = _words(" ".join(member.text for member in pair.members))
    text, heads = f" {' '.join(words)} ", {word.removesuffix("s") for word in words}
    costs = []
    for noun in nouns:
        own = _words(noun)
        is_like = own and own[-1].removesuffix("s") in heads
        is_named = noun == taken or f" {' '.join(own)} " in text
        costs.append(_IS_NAMED if is_named else _LIKE_A_WORD_OF_THE_SENTENCES if is_like else 0.0)
    return costs


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _too_few(pair: Pair, role: Role, n: int) -> str:
    return (
        f"pair {pair.id} has nobody to put in the place of the {quoted(_noun(pair, role))}: the stimuli name {n} "
        "people in all, and none of them is outside its sentences and still free; give stimuli with other pairs of "
        "other people"
    )
