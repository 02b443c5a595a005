"""The job `knockout`: what remains of the prime's effect when later tokens cannot attend to it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.analysis.interventions import cell_effects, per_contrast
from referent_probe.errors import OptionError
from referent_probe.jobs.effects import effects_in_json, estimate, p_value, total_in_words
from referent_probe.jobs.job import Context, Result, Stage, Tables
from referent_probe.mechanism.places import read_heads
from referent_probe.records import INTERVENING
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    from referent_probe.mechanism.cells import Cell
    from referent_probe.mechanism.contrasts import Contrast

MODES = {"before": ("before",), "after": ("after",), "both": ("before", "after")}
QUERIES = ("target-slot", "later")
MEASURES = ("remaining", "removed", "midpoint_shift")


@dataclass(frozen=True)
class KnockoutJob:
    """Cut attention from the target slot, or from all later tokens, to parts of the prompt, in windows of layers.

    Attributes:
        window: Layers of a window; 0 for a fifth of the model.
        mode: "before" softmax, "after" it (nothing is redistributed), or "both".
        queries: "target-slot", or "later": every token behind the prime.
        heads: "all", or some as in "20.3,26.0", which are then cut in all their layers at once.
        name: Of the job.

    Raises:
        OptionError: A value that is not one of these.
    """

    window: int = 0
    mode: str = "both"
    queries: str = "target-slot"
    heads: str = "all"
    name: str = "knockout"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise OptionError(f"--mode {quoted(self.mode)} is unknown; give one of {', '.join(MODES)}")
        if self.queries not in QUERIES:
            raise OptionError(f"--queries {quoted(self.queries)} is unknown; give one of {', '.join(QUERIES)}")
        if self.window < 0:
            raise OptionError(f"--window {self.window} is below 0; give a number of layers, or 0 for a fifth of them")
        read_heads(self.heads)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its stored tables."""
        return INTERVENING

    def options(self) -> Mapping[str, Any]:
        """What fixes the results."""
        return {"window": self.window, "mode": self.mode, "queries": self.queries, "heads": self.heads}

    def check(self, context: Context) -> None:
        """Windows and heads that do not fit the model are refused."""
        if self.window > context.shape.layers:
            raise OptionError(
                f"--window {self.window} is more than the model's {context.shape.layers} layers; give fewer"
            )
        self._cells(context)(context.contrasts[0])

    def expected(self, context: Context) -> float:
        """Forward passes of one prompt."""
        stage = self._stage(context)
        return sum(stage.cost(contrast) for contrast in context.contrasts)

    def stages(self, context: Context, so_far: Callable[[], Tables]) -> Iterator[Stage]:
        """One stage."""
        yield self._stage(context)

    def _stage(self, context: Context) -> Stage:
        from referent_probe.jobs.cell_stage import cell_stage

        return cell_stage(context, "knockout", self._cells(context))

    def _cells(self, context: Context) -> "Callable[[Contrast], list[Cell]]":
        from referent_probe.mechanism.sweeps import knockout_cells, parse_heads

        shape = context.shape
        width = self.window or max(1, round(shape.layers / 5))
        heads = None if read_heads(self.heads) is None else parse_heads(self.heads, shape)
        return lambda contrast: knockout_cells(contrast, shape, width, MODES[self.mode], self.queries, heads)

    def result(self, context: Context, tables: Tables, smallest: float) -> Result:
        """What remains of the total effect, by what is cut and where."""
        table = per_contrast(tables["interventions"], tables["contrasts"])
        seed = context.settings.seed
        effects = cell_effects(table, MEASURES, smallest, seed, tested=["removed"])
        effects["total"] = float(table.groupby("occupation")["total_effect"].mean().mean())
        whole = effects[(effects["layer"] == 0) & (effects["last_layer"] == context.shape.layers - 1)]
        return Result(
            summary={"effects": effects_in_json(effects, MEASURES)},
            tables={"effects": effects},
            figures=_figures(effects),
            words=[total_in_words(tables["contrasts"], seed), *_in_words(whole, self.queries)],
            leading=_leading(whole),
        )


def _figures(effects: pd.DataFrame) -> dict[str, Any]:
    from referent_probe.figures_mechanism import knockout_curve

    drawn = {}
    for mode, part in effects[effects["reason"].isna()].groupby("what"):
        width = part["last_layer"] - part["layer"] + 1
        curve = part[width == width.min()].assign(window=int(width.min()))
        drawn[f"knockout_{mode}_softmax"] = knockout_curve(curve)
    return drawn


def _in_words(whole: pd.DataFrame, queries: str) -> Iterator[str]:
    where = "the target slot" if queries == "target-slot" else "all later tokens"
    for row in whole[whole["reason"].isna()].to_dict("records"):
        yield (
            f"Cut in all layers {row['what']} softmax, from {where} to the {row['label']}: "
            f"{estimate(row, 'remaining', 2)} logits of the effect remain, {estimate(row, 'removed', 2)} are removed "
            f"(p {p_value(row['removed_p_max_t'])} over all cuts), and the midpoint moves by "
            f"{estimate(row, 'midpoint_shift', 2)}."
        )
    if queries == "later":
        yield (
            "The prompts differ at the prime alone, so that a cut from all later tokens to all of it must leave "
            "nothing: what counts is which part of the prompt and which layers it takes, against the controls."
        )
    else:
        yield "What remains has reached the target slot by way of other tokens (--queries later cuts these ways too)."


def _leading(whole: pd.DataFrame) -> list[list[str]]:
    rows = [["cut in all layers", "softmax", "remaining", "removed", "midpoint", "p of removed"]]
    for row in whole[whole["reason"].isna()].to_dict("records"):
        shown = [estimate(row, name) for name in MEASURES]
        rows.append([str(row["label"]), str(row["what"]), *shown, p_value(row["removed_p_max_t"])])
    return rows
