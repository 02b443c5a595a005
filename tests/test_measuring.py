"""The behavioural measurement from end to end, on a tiny model, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from referent_probe.errors import ExactnessError, OptionError, RunError
from referent_probe.measure_settings import MeasureSettings
from referent_probe.measured import read_measured
from referent_probe.measuring import measure
from referent_probe.records import MEASUREMENT, PATCHING, SCHEMAS

SMALL = ("--settings", "c0,cf,cm", "--comprehension-pairs", 1, "--top-k", 5)


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"), "llama", 2)


@pytest.fixture
def run(one_thread: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command in this process: exit status, stdout, stderr."""
    from referent_probe import cli

    def go(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["referent-probe", "measure", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return go


def test_a_run_writes_what_it_promises(run: Any, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = (model, "--pairs", 2, *SMALL, "--draws", 3, "--out", out)
    status, printed, err = run(*options, "--csv")
    assert status == 0, err
    assert "2 pairs to measure, 24 choice prompts of up to" in err.replace("\n", " ")
    assert "Mean probability of the answer" in printed
    assert f"Next: referent-probe analyse {out}" in printed
    done = read_measured(out)
    for name in MEASUREMENT:
        table = done.table(name)
        assert list(table.columns) == [column.name for column in SCHEMAS[name]]
        assert (out / f"{name}.csv").is_file()
    assert len(done.table("choices")) == 24
    assert sorted(done.table("answers")["temperature"].unique()) == [0.3, 0.5, 0.7, 1.0]
    assert (done.table("draws").filter(regex="^n_").sum(axis=1) == 3).all()
    assert done.table("comprehension")["pair"].nunique() == 1
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["config"]["job"] == "measure"
    assert (manifest["sampling"]["temperature"], manifest["sampling"]["top_k"]) == (0.5, 5)
    assert done.summary["counts"]["templates"] == 4
    assert done.summary["self_check"]["max_abs_diff"] < 1e-4
    assert not (out / "units").exists()
    status, printed, err = run(*options)
    assert (status, "holds this run already" in printed) == (0, True)
    status, printed, err = run(*options, "--json")
    assert json.loads(printed) == done.summary


def test_probabilities_sum_to_one_and_temperature_orders_them(run: Any, model: Path, tmp_path: Path) -> None:
    status, _, err = run(model, "--pairs", 1, *SMALL, "--leave-out", "joint,sentences", "--out", tmp_path / "run")
    assert status == 0, err
    done = read_measured(tmp_path / "run")
    answers = done.table("answers")
    total = answers[["p_feminine", "p_masculine", "p_they", "p_other"]].sum(axis=1)
    assert total.to_numpy() == pytest.approx(1, abs=1e-9)
    assert len(done.table("joint")) == len(done.table("sentences")) == 0


def test_no_pairs_means_all_and_settings_keep_their_order(model: Path) -> None:
    settings = MeasureSettings(str(model))
    assert (settings.pairs, settings.settings[0], len(settings.settings)) == (None, "c0", 7)


def test_killed_three_times_and_resumed_equals_undisturbed(model: Path, tmp_path: Path) -> None:
    options = [str(model), "--pairs", "10", *map(str, SMALL), "--seed", "4"]
    code = "from referent_probe.cli import main; main()"

    def start(folder: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, "measure", *options, "--out", str(folder)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    killed = 0
    units = tmp_path / "killed" / "units"
    for delay in (0.0, 0.3, 0.9):
        process = start(tmp_path / "killed")
        deadline = time.monotonic() + 90
        before = len(list(units.glob("[0-9]*"))) if units.is_dir() else 0
        while process.poll() is None and time.monotonic() < deadline:
            if units.is_dir() and len(list(units.glob("[0-9]*"))) > before:
                time.sleep(delay)
                break
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
    assert killed
    for folder in ("killed", "whole"):
        process = start(tmp_path / folder)
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
    for name in MEASUREMENT:
        one, other = ((tmp_path / folder / f"{name}.parquet").read_bytes() for folder in ("killed", "whole"))
        assert one == other, name


BAD: list[tuple[Sequence[str], str]] = [
    (["--pairs", "0"], "cannot draw 0 pairs from the 180 of 'builtin'"),
    (["--settings", "c0,cx"], "--settings: 'cx' is unknown; give some of c0, cf, cm, n1, n2, r_np, r_both"),
    (["--settings", ","], "--settings is empty"),
    (["--leave-out", "choices"], "--leave-out: 'choices' is unknown; give some of joint, sentences, comprehension"),
    (["--temperature", "0"], "--temperature 0.0 is not a number above 0"),
    (["--temperature", "nan"], "--temperature nan is not a number above 0"),
    (["--top-k", "-3"], "--top-k -3 is below 1"),
    (["--draws", "-1"], "--draws -1 is not from 0 to 1000000"),
    (["--draws", "100000000000000000000"], "is not from 0 to 1000000"),
    (["--comprehension-pairs", "-1"], "--comprehension-pairs -1 is not from 0 to"),
    (["--override", "temperature"], "override 'temperature' is no setting that can be switched off"),
    (["--prompts", "nowhere.toml"], "nowhere.toml"),
    (["--against", "nowhere"], "'nowhere' is no run folder"),
    (["--stimuli", "nowhere.tsv"], "nowhere.tsv"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_mistakes_are_named_in_one_line(
    arguments: Sequence[str], message: str, run: Any, model: Path, tmp_path: Path
) -> None:
    status, printed, err = run(model, *arguments, "--out", tmp_path / "run")
    assert status == 2
    assert message in err.replace("\n", " ")
    assert "Traceback" not in err
    assert printed == ""


def test_the_model_s_own_settings_are_refused_until_switched_off(
    run: Any, save_tiny: Callable[..., Path], tmp_path: Path
) -> None:
    folder = save_tiny(tmp_path / "model", "llama", 2)
    config = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(config | {"top_p": 0.9}))
    options = (folder, "--pairs", 1, *SMALL, "--leave-out", "joint,sentences,comprehension", "--out", tmp_path / "run")
    status, _, err = run(*options)
    assert (status, "top_p = 0.9" in err) == (2, True)
    assert "--override top_p" in err.replace("\n", " ")
    status, _, err = run(*options[:-1], tmp_path / "other", "--override", "top_p")
    assert status == 0, err
    manifest = json.loads((tmp_path / "other" / "manifest.json").read_text())
    assert manifest["sampling"]["overridden"] == [["top_p", 0.9]]


def test_two_precisions_are_compared(run: Any, model: Path, tmp_path: Path) -> None:
    options = (model, "--pairs", 1, *SMALL, "--leave-out", "joint,sentences,comprehension")
    assert run(*options, "--out", tmp_path / "one")[0] == 0
    status, printed, err = run(*options, "--out", tmp_path / "two", "--against", tmp_path / "one")
    assert status == 0, err
    assert "log-odds differ by up to 0 logits" in printed
    status, printed, err = run(
        *options, "--dtype", "bfloat16", "--out", tmp_path / "half", "--against", tmp_path / "one", "--json"
    )
    assert status == 0, err
    compared = json.loads(printed)["compared"]
    assert 0 < compared["log_odds"]["max_abs_diff"] < 0.25
    assert (compared["n"], compared["only_in_one"]) == (12, 0)
    status, _, err = run(*options, "--temperature", 0.4, "--out", tmp_path / "warm", "--against", tmp_path / "one")
    assert (status, "give --temperature 0.5" in err.replace("\n", " ")) == (2, True)
    assert not (tmp_path / "warm").exists()
    other = (model, "--pairs", 1, "--seed", 1, *SMALL, "--leave-out", "joint,sentences,comprehension")
    status, _, err = run(*other, "--out", tmp_path / "else", "--against", tmp_path / "one")
    assert (status, "shares no prompt with this run" in err) == (2, True)
    (tmp_path / "one" / "choices.parquet").write_bytes(b"PAR1")
    status, _, err = run(*options, "--out", tmp_path / "late", "--against", tmp_path / "one")
    assert (status, "is not as it was written" in err.replace("\n", " "), (tmp_path / "late").exists()) == (
        2,
        True,
        False,
    )


def test_a_difference_too_large_ends_the_run_without_a_manifest(
    one_thread: None, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from referent_probe.measurement import collect

    real = collect.read

    def wrong(loaded: Any, sequences: Any, root: Any = None) -> Any:
        from dataclasses import replace

        found = real(loaded, sequences)
        return replace(found, logits=found.logits + torch.linspace(0, 1, found.logits.shape[1]))

    monkeypatch.setattr(collect, "read", wrong)
    settings = MeasureSettings(
        str(model), pairs=1, settings=("c0",), top_k=5, leave_out=("joint", "sentences", "comprehension"),
        out=tmp_path / "run",
    )  # fmt: skip
    with pytest.raises(ExactnessError, match="shared passes and full passes differ"):
        measure(settings)
    assert not (tmp_path / "run" / "manifest.json").exists()
    assert (tmp_path / "run" / "units").is_dir()


def test_other_folders_are_no_measurement(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"job": "patch_priming_pronoun"}')
    with pytest.raises(RunError, match="is not a finished measurement"):
        read_measured(tmp_path)
    with pytest.raises(RunError, match="is not a finished measurement"):
        read_measured(tmp_path / "nothing")
    assert not set(MEASUREMENT) & set(PATCHING)


def test_settings_are_checked_from_python_too() -> None:
    with pytest.raises(OptionError, match="--settings: 'x' is unknown"):
        MeasureSettings("m", settings=("x",))
    assert MeasureSettings("m", out=Path("a")).out == Path("a")
