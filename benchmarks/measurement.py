"""How much faster, and in how much memory, than a plain loop, other scorers and drawn answers, on the same prompts?

    python benchmarks/measurement.py [--model NAME] [--pairs 4] [--rounds 3]

Log-odds of the two options behind every choice prompt (pairs x 2 templates x context settings x 2 option orders):
ours; a plain Hugging Face loop (one prompt, one pass, all logits); minicons and lm-evaluation-harness, where they are
installed (`pip install -e '.[peers]'`). Then the whole answers at temperature 0.5 and top-k 40: exact, against draws
by `generate` for a few prompts, extrapolated to all of them. `generate` reads the prompt once for every draw of a
call; the last contender hands it the keys and values of one pass instead.

Every contender runs alone in a fresh process, on the same float32 weights and threads, and its peak memory is that
process's largest resident set, imports and loading included. Times leave out imports and loading. Ours begins with
messages, the others with the rendered text. The last line of the output is the same as JSON.
"""

import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from contenders import CONTENDERS, DRAWERS, GENERATE, LOOP, OURS, PEERS, SCORERS, WHOLE, Job, drawn_cells, run_alone
from rich.console import Console
from rich.table import Table

from referent_probe import cli, cli_options
from referent_probe.errors import ModelError

SAME_NUMBER = 1e-4
"""Log-odds that differ by less are the same number, in logits."""

Found = dict[str, dict[str, Any]]
"""What each contender's process printed."""


@dataclass(frozen=True)
class Result:
    """One contender.

    Attributes:
        contender: Name.
        note: Why there are no numbers, or on how many prompts they rest.
        seconds: For all prompts, extrapolated where the note says so; median over rounds.
        times_ours: Seconds over ours, of log-odds or of whole answers.
        tokens: That passes computed for all prompts, padding included.
        max_abs_diff: Largest difference of log-odds from ours, in logits.
        loaded_mib: Largest resident set before the first prompt, in MiB; largest over rounds.
        peak_mib: The same, to the end.
    """

    contender: str
    note: str = ""
    seconds: float | None = None
    times_ours: float | None = None
    tokens: int | None = None
    max_abs_diff: float | None = None
    loaded_mib: float | None = None
    peak_mib: float | None = None


