"""Folders are written whole or not at all, and every mistake is one line."""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import SafetensorError

from referent_probe.cli_planted import as_model
from referent_probe.errors import OptionError, ReferentProbeError, RunError
from referent_probe.planted.folder import free_folder, written_whole

LONG = "x" * 250
"""A legal name, with no room for anything in front of it."""


@pytest.fixture(autouse=True)
def in_an_empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(out: str, then: Callable[[], object] = lambda: None) -> Path:
    folder = free_folder(out)
    with written_whole(folder) as aside:
        for name in ("truth.json", "config.json", "a.txt"):
            (aside / name).write_text(name)
        then()
    return folder


def fail(failure: BaseException) -> None:
    raise failure


def everything() -> list[str]:
    return sorted(path.as_posix() for path in Path().rglob("*"))


@pytest.mark.parametrize("out", ["new", "a/b/new", LONG, f"{LONG}/{LONG}", "a/../new", "new\nline", "b\udcff", "-o"])
def test_an_absent_folder_is_made_with_those_above_it(out: str) -> None:
    folder = write(out)
    assert sorted(file.name for file in folder.iterdir()) == ["a.txt", "config.json", "truth.json"]
    assert len([name for name in everything() if name.endswith(".txt")]) == 1
    assert not [name for name in everything() if ".planted-" in name]


@pytest.mark.parametrize("out", [".", "../place", "link", "/link"])
def test_an_empty_folder_is_filled_and_stays_itself(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    monkeypatch.chdir(place if out.startswith(".") else tmp_path)
    before = place.stat().st_ino
    write(f"{tmp_path}{out}" if out.startswith("/") else out)
    assert place.stat().st_ino == before
    assert sorted(file.name for file in place.iterdir()) == ["a.txt", "config.json", "truth.json"]
    assert (tmp_path / "link").is_symlink()


def test_the_home_folder_has_its_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert write("~/new") == tmp_path / "home" / "new"


REFUSED = {
    "": r"--out '' is no name; give a folder",
    "a\0b": r"--out 'a\\x00b' is no name",
    "x" * 300: r"cannot use 'x{100}…x{100}' \(File name too long\)|cannot use 'x+' \(File name too long\)",
    "~nobody-of-that-name/x": r"cannot use '~nobody-of-that-name/x' \(.*home.*\); name another folder with --out",
    "\ud800": r"cannot use '\\ud800' \(.*surrogates not allowed\)",
    "file": r"'file' is there already and not an empty folder; name another one with --out \(found: a file\)",
    "full": r"'full' is there already and not an empty folder; .* \(found: '\.planted-0'\)",
    "file/x": r"cannot write to 'file/x' \(Not a directory\); nothing is left there; free space, or name another",
    "nowhere": r"'nowhere' is a link that leads nowhere; remove it, or name another",
    "loop": r"'loop' is a link that leads nowhere; remove it, or name another",
    "loop/x": r"cannot (use|write to) 'loop/x' \(Too many levels",
    "/proc/x": r"cannot write to '/proc/x' \(.*\); nothing is left there",
}


@pytest.mark.parametrize("out", REFUSED, ids=[ascii(out)[:20] for out in REFUSED])
def test_what_cannot_be_written_is_said_in_a_line(out: str) -> None:
    Path("file").write_text("mine")
    Path("full").mkdir()
    Path("full/.planted-0").mkdir()
    Path("nowhere").symlink_to("absent")
    Path("loop").symlink_to("loop")
    before = everything()
    with pytest.raises(ReferentProbeError, match=REFUSED[out]) as refused:
        write(out)
    assert "goes on" not in str(refused.value)
    assert everything() == before


def test_a_closed_folder_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_symlink", closed)
    with pytest.raises(RunError, match=r"cannot use 'closed/new' \(Permission denied\); name another folder"):
        write("closed/new")


FAILURES = {
    OSError(28, "No space left on device"): (RunError, r"\(No space left on device\); nothing is left there"),
    SafetensorError("I/O error: No space left on device"): (RunError, r"I/O error: No space left .* nothing is left"),
    KeyboardInterrupt("stop"): (KeyboardInterrupt, "stop"),
    ValueError("a fault of ours"): (ValueError, "a fault of ours"),
}


@pytest.mark.parametrize("out", ["a/b/new", "there"])
@pytest.mark.parametrize("failure", FAILURES, ids=[type(failure).__name__ for failure in FAILURES])
def test_a_failure_leaves_nothing_behind(failure: BaseException, out: str) -> None:
    Path("there").mkdir()
    kind, message = FAILURES[failure]
    with pytest.raises(kind, match=message):
        write(out, lambda: fail(failure))
    assert everything() == ["there"]


@pytest.mark.parametrize("out", ["a/b/new", "there"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, out: str) -> None:
    Path("there").mkdir()
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as stopped:
        write(out, lambda: os.kill(os.getpid(), number))
    assert (stopped.value.code, everything()) == (128 + number, ["there"])
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("out", "theirs"), [("a/new", "a/new/b.txt"), ("a/new", "a/new"), ("there", "there/b.txt")])
def test_who_loses_a_race_leaves_the_winners_files(out: str, theirs: str) -> None:
    Path("there").mkdir()

    def won() -> None:
        Path(theirs).parent.mkdir(exist_ok=True)
        Path(theirs).write_text("theirs")

    with pytest.raises(OptionError, match=r"something else was written to .* meanwhile, which is left as it is"):
        write(out, won)
    assert [path.read_text() for path in Path().rglob("*") if path.is_file()] == ["theirs"]
    assert [path for path in everything() if ".planted-" in path] == []


NAMES = [
    "models/my model",
    "it's",
    "$HOME",
    "new\nline",
    "a\x1bb",
    "b\udcff",
    "-o",
    "phi-4",
    ".",
    "/tmp",
    "back\\slash",
]


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name) for name in NAMES])
def test_a_shell_reads_the_next_line_as_it_is_meant(name: str) -> None:
    word = as_model(Path(name))
    assert word.isprintable()
    read = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert Path(os.fsdecode(read)) == Path(name)
    if name.isprintable():
        assert [os.fsdecode(read)] == shlex.split(word)
    assert name == "." or "/" in os.fsdecode(read)  # no option, and no name of a model that is known
