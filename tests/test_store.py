import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from referent_probe.errors import RunError
from referent_probe.records import PATCHING, SCHEMAS, conform
from referent_probe.run_files import check_out
from referent_probe.store import open_run
from tests.limits import files_no_larger_than

CONFIG = {"job": "test", "seed": 1, "pairs": ["001"]}


def table(name: str, rows: int = 2) -> pd.DataFrame:
    values = {"text": "x", "whole": 3, "number": 0.5}
    return pd.DataFrame(
        [{c.name: values[c.kind] for c in SCHEMAS[name]}] * rows, columns=[c.name for c in SCHEMAS[name]]
    )


def tables(rows: int = 2) -> dict[str, pd.DataFrame]:
    return {name: table(name, rows) for name in PATCHING}


def test_a_run_from_nothing_to_complete(tmp_path: Path) -> None:
    run = open_run(tmp_path / "a" / "run", CONFIG, PATCHING)
    assert not run.complete
    assert not run.has("u1")
    for unit in ("u1", "u2"):
        run.save_unit(unit, tables(), {"seconds": 1.5})
        assert run.has(unit)
    collected, measured = run.collect(["u2", "u1"])
    assert {name: len(part) for name, part in collected.items()} == dict.fromkeys(PATCHING, 4)
    assert measured["seconds"].tolist() == [1.5, 1.5]
    run.finish(collected, {"x": 1}, {}, {"counts": {}}, csv=True)
    assert not (run.folder / "units").exists()
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert manifest["config"] == CONFIG
    assert set(manifest["sha256"]) == {f"{n}.{e}" for n in PATCHING for e in ("parquet", "csv")} | {"summary.json"}
    assert open_run(run.folder, CONFIG, PATCHING).complete
    stored = pd.read_parquet(run.folder / "heads.parquet")
    pd.testing.assert_frame_equal(stored, collected["heads"], check_dtype=False)


