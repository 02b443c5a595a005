"""The commands of the mechanistic layer: survey, patch, flow, knockout, ablate, head, circuit."""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from referent_probe.cli_guard import OutputError
from referent_probe.cli_options import (
    SECONDS_BETWEEN_LINES,
    ConfigOption,
    CsvOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelStimuliOption,
    OutOption,
    PairsOption,
    PasswordOption,
    PromptsOption,
    QuietOption,
    RevisionOption,
    SeedOption,
    SmallestOption,
)
from referent_probe.errors import OptionError
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    from referent_probe.jobs.job import FinishedJob, Job, Stage
    from referent_probe.jobs.settings import JobSettings

ModelArgument = Annotated[str, typer.Argument(help="Packaged model, folder, GGUF file or Hub id.", show_default=False)]
OrderOption = Annotated[
    Literal["both", "mf", "fm"], typer.Option("--order", help="Orders of the options; mf: masculine first.")
]
DirectionOption = Annotated[
    Literal["both", "denoise", "noise"],
    typer.Option("--direction", help="denoise: into the run with the masculine prime; noise: into the other."),
]
HeadsOption = Annotated[str, typer.Option("--heads", help="all, or some, as in 20.3,26.0.")]
WhereOption = Annotated[
    str,
    typer.Option(
        "--where",
        help="target-slot, another span (priming-pronoun, antecedent, …), a position, all (from the prime on), "
        "each-span or each-position.",
    ),
]


