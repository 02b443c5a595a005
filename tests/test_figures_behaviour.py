"""What a reader must find on the figures of behaviour: every number where it belongs, axes, units, n, what is missing.

Looks are judged by eye; here is what can be stated.
"""

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from numpy.typing import NDArray

from referent_probe import figures_behaviour, figures_contextuality
from referent_probe.analysis.behaviour.quantities import QUANTITIES, found, quantities_table
from referent_probe.analysis.inference import Interval
from referent_probe.figures import COLUMN, GREY, PAGE
from referent_probe.figures_lanes import chosen, counted, models_of

SETTINGS = ("c0", "cf", "n1")
TEMPERATURES = (0.5, 1.0)
ESTIMATORS = ("joint", "self_primed", "steered", "released", "printed")
REPORTED = pd.DataFrame(
    {
        "quantity": ["contextual_pairs_union", "contextual_pairs", "spearman"],
        "setting": ["either option order", "options [m, f]", "unprimed"],
        "phi_4": [52, 31.7, 0.1],
        "qwen_2_5_7b": [19, None, 0.2],
        "unit": "percent of 180",
        "provenance": "paper",
    }
)


@pytest.fixture(autouse=True)
def leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file is written, no style is changed, pyplot knows of no figure."""
    monkeypatch.chdir(tmp_path)
    before = dict(mpl.rcParams)
    yield
    assert list(tmp_path.iterdir()) == []
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def grid(**values: tuple[Any, ...]) -> list[dict[str, Any]]:
    index = pd.MultiIndex.from_product(values.values(), names=list(values))
    return index.to_frame(index=False).to_dict("records")


def quantity_table(model: str = "alpha") -> pd.DataFrame:
    """A small analysis: every number is different, and its interval goes 0.05 to both sides."""
    rng, orders, rows = np.random.default_rng(0), ("mf", "fm", "both"), []

    def add(names: tuple[str, ...], keys: list[dict[str, Any]], rows_of: str = "templates", **more: Any) -> None:
        for name in names:
            for key in keys:
                value = float(rng.uniform(0.1, 0.9))
                interval = Interval(value, value - 0.05, value + 0.05, 4, QUANTITIES[name].unit, "occupations")
                rows.append(found(name, interval, n_rows=24, rows_of=rows_of, **more, **key))

    add(("p_feminine_share",), grid(setting=SETTINGS, option_order=orders, temperature=TEMPERATURES))
    kl = ("kl_exact_mean", "kl_exact_median", "kl_smoothed_mean")
    add(kl, grid(setting=SETTINGS[1:], option_order=orders, temperature=TEMPERATURES), "prompts")
    stereotype = {"option_order": orders, "temperature": (0.5,), "factor": ("antecedent",)}
    add(("spearman",), grid(setting=SETTINGS, **stereotype))
    add(("spearman_difference",), grid(setting=SETTINGS[1:], **stereotype))
    information = {"setting": ("c0", "cf+cm"), "option_order": orders, "temperature": (0.5,)}
    add(("mutual_information",), grid(**information, factor=("role_type", "case", "template", "rating_3")))
    add(("mutual_information_excess",), grid(**information, factor=("rating_3", "rating_5")))
    primed = {"setting": ("cf+cm",), "option_order": orders, "temperature": (0.5,), "factor": ("priming_pronoun",)}
    add(("mutual_information", "mutual_information_conditional"), grid(**primed))
    margins = {"option_order": orders, "threshold": (0.2, 0.1), "factor": ("occupation", "participant")}
    add(("equivalence",), grid(setting=SETTINGS[1:], **margins), verdict="undecided")
    add(("share_within_margin",), grid(setting=SETTINGS[1:], **margins))
    systems = {"option_order": orders, "temperature": (0.5,), "estimator": ESTIMATORS}
    add(("delta_c_mean", "correlation_difference_mean", "signalling_mean"), grid(**systems), "pairs")
    calls = {"option_order": (*orders, "union"), "temperature": TEMPERATURES, "estimator": ESTIMATORS}
    add(("contextual_share",), grid(**calls, threshold=(0.0, 0.01, 0.1)), "pairs")
    rows.append(rows[0] | {"reading": "whole_sentence", "value": 77.0})  # must not be shown
    return quantities_table(rows, model)


def overlap_table(models: tuple[str, ...]) -> pd.DataFrame:
    keys = {"option_order": "both", "temperature": 0.5, "estimator": "joint", "threshold": 0.01}
    counts = {models[0]: 3.0, models[1]: 0.0, " & ".join(models): 5.0}
    rows = [{"model": m, **found("overlap_pairs", n, n_rows=12, rows_of="pairs", **keys)} for m, n in counts.items()]
    return quantities_table(rows, "")


def shift_table(model: str = "alpha") -> pd.DataFrame:
    rows = pd.DataFrame(grid(setting=(*SETTINGS, "cf-cm"), option_order=("mf", "fm"), template=tuple("abcdef")))
    p = np.random.default_rng(1).uniform(size=len(rows))
    return rows.assign(model=model, reading="choice", temperature=0.5, p_feminine_share=p)


def pair_table(model: str = "alpha") -> pd.DataFrame:
    rows = pd.DataFrame(grid(estimator=ESTIMATORS, option_order=("mf", "fm", "both"), pair=tuple("abc")))
    first, second = np.random.default_rng(2).uniform(size=(2, len(rows)))
    about = {"model": model, "reading": "choice", "temperature": 0.5}
    return rows.assign(**about, delta_c=first - second, correlation_difference=first, signalling=second)


Draw = Callable[[pd.DataFrame, pd.DataFrame, pd.DataFrame], Figure]
DRAW: dict[str, Draw] = {
    "figure_1": lambda q, s, p: figures_behaviour.figure_1(q, s),
    "figure_2": lambda q, s, p: figures_behaviour.figure_2(q),
    "figure_3": lambda q, s, p: figures_behaviour.figure_3(q),
    "figure_invariance": lambda q, s, p: figures_behaviour.figure_invariance(q),
    "figure_s4": lambda q, s, p: figures_behaviour.figure_s4(q),
    "figure_4": lambda q, s, p: figures_contextuality.figure_4(q, REPORTED),
    "figure_delta_c": lambda q, s, p: figures_contextuality.figure_delta_c(q, p),
    "figure_s5": lambda q, s, p: figures_contextuality.figure_s5(q),
}
LONG = "some-organisation/A-Model-With-A-Long-Name-8B-Instruct"


def tables(*models: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    quantities = [quantity_table(model) for model in models]
    quantities += [overlap_table(models)] if len(models) > 1 else []
    shifts, pairs = (pd.concat([make(m) for m in models], ignore_index=True) for make in (shift_table, pair_table))
    return pd.concat(quantities, ignore_index=True), shifts, pairs


@functools.cache
def drawn(name: str, *models: str) -> Figure:
    """Each is drawn once; the tables are left as they were."""
    given, before = (tables(*(models or ("alpha",))) for _ in range(2))
    figure = DRAW[name](*given)
    for table, kept in zip(given, before, strict=True):
        pd.testing.assert_frame_equal(table, kept)
    return figure


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


def spread_out(text: str) -> str:
    return " ".join(text.split())


def markers(ax: Axes, size: float = 11) -> NDArray[np.float64]:
    """Where the markers of this size are, sorted from the top."""
    kept = [c for c in ax.collections if isinstance(c, PathCollection) and c.get_sizes().tolist() == [size]]
    points = np.concatenate([np.asarray(c.get_offsets()) for c in kept]) if kept else np.empty((0, 2))
    return points[np.lexsort((points[:, 0], points[:, 1]))]


def intervals(ax: Axes) -> NDArray[np.float64]:
    """(low, high) of the bars."""
    lines = [c for c in ax.collections if isinstance(c, LineCollection)]
    return np.array([(s[0][0], s[1][0]) for c in lines for s in c.get_segments() if len(s)])


def rows(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def values(**keys: Any) -> NDArray[np.float64]:
    table = quantity_table()
    table = table[table["reading"] == "choice"]
    for column, value in keys.items():
        table = table[table[column] == value]
    return table["value"].to_numpy()


# Every figure


@pytest.mark.parametrize("name", DRAW)
def test_every_figure_names_unit_n_and_interval_and_fits_the_column(name: str) -> None:
    figure, text = drawn(name), spread_out(words(drawn(name)))
    units = r"probability|bits|rho|logits|share of|no unit|p\(f\|c\)"
    for part in (figure, *(sub for body in figure.subfigs for sub in body.subfigs)):
        if part.axes and part is not figure:
            assert re.search(units, words(part)), name
    assert re.search(r"n = 24 (templates|prompts|pairs), 4 occupations", text)
    assert "95 % interval" in text
    assert "alpha" in text
    assert figure.get_figwidth() == COLUMN


@pytest.mark.parametrize("models", [("alpha",), ("alpha", LONG, "phi-4")])
@pytest.mark.parametrize("name", DRAW)
def test_no_text_leaves_the_page(name: str, models: tuple[str, ...]) -> None:
    figure = drawn(name, *models)
    box = figure.get_tightbbox()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.get_figwidth()
    assert box.y1 <= figure.get_figheight()


@pytest.mark.parametrize("name", DRAW)
def test_models_stand_side_by_side_on_the_same_axes(name: str) -> None:
    figure = drawn(name, "alpha", LONG, "phi-4")
    assert COLUMN < figure.get_figwidth() <= PAGE
    first = figure.axes[:3]
    assert len({ax.get_position().y0 for ax in first}) == 1
    assert len({ax.get_xlim() for ax in first}) == len({ax.get_ylim() for ax in first}) == 1
    titles = ["".join(ax.get_title().split()) for ax in first]
    assert titles == ["alpha", LONG, "phi-4"]
    assert spread_out(words(figure)).count("n = 24") <= 3  # n is the same in all, and said once a section


@pytest.mark.parametrize("name", DRAW)
def test_a_panel_says_what_is_missing(name: str) -> None:
    quantities, shifts, pairs = tables("alpha")
    bare = quantities[quantities["quantity"].isin(["contextual_share", "p_feminine_share"])].assign(value=np.nan)
    figure = DRAW[name](bare, shifts.iloc[:0], pairs.iloc[:0])
    texts = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert texts == ["not computed"] * len(figure.axes)


def test_figures_save_as_png_and_pdf(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("saved")
    for ending in ("png", "pdf"):
        drawn("figure_1").savefig(folder / f"figure.{ending}")
        drawn("figure_4", "alpha", LONG, "phi-4").savefig(folder / f"overlap.{ending}")
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize("models", [("alpha",), ("alpha", LONG, "phi-4")])
@pytest.mark.parametrize(
    "name", ["figure_1", "figure_2", "figure_3", "figure_invariance", "figure_4", "figure_delta_c"]
)
def test_no_marker_covers_that_of_another_lane(name: str, models: tuple[str, ...]) -> None:
    figure = drawn(name, *models)
    diameter = 11**0.5 + 0.8  # points, with its edge
    for ax in figure.axes[: len(models)] + figure.axes[len(models) : 2 * len(models)]:
        if len(shown := markers(ax)):
            heights = np.unique(ax.transData.transform(shown)[:, 1].round(3)) / ax.figure.dpi * 72
            assert np.diff(heights).min() >= diameter


# What is drawn of a table


def test_only_answers_to_prompts_at_the_primary_temperature_are_chosen() -> None:
    quantities = tables("alpha", "phi-4")[0]
    assert models_of(quantities) == ["alpha", "phi-4"]
    table = chosen(quantities, "phi-4", {"alpha": 0.5, "phi-4": 1.0})
    assert set(table["model"]) == {"phi-4"}
    assert set(table["reading"]) == {"choice"}
    assert set(table["temperature"].dropna()) == {1.0}
    assert table["temperature"].isna().any()
    assert set(chosen(quantities, "phi-4")["temperature"].dropna()) == {0.5, 1.0}


def test_counts_name_a_unit_once_and_skip_what_has_no_number() -> None:
    table = pd.DataFrame({"value": [1.0, np.nan], "n_rows": [24, 7], "rows_of": "pairs", "n": [24, 3], "n_of": "pairs"})
    assert counted(table.assign(n_left_out=0)) == "n = 24 pairs"
    assert counted(table.iloc[1:].assign(n_left_out=0)) == ""


# Figure 1


def test_figure_1_shows_templates_mean_and_interval_in_a_lane_an_order() -> None:
    upper = drawn("figure_1").axes[0]
    assert rows(upper) == [figures_behaviour.SETTINGS[setting] for setting in SETTINGS]
    shown, points = markers(upper), markers(upper, 2.5)
    for i, (setting, order) in enumerate([(s, o) for s in SETTINGS for o in ("mf", "fm")]):
        (mean,) = values(quantity="p_feminine_share", setting=setting, option_order=order, temperature=0.5)
        assert shown[i] == pytest.approx([mean, i // 2 + (-0.2, 0.2)[i % 2]])
        shifts = shift_table().query("setting == @setting and option_order == @order")["p_feminine_share"]
        lane = points[np.abs(points[:, 1] - shown[i, 1]) < 0.2]
        assert np.sort(lane[:, 0]) == pytest.approx(np.sort(shifts))
    assert sorted(intervals(upper)[:, 0]) == pytest.approx(sorted(shown[:, 0] - 0.05))
    assert sorted(intervals(upper)[:, 1]) == pytest.approx(sorted(shown[:, 0] + 0.05))


def test_figure_1_shows_three_readings_of_kl_in_bits() -> None:
    lower = drawn("figure_1").axes[1]
    assert rows(lower) == [figures_behaviour.SETTINGS[setting] for setting in SETTINGS[1:]]
    names = ("kl_exact_mean", "kl_exact_median", "kl_smoothed_mean")
    expected = [
        values(quantity=name, setting=setting, option_order="both", temperature=0.5)[0]
        for setting in SETTINGS[1:]
        for name in names
    ]
    assert markers(lower)[:, 0] == pytest.approx(expected)
    assert "KL from the unprimed setting (bits)" in words(drawn("figure_1"))
    for label in ("exact mean", "exact median", "smoothed mean (200 draws)"):
        assert label in words(drawn("figure_1"))


@pytest.mark.parametrize("infinite", [["high"], ["value", "high"], ["value", "low", "high"]])
def test_an_infinite_end_is_written_and_explained_and_its_bar_reaches_the_edge(infinite: list[str]) -> None:
    quantities = quantity_table()
    of_median = quantities["quantity"] == "kl_exact_median"
    assert "∞" not in words(drawn("figure_1"))
    quantities.loc[of_median, infinite] = np.inf
    figure = figures_behaviour.figure_1(quantities, shift_table())
    lower = figure.axes[1]
    assert [text.get_text() for text in lower.texts] == ["∞", "∞"]
    assert "∞: no upper end, an option has probability 0 unprimed" in spread_out(words(figure))
    left, right = lower.get_xlim()
    assert np.isfinite([left, right]).all()
    assert np.isfinite(markers(lower)[:, 0]).sum() == (6 if infinite == ["high"] else 4)
    bars = [text for text in lower.texts if isinstance(text, Annotation)]
    ends = quantities[of_median & (quantities["temperature"] == 0.5) & (quantities["option_order"] == "both")]
    assert [bar.xy[0] for bar in bars] == ([] if "low" in infinite else pytest.approx(ends["low"].tolist()))
    for bar in bars:
        drawn_from, drawn_to = sorted(bar.arrow_patch.get_window_extent().intervalx)
        assert drawn_from == pytest.approx(lower.transData.transform((bar.xy[0], 0))[0], abs=3)
        assert drawn_to > lower.transAxes.transform((0.85, 0))[0]


# Figures 2 and 3


def test_figure_2_shows_the_partner_in_grey_where_the_table_has_it() -> None:
    upper, lower = drawn("figure_2").axes
    assert len(markers(upper)) == 9
    assert len(markers(lower)) == 6
    assert "partner" not in words(drawn("figure_2"))
    quantities = quantity_table()
    partner = quantities[quantities["quantity"] == "spearman"].assign(factor="partner")
    figure = figures_behaviour.figure_2(pd.concat([quantities, partner], ignore_index=True))
    grey = [
        c
        for c in figure.axes[0].collections
        if isinstance(c, PathCollection) and mpl.colors.to_hex(c.get_edgecolor()[0]).upper() == GREY
    ]
    drawn_partners = np.concatenate([np.asarray(c.get_offsets())[:, 0] for c in grey])
    assert sorted(drawn_partners) == pytest.approx(sorted(values(quantity="spearman", option_order="both")))
    assert "both orders, partner's rating (as released)" in words(figure)


def test_figure_3_shows_ratings_above_the_shuffle_and_says_so() -> None:
    upper, lower = drawn("figure_3").axes
    assert rows(upper) == list(figures_behaviour.INFORMATION)
    row = rows(upper).index("rating, 3 bins*")
    shown = markers(upper)
    excess = values(quantity="mutual_information_excess", factor="rating_3")
    assert sorted(shown[np.abs(shown[:, 1] - row) < 0.5, 0]) == pytest.approx(sorted(excess))
    assert "* observed minus that of ratings shuffled over roles" in spread_out(words(drawn("figure_3")))
    assert [text.get_text() for text in upper.texts] == ["not computed"]  # option order, which the table lacks
    assert rows(lower) == list(figures_behaviour.WITHIN_TEMPLATES)


# Invariance


def test_figure_invariance_shows_margin_verdicts_and_shares_at_that_margin() -> None:
    upper, lower = drawn("figure_invariance").axes
    assert [text.get_text() for text in upper.texts] == ["undecided"] * 2
    (band,) = [patch for patch in upper.patches if patch.get_x() == -0.2]
    assert band.get_width() == pytest.approx(0.4)
    keys = {"threshold": 0.2, "factor": "occupation"}
    for ax, quantity in ((upper, "equivalence"), (lower, "share_within_margin")):
        assert sorted(markers(ax)[:, 0]) == pytest.approx(sorted(values(quantity=quantity, **keys)))


# Contextuality


def test_figure_4_shows_every_order_and_shades_what_is_for_comparison() -> None:
    (ax,) = drawn("figure_4").axes
    assert rows(ax)[:3] == ["joint", "self-primed", "steered"]
    assert rows(ax)[3:] == ["released\n(comparison)", "printed\n(comparison)", "released, dC > 0\n(as published)"]
    shaded = sorted(patch.get_y() for patch in ax.patches if patch.get_height() == 1)
    assert shaded == [2.5, 3.5, 4.5]
    at = {"quantity": "contextual_share", "temperature": 0.5}
    expected = [
        values(**at, threshold=threshold, estimator=estimator, option_order=order)[0]
        for estimator, threshold in [*((name, 0.01) for name in ESTIMATORS), ("released", 0.0)]
        for order in ("mf", "fm", "union", "both")
    ]
    assert markers(ax)[:, 0] == pytest.approx(expected)
    assert "for comparison only" in spread_out(words(drawn("figure_4")))


def test_figure_4_rings_are_those_of_the_model_or_of_all_of_the_paper() -> None:
    alpha, phi = (drawn("figure_4", "alpha", LONG, "phi-4").axes[i] for i in (0, 2))
    assert sorted(markers(alpha, 14)[:, 0]) == pytest.approx([0.19, 0.317, 0.52])
    assert sorted(markers(phi, 14)[:, 0]) == pytest.approx([0.317, 0.52])
    # Like with like: a ring is in the row of the published formula and threshold, in the lane of its option order.
    lanes = markers(alpha)[-4:-1, 1]
    assert markers(alpha, 14)[:, 1] == pytest.approx([lanes[0], lanes[2], lanes[2]])
    assert rows(alpha)[round(lanes[1])] == "released, dC > 0\n(as published)"
    for phrase in ("reported in the paper", "a ring: a model of the paper, dC > 0", "as published: > 0"):
        assert phrase in spread_out(words(drawn("figure_4")))
    without = figures_contextuality.figure_4(quantity_table())
    assert len(markers(without.axes[0], 14)) == 0
    assert "reported" not in words(without)


def test_figure_4_counts_pairs_in_exactly_these_models() -> None:
    figure = drawn("figure_4", "alpha", LONG, "phi-4")
    bars, members = figure.axes[3:]
    assert [bar.get_height() for bar in bars.patches] == [5, 3]  # largest first, none of 0
    assert [len(line.get_ydata()) for line in members.lines] == [3, 1]
    assert rows(members)[0] == "alpha"
    assert "(b) joint, order averaged out, n = 12 pairs" in words(figure)


def test_figure_delta_c_shows_pairs_and_thresholds() -> None:
    (ax,) = drawn("figure_delta_c").axes
    points = markers(ax, 2.5)[:, 0]
    pairs = pair_table().query("option_order == 'both'")
    expected = pairs[["delta_c", "correlation_difference", "signalling"]].to_numpy().ravel()
    assert sorted(points) == pytest.approx(sorted(expected))
    assert len(markers(ax)) == 15
    upright = {line.get_xdata()[0] for line in ax.lines if line.get_xdata()[0] == line.get_xdata()[1]}
    assert upright >= {0.0, 0.01, 0.1}
    assert "lines: dC = 0, 0.01, 0.1" in spread_out(words(drawn("figure_delta_c")))


# Temperatures


@pytest.mark.parametrize(("name", "lines"), [("figure_s4", [3, 3, 2]), ("figure_s5", [5, 5])])
def test_lines_run_over_the_temperatures(name: str, lines: list[int]) -> None:
    axes = drawn(name).axes
    assert [sum(len(line.get_ydata()) == 2 for line in ax.lines) for ax in axes] == lines
    assert all([tick.get_text() for tick in ax.get_xticklabels()] == ["0.5", "1"] for ax in axes)
    assert "temperature" in words(drawn(name))


@pytest.mark.parametrize(("name", "models"), [("figure_s4", ("alpha",)), ("figure_s5", ("alpha", LONG, "phi-4"))])
def test_lines_of_equal_values_lie_side_by_side_at_the_nearest_temperature(name: str, models: tuple[str, ...]) -> None:
    for ax in drawn(name, *models).axes:
        lines = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 2]
        for place, temperature in enumerate(TEMPERATURES):
            x = np.sort([line[place] for line in lines])
            assert (np.abs(x - temperature) < 0.25).all()
            across = ax.transData.transform(np.column_stack([x, x]))[:, 0] / ax.figure.dpi * 72
            assert np.diff(across).min() > 3  # points: a marker


def test_a_single_temperature_has_lines_side_by_side_too() -> None:
    quantities = quantity_table()
    figure = figures_contextuality.figure_s5(quantities[quantities["temperature"] != 1.0])
    x = sorted(float(line.get_xdata()[0]) for line in figure.axes[0].lines)
    assert len(set(x)) == 5
    assert figure.axes[0].get_xlim()[0] < x[0] < x[-1] < figure.axes[0].get_xlim()[1]
