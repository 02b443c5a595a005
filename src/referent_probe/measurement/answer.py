"""Exact probability of the whole short answer, as if the model were sampled, without drawing.

The prompt runs once. Behind it grows the tree of partial answers: from each undecided one, the warped next-token
distribution says how much probability its tokens close as an option, as "they", as something else, or leave open, and
only the open ones grow on, in batches behind the prompt's keys and values. See `measurement.spelling` for the rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from referent_probe.errors import OptionError
from referent_probe.measurement.spelling import OPEN, OTHER, Reader, Spelled, check_forms, reader_of
from referent_probe.measurement.warp import ResolvedSettings, SamplingSettings, resolve_settings, warp
from referent_probe.models.load import LoadedModel
from referent_probe.models.prefix import empty_cache, prefix_cache, seen
from referent_probe.models.tokens import EncodedPrompt
from referent_probe.stimuli.options import Forms

# Partial answers in one pass: the keys and values of the prompt are held once for each.
_ROWS = 32

NextProbabilities = Callable[[Sequence[tuple[int, ...]]], NDArray[np.float64]]
"""Paths of equal length, behind the prompt -> next-token probabilities [paths, vocabulary] after warping."""


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
    forms: Forms,
    settings: SamplingSettings | None = None,
    *,
    threshold: float = 1e-9,
) -> list[Answer]:
    """The exact distribution of each prompt's answer.

    Args:
        model: Loaded model.
        prompts: Each is measured by itself, so that neither order nor company changes a bit of its answer.
        forms: The accepted answers of the prompts' case.
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
        OptionError: The threshold is not in [0, 1).

    Source: arXiv 2603.23485 draws answers; this is what its draws converge to.

    Example:
        `answer_probabilities(model, [encode(prompt, model.tokenizer)], FORMS[Case.NOMINATIVE])[0].p_feminine`
    """
    if not 0 <= threshold < 1:
        raise OptionError(f"threshold {threshold!r} is not a probability in [0, 1); the default is 1e-9")
    check_forms(forms)
    resolved = settings if isinstance(settings, ResolvedSettings) else resolve_settings(model, settings)
    following = (continuations(model, prompt.ids, resolved) for prompt in prompts)
    return [answer_behind(model, behind, forms, resolved, threshold) for behind in following]


def answer_behind(
    model: LoadedModel,
    following: NextProbabilities,
    forms: Forms,
    settings: ResolvedSettings,
    threshold: float = 1e-9,
) -> Answer:
    """The answer of one prompt that has been run already (`continuations`); else as `answer_probabilities`."""
    size = following([()]).shape[1]
    reader = reader_of(model.tokenizer, size, len(model.tokenizer), forms, settings.eos_ids)
    return whole_answer(following, reader, settings.max_new_tokens, threshold)


def whole_answer(
    next_probabilities: NextProbabilities, reader: Reader, max_new_tokens: int, threshold: float = 1e-9
) -> Answer:
    """Grow the tree of partial answers of one prompt.

    Args:
        next_probabilities: The warped model behind the prompt.
        reader: Vocabulary and forms.
        max_new_tokens: Length limit.
        threshold: See `answer_probabilities`.

    Example:
        A model that always says "he" (0.4), "r" (0.3), "she" (0.2) or "." (0.1), cut off after two tokens. "she" and
        "he" are undecided after one. After "she", "." gives "she": 0.2 x 0.1 = 0.02; any other token a longer word.
        After "he", "." gives "he", 0.4 x 0.1 = 0.04, and "r" gives "her", which is neither:

        >>> from referent_probe.measurement.spelling import Vocabulary
        >>> vocabulary = Vocabulary([b"he", b"r", b"she", b"."])
        >>> model = lambda paths: np.tile([0.4, 0.3, 0.2, 0.1], (len(paths), 1))
        >>> answer = whole_answer(model, Reader(vocabulary, Forms("she", "he", "they")), max_new_tokens=2)
        >>> [round(p, 9) for p in (answer.p_feminine, answer.p_masculine, answer.p_they, answer.p_other)]
        [0.02, 0.04, 0.0, 0.94]

        The empty answer, "she" and "he" were read:

        >>> answer.n_nodes
        3

        Asked for "her" or "him", "he" is no option, and "r" after it makes one, by the limit: 0.4 x 0.3 = 0.12.

        >>> answer = whole_answer(model, Reader(vocabulary, Forms("her", "him", "them")), max_new_tokens=2)
        >>> round(answer.p_feminine, 9), answer.p_masculine
        (0.12, 0.0)
    """
    mass = np.zeros(OPEN)
    unexplored, n_nodes = 0.0, 0
    level: list[tuple[tuple[int, ...], Spelled, float]] = [((), Spelled(), 1.0)]
    for step in range(1, max_new_tokens + 1):
        grown = []
        for begin in range(0, len(level), _ROWS):
            chunk = level[begin : begin + _ROWS]
            rows = next_probabilities([path for path, _, _ in chunk])
            n_nodes += len(chunk)
            for (path, state, p), row in zip(chunk, rows, strict=True):
                outcomes = reader.outcomes(state)
                codes = outcomes.at_limit if step == max_new_tokens else outcomes.codes
                mass += p * np.bincount(codes, weights=row, minlength=OPEN + 1)[:OPEN]
                if step == max_new_tokens:
                    continue
                q = p * row[outcomes.open_ids]
                followed = (q >= threshold) & (q > 0)
                unexplored += float(q[~followed].sum())
                for i in np.flatnonzero(followed).tolist():
                    grown.append(((*path, int(outcomes.open_ids[i])), outcomes.states[i], float(q[i])))
        level = grown
    mass[OTHER] += unexplored
    feminine, masculine, they, other = np.minimum(mass, 1.0).tolist()  # rounding
    return Answer(feminine, masculine, they, other, unexplored, n_nodes)


def continuations(model: LoadedModel, ids: Sequence[int], settings: SamplingSettings) -> NextProbabilities:
    """Run a prompt once and give the warped next-token probabilities behind it.

    Args:
        model: Loaded model.
        ids: The prompt's tokens.
        settings: Temperature and top-k.

    Raises:
        ModelError: From the function returned: scores are not finite.
    """
    network, device = model.bridge.original_model, model.device
    with torch.no_grad():
        cache = empty_cache(len(model.bridge.blocks))
        prompt = torch.tensor([list(ids)], device=device)
        root = network(prompt, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
    keys, values = seen(cache)
    length = len(ids)

    def next_probabilities(paths: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        if not paths[0]:
            logits = root.expand(len(paths), -1)
        else:
            tokens = torch.tensor(paths, device=device)
            positions = torch.arange(length, length + tokens.shape[1], device=device)[None].expand(len(paths), -1)
            with torch.no_grad():
                logits = network(
                    tokens,
                    position_ids=positions,
                    past_key_values=prefix_cache(keys, values, length),
                    use_cache=True,
                    logits_to_keep=1,
                ).logits[:, -1]
        found: NDArray[np.float64] = warp(logits, settings).double().softmax(-1).cpu().numpy()
        return found

    return next_probabilities


def share(feminine: float, masculine: float) -> float:
    """The feminine option's part of both; nan where both are 0.

    >>> share(0.1, 0.3)
    0.25
    """
    return feminine / (feminine + masculine) if feminine + masculine > 0 else float("nan")
