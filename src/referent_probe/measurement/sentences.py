"""Whole sentences with either form filled in, scored from left to right: a reading that needs no chat."""

from collections.abc import Sequence
from typing import Any

from referent_probe.models.contexts import log_probabilities
from referent_probe.models.load import LoadedModel
from referent_probe.models.reading import read, shared_length
from referent_probe.stimuli.options import FORMS
from referent_probe.stimuli.primes import ContextSetting, prime_segments
from referent_probe.stimuli.templates import Pair, Template


def whole_sentences(pair: Pair, template: Template, setting: ContextSetting) -> tuple[str, str]:
    """Prime and sentence with the feminine form filled in, and with the masculine one."""
    before = "".join(segment.text for segment in prime_segments(pair.partner(template), setting))
    forms = FORMS[template.case]
    feminine, masculine = (f"{before} {template.filled(form)}".lstrip() for form in (forms.feminine, forms.masculine))
    return feminine, masculine


def sentence_rows(
    model: LoadedModel, pair: Pair, template: Template, settings: Sequence[ContextSetting]
) -> list[dict[str, Any]]:
    """Rows of the table "sentences" of one template.

    Passage and nothing else is scored, without a chat template: the tokens from the first that differs between the
    two forms to the end of the sentence. What comes after the pronoun tells whom it stands for, and is in the score;
    `left_context_log_odds` has the pronoun's own tokens only, which cannot tell, since the sentences of a pair have
    the same text before it.

    Args:
        model: Loaded model.
        pair: The template's pair.
        template: The target.
        settings: What stands before it.

    Example:
        log P("she could pay." | "The baker told the guest that") less log P("he could pay." | the same).
    """
    begun, tails = [], []
    for setting in settings:
        texts = whole_sentences(pair, template, setting)
        feminine, masculine = (model.tokenizer(text)["input_ids"] for text in texts)
        shared = shared_length(feminine, masculine)
        begun.append(feminine[:shared])
        tails += [feminine[shared:], masculine[shared:]]
    contexts = read(model, begun)
    scores = log_probabilities(model, contexts, [i // 2 for i in range(len(tails))], tails)
    rows = []
    for i, setting in enumerate(settings):
        feminine, masculine = scores[2 * i], scores[2 * i + 1]
        after = shared_length(tails[2 * i][::-1], tails[2 * i + 1][::-1])
        left = [float(score[: len(score) - after].sum()) for score in (feminine, masculine)]
        rows.append(
            {
                "pair": pair.id,
                "template": template.id,
                "setting": str(setting),
                "tokens": max(len(feminine), len(masculine)),
                "log_p_feminine": float(feminine.sum()),
                "log_p_masculine": float(masculine.sum()),
                "log_odds": float(feminine.sum() - masculine.sum()),
                "left_context_log_odds": left[0] - left[1],
            }
        )
    return rows
