"""The rules that a stimuli file must keep for a measured effect to mean what it says.

A cue to the pronoun's gender other than the prime, or a pair whose members are not comparable, would pass for an
effect of the prime; so every rule is checked before a model sees a sentence.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from referent_probe.stimuli.quoting import quoted
from referent_probe.stimuli.rows import BLANKS, OCCUPATION, PARTICIPANT, PLACEHOLDER, Row, read_table

SHARED_OPENING_WORDS = 6
"""The fewest words that the members of a pair must share at their start; a placeholder counts as one word."""

ROLE_LENGTH = 60
TEMPLATE_LENGTH = 1_000
"""The most characters of a role noun and of a template."""

# Beside the categories of control characters: letters and marks that show nothing.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0") | {
    chr(code) for code in range(0xFE00, 0xFE10)
}
_CONTROL = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_MARKUP = r"<[/|｜A-Za-z_]|[|｜]>|\[/?[A-Z_]{3,}\]"
"""Begins or ends a special token of some tokenizer: <|im_end|>, </s>, [INST]."""

# Another mark or letter next to the blank would change the pronoun's tokens, or make it part of a longer word.
_BEFORE_BLANK = r"(?<!\S)"
_AFTER_BLANK = r"""(?=[.,;:!?…)\]}"”»]*(?:\s|—|$))"""

_PRONOUNS = "he him his himself she her hers herself"
_TITLES = "mr mister mrs ms sir madam mesdames messrs"
_ADJECTIVES = "female feminine male masculine maternal paternal motherly fatherly girlish boyish womanly manly"
# Not "miss", "master" or "bachelor": more often the verb and the degrees.
_NOUNS = """
    actress anchorwoman aunt auntie ballerina baron baroness bloke boy boyfriend bride bridegroom bridesmaid brother
    chap comedienne countess cowboy cowgirl dad daddy dame daughter duchess duke emperor empress
    father fella female fiance fiancee fiancé fiancée gal gentleman girl girlfriend godfather godmother goddess
    grandad granddad granddaughter grandfather grandma grandmother grandpa grandson granny groom guy heiress heroine
    hostess housewife husband king lad lady landlady landlord lass lord maid male mama masseur masseuse mistress mom
    mommy monk mother mum mummy nephew niece nun papa policewoman priestess prince princess queen schoolboy
    schoolgirl seamstress sister son stepbrother stepdaughter stepfather stepmother stepsister stepson steward
    stewardess uncle waiter waitress widow widower witch wizard
"""
_IRREGULAR_PLURALS = "daddies grannies housewives ladies landladies mommies mummies wife wives gentlemen"
# Each may stand before -man, -men, -woman and -women.
_MAN_STEMS = """
    air alder anchor assembly business camera chair clergy congress council country crafts crew door fire fisher fore
    fresh garbage gentle handy horse hunts journey lay mail middle milk news noble patrol police post repair sales sea
    service spokes sports states weather work
"""
GENDERED_WORDS = frozenset(
    [word for text in (_PRONOUNS, _TITLES, _ADJECTIVES, _IRREGULAR_PLURALS, _NOUNS) for word in text.split()]
    + [noun + ("es" if noun.endswith(("s", "ch")) else "s") for noun in _NOUNS.split()]
    + [stem + ending for stem in ("", *_MAN_STEMS.split()) for ending in ("man", "men", "woman", "women")]
)
"""Lower-case words that give away a person's gender."""


@dataclass(frozen=True)
class Violation:
    """A rule that a file breaks.

    Attributes:
        row: line of the file, the header being line 1; None where no single line is to blame.
        rule: short name of the rule, "blank".
        message: what is wrong, with the offending text quoted.
        cure: what to do about it.
    """

    row: int | None
    rule: str
    message: str
    cure: str

    def __str__(self) -> str:
        where = "" if self.row is None else f"line {self.row}: "
        return f"{where}{self.message}: {self.cure}"


def check_stimuli(path: str | Path, password: str | None = None) -> list[Violation]:
    """Every rule that a stimuli file breaks, in the order of its lines; an empty list for a sound file.

    Raises:
        StimuliError: the file cannot be read at all, or is no stimuli file.
    """
    return check_rows(read_table(path, password).rows)


def check_rows(rows: Sequence[Row]) -> list[Violation]:
    """Every rule that the rows break: those of the whole file, then those of single rows and pairs, by line."""
    found = [violation for row in rows for violation in _check_row(row)]
    for first, second in zip(rows[::2], rows[1::2], strict=False):
        found.extend(_check_pair(first, second))
    found.extend(_check_duplicates(rows))
    if len(rows) % 2:
        message = f"an odd number of rows, {len(rows)}"
        found.append(Violation(None, "even", message, "give every row the partner that forms its pair"))
    return sorted(found, key=lambda violation: violation.row or 0)


