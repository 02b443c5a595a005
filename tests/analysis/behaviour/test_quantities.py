"""The long table refuses what it does not declare."""

import doctest
import math

import pytest

from referent_probe.analysis.behaviour import (
    arrays,
    clustered,
    in_summary,
    quantities,
    roles,
    shifts,
    single_blank,
)
from referent_probe.analysis.behaviour.quantities import COLUMNS, KEYS, QUANTITIES, found, quantities_table
from referent_probe.analysis.inference import Interval


@pytest.mark.parametrize("module", [arrays, clustered, in_summary, quantities, roles, shifts, single_blank])
def test_docstrings_tell_the_truth(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_declarations_hold_together() -> None:
    assert set(KEYS) <= set(COLUMNS)
    assert all(set(quantity.keys) <= set(KEYS) for quantity in QUANTITIES.values())


def test_a_row_has_the_keys_of_its_quantity() -> None:
    with pytest.raises(ValueError, match="keys differ"):
        found("p_valid", 0.5, setting="c0")
    with pytest.raises(ValueError, match="'unheard' with"):
        found("unheard", 0.5)


def test_an_interval_and_a_bare_number() -> None:
    keys = {"setting": "c0", "option_order": "mf", "temperature": 0.5}
    rows = [
        found("p_valid", Interval(0.5, 0.4, 0.6, 7, "probability"), n_rows=21, rows_of="templates", **keys),
        found("p_valid", 0.25, n_rows=21, rows_of="templates", **keys),
    ]
    table = quantities_table(rows, "m")
    assert list(table.columns) == list(COLUMNS)
    assert table["n"].tolist() == [7, 21]
    assert table["n_of"].tolist() == ["occupations", "templates"]
    assert math.isnan(table["low"][1])
    assert table["verdict"].tolist() == [None, None]


def test_a_table_without_rows_has_its_columns() -> None:
    table = quantities_table([], "m")
    assert list(table.columns) == list(COLUMNS)
    assert table["value"].dtype == "float64"
