"""Tables that `analyse` prints: every number above its interval."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

FEWEST_COLUMNS = 80
MODEL_COLUMNS = 22  # of a model's name, where models stand beside each other
BESIDE_EACH_OTHER = {
    "prime, option order, contextual pairs": ("cf - cm", "order", "joint", "self_primed", "steered"),
    "stereotype": ("rho c0", "rho cf", "rho cm"),
}
"""What a table of several models is about, and its columns, names of `compared.COMPARED`."""

MEANINGS = {
    "cf - cm": "cf - cm: log-odds after a feminine less after a masculine prime; above 0 the model follows.",
    "order": "order: mean size of the move of p(f|c) by option order, unprimed.",
    "joint": "joint, self_primed, steered: share of pairs with dC > 0.01, option order averaged out.",
    "rho c0": "rho: of rating and p(f|c), both option orders; c0 unprimed, cf and cm primed; resampled are roles.",
}
"""Of columns, in captions."""


def _table(title: str, caption: str, columns: Sequence[str], *, left: Sequence[str], gap: int = 2) -> Table:
    """An empty table; every number stands above its interval."""
    options: dict[str, Any] = {"box": None, "padding": (0, gap, 0, 0), "pad_edge": False, "caption_justify": "left"}
    table = Table(title=title, caption=caption, **options)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table


def choice_table(quantities: "pd.DataFrame", model: str, temperature: float, settings: Sequence[str]) -> Table:
    """A row a context setting: p(f|c), validity and divergence from no prime."""
    at = quantities[quantities["temperature"] == temperature]
    shares = at[(at["quantity"] == "p_feminine_share") & (at["option_order"] != "both")]
    kl = at[at["quantity"].str.startswith("kl_") & (at["option_order"] == "both")]
    table = _table(
        f"{model}: answers by context setting",
        f"T = {temperature:g}, 95 % intervals over occupations.{_counted(shares)} p(f|c): probability of the feminine "
        "option, given one of the two, masculine (mf) and feminine option first (fm); valid: of one of the two. KL "
        f"from c0 in bits, both orders: mean of the finite ones{_infinite(kl)}, median, expected of 200 smoothed draws."
        f"{_endless(kl)}",
        ("setting", "p(f|c) mf", "fm", "valid", "KL mean", "median", "smoothed"),
        left=("setting",),
        gap=1,
    )
    for setting in settings:
        here = at[at["setting"] == setting]
        both = here[here["option_order"] == "both"]
        table.add_row(
            setting,
            *(_cell(here[here["option_order"] == order], "p_feminine_share") for order in ("mf", "fm")),
            _cell(both, "p_valid"),
            *(_cell(both, f"kl_{name}") for name in ("exact_mean", "exact_median", "smoothed_mean")),
        )
    return table


def shift_table(quantities: "pd.DataFrame", margin: float, settings: Sequence[str]) -> Table:
    """A row a context setting: shift of log-odds from no prime, and whether that is none."""
    both = quantities[(quantities["option_order"] == "both") & (quantities["factor"] == "occupation")]
    means = both[(both["quantity"] == "equivalence") & (both["threshold"] == margin)]
    table = _table(
        "Shift of log-odds from c0, both option orders",
        f"In logits, 95 % intervals over occupations.{_counted(means)} rms: root mean square. within: share of prompts "
        f"whose shift is below {margin:g}. p: of equivalence at that margin (TOST), Holm over settings. verdict: on "
        "the mean; both: different from 0, and yet within the margin.",
        ("setting", "mean", "rms", "within", "p", "verdict"),
        left=("setting", "verdict"),
    )
    for setting in settings:
        here = both[(both["setting"] == setting) & both["threshold"].isin([margin, float("nan")])]
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

    at = quantities[quantities["temperature"] == temperature]
    shares = at[at["quantity"] == "contextual_share"]
    table = _table(
        "Contextual pairs",
        "Share with dC > 0.01 in either option order (mf, fm), in at least one (union), and with option order averaged "
        f"out (both); then both at the other thresholds. 95 % intervals over occupations.{_counted(shares)} released "
        "and printed: the published formulas, for comparison only.",
        ("estimator", "mf", "fm", "union", "both", "> 0", "> 0.1", "mean dC", "pairs"),
        left=("estimator",),
    )
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


def models_table(
    quantities: "pd.DataFrame", temperatures: Mapping[str, float], about: str, names: Sequence[str]
) -> Table:
    """A row a model: numbers of `compared.COMPARED` with these names beside each other."""
    import pandas as pd

    from referent_probe.analysis.behaviour.compared import COMPARED, compared_rows

    found = {name: compared_rows(quantities, temperatures, name) for name in names}
    rows = pd.DataFrame([row for of_model in found.values() for row in of_model.values()])
    meanings = " ".join(MEANINGS[name] for name in names if name in MEANINGS)
    table = _table(
        f"Models beside each other: {about}",
        f"{_temperatures(temperatures)}, 95 % intervals.{_counted(rows)} {meanings}",
        ("model", *names),
        left=("model",),
    )
    table.columns[0].no_wrap, table.columns[0].overflow, table.columns[0].max_width = False, "fold", MODEL_COLUMNS
    for model in temperatures:
        table.add_row(model, *(_written(its.get(model), COMPARED[name].spec) for name, its in found.items()))
    return table


def _temperatures(of_model: Mapping[str, float]) -> str:
    told = [f"{temperature:g}" for temperature in of_model.values()]
    return f"T = {told[0]}" if len(set(told)) == 1 else f"Each at its primary T ({', '.join(told)})"


def _counted(rows: "pd.DataFrame") -> str:
    """What the numbers of a table are of."""
    from referent_probe.figures_lanes import counted

    return f" {counted(rows)}." if len(rows) and counted(rows) else ""


def _infinite(kl: "pd.DataFrame") -> str:
    """How many infinite divergences a mean leaves out."""
    rows = kl[(kl["quantity"] == "kl_exact_mean") & kl["note"].notna()]
    told = [f"{setting}: {note}" for setting, note in zip(rows["setting"], rows["note"], strict=True)]
    return f" ({'; '.join(told)})" if told else ""


def _endless(rows: "pd.DataFrame") -> str:
    """What an infinite number or end means, where there is one."""
    if not rows[["value", "high"]].isin([float("inf")]).any(axis=None):
        return ""
    return (
        " inf: without upper end, since an option has probability 0 unprimed and not with the prime; as a number, in "
        "half of the prompts and more; as an end, in over 2.5 % of the resamples."
    )


def _row(table: "pd.DataFrame", quantity: str) -> "pd.Series[Any] | None":
    kept = table[table["quantity"] == quantity]
    return None if kept.empty else kept.iloc[0]


def _cell(table: "pd.DataFrame", quantity: str, spec: str = ".3f") -> str:
    """Of the quantity's first row; "-" where there is none."""
    kept = table[table["quantity"] == quantity]
    return _written(None if kept.empty else kept.iloc[0], spec)


def _written(row: "Mapping[str, Any] | pd.Series[Any] | None", spec: str) -> str:
    """A number, and its interval on a line of its own."""
    if row is None or row["value"] != row["value"]:
        return "-"
    ends = "" if row["low"] != row["low"] else f"[{_end(row['low'], spec)},{_end(row['high'], spec)}]"
    return f"{row['value']:{spec}}\n{ends}"


def _end(value: float, spec: str) -> str:
    text = f"{value:{spec.removeprefix('+')}}".removesuffix("%")
    return re.sub(r"^(-?)0\.", r"\1.", text)  # of a probability the first digit says nothing


def print_whole(out: Console, table: Table) -> None:
    """Prints a table without loss.

    In a narrow terminal rich would drop columns and cut numbers; wrapped by the terminal, they are still there.
    """
    needed = out.measure(table, options=out.options.update(width=1000)).maximum
    width = max(out.width, FEWEST_COLUMNS, needed)
    Console(highlight=False, markup=False, emoji=False, width=width).print(table)
