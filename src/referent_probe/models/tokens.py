"""Messages become token ids once, here; below this module no function takes text.

A prompt is rendered by the model's chat template around markers, so that it is known which stretch of the rendered
text belongs to which span, and token positions follow from the tokenizer's offsets. Nothing is searched for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from referent_probe.errors import PromptError
from referent_probe.models.quirks import PLAIN, Quirks
from referent_probe.models.unpack import one_line
from referent_probe.stimuli.primes import Segment, Span
from referent_probe.stimuli.prompts import Message, Prompt

# A token that lies across two spans belongs to the more specific one: a space before a noun is the noun's.
_FILLING = frozenset(
    {Span.INSTRUCTION, Span.PRIME_REST, Span.PRIME_AFTER_PRONOUN, Span.TARGET_REST, Span.FORMAT, Span.PREFILL}
)


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt as token ids.

    Attributes:
        ids: Token ids, T of them.
        spans: The span of each token; the last one is `Span.TARGET_SLOT`, whose next token answers the blank.
        pieces: The text that each token covers, for messages and pictures.
        text: The rendered prompt.
        has_system_turn: False where the chat template has none and the instruction went into the user turn.
    """

    ids: tuple[int, ...]
    spans: tuple[Span, ...]
    pieces: tuple[str, ...]
    text: str
    has_system_turn: bool

    def positions(self, span: Span) -> tuple[int, ...]:
        """Positions of a span's tokens, ascending; empty where the prompt has none."""
        return tuple(i for i, s in enumerate(self.spans) if s is span)


