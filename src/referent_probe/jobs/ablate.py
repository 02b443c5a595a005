"""The job `ablate`: what remains of the prime's effect when heads put out something that knows no prime."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.analysis.conflation.damage import Damage
from referent_probe.analysis.interventions import cell_effects, per_contrast
from referent_probe.errors import OptionError
from referent_probe.jobs.ablation_damage import damages, unprimed_rows
from referent_probe.jobs.effects import LEADING, effects_in_json, estimate, p_value, total_in_words
from referent_probe.jobs.job import Context, Result, Stage, Tables
from referent_probe.mechanism.places import read_heads
from referent_probe.records import INTERVENING
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    from referent_probe.mechanism.cells import Cell
    from referent_probe.mechanism.contrasts import Contrast

MEASURES = ("remaining", "removed", "midpoint_shift")
KINDS = ("zero", "mean", "resample", "unprimed", "null")


@dataclass(frozen=True)
class AblateJob:
    """Ablate heads at the target slot, one by one, and all that are named together.

    Attributes:
        heads: "all", or some as in "20.3,26.0", which are ablated together too.
        kinds: Of `KINDS`, at least two: what a head means depends on what stands in for it.
        name: Of the job.

    Raises:
        OptionError: A kind is unknown, or fewer than two are named.
    """

    heads: str = "all"
    kinds: tuple[str, ...] = KINDS
    name: str = "ablate"

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise OptionError(f"--kinds {quoted(kind)} is unknown; give some of {', '.join(KINDS)}")
        if len(set(self.kinds)) < 2:
            raise OptionError(
                f"--kinds {','.join(self.kinds)!r}: give at least two of {', '.join(KINDS)}, since one ablation alone "
                "cannot tell a head's part from the damage"
            )
        read_heads(self.heads)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its stored tables."""
        return INTERVENING

    def options(self) -> Mapping[str, Any]:
        """What fixes the results."""
        return {"heads": self.heads, "kinds": list(self.kinds)}

    def check(self, context: Context) -> None:
        """Heads that the model does not have are refused."""
        self._cells(context)(context.contrasts[0])

    def expected(self, context: Context) -> float:
        """Forward passes of one prompt."""
        stage = self._stage(context, None)
        return sum(stage.cost(contrast) for contrast in context.contrasts)

    @property
    def _needs_pool(self) -> bool:
        return bool({"mean", "resample"} & set(self.kinds))

    def stages(self, context: Context, so_far: Callable[[], Tables]) -> Iterator[Stage]:
        """One stage, after all prompts were run once for their means."""
        from referent_probe.mechanism.ablation_values import collect_pool

        pool = None
        if self._needs_pool:
            prompts = 2 * len(context.contrasts)
            context.notify(f"running {prompts} prompts once, for means and for values of other prompts")
            pool = collect_pool(context.model, context.contrasts)
        yield self._stage(context, pool)

    def _stage(self, context: Context, pool: Any) -> Stage:
        from referent_probe.jobs.cell_stage import cell_stage
        from referent_probe.mechanism.ablation_values import fill

        named = self._named(context) if self._needs_pool else ()
        inner = cell_stage(
            context,
            "ablate",
            self._cells(context),
            fill=lambda scene, cells: fill(
                context.model, scene, cells, pool, dict(context.pairs), context.wording, context.settings.seed
            ),
            extra_passes=len({"unprimed", "null"} & set(self.kinds)) + 2 * self._needs_pool + bool(named),
        )
        if not named:
            return inner

        def run(contrast: "Contrast") -> tuple[Tables, dict[str, float]]:
            tables, measured = inner.run(contrast)
            return tables | {"controls": unprimed_rows(context, contrast, named, pool)}, measured

        return Stage(inner.name, inner.cost, run)

    def _named(self, context: Context) -> tuple[tuple[int, int], ...]:
        """Heads that were named, which are looked at for damage together."""
        from referent_probe.mechanism.sweeps import parse_heads

        return () if read_heads(self.heads) is None else parse_heads(self.heads, context.shape)

    def _cells(self, context: Context) -> "Callable[[Contrast], list[Cell]]":
        from referent_probe.mechanism.sweeps import ablation_cells, head_name, parse_heads

        heads = parse_heads(self.heads, context.shape)
        sets: dict[str, tuple[tuple[int, int], ...]] = {head_name(head): (head,) for head in heads}
        if read_heads(self.heads) is not None and len(heads) > 1:
            sets["together"] = heads
        return lambda contrast: ablation_cells(contrast, self.kinds, sets)

    def result(self, context: Context, tables: Tables, smallest: float) -> Result:
        """What remains of the total effect, by heads and kind of ablation."""
        table = per_contrast(tables["interventions"], tables["contrasts"])
        seed = context.settings.seed
        effects = cell_effects(table, MEASURES, smallest, seed, tested=["removed"])
        effects["total"] = float(table.groupby("occupation")["total_effect"].mean().mean())
        harmed: list[Damage] = []
        words = [total_in_words(tables["contrasts"], seed), _in_words(effects, smallest)]
        if len(tables["controls"]):
            harmed, reason = damages(context, tables, self._named(context))
            words += [f"{one.words[0].upper()}{one.words[1:]}." for one in harmed]
            words += [f"{reason[0].upper()}{reason[1:]}."] if reason else []
        return Result(
            summary={"effects": effects_in_json(effects, MEASURES), "damage": [one.as_json() for one in harmed]},
            tables={"effects": effects},
            figures=_figures(effects),
            words=words,
            leading=_leading(effects),
        )


def _largest(effects: pd.DataFrame) -> pd.DataFrame:
    """Rows of the sets that remove most, all kinds of each."""
    size = effects["removed_mean"].abs().groupby(effects["label"]).mean().sort_values(ascending=False)
    named = sorted(size.index, key=lambda label: label != "together")  # first where it is there
    rank = {label: i for i, label in enumerate(named[:LEADING])}
    chosen = effects[effects["label"].isin(rank)]
    return chosen.assign(rank=chosen["label"].map(rank)).sort_values(["rank", "what"]).drop(columns="rank")


def _figures(effects: pd.DataFrame) -> dict[str, Any]:
    from referent_probe.figures_mechanism import ablation_effects

    return {"ablations": ablation_effects(_largest(effects).rename(columns={"what": "kind", "kind": "job"}))}


def _in_words(effects: pd.DataFrame, smallest: float) -> str:
    by_label = effects.groupby("label")["removed_counts"]
    everywhere = [str(label) for label, counts in by_label if counts.all()]
    somewhere = [str(label) for label, counts in by_label if counts.any() and not counts.all()]
    kinds = ", ".join(dict.fromkeys(effects["what"]))
    return (
        f"Ablated at the target slot, {len(by_label)} sets of heads by {kinds}: the effect of the prime changes under "
        f"every kind for {', '.join(everywhere) or 'none'}, under some for {', '.join(somewhere) or 'none'} (max-t at "
        f"5 % over all, and at least {smallest:.3f} logits)."
    )


def _leading(effects: pd.DataFrame) -> list[list[str]]:
    rows = [["heads", "becomes", "remaining", "removed", "midpoint", "p of removed"]]
    for row in _largest(effects).to_dict("records"):
        shown = [estimate(row, name) for name in MEASURES]
        rows.append([str(row["label"]), str(row["what"]), *shown, p_value(row["removed_p_max_t"])])
    return rows
