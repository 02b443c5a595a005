"""experiments/sampling_noise.py from end to end, as a user runs it."""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.text import Text

from referent_probe.analysis.sampling_noise import DRAWS, boundary_noise
from referent_probe.figures_noise import noise_against_draws
from referent_probe.randomness import generator
from tests.measured import write_run

SCRIPT = Path(__file__).parents[1] / "experiments" / "sampling_noise.py"
QUICK = ("--simulations", 40, "--data-sets", 3)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the script in this process: exit status, stdout, stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, (*QUICK, *arguments))])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


def measured(folder: Path, settings: tuple[str, ...] = ("c0", "cf", "cm")) -> Path:
    def p(template: Any, setting: str, order: str) -> float:
        return float(generator(0, template.id, setting, order).random())

    return write_run(folder, p, n_pairs=6, settings=settings, parts=())


def test_without_a_run_both_boundaries_are_shown(run_script: Run) -> None:
    status, out, err = run_script()
    assert status == 0, err
    assert "equal rates: pairs with dC <= 0 that are called" in out
    assert "generic boundary: pairs with dC <= 0 that are called" in out
    assert "30.3 % of option orders and 51.5 % of unions of two" in " ".join(out.split())
    assert "simulating" in err or "draws a cell simulated" in err


def test_it_needs_no_torch() -> None:
    code = (
        "import sys, runpy\n"
        f"sys.argv = ['noise', '--simulations', '2', '--quiet']\n"
        "try:\n"
        f"    runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code\n"
        "assert not {'torch', 'transformers', 'transformer_lens'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_run_is_the_truth_and_the_folder_holds_what_is_promised(run_script: Run, tmp_path: Path) -> None:
    folder = tmp_path / "noise"
    arguments = ("--run", measured(tmp_path / "run"), "--out", folder)
    status, out, err = run_script(*arguments)
    assert status == 0, err
    for name in ("noise.csv", "summary.json", "manifest.json", "figures/sampling_noise.png"):
        assert (folder / name).is_file()
    table = pd.read_csv(folder / "noise.csv")
    ours = table[table["truth"] == "synthetic"]
    assert set(ours["option_order"]) == {"mf", "fm", "union"}
    assert set(ours["call"]) == {"plain", "honest", "honest_bh"}
    assert set(ours["draws"]) == set(DRAWS)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["run"]["pairs"] == 6
    assert "…" not in out
    shown = [" ".join(line.split()) for line in out.splitlines()]
    titles = {"false_calls": "pairs with dC <= 0 that are called", "missed": "pairs with dC > 0 that are not called"}
    titles["false_among_calls"] = "calls that are false"
    for quantity, its in ours.groupby("quantity"):
        below = shown[shown.index(f"synthetic: {titles[quantity]}") :]
        for (draws, order), rows in its.groupby(["draws", "option_order"]):
            cells = [
                f"{100 * row.share:.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}]"
                for call in ("plain", "honest", "honest_bh")
                for row in rows[rows["call"] == call].itertuples()
            ]
            assert f"{draws} {order} {rows['of'].iloc[0]} {' '.join(cells)}" in below[: 2 + len(its)]
    assert " ".join(summary["in_words"].split()) in " ".join(out.split())

    before = (folder / "manifest.json").read_bytes()
    status, out, err = run_script(*arguments, "--json")
    assert (status, json.loads(out)) == (0, summary)
    status, out, err = run_script(*arguments)
    assert status == 0
    assert "complete; nothing was computed" in out
    assert (folder / "manifest.json").read_bytes() == before
    status, out, err = run_script("--out", folder)
    assert (status, out) == (2, "")
    assert "holds a run with another configuration" in err


def test_foreign_folders_are_refused(run_script: Run, tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("mine")
    status, out, err = run_script("--out", tmp_path)
    assert (status, out) == (2, "")
    assert "diary.txt" in err
    assert [entry.name for entry in tmp_path.iterdir()] == ["diary.txt"]


def test_anything_else_than_a_measurement_is_refused_before_work_begins(run_script: Run, tmp_path: Path) -> None:
    noise, unprimed = tmp_path / "noise", measured(tmp_path / "unprimed", ("c0", "n1"))
    assert run_script("--out", noise, "--quiet")[0] == 0
    unfinished = write_run(tmp_path / "unfinished", lambda *_: 0.5, n_pairs=1, finished=False)
    for run, message in (
        (tmp_path / "nowhere", "is no run folder"),
        (noise, "give a folder that `referent-probe measure` has written"),
        (unfinished, "is not finished"),
        (unprimed, "has no cf and no cm"),
    ):
        status, out, err = run_script("--run", run, "--out", tmp_path / "out")
        assert (status, out) == (2, "")
        assert err.startswith(f"error: {str(run)!r}") or "the measurement in" in err
        assert message in err
        assert not (tmp_path / "out").exists()


def test_options_are_checked(run_script: Run) -> None:
    status, out, err = run_script("--simulations", 0)
    assert (status, out) == (2, "")
    assert "--simulations" in err


# The figure


def test_the_figure_has_a_panel_for_every_truth_and_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    noise = boundary_noise(n_simulations=20, draws=[20, 200])
    figure = noise_against_draws(noise, 0.05)
    assert [ax.get_title() for ax in figure.axes] == [
        "equal rates:\nfalse contextual calls\nn = 20 simulated pairs",
        "generic boundary:\nfalse contextual calls\nn = 20 simulated pairs",
    ]
    words = " ".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))
    for phrase in (
        "draws a cell",
        "share of pairs",
        "level 5%",
        "honest test; one option order",
        "200",
        "95 % interval",
    ):
        assert phrase in words
    lines = {line.get_label(): line for line in figure.axes[0].containers}
    plain = noise[(noise["truth"] == "equal rates") & (noise["call"] == "plain") & (noise["option_order"] == "union")]
    drawn = lines["plain call (dC of frequencies > 0); either of two orders"].lines[0]
    assert drawn.get_xdata().tolist() == pytest.approx([20, 200], rel=0.3)
    across = {round(float(line.lines[0].get_xdata()[0]), 3) for line in lines.values()}
    assert len(across) == len(lines) == 4  # no marker covers another
    assert drawn.get_ydata() == pytest.approx(plain["share"].to_numpy())
    assert list(tmp_path.iterdir()) == []
