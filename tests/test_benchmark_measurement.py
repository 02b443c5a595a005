"""The measurement benchmark runs, all contenders agree, and its last line is JSON; on a tiny model, where ratios mean
nothing."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


def test_all_contenders_give_the_same_numbers(
    save_tiny: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "measurement.py"
    model = save_tiny(tmp_path / "model", "llama", 2)
    options = {"model": model, "pairs": 1, "settings": 2, "draws": 20, "draw-cells": 2, "at-once": 16, "threads": 1}
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", [str(script), *given])
    monkeypatch.syspath_prepend(script.parent)  # as for a script that is run
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(script), run_name="__main__")
    assert not stop.value.code
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["prompts"] == 8
    assert result["largest_z"] < 5
    contenders = {row["contender"]: row for row in result["contenders"]}
    # What is not installed says so; the others agree.
    for name in ("ours", "plain loop", "minicons, next word", "minicons, conditional", "lm-eval"):
        row = contenders[name]
        if row["seconds"] is None:
            assert row["note"].startswith("not installed: pip install")
        else:
            assert row["max_abs_diff"] < 1e-4
    assert contenders["ours"]["tokens"] < contenders["plain loop"]["tokens"]
    for name in ("ours", "plain loop", "ours, whole answers", "generate", "generate, prompt read once"):
        assert contenders[name]["seconds"] > 0
        assert contenders[name]["peak_mib"] >= contenders[name]["loaded_mib"] > 0
    assert [goal["met"] is None for goal in result["goals"]] == [
        False,
        False,
        *[contenders["lm-eval"]["note"] != ""] * 2,
    ]
