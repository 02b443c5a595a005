"""Any job from settings to a finished folder: stopped and resumed, complete, refused, wrong; and what it costs."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from referent_probe.errors import ExactnessError, OptionError, PromptError, RunError
from referent_probe.jobs.ablate import AblateJob
from referent_probe.jobs.circuit import CircuitJob
from referent_probe.jobs.head import HeadJob
from referent_probe.jobs.job import Stage
from referent_probe.jobs.knockout import KnockoutJob
from referent_probe.jobs.patch import PatchJob, flow_job
from referent_probe.jobs.settings import JobSettings
from referent_probe.jobs.survey import SurveyJob
from referent_probe.records import INTERVENING
from referent_probe.stimuli.templates import load_stimuli
from tests.jobs import surveys
from tests.jobs.planted import Do, Done, context_of, rows

Run = Callable[..., Any]
SMALL = {"pairs": 1, "order": "mf"}


def interrupting(after: int) -> Callable[[Stage, Sequence[Any]], Iterator[Any]]:
    """Ctrl-C when so many units of all stages are done."""
    left = iter(range(after))

    def progress(stage: Stage, items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            if next(left, None) is None:
                raise KeyboardInterrupt
            yield item

    return progress


def without_clocks(folder: Path) -> Any:
    """The summary but for what is read off the clock, and off the memory that the process held."""
    summary = json.loads((folder / "summary.json").read_text())
    return summary | {"cost": {k: v for k, v in summary["cost"].items() if k not in ("seconds", "memory_bytes")}}


RESUMED = {
    "ablate": (AblateJob("4.0,4.1,3.0", ("mean", "resample")), 1),
    "circuit, in the second stage": (CircuitJob(top=(1, 2)), 3),
    "head, among the paths": (HeadJob("1.0", path_pairs=1), 3),
    "survey, in the last stage": (SurveyJob(flow_pairs=1, leading=1), 5),
}


@pytest.mark.parametrize(("job", "after"), RESUMED.values(), ids=RESUMED)
def test_stopped_and_resumed_gives_the_same_bytes(
    job: Any, after: int, run: Run, do: Do, planted: Callable[[str], Path], tmp_path: Path
) -> None:
    whole = do("gated-conflater", job, **SMALL).folder
    folder = planted("gated-conflater")
    with pytest.raises(KeyboardInterrupt):
        run(folder, job, tmp_path / "run", progress=interrupting(after), **SMALL)
    assert len(list((tmp_path / "run" / "units").iterdir())) == after
    assert not (tmp_path / "run" / "manifest.json").exists()
    said: list[str] = []
    done = run(folder, job, tmp_path / "run", notify=said.append, **SMALL)
    assert not done.was_complete
    assert any(line.startswith("going on: ") for line in said)
    names = sorted(file.name for file in whole.glob("*.parquet"))
    assert {f"{name}.parquet" for name in INTERVENING} < set(names)
    assert names == sorted(file.name for file in (tmp_path / "run").glob("*.parquet"))
    for name in names:
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes(), name
    assert without_clocks(tmp_path / "run") == without_clocks(whole)


def test_a_complete_run_is_shown_and_nothing_computed(
    run: Run, planted: Callable[[str], Path], tmp_path: Path, loaded: Callable[[Path], Any]
) -> None:
    first = run(planted("conflater"), PatchJob(), tmp_path / "run", **SMALL)
    assert not first.was_complete
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}

    def never(stage: Stage, items: Sequence[Any]) -> Sequence[Any]:
        raise AssertionError("something is computed")

    said: list[str] = []
    again = run(planted("conflater"), PatchJob(), tmp_path / "run", progress=never, notify=said.append, **SMALL)
    assert again.was_complete
    assert not any("forward passes" in line for line in said)
    assert (again.summary, list(again.leading)) == (first.summary, [list(row) for row in first.leading])
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")} == before
    run(planted("conflater"), PatchJob(where="target_slot"), tmp_path / "run", csv=True, **SMALL)
    assert len(pd.read_csv(tmp_path / "run" / "interventions.csv")) == 2 * 20


OTHERS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "where": (PatchJob(where="all"), SMALL, r"another configuration \(where: 'target-slot' there, 'all' now\)"),
    "pairs": (PatchJob(), SMALL | {"pairs": 2}, r"another configuration \(pairs: \['\d+'\] there, "),
    "seed": (PatchJob(), SMALL | {"seed": 1}, r"another configuration \(.*seed: 0 there, 1 now\)"),
    "order": (PatchJob(), SMALL | {"order": "fm"}, r"another configuration \(order: 'mf' there, 'fm' now\)"),
    "share": (PatchJob(), SMALL | {"smallest_share": 0.5}, r"\(smallest_share: 0.01 there, 0.5 now\)"),
    "job": (KnockoutJob(), SMALL, r"holds a run of 'patch', not of 'knockout'; name another folder"),
}


@pytest.fixture(scope="module")
def begun(run: Run, planted: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun") / "run"
    with pytest.raises(KeyboardInterrupt):
        run(planted("conflater"), PatchJob(), folder, progress=interrupting(1), **SMALL)
    return folder


@pytest.mark.parametrize(("job", "settings", "message"), OTHERS.values(), ids=OTHERS)
def test_other_options_in_the_same_folder_are_refused(
    job: Any, settings: dict[str, Any], message: str, begun: Path, run: Run, planted: Callable[[str], Path]
) -> None:
    kept = {file: file.read_bytes() for file in begun.rglob("*") if file.is_file()}
    with pytest.raises(RunError, match=message):
        run(planted("conflater"), job, begun, **settings)
    assert {file: file.read_bytes() for file in begun.rglob("*") if file.is_file()} == kept


def test_a_failing_self_check_is_never_a_result(
    run: Run, planted: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import referent_probe.mechanism.cells as cells

    real = cells.full_patched_logits
    monkeypatch.setattr(cells, "full_patched_logits", lambda *a: real(*a) * 1.01)
    with pytest.raises(ExactnessError, match=r"partial passes and brute force differ by .* logits, more than 1e-04"):
        run(planted("conflater"), PatchJob(), tmp_path / "run", **SMALL)
    assert not (tmp_path / "run" / "manifest.json").exists()
    assert not (tmp_path / "run" / "summary.json").exists()


def test_sentences_stay_out_of_the_folder(do: Do, planted: Callable[[str], Path]) -> None:
    runs = [
        do("conflater", PatchJob()),
        do("conflater", KnockoutJob(window=1)),
        do("saturator", AblateJob()),
        do("conflater", HeadJob("4.0", path_pairs=1), pairs=3),
        do("gated-conflater", CircuitJob(top=(1, 2, 20))),
        surveys.of_conflater(do),
    ]
    texts = {
        piece.text
        for pair in load_stimuli(planted("conflater") / "stimuli.tsv").pairs
        for template in pair.members
        for piece in template.pieces
        if piece.kind == "text" and len(piece.text) > 12
    }
    assert len(texts) > 40
    for done in runs:
        tables = [pd.read_parquet(file) for file in done.folder.glob("*.parquet")]
        written = b"".join(file.read_bytes() for file in done.folder.rglob("*") if file.suffix in (".json", ".pdf"))
        written += "".join(table.to_csv() for table in tables).encode()
        assert next(iter(done.contrasts.values())).template.occupation.encode() in written
        assert [text for text in texts if text.strip().encode() in written] == []


COSTS = {
    "survey": surveys.of_conflater,
    "patch": lambda do: do("conflater", PatchJob()),
    "flow": lambda do: do("conflater", flow_job()),
    "knockout": lambda do: do("conflater", KnockoutJob(window=1)),
    "ablate": lambda do: do("saturator", AblateJob()),
    "head": lambda do: do("conflater", HeadJob("4.0", path_pairs=1), pairs=3),
    "circuit": lambda do: do("gated-conflater", CircuitJob(top=(1, 2, 20))),
}


@pytest.mark.parametrize("of", COSTS.values(), ids=COSTS)
def test_the_work_that_is_stated_is_the_work_that_is_counted(of: Callable[[Do], Done], do: Do) -> None:
    cost = of(do).summary["cost"]
    assert cost["forward_equivalents"] == pytest.approx(cost["forward_equivalents_expected"], rel=0.3)


@pytest.mark.parametrize("job", [PatchJob(), flow_job(), KnockoutJob(window=2, queries="later")])
def test_the_work_that_is_counted_is_what_goes_through_the_blocks(
    job: Any, tiny_llama: Path, loaded: Callable[[Path], Any]
) -> None:
    model = loaded(tiny_llama)
    context = context_of(tiny_llama, model)
    contrast = context.contrasts[0]
    (stage,) = job.stages(context, dict)
    through = []

    def count(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        hidden = arguments[0] if arguments else named["hidden_states"]
        through.append(hidden.shape[0] * hidden.shape[1])

    handles = [block.register_forward_pre_hook(count, with_kwargs=True) for block in model.bridge.blocks]
    try:
        _, measured = stage.run(contrast)
    finally:
        for handle in handles:
            handle.remove()
    whole = contrast.length * model.n_layers
    # The tokens before the prime are computed once for both prompts, though counted twice.
    counted = measured["forward_equivalents"] - contrast.first_difference / contrast.length
    assert sum(through) / whole == pytest.approx(counted, rel=0.02)
    assert counted == pytest.approx(stage.cost(contrast), rel=0.3)


def test_a_contrast_that_is_left_out_stays_with_its_reason(
    run: Run, planted: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import referent_probe.mechanism.contrasts as contrasts

    real = contrasts.build_contrasts

    def build_contrasts(*given: Any) -> Any:
        first, *others = real(*given)
        return replace(first, left_out="because"), *others

    monkeypatch.setattr(contrasts, "build_contrasts", build_contrasts)
    done = run(planted("conflater"), PatchJob(), tmp_path / "run", pairs=1, order="both")
    table = pd.read_parquet(tmp_path / "run" / "contrasts.parquet")
    assert table["left_out"].fillna("").tolist() == ["because", "", "", ""]
    assert table["total_effect"].isna().tolist() == [True, False, False, False]
    assert (done.summary["n_contrasts"], done.summary["n_contrasts_left_out"]) == (3, 1)
    cells = pd.read_parquet(tmp_path / "run" / "interventions.parquet")
    assert set(cells["contrast"]) == set(table["contrast"][1:])
    effects = pd.read_parquet(tmp_path / "run" / "effects.parquet")
    assert (rows(effects, layer=4, head=0)["n_contrasts"] == 3).all()


def test_what_comes_is_said_beforehand(run: Run, planted: Callable[[str], Path], tmp_path: Path) -> None:
    said: list[str] = []
    stages: list[tuple[str, int]] = []

    def progress(stage: Stage, items: Sequence[Any]) -> Sequence[Any]:
        stages.append((stage.name, len(items)))
        return items

    job = AblateJob("4.0", ("zero", "mean"))
    done = run(planted("conflater"), job, tmp_path / "run", notify=said.append, progress=progress, **SMALL)
    expected = done.summary["cost"]["forward_equivalents_expected"]
    work, pool = said[-2:]
    assert work.startswith(f"2 contrasts: about the work of {expected:.0f} forward passes of one prompt, and ")
    assert work.endswith("MiB of memory beside the model")
    assert pool == "running 4 prompts once, for means and for values of other prompts"
    assert stages == [("ablate", 2)]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["batch_halvings"] == 0
    assert manifest["counts"]["interventions"] == 4
    assert manifest["load_checks"]


def test_a_prompt_longer_than_the_model_is_made_for_is_refused(run: Run, tiny_llama: Path, tmp_path: Path) -> None:
    import shutil

    short = tmp_path / "short"
    shutil.copytree(tiny_llama, short)
    config = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 64}))
    with pytest.raises(PromptError, match=r"the prompt of \d+[ab]-mf has \d+ tokens, and .* is made for 64 at most"):
        run(short, PatchJob(), tmp_path / "run", **SMALL)


def test_settings() -> None:
    assert JobSettings("m", out="runs/x", prompts="p.toml").out == Path("runs/x")  # type: ignore[arg-type]
    for share in (-0.1, 1.0, 2.0, float("nan")):
        with pytest.raises(OptionError, match=r"--smallest-share .* is not a share; give a number from 0 to below 1"):
            JobSettings("m", smallest_share=share)
    with pytest.raises(OptionError, match=r"--order 'fn' is unknown; give one of both, mf, fm"):
        JobSettings("m", order="fn")  # type: ignore[arg-type]
