"""The engine on real weights: what tiny random models cannot show is how rounding grows in a trained one."""

from typing import Any

import pytest
import torch
from tests.models.test_packaged import USERS_CACHE

from referent_probe.mechanism.brute_force import full_patched_logits
from referent_probe.mechanism.contrasts import build_contrasts
from referent_probe.models import packaged
from referent_probe.models.contexts import log_probabilities
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.load import load_model
from referent_probe.models.reading import read
from referent_probe.models.record import record
from referent_probe.models.registry import KNOWN
from referent_probe.models.resume import patched_logits
from referent_probe.randomness import generator
from referent_probe.stimuli.templates import draw_pairs, load_stimuli

BOUND = 1e-4
"""Logits, float32."""


@pytest.fixture(scope="module", params=["smollm2-135m-instruct", "gemma-3-270m"])
def model(request: pytest.FixtureRequest) -> Any:
    known = KNOWN[request.param].packaged
    if known is not None and packaged.missing_packages(known):
        pytest.skip(f"{request.param} is not installed; run: referent-probe models get {request.param}")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REFERENT_PROBE_CACHE", raising=False)  # unpacking takes minutes: the user's cache serves
        if USERS_CACHE is not None:
            patch.setenv("REFERENT_PROBE_CACHE", USERS_CACHE)
        return load_model(request.param, device="cpu")


def log_odds(logits: torch.Tensor, tokens: tuple[int, int]) -> torch.Tensor:
    return (logits[..., tokens[0]] - logits[..., tokens[1]]).double()


@pytest.mark.slow
def test_patched_passes_equal_full_ones(model: Any) -> None:
    """Random heads and residual streams, at the target slot and over positions, of two contrasts."""
    differences = []
    for contrast in build_contrasts(draw_pairs(load_stimuli(), 2, seed=1), model.tokenizer, quirks=model.quirks)[::3]:
        ids = torch.tensor([contrast.masculine.ids, contrast.feminine.ids])
        run = record(model.bridge, ids, contrast.first_difference)
        rng = generator(0, "cells", contrast.id)
        last, reached = contrast.length - 1, range(contrast.first_difference, contrast.length)
        for positions in ((last,), tuple(reached), (int(rng.choice(reached)),)):
            layers = rng.integers(model.n_layers, size=4).tolist()
            patches = [Patch(i, Site.Z, positions, int(rng.integers(model.n_heads))) for i in layers[:2]]
            patches += [Patch(i, Site.RESIDUAL, positions) for i in layers[2:]]
            fast = patched_logits(model.bridge, run.take([0]), run.take([1]), patches, contrast.tokens).logits[0]
            for values, patch in zip(fast, patches, strict=True):
                slow = log_odds(full_patched_logits(model.bridge, ids[0], ids[1], patch), contrast.tokens)
                differences.append(float((values[0] - values[1]).double() - slow))
    print(f"{len(differences)} cells, largest difference {max(map(abs, differences)):.1e} logits")
    assert max(map(abs, differences)) <= BOUND


@pytest.mark.slow
def test_prompts_read_together_equal_each_alone(model: Any) -> None:
    contrasts = build_contrasts(draw_pairs(load_stimuli(), 2, seed=1), model.tokenizer, quirks=model.quirks)
    prompts = [prompt for contrast in contrasts for prompt in (contrast.feminine, contrast.masculine)]
    tokens = [contrast.tokens for contrast in contrasts for _ in range(2)]
    together = read(model, [prompt.ids for prompt in prompts])
    turned = read(model, [prompt.ids for prompt in prompts[::-1]])
    assert torch.equal(turned.logits.flip(0), together.logits)
    for row, (prompt, options) in enumerate(zip(prompts, tokens, strict=True)):
        alone = model.bridge.original_model(torch.tensor([prompt.ids])).logits[0, -1]
        assert float((log_odds(alone, options) - log_odds(together.logits[row], options)).abs()) <= BOUND
        chained = [float(log_probabilities(model, together, [row], [[option]])[0][0]) for option in options]
        assert chained[0] - chained[1] == pytest.approx(float(log_odds(alone, options)), abs=BOUND)
