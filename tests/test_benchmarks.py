"""The benchmarks run, and their last line is JSON; on a tiny model, where ratios mean nothing."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


def test_patching_agrees_with_transformer_lens_and_stays_near_the_floor(
    one_thread: None,
    save_tiny: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "patching.py"
    model = save_tiny(tmp_path / "model", "llama", 2)
    monkeypatch.setattr(sys, "argv", [str(script), "--model", str(model), "--cells", "4", "--items", "1"])
    monkeypatch.syspath_prepend(str(script.parent))
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(script), run_name="__main__")
    assert not stop.value.code
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert [sweep["sweep"] for sweep in result["sweeps"]] == [
        "heads, target slot",
        "heads, all positions",
        "residual, layer x position",
    ]
    for sweep in result["sweeps"]:
        assert sweep["max_abs_diff"] < 1e-4
        assert sweep["token_blocks_over_floor"] >= 1
        assert sweep["transformer_lens_cells_run"] == 4
    gradients = result["gradients"]
    assert gradients["items"] == 2
    assert 0 <= gradients["missed"] <= 1
    assert -1 <= gradients["rank_correlation"] <= 1
    assert gradients["gradient_seconds"] > 0
