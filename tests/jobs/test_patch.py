"""Activation patching at every place: against full passes of a plain model, and against what planted models are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from referent_probe.errors import PromptError
from referent_probe.jobs.job import Context
from referent_probe.jobs.patch import SITES, PatchJob, flow_job
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.models.interventions import Patch, Site
from referent_probe.randomness import generator
from tests.jobs.planted import Do, context_of, rows
from tests.twins import twin_logits

PLACES = ("target-slot", "prime-after-pronoun", "-3", "all", "each-span")
CLOSE = 1e-5


@pytest.fixture(scope="module")
def context(tiny_llama: Path, loaded: Callable[[Path], Any]) -> Context:
    return context_of(tiny_llama, loaded(tiny_llama))


def positions_of(contrast: Contrast, where: str) -> tuple[int, ...]:
    """By hand: token positions from the pronoun on."""
    spans, length = [str(span).replace("_", "-") for span in contrast.feminine.spans], len(contrast.feminine.ids)
    (pronoun,) = (i for i, span in enumerate(spans) if span == "priming-pronoun")
    named = {"all": range(length), "-3": [length - 3]}.get(where, [i for i, s in enumerate(spans) if s == where])
    return tuple(i for i in named if i >= pronoun)


def twin_log_odds(plain: Any, contrast: Contrast, patch: Patch) -> tuple[float, float]:
    """After the patch, of the run with the feminine and with the masculine prime."""
    ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids])
    feminine, masculine = twin_logits(plain, ids, ids.flip(0), [patch])[:, 0, list(contrast.tokens)].double()
    return float(feminine[0] - feminine[1]), float(masculine[0] - masculine[1])


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("target", SITES)
def test_every_target_at_every_place_equals_full_passes(
    target: str, where: str, context: Context, tiny_llama: Path, plain: Callable[[Path], Any]
) -> None:
    job, contrast = PatchJob(target, where), context.contrasts[0]
    job.check(context)
    (stage,) = job.stages(context, dict)
    tables, measured = stage.run(contrast)
    table, own = tables["interventions"], tables["contrasts"].iloc[0]
    heads = {"k": 2, "v": 2}.get(target, 1 if target in ("resid", "attn_out", "mlp_out") else 4)
    spans = dict.fromkeys(str(span).replace("_", "-") for span in contrast.feminine.spans)
    named = list(spans) if where == "each-span" else [where]
    assert list(dict.fromkeys(table["where"])) == named
    assert len(table) == len(named) * 3 * heads
    assert not table.duplicated(["layer", "head", "where"]).any()
    nothing = table[table["reason"].notna()]
    assert set(nothing["where"]) == {name for name in named if not positions_of(contrast, name)}
    assert (nothing[["log_odds_cf", "log_odds_cm"]].to_numpy() == own[["log_odds_cf", "log_odds_cm"]].to_numpy()).all()
    computed = table[table["reason"].isna()]
    moved = computed[["log_odds_cf", "log_odds_cm"]] - own[["log_odds_cf", "log_odds_cm"]].astype(float)
    assert moved.abs().to_numpy().max() > 5 * CLOSE
    chosen = generator(0, target, where).choice(len(computed), size=3, replace=False)
    for row in computed.iloc[chosen].to_dict("records"):
        head = row["head"] if row["head"] >= 0 else None
        patch = Patch(row["layer"], Site(target), positions_of(contrast, row["where"]), head)
        slow = twin_log_odds(plain(tiny_llama), contrast, patch)
        assert (row["log_odds_cf"], row["log_odds_cm"]) == pytest.approx(slow, abs=CLOSE)
    assert len(tables["self_checks"]) == 2 * min(4, len(computed))  # both runs; eight cells over two contrasts
    assert tables["self_checks"]["abs_diff"].max() < CLOSE
    assert measured["forward_equivalents"] == pytest.approx(stage.cost(contrast))


@pytest.mark.parametrize("name", ["conflater", "avoider", "gated-repeater"])
def test_z_at_the_target_slot_finds_the_carriers(name: str, do: Do) -> None:
    done = do(name, PatchJob())
    effects = done.table("effects").set_index(["layer", "head"])
    assert len(effects) == 20
    for (layer, head), row in effects.iterrows():
        known = done.truth["target_slot_effects"][f"{layer}.{head}"]
        for direction in ("denoise", "noise"):
            assert row[f"{direction}_mean"] == pytest.approx(known, abs=0.02)
            assert row[f"{direction}_counts"] == (known != 0)
    carriers = {f"{h['layer']}.{h['head']}" for h in done.truth["carriers"] if h["where"] == "target-slot"}
    assert {row[0] for row in done.summary["leading"][1 : 1 + len(carriers)]} == carriers
    assert f"{len(carriers)} of 20 cells move the answer in both directions" in done.summary["in_words"]
    assert "over 40 tests" in done.summary["in_words"]
    assert (done.folder / "figures" / "head_map.png").is_file()


def test_keys_and_values_go_by_key_value_head(do: Do) -> None:
    """Heads 4.2 and 4.3 read the gender off the pronoun, through the values that they share."""
    done = {target: do("gated-repeater", PatchJob(target, "priming-pronoun"), pairs=2) for target in ("k", "v")}
    found = {target: one.table("effects") for target, one in done.items()}
    for table in found.values():
        assert len(table) == 5 * 2
        assert dict(zip(table["head"], table["label"], strict=True)) == {
            0: "serves query heads 0 to 1",
            1: "serves query heads 2 to 3",
        }
    reading = found["v"].set_index(["layer", "head"])["denoise_mean"]
    assert reading[4, 1] == pytest.approx(done["v"].total, abs=0.02)
    assert reading.drop((4, 1)).abs().max() < 0.01
    assert found["k"]["denoise_mean"].abs().max() < 0.01
    some = do("gated-repeater", PatchJob("v", "priming-pronoun", heads="4.3, 3.1,3.0"), pairs=1)
    assert list(some.table("effects")[["layer", "head"]].itertuples(index=False, name=None)) == [(4, 1), (3, 0)]


def test_query_heads_serve_themselves(context: Context) -> None:
    (stage,) = PatchJob("q").stages(context, dict)
    assert set(stage.run(context.contrasts[0])[0]["interventions"]["label"]) == {""}


def test_layers_of_heads_name_whole_blocks(context: Context) -> None:
    (stage,) = PatchJob("mlp_out", heads="2.1,0.3,2.0").stages(context, dict)
    table = stage.run(context.contrasts[0])[0]["interventions"]
    assert list(table[["layer", "head"]].itertuples(index=False, name=None)) == [(0, -1), (2, -1)]


def test_the_flow_of_a_planted_model(do: Do) -> None:
    """The gender goes from the pronoun to its sentence's full stop in block 1, and to the target slot in block 4."""
    done = do("conflater", flow_job())
    table = done.table("effects").set_index(["layer", "where"])
    share = table["denoise_mean"] / table["total_mean"]
    where = {0: "priming-pronoun", 1: "priming-pronoun"} | dict.fromkeys((2, 3, 4), "prime-after-pronoun")
    for layer, place in where.items():
        assert share[layer, place] == pytest.approx(1, abs=1e-3)
        assert share[layer].drop(place).abs().max() < 1e-2
    before = table[table["reason"].notna()]
    assert set(before.index.get_level_values("where")) == {"instruction", "prime-owner", "prime-nonowner", "prime-rest"}
    assert before["reason"].str.contains("before the first difference").all()
    assert (before["denoise_mean"] == 0).all()
    assert before["denoise_p_max_t"].isna().all()
    assert not before["denoise_counts"].any()
    assert table["total_mean"].to_numpy() == pytest.approx(done.total)
    assert (done.folder / "figures" / "flow_map.png").is_file()
    assert "5 of 75 cells move the answer in denoising (max-t at 5 % over 55 tests" in done.summary["in_words"]


