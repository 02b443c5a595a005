"""The job `survey`: all heads at the target slot, the flow map, and where in the prompt the leading heads act."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.analysis.interventions import per_contrast
from referent_probe.analysis.joint_share import ranking
from referent_probe.errors import OptionError
from referent_probe.jobs.job import Context, Result, Stage, Tables
from referent_probe.records import INTERVENING

if TYPE_CHECKING:
    from referent_probe.mechanism.contrasts import Contrast


@dataclass(frozen=True)
class SurveyJob:
    """Patch everything that the question asks of, in three stages.

    Attributes:
        flow_pairs: Pairs whose residual stream is swept by layer and span (denoising); None for all.
        leading: Leading heads whose output is patched span by span, in both directions.
        name: Of the job.

    Raises:
        OptionError: A number below 0.
    """

    flow_pairs: int | None = None
    leading: int = 10
    name: str = "survey"

    def __post_init__(self) -> None:
        for option, value in (("--flow-pairs", self.flow_pairs), ("--leading", self.leading)):
            if value is not None and value < 0:
                raise OptionError(f"{option} {value} is below 0; give 0 or more")

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its stored tables."""
        return INTERVENING

    def options(self) -> Mapping[str, Any]:
        """What fixes the results."""
        return {"flow_pairs": self.flow_pairs, "leading": self.leading}

    def check(self, context: Context) -> None:
        """Nothing that a model could lack."""

    def expected(self, context: Context) -> float:
        """Forward passes of one prompt."""
        shape = context.shape
        # Leading heads lie, on average, in the upper half.
        some = [(layer, 0) for layer in range(shape.layers // 2, shape.layers)]
        share = self.leading / max(len(some), 1)
        spans = self._span_stage(context, some)
        stages = [self._head_stage(context), self._flow_stage(context)]
        whole = sum(stage.cost(contrast) for stage in stages for contrast in context.contrasts)
        # Baselines and checks are paid once, however many heads are swept.
        fixed = self._span_stage(context, [])
        return whole + sum(
            fixed.cost(c) + share * (spans.cost(c) - fixed.cost(c)) for c in context.contrasts if self.leading
        )

    def stages(self, context: Context, so_far: Callable[[], Tables]) -> Iterator[Stage]:
        """All heads; the residual stream; the leading heads by span."""
        yield self._head_stage(context)
        if self.flow_pairs != 0:
            yield self._flow_stage(context)
        if self.leading:
            yield self._span_stage(context, leading_heads(so_far(), self.leading))

    def _head_stage(self, context: Context) -> Stage:
        from referent_probe.jobs.cell_stage import cell_stage
        from referent_probe.mechanism.sweeps import patch_cells
        from referent_probe.models.interventions import Site
        from referent_probe.stimuli.primes import ContextSetting

        settings = [setting for setting in ContextSetting if setting.gender is None]
        inner = cell_stage(
            context,
            "heads",
            lambda contrast: patch_cells(contrast, context.shape, Site.Z, "target-slot"),
            attribution=True,
            extra_passes=len(settings),
        )

        def run(contrast: "Contrast") -> tuple[Tables, dict[str, float]]:
            began = time.perf_counter()
            controls = _controls(context, contrast, settings)
            tables, measured = inner.run(contrast)
            seconds = time.perf_counter() - began
            return tables | {"controls": controls}, measured | {"seconds": seconds}

        return Stage("heads", inner.cost, run)

    def _flow_stage(self, context: Context) -> Stage:
        from referent_probe.jobs.cell_stage import cell_stage
        from referent_probe.mechanism.plan import spread_over_cases
        from referent_probe.mechanism.sweeps import patch_cells
        from referent_probe.models.interventions import Site

        cases = {pair.id: str(pair.case) for pair in context.pairs.values()}
        chosen = spread_over_cases(cases, len(cases) if self.flow_pairs is None else self.flow_pairs)
        inner = cell_stage(
            context,
            "flow",
            lambda contrast: patch_cells(contrast, context.shape, Site.RESIDUAL, "each-span"),
            direction="denoise",
            first=False,
        )
        return only(inner, lambda contrast: contrast.pair in chosen)

    def _span_stage(self, context: Context, heads: list[tuple[int, int]]) -> Stage:
        from referent_probe.jobs.cell_stage import cell_stage
        from referent_probe.mechanism.sweeps import patch_cells
        from referent_probe.models.interventions import Site

        return cell_stage(
            context,
            "spans",
            lambda contrast: patch_cells(contrast, context.shape, Site.Z, "each-span", heads) if heads else [],
            first=False,
        )

    def result(self, context: Context, tables: Tables, smallest: float) -> Result:
        """Carriers, held out; the flow map; attribution; controls."""
        from referent_probe.jobs.survey_result import survey_result

        return survey_result(context, tables, smallest, leading_heads(tables, max(self.leading, 10)))


def only(stage: Stage, wanted: "Callable[[Contrast], bool]") -> Stage:
    """A stage of some contrasts alone; the others' units are empty."""
    nothing = {"seconds": 0.0, "forward_equivalents": 0.0}
    return Stage(
        stage.name,
        lambda contrast: stage.cost(contrast) if wanted(contrast) else 0.0,
        lambda contrast: stage.run(contrast) if wanted(contrast) else ({}, nothing),
    )


def single_effects(tables: Tables) -> pd.DataFrame:
    """Every head's own effects at the target slot, a row a contrast and head."""
    table = per_contrast(tables["interventions"], tables["contrasts"])
    heads = table[(table["kind"] == "patch") & (table["what"] == "z") & (table["where"] == "target-slot")]
    columns = ["contrast", "pair", "occupation", "layer", "head", "denoise", "noise"]
    # The leading heads come again with their spans.
    return heads[columns].drop_duplicates(["contrast", "layer", "head"]).reset_index(drop=True)


def leading_heads(tables: Tables, count: int) -> list[tuple[int, int]]:
    """The heads of the largest mean effect at the target slot, both directions averaged."""
    heads = single_effects(tables)
    return ranking(heads, "both", sorted(heads["occupation"].unique()))[:count]


def _controls(context: Context, contrast: "Contrast", settings: list[Any]) -> pd.DataFrame:
    """What the model answers without a priming pronoun."""
    import torch

    from referent_probe.mechanism.cells import keys, log_odds
    from referent_probe.models.tokens import encode
    from referent_probe.stimuli.prompts import choice_prompt

    rows = []
    template = contrast.template
    partner = context.pairs[contrast.pair].partner(template)
    for setting in settings:
        prompt = choice_prompt(template, partner, setting, contrast.order, context.wording)
        ids = encode(prompt, context.model.tokenizer, context.model.quirks).ids
        output = context.model.bridge.original_model(torch.tensor([ids], device=context.model.device))
        odds = float(log_odds(output.logits[0, -1, list(contrast.tokens)]))
        rows.append(keys(contrast) | {"setting": str(setting), "tokens": len(ids), "log_odds": odds})
    return pd.DataFrame(rows)
