"""What a job consists of: stages of work units, one a contrast, and what is made of their tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from referent_probe.jobs.settings import JobSettings
from referent_probe.stimuli.prompts import PromptWording
from referent_probe.stimuli.templates import Pair

if TYPE_CHECKING:
    from referent_probe.mechanism.contrasts import Contrast
    from referent_probe.mechanism.sweeps import Shape
    from referent_probe.models.load import LoadedModel

Tables = dict[str, pd.DataFrame]
"""By name, as in `records.SCHEMAS` or `summary.json`'s neighbours."""


@dataclass(frozen=True)
class Context:
    """What a job works on.

    Attributes:
        settings: What it was asked for.
        model: The loaded model.
        shape: How many blocks and heads it has.
        pairs: By id.
        contrasts: Those that can be patched.
        wording: Of the prompts.
        notify: Told what happens, a line at a time.
    """

    settings: JobSettings
    model: "LoadedModel"
    shape: "Shape"
    pairs: Mapping[str, Pair]
    contrasts: Sequence["Contrast"]
    wording: PromptWording
    notify: Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """Work units of one kind, one an item: mostly, one a contrast.

    Attributes:
        name: Shown beside the progress bar, and part of the units' names.
        cost: About how many forward passes of one prompt an item takes.
        run: Does it: tables of the job (those left out are empty), and seconds and counts.
        items: What has an `id` and is done one after the other; None for all contrasts.
        of: What they are called, in the plural.
    """

    name: str
    cost: Callable[[Any], float]
    run: Callable[[Any], tuple[Tables, dict[str, float]]]
    items: Sequence[Any] | None = None
    of: str = "contrasts"


@dataclass(frozen=True)
class Result:
    """What a job makes of its tables.

    Attributes:
        summary: Its part of `summary.json`; every estimate with interval, unit and n.
        tables: Tables beside the stored ones.
        figures: matplotlib figures by file name, without ending.
        words: The finding as sentences.
        leading: Rows for the terminal: a header, then cells.
    """

    summary: Mapping[str, Any]
    tables: Tables = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    words: Sequence[str] = ()
    leading: Sequence[Sequence[str]] = ()


class Job(Protocol):
    """A job of the mechanistic layer."""

    @property
    def name(self) -> str:
        """As the command is called."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its stored tables, of `records.SCHEMAS`; with contrasts and self_checks."""

    def options(self) -> Mapping[str, Any]:
        """What fixes its results beside the settings, for the run's configuration; JSON values."""

    def check(self, context: Context) -> None:
        """Refuse what this model or these prompts do not have, before any long work.

        Raises:
            ReferentProbeError: Quotes the option and names the cure.
        """

    def expected(self, context: Context) -> float:
        """About how many forward passes of one prompt all stages take."""

    def stages(self, context: Context, so_far: Callable[[], Tables]) -> Iterator[Stage]:
        """The stages in order; a later one may look at the tables of those before."""

    def result(self, context: Context, tables: Tables, smallest: float) -> Result:
        """What the stored tables say; `smallest` is the smallest effect of interest, in logits."""


Progress = Callable[[Stage, Sequence[Any]], Iterable[Any]]
"""Wraps the items that are left of a stage, to show how far it is."""


@dataclass(frozen=True)
class FinishedJob:
    """A finished run.

    Attributes:
        folder: The run folder.
        summary: Content of `summary.json`.
        leading: Rows for the terminal: a header, then cells.
        was_complete: True where the run was there already and nothing was computed.
    """

    folder: Path
    summary: dict[str, Any]
    leading: Sequence[Sequence[str]]
    was_complete: bool
