"""The stages of the conflation job."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.jobs.conflation_items import Item, Material
from referent_probe.jobs.job import Context, Stage, Tables
from referent_probe.randomness import generator
from referent_probe.stimuli.conflation_primes import antecedent_is_first

if TYPE_CHECKING:
    from referent_probe.jobs.conflation import ConflationJob
    from referent_probe.jobs.conflation_plan import Plan
    from referent_probe.mechanism.cells import Cell
    from referent_probe.mechanism.contrasts import Contrast

CHECKS = 24
"""Cells of a stage that are compared with full passes, about."""


@dataclass(frozen=True)
class Stages:
    """The stages; `sets` and `damage` need the plan, and without one tell what they will cost."""

    behaviour: Stage
    heads: Stage
    cuts: Stage
    sets: "Callable[[Plan | None], Stage]"
    damage: "Callable[[Plan | None], Stage]"


@dataclass(frozen=True)
class Group:
    """The contrasts of one pair: a work unit, since files of single contrasts would take longer than the passes.

    Attributes:
        id: Of the pair.
        contrasts: All of one stage.
    """

    id: str
    contrasts: "tuple[Contrast, ...]"


def stages_of(context: Context, job: "ConflationJob", material: Material) -> Stages:
    """All stages of a run.

    Args:
        context: What the job works on.
        job: The job.
        material: What is asked.
    """
    from referent_probe.mechanism.prime_cuts import set_cut_cells, single_cut_cells
    from referent_probe.mechanism.sweeps import patch_cells
    from referent_probe.models.interventions import Site

    shape = context.shape

    def sets(plan: "Plan | None") -> Stage:
        def cells(contrast: "Contrast") -> "list[Cell]":
            named = _guess(context, job) if plan is None else plan.sets_for(contrast)
            main = {name: heads for name, heads in named.items() if name in ("K", "R", "KR")}
            return [
                *set_cut_cells(contrast, named, "set"),
                *set_cut_cells(contrast, main, "set", later=True),
            ]

        return _cells_stage(context, "sets", context.contrasts, cells)

    def damage(plan: "Plan | None") -> Stage:
        def cells(contrast: "Contrast") -> "list[Cell]":
            named = _guess(context, job) if plan is None else plan.sets_for(contrast)
            main = {name: heads for name, heads in named.items() if name in ("K", "R", "KR")}
            return set_cut_cells(contrast, main, contrast.id.rsplit("-", 1)[1])

        return _cells_stage(context, "damage", material.damaged, cells, baselines="prime_contrasts")

    return Stages(
        behaviour=_behaviour_stage(context, material),
        heads=_cells_stage(
            context,
            "heads",
            [*material.contrasts, *context.contrasts],
            lambda contrast: patch_cells(contrast, shape, Site.Z, "target-slot"),
            baselines="prime_contrasts",
        ),
        cuts=_cells_stage(
            context,
            "cuts",
            context.contrasts,
            lambda contrast: single_cut_cells(contrast, shape),
            baselines="contrasts",
        ),
        sets=sets,
        damage=damage,
    )


def _guess(context: Context, job: "ConflationJob") -> dict[str, list[tuple[int, int]]]:
    """Sets of about the size that is to be expected, for the costs."""
    half = [(context.shape.layers // 2, 0)]
    return dict.fromkeys([*(f"random {i}" for i in range(job.random_sets)), "K", "R", "KR"], half)


def _cells_stage(
    context: Context,
    name: str,
    contrasts: "Sequence[Contrast]",
    cells_of: "Callable[[Contrast], list[Cell]]",
    baselines: str | None = None,
) -> Stage:
    """Cells of every contrast in both directions, a few of them checked."""
    from referent_probe.mechanism.cells import check_cells, planned_blocks, run_cells, set_scene, sites_of
    from referent_probe.mechanism.contrast_table import contrast_table

    model, seed = context.model, context.settings.seed
    rng = generator(seed, "checked contrasts", name)
    checked = {contrasts[int(i)].id for i in rng.permutation(len(contrasts))[:CHECKS]}

    def equivalents(contrast: "Contrast", blocks: float) -> float:
        return 2 + 2 * blocks / (contrast.length * model.n_layers) + (4 if contrast.id in checked else 0)

    def cost(group: Group) -> float:
        return sum(equivalents(c, planned_blocks(cells_of(c), c.length, model.n_layers)) for c in group.contrasts)

    def one(contrast: "Contrast") -> tuple[Tables, dict[str, float]]:
        cells = cells_of(contrast)
        scene = set_scene(model, contrast, sites_of(cells))
        table, measured = run_cells(model, scene, cells)
        tables = {"interventions": table}
        if contrast.id in checked:
            tables["self_checks"] = check_cells(model, scene, cells, table, 1, seed)
        if baselines is not None:
            tables[baselines] = contrast_table(contrast, scene.choices, int(measured["token_blocks"]))
        measured["forward_equivalents"] = equivalents(contrast, measured["token_blocks"])
        return tables, measured

    def run(group: Group) -> tuple[Tables, dict[str, float]]:
        began = time.perf_counter()
        done = [one(contrast) for contrast in group.contrasts]
        names = dict.fromkeys(name for tables, _ in done for name in tables)
        joined = {
            name: pd.concat([tables[name] for tables, _ in done if name in tables], ignore_index=True) for name in names
        }
        added = {key: sum(measured[key] for _, measured in done) for key in ("forward_equivalents", "halvings")}
        return joined, added | {"seconds": time.perf_counter() - began}

    return Stage(name, cost, run, _by_pair(contrasts), "pairs")


def _by_pair(contrasts: "Sequence[Contrast]") -> list[Group]:
    groups: dict[str, list[Any]] = {}
    for contrast in contrasts:
        groups.setdefault(contrast.pair, []).append(contrast)
    return [Group(pair, tuple(members)) for pair, members in groups.items()]


def _behaviour_stage(context: Context, material: Material) -> Stage:
    from referent_probe.mechanism.primed import answers_to
    from referent_probe.models.reading import root_of
    from referent_probe.models.tokens import encode

    model = context.model
    tokens = {contrast.template.case: contrast.tokens for contrast in context.contrasts}

    def prompts_of(item: Item) -> list[tuple[dict[str, Any], list[Any]]]:
        """Rows without their answers, and the prompts of each: feminine and masculine, or one."""
        rows: list[tuple[dict[str, Any], list[Any]]] = []
        for member, template in enumerate(item.pair.members, start=1):
            for order in material.orders:
                about = {
                    "pair": item.pair.id,
                    "template": template.id,
                    "member": member,
                    "occupation": template.occupation,
                    "case": str(template.case),
                    "antecedent": str(template.antecedent),
                    "antecedent_first": "yes" if antecedent_is_first(template) else "no",
                    "option_order": str(order),
                }
                texts = [frame.text for frame in material.rotation.by_template[template.id].own]
                for primed in material.primed(context, item.pair, template, order):
                    row = about | {"prime": str(primed.prime), "variant": primed.variant, "owner": primed.owner_noun}
                    row["frame"] = texts.index(primed.frame) if primed.frame in texts else -1
                    rows.append((row, [primed.feminine, primed.masculine]))
                for setting, prompt in material.unprimed(context, item.pair, template, order).items():
                    row = about | {"prime": "unprimed", "variant": setting, "owner": None, "frame": -1}
                    rows.append((row, [prompt]))
        return rows

    def encoded(item: Item) -> tuple[list[tuple[dict[str, Any], list[Any]]], list[Any], list[tuple[int, int]]]:
        rows = prompts_of(item)
        flat = [(row, prompt) for row, prompts in rows for prompt in prompts]
        ids = [encode(prompt, model.tokenizer, model.quirks) for _, prompt in flat]
        case = item.pair.case
        return rows, ids, [tokens[case]] * len(ids)

    # The same root whatever is left to do, so that a run that goes on gives the same bytes.
    ends = [ids.ids for item in (material.items[0], material.items[-1]) for ids in encoded(item)[1]]
    root = root_of(model, ends)
    shared = 0 if root is None else len(root.ids)
    size = max(len(ids) for ids in ends)
    per_item = len(ends) / 2 * (1 - shared / size) + 1

    def run(item: Item) -> tuple[Tables, dict[str, float]]:
        began = time.perf_counter()
        rows, ids, options = encoded(item)
        answers = answers_to(model, ids, options, root, generator(context.settings.seed, "primed check", item.id))
        table, at = [], 0
        for row, prompts in rows:
            odds = answers.log_odds[at : at + len(prompts)]
            table.append(
                row
                | {
                    "tokens": len(ids[at].ids),
                    "log_odds_feminine": odds[0],
                    "log_odds_masculine": odds[1] if len(prompts) > 1 else float("nan"),
                    "p_options": sum(answers.p_options[at : at + len(prompts)]) / len(prompts),
                }
            )
            at += len(prompts)
        fast = answers.log_odds[answers.checked]
        check = {"contrast": item.id, "sweep": "primed", "layer": -1, "head": -1, "span": "", "fast": fast}
        check |= {"brute_force": answers.full_pass, "abs_diff": abs(fast - answers.full_pass)}
        measured = {"forward_equivalents": per_item, "seconds": time.perf_counter() - began}
        return {"primed": pd.DataFrame(table), "self_checks": pd.DataFrame([check])}, measured

    return Stage("behaviour", lambda item: per_item, run, material.items, "pairs")