def patch(
    model: ModelArgument,
    target: Annotated[
        Literal["z", "resid", "attn_out", "mlp_out", "q", "k", "v", "pattern"],
        typer.Option("--target", help="What is patched: a head's output, the residual stream, …"),
    ] = "z",
    where: WhereOption = "target-slot",
    direction: DirectionOption = "both",
    heads: HeadsOption = "all",
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 8,
    order: OrderOption = "both",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Patch any activation at any place, one at a time, exactly."""
    from referent_probe.jobs.patch import PatchJob

    job = PatchJob(target, where, direction, heads)
    given = (model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv)
    show_job(_settings(*given), job, as_json=as_json, quiet=quiet)


def flow(
    model: ModelArgument,
    direction: DirectionOption = "denoise",
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 8,
    order: OrderOption = "mf",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draw where the prime's effect sits, layer by layer: the residual stream patched at each span."""
    from referent_probe.jobs.patch import flow_job

    given = (model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv)
    show_job(_settings(*given), flow_job(direction), as_json=as_json, quiet=quiet)


def survey(
    model: ModelArgument,
    flow_pairs: Annotated[
        int | None, typer.Option("--flow-pairs", help="Of the pairs, those for the flow map (the slow part); all.")
    ] = None,
    leading: Annotated[int, typer.Option("--leading", help="Leading heads that are patched span by span.")] = 10,
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 24,
    order: OrderOption = "mf",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Patch all heads, held out; draw the flow map; see where in the prompt the leading heads act."""
    from referent_probe.jobs.survey import SurveyJob

    given = (model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv)
    show_job(_settings(*given), SurveyJob(flow_pairs, leading), as_json=as_json, quiet=quiet)


def knockout(
    model: ModelArgument,
    window: Annotated[int, typer.Option("--window", help="Layers cut at once; 0 for a fifth of the model.")] = 0,
    mode: Annotated[
        Literal["both", "before", "after"],
        typer.Option("--mode", help="Cut before softmax, or after it, where nothing is redistributed."),
    ] = "both",
    queries: Annotated[
        Literal["target-slot", "later"],
        typer.Option("--queries", help="Whose attention is cut; later: of all tokens behind the prime (slower)."),
    ] = "target-slot",
    heads: HeadsOption = "all",
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 8,
    order: OrderOption = "both",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Cut attention to the prime, in windows of layers, beside controls."""
    from referent_probe.jobs.knockout import KnockoutJob

    job = KnockoutJob(window, mode, queries, heads)
    given = (model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv)
    show_job(_settings(*given), job, as_json=as_json, quiet=quiet)


def ablate(
    model: ModelArgument,
    heads: HeadsOption = "all",
    kinds: Annotated[
        str, typer.Option("--kinds", help="What heads put out instead, at least two kinds.")
    ] = "zero,mean,resample,unprimed,null",
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 8,
    order: OrderOption = "both",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Ablate heads at the target slot, and see what remains of the prime's effect."""
    from referent_probe.jobs.ablate import AblateJob

    job = AblateJob(heads, tuple(_names(kinds)))
    given = (model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv)
    show_job(_settings(*given), job, as_json=as_json, quiet=quiet)


def head(
    model: ModelArgument,
    head: Annotated[str, typer.Argument(help="LAYER.HEAD, as in 26.0.", show_default=False)],
    path_pairs: Annotated[
        int, typer.Option("--path-pairs", help="Pairs on which all earlier heads are tried as senders (slow).")
    ] = 6,
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 8,
    order: OrderOption = "both",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the card of one head: effects, attention, attribution, scores, senders, ablations."""
    from referent_probe.jobs.head import HeadJob

    job = HeadJob(head.strip(), path_pairs)
    given = (model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv)
    show_job(_settings(*given), job, as_json=as_json, quiet=quiet)


def circuit(
    model: ModelArgument,
    heads: Annotated[
        str, typer.Option("--heads", help="The circuit, as in 20.3,26.0; by default the carriers, or leading heads.")
    ] = "",
    largest: Annotated[int, typer.Option("--largest", help="Heads at most of a circuit chosen from the data.")] = 10,
    top: Annotated[str, typer.Option("--top", help="Numbers of leading heads patched together.")] = "1,2,5,10,20",
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 12,
    order: OrderOption = "both",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say what the leading heads carry together on held-out occupations, and check a circuit."""
    from referent_probe.jobs.circuit import CircuitJob

    try:
        numbers = tuple(int(name) for name in _names(top))
    except ValueError:
        raise OptionError(f"--top {quoted(top)}: give whole numbers with commas between, as in 1,2,5,10") from None
    given = (model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv)
    show_job(_settings(*given), CircuitJob(heads.strip(), largest, numbers), as_json=as_json, quiet=quiet)


def conflation(
    model: ModelArgument,
    frames: Annotated[
        Path | None,
        typer.Option("--frames", help="TOML file with one-person frames; by default frames.toml beside the model."),
    ] = None,
    frames_at_hand: Annotated[int, typer.Option("--frames-at-hand", help="Frames of each case that are used.")] = 4,
    frames_per_template: Annotated[int, typer.Option("--frames-per-template", help="Of these, for each sentence.")] = 2,
    random_sets: Annotated[int, typer.Option("--random-sets", help="Random sets of heads of equal effect.")] = 200,
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 24,
    order: OrderOption = "both",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Does contextuality reflect referent conflation? The verdict on behaviour, and on the heads behind it."""
    from referent_probe.jobs.conflation import ConflationJob

    job = ConflationJob(frames, frames_at_hand, frames_per_template, random_sets)
    given = (model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv)
    show_job(_settings(*given), job, as_json=as_json, quiet=quiet)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _settings(*given: Any) -> "JobSettings":
    from referent_probe.jobs.settings import JobSettings

    return JobSettings(*given)


def show_job(settings: "JobSettings", job: "Job", *, as_json: bool, quiet: bool) -> None:
    """Do a job with a progress bar, and print what it found and where the files are."""
    from referent_probe.jobs.run import run_job

    say = Console(stderr=True, quiet=quiet, highlight=False, markup=False, emoji=False)
    try:
        done = run_job(
            settings, job, notify=lambda line: say.print(line), progress=lambda stage, left: _with_bar(stage, left, say)
        )
    except KeyboardInterrupt:
        print("stopped; what is finished is kept, and the same command goes on from there", file=sys.stderr)
        raise SystemExit(130) from None
    try:
        if as_json:
            print(json.dumps(done.summary, indent=1))
        elif not quiet:
            print_job(done)
        print(end="", flush=True)
    except OutputError as error:
        raise OutputError(f"{error}; the run is complete, and its files are in {str(done.folder)!r}") from error


def _with_bar(stage: "Stage", left: Sequence[Any], say: Console) -> Iterable[Any]:
    costs = [stage.cost(item) for item in left]
    total = max(sum(costs), 1e-9)
    bar = Progress(
        TextColumn(stage.name), BarColumn(), TextColumn(f"{{task.fields[done]}} of {{task.fields[of]}} {stage.of}"),
        TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"), console=say,
    )  # fmt: skip
    with bar:
        task = bar.add_task(stage.name, total=total, done=0, of=len(left))
        said = time.monotonic()
        for i, (item, cost) in enumerate(zip(left, costs, strict=True), start=1):
            yield item
            bar.update(task, advance=cost, done=i)
            if not say.is_terminal and time.monotonic() - said > SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                say.print(f"{stage.name}: {i} of {len(left)} {stage.of} done, {sum(costs[:i]) / total:.0%} of the work")


def print_job(done: "FinishedJob") -> None:
    """What was found, in a table and in words, and where the files are."""
    out = Console(highlight=False, markup=False, emoji=False)
    if done.was_complete:
        out.print(f"{done.folder} holds this run already, complete; nothing was computed.\n", soft_wrap=True)
    if done.leading:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for i, name in enumerate(done.leading[0]):
            table.add_column(name, justify="left" if i < 2 else "right", no_wrap=True)
        for row in done.leading[1:]:
            table.add_row(*row)
        needed = out.measure(table, options=out.options.update(width=1000)).maximum
        Console(highlight=False, markup=False, emoji=False, width=max(out.width, needed)).print(table)
        out.print()
    out.print(done.summary["in_words"])
    if cost := done.summary.get("cost"):
        out.print(
            f"\nCost: {cost['forward_equivalents']:.0f} forward passes of one prompt "
            f"({cost['forward_equivalents_expected']:.0f} expected), {cost['seconds']:.0f} s."
        )
    _print_files(out, done.folder)


def _print_files(out: Console, folder: Path) -> None:
    out.print(f"Files: {folder}/summary.json, *.parquet, manifest.json, figures/*.png and *.pdf", soft_wrap=True)
