"""Which folders an analysis takes, and what it says of the others."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from tests.measured import write_run

from referent_probe.analysis.behaviour.finished import read_run, read_runs
from referent_probe.errors import RunError
from referent_probe.stimuli.templates import StimulusSet, load_stimuli


def half(*_: object) -> float:
    return 0.5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", half, n_pairs=2, parts=())


def test_a_finished_measurement(folder: Path) -> None:
    run = read_run(folder)
    assert (run.model, run.stimuli["name"], len(run.sha256)) == ("synthetic", "builtin", 64)
    assert len(run.tables["choices"]) == 2 * 2 * 7 * 2
    assert run.tables["joint"].empty


def test_a_table_that_is_absent_was_not_measured(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "run", half, n_pairs=2)
    manifest = json.loads((whole / "manifest.json").read_text())
    del manifest["sha256"]["draws.parquet"]
    (whole / "manifest.json").write_text(json.dumps(manifest))
    (whole / "draws.parquet").unlink()
    assert "draws" not in read_run(whole).tables


def test_no_folder_and_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no run folder: give one that `referent-probe measure` has written"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(RunError, match="is no run folder"):
        read_run(tmp_path)
    with pytest.raises(RunError, match="no run to analyse"):
        read_runs([])


def test_another_job(tmp_path: Path) -> None:
    other = write_run(tmp_path / "run", half, n_pairs=2, config={"job": "patch_priming_pronoun"})
    with pytest.raises(
        RunError, match="is a run of 'patch_priming_pronoun': give a folder that `referent-probe measure`"
    ):
        read_run(other)


def test_an_unfinished_one(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not finished: give the same `referent-probe measure` command again"):
        read_run(write_run(tmp_path / "run", half, finished=False))


@pytest.mark.parametrize("name", ["choices.parquet", "answers.parquet", "summary.json"])
def test_a_changed_file(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes() + b"x")
    with pytest.raises(RunError, match="not as it was written"):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "{", "is damaged"),
        ("config.json", "[1]", "no JSON object"),
        ("manifest.json", "null", "is damaged"),
        ("manifest.json", "{}", "not as it was written"),
    ],
)
def test_damaged_json(folder: Path, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(RunError, match=message):
        read_run(folder)


@pytest.mark.parametrize("key", ["stimuli", "model", "pairs", "temperature"])
def test_a_configuration_that_lacks_something(folder: Path, key: str) -> None:
    for name in "config.json", "manifest.json":
        content = json.loads((folder / name).read_text())
        del (content if name == "config.json" else content["config"])[key]
        (folder / name).write_text(json.dumps(content))
    with pytest.raises(RunError, match="is damaged"):
        read_run(folder)


def test_config_and_manifest_differ(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"seed": 1}))
    with pytest.raises(RunError, match="not as it was written"):
        read_run(folder)


def test_different_stimuli(folder: Path, tmp_path: Path) -> None:
    mine = StimulusSet("mine", "ab" * 32, load_stimuli().pairs)
    other = write_run(tmp_path / "other", half, n_pairs=2, parts=(), stimuli=mine)
    with pytest.raises(RunError, match=r"has 'builtin' \(sha256 .*has 'mine' \(sha256 abababababab\)"):
        read_runs([folder, other])


def test_one_run_twice(folder: Path) -> None:
    with pytest.raises(RunError, match="given twice"):
        read_runs([folder, folder / ".." / "run"])


def test_one_run_and_its_copy(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    with pytest.raises(RunError, match=r"'.*run' and '.*copy' are the same measurement, .*: give one of them"):
        read_runs([folder, copy])


@pytest.mark.parametrize("text", ["{}", '{"job": null}', '{"model_type": "llama"}'])
def test_a_folder_of_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RunError, match="is no run: give a folder that `referent-probe measure` has written"):
        read_run(tmp_path)


def test_names_tell_runs_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, half, n_pairs=2, parts=()) for name in ("a", "b", "deep/a")]
    third = write_run(tmp_path / "c", half, n_pairs=2, parts=(), model="third")
    runs = read_runs([*folders, third])
    assert [run.model for run in runs] == ["synthetic (a) 1", "synthetic (b)", "synthetic (a) 3", "third"]


IMPOSSIBLE = {
    "answers lies outside": ("answers", {"p_feminine": 1.7}),
    "answers below": ("answers", {"p_masculine": -0.5}),
    "choices log_odds": ("choices", {"log_odds": 1e308}),
    "choices null": ("choices", {"occupation": None}),
    "choices members": ("choices", {"member": 1}),
}


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_a_table_that_no_measurement_writes(tmp_path: Path, kind: str) -> None:
    name, values = IMPOSSIBLE[kind]

    def change(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        table = tables[name].copy()
        for column, value in values.items():
            rows = table.index if column == "member" else table.index[3:4]
            table[column] = table[column].astype(object)
            table.loc[rows, column] = value
        return tables | {name: table}

    with pytest.raises(RunError, match=rf"table '{name}' of .* cannot be used \(.*\): measure it again"):
        read_run(write_run(tmp_path / "run", half, n_pairs=2, parts=(), change=change))


def test_the_same_row_twice(tmp_path: Path) -> None:
    def change(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        return tables | {"choices": pd.concat([tables["choices"], tables["choices"][:1]], ignore_index=True)}

    with pytest.raises(RunError, match="two rows for the same pair, template, setting, option_order"):
        read_run(write_run(tmp_path / "run", half, n_pairs=2, parts=(), change=change))
