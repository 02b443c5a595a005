"""Cells run on a contrast: values, directions, what is measured, and the comparison with brute force."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.twins import twin_activations, twin_logits

from referent_probe.measurement.choice import next_token_choice
from referent_probe.mechanism import cells as module
from referent_probe.mechanism.cells import (
    CF,
    CM,
    Cell,
    Scene,
    check_cells,
    keys,
    log_odds,
    planned_blocks,
    run_cells,
    set_scene,
    sites_of,
    with_values,
)
from referent_probe.mechanism.contrasts import Contrast, build_contrasts
from referent_probe.models.interventions import Cut, Patch, Row, Site
from referent_probe.models.load import LoadedModel, load_model
from referent_probe.records import SCHEMAS, conform
from referent_probe.stimuli.templates import draw_pairs, load_stimuli

LAYERS, CLOSE = 3, 1e-5


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("cells"), "llama", LAYERS)))


@pytest.fixture(scope="module")
def plain(model: LoadedModel, build_plain: Callable[..., Any]) -> Any:
    return build_plain("llama", LAYERS)


@pytest.fixture(scope="module")
def contrast(model: LoadedModel) -> Contrast:
    return build_contrasts(draw_pairs(load_stimuli(), 1, seed=2), model.tokenizer)[0]


@pytest.fixture(scope="module")
def cells(contrast: Contrast) -> list[Cell]:
    """One of each kind, a set of two, one with values of both runs, and one that is not computed."""
    at, end = contrast.first_difference, contrast.length - 1
    each = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(0))

    def cell(kind: str, what: str, *row: Any, reason: str | None = None) -> Cell:
        layers = [one.layer for one in row] or [0]
        return Cell(kind, what, min(layers), max(layers), -1, "somewhere", "", row, reason)

    return [
        cell("patch", "v", Patch(1, Site.V, (at, end), 1)),
        cell("knockout", "before", Cut(0, (end,), (at,)), Cut(1, (end,), (at,))),
        cell("ablation", "zero", Patch(2, Site.Z, (end,), 3, torch.zeros(1, 1, 8))),
        cell("circuit", "top", Patch(0, Site.Z, (end,), 0), Patch(2, Site.Z, (end,), 1)),
        cell("patch", "resid", reason="nothing there"),
        cell("ablation", "own", Patch(1, Site.Z, (end,), 2, each)),
    ]


@pytest.fixture(scope="module")
def scene(model: LoadedModel, contrast: Contrast, cells: list[Cell]) -> Scene:
    return set_scene(model, contrast, sites_of(cells))


def twin(plain: Any, contrast: Contrast, row: Row) -> list[float]:
    ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids])
    logits = twin_logits(plain, ids, ids.flip(0), [row])[:, 0, list(contrast.tokens)].double()
    found: list[float] = (logits[:, 0] - logits[:, 1]).tolist()
    return found


def test_a_scene_holds_both_runs(scene: Scene, contrast: Contrast, plain: Any) -> None:
    ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids])
    logits = plain(ids).logits[:, -1]
    kept = twin_activations(plain, ids)
    for row in (CF, CM):
        own = next_token_choice(logits[row].double().numpy(), *contrast.tokens, contrast.they)
        assert scene.choices[row].log_odds == pytest.approx(own.log_odds, abs=CLOSE)
        assert scene.choices[row].p_feminine == pytest.approx(own.p_feminine, abs=CLOSE)
    values = scene.run.activation(Site.V, 1, (contrast.length - 1,), 1)
    assert torch.allclose(values, kept[1, Site.V][:, [-1], 1], atol=CLOSE)


def test_only_what_patches_take_is_recorded(cells: list[Cell], scene: Scene) -> None:
    assert sites_of(cells) == [Site.V, Site.Z]
    assert sites_of([cells[1], cells[4]]) == []
    assert set(scene.run.more) == {Site.V}


def test_cells_equal_full_passes(
    model: LoadedModel, scene: Scene, contrast: Contrast, cells: list[Cell], plain: Any
) -> None:
    table, measured = run_cells(model, scene, cells)
    assert list(conform("interventions", table)) == [column.name for column in SCHEMAS["interventions"]]
    for i, cell in enumerate(cells):
        found = table[["log_odds_cf", "log_odds_cm"]].iloc[i].tolist()
        if cell.reason is None:
            assert found == pytest.approx(twin(plain, contrast, cell.row), abs=CLOSE)
        else:
            assert found == [choice.log_odds for choice in scene.choices]
    assert table["reason"].fillna("").tolist() == ["", "", "", "", "nothing there", ""]
    assert {name: set(table[name]) for name in ("contrast", "pair", "occupation")} == {
        name: {value} for name, value in keys(contrast).items()
    }
    assert table["log_odds_cf"].nunique() == len(cells)
    assert measured["halvings"] == 0
    assert measured["seconds_cells"] > 0
    assert measured["token_blocks"] == planned_blocks(cells, contrast.length, LAYERS)


def test_work_is_counted_by_hand(contrast: Contrast) -> None:
    """A row has one token at the target slot, n from the pronoun on, in its block and above; below, a pass has one."""
    end, at = contrast.length - 1, contrast.first_difference
    n = contrast.length - at

    def cells(*rows: Row) -> list[Cell]:
        return [Cell("patch", "z", 0, 0, 0, "", "", tuple(row)) for row in rows]  # type: ignore[arg-type]

    assert planned_blocks(cells([Patch(0, Site.Z, (end,), 0)]), contrast.length, LAYERS) == 3
    assert planned_blocks(cells([Patch(2, Site.Z, (end,), 0)]), contrast.length, LAYERS) == 3
    two = cells([Patch(0, Site.Z, (end,), 0)], [Patch(2, Site.Z, (end,), 0), Cut(1, (end,), (at,))])
    assert planned_blocks(two, contrast.length, LAYERS) == 1 + 2 + 2
    assert planned_blocks(cells([Patch(1, Site.RESIDUAL, (at, end))]), contrast.length, LAYERS) == 1 + 2 * n
    # Rows that begin at different positions do not share a pass, and none pays for another.
    both = cells([Patch(1, Site.RESIDUAL, (at,))], [Patch(2, Site.Z, (end,), 0)])
    assert planned_blocks(both, contrast.length, LAYERS) == (1 + 2 * n) + 3
    assert planned_blocks([], contrast.length, LAYERS) == 0
    assert planned_blocks([Cell("patch", "z", 0, 0, 0, "", "", (), "why")], contrast.length, LAYERS) == 0


@pytest.mark.parametrize(("direction", "kept"), [("denoise", "cm"), ("noise", "cf")])
def test_one_direction_is_its_half(
    direction: str, kept: str, model: LoadedModel, scene: Scene, cells: list[Cell]
) -> None:
    both, _ = run_cells(model, scene, cells)
    one, measured = run_cells(model, scene, cells, direction)
    other = "cf" if kept == "cm" else "cm"
    assert one[f"log_odds_{other}"].isna().all()
    assert one[f"log_odds_{kept}"].to_numpy() == pytest.approx(both[f"log_odds_{kept}"].to_numpy(), abs=CLOSE)
    checks = check_cells(model, scene, cells, one, 100, seed=0)
    assert len(checks) == 5
    assert checks["sweep"].str.endswith(f" {kept}").all()
    assert checks["abs_diff"].max() < CLOSE
    assert measured["token_blocks"] > 0


def test_a_patch_of_a_run_with_itself_changes_nothing(model: LoadedModel, scene: Scene, contrast: Contrast) -> None:
    end = contrast.length - 1
    own = [
        Cell("patch", "z", layer, layer, 0, "", "", (Patch(layer, Site.Z, (end,), 0, scene.run.z[layer][:, -1:, :8]),))
        for layer in range(LAYERS)
    ]
    table, _ = run_cells(model, scene, own)
    for row, name in ((CF, "cf"), (CM, "cm")):
        assert table[f"log_odds_{name}"].to_numpy() == pytest.approx(scene.choices[row].log_odds, abs=CLOSE)


def test_random_cells_are_checked_both_ways(model: LoadedModel, scene: Scene, cells: list[Cell]) -> None:
    table, _ = run_cells(model, scene, cells)
    checks = check_cells(model, scene, cells, table, 2, seed=0)
    assert len(checks) == 4
    assert checks["sweep"].str.rsplit(" ", n=1).str[1].tolist() == ["cf", "cm"] * 2
    assert checks["abs_diff"].max() < CLOSE
    again = check_cells(model, scene, cells, table, 2, seed=0)
    assert again.equals(checks)
    drawn = {tuple(check_cells(model, scene, cells, table, 1, seed=seed)["sweep"]) for seed in range(9)}
    assert len(drawn) > 1
    everything = check_cells(model, scene, cells, table, 100, seed=0)
    assert len(everything) == 2 * 5  # all but the one that is not computed
    assert "resid" not in " ".join(everything["sweep"])
    assert len(check_cells(model, scene, cells[4:5], table.iloc[4:5], 3, seed=0)) == 0


def test_a_wrong_cell_is_seen(model: LoadedModel, scene: Scene, cells: list[Cell]) -> None:
    table, _ = run_cells(model, scene, cells)
    wrong = table.assign(log_odds_cm=table["log_odds_cm"] + 0.25)
    found = check_cells(model, scene, cells, wrong, 100, seed=0)
    off = found.groupby(found["sweep"].str[-2:])["abs_diff"]
    assert off.min().to_dict() == pytest.approx({"cf": 0.0, "cm": 0.25}, abs=CLOSE)
    assert off.max().to_dict() == pytest.approx({"cf": 0.0, "cm": 0.25}, abs=CLOSE)


def test_values_replace_what_patches_would_take() -> None:
    row = (Patch(1, Site.Z, (4,), 0), Cut(0, (4,), (2,)), Patch(2, Site.Z, (4,), 1))
    filled = with_values(row, lambda patch: torch.full((1,), float(patch.layer)))
    assert [float(one.value) for one in filled if isinstance(one, Patch) and one.value is not None] == [1.0, 2.0]
    assert filled[1] == row[1]
    assert all(one.value is None for one in row if isinstance(one, Patch))
    (single,) = with_values(row[0], lambda patch: torch.zeros(1))
    assert isinstance(single, Patch)


def test_log_odds_are_feminine_less_masculine_in_double_precision() -> None:
    found = log_odds(torch.tensor([[[3.0, 1.0], [1.0, 4.5]]], dtype=torch.float16))
    assert found.dtype == np.float64
    assert found.tolist() == [[2.0, -3.5]]


def test_memory_that_runs_out_is_counted(
    model: LoadedModel, scene: Scene, cells: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.patched_logits

    def halved(*given: Any) -> Any:
        return replace(real(*given), halvings=2)

    monkeypatch.setattr(module, "patched_logits", halved)
    _, measured = run_cells(model, scene, cells)
    assert measured["halvings"] == 2 * 2  # from the pronoun on, and at the target slot
