"""What a head does in general: copying, induction, looking at the token before."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from referent_probe.mechanism.attention import final_direction, pull_back
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.load import LoadedModel
from referent_probe.models.record import Recorded, record
from referent_probe.models.resume import block_activations
from referent_probe.randomness import generator


@dataclass(frozen=True)
class PatternScores:
    """Attention on random tokens that are repeated once, mean over positions and sequences.

    Attributes:
        induction: From a token of the second half to the one behind its first occurrence [layers, heads], 0 to 1.
        previous_token: From any token but the first to the one before it [layers, heads], 0 to 1.
        sequences: Number of sequences.
        length: Tokens of a half.
    """

    induction: Tensor
    previous_token: Tensor
    sequences: int
    length: int


def pattern_scores(model: LoadedModel, seed: int, sequences: int = 8, length: int = 25) -> PatternScores:
    """Induction and previous-token scores of all heads, on random tokens repeated once.

    Args:
        model: The model.
        seed: Of the tokens.
        sequences: How many.
        length: Tokens of a half.

    Source: Olsson et al. 2022, In-context learning and induction heads (arXiv 2209.11895).

    Example:
        A head that always looks at the token before has a previous-token score of 1, and an induction score of 0.
    """
    special = set(model.tokenizer.all_special_ids)
    ordinary = [i for i in range(len(model.tokenizer)) if i not in special]
    rng = generator(seed, "repeated random tokens")
    half = torch.tensor(rng.choice(ordinary, size=(sequences, length)))
    begin = model.tokenizer.bos_token_id
    first = torch.full((sequences, 1), int(begin if begin is not None else ordinary[0]))
    ids = torch.cat([first, half, half], dim=1).to(model.device)
    run = record(model.bridge, ids, 0, sites=[Site.PATTERN])
    pattern = torch.stack([p.double().mean(0) for p in run.more[Site.PATTERN]])
    later = torch.arange(1 + length, 1 + 2 * length)
    every = torch.arange(1, 1 + 2 * length)
    return PatternScores(
        induction=pattern[:, :, later, later - length + 1].mean(-1).cpu(),
        previous_token=pattern[:, :, every, every - 1].mean(-1).cpu(),
        sequences=sequences,
        length=length,
    )


def copying_scores(
    bridge: Any, run: Recorded, layer: int, head: int, position: int, tokens: tuple[int, int]
) -> tuple[Tensor, Tensor] | None:
    """What a head would write into the logit difference if it attended to the pronoun alone.

    Args:
        bridge: A `TransformerBridge`.
        run: Two prompts that differ in the pronoun alone: feminine, masculine.
        layer: Block, from 0.
        head: Query head, from 0.
        position: Of the pronoun.
        tokens: The options; feminine, masculine.

    Returns:
        By the value of the pronoun's token as it comes out of the first block (as in Wang et al. 2022, arXiv
        2211.00593, section 3.1), and by its value in this prompt: feminine less masculine run, logits, with the final
        norm's scale held. Above 0 the head copies the pronoun's gender, below 0 it writes against it. None where the
        model's norms are not linear in this way.

    Example:
        A head that never moves the logit difference has 0.
    """
    towards = final_direction(bridge, run, layer, tokens)
    if towards is None:
        return None
    pulled = pull_back(bridge.blocks[layer].attn.o, run.z[layer][:, -1], towards).reshape(len(run.ids), run.heads, -1)
    group, slot = run.heads // run.key_value_heads, (run.length - 1,)
    early = run.residual[min(1, layer)][:, [position - run.start]]
    row = Patch(layer, Site.RESIDUAL, slot, value=early)
    alone = block_activations(bridge, run, layer, [row], [Site.V])[Site.V][:, 0, 0]
    size = alone.shape[-1] // run.key_value_heads
    by_token = alone[:, (head // group) * size : (head // group + 1) * size]
    in_prompt = run.values[layer][:, head // group, position]
    scores = [(value.double() * pulled[:, head]).sum(-1) for value in (by_token, in_prompt)]
    return scores[0][0] - scores[0][1], scores[1][0] - scores[1][1]
