"""A folder that a command makes: whole or not at all, with nothing left where it fails or is stopped."""

import errno
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from safetensors import SafetensorError

from referent_probe.errors import OptionError, RunError
from referent_probe.stimuli.quoting import printable, quoted, shown_path

_ASIDE = ".planted-"
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)


def free_folder(out: str | Path) -> Path:
    """The folder that was asked for, seen to be absent or empty.

    Args:
        out: Its path; `~` is the home folder, as in the path of a model.

    Raises:
        OptionError: It is no name, or something is in the way.
        RunError: It cannot be looked at.
    """
    if not str(out) or "\0" in str(out):
        raise OptionError(f"--out {shown_path(out)} is no name; give a folder that is absent or empty")
    with _path_in_words(out):
        os.fsencode(out)  # a name that no file can have is else only found out in writing
        folder = Path(out).expanduser()
        if ".." in folder.parts:
            folder = folder.resolve()
        if folder.is_symlink() and not folder.exists():
            raise OptionError(
                f"{shown_path(out)} is a link that leads nowhere; remove it, or name another folder with --out"
            )
        if not folder.exists():
            return folder
        found = None if folder.is_dir() else "a file"
        found = found or next((quoted(file.name) for file in folder.iterdir()), None)
        if found is not None:
            raise OptionError(
                f"{shown_path(out)} is there already and not an empty folder; name another one with --out (found: "
                f"{found})"
            )
    return folder


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """Write files in a folder aside, which at the end takes the place of the one that was asked for.

    An empty folder that is there already, or a link to one, is filled, `config.json` last: without it it is no model.
    Where anything fails, or SIGINT, SIGTERM or SIGHUP comes, what was written and made is removed.

    Args:
        folder: From `free_folder`.

    Yields:
        The folder aside.

    Raises:
        RunError: The disk is full, or the folder cannot be written.
        OptionError: Something else was written there meanwhile.

    Example:
        `with written_whole(Path("new")) as aside: (aside / "config.json").write_text("{}")`
    """
    made: list[Path] = []
    with _signals_raise(), _disk_in_words(folder):
        try:
            is_there = folder.is_dir()
            within = folder if is_there else folder.parent
            _make(within, made)
            aside = within / f"{_ASIDE}{token_hex(8)}"
            made.append(aside)
            aside.mkdir()
            yield aside
            for file in aside.iterdir():
                file.chmod(0o644)
            if is_there:
                _fill(folder, aside)
                aside.rmdir()
            else:
                _take_place(folder, aside)
            made.clear()
        finally:
            for path in reversed(made):
                if path.name.startswith(_ASIDE):
                    shutil.rmtree(path, ignore_errors=True)
                with suppress(OSError):
                    path.rmdir()


def _make(folder: Path, made: list[Path]) -> None:
    """Makes a folder with those above it, and notes each that was not there."""
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        with suppress(FileExistsError):  # another process was faster; a file is found out below
            path.mkdir()
            made.append(path)


def _take_place(folder: Path, aside: Path) -> None:
    try:
        aside.replace(folder)
    except OSError as error:
        if error.errno in _TAKEN:
            raise _lost(folder) from error
        raise


def _fill(folder: Path, aside: Path) -> None:
    if any(path != aside for path in folder.iterdir()):
        raise _lost(folder)
    moved: list[Path] = []
    try:
        for file in sorted(aside.iterdir(), key=lambda file: file.name == "config.json"):
            moved.append(folder / file.name)
            file.rename(moved[-1])
    except BaseException:
        for file in moved:
            file.unlink(missing_ok=True)
        raise


def _lost(folder: Path) -> OptionError:
    return OptionError(
        f"something else was written to {shown_path(folder)} meanwhile, which is left as it is; name another folder "
        "with --out"
    )


@contextmanager
def _path_in_words(out: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # of a path that cannot be, or nobody's home folder
        raise RunError(f"cannot use {shown_path(out)} ({_reason(error)}); name another folder with --out") from error


@contextmanager
def _disk_in_words(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"cannot write to {shown_path(folder)} ({_reason(error)}); nothing is left there; free space, or name "
            "another folder with --out"
        ) from error


def _reason(error: Exception) -> str:
    return printable(getattr(error, "strerror", None) or str(error))


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Within it a signal that asks to end is an exception, so that what is half written is removed."""

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):  # Windows lacks the second
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
