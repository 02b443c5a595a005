"""The toy language of the planted models: sentences about two people, and frames about one.

Who a pronoun stands for is told by one word of its sentence, a class word: some go with the person of an occupation,
some with the other participant. Order of mention, length and place of the class word vary, so that no position tells.
"""

import re
from collections.abc import Iterable, Iterator

from referent_probe.stimuli.options import Case
from referent_probe.stimuli.rows import BLANKS, COLUMNS

WORD = re.compile(r" ?[A-Za-z0-9]+| ?[^\sA-Za-z0-9]|\s")
"""What a token covers: a word or a mark with the space before it, or a line break."""

_OCCUPATIONS = """
    plumber baker nurse pilot tailor florist surgeon farmer carpenter librarian dentist gardener chef lawyer
    cleaner editor courier weaver painter butcher brewer barber potter roofer printer jeweller optician tutor
    coach pharmacist secretary receptionist electrician mechanic hairdresser photographer architect geologist
    astronomer publisher blacksmith shoemaker interpreter curator bartender babysitter dressmaker lifeguard
    detective mayor nutritionist firefighter zoologist physiotherapist auctioneer joiner glazier locksmith
    upholsterer piper
"""
OCCUPATIONS = tuple(_OCCUPATIONS.split())
"""Sixty, one word each."""

_PARTICIPANTS = """
    tenant guest visitor neighbour student camper pensioner novelist sailor skier climber lodger teenager parent
    violinist drummer boxer reporter owner tourist
"""
PARTICIPANTS = tuple(_PARTICIPANTS.split())
"""Twenty, each with three occupations."""

# By case: with which person a word goes, and the rest of a sentence that ends in it. {} is the blank.
_OCCUPATION_ENDS = {
    Case.NOMINATIVE: ("{} charged too little.", "{} served lunch on the roof.", "{} repaired old things."),
    Case.ACCUSATIVE: ("people hired {} often.", "a firm employed {} for years.", "the town licensed {} at last."),
    Case.POSSESSIVE: ("{} workshop was open.", "{} tools lay in the van.", "{} apprentice took the call."),
}
_PARTICIPANT_ENDS = {
    Case.NOMINATIVE: ("{} ordered too much.", "{} queued at the door for hours.", "{} booked a slot."),
    Case.ACCUSATIVE: (
        "somebody invoiced {} twice.",
        "the office refunded {} in full.",
        "an advert lured {} into town.",
    ),
    Case.POSSESSIVE: ("{} booking was lost.", "{} deposit had come in late.", "{} complaint was read out."),
}
_OCCUPATION_WORDS = """
    charged served repaired hired employed licensed workshop tools apprentice
"""
OCCUPATION_WORDS = frozenset(_OCCUPATION_WORDS.split())
_PARTICIPANT_WORDS = """
    ordered queued booked invoiced refunded lured booking deposit complaint
"""
PARTICIPANT_WORDS = frozenset(_PARTICIPANT_WORDS.split())

_MEETINGS = ("met", "called", "saw", "visited", "greeted")
_PLACES = ("", " at noon", " in the old market", " again", " on a wet day")

_FRAMES = {
    Case.NOMINATIVE: (
        "The ROLE smiled as PRONOUN woke.",
        "The ROLE slept until PRONOUN felt well.",
        "The ROLE ran home before PRONOUN ate.",
        "At dawn the ROLE sang while PRONOUN washed.",
        "The ROLE sat where PRONOUN could rest.",
        "Later the ROLE laughed although PRONOUN was tired.",
        "The ROLE stood up when PRONOUN heard the bell.",
        "The ROLE did the best PRONOUN could.",
    ),
    Case.ACCUSATIVE: (
        "The ROLE brought a flask with PRONOUN.",
        "The ROLE had a dog beside PRONOUN.",
        "The ROLE shut the gate behind PRONOUN.",
        "At night the ROLE kept a lamp near PRONOUN.",
        "The ROLE saw a long road ahead of PRONOUN.",
        "The ROLE pulled the chair towards PRONOUN.",
        "Before lunch the ROLE laid a map under PRONOUN.",
        "The ROLE carried two bags with PRONOUN.",
    ),
    Case.POSSESSIVE: (
        "The ROLE finished PRONOUN lunch.",
        "The ROLE closed PRONOUN eyes.",
        "The ROLE raised PRONOUN hand in the hall.",
        "In the rain the ROLE lost PRONOUN left glove.",
        "The ROLE cleared PRONOUN throat.",
        "The ROLE shook PRONOUN head twice.",
        "At home the ROLE took PRONOUN shoes off.",
        "The ROLE held PRONOUN breath.",
    ),
}

PROMPTS = """# The wording of the choice prompt, in the model's vocabulary.
system = ""
user = 'Text: {passage} Is BLANK "{option_1}" or "{option_2}"?'
prefill = 'The word is "'
"""


def stimuli_tsv() -> str:
    """The stimuli file: 60 occupations, three pairs each, one a case."""
    rows = ["\t".join(COLUMNS)]
    pronoun = {case: name for name, case in BLANKS.items()}
    for number, occupation in enumerate(OCCUPATIONS):
        participant = PARTICIPANTS[number % len(PARTICIPANTS)]
        for turn, case in enumerate(Case):
            i = number + 7 * turn
            people = ("$OCCUPATION", "$PARTICIPANT")
            first, second = people if (number + turn) % 2 else people[::-1]
            place = _PLACES[i % len(_PLACES)]
            opening = f"The {first} {_MEETINGS[i // 2 % len(_MEETINGS)]} the {second}{place} because "
            for answer, ends in enumerate((_OCCUPATION_ENDS, _PARTICIPANT_ENDS)):
                end = ends[case][i // 3 % 3].format(pronoun[case])
                rows.append("\t".join((occupation, participant, str(answer), pronoun[case], opening + end)))
    return "\n".join(rows) + "\n"


def frames_toml() -> str:
    """The frames file: sentences about one person, whose own the pronoun is."""
    parts = ["# Sentences about one person, in which the pronoun can only be that person's own."]
    for case, texts in _FRAMES.items():
        parts += [f'[[frame]]\ncase = "{case}"\ntext = "{text}"' for text in texts]
    return "\n\n".join(parts) + "\n"


def words_of(texts: Iterable[str]) -> Iterator[str]:
    """The tokens of texts, as `WORD` cuts them.

    >>> list(words_of(['Is it "she"?']))
    ['Is', ' it', ' "', 'she', '"', '?']
    """
    for text in texts:
        yield from WORD.findall(text)