def test_one_direction_is_its_half_of_both(do: Do) -> None:
    both = do("gated-repeater", PatchJob(), pairs=1)
    effects = both.table("effects")
    for direction, changed, left in (("denoise", "cm", "cf"), ("noise", "cf", "cm")):
        one = do("gated-repeater", PatchJob(direction=direction), pairs=1)
        stored = one.table("interventions")
        assert stored[f"log_odds_{left}"].isna().all()
        pd.testing.assert_series_equal(
            stored[f"log_odds_{changed}"], both.table("interventions")[f"log_odds_{changed}"], rtol=0, atol=1e-5
        )
        columns = [f"{direction}_{part}" for part in ("mean", "low", "high", "counts")]
        pd.testing.assert_frame_equal(one.table("effects")[columns], effects[columns], rtol=0, atol=1e-5)
        assert f"{'noise' if direction == 'denoise' else 'denoise'}_mean" not in one.table("effects")
        assert f"in {direction[:-1]}ing (max-t at 5 % over 20 tests" in one.summary["in_words"]


def test_each_position_is_one_of_the_prompt(context: Context) -> None:
    job, contrast = PatchJob("resid", "each-position"), context.contrasts[0]
    (stage,) = job.stages(context, dict)
    table = stage.run(contrast)[0]["interventions"]
    assert list(dict.fromkeys(table["where"])) == [str(p) for p in range(contrast.first_difference, contrast.length)]
    first = rows(table, layer=0).set_index("where")
    own = rows(table, layer=0, where=str(contrast.length - 1))[["log_odds_cf", "log_odds_cm"]].to_numpy()[0]
    pronoun = first.loc[str(contrast.first_difference)]
    assert [pronoun["log_odds_cm"], pronoun["log_odds_cf"]] == pytest.approx(own.tolist(), abs=1e-5)


@pytest.mark.parametrize("where", ["instruction", "prime_owner", "3"])
def test_a_place_before_the_prime_has_nothing_to_patch(where: str, context: Context) -> None:
    with pytest.raises(PromptError, match=r"--where '.+' lies before the first difference.*; give target-slot, "):
        PatchJob("resid", where).check(context)
