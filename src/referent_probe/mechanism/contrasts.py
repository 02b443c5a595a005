"""Contrasts: the same prompt with a feminine and with a masculine priming pronoun."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from referent_probe.errors import PromptError
from referent_probe.models.quirks import PLAIN, Quirks
from referent_probe.models.tokens import EncodedPrompt, answer_token, encode, refuse_prefix_options
from referent_probe.stimuli.options import FORMS, Case, OptionOrder
from referent_probe.stimuli.primes import ContextSetting, Span
from referent_probe.stimuli.prompts import DEFAULT_WORDING, PromptWording, choice_prompt
from referent_probe.stimuli.templates import Pair, Template


@dataclass(frozen=True)
class Contrast:
    """One template in one option order, with both primes.

    Attributes:
        id: "PAIR-MEMBER-ORDER", unique in a set of stimuli, e.g. "004a-mf".
        pair: Id of the pair.
        template: The target sentence; the prime is its partner.
        order: Which option is listed first.
        feminine: The `cf` prompt.
        masculine: The `cm` prompt.
        tokens: Ids of the feminine and the masculine option.
        they: Id of the form of "they", None where it is not one token.
        left_out: Why the contrast cannot be patched; None where it can.
    """

    id: str
    pair: str
    template: Template
    order: OptionOrder
    feminine: EncodedPrompt
    masculine: EncodedPrompt
    tokens: tuple[int, int]
    they: int | None
    left_out: str | None

    @property
    def first_difference(self) -> int:
        """Position of the priming pronoun, the first and only one at which the prompts differ."""
        return self.feminine.positions(Span.PRIMING_PRONOUN)[0]

    @property
    def length(self) -> int:
        """Number of tokens of each prompt."""
        return len(self.feminine.ids)


def build_contrasts(
    pairs: Sequence[Pair], tokenizer: Any, wording: PromptWording = DEFAULT_WORDING, quirks: Quirks = PLAIN
) -> tuple[Contrast, ...]:
    """All contrasts of some pairs: two templates times two option orders each.

    A contrast whose prompts differ in more than one token stays in the list with its reason in `left_out`.

    Args:
        pairs: From `draw_pairs`.
        tokenizer: The model's.
        wording: The fixed words of the prompt.
        quirks: What the model's chat template needs, `LoadedModel.quirks`.

    Raises:
        PromptError: An option cannot be read from the next token with this tokenizer and wording, or no contrast is
            left.

    Example:
        8 pairs give 32 contrasts; `build_contrasts(pairs, tokenizer)[0].id` is "001a-mf" if pair 001 was drawn.
    """
    tokens: dict[Case, tuple[int, int, int | None]] = {}
    contrasts = []
    for pair in pairs:
        for template in pair.members:
            for order in OptionOrder:
                primed = [
                    encode(choice_prompt(template, pair.partner(template), setting, order, wording), tokenizer, quirks)
                    for setting in (ContextSetting.CF, ContextSetting.CM)
                ]
                if template.case not in tokens:
                    tokens[template.case] = _option_tokens(primed[0], template.case, tokenizer)
                feminine, masculine, they = tokens[template.case]
                contrasts.append(
                    Contrast(
                        id=f"{template.id}-{order}",
                        pair=pair.id,
                        template=template,
                        order=order,
                        feminine=primed[0],
                        masculine=primed[1],
                        tokens=(feminine, masculine),
                        they=they,
                        left_out=reason_to_leave_out(*primed),
                    )
                )
    reasons = [c.left_out for c in contrasts if c.left_out]
    if len(reasons) == len(contrasts):
        raise PromptError(
            f"none of {len(contrasts)} contrasts can be patched: {reasons[0]}; use a model whose tokenizer keeps "
            "pronouns whole"
        )
    return tuple(contrasts)


def _option_tokens(prompt: EncodedPrompt, case: Case, tokenizer: Any) -> tuple[int, int, int | None]:
    forms = FORMS[case]
    refuse_prefix_options((forms.feminine, forms.masculine))
    feminine, masculine = (answer_token(prompt, option, tokenizer) for option in (forms.feminine, forms.masculine))
    try:
        they = answer_token(prompt, forms.they, tokenizer)
    except PromptError:
        they = None
    return feminine, masculine, they


def reason_to_leave_out(feminine: EncodedPrompt, masculine: EncodedPrompt) -> str | None:
    """Why two prompts are not the same but for one pronoun of one token; None where they are."""
    at = feminine.positions(Span.PRIMING_PRONOUN)
    other = masculine.positions(Span.PRIMING_PRONOUN)
    if len(feminine.ids) != len(masculine.ids) or len(at) != 1 or at != other:
        shown = [
            [_shown(prompt.pieces[i]) for i in prompt.positions(Span.PRIMING_PRONOUN)]
            for prompt in (feminine, masculine)
        ]
        return (
            f"the priming pronouns are not one token each at one place: {shown[0]} and {shown[1]}, in prompts of "
            f"{len(feminine.ids)} and {len(masculine.ids)} tokens"
        )
    differing = [i for i, (a, b) in enumerate(zip(feminine.ids, masculine.ids, strict=True)) if a != b]
    if differing != list(at):
        shown_at = [f"{_shown(feminine.pieces[i])!r}/{_shown(masculine.pieces[i])!r}" for i in differing[:4]]
        return f"the prompts differ in {len(differing)} tokens ({', '.join(shown_at)}), not in the pronoun alone"
    return None


def _shown(piece: str) -> str:
    """A token as reasons quote it. Reasons are stored, and a longer token could hold a piece of the sentence."""
    return piece if len(piece) <= 8 else f"{piece[:4]}…"
