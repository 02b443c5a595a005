"""The command `analyse`."""

import json
import sys
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
NARROW = {"box": None, "padding": (0, 2, 0, 0), "pad_edge": False}


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
        for table in (
            settings_table(quantities, model, temperature, settings),
            contextual_table(quantities, temperature),
        ):
            _print_whole(out, table)
            out.print()
    out.print(done.paragraph)
    out.print(f"\nFiles: {done.folder}/summary.json, *.parquet, manifest.json, figures/*.png and *.pdf", soft_wrap=True)


def settings_table(quantities: "pd.DataFrame", model: str, temperature: float, settings: dict[str, Any]) -> Table:
    """A row a context setting: p(f|c), validity, divergence and shift from no prime."""
    margin = settings["margin"]
    table = Table(
        title=f"{model}: context settings",
        caption=f"T = {temperature:g}. p(f|c): probability of the feminine option, given one of the two, masculine "
        "(mf) and feminine option first (fm). KL from c0 in bits: exact mean, exact median, expected of 200 smoothed "
        "draws. Shift of log-odds from c0, logits [95 % over occupations]; within: share of prompts whose own shift is "
        f"below {margin:g}; verdict on the mean.",
        caption_justify="left",
        **NARROW,  # type: ignore[arg-type]
    )
    heads = ("setting", "p(f|c) mf", "fm", "valid", "KL mean", "median", "smoothed", "shift", "within", "verdict")
    for name in heads:
        table.add_column(name, justify="left" if name in ("setting", "verdict") else "right", no_wrap=True)
    for setting in settings["context_settings"][model]:
        here = quantities[quantities["setting"] == setting]
        at = here[here["temperature"] == temperature]
        both, by_margin = at[at["option_order"] == "both"], here[here["option_order"] == "both"]
        by_margin = by_margin[(by_margin["factor"] == "occupation") & (by_margin["threshold"] == margin)]
        shift = _row(by_margin, "equivalence")
        table.add_row(
            setting,
            *(_value(at[at["option_order"] == order], "p_feminine_share") for order in ("mf", "fm")),
            _value(both, "p_valid"),
            *(_value(both, f"kl_{name}") for name in ("exact_mean", "exact_median", "smoothed_mean")),
            "-" if shift is None else f"{shift['value']:+.2f}{_ends(shift, '+.2f')}",
            _value(by_margin, "share_within_margin", ".0%"),
            "-" if shift is None else str(shift["verdict"]),
        )
    return table


def contextual_table(quantities: "pd.DataFrame", temperature: float) -> Table:
    """A row an estimator: share of contextual pairs by option order and threshold."""
    from referent_probe.analysis.behaviour.systems import ESTIMATORS

    table = Table(
        title="Contextual pairs",
        caption="Share with dC > 0.01 in either option order (mf, fm), in at least one (union), and with option order "
        "averaged out (both, [95 % over occupations]); then both at the other thresholds. released and printed: the "
        "published formulas, for comparison only.",
        caption_justify="left",
        **NARROW,  # type: ignore[arg-type]
    )
    for name in ("estimator", "mf", "fm", "union", "both", "> 0", "> 0.1", "mean dC", "pairs"):
        table.add_column(name, justify="left" if name == "estimator" else "right", no_wrap=True)
    at = quantities[quantities["temperature"] == temperature]
    shares = at[at["quantity"] == "contextual_share"]
    for estimator in ESTIMATORS:
        its = shares[shares["estimator"] == estimator]
        if its.empty:
            continue
        primary = its[its["threshold"] == 0.01]
        cells = [
            _value(primary[primary["option_order"] == o], "contextual_share", ".0%") for o in ("mf", "fm", "union")
        ]
        both = its[its["option_order"] == "both"]
        main = _row(both[both["threshold"] == 0.01], "contextual_share")
        others = [_value(both[both["threshold"] == t], "contextual_share", ".0%") for t in (0.0, 0.1)]
        mean = at[(at["estimator"] == estimator) & (at["option_order"] == "both")]
        table.add_row(
            estimator,
            *cells,
            "-" if main is None else f"{main['value']:.0%}{_ends(main, '.0%')}",
            *others,
            _value(mean, "delta_c_mean", "+.2f"),
            str(primary["n_rows"].iloc[0]),
        )
    return table


def _row(table: "pd.DataFrame", quantity: str) -> "pd.Series[Any] | None":
    kept = table[table["quantity"] == quantity]
    return None if kept.empty else kept.iloc[0]


def _value(table: "pd.DataFrame", quantity: str, spec: str = ".3f") -> str:
    row = _row(table, quantity)
    return "-" if row is None or row["value"] != row["value"] else f"{row['value']:{spec}}"


def _ends(row: "pd.Series[Any]", spec: str) -> str:
    return "" if row["low"] != row["low"] else f" [{row['low']:{spec}}, {row['high']:{spec}}]"


def _print_whole(out: Console, table: Table) -> None:
    # In a narrow terminal rich would drop columns and cut numbers; wrapped by the terminal, they are still there.
    needed = out.measure(table, options=out.options.update(width=1000)).maximum
    width = max(out.width, FEWEST_COLUMNS, needed)
    Console(highlight=False, markup=False, emoji=False, width=width).print(table)
