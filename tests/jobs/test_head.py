"""The card of a head, on planted heads whose part is known."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from referent_probe.errors import OptionError
from referent_probe.jobs.head import HeadJob
from referent_probe.mechanism import scores
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.models.interventions import Patch, Site
from tests.jobs.planted import Do, Done, rows
from tests.twins import twin_activations, twin_logits


@pytest.fixture(scope="module")
def conflater(do: Do) -> Done:
    return do("conflater", HeadJob("4.0", path_pairs=1), pairs=3)


@pytest.fixture(scope="module")
def repeater(do: Do) -> Done:
    return do("repeater", HeadJob("4.2", path_pairs=0), pairs=2)


@pytest.fixture(scope="module")
def early(do: Do) -> Done:
    return do("repeater", HeadJob("0.2", path_pairs=2), pairs=1)


def paths(done: Done) -> pd.DataFrame:
    """Effects of senders, a row a contrast, sender and input."""
    table = rows(done.table("interventions"), kind="path")
    before = done.table("contrasts").set_index("contrast")
    for direction, run in (("denoise", "cm"), ("noise", "cf")):
        difference = table[f"log_odds_{run}"] - table["contrast"].map(before[f"log_odds_{run}"])
        table = table.assign(**{direction: difference if run == "cm" else -difference})
    return table


def test_the_sender_of_the_conflaters_carrier_sends_through_values_alone(conflater: Done) -> None:
    """The truth: 1.1 writes the gendered word of a sentence at its full stop, for the heads of block 4."""
    (sender,) = (h for h in conflater.truth["carriers"] if h["where"] == "sentence-end")
    table = paths(conflater)
    assert len(table) == 2 * 3 * 16  # two contrasts of one pair, three inputs, all earlier heads
    assert table["contrast"].str.endswith("-mf").all()
    known = (table["what"] == "v") & (table["layer"] == sender["layer"]) & (table["head"] == sender["head"])
    for direction in ("denoise", "noise"):
        assert table[known][direction].to_numpy() == pytest.approx(4.0, abs=0.04)
        assert table[~known][direction].abs().max() < 0.01
    card = conflater.table("card_senders").set_index(["through", "sender"])
    assert card.loc[("v", "1.1"), "effect_mean"] == pytest.approx(4.0, abs=0.04)
    assert card.loc["q"]["effect_mean"].abs().max() < 0.01
    assert "through values 1.1 (+4.0" in conflater.summary["in_words"]
    assert card["n"].tolist() == [1] * len(card)


def test_a_path_equals_a_full_pass_with_everything_else_held(
    conflater: Done, planted: Callable[[str], Path], plain: Callable[[Path], Any]
) -> None:
    """1.1 at the prime's full stop is the cf run's, and only 4.0's values hear of it: by hooks of a plain GPT-2."""
    network = plain(planted("conflater"))
    contrast = conflater.contrasts[rows(conflater.table("interventions"), kind="path")["contrast"].iloc[0]]
    cf, cm = (torch.tensor([p.ids]) for p in (contrast.feminine, contrast.masculine))
    theirs, own = twin_activations(network, cf), twin_activations(network, cm)
    positions = tuple(range(contrast.first_difference, contrast.length))
    at = list(positions)
    # What 1.1 adds to the stream goes straight to the input of block 4.
    change = theirs[1, Site.Z][:, at].clone()
    change[:, :, [0, 2, 3]] = own[1, Site.Z][:, at][:, :, [0, 2, 3]]
    project = network.transformer.h[1].attn.c_proj
    stream = own[4, Site.RESIDUAL][:, at, 0]
    stream = stream + project(change.flatten(2)) - project(own[1, Site.Z][:, at].flatten(2))
    heard = twin_activations(network, cm, [Patch(4, Site.RESIDUAL, positions, value=stream)])
    row = [Patch(4, Site.V, positions, 0, heard[4, Site.V][:, at, 0])]
    received = twin_activations(network, cm, row)[4, Site.Z][:, [-1], 0]
    logits = twin_logits(network, cm, None, [[Patch(4, Site.Z, (contrast.length - 1,), 0, received)]])[0, 0]
    slow = float(logits[contrast.tokens[0]] - logits[contrast.tokens[1]])
    found = rows(paths(conflater), contrast=contrast.id, what="v", layer=1, head=1)["log_odds_cm"]
    assert found.tolist() == pytest.approx([slow], abs=1e-3)


