"""The command `analyse`."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from referent_probe.cli_guard import OutputError
from referent_probe.cli_options import ConfigOption, CsvOption, JsonOption, QuietOption, SeedOption

if TYPE_CHECKING:
    import pandas as pd

    from referent_probe.analysing import Analysed

FEWEST_COLUMNS = 80


def analyse(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished measurements, of the same stimuli.")],
    ratings: Annotated[
        str, typer.Option("--ratings", help="authors (WinoPron's, as in the paper), exact, or a file role,rating.")
    ] = "authors",
    margin: Annotated[
        float, typer.Option("--margin", help="Largest shift of log-odds that counts as none, in logits.")
    ] = 0.2,
    as_released: Annotated[
        bool, typer.Option("--as-released", help="Give the published alignment of ratings beside the right one.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the analysis; by default analysis/ in the run's folder.")
    ] = None,
    csv: CsvOption = False,
    seed: SeedOption = 0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """What finished measurements say: invariance, stereotype, information and contextuality, with intervals."""
    from referent_probe.analysing import analyse as run_analysis

    say = Console(stderr=True, quiet=quiet, highlight=False, markup=False, emoji=False)
    try:
        done = run_analysis(
            runs,
            ratings=ratings,
            margin=margin,
            as_released=as_released,
            out=out,
            seed=seed,
            csv=csv,
            notify=lambda line: say.print(line, soft_wrap=True),
        )
    except KeyboardInterrupt:
        print("stopped; the same command begins again", file=sys.stderr)
        raise SystemExit(130) from None
    try:
        if as_json:
            print(json.dumps(done.summary, indent=1))
        elif not quiet:
            print_analysed(done)
        print(end="", flush=True)
    except OutputError as error:
        raise OutputError(f"{error}; the analysis is complete, and its files are in {str(done.folder)!r}") from error


def print_analysed(done: "Analysed") -> None:
    """Two tables a model, the paragraph and where the files are, on standard output."""
    out = Console(highlight=False, markup=False, emoji=False)
    if done.was_complete:
        out.print(f"{done.folder} holds this analysis already, complete; nothing was computed.\n", soft_wrap=True)
    settings = done.summary["settings"]
    for model in done.summary["models"]:
        kept = (done.quantities["model"] == model) & (done.quantities["reading"] == "choice")
        quantities, temperature = done.quantities[kept], settings["temperature"][model]
        names = settings["context_settings"][model]
        for table in (
            choice_table(quantities, model, temperature, names),
            shift_table(quantities, settings["margin"], names),
            contextual_table(quantities, temperature),
        ):
            _print_whole(out, table)
            out.print()
    if len(done.summary["models"]) > 1:
        _print_whole(out, models_table(done.quantities, settings["temperature"]))
        out.print()
    out.print(done.paragraph)
    out.print(f"\nFiles: {done.folder}/summary.json, *.parquet, manifest.json, figures/*.png and *.pdf", soft_wrap=True)


def _table(title: str, caption: str, columns: Sequence[str], *, left: Sequence[str]) -> Table:
    """An empty table; every number stands above its interval."""
    options: dict[str, Any] = {"box": None, "padding": (0, 2, 0, 0), "pad_edge": False, "caption_justify": "left"}
    table = Table(title=title, caption=caption, **options)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table


def choice_table(quantities: "pd.DataFrame", model: str, temperature: float, settings: Sequence[str]) -> Table:
    """A row a context setting: p(f|c), validity and divergence from no prime."""
    n = _row(quantities, "p_feminine_share")
    counted = "" if n is None else f" n = {n['n_rows']} {n['rows_of']}, {n['n']} {n['n_of']} resampled."
    table = _table(
        f"{model}: answers by context setting",
        f"T = {temperature:g}, 95 % intervals over occupations.{counted} p(f|c): probability of the feminine option, "
        "given one of the two, masculine (mf) and feminine option first (fm); valid: of one of the two. KL from c0 in "
        "bits: mean of the finite ones, median, expected of 200 smoothed draws; inf: an option has probability 0.",
        ("setting", "p(f|c) mf", "fm", "valid", "KL mean", "median", "smoothed"),
        left=("setting",),
    )
    for setting in settings:
        at = quantities[(quantities["setting"] == setting) & (quantities["temperature"] == temperature)]
        both = at[at["option_order"] == "both"]
        table.add_row(
            setting,
            *(_cell(at[at["option_order"] == order], "p_feminine_share") for order in ("mf", "fm")),
            _cell(both, "p_valid"),
            *(_cell(both, f"kl_{name}") for name in ("exact_mean", "exact_median", "smoothed_mean")),
        )
    return table


def shift_table(quantities: "pd.DataFrame", margin: float, settings: Sequence[str]) -> Table:
    """A row a context setting: shift of log-odds from no prime, and whether that is none."""
    table = _table(
        "Shift of log-odds from c0, both option orders",
        "In logits, 95 % intervals over occupations. rms: root mean square. within: share of prompts whose shift is "
        f"below {margin:g}. p: of equivalence at that margin (TOST), Holm over settings. verdict: on the mean; both: "
        "different from 0, and yet within the margin.",
        ("setting", "mean", "rms", "within", "p", "verdict"),
        left=("setting", "verdict"),
    )
    for setting in settings:
        here = quantities[(quantities["setting"] == setting) & (quantities["option_order"] == "both")]
        here = here[(here["factor"] == "occupation") & here["threshold"].isin([margin, float("nan")])]
        shift = _row(here, "equivalence")
        if shift is not None:
            table.add_row(
                setting,
                _cell(here, "equivalence", "+.2f"),
                _cell(here, "rms_shift", ".2f"),
                _cell(here, "share_within_margin", ".0%"),
                f"{shift['p_adjusted']:.2g}",
                str(shift["verdict"]),
            )
    return table


def contextual_table(quantities: "pd.DataFrame", temperature: float) -> Table:
    """A row an estimator: share of contextual pairs by option order and threshold."""
    from referent_probe.analysis.behaviour.systems import ESTIMATORS

    table = _table(
        "Contextual pairs",
        "Share with dC > 0.01 in either option order (mf, fm), in at least one (union), and with option order averaged "
        "out (both); then both at the other thresholds. 95 % intervals over occupations. released and printed: the "
        "published formulas, for comparison only.",
        ("estimator", "mf", "fm", "union", "both", "> 0", "> 0.1", "mean dC", "pairs"),
        left=("estimator",),
    )
    at = quantities[quantities["temperature"] == temperature]
    shares = at[at["quantity"] == "contextual_share"]
    for estimator in ESTIMATORS:
        its = shares[shares["estimator"] == estimator]
        if its.empty:
            continue
        primary, both = its[its["threshold"] == 0.01], its[its["option_order"] == "both"]
        mean = at[(at["estimator"] == estimator) & (at["option_order"] == "both")]
        orders = ("mf", "fm", "union", "both")
        table.add_row(
            estimator,
            *(_cell(primary[primary["option_order"] == order], "contextual_share", ".0%") for order in orders),
            *(_cell(both[both["threshold"] == threshold], "contextual_share", ".0%") for threshold in (0.0, 0.1)),
            _cell(mean, "delta_c_mean", ".2f"),
            str(primary["n_rows"].iloc[0]),
        )
    return table


def models_table(quantities: "pd.DataFrame", temperatures: Mapping[str, float]) -> Table:
    """A row a model: what tells models apart, beside each other."""
    table = _table(
        "Models beside each other",
        "95 % intervals over occupations (of rho, over roles); where two do not overlap, the models differ. cf - cm: "
        "log-odds after a feminine less after a masculine prime, above 0 the model follows. order: mean size of the "
        "move of p(f|c) by option order, unprimed. rho: of rating and unprimed p(f|c). Then shares with dC > 0.01, "
        "option order averaged out.",
        ("model", "cf - cm", "order", "rho", "joint", "self_primed", "steered"),
        left=("model",),
    )
    for model, temperature in temperatures.items():
        its = quantities[(quantities["model"] == model) & (quantities["reading"] == "choice")]
        at = its[its["temperature"] == temperature]
        both, unprimed = at[at["option_order"] == "both"], at[at["setting"] == "c0"]
        share = both[both["threshold"] == 0.01]
        table.add_row(
            model,
            _cell(its[(its["option_order"] == "both") & (its["factor"] == "all")], "follow_shift", "+.2f"),
            _cell(unprimed, "order_effect_absolute", ".2f"),
            _cell(both[(both["setting"] == "c0") & (both["factor"] == "antecedent")], "spearman", "+.2f"),
            *(
                _cell(share[share["estimator"] == estimator], "contextual_share", ".0%")
                for estimator in ("joint", "self_primed", "steered")
            ),
        )
    return table


def _row(table: "pd.DataFrame", quantity: str) -> "pd.Series[Any] | None":
    kept = table[table["quantity"] == quantity]
    return None if kept.empty else kept.iloc[0]


def _cell(table: "pd.DataFrame", quantity: str, spec: str = ".3f") -> str:
    """A number, and its interval on a line of its own."""
    row = _row(table, quantity)
    if row is None or row["value"] != row["value"]:
        return "-"
    ends = "" if row["low"] != row["low"] else f"[{_end(row['low'], spec)},{_end(row['high'], spec)}]"
    return f"{row['value']:{spec}}\n{ends}"


def _end(value: float, spec: str) -> str:
    text = f"{value:{spec if spec.endswith('%') else '.2f'}}".removesuffix("%")
    return re.sub(r"^(-?)0\.", r"\1.", text)  # of a probability the first digit says nothing


def _print_whole(out: Console, table: Table) -> None:
    # In a narrow terminal rich would drop columns and cut numbers; wrapped by the terminal, they are still there.
    needed = out.measure(table, options=out.options.update(width=1000)).maximum
    width = max(out.width, FEWEST_COLUMNS, needed)
    Console(highlight=False, markup=False, emoji=False, width=width).print(table)
