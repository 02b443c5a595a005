"""What is measured of a pair, against plain full passes and one-by-one computation, on tiny models."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from referent_probe.measurement import collect
from referent_probe.measurement.answer import answer_probabilities
from referent_probe.measurement.collect import Request, measure_pair, roots_of
from referent_probe.measurement.draws import draw_answers
from referent_probe.measurement.warp import SamplingSettings, resolve_settings
from referent_probe.models.load import LoadedModel, load_model
from referent_probe.models.reading import read
from referent_probe.models.tokens import encode
from referent_probe.randomness import generator
from referent_probe.records import MEASUREMENT, conform
from referent_probe.stimuli.joint_prompts import joint_prompt
from referent_probe.stimuli.options import FORMS, OptionOrder
from referent_probe.stimuli.primes import ContextSetting, prime_segments
from referent_probe.stimuli.prompts import DEFAULT_WORDING, choice_prompt
from referent_probe.stimuli.questions import listings, question_prompt, questions
from referent_probe.stimuli.templates import Pair, load_stimuli

TEMPERATURES = (0.5, 1.0)
SETTINGS = (ContextSetting.C0, ContextSetting.CF, ContextSetting.CM, ContextSetting.R_NP)
CLOSE = 1e-5


@pytest.fixture(scope="module", params=["llama", "gpt-oss"])
def model(request: pytest.FixtureRequest, save_tiny: Callable[..., Path], tmp_path_factory: Any) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("model"), request.param, 2)))


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_stimuli().pairs[4]


@pytest.fixture(scope="module")
def request_(model: LoadedModel, pair: Pair) -> Request:
    return Request(
        wording=DEFAULT_WORDING,
        settings=SETTINGS,
        sampling=resolve_settings(model, SamplingSettings(0.5, None, 2)),
        temperatures=TEMPERATURES,
        threshold=1e-6,
        draws=5,
        comprehension=frozenset({pair.id}),
    )


@pytest.fixture(scope="module")
def tables(model: LoadedModel, pair: Pair, request_: Request) -> dict[str, pd.DataFrame]:
    return measure_pair(model, pair, request_).tables


def full(model: LoadedModel, ids: Any) -> torch.Tensor:
    """Log-probabilities behind every token, by one plain pass."""
    with torch.no_grad():
        logits = model.bridge.original_model(torch.tensor([list(ids)])).logits[0]
    found: torch.Tensor = logits.double().log_softmax(-1)
    return found


def test_every_cell_has_one_row(tables: dict[str, pd.DataFrame]) -> None:
    cells = 2 * 4 * 2
    listed = 2 * 2 * (2 + 7 + 6)
    wanted = {
        "choices": cells,
        "answers": 2 * cells,
        "joint": 2 * 8,
        "sentences": 8,
        "draws": cells,
        "comprehension": listed,
    }
    assert {name: len(table) for name, table in tables.items()} == wanted
    for name in MEASUREMENT:
        table = conform(name, tables[name])
        keys = [c for c in table if not c.startswith(("p_", "n", "log_")) and table[c].dtype != "float64"]
        keys += ["temperature"] if "temperature" in table else []
        assert not table.duplicated(keys).any(), name
        assert not table.drop(columns="left_out", errors="ignore").isna().any().any(), name


def test_log_odds_are_those_of_a_plain_pass(model: LoadedModel, pair: Pair, tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["choices"].set_index(["template", "setting", "option_order"])
    for template in pair.members:
        forms = FORMS[template.case]
        for setting, order in product(("c0", "cm", "r_np"), OptionOrder):
            asked = choice_prompt(template, pair.partner(template), ContextSetting(setting), order, DEFAULT_WORDING)
            prompt = encode(asked, model.tokenizer, model.quirks)
            ids = [
                model.tokenizer(prompt.text + f, add_special_tokens=False)["input_ids"]
                for f in (forms.feminine, forms.masculine)
            ]
            assert all(tuple(i[:-1]) == prompt.ids for i in ids)  # both options are one token here
            log_p = full(model, prompt.ids)[-1]
            expected = float(log_p[ids[0][-1]] - log_p[ids[1][-1]])
            row = rows.loc[(template.id, setting, str(order))]
            assert row["log_odds"] == pytest.approx(expected, abs=CLOSE)
            assert (row["tokens"], row["option_tokens"]) == (len(prompt.ids), 1)


def test_answers_are_those_of_each_prompt_alone(
    model: LoadedModel, pair: Pair, request_: Request, tables: dict[str, pd.DataFrame]
) -> None:
    rows = tables["answers"].set_index(["template", "setting", "option_order", "temperature"])
    template = pair.members[1]
    for setting, order, temperature in product(("cf", "r_np"), OptionOrder, TEMPERATURES):
        asked = choice_prompt(template, pair.partner(template), ContextSetting(setting), order, DEFAULT_WORDING)
        prompt = encode(asked, model.tokenizer, model.quirks)
        settings = replace(request_.sampling, temperature=temperature)
        alone = answer_probabilities(model, [prompt], FORMS[template.case], settings, threshold=0)[0]
        row = rows.loc[(template.id, setting, str(order), temperature)]
        for name in ("p_feminine", "p_masculine", "p_they", "p_other"):
            assert row[name] == pytest.approx(getattr(alone, name), abs=CLOSE + row["unexplored"])


def test_joint_tables_are_products_of_single_answers(
    model: LoadedModel, pair: Pair, request_: Request, tables: dict[str, pd.DataFrame]
) -> None:
    """One prompt at a time, sentence 1's answer in the rows whichever stands first."""
    forms = FORMS[pair.case]

    @cache
    def valid(order: int, lists: tuple[OptionOrder, OptionOrder], first: str | None) -> tuple[float, float]:
        prompt = encode(joint_prompt(pair, order, lists, first), model.tokenizer, model.quirks)
        answer = answer_probabilities(model, [prompt], forms, request_.sampling, threshold=0)[0]
        return answer.p_feminine, answer.p_masculine

    rows = tables["joint"].query("temperature == 0.5")
    assert len(rows) == 8
    for _, row in rows.iloc[[1, 4, 6]].iterrows():
        lists = (OptionOrder(row["option_order_1"]), OptionOrder(row["option_order_2"]))
        first = valid(row["sentence_order"], lists, None)
        cells = {}
        for i, (name, word) in enumerate((("f", forms.feminine), ("m", forms.masculine))):
            second = valid(row["sentence_order"], lists, word)
            for j, other in enumerate("fm"):
                key = name + other if row["sentence_order"] == 1 else other + name
                cells[key] = first[i] * second[j]
        total = sum(cells.values())
        assert row["p_valid"] == pytest.approx(total, abs=CLOSE)
        for key, p in cells.items():
            assert row[f"p_{key}"] == pytest.approx(p / total, abs=1e-4)
        assert row[["p_ff", "p_fm", "p_mf", "p_mm"]].sum() == pytest.approx(1, abs=1e-12)