def encode(prompt: Prompt, tokenizer: Any, quirks: Quirks = PLAIN) -> EncodedPrompt:
    """Render a prompt with the tokenizer's chat template and tokenize it, without an extra leading BOS.

    Without a chat template the turns are joined by blank lines and the tokenizer adds what it adds to plain text.

    Args:
        prompt: Messages and prefill.
        tokenizer: A fast Hugging Face tokenizer.
        quirks: `LoadedModel.quirks`. What they put between the generation prompt and the prefill is `Span.FORMAT`.

    Raises:
        PromptError: The tokenizer gives no offsets or does not know a word, the template changes the text, or a span
            has no token.

    Example:
        With a byte-level tokenizer " she" in the prime is one token, and
        `encode(prompt, tokenizer).positions(Span.PRIMING_PRONOUN)` has one member.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise PromptError(
            f"the tokenizer {type(tokenizer).__name__} reports no character offsets, which spans need; "
            "give the model a fast tokenizer (a tokenizer.json)"
        )
    segments, has_system_turn = _render(prompt, tokenizer, quirks)
    text = "".join(s.text for s in segments)
    encoded = tokenizer(
        text, add_special_tokens=tokenizer.chat_template is None, return_offsets_mapping=True, verbose=False
    )
    offsets = [(int(a), int(b)) for a, b in encoded["offset_mapping"]]
    refuse_unknown(encoded["input_ids"], [text[a:b] for a, b in offsets], tokenizer)
    spans = _spans(offsets, segments)
    for span in {s.span for s in segments} - _FILLING:
        if span not in spans:
            raise PromptError(f"no token of the prompt covers the span {span!r} in {text!r}; change the wording")
    spans[-1] = Span.TARGET_SLOT
    return EncodedPrompt(
        ids=tuple(encoded["input_ids"]),
        spans=tuple(spans),
        pieces=tuple(text[a:b] for a, b in offsets),
        text=text,
        has_system_turn=has_system_turn,
    )


def answer_token(encoded: EncodedPrompt, answer: str, tokenizer: Any) -> int:
    """The one token that continues the prompt with `answer`.

    Raises:
        PromptError: The tokenizer does not know the answer, splits it, or joins it with the end of the prompt, so
            that the next token's probability is not the answer's.
    """
    ids = tuple(tokenizer(encoded.text + answer, add_special_tokens=tokenizer.chat_template is None)["input_ids"])
    prompt = encoded.ids
    if len(ids) == len(prompt) + 1 and ids[:-1] == prompt:
        refuse_unknown(ids[-1:], [answer], tokenizer)
        return int(ids[-1])
    tail = tokenizer.convert_ids_to_tokens(list(ids[max(0, len(prompt) - 1) :]))
    raise PromptError(
        f"after this prompt {answer!r} is not one token of its own (the end becomes {tail}), so the next token cannot "
        f"be read as the answer; {'drop the space at the end of' if encoded.text.endswith(' ') else 'choose another'} "
        "prefill with --prompts"
    )


def refuse_unknown(ids: Sequence[int], pieces: Sequence[str], tokenizer: Any) -> None:
    """Refuse words that a vocabulary lacks: all of them would be one and the same token.

    Args:
        ids: Token ids of a text.
        pieces: The text that each of them covers.
        tokenizer: Theirs.

    Raises:
        PromptError: A token stands for an unknown word; the words are named.
    """
    unknown = tokenizer.unk_token_id
    words = {
        piece.strip(): None
        for token, piece in zip(ids, pieces, strict=True)
        if token == unknown and piece not in ("", tokenizer.unk_token)
    }
    if words:
        shown = ", ".join(repr(word) for word in list(words)[:5])
        raise PromptError(
            f"the model's vocabulary lacks {shown}{' and more' if len(words) > 5 else ''}; give sentences (--stimuli) "
            "and a wording (--prompts) in its vocabulary, like those that come in a planted model's folder"
        )


def refuse_prefix_options(options: Sequence[str]) -> None:
    """Refuse options where one begins another, as "he" begins "her": the next token cannot tell them apart.

    Raises:
        PromptError: One option is a prefix of another, or they are equal.
    """
    for i, a in enumerate(options):
        for j, b in enumerate(options):
            if i != j and b.startswith(a):
                raise PromptError(
                    f"option {a!r} is a prefix of {b!r}: the next token cannot tell them apart; give options of which "
                    "neither begins the other"
                )


def _render(prompt: Prompt, tokenizer: Any, quirks: Quirks) -> tuple[list[Segment], bool]:
    """The whole prompt as segments, and whether it has a system turn of its own."""
    messages = tuple(m for m in prompt.messages if m.segments)
    prefill = list(prompt.prefill) if quirks.prefill else []
    if tokenizer.chat_template is None:
        return _plain(messages, prefill), False
    attempts = [messages]
    if messages[0].role == "system":
        attempts = [*attempts, _system_into_user(messages)] if quirks.system_turn else [_system_into_user(messages)]
    failure = "the chat template leaves out a message or changes its text"
    for attempt in attempts:
        try:
            segments = _with_template(attempt, tokenizer, quirks)
        except Exception as error:  # a template runs code of its own, which may fail in any way
            failure = f"the chat template refuses the messages ({one_line(error)})"
            continue
        if segments is not None:
            return segments + prefill, attempt[0].role == "system"
    raise PromptError(f"{failure}; give a wording that it takes with --prompts (an empty system text, for instance)")


def _plain(messages: Sequence[Message], prefill: Sequence[Segment]) -> list[Segment]:
    segments: list[Segment] = []
    for i, message in enumerate(messages):
        separator = "\n\n" if i < len(messages) - 1 else "\n"
        span = Span.INSTRUCTION if i < len(messages) - 1 else Span.FORMAT
        segments += [*message.segments, Segment(separator, span)]
    return segments + list(prefill)


def _system_into_user(messages: Sequence[Message]) -> tuple[Message, ...]:
    system, user, *rest = messages
    joined = (*system.segments, Segment("\n\n", Span.INSTRUCTION), *user.segments)
    return (Message("user", joined), *rest)


def _with_template(messages: Sequence[Message], tokenizer: Any, quirks: Quirks) -> list[Segment] | None:
    """Rendered messages as segments; None where the template drops a message or alters its text."""
    # Private-use characters stand in for the contents, so that the template's own text can be told from them.
    marks = [chr(0xE000 + i) for i in range(len(messages))]
    frame = _apply(tokenizer, [(m.role, mark) for m, mark in zip(messages, marks, strict=True)], quirks)
    if [character for character in frame if character in marks] != marks:
        return None
    real = _apply(tokenizer, [(m.role, m.text) for m in messages], quirks)
    segments: list[Segment] = []
    rest, last = frame, len(messages) - 1
    for i, (mark, message) in enumerate(zip(marks, messages, strict=True)):
        before, rest = rest.split(mark)
        if before:
            segments.append(Segment(before, Span.INSTRUCTION))
        segments += message.segments
        if i == last and rest:
            segments.append(Segment(rest, Span.FORMAT))
    if "".join(s.text for s in segments) != real:
        return None
    if quirks.assistant_opening and not real.endswith(quirks.assistant_opening):
        segments.append(Segment(quirks.assistant_opening, Span.FORMAT))
    return segments


def _apply(tokenizer: Any, turns: Sequence[tuple[str, str]], quirks: Quirks) -> str:
    conversation = [{"role": role, "content": content} for role, content in turns]
    return str(
        tokenizer.apply_chat_template(
            conversation, tokenize=False, add_generation_prompt=True, **quirks.template_options(tokenizer)
        )
    )


def _spans(offsets: Sequence[tuple[int, int]], segments: Sequence[Segment]) -> list[Span]:
    bounds: list[tuple[int, int, Span]] = []
    at = 0
    for segment in segments:
        bounds.append((at, at + len(segment.text), segment.span))
        at += len(segment.text)
    spans: list[Span] = []
    for start, end in offsets:
        touched = [span for a, b, span in bounds if start < b and end > a]
        specific = [span for span in touched if span not in _FILLING]
        # A token without text (BOS) goes with what comes before it, the first one with the instruction.
        nothing = spans[-1] if spans else Span.INSTRUCTION
        spans.append((specific or touched or [nothing])[-1])
    return spans
