"""The job `circuit`: what the leading heads carry together, and whether a set of heads is the circuit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.analysis.carriers import CarrierRule, called_carriers, occupation_effects, smallest_effect
from referent_probe.analysis.circuit import CircuitChecks, changed_by_ablation, check_circuit
from referent_probe.analysis.held_out import halves
from referent_probe.analysis.interventions import per_contrast
from referent_probe.analysis.joint_share import joint_shares, ranking
from referent_probe.errors import OptionError
from referent_probe.jobs.effects import total_in_words
from referent_probe.jobs.job import Context, Result, Stage, Tables
from referent_probe.mechanism.places import read_heads
from referent_probe.randomness import generator
from referent_probe.records import INTERVENING
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    from referent_probe.mechanism.cells import Cell
    from referent_probe.mechanism.contrasts import Contrast

Head = tuple[int, int]
SUBSETS = 16
"""Random sets of a circuit's heads that are removed together, beside every single one and all."""


@dataclass(frozen=True)
class CircuitJob:
    """Rank heads on one half of the occupations, patch the leading ones together on the other, and check a circuit.

    Attributes:
        heads: The circuit, as in "20.3,26.0"; "" for the carriers (in any direction), else the `largest` leading heads.
        largest: Heads at most of a circuit that is chosen from the data.
        top: Numbers of leading heads that are patched together.
        name: Of the job.

    Raises:
        OptionError: A number that is none.
    """

    heads: str = ""
    largest: int = 10
    top: tuple[int, ...] = (1, 2, 5, 10, 20)
    name: str = "circuit"

    def __post_init__(self) -> None:
        if self.largest < 1:
            raise OptionError(f"--largest {self.largest} is below 1; give 1 or more")
        if not self.top or min(self.top) < 1:
            raise OptionError(f"--top {quoted(','.join(map(str, self.top)))}: give numbers from 1 on, as in 1,2,5,10")
        if self.heads:
            read_heads(self.heads)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its stored tables."""
        return INTERVENING

    def options(self) -> Mapping[str, Any]:
        """What fixes the results."""
        return {"heads": self.heads, "largest": self.largest, "top": list(self.top)}

    def check(self, context: Context) -> None:
        """Heads that the model does not have are refused, and numbers of them."""
        from referent_probe.mechanism.sweeps import parse_heads

        if self.heads:
            parse_heads(self.heads, context.shape)
        if min(self.top) > (count := context.shape.layers * context.shape.heads):
            raise OptionError(
                f"--top {quoted(','.join(map(str, self.top)))}: the model has {count} heads; give a number from 1 to "
                f"{count}"
            )

    def expected(self, context: Context) -> float:
        """Forward passes of one prompt."""
        from referent_probe.mechanism.sweeps import parse_heads

        sweep = self._sweep(context)
        shape = context.shape
        size = len(parse_heads(self.heads, shape)) if self.heads else self.largest
        # Of the circuit's complements rows begin in the first block; the others, on average, half way up.
        rows = 1.5 * (2 + 2 * size + SUBSETS * (size > 4)) + shape.layers * shape.heads / 2 + len(self.top)
        later = sum(2 + 2 * rows / contrast.length + 4 for contrast in context.contrasts)
        return sum(sweep.cost(contrast) for contrast in context.contrasts) + later

    def stages(self, context: Context, so_far: Callable[[], Tables]) -> Iterator[Stage]:
        """All heads one by one; then heads together, by the ranking of the other half of the occupations."""
        from referent_probe.jobs.cell_stage import cell_stage

        yield self._sweep(context)
        tables = so_far()
        plan = self._plan(context, tables)
        yield cell_stage(context, "together", lambda contrast: self._cells(context, contrast, plan), first=False)

    def _sweep(self, context: Context) -> Stage:
        from referent_probe.jobs.cell_stage import cell_stage
        from referent_probe.mechanism.sweeps import patch_cells
        from referent_probe.models.interventions import Site

        return cell_stage(context, "heads", lambda c: patch_cells(c, context.shape, Site.Z, "target-slot"))

    def _plan(self, context: Context, tables: Tables) -> "_Plan":
        heads = _single_effects(tables)
        first, second = halves(heads["occupation"].unique(), context.settings.seed)
        # An occupation's contrasts are patched by the ranking of the half that it is not in.
        rankings = {1: ranking(heads, "both", first), 2: ranking(heads, "both", second)} if first else {}
        return _Plan(rankings, frozenset(first), self._circuit(context, tables, heads))

    def _circuit(self, context: Context, tables: Tables, heads: pd.DataFrame) -> tuple[Head, ...]:
        from referent_probe.mechanism.sweeps import parse_heads

        if self.heads:
            return parse_heads(self.heads, context.shape)
        rule = CarrierRule(smallest_share=context.settings.smallest_share)
        effects = occupation_effects(heads)
        _, called = called_carriers(effects, smallest_effect(tables["contrasts"], rule), rule, context.settings.seed)
        places = effects.columns[called].to_frame(index=False)
        named = {(int(layer), int(head)) for layer, head in zip(places["layer"], places["head"], strict=True)}
        leading = ranking(heads, "both", list(effects.index))
        return tuple([head for head in leading if head in named or not named][: self.largest])

    def _cells(self, context: Context, contrast: "Contrast", plan: "_Plan") -> "list[Cell]":
        from referent_probe.mechanism.sweeps import head_name, joint_cells, parse_heads

        everything = parse_heads("all", context.shape)
        cells: list[Cell] = []
        if plan.rankings:
            way = 2 if contrast.template.occupation in plan.first else 1
            top = {f"{way}:{k}": plan.rankings[way][:k] for k in self.top if k <= len(everything)}
            cells += joint_cells(contrast, top, "top")
        circuit = plan.circuit
        for removed in _subsets(circuit, context.settings.seed):
            name = " ".join(map(head_name, removed))
            outside = [head for head in everything if head not in circuit or head in removed]
            cells += joint_cells(contrast, {name: outside}, "circuit")
            cells += joint_cells(contrast, {name: removed}, "model")
        others = {head_name(head): (*circuit, head) for head in everything if head not in circuit}
        cells += joint_cells(contrast, others, "without")
        return cells

    def result(self, context: Context, tables: Tables, smallest: float) -> Result:
        """Joint shares, checks of the circuit, and heads that depend on it."""
        from referent_probe.jobs.circuit_result import circuit_result

        seed, contrasts = context.settings.seed, tables["contrasts"]
        heads = _single_effects(tables)
        plan = self._plan(context, tables)
        effects = per_contrast(tables["interventions"], contrasts)
        effects = effects[effects["kind"] == "circuit"]
        names = [f"{layer}.{head}" for layer, head in plan.circuit]
        checks: CircuitChecks = check_circuit(_of_circuit(effects), names, seed)
        return circuit_result(
            words=total_in_words(contrasts, seed),
            circuit=names,
            given=bool(self.heads),
            checks=checks,
            joint=joint_shares(_joint(effects), heads, plan.rankings, seed) if plan.rankings else pd.DataFrame(),
            dependent=changed_by_ablation(heads, _without(effects, plan.circuit), smallest, seed),
        )


@dataclass(frozen=True)
class _Plan:
    rankings: Mapping[int, Sequence[Head]]
    first: frozenset[str]
    circuit: tuple[Head, ...]


def _subsets(circuit: Sequence[Head], seed: int) -> list[tuple[Head, ...]]:
    """None, every single head, every pair's worth of random sets, and all; each in the circuit's order."""
    rng = generator(seed, "subsets of the circuit")
    found = [(), *((head,) for head in circuit), tuple(circuit)]
    found += [tuple(h for h in circuit if h != head) for head in circuit]
    if len(circuit) <= 4:
        found += [tuple(some) for k in range(2, len(circuit)) for some in combinations(circuit, k)]
    else:
        for kept in rng.random((SUBSETS, len(circuit))) < 0.5:
            found.append(tuple(head for head, chosen in zip(circuit, kept, strict=True) if chosen))
    return list(dict.fromkeys(found))


def _single_effects(tables: Tables) -> pd.DataFrame:
    """Every head's own effects, a row a contrast and head."""
    table = per_contrast(tables["interventions"], tables["contrasts"])
    return table[table["kind"] == "patch"][["contrast", "pair", "occupation", "layer", "head", "denoise", "noise"]]


