"""Both blanks of a pair answered in one go: P(x1) P(x2 given x1), the first answer put into the model's mouth."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from referent_probe.measurement.answer import Answer, answers_behind
from referent_probe.measurement.identity import hash_of
from referent_probe.measurement.warp import ResolvedSettings
from referent_probe.models.load import LoadedModel
from referent_probe.models.reading import Root, read
from referent_probe.models.tokens import EncodedPrompt, encode
from referent_probe.stimuli.joint_prompts import joint_prompt
from referent_probe.stimuli.options import FORMS, OptionOrder
from referent_probe.stimuli.prompts import Prompt
from referent_probe.stimuli.templates import Pair

_CELLS = tuple(product((1, 2), OptionOrder, OptionOrder))


def joint_questions(pair: Pair) -> list[Prompt]:
    """24 prompts: by sentence order and both option orders, for the first answer and for the second after either."""
    forms = FORMS[pair.case]
    return [
        joint_prompt(pair, order, (list_1, list_2), first)
        for order, list_1, list_2 in _CELLS
        for first in (None, forms.feminine, forms.masculine)
    ]


def joint_prompts(model: LoadedModel, pair: Pair) -> list[EncodedPrompt]:
    """The prompts of `joint_questions` as token ids."""
    # The answers stand in the model's own turn, so that they are begun for it even where choices are not.
    quirks = replace(model.quirks, prefill=True)
    return [encode(prompt, model.tokenizer, quirks) for prompt in joint_questions(pair)]


def joint_rows(
    model: LoadedModel,
    pair: Pair,
    sampling: ResolvedSettings,
    temperatures: Sequence[float],
    threshold: float,
    root: Root | None = None,
) -> list[dict[str, Any]]:
    """Rows of the table "joint" of one pair: two sentence orders times four ways to list the options.

    Args:
        model: Loaded model.
        pair: The two sentences.
        sampling: Top-k, length limit, ends of sequence.
        temperatures: At which to give probabilities; each applies to both answers.
        threshold: As in `answer_probabilities`.
        root: What the prompts begin with, if that has been read.

    Source: Contextuality-by-Default, rank-2 cyclic system; the reading `joint`.

    Example:
        P(first "she") = 0.5, then P("he") = 0.9: "she" and "he" have 0.45. Where an answer is often no option, the
        four cells are given two options, and `p_valid` says how often that holds.
    """
    forms = FORMS[pair.case]
    prompts = joint_prompts(model, pair)
    contexts = read(model, [prompt.ids for prompt in prompts], root)
    answers = answers_behind(model, contexts, [forms] * len(prompts), sampling, temperatures, threshold=threshold)
    rows = []
    for i, (order, list_1, list_2) in enumerate(_CELLS):
        for temperature, of_prompts in zip(temperatures, answers, strict=True):
            table, p_valid = _table(*of_prompts[3 * i : 3 * i + 3])
            if order == 2:  # the first answer is sentence 2's
                table = table.T
            rows.append(
                {
                    "pair": pair.id,
                    "sentence_order": order,
                    "option_order_1": str(list_1),
                    "option_order_2": str(list_2),
                    "temperature": temperature,
                    "p_ff": table[0, 0],
                    "p_fm": table[0, 1],
                    "p_mf": table[1, 0],
                    "p_mm": table[1, 1],
                    "p_valid": p_valid,
                    "unexplored": sum(answer.unexplored for answer in of_prompts[3 * i : 3 * i + 3]),
                    "ids": hash_of(prompts[3 * i].ids),
                }
            )
    return rows


def _table(first: Answer, after_feminine: Answer, after_masculine: Answer) -> tuple[np.ndarray[Any, Any], float]:
    """P(first answer, second answer), given that both are options, and the probability of that."""
    cells = np.array(
        [
            [p * after.p_feminine, p * after.p_masculine]
            for p, after in ((first.p_feminine, after_feminine), (first.p_masculine, after_masculine))
        ]
    )
    valid = float(cells.sum())
    return cells / valid if valid > 0 else np.full((2, 2), np.nan), valid
