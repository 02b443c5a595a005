"""The jobs `patch` and `flow`: activation patching of any site at any place."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.analysis.interventions import cell_effects, per_contrast
from referent_probe.errors import OptionError, PromptError
from referent_probe.jobs.effects import effects_in_json, leading_cells, total_in_words
from referent_probe.jobs.job import Context, Result, Stage, Tables
from referent_probe.mechanism.places import BEFORE_THE_PRIME, EACH_SPAN, TARGET_SLOT, check_where, read_heads
from referent_probe.records import INTERVENING
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    from referent_probe.mechanism.cells import Cell
    from referent_probe.mechanism.contrasts import Contrast

DIRECTIONS = {"both": ("denoise", "noise"), "denoise": ("denoise",), "noise": ("noise",)}
SITES = ("z", "resid", "attn_out", "mlp_out", "q", "k", "v", "pattern")


@dataclass(frozen=True)
class PatchJob:
    """Patch one activation at a time from the other run of the contrast.

    Attributes:
        target: Of `SITES`.
        where: "target-slot", another span, a position, "all", "each-span" or "each-position".
        direction: "both", "denoise" or "noise".
        heads: "all", or some as in "20.3,26.0"; of whole-block sites, their layers.
        name: Of the job.

    Raises:
        OptionError: Target, place or direction is unknown.
    """

    target: str = "z"
    where: str = "target-slot"
    direction: str = "both"
    heads: str = "all"
    name: str = "patch"

    def __post_init__(self) -> None:
        if self.target not in SITES:
            hint = (
                "; the stream between attention and MLP is no target: patch resid or attn_out"
                if "mid" in self.target
                else ""
            )
            raise OptionError(f"--target {quoted(self.target)} is unknown; give one of {', '.join(SITES)}{hint}")
        if self.direction not in DIRECTIONS:
            raise OptionError(f"--direction {quoted(self.direction)} is unknown; give one of {', '.join(DIRECTIONS)}")
        read_heads(self.heads)
        object.__setattr__(self, "where", check_where(self.where))

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its stored tables."""
        return INTERVENING

    def options(self) -> Mapping[str, Any]:
        """What fixes the results."""
        return {"target": self.target, "where": self.where, "direction": self.direction, "heads": self.heads}

    def check(self, context: Context) -> None:
        """Heads, spans and positions that are not there are refused, and places where nothing could be patched."""
        cells = [cell for contrast in context.contrasts for cell in self._cells(context)(contrast)]
        if all(cell.reason for cell in cells):
            raise PromptError(
                f"--where {self.where!r} lies {BEFORE_THE_PRIME}; give {TARGET_SLOT}, another span or position behind "
                f"the prime, or {EACH_SPAN}"
            )

    def expected(self, context: Context) -> float:
        """Forward passes of one prompt."""
        stage = self._stage(context)
        return sum(stage.cost(contrast) for contrast in context.contrasts)

    def stages(self, context: Context, so_far: Callable[[], Tables]) -> Iterator[Stage]:
        """One stage."""
        yield self._stage(context)

    def _stage(self, context: Context) -> Stage:
        from referent_probe.jobs.cell_stage import cell_stage

        return cell_stage(context, "patch", self._cells(context), direction=self.direction)

    def _cells(self, context: Context) -> "Callable[[Contrast], list[Cell]]":
        from referent_probe.mechanism.sweeps import parse_heads, patch_cells
        from referent_probe.models.interventions import Site

        heads = None if read_heads(self.heads) is None else parse_heads(self.heads, context.shape)
        return lambda contrast: patch_cells(contrast, context.shape, Site(self.target), self.where, heads)

    def result(self, context: Context, tables: Tables, smallest: float) -> Result:
        """Effects of every cell, corrected over all of them."""
        measures = DIRECTIONS[self.direction]
        table = per_contrast(tables["interventions"], tables["contrasts"])
        effects = cell_effects(table, measures, smallest, context.settings.seed)
        effects["total_mean"] = _totals(table, effects)
        counted = effects[[f"{name}_counts" for name in measures]].all(axis=1)
        tested = int(effects["reason"].isna().sum()) * len(measures)
        words = [
            total_in_words(tables["contrasts"], context.settings.seed),
            f"Patching {self.target} at {self.where}: {int(counted.sum())} of {len(effects)} cells move the answer in "
            f"{'both directions' if len(measures) == 2 else measures[0][:-1] + 'ing'} (max-t at 5 % over {tested} "
            f"tests, and at least {smallest:.3f} logits).",
        ]
        return Result(
            summary={"effects": effects_in_json(effects, measures)},
            tables={"effects": effects},
            figures=self._figures(context, effects),
            words=words,
            leading=leading_cells(effects, measures),
        )

    def _figures(self, context: Context, effects: pd.DataFrame) -> dict[str, Any]:
        from referent_probe.figures_flow import flow_maps
        from referent_probe.jobs.effects import as_flow, as_heads
        from referent_probe.models.interventions import Site

        computed = effects[effects["reason"].isna()]
        if computed.empty:
            return {}
        measure = "noise" if self.direction == "noise" else "denoise"
        if not Site(self.target).by_head:
            return {"flow_map": flow_maps({context.model.source.name: as_flow(computed, measure)})}
        if computed["where"].nunique() == 1 and self.direction == "both" and read_heads(self.heads) is None:
            from referent_probe.figures import head_map

            return {"head_map": head_map(*as_heads(computed))}
        return {}


def flow_job(direction: str = "denoise") -> PatchJob:
    """The flow map: the residual stream entering each layer, at each span."""
    return PatchJob("resid", "each-span", direction, name="flow")


def _totals(table: pd.DataFrame, effects: pd.DataFrame) -> list[float]:
    """Mean total effect over the occupations of each cell's contrasts."""
    by_place = table.groupby(["where", "occupation"])["total_effect"].mean().groupby("where").mean()
    return [float(by_place[where]) for where in effects["where"]]
