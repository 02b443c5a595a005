"""What every job of the mechanistic layer is asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from referent_probe.errors import OptionError
from referent_probe.precision import Dtype
from referent_probe.stimuli.quoting import quoted

Order = Literal["both", "mf", "fm"]
"""Orders of the options that are run; "mf": masculine first."""


@dataclass(frozen=True)
class JobSettings:
    """What a job is asked for; the command line's options, by the same names.

    Attributes:
        model: A packaged model, a folder, a GGUF file, or a Hub id.
        stimuli: "builtin", a TSV file, or WinoPron's zip; None for stimuli.tsv in the model's folder, else "builtin".
        password: Of an encrypted zip; WinoPron's published one is tried first.
        pairs: Number of pairs, drawn by seed and spread over occupations.
        order: Orders of the options; both double the work and average out a model's taste for the first.
        prompts: TOML file with a wording of one's own; None for prompts.toml in the model's folder,
            else the built-in one.
        out: Run folder; None for one under `runs/` named after job, model, stimuli, pairs and seed.
        seed: Of every draw.
        device: "auto", "cpu", "cuda", ….
        dtype: "float32", "bfloat16" or "float16".
        revision: Branch, tag or commit of a Hub model.
        smallest_share: Smallest effect of interest as a share of the total effect, 0 to 1.
        csv: Write the tables as CSV too.

    Raises:
        OptionError: The smallest share is no share, or the order is unknown.
    """

    model: str
    stimuli: str | None = None
    password: str | None = None
    pairs: int = 8
    order: Order = "both"
    prompts: Path | None = None
    out: Path | None = None
    seed: int = 0
    device: str = "auto"
    dtype: Dtype = "float32"
    revision: str | None = None
    smallest_share: float = 0.01
    csv: bool = False

    def __post_init__(self) -> None:
        for name in ("prompts", "out"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, Path(value))
        if self.order not in get_args(Order):
            raise OptionError(f"--order {quoted(self.order)} is unknown; give one of {', '.join(get_args(Order))}")
        if not 0 <= self.smallest_share < 1:
            raise OptionError(f"--smallest-share {self.smallest_share} is not a share; give a number from 0 to below 1")
