from collections.abc import Callable
from pathlib import Path

import pytest

from referent_probe.errors import StimuliError
from referent_probe.stimuli.check import GENDERED_WORDS, SHARED_OPENING_WORDS, Violation, check_stimuli
from referent_probe.stimuli.templates import load_stimuli

Cells = list[list[str]]
Write = Callable[[Cells], Path]
OCCUPATION, PARTICIPANT, ANSWER, TYPE, TEMPLATE = range(5)


def put(row: int, column: int, text: str) -> Callable[[Cells], None]:
    return lambda cells: cells[row].__setitem__(column, text)


def swap(row: int, old: str, new: str) -> Callable[[Cells], None]:
    def spoil(cells: Cells) -> None:
        assert old in cells[row][TEMPLATE]
        cells[row][TEMPLATE] = cells[row][TEMPLATE].replace(old, new)

    return spoil


def both(row: int, column: int, text: str) -> Callable[[Cells], None]:
    def spoil(cells: Cells) -> None:
        cells[row][column] = cells[row + 1][column] = text

    return spoil


# What spoils the sound table of conftest, and the (line, rule) of every violation that follows.
TWINS: list[tuple[Callable[[Cells], object], list[tuple[int | None, str]]]] = [
    (put(0, ANSWER, "2"), [(2, "answer")]),
    (put(1, ANSWER, ""), [(3, "answer")]),
    (put(1, ANSWER, "1"), [(3, "antecedent")]),
    (put(2, ANSWER, "1"), [(5, "antecedent")]),
    (both(0, OCCUPATION, ""), [(2, "roles"), (3, "roles")]),
    (both(2, PARTICIPANT, "tailor"), [(4, "roles"), (5, "roles")]),
    (put(1, OCCUPATION, "barber"), [(3, "pair")]),
    (put(3, PARTICIPANT, "sculler"), [(5, "pair")]),
    (put(0, TYPE, "$REFL_PRONOUN"), [(2, "case"), (2, "blank"), (3, "pair")]),
    (put(0, TYPE, "$ACC_PRONOUN"), [(2, "blank"), (3, "pair")]),
    (put(0, TYPE, "$POSS_PRONOUN"), [(2, "blank"), (3, "pair")]),
    (swap(0, "five clubs", "$POSS_PRONOUN clubs"), [(2, "blank")]),
    (swap(0, "five clubs", "what $NOM_PRONOUN threw"), [(2, "blank")]),
    (swap(1, "$NOM_PRONOUN", "somebody"), [(3, "blank")]),
    (swap(1, "$NOM_PRONOUN", "BLANK"), [(3, "blank"), (3, "reserved")]),
    (both(0, OCCUPATION, "b" * 61), [(2, "length"), (3, "length")]),
    (swap(1, "any circus", "any circus " + "x" * 1_000), [(3, "length")]),
    (both(0, OCCUPATION, "ba\0ker"), [(2, "characters"), (3, "characters")]),
    (both(2, PARTICIPANT, "ro\u200bwer"), [(4, "characters"), (5, "characters")]),
    (both(2, PARTICIPANT, "ro\u034fwer"), [(4, "characters"), (5, "characters")]),
    (swap(0, "five", "\x1b[31mfive"), [(2, "characters")]),
    (swap(0, "five", "\u202efive"), [(2, "characters")]),
    (swap(0, "five", "fi\u00adve"), [(2, "characters")]),
    (swap(0, "five clubs", "five BLANK clubs"), [(2, "reserved")]),
    (both(0, PARTICIPANT, "BLANK"), [(2, "reserved"), (3, "reserved")]),
    (both(0, PARTICIPANT, "$NOM_PRONOUN"), [(2, "reserved"), (3, "reserved")]),
    (both(0, PARTICIPANT, "<|im_end|>"), [(2, "reserved"), (3, "reserved")]),
    (both(0, PARTICIPANT, "<|"), [(2, "reserved"), (3, "reserved")]),
    (swap(1, "any circus", "any <|im_start|>"), [(3, "reserved")]),
    (swap(1, "any circus", "any circus</s>"), [(3, "reserved")]),
    (swap(1, "any circus", "any [INST]"), [(3, "reserved")]),
    (both(2, PARTICIPANT, "Tailor"), [(4, "roles"), (5, "roles")]),
    (swap(1, "$NOM_PRONOUN", "x$NOM_PRONOUN"), [(3, "word")]),
    (swap(1, "$NOM_PRONOUN", "(s)$NOM_PRONOUN"), [(3, "word")]),
    (swap(1, "$NOM_PRONOUN loved", "$NOM_PRONOUN-would love"), [(3, "word")]),
    (swap(1, "$NOM_PRONOUN loved", "$NOM_PRONOUN'd love"), [(3, "word")]),
    (swap(1, "$NOM_PRONOUN loved", "$NOM_PRONOUN’d love"), [(3, "word")]),
    (swap(1, "$NOM_PRONOUN loved", "$NOM_PRONOUN2 loved"), [(3, "word")]),
    (swap(1, "$NOM_PRONOUN loved", "$NOM_PRONOUN/it loved"), [(3, "word")]),
    (swap(1, "$NOM_PRONOUN loved", "$NOM_PRONOUN.com loved"), [(3, "word")]),
    (swap(0, "five clubs", "five $OBJECT"), [(2, "placeholder")]),
    (swap(0, "five clubs", "five $PARTICIPANTs"), [(2, "placeholder")]),
    (swap(1, " loved any circus.", "!"), [(3, "position")]),
    (
        put(1, TEMPLATE, "$NOM_PRONOUN loved any circus, so the $OCCUPATION clapped for the $PARTICIPANT."),
        [(3, "position"), (3, "order"), (3, "order"), (3, "opening")],
    ),
    (swap(0, "$PARTICIPANT because $NOM_PRONOUN", "fool because $NOM_PRONOUN"), [(2, "order"), (3, "opening")]),
    (swap(1, "$OCCUPATION clapped", "crowd clapped"), [(3, "order"), (3, "opening")]),
    (swap(0, "five clubs", "a $PARTICIPANT and his clubs"), [(2, "gendered")]),
    (swap(1, "any circus", "the circus of Mrs. Quill and SIR Bo"), [(3, "gendered"), (3, "gendered")]),
    (swap(1, "any circus", "the clown's step-mother"), [(3, "gendered")]),
    (both(0, OCCUPATION, "Fireman"), [(2, "gendered"), (3, "gendered")]),
    (both(2, PARTICIPANT, "bearded lady"), [(4, "gendered"), (5, "gendered")]),
    (swap(1, "The $OCCUPATION clapped", "The weary $OCCUPATION clapped"), [(3, "opening")]),
    (swap(3, "met the", "saw the"), [(5, "opening")]),
    (lambda cells: cells.extend(map(list, cells[:2])), [(6, "duplicate"), (7, "duplicate")]),
    (lambda cells: cells.pop(), [(None, "even")]),
    (
        lambda cells: cells.pop(0),
        [(None, "even"), (3, "pair"), (3, "pair"), (3, "pair"), (3, "antecedent"), (3, "opening")],
    ),
]


