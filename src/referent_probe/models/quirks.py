"""What a model wants of its prompt beyond its chat template: known for a model by name, or seen in the template."""

import datetime
from dataclasses import asdict, dataclass, replace
from typing import Any

# Some templates write the date of the day into the prompt, and a run of tomorrow would be another run.
FIXED_DATE = "2024-07-26"

# What `strftime` may be asked for.
_CODES = "YmdyBbAajHMSIpUWw"

# The channel of OpenAI's harmony format whose text is the answer; what comes before it is reasoning.
HARMONY_ANSWER = "<|channel|>final<|message|>"


@dataclass(frozen=True)
class Quirks:
    """How a prompt is put to a model; the defaults are those of a model without quirks.

    Attributes:
        system_turn: Whether instructions get a turn of their own; if not, they begin the user turn.
        prefill: Whether the answer may be begun for the model; if not, the prompt ends where the answer starts.
        assistant_opening: Text between the template's generation prompt and the prefill, so that the next words are
            the answer and not reasoning: the final channel of harmony, or the end of an empty thinking block.
        thinking_switch: Whether the template is told `enable_thinking=False`.
        date: ISO date that a template is given for today; None where it asks for none.
        quantisation: Method by which the stored weights are quantised ("mxfp4"); they are unpacked at load.
    """

    system_turn: bool = True
    prefill: bool = True
    assistant_opening: str = ""
    thinking_switch: bool = False
    date: str | None = None
    quantisation: str | None = None

    def template_options(self, tokenizer: Any) -> dict[str, Any]:
        """Keyword arguments for the tokenizer's `apply_chat_template`.

        Example:
            >>> Quirks(thinking_switch=True).template_options(tokenizer)  # doctest: +SKIP
            {'enable_thinking': False}
        """
        options: dict[str, Any] = {}
        if self.thinking_switch:
            options["enable_thinking"] = False
        if self.date is not None:
            options["chat_template"] = _dated(self.date) + str(tokenizer.get_chat_template())
        return options

    def as_dict(self) -> dict[str, str | bool | None]:
        """The quirks by name, for the manifest."""
        return asdict(self)


PLAIN = Quirks()


def with_template(known: Quirks, tokenizer: Any) -> Quirks:
    """Add what the tokenizer's chat template shows to what is known of the model.

    Found are a switch named `enable_thinking`, a question for today's date, and a generation prompt that opens a
    thinking block or leaves the channel of harmony open. An opening that is known already stays.

    Example:
        A Qwen3 template mentions `enable_thinking`: `with_template(PLAIN, tokenizer).thinking_switch` is True, and
        the template itself then writes the empty thinking block.
    """
    if tokenizer.chat_template is None:
        return known
    template = str(tokenizer.chat_template)
    found = replace(
        known,
        thinking_switch=known.thinking_switch or "enable_thinking" in template,
        date=known.date or (FIXED_DATE if "strftime_now" in template else None),
    )
    if found.assistant_opening:
        return found
    try:
        asked = tokenizer.apply_chat_template(
            [{"role": "user", "content": "x"}],
            tokenize=False,
            add_generation_prompt=True,
            **found.template_options(tokenizer),
        )
    except Exception:  # a template runs code of its own; it is refused, with its reason, when a prompt is encoded
        return found
    return replace(found, assistant_opening=_opening(str(asked)))


def _dated(date: str) -> str:
    """Start of a template in which `strftime_now` answers with this date, at midnight.

    A macro, since transformers hands templates no function but its own, which reads the clock.
    """
    day = datetime.datetime.fromisoformat(date)
    answer = "".join(f" | replace('%{code}', '{day.strftime(f'%{code}')}')" for code in _CODES)
    # The empty expression keeps a line break with which the template may begin.
    return f"{{% macro strftime_now(form) %}}{{{{ form{answer} }}}}{{% endmacro %}}{{{{ '' }}}}"


def _opening(asked: str) -> str:
    if asked.endswith("<|start|>assistant"):
        return HARMONY_ANSWER
    if asked.rstrip().endswith("<think>"):
        return "\n</think>\n\n" if asked.endswith("\n") else "\n\n</think>\n\n"
    return ""
