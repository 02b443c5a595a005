"""Prompts of unlike length in one batch, padded at the left: each must come out as it does alone."""

from typing import Any

import pytest
import torch

from referent_probe.models.interventions import Patch, Site
from referent_probe.models.record import Recorded, record
from referent_probe.models.resume import patched_logits

LENGTH, DIFFERS, PAD = 20, 7, 5
LAST = LENGTH - 1
TOKENS = [9, 200]
CLOSE = 1e-5


def padded_and_alone(tiny: Any) -> tuple[Recorded, Recorded, Recorded]:
    """Both prompts, and both without their first five tokens: in one batch of four, and as two batches of two."""
    short = tiny.ids[:, PAD:]
    filling = torch.full((2, PAD), 11)  # an ordinary token: only the mask can tell that it is padding
    ids = torch.cat([tiny.ids, torch.cat([filling, short], dim=1)])
    together = record(tiny.bridge, ids, DIFFERS, padding=[0, 0, PAD, PAD])
    return together, record(tiny.bridge, tiny.ids, DIFFERS), record(tiny.bridge, short, DIFFERS - PAD)


def largest(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


def test_a_padded_prompt_is_recorded_as_it_is_alone(tiny: Any) -> None:
    together, long, short = padded_and_alone(tiny)
    assert largest(together.logits, torch.cat([long.logits, short.logits])) < CLOSE
    assert largest(together.logits[2:], long.logits) > 1e-2
    for layer in range(len(long.residual)):
        for name in ("residual", "z"):
            alone = torch.cat([getattr(long, name)[layer], getattr(short, name)[layer]])
            assert largest(getattr(together, name)[layer], alone) < CLOSE
        assert largest(together.pattern[layer][2:, :, PAD:], short.pattern[layer]) < CLOSE
        assert float(together.pattern[layer][2:, :, :PAD].abs().max()) < 1e-12


@pytest.mark.parametrize("positions", [(LAST,), (9, 10), tuple(range(DIFFERS, LENGTH))])
def test_a_padded_prompt_is_patched_as_it_is_alone(tiny: Any, positions: tuple[int, ...]) -> None:
    together, long, short = padded_and_alone(tiny)
    shifted = tuple(p - PAD for p in positions)

    def patches(at: tuple[int, ...]) -> list[Patch]:
        heads = [Patch(layer, Site.Z, at, head) for layer in range(4) for head in range(4)]
        return heads + [Patch(layer, Site.RESIDUAL, at) for layer in range(4)]

    swapped = together.take([1, 0, 3, 2])
    ours = patched_logits(tiny.bridge, together, swapped, patches(positions), TOKENS).logits
    alone = [
        patched_logits(tiny.bridge, run, run.take([1, 0]), patches(at), TOKENS).logits
        for run, at in ((long, positions), (short, shifted))
    ]
    assert largest(ours, torch.cat(alone)) < CLOSE
    assert largest(ours, together.logits[:, None, TOKENS].expand_as(ours)) > 1e-3


def test_members_may_be_taken_from_a_padded_run(tiny: Any) -> None:
    together, _, short = padded_and_alone(tiny)
    taken = together.take([2, 3])
    assert largest(taken.logits, short.logits) < CLOSE
    patch = [Patch(1, Site.Z, (12, LAST), 2)]
    ours = patched_logits(tiny.bridge, taken, taken.take([1, 0]), patch, TOKENS).logits
    alone = patched_logits(tiny.bridge, short, short.take([1, 0]), [Patch(1, Site.Z, (7, 14), 2)], TOKENS).logits
    assert largest(ours, alone) < CLOSE


def test_padding_that_leaves_nothing_is_refused(tiny_model: Any) -> None:
    tiny = tiny_model("llama")
    with pytest.raises(ValueError, match="leaves nothing of a prompt of 20 tokens"):
        record(tiny.bridge, tiny.ids, DIFFERS, padding=[0, LENGTH])
