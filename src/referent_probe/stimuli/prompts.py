"""Messages that ask a model to choose a pronoun, and the wording that a user may change."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Literal

from referent_probe.errors import PromptError
from referent_probe.stimuli.options import FORMS, Forms, Gender, OptionOrder
from referent_probe.stimuli.primes import ContextSetting, Segment, Span, prime_segments, target_segments
from referent_probe.stimuli.quoting import quoted, shown_path
from referent_probe.stimuli.templates import Template
from referent_probe.stimuli.toml_file import read_toml

_SLOTS = ("passage", "option_1", "option_2")
_OPTION_SPANS = {Gender.FEMININE: Span.OPTION_FEMININE, Gender.MASCULINE: Span.OPTION_MASCULINE}


def _parse_user(user: str) -> list[tuple[str, str | None]]:
    """Cuts the user turn into (fixed text, slot after it); the slot is None at the end."""
    try:
        parts = list(Formatter().parse(user))
    except ValueError as error:
        raise PromptError(f"key 'user': {error}: write {{{{ and }}}} for braces that are no slot") from error
    parsed = []
    for text, slot, spec, conversion in parts:
        if spec or conversion:
            raise PromptError(f"key 'user': slot {slot!r} has a format: write the bare name in braces")
        parsed.append((text, slot))
    return parsed


@dataclass(frozen=True)
class PromptWording:
    """The fixed words of a prompt.

    Attributes:
        name: shown in tables.
        system: system turn; "" for none.
        user: user turn, with `{passage}`, `{option_1}` and `{option_2}` once each, in any order; `{{` and `}}` stand
            for braces.
        prefill: beginning of the answer, put into the model's mouth; "" for none.

    Raises:
        PromptError: a slot of `user` is missing, repeated or unknown, or a slot stands in `system` or `prefill`.
    """

    name: str
    system: str
    user: str
    prefill: str

    def __post_init__(self) -> None:
        slots = [slot for _, slot in _parse_user(self.user) if slot is not None]
        for slot in slots:
            if slot not in _SLOTS:
                raise PromptError(f"key 'user': unknown slot {slot!r}: use {{passage}}, {{option_1}}, {{option_2}}")
        for slot in _SLOTS:
            if slots.count(slot) != 1:
                raise PromptError(f"key 'user': slot {slot!r} stands there {slots.count(slot)} times: write it once")
            for key, text in ("system", self.system), ("prefill", self.prefill):
                if f"{{{slot}}}" in text:
                    raise PromptError(f"key {key!r}: slot {slot!r} is not filled there: move it to 'user'")


DEFAULT_WORDING = PromptWording(
    name="default",
    # All that is fixed stands before the passage, where prompts share it and no pass computes it twice.
    system=(
        "You fill gaps in texts. Each text has one gap, written BLANK, and comes with two words. Exactly one of the "
        "two words belongs in the gap. Read the whole text, then answer with one of the two words and with no other "
        "word."
    ),
    user='Text: {passage}\nIs BLANK "{option_1}" or "{option_2}"?',
    prefill='The word is "',
)


def load_wording(path: str | Path) -> PromptWording:
    """Reads a wording from TOML: `system`, `user`, `prefill`, and `name` if it is not to be the file's.

    A file with these three lines is enough:

        system = ""
        user = 'Fill in BLANK with {option_1} or {option_2}: {passage}'
        prefill = ""

    Raises:
        PromptError: the file is missing, over 1 MB or no TOML, or a key is missing, unknown, no text or without its
            slots; the message names the file and the key.
    """
    shown = shown_path(path)
    table = read_toml(path, PromptError)
    for key, value in table.items():
        if key not in ("name", "system", "user", "prefill"):
            raise PromptError(f"{shown}: unknown key {quoted(key)}: use system, user, prefill and name")
        if not isinstance(value, str):
            raise PromptError(f"{shown}, key {key!r}: {quoted(value)} is not text: put it in quotation marks")
    for key in ("system", "user", "prefill"):
        if key not in table:
            raise PromptError(f'{shown} lacks the key {key!r}: add it (system and prefill may be "")')
    try:
        return PromptWording(**{"name": Path(path).stem} | table)
    except PromptError as error:
        raise PromptError(f"{shown}, {error}") from error


@dataclass(frozen=True)
class Message:
    """One turn of a conversation, cut into segments that cover all its text."""

    role: Literal["system", "user", "assistant"]
    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        """The whole text of the turn."""
        return "".join(segment.text for segment in self.segments)


@dataclass(frozen=True)
class Prompt:
    """One question to a model, before any tokenizer.

    Attributes:
        template_id: of the target template, "001a".
        setting: what stands before the target sentence.
        option_order: which option is shown first.
        options: the forms that answer the blank.
        messages: system turn (if any) and user turn.
        prefill: beginning of the answer; () for none.
    """

    template_id: str
    setting: ContextSetting
    option_order: OptionOrder
    options: Forms
    messages: tuple[Message, ...]
    prefill: tuple[Segment, ...]


def choice_prompt(
    template: Template,
    partner: Template,
    setting: ContextSetting,
    order: OptionOrder,
    wording: PromptWording = DEFAULT_WORDING,
) -> Prompt:
    """Asks which of the two options fills the blank of `template`, in the context that `setting` makes of `partner`.

    Args:
        template: target sentence.
        partner: sentence of the prime, `pair.partner(template)`; unused in `c0`.
        setting: what stands before the sentence.
        order: which option is shown first.
        wording: the fixed words.

    Returns:
        The prompt; with the default wording, the setting `cf` and the order `mf`, its user turn reads

            Text: The baker told the guest that she was tired. The baker told the guest that BLANK could pay.
            Is BLANK "he" or "she"?
    """
    return prompt_after(template, prime_segments(partner, setting), setting, order, wording)


def prompt_after(
    template: Template,
    prime: tuple[Segment, ...],
    setting: ContextSetting,
    order: OptionOrder,
    wording: PromptWording = DEFAULT_WORDING,
) -> Prompt:
    """As `choice_prompt`, after any prime; `()` for none."""
    system = (Message("system", (Segment(wording.system, Span.INSTRUCTION),)),) if wording.system else ()
    user = Message("user", tuple(_user_segments(template, prime, order, wording)))
    return Prompt(
        template_id=template.id,
        setting=setting,
        option_order=order,
        options=FORMS[template.case],
        messages=(*system, user),
        prefill=(Segment(wording.prefill, Span.PREFILL),) if wording.prefill else (),
    )


def _user_segments(
    template: Template, prime: tuple[Segment, ...], order: OptionOrder, wording: PromptWording
) -> Iterator[Segment]:
    first, second = order.genders
    options = {"option_1": first, "option_2": second}
    fixed = Span.INSTRUCTION
    for text, slot in _parse_user(wording.user):
        if text:
            yield Segment(text, fixed)
        if slot == "passage":
            yield from prime
            if prime:
                yield Segment(" ", prime[-1].span)
            yield from target_segments(template)
            fixed = Span.FORMAT
        elif slot is not None:
            gender = options[slot]
            yield Segment(FORMS[template.case].of(gender), _OPTION_SPANS[gender])
