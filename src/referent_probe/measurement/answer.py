"""Exact probability of the whole short answer, as if the model were sampled, without drawing.

The prompts run once. Behind each grows the tree of partial answers: from each undecided one, the warped next-token
distribution says how much probability its tokens close as an option, as "they", as something else, or leave open, and
only the open ones grow on, in batches over all prompts. See `measurement.spelling` for the rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from referent_probe.errors import OptionError
from referent_probe.measurement.spelling import OPEN, OTHER, Reader, Spelled, check_forms, reader_of
from referent_probe.measurement.warp import Likely, ResolvedSettings, SamplingSettings, likely, resolve_settings
from referent_probe.models.contexts import Contexts, logits_behind
from referent_probe.models.load import LoadedModel
from referent_probe.models.reading import read
from referent_probe.models.tokens import EncodedPrompt
from referent_probe.stimuli.options import Forms

_NODES = 64
"""Partial answers whose next-token scores are held at once."""

Path = tuple[int, ...]

NextTokens = Callable[[Sequence[int], Sequence[Path]], Sequence[Likely]]
"""Prompts, and behind each a path of tokens, all of one length -> what may be drawn next, after warping."""


@dataclass(frozen=True)
class Answer:
    """Probabilities of the parsed answer; the first four sum to 1.

    Attributes:
        p_feminine: Of the feminine option, 0 to 1; at most `unexplored` too small.
        p_masculine: Of the masculine option, likewise.
        p_they: Of the form of "they" in the same case, likewise.
        p_other: What is left: answers that are none of these. At most `unexplored` too large.
        unexplored: Probability of partial answers that were not followed, an upper bound on the error of each.
        n_nodes: Partial answers whose next-token distribution was read, the empty one included.
    """

    p_feminine: float
    p_masculine: float
    p_they: float
    p_other: float
    unexplored: float
    n_nodes: int

    @property
    def share_feminine(self) -> float:
        """P(feminine option, given that one of the two options is answered); nan where neither can be."""
        return share(self.p_feminine, self.p_masculine)


def answer_probabilities(
    model: LoadedModel,
    prompts: Sequence[EncodedPrompt],
    forms: Forms | Sequence[Forms],
    settings: SamplingSettings | None = None,
    *,
    threshold: float = 1e-9,
) -> list[Answer]:
    """The exact distribution of each prompt's answer.

    Args:
        model: Loaded model.
        prompts: What they begin with alike is computed once. Order and company change answers by rounding only.
        forms: The accepted answers of the prompts' case, or one for each prompt.
        settings: From `resolve_settings`; plain settings, or None for the paper's, are resolved here. Temperature 1
            with top_k None is the model unwarped.
        threshold: Partial answers of less probability are not followed but counted as `unexplored`; 0 follows all.
            The unwarped model needs a larger one: 1e-7 reads 90 partial answers of the default model's and leaves
            8e-6 unexplored, 1e-9 reads 1,000 (and 20 at the paper's settings).

    Returns:
        One answer a prompt, in their order.

    Raises:
        ModelError: The model's own settings cannot be reproduced, or its scores are not finite.
        PromptError: A form is empty, holds a non-letter, or equals another.
        OptionError: The threshold is not in [0, 1), or there are not as many forms as prompts.

    Source: arXiv 2603.23485 draws answers; this is what its draws converge to.

    Example:
        `answer_probabilities(model, [encode(prompt, model.tokenizer)], FORMS[Case.NOMINATIVE])[0].p_feminine`
    """
    if not prompts:
        return []
    each = [forms] * len(prompts) if isinstance(forms, Forms) else list(forms)
    if len(each) != len(prompts):
        raise OptionError(f"{len(each)} forms for {len(prompts)} prompts; give one for all, or one for each")
    for one in each:
        check_forms(one)
    _check_threshold(threshold)
    resolved = settings if isinstance(settings, ResolvedSettings) else resolve_settings(model, settings)
    contexts = read(model, [prompt.ids for prompt in prompts])
    return answers_behind(model, contexts, each, resolved, [resolved.temperature], threshold=threshold)[0]


def answers_behind(
    model: LoadedModel,
    contexts: Contexts,
    forms: Sequence[Forms],
    settings: ResolvedSettings,
    temperatures: Sequence[float],
    *,
    threshold: float = 1e-9,
) -> list[list[Answer]]:
    """The answers of prompts that have been read already, at several temperatures from the same logits.

    Args:
        model: Loaded model.
        contexts: From `models.contexts.read`, n rows.
        forms: The accepted answers, one for each row.
        settings: All but the temperature.
        temperatures: Each above 0.
        threshold: As in `answer_probabilities`, at the temperature at which a partial answer is most probable.

    Returns:
        For each temperature, one answer a row.

    Raises:
        ModelError, PromptError, OptionError: As `answer_probabilities`.
    """
    _check_threshold(threshold)
    size = contexts.logits.shape[1]
    readers = [reader_of(model.tokenizer, size, len(model.tokenizer), one, settings.eos_ids) for one in forms]
    warped = [replace(settings, temperature=temperature) for temperature in temperatures]
    return whole_answers(next_tokens(model, contexts, warped), readers, settings.max_new_tokens, threshold)


def next_tokens(model: LoadedModel, contexts: Contexts, settings: Sequence[SamplingSettings]) -> NextTokens:
    """What may be drawn next behind prompts that have been read, under each of the settings (of one top_k).

    Raises:
        ModelError: From the function returned: scores are not finite.
    """

    def following(rows: Sequence[int], paths: Sequence[Path]) -> list[Likely]:
        if paths[0]:
            return likely(logits_behind(model, contexts, rows, paths), settings)
        return likely(contexts.logits[list(rows)], settings)

    return following


def whole_answers(
    following: NextTokens, readers: Sequence[Reader], max_new_tokens: int, threshold: float = 1e-9
) -> list[list[Answer]]:
    """Grow the trees of partial answers of several prompts.

    Args:
        following: The warped model behind the prompts.
        readers: Vocabulary and forms, one for each prompt.
        max_new_tokens: Length limit.
        threshold: See `answer_probabilities`.

    Returns:
        For each of the settings that `following` gives probabilities under, one answer a prompt.

    Example:
        A model that always says "he" (0.4), "r" (0.3), "she" (0.2) or "." (0.1), cut off after two tokens. "she" and
        "he" are undecided after one. After "she", "." gives "she": 0.2 x 0.1 = 0.02; any other token a longer word.
        After "he", "." gives "he", 0.4 x 0.1 = 0.04, and "r" gives "her", which is neither:

        >>> from referent_probe.measurement.spelling import Vocabulary
        >>> vocabulary = Vocabulary([b"he", b"r", b"she", b"."])
        >>> model = lambda prompts, paths: [Likely(np.arange(4), np.array([[0.4, 0.3, 0.2, 0.1]])) for _ in paths]
        >>> [[answer]] = whole_answers(model, [Reader(vocabulary, Forms("she", "he", "they"))], max_new_tokens=2)
        >>> [round(p, 9) for p in (answer.p_feminine, answer.p_masculine, answer.p_they, answer.p_other)]
        [0.02, 0.04, 0.0, 0.94]

        The empty answer, "she" and "he" were read:

        >>> answer.n_nodes
        3

        Asked for "her" or "him", "he" is no option, and "r" after it makes one, by the limit: 0.4 x 0.3 = 0.12.

        >>> [[answer]] = whole_answers(model, [Reader(vocabulary, Forms("her", "him", "them"))], max_new_tokens=2)
        >>> round(answer.p_feminine, 9), answer.p_masculine
        (0.12, 0.0)
    """
    level: list[tuple[int, Path, Spelled, NDArray[np.float64] | float]] = [
        (prompt, (), Spelled(), 1.0) for prompt in range(len(readers))
    ]
    mass: NDArray[np.float64] | float = 0.0  # [prompts, settings, outcomes], once the settings are known
    unexplored: NDArray[np.float64] = np.zeros(0)
    n_nodes = np.zeros(len(readers), dtype=int)
    for step in range(1, max_new_tokens + 1):
        grown = []
        for begin in range(0, len(level), _NODES):
            chunk = level[begin : begin + _NODES]
            found = following([prompt for prompt, *_ in chunk], [path for _, path, *_ in chunk])
            if isinstance(mass, float):
                mass = np.zeros((len(readers), len(found[0].probabilities), OPEN))
                unexplored = np.zeros(mass.shape[:2])
            for (prompt, path, state, p), (ids, probabilities) in zip(chunk, found, strict=True):
                n_nodes[prompt] += 1
                outcomes = readers[prompt].outcomes(state)
                codes = (outcomes.at_limit if step == max_new_tokens else outcomes.codes)[ids]
                q = probabilities * np.reshape(p, (-1, 1))
                for code in np.unique(codes):
                    if code != OPEN:
                        mass[prompt, :, code] += q[:, codes == code].sum(1)
                if step == max_new_tokens:
                    continue
                is_open = codes == OPEN
                q, ids = q[:, is_open], ids[is_open]
                followed = (q.max(0, initial=0) >= threshold) & (q.max(0, initial=0) > 0)
                unexplored[prompt] += q[:, ~followed].sum(1)
                for i in np.flatnonzero(followed).tolist():
                    reached = outcomes.states[int(np.searchsorted(outcomes.open_ids, ids[i]))]
                    grown.append((prompt, (*path, int(ids[i])), reached, q[:, i]))
        level = grown
    assert not isinstance(mass, float)
    mass[..., OTHER] += unexplored
    mass = np.minimum(mass, 1.0)  # rounding
    answers: list[list[Answer]] = []
    for setting in range(mass.shape[1]):
        answers.append([])
        for prompt, (feminine, masculine, they, other) in enumerate(mass[:, setting].tolist()):
            left = float(unexplored[prompt, setting])
            answers[-1].append(Answer(feminine, masculine, they, other, left, int(n_nodes[prompt])))
    return answers


def share(feminine: float, masculine: float) -> float:
    """The feminine option's part of both; nan where both are 0.

    >>> share(0.1, 0.3)
    0.25
    """
    return feminine / (feminine + masculine) if feminine + masculine > 0 else float("nan")


def _check_threshold(threshold: float) -> None:
    if not 0 <= threshold < 1:
        raise OptionError(f"threshold {threshold!r} is not a probability in [0, 1); the default is 1e-9")