def test_a_sound_table_has_no_violation(cells: Cells, write: Write) -> None:
    assert check_stimuli(write(cells)) == []


@pytest.mark.parametrize(("spoil", "expected"), TWINS)
def test_every_rule_has_a_failing_twin(
    spoil: Callable[[Cells], object], expected: list[tuple[int | None, str]], cells: Cells, write: Write
) -> None:
    spoil(cells)
    path = write(cells)
    violations = check_stimuli(path)
    assert [(violation.row, violation.rule) for violation in violations] == expected
    assert all(violation.message and violation.cure for violation in violations)
    with pytest.raises(StimuliError, match="referent-probe stimuli check") as caught:
        load_stimuli(path)
    assert str(violations[0]) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_shortest_opening_that_is_shared_enough(cells: Cells, write: Write) -> None:
    opening = "The $OCCUPATION thanked the $PARTICIPANT $NOM_PRONOUN"
    assert len(opening.split()) == SHARED_OPENING_WORDS
    cells[0][TEMPLATE], cells[1][TEMPLATE] = f"{opening} had taught.", f"{opening} would teach."
    assert check_stimuli(write(cells)) == []
    cells[0][TEMPLATE], cells[1][TEMPLATE] = (
        text.replace("thanked the ", "thanked ") for text in (cells[0][TEMPLATE], cells[1][TEMPLATE])
    )
    assert [violation.rule for violation in check_stimuli(write(cells))] == ["opening"]


