"""Answers drawn as the paper draws them, many from one pass over the prompt, and parsed from their text."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from referent_probe.measurement.answer import next_tokens
from referent_probe.measurement.warp import ResolvedSettings
from referent_probe.models.contexts import Contexts
from referent_probe.models.load import LoadedModel
from referent_probe.models.tokens import EncodedPrompt
from referent_probe.stimuli.options import Forms

_FIRST_WORD = re.compile(r"\s*([^\W\d_]*)")
_NODES = 64

NAMES = ("n_feminine", "n_masculine", "n_they", "n_other")


def draw_answers(
    model: LoadedModel,
    contexts: Contexts,
    prompts: Sequence[EncodedPrompt],
    forms: Sequence[Forms],
    settings: ResolvedSettings,
    n: int,
    generators: Sequence[np.random.Generator],
) -> list[dict[str, int]]:
    """Draw whole answers and count what they parse to.

    Draws that agree so far go on together: how many of them take which token is one multinomial draw, which is the
    same distribution as drawing them one by one.

    Args:
        model: Loaded model.
        contexts: The prompts, read.
        prompts: The same prompts, for their text.
        forms: Accepted answers, one for each prompt.
        settings: Temperature, top-k, length limit, ends of sequence.
        n: Answers a prompt, at least 1.
        generators: One for each prompt, so that its draws do not depend on the others.

    Returns:
        For each prompt `n_feminine`, `n_masculine`, `n_they`, `n_other`, which sum to n. The text is parsed strictly:
        its first word, whatever its capitals, is one of the forms, or the answer is "other".

    Source: arXiv 2603.23485, Table S2.

    Example:
        200 draws of an answer with p_feminine = 0.25 have 50 feminine ones on average, give or take 6.
    """
    following = next_tokens(model, contexts, [settings])
    ends = set(settings.eos_ids)
    level: dict[tuple[int, tuple[int, ...]], int] = {(prompt, ()): n for prompt in range(len(prompts))}
    finished: list[Counter[tuple[int, ...]]] = [Counter() for _ in prompts]
    for step in range(1, settings.max_new_tokens + 1):
        grown: dict[tuple[int, tuple[int, ...]], int] = {}
        waiting = sorted(level)
        for begin in range(0, len(waiting), _NODES):
            chunk = waiting[begin : begin + _NODES]
            found = following([prompt for prompt, _ in chunk], [path for _, path in chunk])
            for (prompt, path), (ids, [p]) in zip(chunk, found, strict=True):
                order = np.argsort(ids)
                drawn = generators[prompt].multinomial(level[prompt, path], p[order] / p.sum())
                for token, count in zip(ids[order].tolist(), drawn.tolist(), strict=True):
                    if count and (token in ends or step == settings.max_new_tokens):
                        finished[prompt][path if token in ends else (*path, token)] += count
                    elif count:
                        grown[prompt, (*path, token)] = count
        level = grown
    return [_counted(model, prompt, one, paths) for prompt, one, paths in zip(prompts, forms, finished, strict=True)]


def _counted(
    model: LoadedModel, prompt: EncodedPrompt, forms: Forms, paths: Counter[tuple[int, ...]]
) -> dict[str, int]:
    names = {forms.feminine: "n_feminine", forms.masculine: "n_masculine", forms.they: "n_they"}
    names = {form.casefold(): name for form, name in names.items()}
    counted = dict.fromkeys(NAMES, 0)
    decode = model.tokenizer.backend_tokenizer.decode
    before = decode(list(prompt.ids), skip_special_tokens=False)
    for path, count in paths.items():
        text = decode([*prompt.ids, *path], skip_special_tokens=False)[len(before) :]
        match = _FIRST_WORD.match(text)
        assert match is not None
        counted[names.get(match[1].casefold(), "n_other")] += count
    return counted
