"""What the tests of jobs share: finished jobs on planted models, and those models read by transformers alone."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from referent_probe.jobs.job import Context
from referent_probe.jobs.settings import JobSettings
from referent_probe.mechanism.contrasts import Contrast, build_contrasts
from referent_probe.mechanism.sweeps import Shape
from referent_probe.stimuli.beside_model import stimuli_for, wording_for
from referent_probe.stimuli.templates import draw_pairs, load_stimuli

Do = Callable[..., "Done"]
"""Does a job on a planted model, by its name, once for all tests: `do("conflater", PatchJob(), pairs=6)`."""


@dataclass(frozen=True)
class Done:
    """A finished job.

    Attributes:
        folder: The run folder.
        truth: What is known of the model beforehand; {} where it is no planted one.
        contrasts: All of the run, as they were built.
    """

    folder: Path
    truth: dict[str, Any]
    contrasts: dict[str, Contrast]

    @cached_property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))

    def table(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(self.folder / f"{name}.parquet")

    def effects(self, **wanted: Any) -> pd.DataFrame:
        """Rows of the table "effects" with these values."""
        return rows(self.table("effects"), **wanted)

    @property
    def total(self) -> float:
        return float(self.summary["total_effect"]["mean"])


def rows(table: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    """Rows of a table that have these values; at least one."""
    for column, value in wanted.items():
        table = table[table[column] == value]
    assert len(table), f"no row has {wanted}"
    return table


def context_of(folder: Path, model: Any, pairs: int = 1, seed: int = 0, order: str = "mf") -> Context:
    """What a job works on, without a run folder."""
    settings = JobSettings(str(folder), pairs=pairs, seed=seed, order=order)  # type: ignore[arg-type]
    chosen = draw_pairs(load_stimuli(stimuli_for(str(folder), None)), pairs, seed)
    wording = wording_for(str(folder), None)
    contrasts = [
        contrast
        for contrast in build_contrasts(chosen, model.tokenizer, wording, model.quirks)
        if order in ("both", contrast.order)
    ]
    shape = Shape(
        model.n_layers, model.n_heads, int(getattr(model.bridge.cfg, "n_key_value_heads", 0) or model.n_heads)
    )
    return Context(settings, model, shape, {p.id: p for p in chosen}, contrasts, wording, lambda line: None)


def read_plainly(folder: Path) -> Any:
    """The network as transformers alone reads it; TransformerLens never sees it."""
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    return network.eval().requires_grad_(False)
