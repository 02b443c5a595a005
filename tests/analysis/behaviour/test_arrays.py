"""Long tables as arrays: every row finds its place, and a row that has none is refused."""

import numpy as np
import pandas as pd
import pytest
from tests.measured import ORDERS, SETTINGS, TEMPERATURES, at, logit, write_run

from referent_probe.analysis.behaviour.arrays import Arrays, as_arrays, gridded
from referent_probe.analysis.behaviour.finished import read_run
from referent_probe.errors import RunError
from referent_probe.stimuli.templates import Template


def p(template: Template, setting: str, order: str) -> float:
    number = int(template.pair) * 2 + (template.id[-1] == "b")
    return (number * 31 + SETTINGS.index(setting) * 7 + (order == "fm") * 3) % 89 / 90 + 0.005


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    return dict(read_run(write_run(tmp_path_factory.mktemp("run") / "run", p, n_pairs=4)).tables)


@pytest.fixture(scope="module")
def run(tables: dict[str, pd.DataFrame]) -> Arrays:
    return as_arrays(tables, "m")


def test_every_row_is_in_its_place(run: Arrays, tables: dict[str, pd.DataFrame]) -> None:
    assert run.log_odds.shape == (8, 7, 2)
    assert run.p_share.shape == (8, 7, 2, 4)
    for table, array in ("choices", run.log_odds), ("answers", run.probabilities["p_feminine"]):
        column = "log_odds" if table == "choices" else "p_feminine"
        for row in tables[table].to_dict("records"):
            place = [
                run.templates["template"].tolist().index(row["template"]),
                SETTINGS.index(row["setting"]),
                ORDERS.index(row["option_order"]),
            ]
            place += [TEMPERATURES.index(row["temperature"])] if table == "answers" else []
            assert array[tuple(place)] == row[column]


def test_the_order_of_rows_is_nothing(run: Arrays, tables: dict[str, pd.DataFrame]) -> None:
    moved = {name: table.sample(frac=1, random_state=0) for name, table in tables.items()}
    other = as_arrays(moved, "m")
    order = [other.templates["template"].tolist().index(name) for name in run.templates["template"]]
    assert np.array_equal(other.p_share[order], run.p_share)


def test_shares_and_validity(run: Arrays) -> None:
    assert run.p_valid == pytest.approx(0.9)
    template, order = run.templates["template"].tolist().index("002b"), ORDERS.index("fm")
    expected = [at((5 * 31 + 7 + 3) % 89 / 90 + 0.005, t, 0.5) for t in TEMPERATURES]
    assert run.p_share[template, 1, order] == pytest.approx(expected)
    assert run.log_odds[template, 1, order] == pytest.approx(logit(expected[1]) * 0.5)
    assert run.primary == 1


def test_pairs_are_sentence_1_and_2(run: Arrays) -> None:
    assert run.pairs["pair"].tolist() == ["001", "002", "003", "004"]
    assert run.templates["template"].to_numpy()[run.pair_rows].tolist() == [
        [f"{i:03d}a", f"{i:03d}b"] for i in (1, 2, 3, 4)
    ]


def test_a_pair_with_one_member_is_no_pair(tables: dict[str, pd.DataFrame]) -> None:
    broken = tables | {"choices": tables["choices"].query("template != '002b'")}
    broken["answers"] = tables["answers"].query("template != '002b'")
    run = as_arrays(broken, "m")
    assert (len(run.templates), len(run.pair_rows), run.n_broken_pairs) == (7, 3, 1)


def test_absent_settings_are_not_there(tables: dict[str, pd.DataFrame]) -> None:
    kept = ["c0", "cm"]
    less = tables | {name: tables[name][tables[name]["setting"].isin(kept)] for name in ("choices", "answers")}
    assert as_arrays(less, "m").settings == ("c0", "cm")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("choices", lambda t: t.iloc[:0], "has no choices"),
        ("answers", lambda t: t.iloc[:0], "has no answers"),
        ("choices", lambda t: pd.concat([t, t.iloc[:1]]), "choices of 'm' have 001a, c0, mf twice"),
        ("answers", lambda t: pd.concat([t, t.iloc[:1]]), "answers of 'm' have 001a, c0, mf, 0.3 twice"),
        ("answers", lambda t: t.assign(template="999a"), "have template '999a', unknown"),
        ("answers", lambda t: t.assign(option_order="xy"), "have option_order 'xy', unknown"),
        ("answers", lambda t: t.query("temperature != 0.5"), "no answers at its temperature 0.5"),
    ],
)
def test_contradictions_are_refused(tables: dict[str, pd.DataFrame], name: str, change: object, message: str) -> None:
    with pytest.raises(RunError, match=message):
        as_arrays(tables | {name: change(tables[name])}, "m")  # type: ignore[operator]


def test_a_template_is_one_thing(tables: dict[str, pd.DataFrame]) -> None:
    choices = tables["choices"].copy()
    choices.loc[0, "occupation"] = "other"
    with pytest.raises(RunError, match="two things about template '001a'"):
        as_arrays(tables | {"choices": choices}, "m")


def test_an_empty_table_is_all_nan() -> None:
    empty = pd.DataFrame({"template": [], "p": []})
    assert np.isnan(gridded(empty, ["template"], (("1a", "1b"),), ["p"], "answers")["p"]).all()
