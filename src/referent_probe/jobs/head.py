"""The job `head`: all there is to know of one head, as a card."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.errors import OptionError
from referent_probe.jobs.job import Context, Result, Stage, Tables
from referent_probe.mechanism.places import HEAD
from referent_probe.randomness import generator
from referent_probe.records import INTERVENING
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    from referent_probe.mechanism.contrasts import Contrast

KINDS = ("zero", "mean", "resample", "unprimed", "null")
THROUGH = ("q", "k", "v")


@dataclass(frozen=True)
class HeadJob:
    """Effects, attention, attribution, scores, senders and ablations of one head at the target slot.

    Attributes:
        head: LAYER.HEAD.
        path_pairs: Pairs (masculine option first) on which every earlier head is tried as a sender; the slow part.
        name: Of the job.

    Raises:
        OptionError: The number of pairs is below 0, or the head is no head.
    """

    head: str
    path_pairs: int = 6
    name: str = "head"

    def __post_init__(self) -> None:
        if HEAD.fullmatch(self.head) is None:
            raise OptionError(f"{quoted(self.head)} names no head: write LAYER.HEAD, as in 26.0")
        if self.path_pairs < 0:
            raise OptionError(f"--path-pairs {self.path_pairs} is below 0; give 0 or more")

    @property
    def place(self) -> tuple[int, int]:
        """Layer and head, from 0."""
        layer, _, number = self.head.partition(".")
        return int(layer), int(number)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its stored tables."""
        return INTERVENING

    def options(self) -> Mapping[str, Any]:
        """What fixes the results."""
        return {"head": self.head, "path_pairs": self.path_pairs}

    def check(self, context: Context) -> None:
        """A head that the model does not have is refused."""
        from referent_probe.mechanism.sweeps import parse_heads

        parse_heads(self.head, context.shape)

    def expected(self, context: Context) -> float:
        """Forward passes of one prompt."""
        stages = self._card_stage(context, None), self._path_stage(context)
        return sum(stage.cost(c) for stage in stages for c in context.contrasts)

    def stages(self, context: Context, so_far: Callable[[], Tables]) -> Iterator[Stage]:
        """The head itself, and who sends to it."""
        from referent_probe.mechanism.ablation_values import collect_pool

        prompts = 2 * len(context.contrasts)
        context.notify(f"running {prompts} prompts once, for means and for values of other prompts")
        yield self._card_stage(context, collect_pool(context.model, context.contrasts))
        yield self._path_stage(context)

    def _card_stage(self, context: Context, pool: Any) -> Stage:
        from referent_probe.jobs.cell_stage import cell_stage
        from referent_probe.mechanism.ablation_values import fill
        from referent_probe.mechanism.sweeps import ablation_cells, patch_cells
        from referent_probe.models.interventions import Site

        layer, head = self.place
        heads = {self.head: (self.place,)}
        inner = cell_stage(
            context,
            "head",
            lambda c: [
                *patch_cells(c, context.shape, Site.Z, "target-slot", [self.place]),
                *ablation_cells(c, KINDS, heads),
            ],
            fill=lambda scene, cells: fill(
                context.model, scene, cells, pool, dict(context.pairs), context.wording, context.settings.seed
            ),
            attribution=True,
            extra_passes=7,  # of means, without a prime and with a null one, attention without a prime, scores
        )

        def run(contrast: "Contrast") -> tuple[Tables, dict[str, float]]:
            tables, measured = inner.run(contrast)
            given = tables["attributions"]
            own = given[(given["layer"] == layer) & (given["head"] == head)].reset_index(drop=True)
            own["attention_c0"] = own["span"].map(self._unprimed_attention(context, contrast))
            return tables | {"attributions": own, "scores": self._scores(context, contrast)}, measured

        return Stage("head", inner.cost, run)

    def _unprimed_attention(self, context: Context, contrast: "Contrast") -> dict[str, float]:
        import torch

        from referent_probe.mechanism.attention import by_span
        from referent_probe.models.record import record
        from referent_probe.models.tokens import encode
        from referent_probe.stimuli.primes import ContextSetting
        from referent_probe.stimuli.prompts import choice_prompt

        template, (layer, head) = contrast.template, self.place
        partner = context.pairs[contrast.pair].partner(template)
        prompt = choice_prompt(template, partner, ContextSetting.C0, contrast.order, context.wording)
        encoded = encode(prompt, context.model.tokenizer, context.model.quirks)
        ids = torch.tensor([encoded.ids], device=context.model.device)
        pattern = record(context.model.bridge, ids, ids.shape[1] - 1).pattern[layer][0, head].double()
        spans = list(dict.fromkeys(encoded.spans))
        shares = by_span(pattern, [encoded.positions(span) for span in spans]).tolist()
        return dict(zip(map(str, spans), shares, strict=True))

    def _scores(self, context: Context, contrast: "Contrast") -> pd.DataFrame:
        import torch

        from referent_probe.mechanism.cells import keys
        from referent_probe.mechanism.scores import copying_scores
        from referent_probe.models.record import record

        layer, head = self.place
        ids = torch.tensor([contrast.feminine.ids, contrast.masculine.ids], device=context.model.device)
        run = record(context.model.bridge, ids, contrast.first_difference)
        found = copying_scores(context.model.bridge, run, layer, head, contrast.first_difference, contrast.tokens)
        values = (float("nan"),) * 2 if found is None else tuple(map(float, found))
        return pd.DataFrame(
            [
                keys(contrast) | {"score": score, "layer": layer, "head": head, "value": value}
                for score, value in zip(("copying by token", "copying in the prompt"), values, strict=True)
            ]
        )

    def _path_stage(self, context: Context) -> Stage:
        from referent_probe.mechanism.plan import spread_over_cases

        layer, _ = self.place
        cases = {pair.id: str(pair.case) for pair in context.pairs.values()}
        chosen = spread_over_cases(cases, self.path_pairs if layer else 0)
        order = "fm" if context.settings.order == "fm" else "mf"

        def wanted(contrast: "Contrast") -> bool:
            return contrast.pair in chosen and contrast.order == order

        def cost(contrast: "Contrast") -> float:
            if not wanted(contrast):
                return 0.0
            senders = layer * context.shape.heads
            # Of keys and values, two passes through one block; of each row at the target slot, one token upwards.
            blocks = 2 * senders * (contrast.length - contrast.first_difference)
            # Both prompts once, and of the three checks in each direction four prompts.
            return 26 + 2 * (2 * blocks + 3 * senders * (context.shape.layers - layer)) / (
                contrast.length * context.shape.layers
            )

        def run(contrast: "Contrast") -> tuple[Tables, dict[str, float]]:
            began = time.perf_counter()
            if not wanted(contrast):
                return {}, {"seconds": 0.0, "forward_equivalents": 0.0}
            tables = self._paths(context, contrast)
            return tables, {"seconds": time.perf_counter() - began, "forward_equivalents": cost(contrast)}

        return Stage("paths", cost, run)

    def _paths(self, context: Context, contrast: "Contrast") -> Tables:
        """Every earlier head as a sender, through each of the receiver's inputs, in both directions; some checked."""
        from referent_probe.mechanism.brute_force import full_path_logits
        from referent_probe.mechanism.cells import CF, CM, keys, log_odds, set_scene
        from referent_probe.mechanism.paths import PATHS, path_logits

        bridge = context.model.bridge
        senders = [(layer, head) for layer in range(self.place[0]) for head in range(context.shape.heads)]
        scene = set_scene(context.model, contrast, list(PATHS.values()))
        whole = tuple(range(contrast.first_difference, contrast.length))
        rng = generator(context.settings.seed, "paths", contrast.id)
        tables, checks = [], []
        for through in THROUGH:
            positions = (contrast.length - 1,) if through == "q" else whole
            swept = path_logits(
                bridge, scene.run, scene.run.take([CM, CF]), senders, self.place, through, positions,
                contrast.tokens, at_target_slot=True,
            )  # fmt: skip
            odds = log_odds(swept.logits)
            table = pd.DataFrame(senders, columns=["layer", "head"])
            table = table.assign(kind="path", what=through, last_layer=table["layer"], where="target-slot")
            tables.append(
                table.assign(label=f"to {self.head}", log_odds_cf=odds[CF], log_odds_cm=odds[CM], reason=None)
            )
            chosen = int(rng.integers(len(senders)))
            for base, setting in ((CF, "cf"), (CM, "cm")):
                ids = scene.run.ids
                logits = full_path_logits(
                    bridge, ids[base], ids[1 - base], senders[chosen], self.place, PATHS[through], positions
                )
                fast, slow = float(odds[base, chosen]), float(log_odds(logits[list(contrast.tokens)]))
                layer, head = senders[chosen]
                checks.append(
                    {"contrast": contrast.id, "sweep": f"path {through} {setting}", "layer": layer, "head": head}
                    | {"span": "target-slot", "fast": fast, "brute_force": slow, "abs_diff": abs(fast - slow)}
                )
        paths = pd.concat(tables, ignore_index=True).assign(**keys(contrast))
        return {"interventions": paths, "self_checks": pd.DataFrame(checks)}

    def result(self, context: Context, tables: Tables, smallest: float) -> Result:
        """The card."""
        from referent_probe.jobs.head_result import head_result
        from referent_probe.mechanism.scores import pattern_scores

        layer, head = self.place
        found = pattern_scores(context.model, context.settings.seed)
        general = {
            "induction": float(found.induction[layer, head]),
            "previous token": float(found.previous_token[layer, head]),
        }
        name = f"{context.model.source.name}, head {self.head}"
        return head_result(name, self.head, tables, general, found.sequences, smallest, context.settings.seed)
