"""Surveys beside each other: Holm by hand, head rankings, refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from referent_probe.analysis.inference import cluster_means, max_t_sign_flip
from referent_probe.errors import RunError
from referent_probe.jobs.compare import compare_surveys, read_surveys
from referent_probe.jobs.job import FinishedJob
from referent_probe.jobs.knockout import KnockoutJob
from referent_probe.jobs.survey import SurveyJob
from tests.jobs import surveys
from tests.jobs.planted import Do, Done


@pytest.fixture(scope="module")
def surveyed(do: Do) -> list[Done]:
    return [surveys.of_conflater(do), surveys.of_gated_repeater(do), surveys.of_binder(do)]


@pytest.fixture(scope="module")
def compared(surveyed: list[Done], tmp_path_factory: pytest.TempPathFactory) -> FinishedJob:
    return compare_surveys([one.folder for one in surveyed], tmp_path_factory.mktemp("compared") / "run")


def test_totals_and_carriers_are_those_of_the_surveys(compared: FinishedJob, surveyed: list[Done]) -> None:
    table = pd.read_parquet(compared.folder / "models.parquet")
    assert table["model"].tolist() == ["conflater", "gated-repeater", "binder"]
    assert table["total_mean"].tolist() == [one.total for one in surveyed]
    assert table["n"].tolist() == [12, 6, 2]
    assert table["carriers"].tolist() == ["4.0", "4.3, 4.2", ""]
    assert table["confirmed"].tolist() == ["4.0", "none", "none"]
    assert (table["layers"].tolist(), table["heads"].tolist()) == ([5] * 3, [4] * 3)
    assert [row[0] for row in compared.leading] == ["model", "conflater", "gated-repeater", "binder"]
    assert compared.leading[3][3] == "none"
    assert (compared.folder / "figures" / "flow_maps.png").is_file()
    assert json.loads((compared.folder / "summary.json").read_text())["models"][0]["model"] == "conflater"


def test_p_values_are_corrected_by_holm(compared: FinishedJob, surveyed: list[Done]) -> None:
    """The smallest of three times 3, the next times 2, the largest as it is, none below the one before."""
    table = pd.read_parquet(compared.folder / "models.parquet")
    p = []
    for one in surveyed:
        contrasts = one.table("contrasts")
        means = cluster_means(contrasts["total_effect"].to_numpy(), list(contrasts["occupation"]))
        p.append(float(max_t_sign_flip(means, seed=0)[0]))
    assert table["p"].tolist() == p
    assert p[:2] == [2 / 2**12, 2 / 2**6]  # of one sign in every occupation
    order = sorted(range(3), key=lambda i: p[i])
    corrected, least = {}, 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (3 - rank) * p[i]))
        corrected[i] = least
    assert table["p_holm"].tolist() == pytest.approx([corrected[i] for i in range(3)])


def test_what_is_said(compared: FinishedJob) -> None:
    text = compared.summary["in_words"]
    assert "conflater follows the other person's pronoun (+4.0" in text
    assert "n = 12 occupations, p 0.001 after Holm's correction)" in text
    assert "Head rankings of conflater and gated-repeater in denoising: Spearman" in text


def test_rankings_of_models_of_one_shape_are_compared(compared: FinishedJob) -> None:
    table = pd.read_parquet(compared.folder / "agreement.parquet")
    pairs = [("conflater", "gated-repeater"), ("conflater", "binder"), ("gated-repeater", "binder")]
    assert list(table[["a", "b"]].drop_duplicates().itertuples(index=False, name=None)) == pairs
    assert set(table["direction"]) == {"denoise", "noise"}
    assert table["spearman"].between(-1, 1).all()


def test_a_finished_comparison_is_shown(compared: FinishedJob, surveyed: list[Done]) -> None:
    assert not (compared.folder / "models.csv").exists()
    again = compare_surveys([one.folder for one in surveyed], compared.folder, csv=True)
    assert again.was_complete
    assert again.summary == json.loads((compared.folder / "summary.json").read_text())
    assert (compared.folder / "models.csv").is_file()
    with pytest.raises(RunError, match=r"another configuration \(runs:"):
        compare_surveys([one.folder for one in surveyed[:2]], compared.folder)


def test_models_of_other_shapes_have_no_common_ranking(
    tiny_llama: Path, run: Callable[..., Any], surveyed: list[Done], tmp_path: Path
) -> None:
    tiny = run(tiny_llama, SurveyJob(flow_pairs=0, leading=0), tmp_path / "tiny", pairs=1, order="mf")
    both = compare_surveys([tiny.folder, surveyed[2].folder], tmp_path / "both")
    assert both.summary["agreement"] == []
    assert not list((both.folder / "figures").iterdir())  # neither has a flow map
    assert "Head rankings" not in both.summary["in_words"]


def test_surveys_of_one_model_are_told_apart_by_their_folders(surveyed: list[Done], tmp_path: Path) -> None:
    import shutil

    copied = tmp_path / "later"
    shutil.copytree(surveyed[1].folder, copied)
    names = [one.name for one in read_surveys([surveyed[0].folder, surveyed[1].folder, copied])]
    assert names == ["conflater", "gated-repeater (run)", "gated-repeater (later)"]


def test_refusals(surveyed: list[Done], do: Do, tmp_path: Path) -> None:
    one, other = surveyed[0].folder, surveyed[1].folder
    with pytest.raises(RunError, match=r"1 survey given; give at least two to compare"):
        compare_surveys([one], tmp_path / "out")
    with pytest.raises(RunError, match=r"the same survey is given twice; give each once"):
        compare_surveys([one, other, one.parent / "." / one.name], tmp_path / "out")
    cut = do("conflater", KnockoutJob(window=1)).folder
    with pytest.raises(RunError, match=r"holds a run of 'knockout'; give folders of `referent-probe survey`"):
        compare_surveys([one, cut], tmp_path / "out")
    for absent in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RunError, match=r"holds no finished run; give folders of `referent-probe survey`, or"):
            compare_surveys([one, absent], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(RunError, match=r"holds a run of 'survey', not of 'compare'"):
        compare_surveys([one, other], one)
