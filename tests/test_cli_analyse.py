"""The command `analyse`: what is printed, where, and with which status."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from referent_probe import cli
from referent_probe.cli_analyse import analyse
from tests.measured import few_resamples_in, write_run


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    few_resamples_in(monkeypatch)
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def p(template: object, setting: str, order: str) -> float:
        return {"cf": 0.8, "cm": 0.3}.get(setting, 0.5) + (order == "mf") * 0.1

    settings = ("c0", "cf", "cm", "n1")
    return write_run(
        tmp_path_factory.mktemp("runs") / "run", p, n_pairs=4, settings=settings, temperatures=(0.5,), parts=("joint",)
    )


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """Exit status of the command."""
    monkeypatch.setattr(sys, "argv", ["analyse", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.run_command(analyse)
    return int(stop.value.code or 0)


def test_tables_and_the_paragraph(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, folder) == 0
    seen = capsys.readouterr()
    assert seen.err == "synthetic: 8 templates, 4 pairs\n"
    lines = [line.split() for line in seen.out.splitlines()]
    assert lines[2] == ["c0", "0.600", "0.500", "0.900", "-", "-", "-"]
    # KL(0.9 || 0.6) = 0.327 and KL(0.8 || 0.5) = 0.278 bits.
    assert ["cf", "0.900", "0.800", "0.900", "0.302", "0.302"] in [line[:6] for line in lines]
    # logit(0.9) - logit(0.6) = 1.79 and logit(0.8) - logit(0.5) = 1.39: half of it in logits at T = 1.
    (cf,) = (line for line in lines if line[:2] == ["cf", "+0.79"])
    assert (cf[3], cf[-1]) == ("0%", "different")
    (n1,) = (line for line in lines if line[:2] == ["n1", "+0.00"])
    assert (n1[3], n1[-1]) == ("100%", "equivalent")
    for estimator in "joint", "self_primed", "steered", "released", "printed", "joint_rank_4":
        assert sum(line[:1] == [estimator] and line[-1] == "4" for line in lines) == 1
    assert "synthetic follows the gender" in " ".join(seen.out.split())
    assert "summary.json, *.parquet" in seen.out
    assert run(monkeypatch, folder, "--csv") == 0
    assert "holds this analysis already, complete; nothing was computed" in capsys.readouterr().out
    assert (folder / "analysis" / "quantities.csv").is_file()


def test_two_models_are_set_beside_each_other(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def opposite(template: object, setting: str, order: str) -> float:
        return {"cf": 0.3, "cm": 0.8}.get(setting, 0.5) + (order == "mf") * 0.1

    settings = ("c0", "cf", "cm")
    other = write_run(
        tmp_path / "other", opposite, model="opposite", n_pairs=4, settings=settings, temperatures=(0.5,), parts=()
    )
    assert run(monkeypatch, folder, other, "--out", tmp_path / "out", "--quiet") == 0
    assert run(monkeypatch, folder, other, "--out", tmp_path / "out") == 0
    out = " ".join(capsys.readouterr().out.split())
    parts = ["Models beside each other: prime", "stereotype", "On 8 templates (4 pairs", "opposite opposes the gender"]
    parts += ["The 2 models beside each other", "followed by synthetic, opposed by opposite", "in cf - cm (synthetic"]
    places = [out.index(part) for part in parts]
    assert places == sorted(places)
    assert "synthetic above opposite" in out
    assert "contextual (self_primed, dC > 0.01" in out  # joint was measured in one of the two


def test_json_and_quiet(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(monkeypatch, folder, "--out", out, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert run(monkeypatch, folder, "--out", out, "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "summary.json").read_text())


def test_options_from_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "analyse.toml"
    config.write_text(f'margin = 0.5\nas-released = true\nratings = "exact"\nout = "{(tmp_path / "out").as_posix()}"\n')
    assert run(monkeypatch, folder, "--config", config, "--json") == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["margin"], settings["as_released"]) == (0.5, True)


def test_mistakes_have_one_line_and_status_2(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path / "nowhere") == 2
    assert run(monkeypatch, folder, "--margin", "-1") == 2
    assert run(monkeypatch, folder, folder) == 2
    assert run(monkeypatch) == 2
    config = tmp_path / "analyse.toml"
    config.write_text('runs = ["a"]')
    assert run(monkeypatch, folder, "--config", config) == 2
    assert run(monkeypatch, folder, "--seed", "-1") == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 6
    assert "is no run folder" in errors[0]
    assert errors[1] == "error: --margin -1.0 is no margin: give a number of logits above 0"
    assert "a run is given twice" in errors[2]
    assert "runs" in errors[3].lower()
    assert errors[4].endswith("'runs' is given on the command line, not here")
    assert errors[5] == "error: --seed -1 is out of range: give a number from 0 to 4294967295"
