"""Any job from settings to a finished run folder."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.analysis.carriers import CarrierRule, smallest_effect
from referent_probe.analysis.summary_parts import about_checks, about_contrasts
from referent_probe.asked import identify, read_input
from referent_probe.errors import ExactnessError, PromptError
from referent_probe.jobs.job import Context, FinishedJob, Job, Progress, Stage, Tables
from referent_probe.jobs.settings import JobSettings
from referent_probe.precision import LARGEST_DIFFERENCE
from referent_probe.records import SCHEMAS
from referent_probe.store import Run, open_run

if TYPE_CHECKING:
    from referent_probe.mechanism.contrasts import Contrast
    from referent_probe.models.load import LoadedModel


def run_job(
    settings: JobSettings,
    job: Job,
    *,
    notify: Callable[[str], None] = lambda message: None,
    progress: Progress = lambda stage, contrasts: contrasts,
) -> FinishedJob:
    """Do a job, or go on with it, or show it where it is finished.

    Input is checked before the model is loaded, and a stopped run goes on where it was.

    Args:
        settings: What to do it on.
        job: What to do.
        notify: Told what happens, a line at a time.
        progress: Wraps the contrasts that are left of each stage.

    Raises:
        ReferentProbeError: Something in the input, the model or the run folder that the user can mend.
        ExactnessError: Partial passes and brute force disagree.

    Example:
        >>> run_job(JobSettings("smollm2-135m-instruct", pairs=12), PatchJob("z", "target-slot"))  # doctest: +SKIP
    """
    asked = read_input(settings, job.name)

    # From here on torch is needed; what came before answers at once.
    from referent_probe.models import resume
    from referent_probe.models.load import load_model
    from referent_probe.models.memory import above, begin_measuring

    about, config = identify(asked, settings, job.name, notify)
    config |= {"order": settings.order, "smallest_share": settings.smallest_share, **job.options()}
    config |= {"packed_tokens": resume.PACKED_TOKENS}
    run = open_run(asked.out, config, job.tables)
    if run.complete:
        return _read_finished(run, settings.csv)
    with run.removed_if_refused():
        model = load_model(
            settings.model, revision=settings.revision, device=settings.device, dtype=settings.dtype, notify=notify
        )
        context, left_out = _context(settings, model, asked.pairs, asked.wording, notify)
        job.check(context)
        _state_size(context, job)
        held = begin_measuring(model.device)
        with run.writing_alone():
            units = [_save_left_out(run, contrast) for contrast in left_out]
            for stage in job.stages(context, lambda: run.collect(units)[0]):
                units.extend(_do(run, stage, context, progress))
            return _finish(run, units, about, context, job, above(held, model.device))


def _context(
    settings: JobSettings, model: "LoadedModel", pairs: Sequence[Any], wording: Any, notify: Callable[[str], None]
) -> "tuple[Context, list[Contrast]]":
    from referent_probe.mechanism.contrasts import build_contrasts
    from referent_probe.mechanism.sweeps import Shape

    contrasts = [
        contrast
        for contrast in build_contrasts(pairs, model.tokenizer, wording, model.quirks)
        if settings.order in ("both", contrast.order)
    ]
    longest = max(contrasts, key=lambda contrast: contrast.length)
    if model.longest_prompt is not None and longest.length > model.longest_prompt:
        raise PromptError(
            f"the prompt of {longest.id} has {longest.length} tokens, and {model.source.name!r} is made for "
            f"{model.longest_prompt} at most; shorten the wording with --prompts, or give another model"
        )
    key_value_heads = getattr(model.bridge.cfg, "n_key_value_heads", None) or model.n_heads
    shape = Shape(model.n_layers, model.n_heads, int(key_value_heads))
    usable = [contrast for contrast in contrasts if contrast.left_out is None]
    context = Context(settings, model, shape, {pair.id: pair for pair in pairs}, usable, wording, notify)
    return context, [contrast for contrast in contrasts if contrast.left_out is not None]


def _state_size(context: Context, job: Job) -> None:
    """Says what work and memory are needed, and refuses where one pass does not fit."""
    from referent_probe.models.memory import refuse_too_little

    needed = _expected_bytes(context)
    refuse_too_little(needed, context.model.device, "the longest prompt")
    context.notify(
        f"{len(context.contrasts)} contrasts: about the work of {job.expected(context):.0f} forward passes of one "
        f"prompt, and {needed / 2**20:.0f} MiB of memory beside the model"
    )


def _expected_bytes(context: Context) -> int:
    from referent_probe.mechanism.memory import expected_bytes

    return expected_bytes(context.contrasts, context.model)


def _do(run: Run, stage: Stage, context: Context, progress: Progress) -> list[str]:
    items = context.contrasts if stage.items is None else stage.items
    units = {f"{stage.name}-{item.id}": item for item in items}
    left = [item for unit, item in units.items() if not run.has(unit)]
    if len(left) < len(units):
        done = len(units) - len(left)
        context.notify(f"going on: {stage.name} of {done} of {len(units)} {stage.of} is done already")
    for item in progress(stage, left):
        tables, measured = stage.run(item)
        run.save_unit(f"{stage.name}-{item.id}", _all_tables(run, tables), measured)
    return list(units)


def _save_left_out(run: Run, contrast: "Contrast") -> str:
    from referent_probe.mechanism.contrast_table import contrast_table

    unit = f"left-out-{contrast.id}"
    if not run.has(unit):
        run.save_unit(unit, _all_tables(run, {"contrasts": contrast_table(contrast, None, 0)}), {})
    return unit


def _all_tables(run: Run, tables: Tables) -> Tables:
    empty = {name: pd.DataFrame(columns=[column.name for column in SCHEMAS[name]]) for name in run.tables}
    return empty | tables


def _finish(
    run: Run, units: list[str], about: dict[str, Any], context: Context, job: Job, memory: int | None
) -> FinishedJob:
    from referent_probe.models.manifest import model_manifest

    settings = context.settings
    tables, measured = run.collect(units)
    checks = about_checks(tables["self_checks"], measured)
    worst, most = checks["max_abs_diff"], LARGEST_DIFFERENCE[settings.dtype]
    if not worst <= most:
        raise ExactnessError(
            f"partial passes and brute force differ by {worst:.1e} logits, more than {most:.0e}; the "
            f"cells are in the units under {str(run.folder)!r}; please report this with the model's name"
        )
    smallest = smallest_effect(tables["contrasts"], CarrierRule(smallest_share=settings.smallest_share))
    result = job.result(context, tables, smallest)
    common = about_contrasts(tables["contrasts"], about, settings.seed)
    summary = common | {
        "job": job.name,
        "options": dict(job.options()),
        "smallest_effect_of_interest": {"value": smallest, "unit": "logits"},
        **result.summary,
        "self_check": checks,
        "cost": {
            "forward_equivalents": float(measured["forward_equivalents"].sum()),
            "forward_equivalents_expected": job.expected(context),
            "seconds": float(measured["seconds"].sum()),
            "memory_bytes": memory,
            "memory_bytes_expected": _expected_bytes(context),
            "of": "tokens times blocks over those of one prompt; both directions, baseline passes and checks counted",
        },
        "leading": [list(row) for row in result.leading],
    }
    summary["in_words"] = " ".join([*result.words, _checks_in_words(checks)])
    run.finish(
        {**tables, **result.tables},
        summary,
        dict(result.figures),
        model_manifest(context.model)
        | {
            "batch": "both prompts of one contrast",
            # Above 0 memory ran out and batches were halved: values then agree to 1e-4, not to the byte.
            "batch_halvings": int(measured["halvings"].fillna(0).sum()) if "halvings" in measured else 0,
            "sampling": "none: log-probabilities of the next token, temperature 1, no top-k, no other processor",
            "counts": {name: len(table) for name, table in tables.items()},
        },
        csv=settings.csv,
    )
    return FinishedJob(run.folder, summary, result.leading, was_complete=False)


def _checks_in_words(checks: dict[str, Any]) -> str:
    return (
        f"Self-check: {checks['n_cells']} random cells recomputed by brute force differ by at most "
        f"{checks['max_abs_diff']:.0e} logits."
    )


def _read_finished(run: Run, csv: bool) -> FinishedJob:
    summary = json.loads((run.folder / "summary.json").read_text(encoding="utf-8"))
    if csv:
        run.write_csv()
    return FinishedJob(run.folder, summary, summary["leading"], was_complete=True)
