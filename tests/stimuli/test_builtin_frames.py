"""The built-in frames keep the rules of the datasheet, and a user's or a model folder's go before them."""

import doctest
import re
from collections import Counter
from pathlib import Path

import pytest

from referent_probe.errors import StimuliError
from referent_probe.planted.grammar import frames_toml
from referent_probe.stimuli import builtin_frames as module
from referent_probe.stimuli import mentions
from referent_probe.stimuli.builtin_frames import builtin_frames, builtin_mentions, frames_for, mentions_for
from referent_probe.stimuli.check import GENDERED_WORDS
from referent_probe.stimuli.frames import Frame
from referent_probe.stimuli.mentions import MatchedMention, Mention, load_mentions, nearest_mentions
from referent_probe.stimuli.options import Case
from referent_probe.stimuli.primes import Segment, Span
from referent_probe.stimuli.templates import StimulusSet

TEXTS = [frame.text for frame in builtin_frames()] + [mention.text for mention in builtin_mentions()]
SPECIFICATION = {
    "The ROLE did the best PRONOUN could.",
    "The ROLE brought a thermos with PRONOUN.",
    "The ROLE finished PRONOUN lunch.",
}
FILE = """
[mention]
texts = ["The word PRONOUN is short."]

[[frame]]
case = "possessive"
text = "The ROLE moved PRONOUN feet."
"""


def length(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == doctest.testmod(mentions).failed == 0


def test_there_are_eight_of_each_case() -> None:
    assert Counter(frame.case for frame in builtin_frames()) == dict.fromkeys(Case, 8)


@pytest.mark.parametrize("text", TEXTS)
def test_a_sentence_keeps_the_rules(text: str) -> None:
    words = re.findall(r"\w+", text.lower())
    assert 6 <= len(words) <= 12
    assert text.endswith(".")
    assert text.count(".") == 1
    assert not {*words} & (GENDERED_WORDS | {"they", "them", "their", "theirs", "themself", "themselves", "blank"})
    assert words.count("pronoun") == 1
    assert words.count("role") == (text in TEXTS[:24])


@pytest.mark.parametrize("frame", builtin_frames(), ids=lambda frame: frame.text)
def test_a_frame_binds_its_pronoun(frame: Frame) -> None:
    """Nominative: "as ... as PRONOUN could"; accusative: behind a preposition, at the end; possessive: before a noun
    that ends the sentence."""
    assert frame.text.startswith("The ROLE ")
    ends = {
        Case.NOMINATIVE: r" as .+ as PRONOUN could\.$",
        Case.ACCUSATIVE: r" (on|behind|with|of|from|around) PRONOUN\.$",
        Case.POSSESSIVE: r" PRONOUN \w+\.$",
    }
    assert re.search(ends[frame.case], frame.text)


def test_sentences_are_distinct_and_our_own() -> None:
    assert len(set(TEXTS)) == len(TEXTS)
    assert not {*TEXTS} & SPECIFICATION
    assert not [text for text in TEXTS if text in frames_toml()]


def test_no_sentence_names_a_role(builtin: StimulusSet) -> None:
    nouns = {noun for pair in builtin.pairs for noun in (pair.occupation, pair.participant)}
    assert not _named(nouns)


def test_no_sentence_names_a_role_of_winopron(winopron: StimulusSet) -> None:
    assert not _named({noun for pair in winopron.pairs for noun in (pair.occupation, pair.participant)})


def _named(nouns: set[str]) -> list[str]:
    return [noun for noun in nouns for text in TEXTS if re.search(rf"\b{noun}s?\b", text, re.IGNORECASE)]


def test_a_named_file_goes_before_the_folders_and_that_before_the_builtin(tmp_path: Path) -> None:
    folder, named = tmp_path / "model", tmp_path / "mine.toml"
    folder.mkdir()
    assert frames_for(str(folder), None) == builtin_frames()
    assert mentions_for(str(folder), None) == builtin_mentions()
    (folder / "frames.toml").write_text(FILE)
    assert frames_for(str(folder), None) == (Frame(Case.POSSESSIVE, "The ROLE moved PRONOUN feet."),)
    assert mentions_for(str(folder), None) == (Mention("The word PRONOUN is short."),)
    named.write_text('[[frame]]\ncase = "accusative"\ntext = "The ROLE sang with the bag on PRONOUN."\n')
    assert frames_for(str(folder), named) == (Frame(Case.ACCUSATIVE, "The ROLE sang with the bag on PRONOUN."),)
    assert mentions_for(str(folder), named) == builtin_mentions()


def test_a_mention_by_hand() -> None:
    assert Mention("The word PRONOUN is short.").segments("him") == (
        Segment("The word ", Span.PRIME_REST),
        Segment("him", Span.PRIMING_PRONOUN),
        Segment(" is short.", Span.PRIME_AFTER_PRONOUN),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("The word is short.", "needs PRONOUN once"),
        ("PRONOUN is a word.", "needs PRONOUN once, after a space"),
        ('The word "PRONOUN" is short.', "needs PRONOUN once, after a space"),
        ("The word PRONOUN is not PRONOUN.", "needs PRONOUN once"),
        ("The ROLE wrote PRONOUN.", "has ROLE"),
        ("The word PRONOUN\nis short.", "has white space around it, a line break"),
        ("The gap BLANK is not PRONOUN.", "has BLANK"),
        ("The word is PRONOUN", "does not end in a full stop"),
    ],
)
def test_mentions_that_break_a_rule(text: str, problem: str) -> None:
    with pytest.raises(StimuliError, match=problem):
        Mention(text)


@pytest.mark.parametrize("table", ["mention = 3", '[mention]\ntext = "a"', "[mention]\ntexts = [1]", "[mention]"])
def test_a_wrong_mention_table(table: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(table)
    with pytest.raises(StimuliError, match=r"mine.toml'.*\[mention\] holds one key, texts: give it a list of sent"):
        load_mentions(tmp_path / "mine.toml")


def test_a_file_with_a_wrong_mention_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[mention]\ntexts = ["The word is short."]')
    with pytest.raises(StimuliError, match=r"mine.toml'.*'The word is short.' needs PRONOUN once"):
        load_mentions(tmp_path / "mine.toml")
    (tmp_path / "none.toml").write_text("")
    assert load_mentions(tmp_path / "none.toml") == ()


def test_the_nearest_mention_by_hand() -> None:
    short, long = Mention("The list has PRONOUN."), Mention("The old list on the wall has PRONOUN.")
    far = Mention("The word PRONOUN is a short and common one indeed.")
    frames = [
        Frame(Case.ACCUSATIVE, "The ROLE sang with a big heavy old bag on PRONOUN."),
        Frame(Case.ACCUSATIVE, "The ROLE ate with PRONOUN."),
        Frame(Case.POSSESSIVE, "The ROLE moved PRONOUN cold feet."),
    ]
    matched = nearest_mentions(frames, [far, short, long], length)
    assert matched == (MatchedMention(long, 0), MatchedMention(short, 0), MatchedMention(short, -2))


@pytest.mark.parametrize("case", Case)
def test_builtin_mentions_have_the_distance_of_the_builtin_frames(case: Case) -> None:
    """Four frames of a case, as many as a run takes, meet four mentions."""
    frames = [frame for frame in builtin_frames() if frame.case is case][:4]
    matched = nearest_mentions(frames, builtin_mentions(), length)
    assert {one.distance_difference for one in matched} == {0}
    assert len({one.mention for one in matched}) == 4
