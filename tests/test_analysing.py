"""The whole analysis: run folders in, an analysis folder out."""

import gc
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from referent_probe.analysing import Analysed, analyse
from referent_probe.analysis.behaviour.quantities import COLUMNS, QUANTITIES
from referent_probe.analysis.behaviour.systems import COLUMNS as PAIR_COLUMNS
from referent_probe.errors import OptionError, RunError, StimuliError
from referent_probe.stimuli.rows import WINOPRON_SHA256
from referent_probe.stimuli.templates import StimulusSet, Template, load_stimuli
from tests.measured import few_resamples_in, write_run

N_PAIRS = 12
SMALL: dict[str, Any] = {"settings": ("c0", "cf", "cm"), "temperatures": (0.5,), "parts": ()}
"""What makes an analysis take a second."""


def p(template: Template, setting: str, order: str) -> float:
    number = 2 * int(template.pair) + (template.id[-1] == "b")
    odds = number * 37 % 41 / 10 - 2 + (order == "mf") * 0.8
    odds += {"cf": 1.2, "cm": -0.9, "n1": 0.05, "r_np": 0.3}.get(setting, 0) * (number % 7) / 3
    return 1 / (1 + math.exp(-odds))


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        few_resamples_in(patch)
        yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "full", p, n_pairs=N_PAIRS, draws=200)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "small", p, n_pairs=N_PAIRS, **SMALL)


@pytest.fixture(scope="module")
def done(folder: Path) -> Analysed:
    return analyse(folder, as_released=True)


def leaves(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and "ci95" in value:
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)


def test_the_folder_is_a_finished_run(done: Analysed, folder: Path) -> None:
    assert done.folder == folder / "analysis"
    assert not done.was_complete
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert manifest["config"]["job"] == "analyse"
    assert {"quantities.parquet", "pairs.parquet", "shifts.parquet", "summary.json"} <= set(manifest["sha256"])
    assert json.loads((done.folder / "summary.json").read_text()) == done.summary
    assert not str(done.summary).count(str(folder))  # no path of this machine


def test_the_tables(done: Analysed) -> None:
    assert list(done.quantities.columns) == list(COLUMNS)
    assert list(done.pairs.columns) == list(PAIR_COLUMNS)
    assert not done.quantities.duplicated(["quantity", "reading", *_KEYS]).any()
    everything = set(QUANTITIES) - {"overlap_pairs", "overlap_jaccard", "missing"}
    assert set(done.quantities["quantity"]) == everything
    # joint, 4 single-blank estimators in 3 orders; rank 4 in 2 sentence orders; all at 4 temperatures.
    choice = done.pairs[done.pairs["reading"] == "choice"]
    assert len(choice) == N_PAIRS * ((5 * 3 + 2) * 4 + 2)
    assert len(done.shifts) == 2 * N_PAIRS * (7 + 1) * 3
    in_unit = done.quantities[done.quantities["unit"].isin(["probability", "share of pairs", "share of templates"])]
    assert in_unit["value"].abs().max() <= 1


_KEYS = ("setting", "option_order", "temperature", "estimator", "threshold", "factor")


def test_every_number_of_the_table_is_in_the_summary(done: Analysed) -> None:
    found = list(leaves(done.summary["quantities"])) + list(leaves(done.summary["whole_sentence"]))
    assert len(found) == len(done.quantities)
    assert {"value", "ci95", "unit", "n", "n_of", "n_rows", "rows_of"} <= set.intersection(*(set(x) for x in found))
    share = done.summary["quantities"]["synthetic"]["contextual_share"]["union"]["0.5"]["joint"]["0.01"]
    kept = done.quantities.query(
        "quantity == 'contextual_share' and option_order == 'union' and temperature == 0.5 and estimator == 'joint' "
        "and threshold == 0.01"
    ).iloc[0]
    assert (share["value"], share["ci95"]) == (kept["value"], [kept["low"], kept["high"]])
    assert (share["n"], share["n_of"], share["n_rows"], share["rows_of"]) == (4, "occupations", 12, "pairs")


def test_counts(done: Analysed) -> None:
    counts = done.summary["counts"]["synthetic"]
    assert counts["pairs"] == {"found": 12, "expected": 12, "as_expected": True}
    assert counts["templates"] == {"found": 24, "expected": 24, "as_expected": True}
    assert counts["rated_templates"]["found"] == 24
    assert done.summary["settings"]["ratings"] == "Misersky et al. 2014, the noun itself"


