"""Which frames stand before which template: a Latin square, in which every frame is used equally often."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from referent_probe.errors import OptionError, StimuliError
from referent_probe.randomness import generator
from referent_probe.stimuli.frames import Frame
from referent_probe.stimuli.mentions import MatchedMention, Mention, nearest_mentions
from referent_probe.stimuli.options import FORMS, Case, Forms
from referent_probe.stimuli.quoting import quoted
from referent_probe.stimuli.templates import Pair

FRAMES_AT_HAND = 4
FRAMES_PER_TEMPLATE = 2


@dataclass(frozen=True)
class TemplateFrames:
    """The sentences of one template's primes.

    Attributes:
        own: Frames of the blank's case, which all one-person primes of the template share.
        others: For each of them another one, of a second person; the same where there is no other.
        mentions: For each of them a mention at its distance; () where the run does without.
        cross: A frame of another case; None where the run does without.
    """

    own: tuple[Frame, ...]
    others: tuple[Frame, ...]
    mentions: tuple[MatchedMention, ...]
    cross: Frame | None


@dataclass(frozen=True)
class FrameRotation:
    """The frames of a run.

    Attributes:
        by_template: By the template's id.
        skipped: Why the run does without a kind of prime, by its name; empty if it has all.
    """

    by_template: Mapping[str, TemplateFrames]
    skipped: Mapping[str, str]


def rotate_frames(
    pairs: Sequence[Pair],
    frames: Sequence[Frame],
    mentions: Sequence[Mention],
    length: Callable[[str], int],
    seed: int,
    *,
    at_hand: int = FRAMES_AT_HAND,
    per_template: int = FRAMES_PER_TEMPLATE,
    knows: Callable[[str], bool] = lambda text: True,
) -> FrameRotation:
    """Deal the first frames of each case out to the templates of a run.

    The pairs of a case, in an order drawn by the seed, take turns: each begins one frame later than the one before it,
    and its second sentence as many frames later as a template has. So every frame stands before equally many first and
    second sentences, to within one turn where the pairs of a case are no multiple of its frames, and goes with nothing
    else in the stimuli.

    A frame of another case is of one that shares no form with the blank's, since "her" before a blank for "her" would
    be a copy after all: she or he before accusative and possessive blanks, the two others in turn before nominative
    ones.

    Args:
        pairs: Of the run.
        frames: Of a frames file, in its order.
        mentions: Sentences about a word.
        length: Tokens of a stretch of text.
        seed: Of the run.
        at_hand: How many frames of a case are used, the first ones; fewer where the file has fewer.
        per_template: How many of them a template gets.
        knows: Whether the model's vocabulary has all words of a text.

    Raises:
        OptionError: `per_template` is not from 1 to `at_hand`.
        StimuliError: A case of the pairs has no frame, or fewer than a template needs.

    Example:
        With four frames and two for each template, sentences "a" and "b" of three pairs in turn get frames 1 2 and 3 4,
        2 3 and 4 1, 3 4 and 1 2.
    """
    if not 1 <= per_template <= at_hand:
        raise OptionError(
            f"{quoted(per_template)} frames for each template of {quoted(at_hand)} at hand: give a number from 1 to "
            "that, and at least one at hand"
        )
    hand = {case: [frame for frame in frames if frame.case is case][:at_hand] for case in Case}
    usable = [m for m in mentions if all(knows(m.filled(f)) for forms in FORMS.values() for f in _both(forms))]
    skipped = {} if usable else {"mention": _no_mention(mentions)}
    by_template: dict[str, TemplateFrames] = {}
    for case in Case:
        turns = [pair for pair in pairs if pair.case is case]
        if not turns:
            continue
        own = _enough(hand[case], case, per_template)
        beside = nearest_mentions(own, usable, length) if usable else ()
        cross = _other_cases(hand, case)
        if not cross:
            skipped[f"cross before {case} blanks"] = (
                "the frames have none of a case that shares no form with it; add some to the frames file"
            )
        for turn, i in enumerate(generator(seed, "frames", case).permutation(len(turns))):
            for member, template in enumerate(turns[i].members):
                places = [(turn + member * per_template + j) % len(own) for j in range(per_template)]
                by_template[template.id] = TemplateFrames(
                    own=tuple(own[place] for place in places),
                    others=tuple(own[(place + 1) % len(own)] for place in places),
                    mentions=tuple(beside[place] for place in places) if beside else (),
                    cross=cross[(turn + member) % len(cross)] if cross else None,
                )
    return FrameRotation(by_template, skipped)


def _both(forms: Forms) -> tuple[str, str]:
    return forms.feminine, forms.masculine


def _enough(own: list[Frame], case: Case, per_template: int) -> list[Frame]:
    if len(own) < per_template:
        raise StimuliError(
            f"the frames hold {len(own)} of the {case} case, and every template of that case takes {per_template}: "
            f'add [[frame]] tables with case = "{case}", or take fewer frames for each template'
        )
    return own


def _other_cases(hand: Mapping[Case, list[Frame]], case: Case) -> list[Frame]:
    """Frames of the cases that share no form with this one, alternating."""
    lists = [found for other, found in hand.items() if not set(_both(FORMS[other])) & set(_both(FORMS[case]))]
    return [frame for frame in chain.from_iterable(zip_longest(*lists)) if frame is not None]


def _no_mention(mentions: Sequence[Mention]) -> str:
    if not mentions:
        return "no sentence about a word is given; write some into the table [mention] of the frames file"
    return (
        f"the model's vocabulary lacks a word of every sentence, such as {quoted(mentions[0].text)}; write "
        "some in its vocabulary into the table [mention] of the frames file"
    )
