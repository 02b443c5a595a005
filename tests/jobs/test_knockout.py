"""Attention knockout on planted models, where it is known which block reads which token."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from referent_probe.errors import OptionError
from referent_probe.jobs.job import Context
from referent_probe.jobs.knockout import KnockoutJob
from referent_probe.mechanism.sweeps import CONTROLS, CUTS
from referent_probe.models.interventions import Cut
from referent_probe.randomness import generator
from tests.jobs.planted import Do, Done, context_of, rows
from tests.twins import twin_logits

LAST = 4
"""The block of the carriers."""


def whole(done: Done, what: str) -> "pd.Series[float]":
    """What remains of the total effect, by what is cut in all blocks."""
    return done.effects(what=what, layer=0, last_layer=LAST).set_index("label")["remaining_mean"] / done.total


@pytest.fixture(scope="module")
def conflater(do: Do) -> Done:
    return do("conflater", KnockoutJob(window=1))


@pytest.fixture(scope="module")
def repeater(do: Do) -> Done:
    return do("repeater", KnockoutJob(window=2), pairs=3)


@pytest.mark.parametrize("what", ["before", "after"])
def test_cut_in_all_blocks_the_prime_leaves_nothing_and_controls_leave_all(
    what: str, conflater: Done, repeater: Done
) -> None:
    for done, read in ((conflater, "prime after the pronoun"), (repeater, "priming pronoun")):
        remaining = whole(done, what)
        assert list(remaining.index) == [*CUTS, *CONTROLS]
        idle = [label for label in CUTS if label not in ("whole prime", read)]
        assert remaining[["whole prime", read]].to_numpy() == pytest.approx(0, abs=1e-3)
        assert remaining[idle].to_numpy() == pytest.approx(1, abs=1e-2)
        controls = remaining[list(CONTROLS)]
        # Heads rest on the first token: cut before softmax, its attention goes elsewhere, to the prime too.
        known = controls.drop("first token") if what == "before" else controls
        assert known.to_numpy() == pytest.approx(1, abs=1e-3)


def test_redistribution_is_what_tells_the_two_kinds_apart(conflater: Done) -> None:
    assert 0.5 < whole(conflater, "before")["first token"] < 0.999
    assert whole(conflater, "after")["first token"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("what", ["before", "after"])
def test_the_window_in_which_the_effect_falls_is_the_carriers(what: str, conflater: Done, repeater: Done) -> None:
    windows = conflater.effects(what=what, label="whole prime").set_index(["layer", "last_layer"])
    assert list(windows.index) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (0, 4)]
    fallen = {(4, 4), (0, 4)}
    assert windows["removed_counts"].to_dict() == {window: window in fallen for window in windows.index}
    share = windows["removed_mean"] / conflater.total
    assert share.to_dict() == pytest.approx({window: float(window in fallen) for window in windows.index}, abs=1e-3)
    assert (windows["remaining_mean"] + windows["removed_mean"]).to_numpy() == pytest.approx(conflater.total)
    wide = repeater.effects(what=what, label="priming pronoun").set_index(["layer", "last_layer"])
    assert {w: round(r / repeater.total) for w, r in wide["remaining_mean"].items()} == {
        (0, 1): 1,
        (1, 2): 1,
        (2, 3): 1,
        (3, 4): 0,
        (0, 4): 0,
    }
    assert wide["removed_p_max_t"].isna().all()  # three occupations


def test_a_cut_moves_no_midpoint_where_heads_then_read_nothing(conflater: Done) -> None:
    table = conflater.table("effects")
    assert table[table["label"] == "whole prime"]["midpoint_shift_mean"].abs().max() < 0.01


def test_from_all_later_tokens_it_falls_where_a_later_token_reads(do: Do, conflater: Done) -> None:
    """The conflater's gender is gathered within the prime, by its full stop; the repeater's target slot reads it."""
    job = KnockoutJob(window=5, mode="after", queries="later")
    gathered, read = (whole(do(name, job, pairs=2), "after") for name in ("conflater", "repeater"))
    for remaining in (gathered, read):
        assert remaining["whole prime"] == pytest.approx(0, abs=1e-3)
    assert gathered["priming pronoun"] == pytest.approx(1, abs=1e-2)
    assert read["priming pronoun"] == pytest.approx(0, abs=1e-3)
    assert "from all later tokens to the whole prime" in do("repeater", job, pairs=2).summary["in_words"]
    assert "from the target slot to the whole prime" in conflater.summary["in_words"]


def test_only_named_heads_are_cut(do: Do) -> None:
    carrier, others = (
        do("conflater", KnockoutJob(mode="before", heads=heads), pairs=2) for heads in ("4.0", "3.1,4.1,4.2")
    )
    for done in (carrier, others):
        table = done.table("effects")
        assert (table["layer"].unique(), table["last_layer"].unique()) == ([0], [LAST])
    assert whole(carrier, "before")["whole prime"] == pytest.approx(0, abs=1e-3)
    assert whole(others, "before")["whole prime"] == pytest.approx(1, abs=1e-3)


def test_what_is_said_and_drawn(conflater: Done) -> None:
    assert conflater.summary["leading"][0] == [
        "cut in all layers", "softmax", "remaining", "removed", "midpoint", "p of removed",
    ]  # fmt: skip
    assert len(conflater.summary["leading"]) == 1 + 2 * 6
    assert "reached the target slot by way of other tokens" in conflater.summary["in_words"]
    drawn = {f"knockout_{mode}_softmax.{end}" for mode in ("before", "after") for end in ("png", "pdf")}
    assert {file.name for file in (conflater.folder / "figures").iterdir()} == drawn
    assert all({"remaining", "removed", "midpoint_shift"} <= set(row) for row in conflater.summary["effects"])
    assert json.loads((conflater.folder / "config.json").read_text())["window"] == 1


@pytest.fixture(scope="module")
def context(tiny_llama: Path, loaded: Callable[[Path], Any]) -> Context:
    return context_of(tiny_llama, loaded(tiny_llama))


@pytest.mark.parametrize("queries", ["target-slot", "later"])
def test_cuts_equal_full_passes(queries: str, context: Context, tiny_llama: Path, plain: Callable[[Path], Any]) -> None:
    """The edges of random cells, by hand: of every query behind the prime, the keys before it."""
    contrast = context.contrasts[0]
    (stage,) = KnockoutJob(window=2, queries=queries).stages(context, dict)
    table = stage.run(contrast)[0]["interventions"]
    spans, pronoun = [str(s) for s in contrast.feminine.spans], contrast.first_difference
    prime = [i for i, span in enumerate(spans) if span.startswith("prim")]
    keys = {
        "priming pronoun": [pronoun],
        "whole prime": prime,
        "prime after the pronoun": [i for i in prime if i > pronoun],
        "token before the pronoun": [pronoun - 1],
        "other referent": [i for i, span in enumerate(spans) if span == "other_referent"],
        "first token": [0],
    }
    ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids])
    end = contrast.length - 1
    later = [end] if queries == "target-slot" else list(range(prime[-1] + 1, end + 1))
    for i in generator(0, "cuts", queries).choice(len(table), size=6, replace=False):
        row = table.iloc[int(i)]
        cuts = [
            Cut(layer, (query,), tuple(k for k in keys[row["label"]] if k < query), None, row["what"] == "before")
            for layer in range(row["layer"], row["last_layer"] + 1)
            for query in later
            if min(keys[row["label"]]) < query
        ]
        logits = twin_logits(plain(tiny_llama), ids, None, [cuts])[:, 0, list(contrast.tokens)].double()
        assert row[["log_odds_cf", "log_odds_cm"]].tolist() == pytest.approx(
            (logits[:, 0] - logits[:, 1]).tolist(), abs=1e-5
        )
    assert rows(table, what="before")["log_odds_cf"].nunique() > 6


def test_windows_that_do_not_fit_are_refused(context: Context) -> None:
    with pytest.raises(OptionError, match=r"--window 4 is more than the model's 3 layers; give fewer"):
        KnockoutJob(window=4).check(context)
    with pytest.raises(OptionError, match=r"--window -1 is below 0; give a number of layers, or 0 for a fifth of them"):
        KnockoutJob(window=-1)
    KnockoutJob(window=3).check(context)
