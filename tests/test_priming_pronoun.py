"""The main job from end to end, on a tiny model, as a user runs it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "experiments" / "patch_priming_pronoun.py"
TABLES = ("contrasts", "heads", "flow", "self_checks", "head_effects", "flow_effects")
WINOPRON = ROOT.parent / "shared" / "data" / "winopron-data.zip"


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"), "llama", 2)


@pytest.fixture
def run_script(one_thread: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the script in this process: exit status, stdout, stderr."""
    import runpy

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


def start(*arguments: object) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_run_writes_what_it_promises(run_script: Any, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    status, printed, err = run_script("--model", model, "--pairs", 7, "--flow-pairs", 1, "--out", out, "--csv")
    assert status == 0, err
    assert "Leading heads at the target slot" in printed
    assert "On 7 pairs from 7 occupations (28 contrasts)" in printed.replace("\n", " ")
    assert "28 contrasts to patch" in err
    assert "checked: bridge = Hugging Face" in " ".join(err.split())
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["n_pairs"], summary["n_contrasts"], len(summary["heads"])) == (7, 28, 8)
    assert summary["self_check"]["max_abs_diff"] <= 1e-4
    assert {k: v["n_cells"] for k, v in summary["self_check"]["by_sweep"].items()} == {
        "denoise": 8,
        "noise": 8,
        "flow": 8,
    }
    assert {p.name for p in (out / "figures").iterdir()} == {
        f"{name}.{ending}"
        for name in ("head_map", "attention_by_layer", "pair_effects", "flow_map")
        for ending in ("png", "pdf")
    }
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["model"]["identity"].startswith("sha256:")
    assert manifest["load_checks"]["bridge_against_hugging_face"] <= 1e-4
    assert manifest["versions"]["torch"]
    for name in TABLES:
        table = pd.read_parquet(out / f"{name}.parquet")
        assert len(table) == len(pd.read_csv(out / f"{name}.csv"))
        assert f"{name}.parquet" in manifest["sha256"]
    contrasts = pd.read_parquet(out / "contrasts.parquet")
    named = ["p_feminine", "p_masculine", "p_they", "p_other"]
    assert contrasts[[f"{name}_cf" for name in named]].sum(axis=1).to_numpy() == pytest.approx(1.0)
    assert contrasts["total_effect"].to_numpy() == pytest.approx(
        (contrasts["log_odds_cf"] - contrasts["log_odds_cm"]).to_numpy()
    )

    status, again, _ = run_script("--model", model, "--pairs", 7, "--flow-pairs", 1, "--out", out, "--csv")
    assert status == 0
    assert "complete; nothing was computed" in " ".join(again.split())
    status, _, err = run_script("--model", model, "--pairs", 8, "--flow-pairs", 1, "--out", out)
    assert status == 2
    assert "another configuration (pairs:" in err
    assert json.loads((out / "summary.json").read_text()) == summary


def test_json_and_quiet(run_script: Any, model: Path, tmp_path: Path) -> None:
    options = ("--model", model, "--pairs", 1, "--flow-pairs", 0, "--out", tmp_path / "run")
    status, printed, _ = run_script(*options, "--json")
    assert status == 0
    summary = json.loads(printed)
    assert summary["total_effect"]["ci95"] == [None, None]
    assert all(head["carrier"] == "none" for head in summary["heads"])
    assert run_script(*options, "--quiet") == (0, "", "")


def test_a_config_file_gives_options_and_the_command_line_overrides(
    run_script: Any, model: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'model = "{model}"\npairs = 2\nflow-pairs = 0\nseed = 3\n')
    status, _, err = run_script("--config", config, "--pairs", 1, "--out", tmp_path / "run", "--quiet")
    assert status == 0, err
    kept = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (kept["seed"], len(kept["pairs"])) == (3, 1)