def test_whole_sentences_are_scored_to_their_end(
    model: LoadedModel, pair: Pair, tables: dict[str, pd.DataFrame]
) -> None:
    rows = tables["sentences"].set_index(["template", "setting"])
    for template, setting in product(pair.members, SETTINGS):
        forms = FORMS[template.case]
        before = "".join(s.text for s in prime_segments(pair.partner(template), setting))
        texts = [(before + " " + template.filled(form)).strip() for form in (forms.feminine, forms.masculine)]
        ids = [model.tokenizer(text)["input_ids"] for text in texts]
        totals = []
        for one in ids:
            log_p = full(model, one)
            totals.append(sum(float(log_p[i - 1, token]) for i, token in enumerate(one) if i))
        row = rows.loc[(template.id, str(setting))]
        assert row["log_odds"] == pytest.approx(totals[0] - totals[1], abs=1e-4)
        assert row["log_odds"] == pytest.approx(row["log_p_feminine"] - row["log_p_masculine"], abs=1e-12)


def test_left_context_cannot_tell_the_sentences_of_a_pair_apart(tables: dict[str, pd.DataFrame]) -> None:
    unprimed = tables["sentences"].query("setting == 'c0'")
    assert unprimed["left_context_log_odds"].nunique() == 1
    assert unprimed["log_odds"].nunique() == 2


