"""What `measure` is asked for, checked as soon as it is said."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from referent_probe.errors import OptionError
from referent_probe.precision import Dtype
from referent_probe.stimuli.primes import ContextSetting

TEMPERATURES = (0.3, 0.5, 0.7, 1.0)
"""At which answers are given, all from the same logits; the primary one is added."""

MOST_DRAWS = 1_000_000
"""For each prompt: the standard error of a probability is then at most 0.0005."""

PARTS = ("joint", "sentences", "comprehension")
"""What can be left out; the choice prompts cannot."""


@dataclass(frozen=True)
class MeasureSettings:
    """What to measure; the command line's options, by the same names.

    Attributes:
        model: A packaged model, a folder, a GGUF file, or a Hub id.
        stimuli: "builtin", a TSV file, or WinoPron's zip; None for stimuli.tsv in the model's folder, else "builtin".
        password: Of an encrypted zip; WinoPron's published one is tried first.
        pairs: Number of pairs, drawn by seed and spread over occupations; None for all.
        settings: Context settings, of c0, cf, cm, n1, n2, r_np, r_both.
        temperature: The primary one, above 0. Answers at 0.3, 0.5, 0.7 and 1 come with it.
        top_k: Of the sampling that the probabilities are of; None for the whole vocabulary.
        draws: Answers to draw beside the exact probabilities, for each choice prompt; 0 for none.
        leave_out: Of "joint", "sentences", "comprehension".
        comprehension_pairs: Pairs on which the three questions are asked.
        override: Settings of the model's own generation config to switch off, e.g. "top_p".
        prompts: TOML file with a wording of one's own for the choice prompts; None for prompts.toml in the model's
            folder, else the built-in one.
        out: Run folder; None for one under `runs/` named after model, stimuli, pairs and seed.
        seed: Of every draw.
        device: "auto", "cpu", "cuda", ….
        dtype: "float32", "bfloat16" or "float16".
        revision: Branch, tag or commit of a Hub model.
        csv: Write the tables as CSV too.
    """

    model: str
    stimuli: str | None = None
    password: str | None = None
    pairs: int | None = None
    settings: tuple[str, ...] = tuple(ContextSetting)
    temperature: float = 0.5
    top_k: int | None = 40
    draws: int = 0
    leave_out: tuple[str, ...] = ()
    comprehension_pairs: int = 40
    override: tuple[str, ...] = ()
    prompts: Path | None = None
    out: Path | None = None
    seed: int = 0
    device: str = "auto"
    dtype: Dtype = "float32"
    revision: str | None = None
    csv: bool = False

    def __post_init__(self) -> None:
        for name in ("prompts", "out"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, Path(value))
        _check_names("--settings", self.settings, tuple(ContextSetting))
        _check_names("--leave-out", self.leave_out, PARTS)
        if not self.settings:
            raise OptionError(f"--settings is empty; give some of {', '.join(ContextSetting)}")
        for name, most in (("draws", MOST_DRAWS), ("comprehension_pairs", 10**9)):
            if not 0 <= getattr(self, name) <= most:
                raise OptionError(f"--{name.replace('_', '-')} {getattr(self, name)} is not from 0 to {most}")
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise OptionError(f"--temperature {self.temperature!r} is not a number above 0; the paper has 0.5")
        if self.top_k is not None and self.top_k < 1:
            raise OptionError(f"--top-k {self.top_k!r} is below 1; the paper has 40")


def _check_names(option: str, given: Collection[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise OptionError(f"{option}: {name!r} is unknown; give some of {', '.join(known)}")
