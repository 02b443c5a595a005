"""The command line: options in, a few calls, words out. Nothing here imports torch until a model is needed."""

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from referent_probe import cli_jobs
from referent_probe.cli_analyse import analyse
from referent_probe.cli_guard import OutputError, guarded
from referent_probe.cli_measure import measure
from referent_probe.cli_models import doctor, models_app
from referent_probe.cli_options import SECONDS_BETWEEN_LINES, PasswordOption, PromptsOption, StimuliOption
from referent_probe.cli_planted import planted
from referent_probe.errors import ReferentProbeError
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    import pandas as pd

    from referent_probe.mechanism.plan import Work
    from referent_probe.models.load import LoadedModel
    from referent_probe.priming_pronoun import Finished, Settings
    from referent_probe.stimuli.templates import Pair, Template

FEWEST_COLUMNS = 80

app = typer.Typer(
    help="Which heads carry another person's pronoun into a language model's answer?",
    epilog="The main job is a script: python experiments/patch_priming_pronoun.py --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
stimuli_app = typer.Typer(help="Look at sentences and check files of one's own.", no_args_is_help=True)
app.add_typer(stimuli_app, name="stimuli")
app.add_typer(models_app, name="models")
app.command("doctor")(doctor)
app.command("measure")(measure)
app.command("analyse")(analyse)
app.command("survey")(cli_jobs.survey)
app.command("patch")(cli_jobs.patch)
app.command("flow")(cli_jobs.flow)
app.command("knockout")(cli_jobs.knockout)
app.command("ablate")(cli_jobs.ablate)
app.command("head")(cli_jobs.head)
app.command("circuit")(cli_jobs.circuit)
app.command("conflation")(cli_jobs.conflation)
app.command("planted")(planted)


def show_job(settings: "Settings", *, as_json: bool, quiet: bool) -> None:
    """Run the main job with a progress bar, and print its table, its paragraph and where the files are."""
    from referent_probe.priming_pronoun import patch_priming_pronoun

    say = Console(stderr=True, quiet=quiet, highlight=False, markup=False, emoji=False)
    try:
        done = patch_priming_pronoun(
            settings,
            notify=lambda message: say.print(message),
            progress=lambda works, model: _with_bar(list(works), model, say),
        )
    except KeyboardInterrupt:
        print("stopped; what is finished is kept, and the same command goes on from there", file=sys.stderr)
        raise SystemExit(130) from None
    try:
        if as_json:
            print(json.dumps(done.summary, indent=1))
        elif not quiet:
            _print_finished(done)
        print(end="", flush=True)
    except OutputError as error:
        raise OutputError(f"{error}; the run is complete, and its files are in {str(done.folder)!r}") from error


def _with_bar(works: "list[Work]", model: "LoadedModel", say: Console) -> "Iterable[Work]":
    from referent_probe.mechanism.plan import expected_bytes, expected_cost

    costs = [expected_cost(work, model) for work in works]
    passes = sum(costs)
    if works:
        memory = expected_bytes(works, model) / 2**20
        say.print(
            f"{len(works)} contrasts to patch: about the work of {passes:.0f} forward passes, and {memory:.0f} MiB of "
            "memory beside the model"
        )
    bar = Progress(
        TextColumn("patching"), BarColumn(), TextColumn("{task.fields[done]} of {task.fields[of]} contrasts"),
        TimeRemainingColumn(), TextColumn("left"), console=say,
    )  # fmt: skip
    with bar:
        task = bar.add_task("patching", total=max(passes, 1e-9), done=0, of=len(works))
        said = time.monotonic()
        for i, (work, cost) in enumerate(zip(works, costs, strict=True)):
            yield work
            bar.update(task, advance=cost, done=i + 1)
            if not say.is_terminal and time.monotonic() - said > SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                say.print(f"{i + 1} of {len(works)} contrasts done, {sum(costs[: i + 1]) / passes:.0%} of the work")


def _print_finished(done: "Finished") -> None:
    from referent_probe.report import beside_table, leading_rows

    out = Console(highlight=False, markup=False, emoji=False)
    if done.was_complete:
        out.print(f"{done.folder} holds this run already, complete; nothing was computed.\n", soft_wrap=True)
    table = Table(
        title="Leading heads at the target slot",
        caption=beside_table(done.summary, done.heads),
        caption_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name in ("head", "denoising", "p", "noising", "p", "attention", "DLA", "via prime", "carrier"):
        table.add_column(name, justify="left" if name in ("head", "carrier") else "right", no_wrap=True)
    for _, row in leading_rows(done.heads).iterrows():
        table.add_row(
            f"{row['layer']}.{row['head']}",
            _estimate(row, "denoise"),
            _p(row["denoise_p_max_t"]),
            _estimate(row, "noise"),
            _p(row["noise_p_max_t"]),
            _known(row["attention_to_prime_mean"], ".1%"),
            _known(row["direct_logit_attribution_mean"], "+.2f"),
            _known(row["prime_attribution_mean"], "+.2f"),
            str(row["carrier"]).replace("none", "-"),
        )
    # In a narrow terminal rich would drop columns and cut numbers; wrapped by the terminal, they are still there.
    needed = out.measure(table, options=out.options.update(width=1000)).maximum
    Console(highlight=False, markup=False, emoji=False, width=max(out.width, FEWEST_COLUMNS, needed)).print(table)
    out.print()
    out.print(done.paragraph)
    cost = done.summary["cost"]
    out.print(
        f"\nCost: all heads at the target slot {cost['forward_equivalents_target_slot']:.2f} forward-equivalents a "
        f"direction (T = {cost['tokens']:.0f} tokens, first difference at {cost['first_difference']:.0f}); "
        f"{cost['seconds']:.0f} s in all."
    )
    out.print(f"Files: {done.folder}/summary.json, *.parquet, manifest.json, figures/*.png and *.pdf", soft_wrap=True)


def _estimate(row: "pd.Series[Any]", name: str) -> str:
    mean, low, high = (row[f"{name}_{part}"] for part in ("mean", "low", "high"))
    interval = "" if low != low else f"\n[{low:+.2f},{high:+.2f}]"
    return f"{mean:+.3f}{interval}"


def _known(value: float, form: str) -> str:
    return "-" if value != value else format(value, form)


def _p(p: float) -> str:
    return "-" if p != p else ("<.001" if p < 0.001 else f"{p:.3f}")


@stimuli_app.command("check")
def check(
    path: Annotated[str, typer.Argument(help="builtin, a TSV file, or a zip that holds one.")],
    password: PasswordOption = None,
) -> None:
    """Name every rule that a stimuli file breaks, with its line and the cure. Status 2 where there is one."""
    from referent_probe.stimuli.check import check_stimuli
    from referent_probe.stimuli.ratings import rating
    from referent_probe.stimuli.templates import load_stimuli

    violations = check_stimuli(path, password)
    for violation in violations:
        print(violation)
    if violations:
        raise ReferentProbeError(f"{path!r} breaks the rules in {len(violations)} place{'s' * (len(violations) > 1)}")
    stimuli = load_stimuli(path, password)
    templates = [template for pair in stimuli.pairs for template in pair.members]
    rated = sum(rating(template.antecedent_noun) is not None for template in templates)
    occupations = {pair.occupation for pair in stimuli.pairs}
    cases = ", ".join(f"{n} {case}" for case, n in sorted(Counter(str(pair.case) for pair in stimuli.pairs).items()))
    print(
        f"{path}: no rule broken. Pairs: {len(stimuli.pairs)} ({cases}); occupations: {len(occupations)}; "
        f"{rated} of {len(templates)} antecedents with a rating (Misersky et al. 2014)"
    )


@stimuli_app.command("show")
def show(
    item: Annotated[str, typer.Argument(help="Id of a pair (004, or 4) or of a template (004a, or 4a).")],
    stimuli: StimuliOption = "builtin",
    password: PasswordOption = None,
    prompts: PromptsOption = None,
) -> None:
    """Print an item with all its prompts, as the model gets them before its chat template."""
    from referent_probe.stimuli.options import OptionOrder
    from referent_probe.stimuli.primes import ContextSetting
    from referent_probe.stimuli.prompts import DEFAULT_WORDING, choice_prompt, load_wording
    from referent_probe.stimuli.ratings import rating
    from referent_probe.stimuli.templates import load_stimuli

    wording = load_wording(prompts) if prompts else DEFAULT_WORDING
    pairs = load_stimuli(stimuli, password).pairs
    for pair, template in _templates_of(item, pairs, stimuli):
        score = rating(template.antecedent_noun)
        rated = "no rating" if score is None else f"mean ascribed share of women {score:.2f}"
        print(f"{template.id}  {template.case}, the blank is the {template.antecedent_noun} ({rated})\n{template.text}")
        for setting in ContextSetting:
            for order in OptionOrder:
                prompt = choice_prompt(template, pair.partner(template), setting, order, wording)
                print(f"\n--- {setting}, {order}")
                for message in prompt.messages:
                    print(f"[{message.role}] {message.text}")
                print(f"[assistant] {''.join(segment.text for segment in prompt.prefill)}")
        print()


def _templates_of(item: str, pairs: "Sequence[Pair]", name: str) -> "list[tuple[Pair, Template]]":
    """The templates that an id names, of a pair or of one template; zeros before a number may be left out."""
    wanted = item.strip().lower().lstrip("0")  # ids are numbers and a letter, so that 4 is 004 and nothing else
    found = [(pair, t) for pair in pairs for t in pair.members if wanted in (pair.id.lstrip("0"), t.id.lstrip("0"))]
    if found:
        return found
    members = [template.id for template in pairs[0].members]
    nearest = ""
    if number := re.match("0*([0-9]+)", item.strip()):
        digits = number[1]
        close = sorted(pairs, key=lambda pair: abs(int(pair.id) - int(digits[:9])))[:3]
        same = [t.id for pair in close for t in pair.members if pair.id.lstrip("0") == digits]
        nearest = f"; nearest: {', '.join(same or [pair.id for pair in close])}"
    raise ReferentProbeError(
        f"no item {quoted(item)} in {quoted(name)}: ids are the pairs' numbers in the file, {pairs[0].id} to "
        f"{pairs[-1].id}, for one sentence with its letter, {' or '.join(members)}{nearest}"
    )


def run_command(command: Callable[..., Any]) -> NoReturn:
    """Run a script's main function as a command with the package's options, messages and exit statuses."""
    single = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    single.command()(command)
    guarded(single)


def main() -> NoReturn:
    """Entry point of `referent-probe`."""
    guarded(app)
