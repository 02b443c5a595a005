"""The files of a run: written whole or not at all, read with a message where they are damaged."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from referent_probe.errors import RunError


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
