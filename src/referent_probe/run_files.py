"""The files of a run: written whole or not at all, read with a message where they are damaged."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from referent_probe.errors import RunError

_LEFT_BEHIND = (".config.json", ".writable", ".lock")
"""What a process that was killed at the very start leaves in a folder."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turns a failure of the disk into a message that says what to do."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write to {str(folder)!r}: {error.strerror or error}; free space or name another folder with "
            "--out; what is finished is kept, and the same command goes on from there"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run's folder for this process, by a file `.lock` in it; a killed process lets go of it.

    Raises:
        RunError: Another process holds it, or the folder cannot be written.
    """
    try:
        import fcntl
    except ImportError:  # Windows has no such lock
        yield
        return
    with writing(folder):
        file = (folder / ".lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held it may have removed it meanwhile; then it keeps nobody away.
            is_there = os.path.samestat(os.fstat(file.fileno()), (folder / ".lock").stat())
        except OSError as error:
            raise _held(folder) from error
        if not is_there:
            raise _held(folder)
        yield


def _held(folder: Path) -> RunError:
    return RunError(f"another process is writing to {str(folder)!r}; wait for it, or name another folder")


def write_json(path: Path, value: Any) -> None:
    """Writes JSON aside and then renames it, so that the file is whole or absent."""
    aside = path.with_name(f".{path.name}")
    aside.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    aside.replace(path)


def read_object(path: Path, cure: str = "name another folder with --out") -> dict[str, Any]:
    """A JSON object from a file of a run.

    Args:
        path: The file.
        cure: What the user may do where it cannot be used.

    Raises:
        RunError: It is missing, damaged, or holds something else.

    Example:
        `read_object(Path("runs/demo/config.json"))["job"]` is "patch_priming_pronoun".
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{str(path)!r} is damaged ({error}); {cure}") from error
    if not isinstance(value, dict):
        raise RunError(f"{str(path)!r} is damaged (no JSON object); {cure}")
    return value


def intact(folder: Path, hashes: Mapping[str, str]) -> bool:
    """Whether every file is there with the sha256 that its name has in `hashes`."""
    return all((folder / name).is_file() and sha256_of(folder / name) == digest for name, digest in hashes.items())


def sha256_of(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_out(folder: Path) -> None:
    """See, before any long work, that a folder can be used for a run.

    Raises:
        RunError: It is a file, holds foreign files, or cannot be written.
    """
    with writing(folder):
        if folder.is_symlink() and not folder.exists():
            raise RunError(f"--out {str(folder)!r} is a link that leads nowhere; name another folder, or remove it")
        if folder.exists() and not folder.is_dir():
            raise RunError(f"--out {str(folder)!r} is a file; name a folder that is empty or not there yet")
        entries = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        entries = [name for name in entries if name not in _LEFT_BEHIND]
        if entries and not _has_a_run(folder):
            foreign = entries[:3]
            raise RunError(
                f"--out {str(folder)!r} holds files that are not a run's ({', '.join(foreign)}, …); name another folder"
            )
        if (folder / "manifest.json").is_file():
            return  # complete: it is read, not written
        was_there = folder.is_dir()
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
        if not was_there:  # what follows may yet refuse the input, and shall leave no empty folder behind
            folder.rmdir()


def _has_a_run(folder: Path) -> bool:
    """Whether a folder's config.json is a run's: a model's folder has one too."""
    begun = folder / "config.json"
    if not begun.is_file():
        return False
    try:
        config = json.loads(begun.read_text(encoding="utf-8"))
        return "job" in config if isinstance(config, dict) else True
    except (OSError, ValueError, RecursionError):
        return True  # damaged: said where it is read
