"""Three ways to read an answer, beside each other: the next token, the options' own tokens, the whole answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from referent_probe.measurement.answer import Answer, NextTokens, answers_behind, next_tokens, share
from referent_probe.measurement.spelling import check_forms
from referent_probe.measurement.warp import ResolvedSettings, SamplingSettings, resolve_settings
from referent_probe.models.load import LoadedModel
from referent_probe.models.reading import read
from referent_probe.models.tokens import EncodedPrompt
from referent_probe.stimuli.options import Forms


@dataclass(frozen=True)
class Reading:
    """Probabilities of the forms by one way of reading, 0 to 1.

    Attributes:
        p_feminine: Of the feminine option.
        p_masculine: Of the masculine option.
        p_they: Of the form of "they"; None where this way cannot read it.
    """

    p_feminine: float
    p_masculine: float
    p_they: float | None

    @property
    def share_feminine(self) -> float:
        """P(feminine option, given one of the two options); nan where both are 0."""
        return share(self.p_feminine, self.p_masculine)


@dataclass(frozen=True)
class Readings:
    """One prompt's answer, read in three ways under the same settings.

    Attributes:
        next_token: Of the options' single tokens; None where an option is not one token behind this prompt.
        teacher_forced: Of each form's own tokens, closed by nothing, so that "he" holds "hers" too and other
            spellings (" he", "He") are not in it; None where a form's tokens join with the prompt's end.
        whole_answer: The exact parsed answer.
        largest_difference: Largest difference between two readings' `share_feminine`, 0 to 1; nan where fewer than
            two readings have one.
        margin: Largest difference that counts as agreement.
    """

    next_token: Reading | None
    teacher_forced: Reading | None
    whole_answer: Answer
    largest_difference: float
    margin: float

    @property
    def agree(self) -> bool:
        """Whether the readings that exist, at least two, differ by no more than the margin."""
        return self.largest_difference <= self.margin


def readings(
    model: LoadedModel,
    prompt: EncodedPrompt,
    forms: Forms,
    settings: SamplingSettings | None = None,
    *,
    margin: float = 0.05,
    threshold: float = 1e-9,
) -> Readings:
    """Read one prompt's answer in three ways.

    Args:
        model: Loaded model.
        prompt: The prompt.
        forms: The options and "they" in the prompt's case.
        settings: As for `answer_probabilities`; all three readings are warped alike.
        margin: In probability; 0.05 is what 0.2 logits are worth at even odds.
        threshold: As for `answer_probabilities`.

    Raises:
        ModelError, PromptError, OptionError: As for `answer_probabilities`.

    Example:
        Where `readings(model, prompt, forms).agree` is true on a few prompts, the next token may stand for the answer.
    """
    check_forms(forms)
    resolved = settings if isinstance(settings, ResolvedSettings) else resolve_settings(model, settings)
    contexts = read(model, [prompt.ids])
    following = next_tokens(model, contexts, [resolved])
    spelled = [own_tokens(prompt, form, model.tokenizer) for form in (forms.feminine, forms.masculine, forms.they)]
    next_token = _reading(following, [ids if ids and len(ids) == 1 else None for ids in spelled])
    teacher_forced = _reading(following, spelled)
    [[whole]] = answers_behind(model, contexts, [forms], resolved, [resolved.temperature], threshold=threshold)
    shares = [r.share_feminine for r in (next_token, teacher_forced, whole) if r is not None]
    shares = [s for s in shares if s == s]
    return Readings(
        next_token=next_token,
        teacher_forced=teacher_forced,
        whole_answer=whole,
        largest_difference=max((abs(a - b) for a, b in combinations(shares, 2)), default=float("nan")),
        margin=margin,
    )


def own_tokens(prompt: EncodedPrompt, form: str, tokenizer: Any) -> tuple[int, ...] | None:
    """The tokens by which the tokenizer writes a form behind the prompt; None where it joins them with its end.

    Example:
        With a prefill that ends in a quotation mark of its own, "she" is one token to most tokenizers.
    """
    ids = tuple(tokenizer(prompt.text + form, add_special_tokens=tokenizer.chat_template is None)["input_ids"])
    length = len(prompt.ids)
    return ids[length:] if ids[:length] == prompt.ids and len(ids) > length else None


def _reading(following: NextTokens, spelled: Sequence[tuple[int, ...] | None]) -> Reading | None:
    feminine, masculine, they = spelled
    if feminine is None or masculine is None:
        return None
    return Reading(
        p_feminine=_path_probability(following, feminine),
        p_masculine=_path_probability(following, masculine),
        p_they=None if they is None else _path_probability(following, they),
    )


def _path_probability(following: NextTokens, path: tuple[int, ...]) -> float:
    p = 1.0
    for i, token in enumerate(path):
        [(ids, probabilities)] = following([0], [path[:i]])
        p *= float(probabilities[0, ids == token].sum())
    return p