def test_effects_and_ablations_of_the_card(conflater: Done) -> None:
    effects = conflater.table("card_effects").set_index("direction")
    assert effects["effect_mean"].to_numpy() == pytest.approx(4.0, abs=0.04)
    assert effects["total"].to_numpy() == pytest.approx(conflater.total)
    ablations = conflater.table("card_ablations").set_index("kind")
    assert list(ablations.index) == ["zero", "mean", "resample", "unprimed", "null"]
    assert ablations["remaining_mean"].abs().max() < 1e-3
    assert (conflater.folder / "figures" / "head_card.png").is_file()
    assert [row[0] for row in conflater.summary["leading"][:3]] == ["what", "denoising", "noising"]


def test_the_repeaters_carrier_copies(repeater: Done, conflater: Done) -> None:
    """It reads the pronoun's gender and writes it at full strength; the conflater's never reads the pronoun itself."""
    table = repeater.table("card_scores").set_index("score")
    for score in ("copying by token", "copying in the prompt"):
        assert table.loc[score, "score_mean"] == pytest.approx(4.0, abs=0.1)
        assert conflater.table("card_scores").set_index("score").loc[score, "score_mean"] == pytest.approx(0, abs=0.01)
    assert "copying by token +4.0" in repeater.summary["in_words"]
    assert table.loc[["induction score", "previous token score"], "score_mean"].between(0, 0.2).all()


def test_an_avoiders_carrier_writes_against_the_pronoun(do: Do) -> None:
    table = do("avoider", HeadJob("4.2", path_pairs=0), pairs=1).table("card_scores").set_index("score")
    assert table.loc["copying in the prompt", "score_mean"] == pytest.approx(-4.0, abs=0.1)


def test_attention_by_setting(repeater: Done, conflater: Done) -> None:
    """Primed, all attention lies where the gender is; without a prime the head rests, on the first token."""
    for done, read in ((repeater, "priming_pronoun"), (conflater, "prime_after_pronoun")):
        table = done.table("card_attention").set_index(["setting", "span"])["attention_mean"]
        for setting in ("cf", "cm"):
            assert table[setting, read] == pytest.approx(1, abs=0.01)
            assert table[setting].sum() == pytest.approx(1, abs=1e-4)
        unprimed = table["c0"]
        assert unprimed[[span for span in unprimed.index if span.startswith("prim")]].isna().all()
        assert unprimed.sum() == pytest.approx(1, abs=1e-4)
        assert unprimed["instruction"] > 0.95


def test_attribution_by_source_adds_up_to_the_effect(repeater: Done) -> None:
    table = repeater.table("card_attribution").set_index("source")["attribution_mean"]
    assert table["all"] == pytest.approx(table.drop("all").sum(), abs=1e-4)
    assert table["priming_pronoun"] == pytest.approx(4.0, abs=0.1)
    assert table.drop(["all", "priming_pronoun"]).abs().max() < 0.05


def test_a_head_of_the_first_block_has_no_senders(early: Done) -> None:
    assert "path" not in set(early.table("interventions")["kind"])
    assert early.summary["card"]["senders"] == []
    assert "senders" not in early.summary["in_words"]
    assert (early.folder / "figures" / "head_card.png").is_file()
    assert early.table("card_effects")["effect_mean"].abs().max() < 1e-3


