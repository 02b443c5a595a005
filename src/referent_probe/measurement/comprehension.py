"""Exact probabilities of the answers to the three comprehension questions, in every listing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from referent_probe.errors import PromptError
from referent_probe.measurement.identity import hash_of
from referent_probe.measurement.readings import own_tokens
from referent_probe.models.contexts import log_probabilities
from referent_probe.models.load import LoadedModel
from referent_probe.models.reading import Root, read
from referent_probe.models.tokens import EncodedPrompt, encode
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import Prompt
from referent_probe.stimuli.questions import Question, listings, question_prompt, questions
from referent_probe.stimuli.templates import Pair, Template

Asked = tuple[ContextSetting, Question, int, tuple[str, ...]]
"""Setting, question, number of the listing, answers as they are listed."""


def questions_on(
    pair: Pair, template: Template, settings: Sequence[ContextSetting]
) -> tuple[list[Asked], list[Prompt]]:
    """All questions on a template in all listings, with their prompts."""
    asked = [
        (setting, question, i, listed)
        for setting in settings
        for question in questions(template, setting)
        for i, listed in enumerate(listings(question.answers))
    ]
    partner = pair.partner(template)
    return asked, [
        question_prompt(template, partner, setting, question, listed) for setting, question, _, listed in asked
    ]


def asked_of(
    model: LoadedModel, pair: Pair, template: Template, settings: Sequence[ContextSetting]
) -> tuple[list[Asked], list[EncodedPrompt]]:
    """All questions on a template in all listings, with their prompts as token ids."""
    quirks = replace(model.quirks, prefill=True)  # answers are begun for the model even where choices are not
    asked, prompts = questions_on(pair, template, settings)
    return asked, [encode(prompt, model.tokenizer, quirks) for prompt in prompts]


def as_answered(answer: str) -> str:
    """What a model says to give an answer: the answer and the closing quotation mark."""
    return f'{answer}"'


def comprehension_rows(
    model: LoadedModel, pair: Pair, settings: Sequence[ContextSetting], root: Root | None = None
) -> list[dict[str, Any]]:
    """Rows of the table "comprehension" of one pair: template x setting x question x listing.

    The probability of an answer is that of its own tokens and the closing quotation mark, temperature 1, unwarped.

    Args:
        model: Loaded model.
        pair: Its templates prime each other.
        settings: Primed ones, `cf` and `cm`.
        root: What the prompts begin with, if that has been read.

    Raises:
        PromptError: The tokenizer joins an answer with the end of the prompt.

    Source: arXiv 2603.23485, Table S3.

    Example:
        P("the baker") = 0.3 and P("the guest") = 0.1 give the baker, if that is right, p_right 0.75, p_listed 0.4.
    """
    rows = []
    for template in pair.members:
        asked, prompts = asked_of(model, pair, template, settings)
        if not prompts:
            continue
        contexts = read(model, [prompt.ids for prompt in prompts], root)
        tails: list[tuple[int, tuple[int, ...]]] = []
        for row, (prompt, (_, _, _, listed)) in enumerate(zip(prompts, asked, strict=True)):
            for answer in listed:
                ids = own_tokens(prompt, as_answered(answer), model.tokenizer)
                if ids is None:
                    raise PromptError(f"the tokenizer joins the answer {answer!r} with the end of its prompt")
                tails.append((row, ids))
        scores = log_probabilities(model, contexts, [row for row, _ in tails], [ids for _, ids in tails])
        at = 0
        for prompt, (setting, question, i, listed) in zip(prompts, asked, strict=True):
            log_p = np.array([score.sum() for score in scores[at : at + len(listed)]])
            at += len(listed)
            p = np.exp(log_p - logsumexp(log_p))
            rows.append(
                {
                    "pair": pair.id,
                    "template": template.id,
                    "setting": str(setting),
                    "question": question.name,
                    "listing": i,
                    "right": question.right,
                    "answer": listed[int(p.argmax())],
                    "p_right": float(p[listed.index(question.right)]),
                    "p_listed": float(np.exp(logsumexp(log_p))),
                    "ids": hash_of(prompt.ids),
                }
            )
    return rows