def test_comprehension_by_plain_passes(model: LoadedModel, pair: Pair, tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["comprehension"].set_index(["template", "setting", "question", "listing"])
    template, setting = pair.members[0], ContextSetting.CM
    for question in questions(template, setting):
        listed = listings(question.answers)[1]
        asked = question_prompt(template, pair.partner(template), setting, question, listed)
        prompt = encode(asked, model.tokenizer, model.quirks)
        scores = []
        for answer in listed:
            ids = model.tokenizer(prompt.text + answer + '"', add_special_tokens=False)["input_ids"]
            log_p = full(model, ids)
            scores.append(sum(float(log_p[i - 1, ids[i]]) for i in range(len(prompt.ids), len(ids))))
        p = np.exp(scores)
        row = rows.loc[(template.id, str(setting), question.name, 1)]
        assert row["p_listed"] == pytest.approx(p.sum(), rel=1e-4)
        assert row["p_right"] == pytest.approx(p[listed.index(question.right)] / p.sum(), abs=CLOSE)
        assert row["answer"] == listed[int(p.argmax())]


def test_draws_agree_with_exact_probabilities(model: LoadedModel, pair: Pair, request_: Request) -> None:
    template = pair.members[0]
    asked = choice_prompt(template, pair.partner(template), ContextSetting.CF, OptionOrder.MASCULINE_FIRST)
    prompt = encode(asked, model.tokenizer, model.quirks)
    forms, n = FORMS[template.case], 20_000
    [exact] = answer_probabilities(model, [prompt], forms, request_.sampling, threshold=0)
    contexts = read(model, [prompt.ids])
    [counted] = draw_answers(model, contexts, [prompt], [forms], request_.sampling, n, [generator(0, "test")])
    assert sum(counted.values()) == n
    wanted = {
        "n_feminine": exact.p_feminine,
        "n_masculine": exact.p_masculine,
        "n_they": exact.p_they,
        "n_other": exact.p_other,
    }
    for name, p in wanted.items():
        assert abs(counted[name] - n * p) <= 4 * np.sqrt(n * p * (1 - p)) + 1


def test_draws_do_not_depend_on_company(
    model: LoadedModel, pair: Pair, request_: Request, tables: dict[str, pd.DataFrame]
) -> None:
    fewer = replace(request_, settings=(ContextSetting.C0, ContextSetting.CM), joint=False, sentences=False)
    some = measure_pair(model, pair, replace(fewer, comprehension=frozenset())).tables
    keys = ["template", "setting", "option_order"]
    both = some["draws"].merge(tables["draws"], on=keys, suffixes=("", "_all"))
    assert len(both) == len(some["draws"]) == 8
    assert (both["n_feminine"] == both["n_feminine_all"]).all()
    assert [len(some[name]) for name in ("joint", "sentences", "comprehension")] == [0, 0, 0]


def test_beginnings_read_once_for_the_run_change_rounding_only(
    model: LoadedModel, pair: Pair, request_: Request, tables: dict[str, pd.DataFrame]
) -> None:
    pairs = load_stimuli().pairs[3:6]
    roots = roots_of(model, pairs, request_)
    assert all(root is not None and len(root.ids) > 50 for root in (roots.choice, roots.joint, roots.comprehension))
    found = measure_pair(model, pair, replace(request_, roots=roots)).tables
    for name, column in (("choices", "log_odds"), ("joint", "p_ff"), ("comprehension", "p_right")):
        np.testing.assert_allclose(found[name][column], tables[name][column], rtol=0, atol=CLOSE)
        assert (found[name]["ids"] == tables[name]["ids"]).all()


def test_the_self_check_sees_a_wrong_pass(
    model: LoadedModel, pair: Pair, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(request_, settings=(ContextSetting.C0,), draws=0, joint=False, sentences=False)
    small = replace(small, comprehension=frozenset())
    assert measure_pair(model, pair, small).measured["abs_diff"] < CLOSE

    def wrong(model: LoadedModel, sequences: Any, root: Any = None) -> Any:
        found = read(model, sequences)
        return replace(found, logits=found.logits + torch.linspace(0, 1, found.logits.shape[1]))

    monkeypatch.setattr(collect, "read", wrong)
    assert measure_pair(model, pair, small).measured["abs_diff"] > 1e-3
