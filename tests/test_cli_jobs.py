"""The commands of the mechanistic layer as users run them: what is printed, where, and what is refused."""

import json
import runpy
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from referent_probe import cli

COMMANDS = ("survey", "patch", "flow", "knockout", "ablate", "head", "circuit")
EXPERIMENTS = Path(__file__).parents[1] / "experiments"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Callable[[str], Path]:
    from referent_probe.planted.plant import plant

    return cache(lambda name: plant(name, tmp_path_factory.mktemp("planted") / name))


@pytest.fixture(scope="module")
def model(planted: Callable[[str], Path]) -> Path:
    return planted("conflater")


@pytest.fixture(scope="module")
def loaded(one_thread: None) -> Callable[[str], Any]:
    from referent_probe.models.load import load_model

    return cache(lambda folder: load_model(folder, device="cpu"))


@pytest.fixture
def command(
    loaded: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command of `referent-probe`, or a script, in this process: exit status, stdout, stderr."""
    import referent_probe.models.load as load

    monkeypatch.setattr(load, "load_model", lambda model, **_: loaded(str(model)))

    def command(name: str | Path, *arguments: object) -> tuple[int, str, str]:
        script = isinstance(name, Path)
        monkeypatch.setattr(sys, "argv", [*([str(name)] if script else ["referent-probe", name]), *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(name), run_name="__main__") if script else cli.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return command


FIRST = {
    "survey": ["--flow-pairs", "0", "--leading", "0"],
    "patch": [],
    "flow": [],
    "knockout": ["--window", "5", "--mode", "after"],
    "ablate": ["--kinds", "zero,mean", "--heads", "4.0"],
    "head": ["4.0", "--path-pairs", "0"],
    "circuit": ["--heads", "4.0", "--top", "1"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_the_summary_alone(name: str, model: Path, command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    status, printed, err = command(name, model, *FIRST[name], "--pairs", 1, "--order", "mf", "--out", out, "--json")
    assert status == 0, err
    summary = json.loads(printed)
    assert summary == json.loads((out / "summary.json").read_text())
    assert (summary["job"], summary["n_contrasts"]) == (name, 2)
    assert "2 contrasts: about the work of" in err
    assert (out / "manifest.json").is_file()


def test_what_is_printed_once_and_again(
    model: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    options = ("patch", model, "--pairs", 1, "--order", "mf", "--out", tmp_path / "run")
    status, printed, err = command(*options)
    assert status == 0, err
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0] == ["cell", "where", "denoise", "p", "noise", "p"]
    assert lines[1][:3] == ["4.0", "target-slot", "+4.012"]
    assert "…" not in printed
    text = " ".join(printed.split())
    assert "Total effect of a feminine instead of a masculine prime: 4.01 logits" in text
    assert "forward passes of one prompt" in text
    assert f"Files: {tmp_path}/run/summary.json, *.parquet, manifest.json" in text
    status, again, err = command(*options, "--csv")
    assert (status, "forward passes" in err) == (0, False)
    assert "holds this run already, complete; nothing was computed." in " ".join(again.split())
    assert len(pd.read_csv(tmp_path / "run" / "interventions.csv")) == 40
    assert command(*options, "--quiet") == (0, "", "")
    status, _, err = command("patch", model, "--pairs", 1, "--order", "fm", "--out", tmp_path / "run", "--quiet")
    assert (status, err.count("\n")) == (2, 1)
    assert "another configuration (order: 'mf' there, 'fm' now)" in err


def test_ctrl_c_says_that_the_run_goes_on(
    model: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import referent_probe.mechanism.cells as cells

    real, calls = cells.run_cells, []

    def interrupted(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(cells, "run_cells", interrupted)
    options = ("patch", model, "--pairs", 1, "--order", "mf", "--out", tmp_path / "run")
    status, printed, err = command(*options)
    assert (status, printed) == (130, "")
    assert err.endswith("stopped; what is finished is kept, and the same command goes on from there\n")
    status, _, err = command(*options)
    assert (status, len(calls)) == (0, 3)
    assert "going on: patch of 1 of 2 contrasts is done already" in err


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_full_disk_at_the_end_of_a_pipe_says_where_the_files_are(
    option: Sequence[str], model: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        status, _, err = command("patch", model, "--pairs", 1, "--order", "mf", "--out", tmp_path / "run", *option)
    assert status == 1
    last = err.splitlines()[-1]
    assert last.startswith("error: cannot write to standard output (No space left on device)")
    assert last.endswith(f"the run is complete, and its files are in {str(tmp_path / 'run')!r}")


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    status, printed, err = command(name, "--help")
    assert (status, err) == (0, "")
    for word in ("--pairs", "--order", "--out", "--seed", "--smallest-share", "--json", "--quiet", "Packaged model"):
        assert word in printed
    own = {"head": "--path-pairs", "survey": "--flow-pairs", "flow": "--direction", "circuit": "--top"}
    assert own.get(name, {"patch": "--where", "knockout": "--window", "ablate": "--kinds"}.get(name, "")) in printed


BAD: list[tuple[str, Sequence[str], str]] = [
    (
        "patch",
        ["--where", "nonsense"],
        "--where 'nonsense' names no place: give target-slot, another span (instruction",
    ),
    ("patch", ["--where", ""], "--where '' names no place"),
    ("patch", ["--where", "1.5"], "--where '1.5' names no place"),
    ("patch", ["--heads", "20"], "'20' names no head: write LAYER.HEAD, as in 20.3,26.0"),
    ("patch", ["--heads", ""], "'' names no head: write LAYER.HEAD, as in 20.3,26.0"),
    ("patch", ["--heads", "1.0,,2.0"], "'' names no head"),
    ("patch", ["--heads", "9" * 5000 + ".0"], "999999…' names no head"),
    ("patch", ["--target", "resid_mid"], "'resid_mid' is not one of"),
    ("patch", ["--direction", "up"], "'up' is not one of"),
    ("patch", ["--order", "ff"], "'ff' is not one of"),
    ("patch", ["--pairs", "0"], "cannot draw 0 pairs"),
    ("patch", ["--pairs", "-2"], "cannot draw -2 pairs"),
    ("patch", ["--seed", "-1"], "--seed -1 is out of range"),
    ("patch", ["--smallest-share", "2"], "--smallest-share 2.0 is not a share; give a number from 0 to below 1"),
    ("patch", ["--smallest-share", "nan"], "--smallest-share nan is not a share"),
    ("patch", ["--stimuli", "none.tsv"], "none.tsv"),
    ("patch", ["--prompts", "none.toml"], "none.toml"),
    ("patch", ["--config", "mine.toml"], "unknown key 'wehre'; known are"),
    ("patch", ["--config", "model.toml"], "'model' is given on the command line, not here"),
    ("patch", ["--out", "taken"], "files that are not a run's"),
    ("patch", ["stray"], "unexpected extra argument(s) (stray)"),
    ("flow", ["--direction", "across"], "'across' is not one of"),
    ("knockout", ["--window", "-1"], "--window -1 is below 0; give a number of layers, or 0 for a fifth of them"),
    ("knockout", ["--window", "two"], "'two'"),
    ("knockout", ["--heads", "4"], "'4' names no head"),
    ("knockout", ["--queries", "all"], "'all' is not one of"),
    ("ablate", ["--kinds", "zero"], "--kinds 'zero': give at least two of zero, mean, resample, unprimed, null"),
    ("ablate", ["--kinds", "zero,zero"], "--kinds 'zero': give at least two"),
    ("ablate", ["--kinds", ""], "--kinds '': give at least two"),
    ("ablate", ["--kinds", "zero,noise"], "--kinds 'noise' is unknown; give some of zero, mean"),
    ("ablate", ["--heads", "4.x"], "'4.x' names no head"),
    ("head", ["20"], "'20' names no head: write LAYER.HEAD, as in 26.0"),
    ("head", ["1.0,2.0"], "'1.0,2.0' names no head"),
    ("head", ["4.0", "--path-pairs", "-1"], "--path-pairs -1 is below 0; give 0 or more"),
    ("head", [], "Missing argument 'head'"),
    ("circuit", ["--top", "abc"], "--top 'abc': give whole numbers with commas between, as in 1,2,5,10"),
    ("circuit", ["--top", ""], "--top '': give numbers from 1 on, as in 1,2,5,10"),
    ("circuit", ["--top", "0,1"], "--top '0,1': give numbers from 1 on"),
    ("circuit", ["--largest", "0"], "--largest 0 is below 1; give 1 or more"),
    ("circuit", ["--heads", "4"], "'4' names no head"),
    ("survey", ["--flow-pairs", "-2"], "--flow-pairs -2 is below 0; give 0 or more"),
    ("survey", ["--leading", "-1"], "--leading -1 is below 0; give 0 or more"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), BAD, ids=[f"{n} {' '.join(a)}"[:40] for n, a, _ in BAD])
def test_bad_input_is_one_line_with_status_2_before_any_model(
    name: str, arguments: Sequence[str], message: str, model: Path, command: Command, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    import referent_probe.models.load as load

    (tmp_path / "mine.toml").write_text("wehre = 'all'\n")
    (tmp_path / "model.toml").write_text("model = 'all'\n")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(load, "load_model", lambda *a, **k: pytest.fail("the model was loaded"))
    status, out, err = command(name, model, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert message in err
    assert len(err) < 500
    assert not (tmp_path / "runs").exists()


NOT_THERE: list[tuple[str, Sequence[str], str]] = [
    ("patch", ["--heads", "0.1,9.0"], "head 9.0 is not there: the model has layers 0 to 4 with heads 0 to 3"),
    ("patch", ["--where", "500"], "has no position 500: its"),
    ("patch", ["--where", "-500"], "has no position -500: its"),
    ("patch", ["--where", "prefill", "--prompts", "plain.toml"], "has no span 'prefill'; it has instruction, "),
    ("patch", ["--where", "instruction"], "--where 'instruction' lies before the first difference"),
    ("patch", ["--where", "2", "--target", "resid"], "--where '2' lies before the first difference"),
    ("knockout", ["--window", "6"], "--window 6 is more than the model's 5 layers; give fewer"),
    ("knockout", ["--heads", "4.4"], "head 4.4 is not there: the model has layers 0 to 4 with heads 0 to 3"),
    ("ablate", ["--heads", "5.0"], "head 5.0 is not there"),
    ("head", ["26.0"], "head 26.0 is not there"),
    ("circuit", ["--heads", "4.0,7.1"], "head 7.1 is not there"),
    ("circuit", ["--top", "21"], "--top '21': the model has 20 heads; give a number from 1 to 20"),
]


@pytest.mark.parametrize(
    ("name", "arguments", "message"), NOT_THERE, ids=[f"{n} {' '.join(a)}"[:40] for n, a, _ in NOT_THERE]
)
def test_what_the_model_or_prompt_lacks_is_one_line_with_status_2_before_any_work(
    name: str, arguments: Sequence[str], message: str, model: Path, command: Command, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    import referent_probe.mechanism.ablation_values as values
    import referent_probe.mechanism.cells as cells

    wording = (model / "prompts.toml").read_text()
    assert "prefill = 'The word is \"'" in wording
    (tmp_path / "plain.toml").write_text(wording.replace("prefill = 'The word is \"'", "prefill = ''"))
    monkeypatch.chdir(tmp_path)
    for module in (cells, values):
        monkeypatch.setattr(module, "record", lambda *a, **k: pytest.fail("a prompt was run"))
    options = (*arguments, "--pairs", "1", "--out", tmp_path / "run", "--quiet")
    status, out, err = command(name, model, *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert message in err
    assert not (tmp_path / "run" / "units").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_model_is_refused(name: str, command: Command, tmp_path: Path) -> None:
    head = ["4.0"] if name == "head" else []
    status, out, err = command(name, "a b", *head, "--out", tmp_path / "run", "--quiet")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "unknown model 'a b'" in err


def test_a_refused_start_does_not_take_the_folder(model: Path, command: Command, tmp_path: Path) -> None:
    options = ("--pairs", 1, "--order", "mf", "--out", tmp_path / "run", "--quiet")
    assert command("patch", model, "--heads", "9.9", *options)[0] == 2
    assert command("patch", model, *options) == (0, "", "")


class TestExperiments:
    def test_attribute_attention(self, model: Path, command: Command, tmp_path: Path) -> None:
        options = ("--model", model, "--pairs", 1, "--order", "mf", "--out", tmp_path / "run")
        assert command(EXPERIMENTS / "attribute_attention.py", *options, "--quiet") == (0, "", "")
        summary = json.loads((tmp_path / "run" / "summary.json").read_text())
        assert (summary["job"], summary["flow"], summary["leading_heads_by_span"]) == ("survey", [], [])
        carrier = [row for row in summary["attribution_by_span"] if (row["layer"], row["head"]) == (4, 0)]
        assert max(carrier, key=lambda row: row["attribution_mean"])["span"] == "prime_after_pronoun"

    def test_knock_out_priming_pronoun(self, model: Path, command: Command, tmp_path: Path) -> None:
        options = ("--model", model, "--pairs", 1, "--order", "mf", "--window", 5, "--out", tmp_path / "run")
        assert command(EXPERIMENTS / "knock_out_priming_pronoun.py", *options, "--quiet") == (0, "", "")
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["job"] == "knockout"

    def test_compare_models(self, model: Path, command: Command, tmp_path: Path) -> None:
        script, out = EXPERIMENTS / "compare_models.py", tmp_path / "both"
        options = ("--pairs", 1, "--flow-pairs", 0, "--out", out, "--quiet")
        assert command(script, model, model, *options) == (0, "", "")
        surveys = sorted((tmp_path / "both_surveys").iterdir())
        assert [folder.name for folder in surveys] == ["1_conflater", "2_conflater"]
        summary = json.loads((out / "summary.json").read_text())
        named = [f"conflater ({folder.name})" for folder in surveys]
        assert [row["model"] for row in summary["models"]] == named
        assert [row["spearman"] for row in summary["agreement"]] == pytest.approx([1, 1])
        status, printed, err = command(script, *surveys, "--out", tmp_path / "again")
        assert (status, err) == (0, "")
        assert [line.split("  ")[0] for line in printed.splitlines()[1:3]] == named
        status, _, err = command(script, surveys[0], "--out", tmp_path / "alone")
        assert (status, err.count("\n")) == (2, 1)
        assert "1 survey given; give at least two to compare" in err

    @pytest.mark.parametrize("name", ["attribute_attention", "knock_out_priming_pronoun", "compare_models"])
    def test_help_and_bad_input(self, name: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "200")
        status, printed, err = command(EXPERIMENTS / f"{name}.py", "--help")
        assert (status, err, "--pairs" in printed) == (0, "", True)
        status, out, err = command(EXPERIMENTS / f"{name}.py", "--pairs", "many")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("error: ")
