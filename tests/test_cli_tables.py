"""Tables that `analyse` prints: every number with its interval, n in the caption, nothing cut off."""

import io
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.table import Table

from referent_probe.analysis.behaviour.compared import COMPARED
from referent_probe.analysis.behaviour.quantities import QUANTITIES, found, quantities_table
from referent_probe.analysis.inference import Interval
from referent_probe.cli_tables import (
    BESIDE_EACH_OTHER,
    choice_table,
    contextual_table,
    models_table,
    print_whole,
    shift_table,
)

LONG = "some-organisation/A-Model-With-A-Long-Name-8B-Instruct"


def quantities(model: str = "alpha", shift: float = 0.0) -> pd.DataFrame:
    """Every number that the tables print, 0.01 apart, each with an interval of its own width."""
    rows: list[dict[str, Any]] = []

    def add(name: str, rows_of: str, more: dict[str, Any] | None = None, **keys: Any) -> None:
        value = 0.1 + 0.01 * len(rows) + shift
        interval = Interval(value, value - 0.031, value + 0.042, 4, QUANTITIES[name].unit)
        rows.append(found(name, interval, n_rows=8, rows_of=rows_of, **(more or {}), **keys))

    for setting in ("c0", "cf"):
        add("p_feminine_share", "templates", setting=setting, option_order="mf", temperature=0.5)
        add("p_feminine_share", "templates", setting=setting, option_order="fm", temperature=0.5)
        add("p_valid", "prompts", setting=setting, option_order="both", temperature=0.5)
        add("spearman", "templates", setting=setting, option_order="both", temperature=0.5, factor="antecedent")
    for name in ("kl_exact_mean", "kl_exact_median", "kl_smoothed_mean"):
        add(name, "prompts", setting="cf", option_order="both", temperature=0.5)
    occupation: dict[str, Any] = {"setting": "cf", "option_order": "both", "factor": "occupation"}
    add("equivalence", "prompts", {"p_adjusted": 0.2, "verdict": "undecided"}, threshold=0.2, **occupation)
    add("rms_shift", "prompts", **occupation)
    add("share_within_margin", "prompts", threshold=0.2, **occupation)
    add("follow_shift", "prompts", {"verdict": "follows"}, option_order="both", factor="all")
    add("order_effect_absolute", "templates", setting="c0", temperature=0.5)
    system = {"temperature": 0.5, "estimator": "joint"}
    for order in ("mf", "fm", "union", "both"):
        for threshold in (0.0, 0.01, 0.1):
            add("contextual_share", "pairs", option_order=order, threshold=threshold, **system)
    add("delta_c_mean", "pairs", option_order="both", **system)
    return quantities_table(rows, model)


def printed(table: Table, width: int = 40) -> str:
    """As in a narrow terminal."""
    out = io.StringIO()
    console = Console(file=out, width=width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("referent_probe.cli_tables.Console", lambda **options: Console(file=out, width=options["width"]))
        print_whole(console, table)
    return out.getvalue()


def cells(table: Table) -> list[str]:
    return [str(cell) for column in table.columns for cell in column.cells]


TABLES = {
    "choice": lambda q: choice_table(q, "alpha", 0.5, ("c0", "cf")),
    "shift": lambda q: shift_table(q, 0.2, ("c0", "cf")),
    "contextual": lambda q: contextual_table(q, 0.5),
    **{
        about: lambda q, about=about, names=names: models_table(q, {"alpha": 0.5, LONG: 0.5}, about, names)
        for about, names in BESIDE_EACH_OTHER.items()
    },
}


@pytest.mark.parametrize("name", TABLES)
def test_every_number_stands_above_the_interval_that_it_has_in_the_long_table(name: str) -> None:
    table = TABLES[name](quantities())
    numbers = [cell for cell in cells(table) if re.match(r"[+-]?\d+(\.\d+)?%?\n", cell)]
    assert len(numbers) == {"choice": 9, "shift": 3, "contextual": 7, "stereotype": 2}.get(name, 3)
    of_value = {round(row["value"], 6): row for _, row in quantities().iterrows()}
    for cell in numbers:
        value, ends = cell.split("\n")
        scale = 100 if value.endswith("%") else 1
        low, high = (float(end) / scale for end in ends.strip("[]").split(","))
        row = min(of_value.values(), key=lambda r: abs(r["value"] - float(value.strip("%+")) / scale))
        assert (low, high) == pytest.approx((row["low"], row["high"]), abs=0.0051)
        assert low <= float(value.strip("%+")) / scale <= high  # also as rounded


@pytest.mark.parametrize("name", TABLES)
def test_captions_say_n_once_and_nothing_is_cut_off(name: str) -> None:
    table = TABLES[name](
        pd.concat([quantities(), quantities(LONG, 0.5)] if name in BESIDE_EACH_OTHER else [quantities()])
    )
    assert str(table.caption).count("n = ") == 1
    assert re.search(r"n = .*8 (templates|prompts|pairs).*, 4 occupations", str(table.caption))
    text = printed(table)
    assert "…" not in text
    for cell in cells(table):
        if cell != LONG:
            assert all(line in text for line in cell.split("\n"))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 90
    if name in BESIDE_EACH_OTHER:
        names = [line[:22].strip() for line in text.splitlines()]
        assert "".join(line for line in names if line and line in LONG) == LONG


def test_an_infinite_end_is_explained_only_where_there_is_one() -> None:
    finite = quantities()
    assert "inf" not in str(TABLES["choice"](finite).caption)
    for infinite in (["high"], ["value", "high"]):
        table = finite.copy()
        table.loc[table["quantity"] == "kl_exact_median", infinite] = np.inf
        shown = TABLES["choice"](table)
        assert any(",inf]" in cell for cell in cells(shown))
        assert "inf: without upper end, since an option has probability 0" in str(shown.caption)
    left_out = finite.copy()
    left_out.loc[left_out["quantity"] == "kl_exact_mean", "note"] = "3 infinite ones left out"
    assert "mean of the finite ones (cf: 3 infinite ones left out)" in str(TABLES["choice"](left_out).caption)


def test_models_at_temperatures_of_their_own_are_called_so() -> None:
    table = pd.concat([quantities(), quantities("beta").replace({"temperature": 0.5}, 1.0)])
    caption = str(models_table(table, {"alpha": 0.5, "beta": 1.0}, "stereotype", ("rho c0",)).caption)
    assert caption.startswith("Each at its primary T (0.5, 1), 95 % intervals.")
    assert set().union(*BESIDE_EACH_OTHER.values()) == set(COMPARED)
