"""Everything that is measured of one pair, as rows of the stored tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import torch

from referent_probe.measurement.answer import answers_behind
from referent_probe.measurement.comprehension import asked_of, comprehension_rows
from referent_probe.measurement.draws import draw_answers
from referent_probe.measurement.identity import hash_of
from referent_probe.measurement.joint import joint_prompts, joint_rows
from referent_probe.measurement.readings import own_tokens
from referent_probe.measurement.sentences import sentence_rows
from referent_probe.measurement.warp import ResolvedSettings
from referent_probe.models.contexts import Contexts, log_probabilities
from referent_probe.models.load import LoadedModel
from referent_probe.models.reading import Root, read, root_of
from referent_probe.models.tokens import EncodedPrompt, encode
from referent_probe.randomness import generator
from referent_probe.records import MEASUREMENT, SCHEMAS
from referent_probe.stimuli.options import FORMS, OptionOrder
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import PromptWording, choice_prompt
from referent_probe.stimuli.templates import Pair, Template


@dataclass(frozen=True)
class Roots:
    """What all prompts of a kind begin with, read once for a run; None where there is none."""

    choice: Root | None = None
    joint: Root | None = None
    comprehension: Root | None = None


@dataclass(frozen=True)
class Request:
    """What to measure.

    Attributes:
        wording: The fixed words of the choice prompt.
        settings: Context settings.
        sampling: The model's resolved settings; its temperature is the primary one.
        temperatures: At which the answers' probabilities are given.
        threshold: Partial answers of less probability, at each temperature, are not followed.
        draws: Answers to draw for each choice prompt; 0 for none.
        joint: Whether to ask for both blanks of a pair in one prompt.
        sentences: Whether to score whole sentences.
        comprehension: Ids of the pairs on which to ask the three questions.
        seed: Of the draws.
        roots: From `roots_of`; without them each template's prompts are read from their first token.
    """

    wording: PromptWording
    settings: tuple[ContextSetting, ...]
    sampling: ResolvedSettings
    temperatures: tuple[float, ...]
    threshold: float = 1e-6
    draws: int = 0
    joint: bool = True
    sentences: bool = True
    comprehension: frozenset[str] = frozenset()
    seed: int = 0
    roots: Roots = Roots()


def roots_of(model: LoadedModel, pairs: Sequence[Pair], request: Request) -> Roots:
    """What the prompts of a run begin with: found from its first and its last pair, so that it is always the same.

    Args:
        model: Loaded model.
        pairs: All pairs of the run.
        request: What will be measured of them.
    """
    two = [pairs[0], pairs[-1]]
    choice = [
        prompt.ids
        for pair in two
        for template in pair.members
        for prompt in _prompts(model, pair, template, tuple(ContextSetting), request.wording)
    ]
    asked = [pair for pair in pairs if pair.id in request.comprehension]
    joint = [prompt.ids for pair in two for prompt in joint_prompts(model, pair)] if request.joint else []
    questions = [
        prompt.ids
        for pair in asked[:1] + asked[-1:]
        for t in pair.members
        for prompt in asked_of(model, pair, t, _primed(request))[1]
    ]
    return Roots(*(root_of(model, ids) if ids else None for ids in (choice, joint, questions)))


def _primed(request: Request) -> list[ContextSetting]:
    return [setting for setting in request.settings if setting.gender is not None]


@dataclass(frozen=True)
class MeasuredPair:
    """Tables of `records.MEASUREMENT`, and what was measured on the way: the largest difference of the self-check."""

    tables: dict[str, pd.DataFrame]
    measured: dict[str, float]


def measure_pair(model: LoadedModel, pair: Pair, request: Request) -> MeasuredPair:
    """Measure both templates of a pair in all settings and option orders.

    One random choice prompt is run once more by a plain full pass; the largest difference of its next-token
    log-probabilities of the options is `measured["abs_diff"]`, in logits.

    Args:
        model: Loaded model.
        pair: Its two templates prime each other.
        request: What to measure.

    Raises:
        ModelError: Scores are not finite.
        PromptError: A prompt cannot be encoded.
    """
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in MEASUREMENT}
    differences = []
    for number, template in enumerate(pair.members, start=1):
        cells = list(product(request.settings, OptionOrder))
        prompts = _prompts(model, pair, template, request.settings, request.wording)
        contexts = read(model, [prompt.ids for prompt in prompts], request.roots.choice)
        differences.append(_self_check(model, prompts, contexts, generator(request.seed, "self-check", template.id)))
        _add_choices(rows, model, pair, template, number, cells, prompts, contexts, request)
        if request.sentences:
            rows["sentences"] += sentence_rows(model, pair, template, request.settings)
    if request.joint:
        rows["joint"] += joint_rows(
            model, pair, request.sampling, request.temperatures, request.threshold, request.roots.joint
        )
    if pair.id in request.comprehension:
        rows["comprehension"] += comprehension_rows(model, pair, _primed(request), request.roots.comprehension)
    tables = {name: pd.DataFrame(rows[name], columns=[c.name for c in SCHEMAS[name]]) for name in MEASUREMENT}
    return MeasuredPair(tables, {"abs_diff": max(differences)})


def _prompts(
    model: LoadedModel, pair: Pair, template: Template, settings: Sequence[ContextSetting], wording: PromptWording
) -> list[EncodedPrompt]:
    """The choice prompts of a template, by setting and option order."""
    return [
        encode(choice_prompt(template, pair.partner(template), setting, order, wording), model.tokenizer, model.quirks)
        for setting, order in product(settings, OptionOrder)
    ]


def _add_choices(
    rows: dict[str, list[dict[str, object]]],
    model: LoadedModel,
    pair: Pair,
    template: Template,
    number: int,
    cells: Sequence[tuple[ContextSetting, OptionOrder]],
    prompts: Sequence[EncodedPrompt],
    contexts: Contexts,
    request: Request,
) -> None:
    forms = [FORMS[template.case]] * len(prompts)
    answers = answers_behind(
        model, contexts, forms, request.sampling, request.temperatures, threshold=request.threshold
    )
    log_odds, lengths = _log_odds(model, prompts, contexts, template)
    names = {"pair": pair.id, "template": template.id}
    for i, ((setting, order), prompt) in enumerate(zip(cells, prompts, strict=True)):
        cell = names | {"setting": str(setting), "option_order": str(order)}
        rows["choices"].append(
            cell
            | {
                "member": number,
                "occupation": template.occupation,
                "participant": template.participant,
                "case": str(template.case),
                "antecedent": str(template.antecedent),
                "antecedent_noun": template.antecedent_noun,
                "other_noun": template.other_noun,
                "tokens": len(prompt.ids),
                "ids": hash_of(prompt.ids),
                "log_odds": log_odds[i],
                "option_tokens": lengths[i],
                "nodes": answers[0][i].n_nodes,
            }
        )
        for temperature, of_prompts in zip(request.temperatures, answers, strict=True):
            a = of_prompts[i]
            rows["answers"].append(
                cell
                | {
                    "temperature": temperature,
                    "p_feminine": a.p_feminine,
                    "p_masculine": a.p_masculine,
                    "p_they": a.p_they,
                    "p_other": a.p_other,
                    "unexplored": a.unexplored,
                }
            )
    if request.draws:
        keys = [("draw", template.id, str(setting), str(order)) for setting, order in cells]
        generators = [generator(request.seed, *key) for key in keys]
        counts = draw_answers(model, contexts, prompts, forms, request.sampling, request.draws, generators)
        for (setting, order), counted in zip(cells, counts, strict=True):
            about: dict[str, object] = {"setting": str(setting), "option_order": str(order)}
            about |= {"temperature": request.sampling.temperature, "n": request.draws}
            rows["draws"].append(names | about | counted)


def _log_odds(
    model: LoadedModel, prompts: Sequence[EncodedPrompt], contexts: Contexts, template: Template
) -> tuple[list[float], list[int]]:
    """Unwarped log-odds of each prompt, by the options' own tokens, and the tokens of the longer option."""
    forms = FORMS[template.case]
    spelled = [
        [own_tokens(prompt, form, model.tokenizer) for form in (forms.feminine, forms.masculine)] for prompt in prompts
    ]
    wanted = [(row, ids) for row, both in enumerate(spelled) for ids in both if all(both) and ids]
    scores = (
        log_probabilities(model, contexts, [row for row, _ in wanted], [ids for _, ids in wanted]) if wanted else []
    )
    total = iter(float(score.sum()) for score in scores)
    odds = [next(total) - next(total) if all(both) else float("nan") for both in spelled]
    return odds, [max((len(ids) for ids in both if ids), default=0) if all(both) else 0 for both in spelled]


def _self_check(
    model: LoadedModel, prompts: Sequence[EncodedPrompt], contexts: Contexts, rng: np.random.Generator
) -> float:
    row = int(rng.integers(len(prompts)))
    with torch.no_grad():
        full = model.network(torch.tensor([prompts[row].ids], device=model.device)).logits[0, -1]
    likely = full.topk(20).indices
    fast, slow = (logits.double().log_softmax(-1)[likely] for logits in (contexts.logits[row], full))
    return float((fast - slow).abs().max())