def test_the_paper_stands_beside(done: Analysed) -> None:
    rows = done.summary["beside_the_paper"]["synthetic"]
    assert len(rows) == 11
    union = rows[0]
    assert (union["paper"]["phi_4"], union["our_stimuli"]) == (52, "builtin")
    released = done.summary["quantities"]["synthetic"]["contextual_share"]["union"]["0.5"]["released"]["0"]
    assert union["same_procedure"]["value"] == pytest.approx(100 * released["value"])
    assert union["same_procedure"]["ci95"] == pytest.approx([100 * x for x in released["ci95"]])
    assert all(row["same_procedure"] is not None and row["corrected"] is not None for row in rows)
    gemma = next(row for row in rows if row["quantity"] == "spearman" and row["setting"] == "masc primed")
    assert gemma["paper"]["gemma_3_12b_it"] is None  # missing, not zero
    accuracy = next(row for row in rows if row["quantity"] == "comprehension_gender_tracking")
    assert accuracy["same_procedure"]["value"] == 0.5


def test_the_paragraph(done: Analysed) -> None:
    words = done.paragraph
    assert words.startswith("On 24 templates (12 pairs, 4 occupations), synthetic follows the gender")
    for part in ("Holm over 6 settings", "joint", "self_primed", "steered", "of 12", "equal strength",
                 "Listing the other option first", "24 rated templates", "under ten occupations"):  # fmt: skip
        assert part in words
    assert "Left out" not in words
    assert "nan" not in words


def test_again_it_is_there(done: Analysed, folder: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in done.folder.rglob("*")}
    again = analyse(folder, as_released=True)
    assert again.was_complete
    assert {file: file.stat().st_mtime_ns for file in done.folder.rglob("*")} == before
    pd.testing.assert_frame_equal(again.quantities, done.quantities)
    pd.testing.assert_frame_equal(again.pairs, done.pairs)
    assert again.summary == done.summary
    analyse(folder, as_released=True, csv=True)
    assert len(pd.read_csv(done.folder / "pairs.csv", dtype={"pair": str})) == len(done.pairs)


def test_another_configuration_or_foreign_files(done: Analysed, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"another configuration \(margin: 0.2 there, 0.3 now\)"):
        analyse(folder, as_released=True, margin=0.3)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match=r"holds files that are not a run's"):
        analyse(folder, out=tmp_path)


