"""Is everything here that a run needs? One finding a line, each with its cure."""

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from referent_probe.errors import ReferentProbeError

# Bytes of memory and disk with which the embedded model and a small run are comfortable.
_COMFORTABLE = 3e9


class Status(StrEnum):
    """How a finding stands; only `FAILED` keeps the package from working."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        about: What it is.
        status: How it stands.
        found: What was found.
        cure: What to do; None where nothing has to be done.
    """

    about: str
    status: Status
    found: str
    cure: str | None = None

    def __str__(self) -> str:
        """As the command prints it, in one line."""
        return f"{self.status:<8} {self.about}: {self.found}" + (f"; {self.cure}" if self.cure else "")

    def as_dict(self) -> dict[str, str | None]:
        """By name, for JSON."""
        return asdict(self)


def examine(notify: Callable[[str], None] = lambda message: None) -> Iterator[Finding]:
    """Look at everything, one finding after the other; the last one loads the embedded model and runs its checks.

    Args:
        notify: Told before anything that takes long.

    Example:
        >>> next(examine()).about
        'Python'
    """
    ok = sys.version_info >= (3, 11)
    yield Finding(
        "Python", Status.OK if ok else Status.FAILED, platform.python_version(), None if ok else "use 3.11 or newer"
    )
    yield from packages()
    yield torch_here()
    yield memory()
    yield from cache()
    yield from models()
    yield stimuli()
    yield load_checks(notify)


