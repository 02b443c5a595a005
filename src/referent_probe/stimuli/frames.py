"""Frames: sentences about one person, in which a pronoun can only be that person's own; and the primes they make.

Three primes differ in the role noun alone: `same`, the blank's own referent; `other`, the other person of the target
sentence; `third`, somebody who is not in it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from referent_probe.errors import StimuliError
from referent_probe.stimuli.options import FORMS, Case, Gender, OptionOrder
from referent_probe.stimuli.primes import ContextSetting, Segment, Span
from referent_probe.stimuli.prompts import DEFAULT_WORDING, Prompt, PromptWording, prompt_after
from referent_probe.stimuli.quoting import quoted, shown_path
from referent_probe.stimuli.templates import BLANK, Template
from referent_probe.stimuli.toml_file import read_toml

_SLOT = re.compile(r"\b(ROLE|PRONOUN)\b")
_FIXED = re.compile(r"\b(she|he|hers?|him|his|herself|himself)\b", re.IGNORECASE)
_KEYS = ("case", "text")


class Prime(StrEnum):
    """Whose pronoun a one-person prime has."""

    SAME = "same"
    OTHER = "other"
    THIRD = "third"


@dataclass(frozen=True)
class Frame:
    """A sentence about one person.

    Attributes:
        case: Of its pronoun.
        text: A sentence of one line with ROLE for the person's noun and PRONOUN for the pronoun, once each, ROLE
            first; no other gendered pronoun, no BLANK, and a full stop at its end.

    Raises:
        StimuliError: A slot is missing, repeated, or in the wrong order, or the sentence breaks another rule.

    Example:
        >>> Frame(Case.POSSESSIVE, "The ROLE closed PRONOUN eyes.").filled("baker", Gender.FEMININE)
        'The baker closed her eyes.'
    """

    case: Case
    text: str

    def __post_init__(self) -> None:
        if _SLOT.findall(self.text) != ["ROLE", "PRONOUN"]:
            raise StimuliError(f"frame {quoted(self.text)} needs ROLE once, and after it PRONOUN once: write them so")
        if not self.text.isprintable():
            problem = "has a line break or another character that does not print: take it away"
        elif self.text != self.text.strip():
            problem = "has white space around it: take it away"
        elif BLANK in self.text:
            problem = f"has {BLANK}, which the prompt's question is about: reword it"
        elif fixed := _FIXED.search(self.text):
            problem = f"has {fixed[0]!r}, which stays when the prime's gender changes: reword it"
        elif not self.text.endswith("."):
            problem = "does not end in a full stop: add it"
        else:
            return
        raise StimuliError(f"frame {quoted(self.text)} {problem}")

    def segments(self, noun: str, gender: Gender) -> tuple[Segment, ...]:
        """The sentence about this person: noun `prime_owner`, pronoun `priming_pronoun`, the rest before and after."""
        before, _, between, _, after = _SLOT.split(self.text)
        parts = (
            Segment(before, Span.PRIME_REST),
            Segment(noun, Span.PRIME_OWNER),
            Segment(between, Span.PRIME_REST),
            Segment(FORMS[self.case].of(gender), Span.PRIMING_PRONOUN),
            Segment(after, Span.PRIME_AFTER_PRONOUN),
        )
        return tuple(part for part in parts if part.text)

    def filled(self, noun: str, gender: Gender) -> str:
        """The sentence as text."""
        return "".join(part.text for part in self.segments(noun, gender))


def load_frames(path: str | Path) -> tuple[Frame, ...]:
    """Frames from a TOML file.

    A file of one frame:

        [[frame]]
        case = "possessive"
        text = "The ROLE finished PRONOUN lunch."

    It may have a table [mention] too, which `mentions.load_mentions` reads.

    Raises:
        StimuliError: The file cannot be read, has no frame, or a frame lacks something, has something else, breaks a
            rule or comes twice; the message names the file and the frame.
    """
    shown, table = shown_path(path), read_toml(path, StimuliError)
    listed = table.get("frame")
    if set(table) - {"mention"} != {"frame"} or not isinstance(listed, list) or not listed:
        raise StimuliError(f"{shown} is no frames file: give [[frame]] tables with the keys case and text")
    frames: list[Frame] = []
    for number, entry in enumerate(listed, start=1):
        where = f"{shown}, frame {number}"
        if not isinstance(entry, dict):
            raise StimuliError(f"{where}: {quoted(entry)} is no [[frame]] table: give it the keys case and text")
        for key in entry:
            if key not in _KEYS:
                raise StimuliError(f"{where}: unknown key {quoted(key)}: give case and text, and no others")
        for key in _KEYS:
            if key not in entry:
                raise StimuliError(f"{where} lacks the key {key!r}: add it")
        if entry["case"] not in tuple(Case):
            raise StimuliError(f"{where}: case {quoted(entry['case'])} is none of {', '.join(Case)}")
        if not isinstance(entry["text"], str):
            raise StimuliError(f"{where}: {quoted(entry['text'])} is no text: put it in quotation marks")
        try:
            frame = Frame(Case(entry["case"]), entry["text"])
        except StimuliError as error:
            raise StimuliError(f"{where}: {error}") from error
        if frame in frames:
            raise StimuliError(f"{where}: {quoted(frame.text)} is frame {frames.index(frame) + 1} again: take one away")
        frames.append(frame)
    return tuple(frames)


def owner_of(template: Template, prime: Prime, third: str) -> str:
    """The noun of the person whose pronoun a prime has.

    Args:
        template: Target sentence.
        prime: Which.
        third: Noun of somebody who is not in the target sentence.

    Raises:
        StimuliError: `third` is in the target sentence.
    """
    if third in (template.occupation, template.participant):
        raise StimuliError(f"the third person {quoted(third)} is in the target sentence {template.id}: give another")
    return {Prime.SAME: template.antecedent_noun, Prime.OTHER: template.other_noun, Prime.THIRD: third}[prime]


def frame_prompt(
    template: Template,
    frame: Frame,
    noun: str,
    gender: Gender,
    order: OptionOrder,
    wording: PromptWording = DEFAULT_WORDING,
) -> Prompt:
    """The choice prompt of a target sentence after a one-person prime.

    Args:
        template: Target sentence.
        frame: Sentence of the prime.
        noun: Its person, as `owner_of` gives it.
        gender: Of its pronoun; the prompt's setting is `cf` or `cm` accordingly.
        order: Which option is shown first.
        wording: The fixed words.
    """
    setting = ContextSetting.CF if gender is Gender.FEMININE else ContextSetting.CM
    return prompt_after(template, frame.segments(noun, gender), setting, order, wording)