def _check_row(row: Row) -> Iterator[Violation]:
    def broken(rule: str, message: str, cure: str) -> Violation:
        return Violation(row.line, rule, message, cure)

    if row.answer not in ("0", "1"):
        yield broken("answer", f"answer {quoted(row.answer)}", "write 0 for the occupation, 1 for the participant")
    if not row.occupation or not row.participant or _plain(row.occupation) == _plain(row.participant):
        nouns = f"{quoted(row.occupation)} and {quoted(row.participant)}"
        yield broken("roles", f"the role nouns are {nouns}", "name two different people")
    if row.pronoun_type not in BLANKS:
        yield broken("case", f"pronoun_type {quoted(row.pronoun_type)}", f"write one of {', '.join(BLANKS)}")
    yield from _check_sentence(row)
    yield from _check_characters(row)
    without_placeholders = re.sub(PLACEHOLDER, " ", row.template)
    for place, text in ("template", without_placeholders), ("role", row.occupation), ("role", row.participant):
        for word in re.findall(r"[^\W\d_]+", text):
            if word.lower() in GENDERED_WORDS:
                yield broken("gendered", f"gendered word {quoted(word)} in the {place}", "use a word without gender")


def _check_characters(row: Row) -> Iterator[Violation]:
    places = ("role", row.occupation, ROLE_LENGTH), ("role", row.participant, ROLE_LENGTH)
    for place, text, most in *places, ("template", row.template, TEMPLATE_LENGTH):
        if len(text) > most:
            message = f"a {place} of {len(text)} characters, {quoted(text, 20)}"
            yield Violation(row.line, "length", message, f"write at most {most}")
        hidden = sorted({c for c in text if c in _INVISIBLE or unicodedata.category(c) in _CONTROL})
        if hidden:
            shown = " ".join(f"U+{ord(c):04X}" for c in hidden[:3])
            message = f"invisible or control character {shown} in the {place}"
            yield Violation(row.line, "characters", message, "write visible characters and plain spaces only")
        reserved = [r"(?<![^\W_])BLANK(?![^\W_])", _MARKUP, *([PLACEHOLDER] if place == "role" else [])]
        for found in filter(None, (re.search(pattern, text) for pattern in reserved)):
            message = f"{quoted(found[0])} in the {place}"
            yield Violation(row.line, "reserved", message, "prompts give it a meaning of its own; write it otherwise")


def _plain(noun: str) -> str:
    return " ".join(noun.casefold().split())


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _check_sentence(row: Row) -> Iterator[Violation]:
    placeholders = re.findall(PLACEHOLDER, row.template)
    for name in placeholders:
        if name not in (OCCUPATION, PARTICIPANT, *BLANKS):
            cure = f"use {OCCUPATION}, {PARTICIPANT} and the pronoun_type only"
            yield Violation(row.line, "placeholder", f"unknown placeholder {quoted(name)}", cure)
    blanks = [name for name in placeholders if name in BLANKS]
    if blanks != [row.pronoun_type]:
        message = f"{_listed(blanks) or 'no blank'} in a template of pronoun_type {quoted(row.pronoun_type)}"
        yield Violation(row.line, "blank", message, "write exactly one blank, the pronoun_type itself")
        return
    before, _, after = row.template.partition(row.pronoun_type)
    if not re.search(r"\w", before) or not re.search(r"\w", after):
        cure = "put words before and after the blank"
        yield Violation(row.line, "position", "the blank is the first or the last word", cure)
    elif not re.search(_BEFORE_BLANK + re.escape(row.pronoun_type) + _AFTER_BLANK, row.template):
        around = before[-8:] + row.pronoun_type + after[:8]
        cure = "put a space before it, and a space, a full stop or a comma after it"
        yield Violation(row.line, "word", f"the blank is no word of its own in {quoted(around)}", cure)
    for role in (OCCUPATION, PARTICIPANT):
        if role not in re.findall(PLACEHOLDER, before):
            cure = "name both people before the blank"
            yield Violation(row.line, "order", f"{role} is not named before the blank", cure)


def _check_pair(first: Row, second: Row) -> Iterator[Violation]:
    def broken(rule: str, message: str, cure: str) -> Violation:
        return Violation(second.line, rule, f"{message} (pair of line {first.line})", cure)

    for column in ("pronoun_type", "occupation", "participant"):
        ours, theirs = getattr(first, column), getattr(second, column)
        if ours != theirs:
            message = f"{column} {quoted(theirs)} after {quoted(ours)}"
            yield broken("pair", message, f"give both rows of a pair one {column}")
    if first.answer == second.answer:
        message = f"answer {quoted(second.answer)} twice"
        yield broken("antecedent", message, "give one row answer 0 and the other answer 1")
    words = zip(first.template.split(), second.template.split(), strict=False)
    shared = len(list(takewhile(lambda both: both[0] == both[1], words)))
    if shared < SHARED_OPENING_WORDS:
        cure = f"let both rows begin with the same {SHARED_OPENING_WORDS} words or more"
        yield broken("opening", f"only {shared} shared opening words", cure)


def _check_duplicates(rows: Sequence[Row]) -> Iterator[Violation]:
    seen: dict[tuple[str, str, str], int] = {}
    for row in rows:
        line = seen.setdefault((row.occupation, row.participant, row.template), row.line)
        if line != row.line:
            yield Violation(row.line, "duplicate", f"same roles and template as line {line}", "write another template")
