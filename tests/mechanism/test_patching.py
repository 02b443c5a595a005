"""The sweeps against TransformerLens' own patching, cell by cell."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from referent_probe.mechanism.contrasts import Contrast, build_contrasts
from referent_probe.mechanism.patching import patch_contrast
from referent_probe.mechanism.plan import Work, expected_cost, plan
from referent_probe.models.load import LoadedModel, load_model
from referent_probe.records import SCHEMAS, conform
from referent_probe.stimuli.templates import draw_pairs, load_stimuli


def transformer_lens_sweep(model: LoadedModel, contrast: Contrast, *, noise: bool) -> np.ndarray:
    """All heads at the target slot by `generic_activation_patch`: log-odds [layers, heads] of the patched run."""
    from transformer_lens.patching import generic_activation_patch

    prompts = [contrast.feminine.ids, contrast.masculine.ids]
    base, source = (torch.tensor([ids]) for ids in (prompts if noise else prompts[::-1]))
    _, cache = model.bridge.run_with_cache(source)
    feminine, masculine = contrast.tokens

    def setter(z: torch.Tensor, index: Any, clean: Any) -> torch.Tensor:
        _, head = index
        z[:, -1, head] = clean[:, -1, head]
        return z

    swept = generic_activation_patch(
        model.bridge,
        base,
        cache,
        lambda logits: logits[0, -1, feminine] - logits[0, -1, masculine],
        setter,
        "z",
        ("layer", "head"),
    )
    return swept.double().numpy()


@pytest.fixture(scope="module")
def load_tiny(save_tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LoadedModel]:
    return lambda family: load_model(str(save_tiny(tmp_path_factory.mktemp(family), family, 3)))


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt-oss", "gpt2"])
def test_the_whole_sweep_equals_transformer_lens(family: str, load_tiny: Callable[[str], LoadedModel]) -> None:
    model = load_tiny(family)
    contrast = build_contrasts(draw_pairs(load_stimuli(), 1, seed=2), model.tokenizer)[0]
    result = patch_contrast(model, Work(contrast, True, ((1, 2),), 3, seed=0))
    table, heads = result.tables["contrasts"].iloc[0], result.tables["heads"]
    for direction in ("denoise", "noise"):
        patched = transformer_lens_sweep(model, contrast, noise=direction == "noise").flatten()
        expected = table["log_odds_cf"] - patched if direction == "noise" else patched - table["log_odds_cm"]
        assert heads[direction].to_numpy() == pytest.approx(expected, abs=1e-5)
    assert heads["denoise"].abs().max() > 1e-3
    assert result.tables["self_checks"]["abs_diff"].max() < 1e-5
    assert list(result.tables["self_checks"]["sweep"]) == ["denoise", "noise", "flow", "flow", "flow"]
    for name, part in result.tables.items():
        assert list(conform(name, part).columns) == [column.name for column in SCHEMAS[name]]


def test_flow_laws(load_tiny: Callable[[str], LoadedModel]) -> None:
    model = load_tiny("llama")
    contrast = build_contrasts(draw_pairs(load_stimuli(), 1, seed=2), model.tokenizer)[0]
    tables = patch_contrast(model, Work(contrast, True, (), 0, seed=0)).tables
    total, flow = tables["contrasts"]["total_effect"].iloc[0], tables["flow"]
    first = flow[flow["layer"] == 0].set_index("span")["effect"]
    # At the input the prompts differ in the pronoun alone: it carries everything, the rest nothing.
    assert first["priming_pronoun"] == pytest.approx(total, abs=1e-5)
    assert first.drop("priming_pronoun").abs().max() < 1e-5
    before = flow[flow["reason"].notna()]
    assert set(before["span"]) == {"instruction", "prime_owner", "prime_nonowner", "prime_rest"}
    assert (before["effect"] == 0).all()
    assert set(flow["span"]) == {str(span) for span in contrast.feminine.spans}


def test_a_contrast_left_out_gives_its_row_and_nothing_else(load_tiny: Callable[[str], LoadedModel]) -> None:
    import dataclasses

    model = load_tiny("llama")
    contrast = build_contrasts(draw_pairs(load_stimuli(), 1, seed=2), model.tokenizer)[0]
    out = dataclasses.replace(contrast, left_out="because")
    tables = patch_contrast(model, Work(out, True, ((0, 0),), 1, seed=0)).tables
    assert tables["contrasts"]["left_out"].tolist() == ["because"]
    assert tables["contrasts"]["total_effect"].isna().all()
    assert [len(tables[name]) for name in ("heads", "flow", "self_checks")] == [0, 0, 0]


def test_the_plan_spreads_checks_over_contrasts(load_tiny: Callable[[str], LoadedModel]) -> None:
    model = load_tiny("llama")
    contrasts = build_contrasts(draw_pairs(load_stimuli(), 4, seed=2), model.tokenizer)
    works = plan(contrasts, model, flow_pairs=2, seed=5)
    assert works == plan(contrasts, model, flow_pairs=2, seed=5)
    assert works != plan(contrasts, model, flow_pairs=2, seed=6)
    assert sum(len(work.head_checks) for work in works) == 8
    assert max(len(work.head_checks) for work in works) == 1
    flow = [work.contrast for work in works if work.flow]
    assert {contrast.order for contrast in flow} == {"mf"}
    assert len({contrast.pair for contrast in flow}) == len({contrast.template.case for contrast in flow}) == 2
    assert sum(work.flow_checks for work in works) == 8
    assert all(work.flow for work in works if work.flow_checks)
    assert all(expected_cost(work, model) > 0 for work in works)
    one = plan(contrasts[:1], model, flow_pairs=0, seed=5)
    assert len(one[0].head_checks) == 8
    assert one[0].flow_checks == 0


@pytest.mark.slow
def test_the_whole_sweep_equals_transformer_lens_on_the_embedded_model() -> None:
    model = load_model()
    contrast = build_contrasts(draw_pairs(load_stimuli(), 1, seed=0), model.tokenizer)[0]
    tables = patch_contrast(model, Work(contrast, False, (), 0, seed=0)).tables
    table, heads = tables["contrasts"].iloc[0], tables["heads"]
    differences = []
    for direction in ("denoise", "noise"):
        patched = transformer_lens_sweep(model, contrast, noise=direction == "noise").flatten()
        expected = table["log_odds_cf"] - patched if direction == "noise" else patched - table["log_odds_cm"]
        differences.append(float(np.abs(heads[direction].to_numpy() - expected).max()))
    print(pd.Series(differences, index=["denoise", "noise"]))
    assert max(differences) <= 1e-4
