"""The job `conflation`: does contextuality reflect that the model takes one person for the other?"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from referent_probe.errors import OptionError, StimuliError
from referent_probe.jobs.job import Context, Result, Stage, Tables
from referent_probe.records import CONFLATION
from referent_probe.stimuli.frame_rotation import FRAMES_AT_HAND, FRAMES_PER_TEMPLATE

if TYPE_CHECKING:
    from referent_probe.jobs.conflation_items import Material

RANDOM_SETS = 200
FEWEST_OCCUPATIONS = 12
"""For a verdict: both halves need six for a sign-flip test to reach 5 %."""


@dataclass(frozen=True)
class ConflationJob:
    """Primes that differ in whose pronoun it is, heads that carry it, and what dC is made of without them.

    Attributes:
        frames: File of frames; None for `frames.toml` in the model's folder, else the built-in ones.
        frames_at_hand: Frames of each case that are used.
        frames_per_template: Of these, those that stand before each template.
        random_sets: Random sets of heads, matched to the carriers' effect.
        smallest_mass: Probability that both options must have together, on average.
        name: Of the job.

    Raises:
        OptionError: A number that is none.
    """

    frames: Path | None = None
    frames_at_hand: int = FRAMES_AT_HAND
    frames_per_template: int = FRAMES_PER_TEMPLATE
    random_sets: int = RANDOM_SETS
    smallest_mass: float = 0.1
    name: str = "conflation"

    def __post_init__(self) -> None:
        for option, value in (("--frames-at-hand", self.frames_at_hand), ("--random-sets", self.random_sets)):
            if value < 1:
                raise OptionError(f"{option} {value} is below 1; give 1 or more")
        if not 1 <= self.frames_per_template <= self.frames_at_hand:
            raise OptionError(
                f"--frames-per-template {self.frames_per_template} does not lie from 1 to the {self.frames_at_hand} "
                "frames at hand"
            )

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its stored tables."""
        return CONFLATION

    def options(self) -> Mapping[str, Any]:
        """What fixes the results."""
        return {
            "frames": None if self.frames is None else str(self.frames),
            "frames_at_hand": self.frames_at_hand,
            "frames_per_template": self.frames_per_template,
            "random_sets": self.random_sets,
        }

    def check(self, context: Context) -> None:
        """Stimuli of too few occupations, and roles that no frame fits, are refused."""
        from referent_probe.analysis.conflation.power import power

        occupations = len({pair.occupation for pair in context.pairs.values()})
        if len(context.pairs) < 2:
            raise StimuliError(
                "conflation needs third persons, and one pair has none: give more --pairs, or more stimuli"
            )
        if occupations < FEWEST_OCCUPATIONS:
            raise OptionError(
                f"{occupations} occupations are too few for a verdict: heads are chosen on one half and tested on the "
                f"other, and a sign-flip test needs six; {power(occupations, 1.5, 4.0, 0.85)}. "
                f"Give more --pairs (at least {FEWEST_OCCUPATIONS} occupations)"
            )
        self._material(context)

    def _material(self, context: Context) -> "Material":
        from referent_probe.jobs.conflation_items import material_for

        return material_for(context, self)

    def expected(self, context: Context) -> float:
        """Forward passes of one prompt."""
        from referent_probe.jobs.conflation_stages import stages_of

        stages = stages_of(context, self, self._material(context))
        fixed = [stages.behaviour, stages.heads, stages.cuts, stages.sets(None), stages.damage(None)]
        items = ((stage, item) for stage in fixed for item in stage.items or ())
        return sum(stage.cost(item) for stage, item in items)

    def stages(self, context: Context, so_far: Callable[[], Tables]) -> Iterator[Stage]:
        """Behaviour; heads after each prime; each head's edges to the prime; sets of heads; damage."""
        from referent_probe.jobs.conflation_plan import plan_of
        from referent_probe.jobs.conflation_stages import stages_of

        stages = stages_of(context, self, self._material(context))
        yield stages.behaviour
        self._refuse_silence(so_far())
        yield stages.heads
        yield stages.cuts
        plan = plan_of(so_far(), self.random_sets, context.settings.smallest_share, context.settings.seed)
        yield stages.sets(plan)
        yield stages.damage(plan)

    def _refuse_silence(self, tables: Tables) -> None:
        mass = float(tables["primed"]["p_options"].mean())
        if mass < self.smallest_mass:
            raise OptionError(
                f"the model gives {mass:.1%} of its probability to the two options, less than "
                f"{self.smallest_mass:.0%}: it does not answer the question. Give a wording that it answers with "
                "--prompts, or another model"
            )

    def result(self, context: Context, tables: Tables, smallest: float) -> Result:
        """Verdict, carriers, bridge."""
        from referent_probe.jobs.conflation_plan import plan_of
        from referent_probe.jobs.conflation_result import conflation_result

        plan = plan_of(tables, self.random_sets, context.settings.smallest_share, context.settings.seed)
        return conflation_result(context, tables, plan, self._material(context).skipped)