@pytest.mark.parametrize("after", [", too,", ";", '."', "…", "—of course—", ")", "\u00a0again"])
def test_punctuation_and_white_space_may_follow_the_blank(after: str, cells: Cells, write: Write) -> None:
    swap(1, "$NOM_PRONOUN loved", f"$NOM_PRONOUN{after} loved")(cells)
    assert check_stimuli(write(cells)) == []


@pytest.mark.parametrize("noun", ["b" * 60, "[bold]", "chargé d'affaires", "BLANKET maker", "blank maker", "5 < 7"])
def test_nouns_that_break_no_rule(noun: str, cells: Cells, write: Write) -> None:
    both(0, OCCUPATION, noun)(cells)
    assert check_stimuli(write(cells)) == []


def test_a_message_is_short_whatever_the_cells_hold(cells: Cells, write: Write) -> None:
    for column in range(5):
        put(1, column, "$a\x1b" * 20_000)(cells)
    violations = check_stimuli(write(cells))
    assert {"answer", "case", "blank", "length", "reserved"} <= {violation.rule for violation in violations}
    assert all(len(str(violation)) < 400 and str(violation).isprintable() for violation in violations)


@pytest.mark.parametrize("word", ["she", "Herself", "fiancée", "wives", "GRANNIES", "actresses", "salesmen", "Ms"])
def test_gendered_words_in_every_form(word: str, cells: Cells, write: Write) -> None:
    swap(0, "five clubs", f"five {word},")(cells)
    assert [violation.rule for violation in check_stimuli(write(cells))] == ["gendered"]


@pytest.mark.parametrize("word", ["it", "its", "they", "heresy", "human", "missed", "German", "shed", "sonnets", "$5"])
def test_words_without_gender(word: str, cells: Cells, write: Write) -> None:
    swap(0, "five clubs", f"five {word}")(cells)
    assert check_stimuli(write(cells)) == []


def test_gendered_words_are_lower_case_words() -> None:
    assert all(word.isalpha() and word == word.lower() for word in GENDERED_WORDS)


def test_a_violation_reads_as_a_line() -> None:
    assert str(Violation(7, "blank", "no blank", "write one")) == "line 7: no blank: write one"
    assert str(Violation(None, "even", "an odd number of rows, 3", "add one")) == "an odd number of rows, 3: add one"


def test_only_the_first_violations_are_quoted(cells: Cells, write: Write) -> None:
    for row in cells:
        row[ANSWER] = "yes"
    with pytest.raises(StimuliError, match="6 time") as caught:
        load_stimuli(write(cells))
    assert str(caught.value).count(": line 2: ") == 1
    assert "line 4: " not in str(caught.value)


def test_what_is_no_table_cannot_be_checked(tmp_path: Path) -> None:
    with pytest.raises(StimuliError, match="there is no file"):
        check_stimuli(tmp_path / "absent.tsv")


def test_the_shipped_stimuli_are_sound() -> None:
    assert check_stimuli("builtin") == []


def test_winopron_is_sound(winopron_zip: Path) -> None:
    assert check_stimuli(winopron_zip) == []
