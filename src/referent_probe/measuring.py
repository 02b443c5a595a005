"""The behavioural measurement: stimuli x context settings x option orders, exact, from settings to a finished run."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.asked import identify, read_input
from referent_probe.errors import ExactnessError, PromptError
from referent_probe.measure_settings import TEMPERATURES, MeasureSettings
from referent_probe.measured import Measured, read_measured
from referent_probe.precision import LARGEST_DIFFERENCE
from referent_probe.records import MEASUREMENT
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import choice_prompt
from referent_probe.stimuli.templates import Pair, StimulusSet, draw_pairs
from referent_probe.store import Run, open_run

if TYPE_CHECKING:
    from referent_probe.measurement.collect import Request
    from referent_probe.models.load import LoadedModel


def measure(
    settings: MeasureSettings,
    *,
    notify: Callable[[str], None] = lambda message: None,
    progress: Callable[[Sequence[Pair]], Iterable[Pair]] = lambda pairs: pairs,
) -> Measured:
    """Measure the pronoun choices of a model, exactly, pair by pair.

    Input is checked before the model is loaded, and a stopped run goes on where it was and gives the same bytes.

    Args:
        settings: What to do.
        notify: Told what happens, a line at a time.
        progress: Wraps the pairs that are left, to show how far the job is.

    Raises:
        ReferentProbeError: Something in the input, the model or the run folder that the user can mend.
        ExactnessError: Shared passes and full passes disagree.

    Source: arXiv 2603.23485; quantities as in `records`.

    Example:
        >>> done = measure(MeasureSettings("smollm2-135m-instruct", pairs=10))  # doctest: +SKIP
        >>> done.table("answers").query("temperature == 0.5")[["p_feminine", "p_masculine"]]  # doctest: +SKIP
    """
    asked = read_input(settings, "measure")
    pairs, wording = asked.pairs, asked.wording
    questioned = () if "comprehension" in settings.leave_out else pairs
    if questioned and settings.comprehension_pairs < len(pairs):
        n = settings.comprehension_pairs
        questioned = tuple(draw_pairs(_only(asked.stimuli, pairs), n, settings.seed)) if n else ()

    # From here on torch is needed; what came before answers at once.
    from referent_probe.measurement.collect import Request, measure_pair, roots_of
    from referent_probe.measurement.warp import SamplingSettings, resolve_settings
    from referent_probe.models import contexts
    from referent_probe.models.load import load_model

    _, config = identify(asked, settings, "measure", notify)
    temperatures = tuple(sorted({*TEMPERATURES, settings.temperature}))
    chosen = tuple(setting for setting in ContextSetting if setting in settings.settings)
    config["model"] |= {"name": asked.name}
    config |= {
        "settings": [str(setting) for setting in chosen],
        "temperature": settings.temperature,
        "temperatures": list(temperatures),
        "top_k": settings.top_k,
        "draws": settings.draws,
        "leave_out": sorted(settings.leave_out),
        "comprehension": [pair.id for pair in questioned],
        "override": sorted(settings.override),
        "rows": [contexts.ROWS, contexts.SHORT_ROWS],
    }
    run = open_run(asked.out, config, MEASUREMENT)
    if run.complete:
        return _read_finished(run, settings.csv)
    with run.removed_if_refused():
        model = load_model(
            settings.model,
            revision=settings.revision,
            device=settings.device,
            dtype=settings.dtype,
            interventions=False,
            notify=notify,
        )
        sampling = SamplingSettings(settings.temperature, settings.top_k)
        request = Request(
            wording=wording,
            settings=chosen,
            sampling=resolve_settings(model, sampling, override=settings.override),
            temperatures=temperatures,
            draws=settings.draws,
            joint="joint" not in settings.leave_out,
            sentences="sentences" not in settings.leave_out,
            comprehension=frozenset(pair.id for pair in questioned),
            seed=settings.seed,
        )
        _state_size(model, pairs, request, notify)
        left = [pair for pair in pairs if not run.has(pair.id)]
        if len(left) < len(pairs):
            notify(f"going on: {len(pairs) - len(left)} of {len(pairs)} pairs are done already")
        with run.writing_alone():
            request = replace(request, roots=roots_of(model, pairs, request))
            for pair in progress(left):
                measured = measure_pair(model, pair, request)
                run.save_unit(pair.id, measured.tables, measured.measured)
            return _finish(run, [pair.id for pair in pairs], model, request, settings)


def _state_size(model: "LoadedModel", pairs: Sequence[Pair], request: "Request", notify: Callable[[str], None]) -> None:
    """Says what memory is needed; refuses prompts that are too long or have words that the tokenizer lacks."""
    from referent_probe.models.contexts import ROWS
    from referent_probe.models.memory import cache_bytes, pass_bytes, refuse_too_little
    from referent_probe.models.tokens import encode
    from referent_probe.stimuli.options import OptionOrder

    prompts = [
        choice_prompt(template, pair.partner(template), setting, OptionOrder.MASCULINE_FIRST, request.wording)
        for pair in pairs
        for template in pair.members
        for setting in request.settings
    ]
    lengths = [len(encode(prompt, model.tokenizer, model.quirks).ids) for prompt in prompts]
    length, longest = max(zip(lengths, prompts, strict=True), key=lambda one: one[0])
    if model.longest_prompt is not None and length > model.longest_prompt:
        raise PromptError(
            f"a prompt of {longest.template_id} has {length} tokens, and {model.source.name!r} is made for "
            f"{model.longest_prompt} at most; shorten the wording with --prompts, or give another model"
        )
    # Of one template or pair, beginnings and whole prompts are held, and joined once more; one pass is in flight.
    held = cache_bytes(model.network, rows=2 * max(3 * len(request.settings), 32), positions=length)
    needed = held + pass_bytes(model.network, tokens=ROWS * length, keys=length, prefixes=ROWS, prefix=length)
    refuse_too_little(needed, model.device, "the prompts of one template")
    notify(
        f"{len(pairs)} pairs to measure, {len(prompts) * 2} choice prompts of up to {length} tokens; about "
        f"{needed / 2**20:.0f} MiB of memory beside the model"
    )


def _finish(
    run: Run, units: list[str], model: "LoadedModel", request: "Request", settings: MeasureSettings
) -> Measured:
    tables, measured = run.collect(units)
    worst, most = float(measured["abs_diff"].max()), LARGEST_DIFFERENCE[settings.dtype]
    if not worst <= most:
        raise ExactnessError(
            f"shared passes and full passes differ by {worst:.1e} logits, more than {most:.0e}; the units are under "
            f"{str(run.folder)!r}; please report this with the model's name"
        )
    summary = {
        "counts": {name: len(table) for name, table in tables.items()}
        | {"pairs": len(units), "templates": int(tables["choices"]["template"].nunique())},
        "self_check": {"max_abs_diff": worst, "unit": "logits", "n": 2 * len(units), "n_of": "random choice prompts"},
        "answers": _means(tables["answers"], settings.temperature),
        "tokens": {"mean": float(tables["choices"]["tokens"].mean()), "max": int(tables["choices"]["tokens"].max())},
    }
    from referent_probe.models.manifest import model_manifest

    run.finish(
        tables,
        summary,
        {},
        model_manifest(model) | {"sampling": request.sampling.as_dict(), "counts": summary["counts"]},
        csv=settings.csv,
    )
    return Measured(run.folder, summary, was_complete=False)


def _means(answers: pd.DataFrame, temperature: float) -> list[dict[str, Any]]:
    """Mean probabilities by setting and option order, for a first look."""
    columns = ["p_feminine", "p_masculine", "p_they", "p_other", "unexplored"]
    grouped = answers[answers["temperature"] == temperature].groupby(["setting", "option_order"], sort=False)
    means = grouped[columns].mean().assign(n=grouped.size()).reset_index()
    found: list[dict[str, Any]] = json.loads(means.to_json(orient="records", double_precision=15))
    return found


def _read_finished(run: Run, csv: bool) -> Measured:
    if csv:
        run.write_csv()
    return read_measured(run.folder)


def _only(stimuli: StimulusSet, pairs: Sequence[Pair]) -> StimulusSet:
    return StimulusSet(stimuli.name, stimuli.sha256, tuple(pairs))