def test_same_input_same_bytes(small: Path, tmp_path: Path) -> None:
    one, other = (analyse(small, out=tmp_path / name).folder for name in ("one", "other"))
    for name in ("quantities.parquet", "pairs.parquet", "shifts.parquet", "summary.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_missing_parts_and_what_is_left_out(tmp_path: Path) -> None:
    def change(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        choices, answers = (tables[name].query("template != '002b'").copy() for name in ("choices", "answers"))
        here = (choices["template"] == "003a") & (choices["option_order"] == "mf")
        choices.loc[here & (choices["setting"] == "cf"), "log_odds"] = math.inf
        choices.loc[here & (choices["setting"] == "cm"), "log_odds"] = math.nan
        here = (answers["template"] == "003a") & (answers["option_order"] == "mf")
        answers.loc[here & (answers["setting"] == "cf"), ["p_feminine", "p_masculine"]] = 0.9, 0.0
        nothing = (answers["template"] == "004a") & (answers["setting"] == "c0") & (answers["option_order"] == "mf")
        answers.loc[nothing, ["p_feminine", "p_masculine"]] = 0.0, 0.0
        return tables | {"choices": choices, "answers": answers}

    run = write_run(tmp_path / "run", p, n_pairs=4, change=change, **SMALL)
    done = analyse(run)
    missing = done.quantities.query("quantity == 'missing'")
    assert set(missing["factor"]) == {"n1", "n2", "r_np", "r_both", "joint", "sentences", "draws", "comprehension"}
    assert missing.query("factor == 'joint'")["note"].iloc[0].startswith("joint was not measured: no estimator")
    left = done.quantities.query("quantity == 'left_out'").set_index("factor")["value"].to_dict()
    assert left == {
        "broken_pairs": 1,
        "absent_pairs": 0,
        "prompts_without_log_odds": 1,
        "prompts_with_infinite_log_odds": 1,
        "prompts_with_p_0_or_1": 1,
        "prompts_without_answers": 0,
        "prompts_without_an_option": 1,
    }
    share = done.quantities.query(
        "quantity == 'contextual_share' and estimator == 'self_primed' and option_order == 'mf' and temperature == 0.5 "
        "and threshold == 0.01"
    ).iloc[0]
    assert (share["n_rows"], share["n_left_out"]) == (2, 1)  # of three whole pairs, one lacks p(f|c)
    fm = done.quantities.query("quantity == 'contextual_share' and option_order == 'fm'")
    assert set(fm["n_rows"]) == {3}
    counts = done.summary["counts"]["synthetic"]
    assert counts["pairs"] == {"found": 3, "expected": 4, "as_expected": False}
    assert "joint not measured" in done.paragraph
    assert "Left out: 1 broken pairs" in done.paragraph
    beside = done.summary["beside_the_paper"]["synthetic"]
    assert [row["corrected"] for row in beside if row["quantity"].startswith("comprehension")] == [None] * 3


def test_several_runs(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = write_run(tmp_path / "other", lambda t, s, o: 0.5, n_pairs=N_PAIRS, model="org/flat", **SMALL)
    done = analyse([small, other])
    assert done.folder == Path("runs/analysis_synthetic_org-flat")
    assert done.summary["models"] == ["synthetic", "org/flat"]
    assert list(done.summary["overlap"]["choice"]) == ["synthetic", "org/flat", "synthetic & org/flat"]
    alone = done.quantities.query("quantity == 'overlap_pairs' and model == 'org/flat'")
    assert (alone["value"] == 0).all()
    jaccard = done.quantities.query("quantity == 'overlap_jaccard'")
    assert set(jaccard["model"]) == {"synthetic & org/flat"}
    assert set(done.pairs["model"]) == {"synthetic", "org/flat"}
    assert done.paragraph.count("\n") == 2  # a paragraph a model, and one of both
    mine = StimulusSet("mine", "ab" * 32, load_stimuli().pairs)
    third = write_run(tmp_path / "third", p, n_pairs=2, stimuli=mine, parts=())
    with pytest.raises(RunError, match=r"'builtin' .*'mine'"):
        analyse([small, third])


def test_runs_of_other_temperatures_overlap_with_a_note(small: Path, tmp_path: Path) -> None:
    warm = write_run(tmp_path / "warm", p, n_pairs=3, model="warm", temperature=0.7, **SMALL | {"temperatures": (0.7,)})
    done = analyse([small, warm], out=tmp_path / "out")
    note = done.quantities.query("factor == 'common_temperature'")["note"].iloc[0]
    assert note == "models overlap at their own primary temperatures, 0.5, 0.7"
    assert done.summary["settings"]["temperature"] == {"synthetic": 0.5, "warm": 0.7}
    assert set(done.quantities.query("quantity == 'overlap_pairs'")["n_rows"]) == {3}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"margin": 0.0}, OptionError, "--margin 0.0 is no margin"),
        ({"margin": math.nan}, OptionError, "--margin nan is no margin"),
        ({"ratings": "nowhere.csv"}, StimuliError, "'nowhere.csv' is neither 'authors' nor 'exact' nor a file"),
    ],
)
def test_bad_options(folder: Path, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        analyse(folder, **options)


def test_a_rating_file(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text("role,rating\nplumber,0.1\nmanicurist,0.9\n")
    done = analyse(small, ratings=file, out=tmp_path / "out")
    assert done.summary["counts"]["synthetic"]["rated_templates"]["found"] == 6
    assert done.summary["settings"]["ratings"] == "the rating file"
    file.write_text("role,rating\nplumber,0.2\nmanicurist,0.9\n")
    with pytest.raises(RunError, match="another configuration"):
        analyse(small, ratings=file, out=tmp_path / "out")
    file.write_text("role,rating\nplumber,often\n")
    with pytest.raises(StimuliError, match="'often'"):
        analyse(small, ratings=file, out=tmp_path / "out")


def test_winopron_has_so_many_rated_templates(tmp_path: Path) -> None:
    claimed = StimulusSet("winopron", WINOPRON_SHA256, load_stimuli().pairs)
    run = write_run(tmp_path / "run", lambda *_: 0.5, n_pairs=180, stimuli=claimed, parts=(), settings=("c0",),
                    temperatures=(0.5,))  # fmt: skip
    with pytest.raises(RunError, match="rated templates of WinoPron, which has 279"):
        analyse(run)
