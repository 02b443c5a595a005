"""The command `measure`."""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from referent_probe.cli_options import (
    SECONDS_BETWEEN_LINES,
    ConfigOption,
    CsvOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelStimuliOption,
    OutOption,
    PasswordOption,
    PromptsOption,
    QuietOption,
    RevisionOption,
    SeedOption,
)

if TYPE_CHECKING:
    from referent_probe.measure_settings import MeasureSettings
    from referent_probe.measured import Measured
    from referent_probe.stimuli.templates import Pair

ALL_SETTINGS = "c0,cf,cm,n1,n2,r_np,r_both"


def measure(
    model: Annotated[str, typer.Argument(help="Packaged model, folder, GGUF file or Hub id.")],
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: Annotated[
        int | None, typer.Option("--pairs", help="Pairs, drawn by seed and spread over occupations; all by default.")
    ] = None,
    settings: Annotated[str, typer.Option("--settings", help="Context settings, with commas between.")] = ALL_SETTINGS,
    temperature: Annotated[float, typer.Option("--temperature", help="The primary one; 0.3 to 1 come with it.")] = 0.5,
    top_k: Annotated[int, typer.Option("--top-k", help="Of sampling; 0 for the whole vocabulary.")] = 40,
    draws: Annotated[
        int, typer.Option("--draws", help="Answers to draw for each prompt, beside the exact probabilities.")
    ] = 0,
    leave_out: Annotated[
        str, typer.Option("--leave-out", help="Of joint, sentences, comprehension, with commas between.")
    ] = "",
    comprehension_pairs: Annotated[
        int, typer.Option("--comprehension-pairs", help="Pairs on which the three questions are asked.")
    ] = 40,
    override: Annotated[
        str, typer.Option("--override", help="Settings of the model's generation config to switch off, e.g. top_p.")
    ] = "",
    against: Annotated[
        Path | None, typer.Option("--against", help="Another measurement of the same prompts, to compare with.")
    ] = None,
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure which pronoun a model chooses, exactly, in every context setting and option order."""
    from referent_probe.measure_settings import MeasureSettings
    from referent_probe.measured import compare, other_run

    wanted = MeasureSettings(
        model=model,
        stimuli=stimuli,
        password=password,
        pairs=pairs,
        settings=_names(settings),
        temperature=temperature,
        top_k=top_k or None,
        draws=draws,
        leave_out=_names(leave_out),
        comprehension_pairs=comprehension_pairs,
        override=_names(override),
        prompts=prompts,
        out=out,
        seed=seed,
        device=device,
        dtype=dtype,
        revision=revision,
        csv=csv,
    )
    if against is not None:
        other_run(against, temperature)
    done = measure_with_bar(wanted, quiet=quiet)
    compared = None if against is None else compare(done, against)
    if as_json:
        print(json.dumps(done.summary | ({} if compared is None else {"compared": compared}), indent=1))
    elif not quiet:
        print_measured(done)
        if compared is not None:
            odds, p = compared["log_odds"], compared["p_feminine"]
            print(
                f"Against {compared['against']}, {compared['n']} prompts: log-odds differ by up to "
                f"{odds['max_abs_diff']:.2g} logits ({odds['mean_abs_diff']:.2g} on average), p_feminine by up to "
                f"{p['max_abs_diff']:.2g} ({p['mean_abs_diff']:.2g}); {compared['only_in_one']} only in one of the two."
            )


def measure_with_bar(settings: "MeasureSettings", *, quiet: bool) -> "Measured":
    """Measure, with a progress bar and messages on standard error."""
    from referent_probe.measuring import measure as run_measure

    say = Console(stderr=True, quiet=quiet, highlight=False, markup=False, emoji=False)
    try:
        return run_measure(settings, notify=lambda line: say.print(line), progress=lambda left: _with_bar(left, say))
    except KeyboardInterrupt:
        print("stopped; what is finished is kept, and the same command goes on from there", file=sys.stderr)
        raise SystemExit(130) from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _with_bar(left: "Sequence[Pair]", say: Console) -> "Iterable[Pair]":
    # A pair of a large model takes minutes: the spinner and the time show that it is not stuck.
    columns = (
        SpinnerColumn(),
        TextColumn("measuring"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} pairs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, TimeRemainingColumn(), TextColumn("left"), console=say) as bar:
        task = bar.add_task("measuring", total=len(left))
        began = said = time.monotonic()
        for i, pair in enumerate(left, start=1):
            yield pair
            bar.update(task, completed=i)
            now = time.monotonic()
            if not say.is_terminal and now - said > SECONDS_BETWEEN_LINES:
                said = now
                minutes = (now - began) / i * (len(left) - i) / 60
                say.print(f"{i} of {len(left)} pairs done, about {minutes:.0f} min left")


def print_measured(done: "Measured") -> None:
    """A first look at a measurement, and where its files are."""
    out = Console(highlight=False, markup=False, emoji=False)
    if done.was_complete:
        out.print(f"{done.folder} holds this run already, complete; nothing was computed.\n", soft_wrap=True)
    table = Table(title="Mean probability of the answer", box=None, pad_edge=False)
    for name in ("setting", "options", "feminine", "masculine", "they", "other", "templates"):
        table.add_column(name, justify="left" if name in ("setting", "options") else "right")
    for row in done.summary["answers"]:
        shares = (f"{row[name]:.3f}" for name in ("p_feminine", "p_masculine", "p_they", "p_other"))
        table.add_row(row["setting"], row["option_order"], *shares, str(row["n"]))
    out.print(table)
    check = done.summary["self_check"]
    out.print(
        f"\nSelf-check: {check['n']} {check['n_of']} run once more by full passes differ by up to "
        f"{check['max_abs_diff']:.1e} {check['unit']}.\nFiles: {done.folder}/*.parquet, summary.json, manifest.json. "
        f"Next: referent-probe analyse {done.folder}",
        soft_wrap=True,
    )
