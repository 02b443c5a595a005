"""What a model answers after many primes, and primed prompts as contrasts that can be patched."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from referent_probe.mechanism.contrasts import Contrast, reason_to_leave_out
from referent_probe.models.load import LoadedModel
from referent_probe.models.reading import Root, read
from referent_probe.models.tokens import EncodedPrompt
from referent_probe.stimuli.options import OptionOrder
from referent_probe.stimuli.templates import Template


@dataclass(frozen=True)
class Answers:
    """Answers to many prompts.

    Attributes:
        log_odds: Feminine over masculine option of each prompt, logits, T = 1.
        p_options: Probability of the two options together, 0 to 1.
        checked: Number of the prompt that was run once more by a full pass.
        full_pass: What that pass says, logits.
    """

    log_odds: tuple[float, ...]
    p_options: tuple[float, ...]
    checked: int
    full_pass: float


def answers_to(
    model: LoadedModel,
    prompts: Sequence[EncodedPrompt],
    tokens: Sequence[tuple[int, int]],
    root: Root | None,
    rng: np.random.Generator,
) -> Answers:
    """Next-token answers to many prompts, sharing passes over what they begin with.

    Args:
        model: The model.
        prompts: One or more.
        tokens: Feminine and masculine option of each.
        root: What they may all begin with.
        rng: Chooses the prompt that is checked.

    Example:
        A prompt after which both options are equally likely has log-odds 0.
    """
    logits = read(model, [prompt.ids for prompt in prompts], root, keep=False).logits.double()
    chosen = torch.tensor(tokens, device=logits.device)
    both = logits.gather(1, chosen)
    mass = (both - logits.logsumexp(-1, keepdim=True)).exp().sum(-1)
    odds = both[:, 0] - both[:, 1]
    checked = int(rng.integers(len(prompts)))
    with torch.no_grad():
        ids = torch.tensor([prompts[checked].ids], device=model.device)
        full = model.network(ids).logits[0, -1].double()
    feminine, masculine = tokens[checked]
    return Answers(
        log_odds=tuple(odds.tolist()),
        p_options=tuple(mass.tolist()),
        checked=checked,
        full_pass=float(full[feminine] - full[masculine]),
    )


def as_contrast(
    template: Template,
    order: OptionOrder,
    name: str,
    prompts: tuple[EncodedPrompt, EncodedPrompt],
    tokens: tuple[int, int],
    they: int | None,
) -> Contrast:
    """A prime's two prompts as a contrast: the same text after a feminine and after a masculine pronoun.

    Args:
        template: The target sentence.
        order: Which option is listed first.
        name: Of the prime; the contrast's id is TEMPLATE-ORDER-NAME.
        prompts: Feminine and masculine.
        tokens: Of the options.
        they: Of the form of "they".
    """
    feminine, masculine = prompts
    return Contrast(
        id=f"{template.id}-{order}-{name}",
        pair=template.pair,
        template=template,
        order=order,
        feminine=feminine,
        masculine=masculine,
        tokens=tokens,
        they=they,
        left_out=reason_to_leave_out(feminine, masculine),
    )