def _joint(effects: pd.DataFrame) -> pd.DataFrame:
    part = effects[effects["what"] == "top"]
    way_and_k = part["label"].str.split(":", expand=True).astype(int)
    columns = ["contrast", "pair", "occupation", "denoise", "noise", "total_effect"]
    return part[columns].assign(way=way_and_k[0], k=way_and_k[1])


def _of_circuit(effects: pd.DataFrame) -> pd.DataFrame:
    """What is left of the effect: the cf run's way down to the cm run, and back, averaged."""
    part = effects[effects["what"].isin(["circuit", "model"])]
    left = (part["total_effect"] - part["noise"] + part["total_effect"] - part["denoise"]) / 2
    return part.assign(of=part["what"], removed=part["label"], effect=left)[
        ["contrast", "occupation", "of", "removed", "effect", "total_effect"]
    ]


def _without(effects: pd.DataFrame, circuit: Sequence[Head]) -> pd.DataFrame:
    """Noising effects of single heads on top of the circuit's."""
    part = effects[effects["what"] == "without"]
    whole = effects[(effects["what"] == "model") & (effects["label"] == " ".join(f"{a}.{b}" for a, b in circuit))]
    already = whole.set_index("contrast")["noise"]
    place = part["label"].str.extract(r"(\d+)\.(\d+)").astype(int)
    noise = part["noise"] - part["contrast"].map(already)
    return part[["contrast", "occupation"]].assign(layer=place[0], head=place[1], noise=noise)
