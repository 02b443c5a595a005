"""Doing a job with a progress bar, and printing what it found."""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from referent_probe.cli_guard import OutputError
from referent_probe.cli_options import SECONDS_BETWEEN_LINES

if TYPE_CHECKING:
    from referent_probe.jobs.job import FinishedJob, Job, Stage
    from referent_probe.jobs.settings import JobSettings


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
    out.print(f"Files: {done.folder}/summary.json, *.parquet, manifest.json, figures/*.png and *.pdf", soft_wrap=True)
