"""What every run is asked for, read and checked before a model is loaded, and written down so that it fixes the run."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from referent_probe.precision import Dtype
from referent_probe.provenance import versions
from referent_probe.run_files import check_out
from referent_probe.stimuli.beside_model import stimuli_for, what_is_read, wording_for
from referent_probe.stimuli.prompts import PromptWording
from referent_probe.stimuli.templates import Pair, StimulusSet, draw_pairs, load_stimuli


class AskedFor(Protocol):
    """The settings that all runs share; meanings stand with each run's own."""

    @property
    def model(self) -> str: ...
    @property
    def stimuli(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...
    @property
    def pairs(self) -> int | None: ...
    @property
    def prompts(self) -> Path | None: ...
    @property
    def out(self) -> Path | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def revision(self) -> str | None: ...


@dataclass(frozen=True)
class Asked:
    """Input that has been read.

    Attributes:
        name: Of the model, short.
        stimuli: The whole set.
        pairs: Those that are run.
        wording: Of the prompts.
        out: The run folder, which nothing is in the way of.
    """

    name: str
    stimuli: StimulusSet
    pairs: tuple[Pair, ...]
    wording: PromptWording
    out: Path


def read_input(settings: AskedFor, kind: str = "") -> Asked:
    """Read stimuli and wording, draw pairs, and find the run folder.

    Args:
        settings: What was asked.
        kind: Of the run, for the name of a folder that was not named; "" for the main job.

    Raises:
        ReferentProbeError: Stimuli, wording, number of pairs or folder cannot be used.

    Example:
        8 pairs of the built-in stimuli on a model in `models/mine` go to `runs/mine_builtin_8-pairs_seed-0`.
    """
    stimuli = load_stimuli(stimuli_for(settings.model, settings.stimuli), settings.password)
    pairs = draw_pairs(stimuli, settings.pairs, settings.seed)
    wording = wording_for(settings.model, settings.prompts)
    name = (Path(settings.model).name or settings.model)[:60]
    named = f"{name}_{stimuli.name}_{len(pairs)}-pairs_seed-{settings.seed}"
    out = settings.out or Path("runs") / (f"{kind}_{named}" if kind else named)
    check_out(out)
    return Asked(name, stimuli, tuple(pairs), wording, out)


def identify(
    asked: Asked, settings: AskedFor, job: str, notify: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Find the model, and say what is read.

    Args:
        asked: From `read_input`.
        settings: What was asked.
        job: Name of the run's kind.
        notify: Told what happens, a line at a time.

    Returns:
        What a summary says of model and stimuli, and the part of the configuration that all runs have. JSON values.

    Raises:
        ModelError: There is no such model.
    """
    import torch

    from referent_probe.models.source import find_model

    source = find_model(settings.model, revision=settings.revision, notify=notify)
    notify(what_is_read(settings.model, settings.stimuli, settings.prompts))
    stimuli = {
        "name": asked.stimuli.name,
        "sha256": asked.stimuli.sha256,
        "n_pairs_available": len(asked.stimuli.pairs),
    }
    about = {
        "model": {
            "name": asked.name,
            "given": settings.model,
            "kind": source.kind,
            "identity": source.identity,
            "dtype": settings.dtype,
        },
        "stimuli": stimuli,
    }
    config = {
        "job": job,
        "version": versions()["referent-probe"],
        "model": {"identity": source.identity, "dtype": settings.dtype, "device": settings.device},
        "stimuli": stimuli,
        "pairs": [pair.id for pair in asked.pairs],
        "wording": asdict(asked.wording),
        "seed": settings.seed,
        "threads": torch.get_num_threads(),
    }
    return about, config