def test_scores_of_patterns_made_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block: a head that looks at the token before, one at what followed last time, one evenly at all before."""
    length, sequences = 6, 3
    size = 1 + 2 * length
    before, induction, evenly = (torch.zeros(size, size) for _ in range(3))
    for query in range(size):
        before[query, max(query - 1, 0)] = 1
        induction[query, query - length + 1 if query > length else 0] = 1
        evenly[query, : query + 1] = 1 / (query + 1)
    seen: list[Tensor] = []

    def record(bridge: Any, ids: Tensor, start: int, sites: Any) -> Any:
        seen.append(ids)
        assert (start, list(sites)) == (0, [Site.PATTERN])
        pattern = torch.stack([before, induction, evenly]).expand(len(ids), -1, -1, -1)
        return SimpleNamespace(more={Site.PATTERN: (pattern,)})

    class Tokenizer:
        all_special_ids, bos_token_id = (0, 1), 1

        def __len__(self) -> int:
            return 40

    monkeypatch.setattr(scores, "record", record)
    model: Any = SimpleNamespace(tokenizer=Tokenizer(), device="cpu", bridge=None)
    found = scores.pattern_scores(model, seed=0, sequences=sequences, length=length)
    (ids,) = seen
    assert ids.shape == (sequences, size)
    assert (ids[:, 0] == 1).all()
    assert torch.equal(ids[:, 1 : 1 + length], ids[:, 1 + length :])
    assert int(ids[:, 1:].min()) > 1
    assert int(ids.max()) < 40
    queries = range(1 + length, size)
    assert found.induction.tolist() == [pytest.approx([0, 1, sum(1 / (q + 1) for q in queries) / length])]
    # From the first token of the second half, the one behind its first occurrence is not the one before.
    hits = sum(before[q, q - 1] == induction[q, q - 1] == 1 for q in range(1, size))
    assert found.previous_token.tolist() == [
        pytest.approx([1, float(hits) / (size - 1), sum(1 / (q + 1) for q in range(1, size)) / (size - 1)])
    ]
    assert not torch.equal(scores_ids(monkeypatch, model, seen, 1), ids)
    assert torch.equal(scores_ids(monkeypatch, model, seen, 0), ids)


def scores_ids(monkeypatch: pytest.MonkeyPatch, model: Any, seen: list[Tensor], seed: int) -> Tensor:
    scores.pattern_scores(model, seed=seed, sequences=3, length=6)
    return seen[-1]


def test_copying_equals_plain_arithmetic(
    repeater: Done, planted: Callable[[str], Path], plain: Callable[[Path], Any]
) -> None:
    """Value of the pronoun, through the head's rows of the output matrix and the unembedding, final scale held."""
    network = plain(planted("repeater"))
    block, final = network.transformer.h[4], network.transformer.ln_f
    contrast: Contrast = next(iter(repeater.contrasts.values()))
    found = rows(repeater.table("scores"), contrast=contrast.id, score="copying in the prompt")["value"].iloc[0]
    written = []
    for prompt in (contrast.feminine, contrast.masculine):
        ids = torch.tensor([prompt.ids])
        kept = twin_activations(network, ids)
        value = kept[4, Site.V][0, contrast.first_difference, 2]
        size = len(value)
        out = value @ block.attn.c_proj.weight[2 * size : 3 * size]
        stream = network(ids, output_hidden_states=True).hidden_states
        last = stream[4][0, -1] + block.attn.c_proj(kept[4, Site.Z][0, -1].flatten())
        last = last + kept[4, Site.MLP_OUT][0, -1, 0]
        scale = torch.sqrt((last - last.mean()).square().mean() + final.eps)
        direction = network.lm_head.weight[contrast.tokens[0]] - network.lm_head.weight[contrast.tokens[1]]
        written.append(float(((out - out.mean()) / scale * final.weight) @ direction))
    assert found == pytest.approx(written[0] - written[1], abs=1e-3)


def test_refusals() -> None:
    for head in ("20", "4.0,4.1", "", "4.x", "-1.0"):
        with pytest.raises(OptionError, match=r"'.*' names no head: write LAYER.HEAD, as in 26.0"):
            HeadJob(head)
    with pytest.raises(OptionError, match=r"--path-pairs -1 is below 0; give 0 or more"):
        HeadJob("4.0", path_pairs=-1)
