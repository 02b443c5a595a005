"""Answers drawn as the paper draws them, many from one pass over the prompt, and parsed from their text."""

import re
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
    same distribution as drawing them one by one. What comes after the first word is not drawn, since it is not read.

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
    parsers = [_Parser(model, prompt, one) for prompt, one in zip(prompts, forms, strict=True)]
    counted = [dict.fromkeys(NAMES, 0) for _ in prompts]
    level: dict[tuple[int, tuple[int, ...]], int] = {(prompt, ()): n for prompt in range(len(prompts))}
    for step in range(1, settings.max_new_tokens + 1):
        grown: dict[tuple[int, tuple[int, ...]], int] = {}
        waiting = sorted(level)
        for begin in range(0, len(waiting), _NODES):
            chunk = waiting[begin : begin + _NODES]
            found = following([prompt for prompt, _ in chunk], [path for _, path in chunk])
            for (prompt, path), (ids, [p]) in zip(chunk, found, strict=True):
                order = np.argsort(ids)
                drawn = generators[prompt].multinomial(level[prompt, path], p[order] / p.sum())
                for i in np.flatnonzero(drawn).tolist():
                    token, count = int(ids[order[i]]), int(drawn[i])
                    longer = path if token in ends else (*path, token)
                    name, is_open = parsers[prompt].parse(longer)
                    if is_open and token not in ends and step < settings.max_new_tokens:
                        grown[prompt, longer] = count
                    else:
                        counted[prompt][name] += count
        level = grown
    return counted


class _Parser:
    """Reads an answer off its text."""

    def __init__(self, model: LoadedModel, prompt: EncodedPrompt, forms: Forms) -> None:
        names = {forms.feminine: "n_feminine", forms.masculine: "n_masculine", forms.they: "n_they"}
        self.names = {form.casefold(): name for form, name in names.items()}
        self.decode = model.tokenizer.backend_tokenizer.decode
        self.ids = list(prompt.ids)
        self.before = self.decode(self.ids, skip_special_tokens=False)

    def parse(self, path: tuple[int, ...]) -> tuple[str, bool]:
        """What the text is read as, and whether more of it could change that."""
        text = self.decode([*self.ids, *path], skip_special_tokens=False)[len(self.before) :]
        match = _FIRST_WORD.match(text)
        assert match is not None
        is_open = match.end() == len(text) or text.endswith("\ufffd")  # part of a character may yet be a letter
        return self.names.get(match[1].casefold(), "n_other"), is_open