def packages(
    required: list[str] | None = None, pins: Path | None = None, installed: Callable[[str], str | None] | None = None
) -> Iterator[Finding]:
    """Versions against the package's own ranges and, in a checkout, against `constraints.txt`.

    Args:
        required: Requirements; by default those of the installed package.
        pins: File of "name==version" lines; by default the checkout's.
        installed: Gives the version of a package, None where it is missing.
    """
    version_of = installed or _version
    wanted = [Requirement(r) for r in required or importlib.metadata.requires("referent-probe") or []]
    wanted = [r for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
    pinned = _pins(pins or Path(__file__).resolve().parents[2] / "constraints.txt")
    fine: list[str] = []
    transformers, lens = version_of("transformers"), version_of("transformer-lens")
    for requirement in wanted:
        name, version = requirement.name, version_of(requirement.name)
        pin = pinned.get(_plain(name))
        cure = f"run: pip install '{name}=={pin}'" if pin else f"run: pip install '{requirement}'"
        if version is None:
            yield Finding(name, Status.FAILED, "not installed", cure)
        elif name == "transformers" and transformers and lens and _is_bad_pair(transformers, lens):
            yield Finding(
                name,
                Status.FAILED,
                f"{version} with transformer-lens {lens}: this pair drops the cache of keys and values in silence",
                "run: pip install 'transformers>=5.0,<5.24'",
            )
        elif not requirement.specifier.contains(version, prereleases=True):
            yield Finding(name, Status.FAILED, f"{version} is outside {requirement.specifier}", cure)
        elif pin is not None and Version(version).public != pin:
            yield Finding(name, Status.WARNING, f"{version}; tested with {pin}", cure)
        else:
            fine.append(f"{name} {version}")
    if fine:
        main = [each for each in fine if each.split()[0] in ("torch", "transformers", "transformer-lens")]
        yield Finding("packages", Status.OK, ", ".join([*main, f"{len(fine) - len(main)} others"]))


def torch_here() -> Finding:
    """Whether torch works, on how many threads and on which devices."""
    try:
        import torch

        threads, cores = torch.get_num_threads(), os.cpu_count() or 1
        cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    except Exception as error:  # a broken installation raises what it likes
        return Finding("torch", Status.FAILED, " ".join(str(error).split())[:300], "install torch again")
    found = f"{threads} threads on {cores} cores, devices: {', '.join(['cpu', *cuda])}"
    if threads > cores:
        return Finding("torch", Status.WARNING, found, f"set OMP_NUM_THREADS to {cores} or less")
    return Finding("torch", Status.OK, found)


def memory() -> Finding:
    """Memory that is free for a model."""
    free = _free_memory()
    if free is None:
        return Finding("memory", Status.OK, "unknown on this system")
    found = f"{free / 1e9:.1f} GB free"
    if free < _COMFORTABLE:
        wants = f"close other programs: the embedded model wants about {_COMFORTABLE / 1e9:.0f} GB"
        return Finding("memory", Status.WARNING, found, wants)
    return Finding("memory", Status.OK, f"{found}; float32 weights take 4 bytes a parameter")


def cache() -> Iterator[Finding]:
    """The folder of unpacked models: whether it can be written, and what room there is."""
    from referent_probe.models.unpack import cache_folder, unpacked_models

    folder = cache_folder()
    other = "name another place in the variable REFERENT_PROBE_CACHE"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Finding("cache", Status.FAILED, f"cannot write in {str(folder)!r} ({error.strerror or error})", other)
        return
    kept = unpacked_models()
    held = f"{len(kept)} unpacked models, {sum(model.size for model in kept) / 1e9:.1f} GB"
    found = f"{folder} ({held}; {free / 1e9:.1f} GB free)"
    short = free < _COMFORTABLE
    yield Finding(
        "cache", Status.WARNING if short else Status.OK, found, f"free some space, or {other}" if short else None
    )


def models() -> Iterator[Finding]:
    """The embedded model, and how many others are at hand."""
    from referent_probe.models.registry import DEFAULT_MODEL
    from referent_probe.models.shelf import list_models

    listed = {model.name: model for model in list_models()}
    embedded = listed.pop(DEFAULT_MODEL)
    if embedded.at_hand:
        yield Finding("model", Status.OK, f"{DEFAULT_MODEL} is installed")
    else:
        yield Finding("model", Status.FAILED, f"{DEFAULT_MODEL} is not installed", f"run: {embedded.how}")
    here = [name for name, model in listed.items() if model.at_hand]
    yield Finding("other models", Status.OK, f"at hand: {', '.join(here) or 'none'} (see: referent-probe models)")


def stimuli() -> Finding:
    """Whether the built-in sentences are whole and keep the rules."""
    from referent_probe.stimuli.check import check_stimuli
    from referent_probe.stimuli.templates import load_stimuli

    again = "install referent-probe again"
    try:
        violations = check_stimuli("builtin")
        if violations:
            return Finding("stimuli", Status.FAILED, f"{len(violations)} rules broken: {violations[0]}", again)
        pairs = load_stimuli("builtin").pairs
    except (ReferentProbeError, OSError) as error:
        return Finding("stimuli", Status.FAILED, " ".join(str(error).split()), again)
    return Finding("stimuli", Status.OK, f"builtin, {len(pairs)} pairs, no rule broken")


def load_checks(notify: Callable[[str], None] = lambda message: None) -> Finding:
    """Load the embedded model; it is compared with plain Hugging Face, and its patched runs with themselves."""
    from referent_probe.models.registry import DEFAULT_MODEL

    notify(f"loading {DEFAULT_MODEL}")
    try:
        from referent_probe.models.load import load_model

        model = load_model(DEFAULT_MODEL, device="cpu", notify=notify)
    except ReferentProbeError as error:
        return Finding("load checks", Status.FAILED, " ".join(str(error).split()))
    except Exception as error:  # versions that do not go together fail at import, each in its own way
        found = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return Finding("load checks", Status.FAILED, found, "install the versions in constraints.txt")
    return Finding("load checks", Status.OK, f"{DEFAULT_MODEL}: {model.checks.in_one_line()}")


def _is_bad_pair(transformers: str, lens: str) -> bool:
    # transformers 5.24 renamed the layers' cache argument, and TransformerLens up to 4.3 does not know the new name.
    return Version(transformers) >= Version("5.24.dev0") and Version(lens) < Version("4.4.dev0")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _pins(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return {_plain(name): pin for name, _, pin in (line.partition("==") for line in lines) if pin and name[:1] != "#"}


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _free_memory() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return None