@dataclass(frozen=True)
class Goal:
    """A bound on one ratio; the value is None where there is no peer to compare with."""

    name: str
    value: float | None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the value keeps to the bound."""
        if self.value is None:
            return None
        return self.value >= self.at_least if self.at_least is not None else self.value <= self.at_most


def run_in_child(name: str, job: Job) -> dict[str, Any]:
    """One contender in a fresh process; `note` tells why there is no result."""
    package = PEERS.get(name)
    if package and find_spec(package) is None:
        return {"note": f"not installed: pip install {package.replace('_', '-')}"}
    command = [sys.executable, __file__, "--only", name, "--job", json.dumps(asdict(job))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))
    reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if package:
        return {"note": f"failed: {reason}"}
    raise ModelError(f"{name!r} failed with {job.model!r}: {reason}")


def summarise(rounds: list[Found]) -> list[Result]:
    """Medians over rounds; draws extrapolated to all prompts; ratios and differences to ours."""
    first = rounds[0]
    ours = first[OURS]["values"]
    factors = {name: len(ours) / len(found["values"]) for name, found in first.items() if "values" in found}
    seconds = {name: factors[name] * statistics.median(r[name]["seconds"] for r in rounds) for name in factors}
    results = []
    for name, found in first.items():
        if name not in seconds:
            results.append(Result(name, note=found["note"]))
            continue
        differences = zip(found["values"], ours, strict=True) if name in SCORERS else ()
        results.append(
            Result(
                contender=name,
                note="" if factors[name] == 1 else f"extrapolated from {len(found['values'])} prompts",
                seconds=seconds[name],
                times_ours=seconds[name] / seconds[OURS if name in SCORERS else WHOLE],
                tokens=round(found["tokens"] * factors[name]),
                max_abs_diff=max((abs(a - b) for a, b in differences), default=None),
                loaded_mib=max(r[name]["loaded_mib"] for r in rounds),
                peak_mib=max(r[name]["peak_mib"] for r in rounds),
            )
        )
    return results


def goals(results: list[Result]) -> list[Goal]:
    """The bounds that measurement keeps to; of the peers, those count whose scores are the same number."""
    by_name = {r.contender: r for r in results if r.seconds is not None}
    same = [by_name[name] for name in PEERS if name in by_name and by_name[name].max_abs_diff < SAME_NUMBER]
    lean = by_name[OURS].peak_mib / min(r.peak_mib for r in same) if same else None
    return [
        Goal("times faster than the plain loop", by_name[LOOP].times_ours, at_least=3),
        Goal("times cheaper than draws by generate", by_name[GENERATE].times_ours, at_least=100),
        Goal("times faster than the fastest peer", min((r.times_ours for r in same), default=None), at_least=1),
        Goal("peak memory over the leanest peer's", lean, at_most=1),
    ]


def largest_z(job: Job, found: Found) -> float:
    """Largest distance of a count of draws from what the exact probability expects, in standard errors."""
    exact, distances = found[WHOLE]["values"], []
    for name in DRAWERS:
        for i, count in zip(drawn_cells(job, len(exact)), found[name]["values"], strict=True):
            spread = (job.draws * exact[i] * (1 - exact[i])) ** 0.5
            distances.append(abs(count - job.draws * exact[i]) / max(spread, 1.0))
    return max(distances)


def installed() -> dict[str, str]:
    """Versions of what is compared."""
    found = {}
    for package in ("referent-probe", "torch", "transformers", "transformer-lens", "minicons", "lm-eval"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def show(title: str, results: list[Result], z: float) -> None:
    """The table and the goals."""
    table = Table(box=None, title=title)
    for name in ("contender", "s", "/ ours", "tokens", "diff", "MiB loaded", "peak", ""):
        table.add_column(name, justify="left" if name in ("contender", "") else "right")
    for r in results:
        if r.seconds is None:
            table.add_row(r.contender, *[""] * 6, r.note)
            continue
        diff = "" if r.max_abs_diff is None else f"{r.max_abs_diff:.0e}"
        table.add_row(
            r.contender, f"{r.seconds:.1f}", f"{r.times_ours:.2f}", str(r.tokens), diff, f"{r.loaded_mib:.0f}",
            f"{r.peak_mib:.0f}", r.note,
        )  # fmt: skip
    out = Console(highlight=False)
    out.print(table)
    for goal in goals(results):
        bound = f"at least {goal.at_least}" if goal.at_least is not None else f"at most {goal.at_most}"
        value = "no peer here" if goal.value is None else f"{goal.value:.2f}, {'met' if goal.met else 'missed'}"
        out.print(f"{goal.name}, {bound}: {value}")
    out.print(f"draws lie at most {z:.1f} standard errors from the exact probability of the feminine option")


def main(
    model: cli_options.ModelOption = cli_options.DEFAULT_MODEL,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="Built-in pairs; 28 prompts each, all settings.")] = 4,
    settings: Annotated[int, typer.Option("--settings", min=1, max=7, help="Context settings, the first ones.")] = 7,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Runs of every contender; medians are given.")] = 1,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Answers drawn a prompt.")] = 200,
    draw_cells: Annotated[int, typer.Option("--draw-cells", min=1, help="Prompts that answers are drawn for.")] = 2,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Draws in one call of generate.")] = 200,
    peer_batch: Annotated[int, typer.Option("--peer-batch", min=1, help="Prompts that a peer scores at once.")] = 1,
    threads: Annotated[int, typer.Option("--threads", min=0, help="Of torch; 0 for its own choice.")] = 0,
    seed: cli_options.SeedOption = 0,
    only: Annotated[str | None, typer.Option("--only", hidden=True)] = None,
    job: Annotated[str | None, typer.Option("--job", hidden=True)] = None,
) -> None:
    """Compare exact choice probabilities with a plain loop, other scorers and drawn answers."""
    if only and job:  # a child
        print(json.dumps(run_alone(only, Job(**json.loads(job)))))
        return
    with TemporaryDirectory() as folder:
        texts = str(Path(folder) / "prompts.json")
        asked = Job(model, pairs, settings, seed, draws, draw_cells, at_once, peer_batch, threads, texts)
        found = [{name: run_in_child(name, asked) for name in CONTENDERS} for _ in range(rounds)]
    results, z = summarise(found), largest_z(asked, found[0])
    n, used = len(found[0][OURS]["values"]), found[0][OURS]["threads"]
    show(f"{model}: {n} prompts, {used} threads", results, z)
    about = {key: value for key, value in asdict(asked).items() if key != "prompts"}
    about |= {"prompts": n, "rounds": rounds, "threads": used, "versions": installed(), "largest_z": z}
    bounds = [asdict(goal) | {"met": goal.met} for goal in goals(results)]
    print(json.dumps(about | {"contenders": [asdict(r) for r in results], "goals": bounds}))


if __name__ == "__main__":
    cli.run_command(main)