def test_an_incomplete_run_goes_on_and_units_are_whole(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    run.save_unit("u1", tables(), {})
    (run.folder / "units" / ".u2").mkdir()
    (run.folder / "units" / ".u2" / "heads.parquet").write_bytes(b"cut short")
    again = open_run(run.folder, CONFIG, PATCHING)
    assert (again.complete, again.has("u1"), again.has("u2")) == (False, True, False)
    again.save_unit("u2", tables(3), {})
    assert len(again.collect(["u1", "u2"])[0]["heads"]) == 5


def test_another_configuration_is_refused_and_named(tmp_path: Path) -> None:
    open_run(tmp_path / "run", CONFIG, PATCHING).save_unit("u1", tables(), {})
    with pytest.raises(RunError, match=r"another configuration \(seed: 1 there, 2 now\); name another folder"):
        open_run(tmp_path / "run", CONFIG | {"seed": 2}, PATCHING)


def test_a_run_refused_before_anything_was_computed_leaves_its_folder_free(tmp_path: Path) -> None:
    """Whoever follows a message's cure gives other options and the same folder."""
    open_run(tmp_path / "run", CONFIG, PATCHING)
    other = CONFIG | {"seed": 2}
    run = open_run(tmp_path / "run", other, PATCHING)
    assert run.config == other
    with run.writing_alone():
        pass
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == other


@pytest.mark.parametrize("left", [".config.json", ".writable", ".lock"])
def test_a_process_killed_at_the_very_start_leaves_its_folder_free(tmp_path: Path, left: str) -> None:
    (tmp_path / left).write_text("{")
    assert not open_run(tmp_path, CONFIG, PATCHING).complete


def test_what_a_stopped_finish_left_aside_is_no_part_of_the_run(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    run.save_unit("u1", tables(), {})
    for name in (".manifest.json", ".summary.json", "manifest.json"):
        (run.folder / name).write_text("{")
    (run.folder / "manifest.json").unlink()
    run.finish(tables(), {}, {}, {})
    assert not [name for name in json.loads((run.folder / "manifest.json").read_text())["sha256"] if "manifest" in name]
    (run.folder / ".manifest.json").unlink(missing_ok=True)
    assert open_run(run.folder, CONFIG, PATCHING).complete


def test_a_run_that_another_process_finishes_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    slow = open_run(tmp_path / "run", CONFIG, PATCHING)
    fast = open_run(tmp_path / "run", CONFIG, PATCHING)
    with fast.writing_alone():
        fast.finish(tables(), {}, {}, {})
    with pytest.raises(RunError, match="another process has just finished the run"), slow.writing_alone():
        raise AssertionError("must not be reached")
    assert open_run(tmp_path / "run", CONFIG, PATCHING).complete


def test_tables_of_a_finished_run_as_csv(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    (run.folder / "heads.csv").write_text("half a li")  # of a finish that was stopped
    run.finish(tables(), {}, {}, {})
    assert not (run.folder / "heads.csv").exists()
    open_run(run.folder, CONFIG, PATCHING).write_csv()
    assert len(pd.read_csv(run.folder / "heads.csv")) == 2
    (run.folder / "flow.csv").unlink()
    (run.folder / "flow.csv").mkdir()
    with pytest.raises(RunError, match="cannot write to"):
        run.write_csv()


def test_a_model_s_folder_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(RunError, match="holds files that are not a run's"):
        check_out(tmp_path)
    assert (tmp_path / "config.json").is_file()


def test_foreign_files_a_file_and_a_damaged_config_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine")
    with pytest.raises(RunError, match=r"not a run's \(thesis.tex"):
        open_run(foreign, CONFIG, PATCHING)
    assert (foreign / "thesis.tex").read_text() == "mine"
    with pytest.raises(RunError, match="is a file"):
        check_out(foreign / "thesis.tex")
    with pytest.raises(RunError, match="cannot write to"):
        check_out(foreign / "thesis.tex" / "run")
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    (run.folder / "config.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        open_run(run.folder, CONFIG, PATCHING)


@pytest.mark.parametrize("size", [0, 200, 5000])
def test_a_full_disk_loses_nothing_that_was_finished(tmp_path: Path, size: int) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    run.save_unit("u1", tables(), {"seconds": 1.0})
    before = run.collect(["u1"])[0]
    with files_no_larger_than(size), pytest.raises(RunError, match=r"cannot write to .* free space .* goes on"):
        run.save_unit("u2", {"heads": table("heads", 20_000)} | tables(), {})
    assert run.has("u1")
    assert not run.has("u2")
    after = open_run(run.folder, CONFIG, PATCHING).collect(["u1"])[0]
    assert all(before[name].equals(after[name]) for name in PATCHING)
    with files_no_larger_than(size), pytest.raises(RunError, match="cannot write to"):
        run.finish({"heads": pd.concat([table("heads", 20_000).assign(head=range(20_000))])}, {"x": "y" * 9000}, {}, {})
    assert not open_run(run.folder, CONFIG, PATCHING).complete
    assert run.has("u1")
    run.save_unit("u2", tables(), {"seconds": 2.0})
    run.finish(run.collect(["u1", "u2"])[0], {}, {}, {})
    assert open_run(run.folder, CONFIG, PATCHING).complete


def test_tables_without_rows_keep_their_columns_and_types(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    run.save_unit("u1", tables(0), {})
    collected = run.collect(["u1"])[0]
    assert list(collected["flow"].columns) == [c.name for c in SCHEMAS["flow"]]
    assert collected["flow"].dtypes["layer"] == "int64"


@pytest.mark.parametrize("change", [lambda t: t.drop(columns="layer"), lambda t: t.assign(extra=1)])
def test_a_table_that_does_not_match_its_schema_is_not_written(change: Any) -> None:
    with pytest.raises(ValueError, match="differ in the columns"):
        conform("heads", change(table("heads")))


def spoil(path: Path, how: str) -> None:
    if how == "delete":
        path.unlink()
    elif how == "cut short":
        path.write_bytes(path.read_bytes()[:-7])
    else:
        path.write_bytes(b"")


@pytest.mark.parametrize("how", ["delete", "cut short", "empty"])
@pytest.mark.parametrize("name", [*(f"{name}.parquet" for name in PATCHING), "measured.json"])
def test_a_damaged_unit_is_not_taken_for_finished(tmp_path: Path, name: str, how: str) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    run.save_unit("u1", tables(), {"seconds": 1.0})
    assert run.has("u1")
    spoil(run.folder / "units" / "u1" / name, how)
    assert not run.has("u1")
    run.save_unit("u1", tables(), {"seconds": 2.0})
    assert run.has("u1")
    assert run.collect(["u1"])[1]["seconds"].tolist() == [2.0]


@pytest.mark.parametrize("how", ["delete", "cut short", "empty"])
@pytest.mark.parametrize("name", ["summary.json", "heads.parquet", "manifest.json"])
def test_a_damaged_finished_run_is_not_shown_as_a_result(tmp_path: Path, name: str, how: str) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    run.finish(tables(), {"x": 1}, {}, {})
    spoil(run.folder / name, how)
    if (name, how) == ("manifest.json", "delete"):
        assert not open_run(run.folder, CONFIG, PATCHING).complete
        return
    with pytest.raises(RunError, match=r"not as it was written|is damaged"):
        open_run(run.folder, CONFIG, PATCHING)


@pytest.mark.parametrize("text", ["[]", "5", "{", "", "\udcff"])
def test_a_config_that_is_no_object_is_damaged(tmp_path: Path, text: str) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    (run.folder / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(RunError, match="is damaged"):
        open_run(run.folder, CONFIG, PATCHING)


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    first, second = (open_run(tmp_path / "run", CONFIG, PATCHING) for _ in range(2))
    with first.writing_alone(), pytest.raises(RunError, match="another process is writing"), second.writing_alone():
        pass
    with second.writing_alone():
        second.save_unit("u1", tables(), {})
    assert not (second.folder / ".lock").exists()


def test_odd_folders_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunError, match="a link that leads nowhere"):
        open_run(tmp_path / "link", CONFIG, PATCHING)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(RunError, match=r"leads nowhere|cannot write"):
        open_run(tmp_path / "loop", CONFIG, PATCHING)
    with pytest.raises(RunError, match="File name too long"):
        open_run(tmp_path / ("x" * 300), CONFIG, PATCHING)


def test_a_role_noun_in_another_script_or_with_a_dollar_can_be_drawn(tmp_path: Path) -> None:
    from referent_probe.figures import pair_effects

    contrasts = pd.DataFrame(
        {
            "pair": ["001", "002"],
            "occupation": ["plumber $\\foo$", "\U0001f527"],
            "case": "nominative",
            "option_order": "mf",
            "total_effect": [0.5, -0.5],
        }
    )
    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    run.finish({}, {}, {"pair_effects": pair_effects(contrasts)}, {})
    assert (run.folder / "figures" / "pair_effects.pdf").stat().st_size > 1000


def test_a_start_that_is_refused_leaves_the_other_process_alone(tmp_path: Path) -> None:
    """Both begin before any unit is there; the second has another configuration."""
    first = open_run(tmp_path / "run", {"job": "a", "margin": 0.2}, ())
    with first.writing_alone():
        second = open_run(tmp_path / "run", {"job": "a", "margin": 2}, ())
        with pytest.raises(RunError, match="another process is writing"), second.writing_alone():
            pass
        first.finish({}, {"found": 1}, {}, {})
    assert open_run(tmp_path / "run", {"job": "a", "margin": 0.2}, ()).complete
    with pytest.raises(RunError, match=r"another configuration \(margin: 0.2 there, 2 now\)"):
        open_run(tmp_path / "run", {"job": "a", "margin": 2}, ())


def test_a_run_that_was_begun_and_left_is_taken_over(tmp_path: Path) -> None:
    open_run(tmp_path / "run", {"job": "a", "margin": 0.2}, ())
    taken = open_run(tmp_path / "run", {"job": "a", "margin": 2}, ())
    with taken.writing_alone():
        taken.finish({}, {"found": 1}, {}, {})
    assert open_run(tmp_path / "run", {"job": "a", "margin": 2}, ()).complete


def test_a_config_that_is_not_the_manifests_is_said(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", {"job": "a", "margin": 0.2}, ())
    run.finish({}, {"found": 1}, {}, {})
    (tmp_path / "run" / "config.json").write_text('{"job": "a", "margin": 2}')
    with pytest.raises(RunError, match="not as it was written"):
        open_run(tmp_path / "run", {"job": "a", "margin": 2}, ())


def test_a_run_of_another_job_is_said_to_be_one(tmp_path: Path) -> None:
    open_run(tmp_path / "run", {"job": "measure"}, ()).finish({}, {"found": 1}, {}, {})
    with pytest.raises(RunError, match=r"holds a run of 'measure', not of 'analyse'; name another folder$"):
        open_run(tmp_path / "run", {"job": "analyse"}, ())


def test_a_run_that_is_refused_before_anything_is_computed_leaves_nothing(tmp_path: Path) -> None:
    run = open_run(tmp_path / "a" / "run", CONFIG, PATCHING)
    with pytest.raises(RunError, match="refused"), run.removed_if_refused():
        raise RunError("refused")
    assert not run.folder.exists()
    (tmp_path / "mine").mkdir()
    run = open_run(tmp_path / "mine", CONFIG, PATCHING)
    with pytest.raises(KeyboardInterrupt), run.removed_if_refused(), run.writing_alone():
        raise KeyboardInterrupt
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_run_that_fails_later_keeps_what_was_computed(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", CONFIG, PATCHING)

    def fail() -> None:
        with run.removed_if_refused(), run.writing_alone():
            run.save_unit("u1", tables(), {})
            raise RunError("late")

    with pytest.raises(RunError, match="late"):
        fail()
    assert run.has("u1")
    assert open_run(run.folder, CONFIG, PATCHING).config == CONFIG


def test_a_refusal_leaves_a_process_at_work_alone(tmp_path: Path) -> None:
    refused, at_work = (open_run(tmp_path / "run", CONFIG, PATCHING) for _ in range(2))
    with at_work.writing_alone():
        with pytest.raises(RunError, match="refused"), refused.removed_if_refused():
            raise RunError("refused")
        at_work.save_unit("u1", tables(), {})
    assert open_run(tmp_path / "run", CONFIG, PATCHING).has("u1")


def test_a_refusal_between_another_process_s_start_and_its_first_unit_is_survived(tmp_path: Path) -> None:
    refused, other = (open_run(tmp_path / "run", CONFIG, PATCHING) for _ in range(2))
    with pytest.raises(RunError, match="refused"), refused.removed_if_refused():
        raise RunError("refused")
    assert not (tmp_path / "run").exists()
    with other.writing_alone():
        other.finish(tables(), {}, {}, {})
    assert open_run(tmp_path / "run", CONFIG, PATCHING).complete


def test_a_lock_that_its_holder_removed_keeps_nobody_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened before the holder removed it, it is a file of nobody's; a third process has made another."""
    import fcntl

    real = fcntl.flock

    def late(file: Any, how: int) -> None:
        real(file, how)
        (tmp_path / "run" / ".lock").unlink()
        (tmp_path / "run" / ".lock").write_text("")

    run = open_run(tmp_path / "run", CONFIG, PATCHING)
    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(RunError, match="another process is writing"), run.writing_alone():
        raise AssertionError("must not be reached")
