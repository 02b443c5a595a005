"""What a reader must find on the figures of a mechanism: every number where it belongs, units, n, what is missing.

Looks are judged by eye; here is what can be stated.
"""

from collections.abc import Iterator
from itertools import combinations
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
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from referent_probe.figures import BLUE, COLUMN, ORANGE, PAGE
from referent_probe.figures_circuit import circuit_checks
from referent_probe.figures_head_card import ALL, head_card
from referent_probe.figures_mechanism import ablation_effects, joint_shares, knockout_curve, sources
from referent_probe.figures_rows import LOOKS, estimates

CUTS = ("priming pronoun", "distance-matched token")
REASON = "the head is in the first layer"


@pytest.fixture(autouse=True)
def leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file is written, no style is changed, pyplot knows of no figure."""
    monkeypatch.chdir(tmp_path)
    before = dict(mpl.rcParams)
    yield
    assert list(tmp_path.iterdir()) == []
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def measured(table: pd.DataFrame, name: str, seed: int = 0) -> pd.DataFrame:
    """The table with a mean that is different in every row, and an interval about it that is not symmetric."""
    mean = np.random.default_rng(seed).permutation(np.linspace(-0.3, 1.1, len(table)))
    return table.assign(**{f"{name}_mean": mean, f"{name}_low": mean - 0.1, f"{name}_high": mean + 0.2}, n=20)


def grid(**values: Any) -> pd.DataFrame:
    return pd.MultiIndex.from_product(values.values(), names=list(values)).to_frame(index=False)


def cuts(total: float = 1.25, windows: tuple[int, ...] = (3,)) -> pd.DataFrame:
    table = grid(window=windows, label=CUTS, layer=range(5))
    return measured(table.assign(last_layer=table["layer"] + table["window"] - 1, total=total), "remaining")


def together(ks: tuple[int, ...] = (1, 2, 5)) -> pd.DataFrame:
    table = grid(direction=("noise", "denoise"), k=ks).assign(n=10)
    share, added = np.linspace(0.1, 0.8, len(table)), np.linspace(0.3, 1.4, len(table))
    table = table.assign(share=share, share_low=share - 0.1, share_high=share + 0.2)
    return table.assign(sum_of_singles=added, sum_low=added - 0.05, sum_high=added + 0.15)


def ablated(kinds: tuple[str, ...] = ("zero", "mean", "resample", "unprimed"), total: float = 1.25) -> pd.DataFrame:
    return measured(grid(label=("26.0", "all carriers"), kind=kinds).assign(total=total), "remaining")


def read() -> pd.DataFrame:
    table = measured(grid(layer=[7, 3], head=[2, 0], span=("priming_pronoun", "blank", "target_slot")), "attribution")
    sums = table.groupby(["layer", "head"])["attribution_mean"].transform("sum")
    return table.assign(direct_logit_attribution_mean=sums)


def checks(n_heads: int = 3) -> pd.DataFrame:
    faithful = pd.DataFrame({"check": "faithfulness", "size": [8, 1, 3]})
    faithful = measured(faithful, "circuit").assign(model_mean=1.2, model_low=1.1, model_high=1.4)
    complete = pd.DataFrame({"check": "completeness", "label": ["random", "random", "greedy"]})
    complete = measured(measured(complete, "circuit", 1), "model", 2)
    minimal = pd.DataFrame({"check": "minimality", "label": [f"{head}.0" for head in range(n_heads)]})
    return pd.concat([faithful, complete, measured(minimal, "change")], ignore_index=True)


def card() -> dict[str, pd.DataFrame]:
    spans = ("priming_pronoun", "prime_after_pronoun", "blank", "target_slot")
    attention = grid(setting=("c0", "cf", "cm"), span=spans).iloc[2:].reset_index(drop=True)  # c0 has no prime
    scores = pd.DataFrame({"score": ["copying score", "previous-token score"], "range": ["0 to 1", "-1 to 1"]})
    return {
        "effects": measured(pd.DataFrame({"direction": ["denoise", "noise"], "total": 1.25}), "effect"),
        "ablations": measured(pd.DataFrame({"kind": ["unprimed", "zero"], "total": 1.25}), "remaining"),
        "attention": attention.assign(attention_mean=np.linspace(0.05, 0.9, len(attention))),
        "attribution": measured(pd.DataFrame({"source": [ALL, *spans]}), "attribution"),
        "senders": measured(
            pd.DataFrame({"sender": ["4.1", "2.0", "MLP 3", "1.1"], "through": ["v", "q", "v", "q"]}), "effect"
        ),
        "scores": measured(scores, "score"),
    }


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


def line(ax: Axes, label: str) -> Line2D:
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return found


def markers(ax: Axes, label: str | None = None) -> NDArray[np.float64]:
    """x and y of the markers, of one label or of all."""
    found = [c for c in ax.collections if isinstance(c, PathCollection) and label in (None, c.get_label())]
    return np.concatenate([np.asarray(one.get_offsets(), dtype=float) for one in found])


def intervals(ax: Axes) -> list[tuple[float, float, float]]:
    """Low, high and height of the lying bars, from the top."""
    parts = [c.get_segments() for c in ax.collections if isinstance(c, LineCollection)]
    segments = [np.asarray(one) for part in parts for one in part if len(one)]
    return sorted(((s[0, 0], s[1, 0], s[0, 1]) for s in segments), key=lambda s: s[2])


def names(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def seen(figure: Figure) -> list[Text]:
    """Texts that are drawn, those aslant left out: their boxes are larger than they are."""
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for part in figure.findobj(lambda artist: hasattr(artist, "suptitle") and artist is not figure):
        texts += [*part.texts, *(text for legend in part.legends for text in legend.get_texts())]
    for ax in figure.axes:
        texts += [*ax.texts, ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
            texts += [label for at, label in ticks if axis.get_visible() and min(limits) <= at <= max(limits)]
    return [text for text in texts if text.get_text().strip() and text.get_visible() and text.get_rotation() in (0, 90)]


def all_figures() -> dict[str, Figure]:
    gaps = card() | {"senders": pd.DataFrame({"reason": [REASON]})}
    del gaps["attention"]
    return {
        "knockout_curve": knockout_curve(cuts()),
        "knockout_curve, long": knockout_curve(
            pd.concat([cuts(-0.012, (1, 5)).replace(CUTS[0], f"cut {i}, with a long name") for i in range(5)])
        ),
        "joint_shares": joint_shares(together()),
        "joint_shares, long": joint_shares(together(tuple(range(1, 200, 7)))),
        "ablation_effects": ablation_effects(ablated()),
        "ablation_effects, long": ablation_effects(ablated().replace("26.0", "three random heads of the same layers")),
        "sources": sources(read()),
        "circuit_checks": circuit_checks(checks()),
        "circuit_checks, long": circuit_checks(checks(50)),
        "head_card": head_card(card(), "tiny, head 26.0"),
        "head_card, gaps": head_card(gaps, "tiny, head 26.0"),
    }


def empty_figures() -> dict[str, Figure]:
    return {
        "knockout_curve": knockout_curve(cuts().iloc[:0]),
        "joint_shares": joint_shares(together().iloc[:0]),
        "ablation_effects": ablation_effects(ablated().iloc[:0]),
        "sources": sources(read().iloc[:0]),
        "circuit_checks": circuit_checks(checks().iloc[:0]),
        "head_card": head_card({}, "tiny, head 26.0"),
    }


# Every figure


def test_every_figure_names_its_unit_and_its_n_and_keeps_its_texts_apart_and_on_the_page() -> None:
    for name, figure in all_figures().items():
        text = words(figure)
        assert "logits" in text or "share of the total effect" in text, name
        assert "occupations" in text, name
        assert figure.get_figwidth() in (COLUMN, PAGE), name
        box = figure.get_tightbbox()
        assert min(box.x0, box.y0) >= 0, name
        assert box.x1 <= figure.get_figwidth(), name
        assert box.y1 <= figure.get_figheight(), name
        boxes = [(text.get_text(), text.get_window_extent().padded(-1)) for text in seen(figure)]
        assert [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)] == [], name


def test_an_empty_table_says_that_nothing_was_computed() -> None:
    for name, figure in empty_figures().items():
        assert "not computed" in words(figure), name
        assert "nan" not in words(figure), name


def test_tables_are_left_as_they_were() -> None:
    draw = ((knockout_curve, cuts), (joint_shares, together), (ablation_effects, ablated), (sources, read))
    for function, make in (*draw, (circuit_checks, checks)):
        table = make()
        function(table)
        pd.testing.assert_frame_equal(table, make())
    tables = card()
    head_card(tables, "tiny, head 26.0")
    for name, table in tables.items():
        pd.testing.assert_frame_equal(table, card()[name])


# Knockout curve


def test_knockout_curve_draws_a_line_and_a_band_per_cut_and_the_total() -> None:
    table = cuts()
    figure = knockout_curve(table.sample(frac=1, random_state=0).sort_values("label", ascending=False, kind="stable"))
    ax = figure.axes[0]
    bands = [np.asarray(c.get_paths()[0].vertices) for c in ax.collections]
    for label, color, band in zip(CUTS, (BLUE, ORANGE), bands, strict=True):
        its = table[table["label"] == label]
        assert line(ax, label).get_xydata() == pytest.approx(its[["layer", "remaining_mean"]].to_numpy())
        assert line(ax, label).get_color() == color
        for layer, low, high in its[["layer", "remaining_low", "remaining_high"]].to_numpy():
            at = band[band[:, 0] == layer, 1]
            assert (at.min(), at.max()) == pytest.approx((low, high))
    assert set(line(ax, "nothing cut").get_ydata()) == {1.25}
    assert any(set(one.get_ydata()) == {0} for one in ax.lines)
    assert ax.get_title() == "windows of 3 layers"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("first layer of the window", "remaining effect (logits)")
    assert "total effect 1.25 logits, n = 20 occupations" in words(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*CUTS, "nothing cut"]


@pytest.mark.parametrize("total", [1.25, -0.5])
def test_knockout_curve_has_the_share_of_the_total_on_the_right(total: float) -> None:
    ax, right = knockout_curve(cuts(total)).axes
    assert right.get_ylabel() == "share of the total effect"
    for share in (0, 1):
        height = ax.transData.transform((0, share * total))[1]
        assert right.transData.transform((0, share))[1] == pytest.approx(height)


def test_knockout_curve_gives_no_share_of_a_total_near_zero() -> None:
    (ax,) = knockout_curve(cuts(0.05)).axes
    assert ax.get_ylabel() == "remaining effect (logits)"


def test_knockout_curve_has_a_panel_per_size_of_window_and_leaves_gaps_where_nothing_is_known() -> None:
    table = cuts(windows=(1, 4))
    table.loc[2, ["remaining_mean", "remaining_low", "remaining_high"]] = np.nan
    one, four = knockout_curve(table).axes[:2]
    assert (one.get_title(), four.get_title()) == ("windows of 1 layer", "windows of 4 layers")
    assert np.isnan(line(one, CUTS[0]).get_ydata()).tolist() == [False, False, True, False, False]
    its = table[(table["window"] == 4) & (table["label"] == CUTS[1])]
    assert line(four, CUTS[1]).get_ydata() == pytest.approx(its["remaining_mean"].to_numpy())


# Joint shares


def test_joint_shares_draws_both_directions_with_their_intervals_and_the_sums() -> None:
    table = together()
    figure = joint_shares(table.sample(frac=1, random_state=1))
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["denoising\n(sufficient?)", "noising\n(necessary?)"]
    for ax, direction in zip(figure.axes, ("denoise", "noise"), strict=True):
        its = table[table["direction"] == direction]
        assert line(ax, "patched together").get_xydata() == pytest.approx(its[["k", "share"]].to_numpy())
        assert line(ax, "sum of single effects").get_xydata() == pytest.approx(its[["k", "sum_of_singles"]].to_numpy())
        (bars,) = [c for c in ax.collections if isinstance(c, LineCollection)]
        ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
        assert ends == its[["share_low", "share_high"]].to_numpy().tolist()
        assert ax.get_xlabel() == "heads patched, k"
        assert ax.get_xscale() == "linear"
    assert figure.axes[0].get_ylabel() == "share of the total effect"
    assert "n = 10 occupations" in words(figure)


def test_joint_shares_of_many_heads_have_a_logarithmic_axis_of_whole_numbers() -> None:
    ax = joint_shares(together((1, 4, 16, 64))).axes[0]
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "4", "16", "64"]
    assert joint_shares(together((0, 4, 64))).axes[0].get_xscale() == "linear"  # nothing patched has no logarithm


def test_joint_shares_says_why_a_direction_has_no_share() -> None:
    table = together().assign(reason=None)
    table.loc[table["direction"] == "denoise", ["share", "reason"]] = [np.nan, "the total effect is not told from 0"]
    left, right = joint_shares(table).axes
    assert "".join(text.get_text() for text in left.texts).replace("\n", " ") == "the total effect is not told from 0"
    assert len(left.lines) == 0
    assert len(line(right, "patched together").get_xdata()) == 3
    assert right.get_ylabel() == "share of the total effect"


# Ablation


def test_ablation_effects_draws_every_kind_with_its_interval_in_the_row_of_its_heads() -> None:
    table = ablated()
    figure = ablation_effects(table)
    (ax,) = figure.axes
    assert names(ax) == ["26.0", "all carriers"]
    labels = ["zero", "mean", "resample", "from the unprimed run"]
    for number, (kind, label) in enumerate(zip(table["kind"].unique(), labels, strict=True)):
        its = table[table["kind"] == kind]
        places = markers(ax, label)
        assert places[:, 0] == pytest.approx(its["remaining_mean"].to_numpy())
        assert np.round(places[:, 1]).tolist() == [0, 1]
        (points,) = [c for c in ax.collections if c.get_label() == label]
        assert mpl.colors.to_hex(points.get_facecolor()[0]).upper() == LOOKS[number][0]
    low, high, _ = zip(*intervals(ax), strict=True)
    assert low == pytest.approx(table["remaining_low"].to_numpy())  # rows of the table go from the top down as well
    assert high == pytest.approx(table["remaining_high"].to_numpy())
    assert set(line(ax, "nothing ablated").get_xdata()) == {1.25}
    assert ax.get_xlabel() == "remaining effect (logits)"
    assert "total effect 1.25 logits, n = 20 occupations" in words(figure)
    assert ax.get_ylim() == (1.5, -0.5)


def test_a_kind_of_ablation_looks_the_same_whatever_others_there_are() -> None:
    (ax,) = ablation_effects(ablated(("gaussian", "resample"))).axes
    for label, place in (("resample", 2), ("gaussian", 4)):
        (points,) = [c for c in ax.collections if c.get_label() == label]
        assert mpl.colors.to_hex(points.get_facecolor()[0]).upper() == LOOKS[place][0]


def test_ablation_effects_says_which_heads_have_no_number_and_needs_no_n() -> None:
    table = ablated().drop(columns="n")
    table.loc[table["label"] == "26.0", "remaining_mean"] = np.nan
    figure = ablation_effects(table)
    (ax,) = figure.axes
    (note,) = ax.texts
    assert (note.get_text(), note.get_position()[1]) == ("not computed", 0)
    assert {round(height) for _, _, height in intervals(ax)} == {1}
    assert "n =" not in words(figure)


# Sources


def test_sources_draws_every_head_and_span_and_prints_each_heads_direct_logit_attribution() -> None:
    table = read()
    figure = sources(table)
    ax, bar = figure.axes
    heads = ["7.2", "7.0", "3.2", "3.0"]
    assert names(ax) == heads
    assert ax.get_ylim() == (3.5, -0.5)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["priming pronoun", "blank", "target slot"]
    assert np.asarray(ax.images[0].get_array()) == pytest.approx(table["attribution_mean"].to_numpy().reshape(4, 3))
    low, high = ax.images[0].get_clim()
    assert low == -high == -table["attribution_mean"].abs().max()
    assert bar.get_ylabel() == "attribution (logits)"
    (right,) = ax.child_axes
    expected = table["direct_logit_attribution_mean"].iloc[::3]
    assert [float(name.replace("−", "-")) for name in names(right)] == pytest.approx(expected.to_list(), abs=0.005)
    assert "attribution at the target slot, n = 20 occupations" in words(figure)


def test_sources_prints_intervals_and_greys_what_was_not_computed() -> None:
    table = read().assign(direct_logit_attribution_low=-0.5, direct_logit_attribution_high=1.5)
    table.loc[1, "attribution_mean"] = np.nan
    figure = sources(table.drop(index=5))
    ax = figure.axes[0]
    assert np.argwhere(np.ma.getmaskarray(ax.images[0].get_array())).tolist() == [[0, 1], [1, 2]]
    assert "grey: not computed" in ax.get_xlabel()
    assert all("[−0.50, 1.50]" in name for name in names(ax.child_axes[0]))


@pytest.mark.parametrize(
    ("largest", "text"), [(12.0, "12.00"), (0.25, "0.25"), (0.025, "0.025"), (0.0025, "0.0025"), (0.0, "0.00")]
)
def test_small_numbers_are_printed_with_two_digits(largest: float, text: str) -> None:
    assert estimates(pd.DataFrame({"effect_mean": [largest, np.nan]}), "effect") == [text, "not computed"]


# Circuit


def test_circuit_checks_draws_faithfulness_against_size() -> None:
    table = checks()
    ax = circuit_checks(table).axes[0]
    its = table[table["check"] == "faithfulness"].sort_values("size")
    assert line(ax, "circuit, F(C)").get_xydata() == pytest.approx(its[["size", "circuit_mean"]].to_numpy())
    assert set(line(ax, "whole model, F(M)").get_ydata()) == {1.2}
    (band,) = ax.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((1.1, 1.4))
    (bars,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    assert ends == its[["circuit_low", "circuit_high"]].to_numpy().tolist()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("heads in the circuit", "effect (logits)")


def test_circuit_checks_draws_completeness_about_the_diagonal() -> None:
    table = checks()
    ax = circuit_checks(table).axes[1]
    its = table[table["check"] == "completeness"].set_index("label")
    for label, color in (("random", BLUE), ("greedy", ORANGE)):
        expected = its.loc[[label], ["model_mean", "circuit_mean"]].to_numpy(dtype=float)
        assert markers(ax, f"K: {label}") == pytest.approx(expected)
        (points,) = [c for c in ax.collections if c.get_label() == f"K: {label}"]
        assert mpl.colors.to_hex(points.get_facecolor()[0]).upper() == color
    diagonal = ax.lines[0]
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == list(ax.get_xlim()) == list(ax.get_ylim())
    assert ax.get_xlim()[0] <= its[["model_low", "circuit_low"]].min(axis=None)
    assert ax.get_xlim()[1] >= its[["model_high", "circuit_high"]].max(axis=None)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("F(M without K) (logits)", "F(C without K) (logits)")


def test_circuit_checks_draws_minimality_as_a_bar_per_head() -> None:
    table = checks(14)
    ax = circuit_checks(table).axes[2]
    its = table[table["check"] == "minimality"]
    assert names(ax) == its["label"].to_list()
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(its["change_mean"].to_list())
    assert intervals(ax) == [
        pytest.approx((low, high, row)) for row, (low, high) in enumerate(its[["change_low", "change_high"]].to_numpy())
    ]
    assert "(logits)" in ax.get_xlabel()


def test_circuit_checks_says_what_was_not_computed_and_refuses_an_unknown_check() -> None:
    missing = pd.DataFrame({"check": ["minimality"], "reason": ["the circuit has one head"]})
    table = pd.concat([checks()[lambda t: t["check"] == "faithfulness"], missing])
    faithful, complete, minimal = circuit_checks(table).axes
    assert len(faithful.texts) == 0
    assert [text.get_text() for text in complete.texts] == ["not computed"]
    assert [text.get_text() for text in minimal.texts] == ["the circuit has one head"]
    with pytest.raises(ValueError, match="sparsity"):
        circuit_checks(checks().assign(check="sparsity"))


# Head card


def test_head_card_draws_effects_and_ablations_with_the_total() -> None:
    tables = card()
    effects, ablations = head_card(tables, "tiny, head 26.0").axes[:2]
    assert names(effects) == ["denoising", "noising"]
    assert names(ablations) == ["zero", "from the unprimed run"]  # the order of every figure
    for ax, name, table in (
        (effects, "effect", tables["effects"]),
        (ablations, "remaining", tables["ablations"].iloc[::-1]),
    ):
        columns = [f"{name}_{part}" for part in ("mean", "low", "high")]
        for row, (mean, low, high) in enumerate(table[columns].to_numpy()):
            assert [mean, row] in markers(ax).tolist()
            assert intervals(ax)[row] == pytest.approx((low, high, row))
        assert {x for one in ax.lines for x in one.get_xdata()} == {0, 1.25}
        assert "effect (logits)" in ax.get_xlabel()


def test_head_card_shows_attention_by_span_and_setting_and_prints_it() -> None:
    tables = card()
    ax = head_card(tables, "tiny, head 26.0").axes[2]
    shown = np.ma.filled(ax.images[0].get_array(), np.nan)
    attention = tables["attention"].set_index(["span", "setting"])["attention_mean"]
    spans = ["priming_pronoun", "prime_after_pronoun", "blank", "target_slot"]  # the order of the prompt with a prime
    for (row, span), (column, setting) in ((r, c) for r in enumerate(spans) for c in enumerate(("c0", "cf", "cm"))):
        value = attention.get((span, setting), np.nan)
        assert shown[row, column] == pytest.approx(value, nan_ok=True)
        printed = [text.get_text() for text in ax.texts if text.get_position() == (column, row)]
        assert printed == ([] if np.isnan(value) else [f"{value:.2f}"])
    assert names(ax) == ["priming pronoun", "prime after pronoun", "blank", "target slot", "all"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["no prime\nc0", "feminine\ncf", "masculine\ncm"]
    assert ax.get_xlabel() == "share of attention; grey: no value"


def test_head_card_draws_attribution_in_the_same_rows_and_the_whole_below() -> None:
    tables = card()
    attention, ax = head_card(tables, "tiny, head 26.0").axes[2:4]
    assert names(ax) == names(attention)
    assert ax.get_ylim() == attention.get_ylim()
    table = tables["attribution"].iloc[[1, 2, 3, 4, 0]]
    bars = sorted(ax.patches, key=lambda bar: bar.get_y())
    assert [bar.get_width() for bar in bars] == pytest.approx(table["attribution_mean"].to_list())
    assert [low for low, _, _ in intervals(ax)] == pytest.approx(table["attribution_low"].to_list())
    assert any(set(one.get_ydata()) == {3.5} for one in ax.lines)  # between the spans and the whole


def test_head_card_draws_senders_under_the_input_that_they_reach_the_head_through() -> None:
    tables = card()
    ax = head_card(tables, "tiny, head 26.0").axes[4]
    assert names(ax) == ["through queries", "2.0", "1.1", "through values", "4.1", "MLP 3"]
    rows = {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in ax.patches}
    means = tables["senders"]["effect_mean"]
    assert rows == pytest.approx({1: means[1], 2: means[3], 4: means[0], 5: means[2]})
    assert [label.get_fontstyle() for label in ax.get_yticklabels()][:2] == ["italic", "normal"]


def test_head_card_prints_scores_with_interval_and_range() -> None:
    ax = head_card(card(), "tiny, head 26.0").axes[5]
    assert names(ax) == ["copying score", "previous-token score"]
    printed = [text.get_text() for text in ax.texts]
    assert printed == ["−0.30 [−0.40, −0.10]", "range 0 to 1", "1.10 [1.00, 1.30]", "range −1 to 1"]


def test_head_card_leaves_a_panel_out_and_says_why() -> None:
    tables = card() | {"senders": pd.DataFrame({"reason": [REASON]})}
    del tables["attention"], tables["scores"]
    figure = head_card(tables, "tiny, head 26.0")
    texts = [[text.get_text().replace("\n", " ") for text in ax.texts] for ax in figure.axes]
    assert texts == [[], [], ["not computed"], [], [REASON], ["not computed"]]
    assert names(figure.axes[3])[0] == "priming pronoun"
    with pytest.raises(ValueError, match="sender"):
        head_card({"sender": tables["senders"]}, "tiny, head 26.0")
