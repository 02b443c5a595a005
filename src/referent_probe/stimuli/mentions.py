"""Mentions: sentences in which a pronoun stands as a word and is nobody's."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from referent_probe.errors import StimuliError
from referent_probe.stimuli.frames import Frame
from referent_probe.stimuli.primes import Segment, Span
from referent_probe.stimuli.quoting import quoted, shown_path
from referent_probe.stimuli.templates import BLANK
from referent_probe.stimuli.toml_file import read_toml

_PRONOUN = re.compile(r"\bPRONOUN\b")


@dataclass(frozen=True)
class Mention:
    """A sentence about a word.

    The word stands bare, after a space, and not in quotation marks: most tokenizers have one token for a word with the
    space before it and another for one after a mark, and it must be the token that a frame has.

    Attributes:
        text: With PRONOUN for the word, once.

    Raises:
        StimuliError: PRONOUN is missing, repeated, at the start or after a mark, ROLE or BLANK is in it, or it is no
            sentence of one line with a full stop at its end.

    Example:
        >>> Mention("The word PRONOUN is short.").filled("her")
        'The word her is short.'
    """

    text: str

    def __post_init__(self) -> None:
        if len(_PRONOUN.findall(self.text)) != 1 or " PRONOUN" not in self.text:
            problem = "needs PRONOUN once, after a space: write it so"
        elif re.search(r"\bROLE\b", self.text):
            problem = "has ROLE, and must be about nobody: reword it"
        elif not self.text.isprintable() or self.text != self.text.strip():
            problem = "has white space around it, a line break, or a character that does not print: take it away"
        elif BLANK in self.text:
            problem = f"has {BLANK}, which the prompt's question is about: reword it"
        elif not self.text.endswith("."):
            problem = "does not end in a full stop: add it"
        else:
            return
        raise StimuliError(f"mention {quoted(self.text)} {problem}")

    def segments(self, form: str) -> tuple[Segment, ...]:
        """The sentence with this form: `priming_pronoun`, and the rest before and after it."""
        before, after = _PRONOUN.split(self.text)
        parts = (
            Segment(before, Span.PRIME_REST),
            Segment(form, Span.PRIMING_PRONOUN),
            Segment(after, Span.PRIME_AFTER_PRONOUN),
        )
        return tuple(part for part in parts if part.text)

    def filled(self, form: str) -> str:
        """The sentence as text."""
        return "".join(part.text for part in self.segments(form))


@dataclass(frozen=True)
class MatchedMention:
    """A mention in a frame's place.

    Attributes:
        mention: The sentence.
        distance_difference: Tokens after its pronoun, less those after the frame's; 0 if the pronoun is as far from
            the target sentence.
    """

    mention: Mention
    distance_difference: int


def load_mentions(path: str | Path) -> tuple[Mention, ...]:
    """Mentions of a frames file; () where it has none.

    They stand in a table of their own, before the frames:

        [mention]
        texts = ["The word PRONOUN is short.", "The list has the word PRONOUN."]

    Raises:
        StimuliError: The file cannot be read, the table is another one, or a mention breaks a rule.
    """
    shown, table = shown_path(path), read_toml(path, StimuliError)
    if "mention" not in table:
        return ()
    given = table["mention"]
    texts = given.get("texts") if isinstance(given, dict) and set(given) == {"texts"} else None
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise StimuliError(f"{shown}: the table [mention] holds one key, texts: give it a list of sentences")
    try:
        return tuple(map(Mention, texts))
    except StimuliError as error:
        raise StimuliError(f"{shown}: {error}") from error


def nearest_mentions(
    frames: Sequence[Frame], mentions: Sequence[Mention], length: Callable[[str], int]
) -> tuple[MatchedMention, ...]:
    """For each frame the mention whose pronoun is nearest to where the frame's is.

    First by the distance to the target sentence, then by how often it is taken already, then by the tokens before the
    pronoun.

    Args:
        frames: Of one case.
        mentions: At least one.
        length: Tokens of a stretch of text.

    Example:
        "The grid has the word PRONOUN twice." for "The ROLE closed PRONOUN eyes.", with a word and a mark after each.
    """
    taken: Counter[Mention] = Counter()
    chosen = []
    for frame in frames:
        begun, after = (length(text) for text in _PRONOUN.split(frame.text))
        sizes = {mention: tuple(map(length, _PRONOUN.split(mention.text))) for mention in mentions}
        nearest = min(mentions, key=lambda m: (abs(sizes[m][1] - after), taken[m], abs(sizes[m][0] - begun)))
        taken[nearest] += 1
        chosen.append(MatchedMention(nearest, sizes[nearest][1] - after))
    return tuple(chosen)