def interrupt_at_contrast(n: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Ctrl-C in the n-th contrast that is patched; the list grows by one with each."""
    import referent_probe.mechanism.patching as patching

    real, calls = patching.patch_contrast, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == n:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(patching, "patch_contrast", interrupted)
    return calls


def test_an_interrupt_says_that_the_run_goes_on_and_it_does(
    run_script: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = interrupt_at_contrast(3, monkeypatch)
    options = ("--model", model, "--pairs", 1, "--flow-pairs", 0, "--out", tmp_path / "run")
    status, _, err = run_script(*options)
    assert (status, "the same command goes on from there" in err) == (130, True)
    status, _, err = run_script(*options)
    assert (status, "going on: 2 of 4 contrasts" in err, len(calls)) == (0, True, 5)


def test_killed_and_resumed_equals_undisturbed(run_script: Any, model: Path, tmp_path: Path) -> None:
    options = ("--model", model, "--pairs", 12, "--flow-pairs", 2, "--seed", 4)
    killed = 0
    for delay in (0.0, 0.3, 0.8):
        process = start(*options, "--out", tmp_path / "killed")
        deadline = time.monotonic() + 60
        units = tmp_path / "killed" / "units"
        before = len(list(units.glob("*"))) if units.is_dir() else 0
        while process.poll() is None and time.monotonic() < deadline:
            if units.is_dir() and len(list(units.glob("*"))) > before:
                time.sleep(delay)
                break
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
    assert killed
    resumed = start(*options, "--out", tmp_path / "killed")
    _, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, err
    whole = start(*options, "--out", tmp_path / "whole")
    _, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err
    for name in TABLES:
        assert (tmp_path / "killed" / f"{name}.parquet").read_bytes() == (
            tmp_path / "whole" / f"{name}.parquet"
        ).read_bytes(), name


BAD: list[tuple[Sequence[str], str]] = [
    (["--pairs", "0"], "cannot draw 0 pairs from the 180 of 'builtin'"),
    (["--pairs", "181"], "cannot draw 181 pairs from the 180 of 'builtin'"),
    (["--pairs", "many"], "'many'"),
    (["--pairs"], "Option '--pairs' requires an argument"),
    (["--csv=3"], "Option '--csv' does not take a value: '3' was given"),
    (["stray", "words"], "unexpected extra argument(s) (stray words)"),
    (["--pairs", "9" * 400], "cannot draw 99999999999999999999… pairs"),
    (["--seed", "-1"], "--seed -1 is out of range: give a number from 0 to 4294967295"),
    (["--seed", "9" * 400], "--seed 99999999999999999999… is out of range"),
    (["--stimuli", "{tmp}/\udcff.tsv"], "\\udcff.tsv"),
    (["--flow-pairs", "-1"], "--flow-pairs -1"),
    (["--smallest-share", "2"], "--smallest-share 2.0"),
    (["--model", "no-such-folder/model.gguf"], "no model at 'no-such-folder/model.gguf'"),
    (["--model", "a b"], "unknown model 'a b'"),
    (["--revision", "main"], "revision 'main' was given"),
    (["--stimuli", "{tmp}/none.tsv"], "none.tsv"),
    (["--stimuli", "{tmp}/junk.tsv"], "junk.tsv"),
    (["--stimuli", "{tmp}"], "folder"),
    (["--prompts", "{tmp}/none.toml"], "none.toml"),
    (["--prompts", "{tmp}/no_slot.toml"], "passage"),
    (["--prompts", "{tmp}/pipe"], "not a regular file"),
    (["--prompts", "/dev/zero"], "not a regular file"),
    (["--out", "{tmp}/foreign"], "files that are not a run's"),
    (["--out", "{tmp}/junk.tsv"], "is a file"),
    (["--out", "{tmp}/junk.tsv/run"], "cannot write to"),
    (["--dtype", "int8"], "Invalid value for '--dtype': 'int8' is not one of"),
    (["--config", "{tmp}/none.toml"], "none.toml"),
    (["--config", "{tmp}/odd.toml"], "unknown key 'paris'"),
    (["--config", "{tmp}/pipe"], "not a regular file"),
    (["--config", "/dev/zero"], "not a regular file"),
    (["--config", "{tmp}/deep.toml"], "nested too deep"),
    (["--config", "{tmp}/large.toml"], "is larger than 1000000 bytes"),
    (["--no-such-option"], "No such option: --no-such-option; see `"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[ascii(" ".join(a))[1:40] for a, _ in BAD])
def test_bad_input_is_one_line_with_status_2_before_any_model(
    arguments: Sequence[str], message: str, run_script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "junk.tsv").write_bytes(b"\x00\x01\x02 no table")
    (tmp_path / "no_slot.toml").write_text('system = ""\nuser = "{option_1} {option_2}"\nprefill = ""\n')
    (tmp_path / "odd.toml").write_text("paris = 3\n")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    (tmp_path / "large.toml").write_text("#" * 1_000_001)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    import referent_probe.models.load as load

    monkeypatch.setattr(load, "load_model", lambda *a, **k: pytest.fail("the model was loaded"))
    status, out, err = run_script(*(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert status == 2
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in out + err


CONFIGS = {
    "pairs = true": "pairs = true is of the wrong kind; give a whole number",
    "pairs = 1.5": "pairs = 1.5 is of the wrong kind; give a whole number",
    "pairs = '3'": "pairs = '3' is of the wrong kind; give a whole number, without quotation marks",
    "pairs = 0x" + "f" * 9_000: "pairs = a huge int is of the wrong kind",
    "model = ['a']": "model = ['a'] is of the wrong kind; give text",
    "model = 3": "model = 3 is of the wrong kind; give text",
    "model = 1979-05-27": "is of the wrong kind; give text",
    'out = "a\\u0000b"': "is of the wrong kind; give text",
    "csv = 1": "csv = 1 is of the wrong kind; give true or false",
    "smallest-share = '1 %'": "smallest-share = '1 %' is of the wrong kind; give a number",
    "smallest-share = true": "smallest-share = true is of the wrong kind; give a number",
    "dtype = 'int8'": "dtype = 'int8' is of the wrong kind; give one of 'float32'",
    "[flow-pairs]": "flow-pairs = {} is of the wrong kind; give a whole number",
    "as_json = true": "unknown key 'as_json'; known are csv, device, dtype, flow-pairs, json,",
    "config = 'x'": "unknown key 'config'",
    "flow-pairs = 0\nflow_pairs = 1": "key 'flow_pairs' stands there twice",
}


@pytest.mark.parametrize(("text", "message"), CONFIGS.items(), ids=[text[:30] for text in CONFIGS])
def test_a_config_value_is_of_its_options_kind(text: str, message: str, run_script: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text)
    status, out, err = run_script("--config", tmp_path / "mine.toml")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "mine.toml" in err
    assert message in err


def test_config_keys_are_the_options_names(run_script: Any, model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        f'model = "{model}"\npairs = 1\nflow-pairs = 0\njson = true\nquiet = false\nsmallest-share = 0.25\n'
        f'dtype = "float32"\nout = "{tmp_path / "run"}"\n'
    )
    status, printed, err = run_script("--config", tmp_path / "mine.toml")
    assert status == 0, err
    assert json.loads(printed)["n_pairs"] == 1
    assert json.loads((tmp_path / "run" / "config.json").read_text())["smallest_share"] == 0.25


def test_a_narrow_terminal_drops_nothing(
    run_script: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    options = ("--model", model, "--pairs", 7, "--flow-pairs", 0, "--out", tmp_path / "[bold]:bomb:")
    status, printed, err = run_script(*options)
    assert status == 0, err
    (line,) = [line for line in printed.splitlines() if line.startswith("head ") and "denoising" in line]
    header = line.replace("via prime", "via-prime").split()
    assert header == ["head", "denoising", "p", "noising", "p", "attention", "DLA", "via-prime", "carrier"]
    rows = [line.split() for line in printed.splitlines() if re.match(r"\d+\.\d+ ", line)]
    assert rows
    assert all(len(row) == len(header) for row in rows)
    assert "…" not in printed.split("In logits")[0]
    assert "[bold]:bomb:/summary.json" in printed


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_full_disk_at_the_end_of_a_pipe_says_where_the_files_are(
    option: Sequence[str], model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, str(SCRIPT), "--model", model, "--pairs", "1", "--flow-pairs", "0", "--out", out]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*map(str, command), *option], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: cannot write to standard output (No space left on device)")
    assert last.endswith(f"the run is complete, and its files are in {str(out)!r}")
    assert "Traceback" not in done.stderr
    assert (out / "manifest.json").is_file()


def test_a_device_or_model_of_the_wrong_kind_is_refused(run_script: Any, model: Path, tmp_path: Path) -> None:
    status, _, err = run_script("--model", model, "--device", "abacus", "--out", tmp_path / "run")
    assert (status, "device 'abacus' cannot be used" in err) == (2, True)
    status, _, err = run_script("--model", tmp_path, "--out", tmp_path / "run2")
    assert (status, "config.json is missing" in err) == (2, True)


def test_a_unit_damaged_between_two_starts_is_computed_again(
    run_script: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = interrupt_at_contrast(4, monkeypatch)
    options = ("--model", model, "--pairs", 1, "--flow-pairs", 0, "--out", tmp_path / "run", "--quiet")
    assert run_script(*options)[0] == 130
    units = sorted((tmp_path / "run" / "units").iterdir())
    (units[0] / "heads.parquet").unlink()
    (units[1] / "contrasts.parquet").write_bytes(b"")
    assert run_script(*options)[0] == 0
    assert len(calls) == 4 + 3  # two damaged ones and the one that was left
    assert len(pd.read_parquet(tmp_path / "run" / "heads.parquet")) == 4 * 8


def test_a_prompt_longer_than_the_model_is_made_for_is_refused(run_script: Any, model: Path, tmp_path: Path) -> None:
    import shutil

    short = tmp_path / "short"
    shutil.copytree(model, short)
    config = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 64}))
    status, _, err = run_script("--model", short, "--pairs", 1, "--out", tmp_path / "run")
    assert status == 2
    assert "tokens, and " in err
    assert "is made for 64 at most" in err


def test_settings_take_paths_as_text() -> None:
    from referent_probe import Settings

    settings = Settings("m", out="runs/x", prompts="p.toml")  # type: ignore[arg-type]
    assert (settings.out, settings.prompts) == (Path("runs/x"), Path("p.toml"))


def test_a_failing_self_check_is_never_a_result(
    run_script: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import referent_probe.mechanism.patching as patching

    real = patching.full_patched_logits
    monkeypatch.setattr(patching, "full_patched_logits", lambda *a: real(*a) * 1.5)
    options = ("--model", model, "--pairs", 2, "--flow-pairs", 0, "--out", tmp_path / "run")
    status, _, err = run_script(*options)
    assert status == 1
    assert "brute force differ by" in err
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_users_own_stimuli(run_script: Any, model: Path, tmp_path: Path) -> None:
    template = "The $OCCUPATION called the $PARTICIPANT because $NOM_PRONOUN {} again."
    rows = ["occupation(0)\tother-participant(1)\tanswer\tpronoun_type\ttemplate"] + [
        f"plumber\ttenant\t{answer}\t$NOM_PRONOUN\t{template.format(text)}"
        for answer, text in ((0, "would come too late"), (1, "had found a leak"))
    ]
    path = tmp_path / "mine.tsv"
    path.write_text("\n".join(rows) + "\n")
    status, _, err = run_script(
        "--model", model, "--stimuli", path, "--pairs", 1, "--flow-pairs", 0, "--out", tmp_path / "run"
    )
    assert status == 0, err
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stimuli"]["name"] == "mine"


@pytest.mark.skipif(not WINOPRON.is_file(), reason="WinoPron's zip is not beside the checkout")
def test_winopron_runs_and_its_sentences_stay_out_of_the_run_folder(
    run_script: Any, model: Path, tmp_path: Path
) -> None:
    from referent_probe.stimuli.templates import load_stimuli

    out = tmp_path / "run"
    status, _, err = run_script("--model", model, "--stimuli", WINOPRON, "--pairs", 3, "--out", out, "--csv")
    assert status == 0, err
    written = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    for pair in load_stimuli(WINOPRON).pairs:
        for template in pair.members:
            for piece in template.pieces:
                if piece.kind == "text" and len(piece.text) > 12:
                    assert piece.text.encode() not in written
