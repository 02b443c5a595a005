"""The main job: which heads carry the priming pronoun into the answer. From settings to a finished run folder."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe import figures
from referent_probe.analysis.carriers import CarrierRule
from referent_probe.analysis.inference import Interval
from referent_probe.analysis.summary import summarise
from referent_probe.asked import identify, read_input
from referent_probe.errors import ExactnessError, OptionError, PromptError
from referent_probe.precision import LARGEST_DIFFERENCE, Dtype
from referent_probe.records import PATCHING
from referent_probe.report import in_words
from referent_probe.store import Run, open_run

if TYPE_CHECKING:
    from referent_probe.mechanism.contrasts import Contrast
    from referent_probe.mechanism.plan import Work
    from referent_probe.models.load import LoadedModel


@dataclass(frozen=True)
class Settings:
    """What the main job is asked for; the command line's options, by the same names.

    Attributes:
        model: A packaged model, a folder, a GGUF file, or a Hub id.
        stimuli: "builtin", a TSV file, or WinoPron's zip; None for stimuli.tsv in the model's folder, else "builtin".
        password: Of an encrypted zip; WinoPron's published one is tried first.
        pairs: Number of pairs, drawn by seed and spread over occupations.
        flow_pairs: Number of those pairs whose residual stream is swept by layer and span (one option order).
        prompts: TOML file with a wording; None for prompts.toml in the model's folder, else the built-in one.
        out: Run folder; None for one under `runs/` named after model, stimuli, pairs and seed.
        seed: Of every draw.
        device: "auto", "cpu", "cuda", ….
        dtype: "float32", "bfloat16" or "float16".
        revision: Branch, tag or commit of a Hub model.
        smallest_share: Smallest effect of interest as a share of the total effect.
        csv: Write the tables as CSV too.
    """

    model: str
    stimuli: str | None = None
    password: str | None = None
    pairs: int = 8
    flow_pairs: int = 2
    prompts: Path | None = None
    out: Path | None = None
    seed: int = 0
    device: str = "auto"
    dtype: Dtype = "float32"
    revision: str | None = None
    smallest_share: float = 0.01
    csv: bool = False

    def __post_init__(self) -> None:
        for name in ("prompts", "out"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, Path(value))


@dataclass(frozen=True)
class Finished:
    """A finished run.

    Attributes:
        folder: The run folder.
        summary: Content of `summary.json`.
        heads: Table "head_effects".
        paragraph: The finding in words.
        was_complete: True where the run was there already and nothing was computed.
    """

    folder: Path
    summary: dict[str, Any]
    heads: pd.DataFrame
    paragraph: str
    was_complete: bool


Progress = Callable[[Iterable["Work"], "LoadedModel"], Iterable["Work"]]


def patch_priming_pronoun(
    settings: Settings,
    *,
    notify: Callable[[str], None] = lambda message: None,
    progress: Progress = lambda works, model: works,
) -> Finished:
    """Patch every head at the target slot in both directions, and the residual stream by layer and span.

    Input is checked before the model is loaded, and a stopped run goes on where it was.

    Args:
        settings: What to do.
        notify: Told what happens, a line at a time.
        progress: Wraps the work units that are left, to show how far the job is.

    Raises:
        ReferentProbeError: Something in the input, the model or the run folder that the user can mend.
        ExactnessError: Partial passes and brute force disagree.

    Example:
        >>> done = patch_priming_pronoun(Settings("smollm2-135m-instruct", pairs=8))  # doctest: +SKIP
        >>> done.summary["self_check"]["max_abs_diff"] < 1e-4  # doctest: +SKIP
        True
    """
    if not settings.flow_pairs >= 0:
        raise OptionError(f"--flow-pairs {settings.flow_pairs} is below 0; give 0 or more")
    if not 0 <= settings.smallest_share < 1:
        raise OptionError(f"--smallest-share {settings.smallest_share} is not a share; give a number from 0 to below 1")
    asked = read_input(settings)

    # From here on torch is needed; what came before answers at once.
    from referent_probe.mechanism.contrasts import build_contrasts
    from referent_probe.mechanism.patching import patch_contrast
    from referent_probe.mechanism.plan import expected_bytes, plan
    from referent_probe.models import resume
    from referent_probe.models.load import load_model
    from referent_probe.models.memory import refuse_too_little

    about, config = identify(asked, settings, "patch_priming_pronoun", notify)
    config |= {"flow_pairs": settings.flow_pairs, "smallest_share": settings.smallest_share}
    config |= {"packed_tokens": resume.PACKED_TOKENS}
    run = open_run(asked.out, config, PATCHING)
    if run.complete:
        return _read_finished(run, settings.csv)
    with run.removed_if_refused():
        model = load_model(
            settings.model, revision=settings.revision, device=settings.device, dtype=settings.dtype, notify=notify
        )
        contrasts = build_contrasts(asked.pairs, model.tokenizer, asked.wording, model.quirks)
        _refuse_too_long(contrasts, model)
        works = plan(contrasts, model, flow_pairs=settings.flow_pairs, seed=settings.seed)
        refuse_too_little(expected_bytes(works, model), model.device, "the longest prompt")
        left = [work for work in works if not run.has(work.contrast.id)]
        if len(left) < len(works):
            notify(f"going on: {len(works) - len(left)} of {len(works)} contrasts are done already")
        with run.writing_alone():
            for work in progress(left, model):
                patched = patch_contrast(model, work)
                run.save_unit(work.contrast.id, patched.tables, patched.measured)
            return _finish(run, [work.contrast.id for work in works], about, model, settings)


def _refuse_too_long(contrasts: "Sequence[Contrast]", model: "LoadedModel") -> None:
    longest = max(contrasts, key=lambda contrast: contrast.length)
    if model.longest_prompt is not None and longest.length > model.longest_prompt:
        raise PromptError(
            f"the prompt of {longest.id} has {longest.length} tokens, and {model.source.name!r} is made for "
            f"{model.longest_prompt} at most; shorten the wording with --prompts, or give another model"
        )


def _finish(run: Run, units: list[str], about: dict[str, Any], model: "LoadedModel", settings: Settings) -> Finished:
    tables, measured = run.collect(units)
    rule = CarrierRule(smallest_share=settings.smallest_share)
    summary, effects = summarise(tables, measured, about | {"n_layers": model.n_layers}, rule, settings.seed)
    worst, most = summary["self_check"]["max_abs_diff"], LARGEST_DIFFERENCE[settings.dtype]
    if not worst <= most:
        raise ExactnessError(
            f"partial passes and brute force differ by {worst:.1e} logits, more than {most:.0e}; the "
            f"cells are in the units under {str(run.folder)!r}; please report this with the model's name"
        )
    heads = effects["head_effects"]
    paragraph = in_words(summary, heads)
    summary["in_words"] = paragraph
    run.finish(
        {**tables, **effects},
        summary,
        _draw(summary, tables, effects),
        _manifest(model, tables, measured),
        csv=settings.csv,
    )
    return Finished(run.folder, summary, heads, paragraph, was_complete=False)


def _read_finished(run: Run, csv: bool) -> Finished:
    summary = json.loads((run.folder / "summary.json").read_text(encoding="utf-8"))
    if csv:
        run.write_csv()
    heads = pd.read_parquet(run.folder / "head_effects.parquet")
    return Finished(run.folder, summary, heads, summary["in_words"], was_complete=True)


def _draw(summary: dict[str, Any], tables: dict[str, pd.DataFrame], effects: dict[str, pd.DataFrame]) -> dict[str, Any]:
    total = summary["total_effect"]
    low, high = (float("nan") if x is None else x for x in total["ci95"])
    interval = Interval(total["mean"], low, high, total["n"], total["unit"], total["n_of"])
    heads, contrasts = effects["head_effects"], tables["contrasts"]
    drawn = {
        "head_map": figures.head_map(heads, interval),
        "attention_by_layer": figures.attention_by_layer(heads),
        "pair_effects": figures.pair_effects(contrasts[contrasts["left_out"].isna()]),
    }
    reached = effects["flow_effects"].loc[lambda flow: flow["reason"].isna()]
    if len(reached):
        drawn["flow_map"] = figures.flow_map(reached)
    return drawn


def _manifest(model: "LoadedModel", tables: dict[str, pd.DataFrame], measured: pd.DataFrame) -> dict[str, Any]:
    from referent_probe.models.manifest import model_manifest

    return model_manifest(model) | {
        "batch": "both prompts of one contrast",
        # Above 0 memory ran out and batches were halved: values then agree to 1e-4, not to the byte.
        "batch_halvings": int(measured["halvings"].fillna(0).sum()),
        "sampling": "none: log-probabilities of the next token, temperature 1, no top-k, no other processor",
        "counts": {name: len(table) for name, table in tables.items()},
    }
