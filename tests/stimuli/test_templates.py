from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from referent_probe.errors import OptionError
from referent_probe.stimuli.options import Case
from referent_probe.stimuli.templates import (
    LARGEST_SEED,
    Pair,
    Piece,
    Role,
    StimulusSet,
    Template,
    draw_pairs,
    load_stimuli,
)

Write = Callable[[list[list[str]]], Path]


def test_a_row_becomes_a_template(cells: list[list[str]], write: Write) -> None:
    stimuli = load_stimuli(write(cells))
    assert stimuli.name == "mine"
    assert [pair.id for pair in stimuli.pairs] == ["001", "002"]
    assert stimuli.pairs[1].members[0] == Template(
        id="002a",
        pair="002",
        row=4,
        case=Case.POSSESSIVE,
        occupation="tailor",
        participant="rower",
        antecedent=Role.OCCUPATION,
        pieces=(
            Piece("The ", "text"),
            Piece("rower", "participant"),
            Piece(" met the ", "text"),
            Piece("tailor", "occupation"),
            Piece(" to see ", "text"),
            Piece("BLANK", "blank"),
            Piece(" sewing machine at work.", "text"),
        ),
    )


def test_what_a_template_says(cells: list[list[str]], write: Write) -> None:
    pair = load_stimuli(write(cells)).pairs[1]
    first, second = pair.members
    assert first.text == "The rower met the tailor to see BLANK sewing machine at work."
    assert first.filled("her") == "The rower met the tailor to see her sewing machine at work."
    assert (first.antecedent_noun, first.other_noun) == ("tailor", "rower")
    assert (second.antecedent_noun, second.other_noun) == ("rower", "tailor")
    assert (pair.case, pair.occupation, pair.participant) == (Case.POSSESSIVE, "tailor", "rower")
    assert (pair.partner(first), pair.partner(second)) == (second, first)


def test_a_stranger_has_no_partner(cells: list[list[str]], write: Write) -> None:
    first, second = load_stimuli(write(cells)).pairs
    with pytest.raises(ValueError, match="not in tuple"):
        first.partner(second.members[0])


def test_ids_of_the_shipped_stimuli_are_in_order_and_unique(builtin: StimulusSet) -> None:
    assert builtin.name == "builtin"
    assert [pair.id for pair in builtin.pairs] == [f"{k:03d}" for k in range(1, len(builtin.pairs) + 1)]
    for pair in builtin.pairs:
        assert [member.id for member in pair.members] == [pair.id + "a", pair.id + "b"]
        assert {member.antecedent for member in pair.members} == {*Role}


def test_winopron_is_what_its_authors_describe(winopron: StimulusSet) -> None:
    templates = [member for pair in winopron.pairs for member in pair.members]
    assert (winopron.name, len(winopron.pairs)) == ("winopron", 180)
    assert len({template.occupation for template in templates}) == 60
    assert len({template.participant for template in templates}) == 24
    assert Counter(template.case for template in templates) == dict.fromkeys(Case, 120)
    assert sum(template.text.endswith("..") for template in templates) == 1
    assert sum(";" in template.text for template in templates) == 2
    for pair in winopron.pairs:
        openings = [member.text.partition("BLANK")[0] for member in pair.members]
        assert openings[0] == openings[1]
        assert pair.occupation in openings[0]
        assert pair.participant in openings[0]


def spread(counts: Counter[str], keys: set[str]) -> int:
    return max(counts[key] for key in keys) - min(counts[key] for key in keys)


def assert_even(stimuli: StimulusSet, drawn: tuple[Pair, ...]) -> None:
    occupations, cases = ({getattr(pair, key) for pair in stimuli.pairs} for key in ("occupation", "case"))
    assert spread(Counter(pair.occupation for pair in drawn), occupations) <= 1
    assert spread(Counter(pair.case for pair in drawn), cases) <= 1
    assert list(drawn) == sorted(set(drawn), key=lambda pair: pair.id)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 180), seed=st.integers(0, LARGEST_SEED))
def test_draws_are_even_and_repeatable(n: int, seed: int) -> None:
    stimuli = load_stimuli()
    n = min(n, len(stimuli.pairs))
    drawn = draw_pairs(stimuli, n, seed)
    assert len(drawn) == n
    assert_even(stimuli, drawn)
    assert draw_pairs(stimuli, n, seed) == drawn


@pytest.mark.parametrize("n", [1, 20, 59, 60, 61, 100, 119, 120, 121, 179, 180])
def test_draws_from_winopron_are_even(n: int, winopron: StimulusSet) -> None:
    for seed in range(3):
        assert_even(winopron, draw_pairs(winopron, n, seed))


def test_occupations_go_before_cases(cells: list[list[str]], write: Write) -> None:
    """Three nominative pairs of the baker and one possessive pair of the tailor: two draws name both people."""
    baker = [
        [*row[:4], row[4].replace("circus", f"circus {k}").replace("clubs", f"clubs {k}")]
        for k in range(3)
        for row in cells[:2]
    ]
    stimuli = load_stimuli(write(baker + cells[2:]))
    for seed in range(5):
        assert Counter(pair.occupation for pair in draw_pairs(stimuli, 2, seed)) == {"baker": 1, "tailor": 1}
        assert Counter(pair.occupation for pair in draw_pairs(stimuli, 3, seed)) == {"baker": 2, "tailor": 1}


def test_every_pair_can_be_drawn_and_seeds_differ(builtin: StimulusSet) -> None:
    draws = [draw_pairs(builtin, 1, seed) for seed in range(3000)]
    assert {draw[0] for draw in draws} == set(builtin.pairs)


def test_no_number_means_all(builtin: StimulusSet) -> None:
    assert draw_pairs(builtin, None, 0) == builtin.pairs
    assert draw_pairs(builtin, len(builtin.pairs), 0) == builtin.pairs


@pytest.mark.parametrize("n", [0, -1, 10_000])
def test_refuses_more_pairs_than_there_are(n: int, builtin: StimulusSet) -> None:
    with pytest.raises(OptionError) as caught:
        draw_pairs(builtin, n, 0)
    assert str(n) in str(caught.value)
    assert str(len(builtin.pairs)) in str(caught.value)
