"""What a reader must find on the figures of conflation: every number where it belongs, units, n, what is missing.

Looks are judged by eye; here is what can be stated.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import get_args

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.text import Text
from numpy.typing import NDArray

from referent_probe.analysis.conflation.carrier_sets import CarrierSets
from referent_probe.analysis.conflation.changes import split, transitions
from referent_probe.analysis.conflation.controls import RandomSets
from referent_probe.analysis.conflation.credit import Credit, Form
from referent_probe.analysis.conflation.head_map_agreement import MapAgreement
from referent_probe.analysis.conflation.pair_rows import CUTS, pair_rows
from referent_probe.analysis.conflation.states import State
from referent_probe.analysis.conflation.verdict import Flip, Verdict, verdict
from referent_probe.analysis.inference import Interval
from referent_probe.figures import BLUE, COLUMN, ORANGE, PAGE
from referent_probe.figures_conflation import STATES, effects_with_verdict, phi_bars
from referent_probe.figures_conflation_heads import binding_swap, difference_maps
from referent_probe.figures_conflation_pairs import cut_pair_by_pair, delta_c_split
from referent_probe.jobs.conflation_figures import delta_c_rows, difference_map_table

ROLES = [f"role {i:02d}" for i in range(12)]
DELTA = 0.5
FORMS: tuple[Form, ...] = get_args(Form)


@pytest.fixture(autouse=True)
def leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file is written, no style is changed, pyplot knows of no figure."""
    monkeypatch.chdir(tmp_path)
    before = dict(mpl.rcParams)
    yield
    assert list(tmp_path.iterdir()) == []
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def by_occupation() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    means = {"same": 2.0, "other": 1.5, "third": 0.1, "mention": 0.0}
    return pd.DataFrame({name: rng.normal(mean, 0.4, len(ROLES)) for name, mean in means.items()}, index=ROLES)


def judged(
    name: str = "conflating", grade: str | None = "partial", flips: tuple[Flip | None, Flip | None] = (None, None)
) -> Verdict:
    states: dict[str, State] = {"O": "P", "S": "P", "T": "Z", "D": "P", "S - O": "U", "M": "N"}
    intervals = {
        quantity: Interval(mean, mean - 0.1, mean + 0.2, len(ROLES), "logits")
        for quantity, mean in zip(states, (1.5, 2.0, 0.1, 1.4, 0.5, -0.3), strict=True)
    }
    return Verdict(name, grade, states, DELTA, intervals, "in words", flips)


def maps(n_layers: int = 3, n_heads: int = 4) -> pd.DataFrame:
    index = [("denoise", "noise"), range(n_layers), range(n_heads)]
    table = pd.MultiIndex.from_product(index, names=["direction", "layer", "head"]).to_frame(index=False)
    values = np.random.default_rng(1).permutation(np.linspace(-0.4, 0.9, 2 * len(table))).reshape(2, -1)
    table = table.assign(other_less_third=values[0], same_less_third=values[1], in_k=0.0, in_r=0.0, n=20)
    head = table["layer"] * n_heads + table["head"]
    table.loc[head == 1, "in_k"] = 1.0
    table.loc[head == 6, ["in_k", "in_r"]] = [0.25, 0.5]
    table.loc[head == 9, "in_r"] = 1.0
    return table


def agreement() -> list[MapAgreement]:
    return [
        MapAgreement("denoise", Interval(0.62, 0.5, 0.71, 20, "rho"), 0.85, 0.4, 0.75, 12),
        MapAgreement("noise", Interval(-0.22, -0.35, 0.01, 20, "rho"), 0.8, -0.1, 0.7, 12),
    ]


def templates(n: int = 12, m0: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    rows = []
    for i in range(n):
        for member, strength in ((1, 0.5), (2, 4.0)):
            for order in ("fm", "mf"):
                m, e = rng.normal(0.1, 0.3), strength + rng.normal(0, 0.2)
                row = {"pair": f"p{i}", "occupation": ROLES[i % len(ROLES)], "member": member, "option_order": order}
                row |= {"m": m, "e": e, "m_K": m + 0.2, "e_K": 0.1 * e, "m_R": m, "e_R": e, "m_KR": m - 0.3}
                rows.append(row | {"e_KR": 0.05 * e} | ({"m0": m + 0.1} if m0 else {}))
    return pd.DataFrame(rows)


def dc(n: int = 12, m0: bool = True) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    rows = templates(n, m0)
    pairs = pair_rows(rows)
    return delta_c_rows(rows), split(pairs, 0, n_resamples=99), transitions(pairs, 0, n_resamples=99)


def share(mean: float) -> Interval:
    return Interval(mean, mean - 0.1, mean + 0.05, 20, "share")


def credits(withheld: tuple[Form, ...] = ()) -> dict[Form, Credit]:
    forms: dict[Form, Credit] = {}
    for i, form in enumerate(FORMS):
        k, r = 0.6 + 0.05 * i, 0.2 - 0.1 * i
        parts = (share(k), share(r), share(1 - k - r))
        v = {cut: share(0.5) for cut in CUTS}
        reason = f"{7 + i} contextual pairs, under 20"
        forms[form] = Credit(form, 7 + i, {}, None, None, None, reason) if form in withheld else (
            Credit(form, 30 + i, v, *parts, None)
        )  # fmt: skip
    return forms


def sets(forms: tuple[Form, ...] = FORMS, matched: bool = True) -> RandomSets:
    table = pd.DataFrame({"set": ["a", "b", "c"], "removed": [0.1, 0.4, 0.42], "matched": [False, matched, matched]})
    for i, form in enumerate(forms):
        table[f"v_{form}"] = [0.05 + 0.1 * i, 0.2 + 0.1 * i, 0.3 + 0.1 * i]
    v: dict[Form, float] = {form: 0.5 + 0.1 * i for i, form in enumerate(forms)}
    p: dict[Form, float] = dict.fromkeys(forms, 0.25)
    return RandomSets("K", table, 0.4, v, p, dict.fromkeys(forms, 0.33) if matched else {})


def exchanged() -> pd.DataFrame:
    kinds = ("owner difference", "random direction")
    table = pd.MultiIndex.from_product([range(4), kinds], names=["layer", "kind"]).to_frame(index=False)
    mean = np.linspace(0.5, 1.9, len(table))
    table = table.assign(effect_mean=mean, effect_low=mean - 0.1, effect_high=mean + 0.2)
    return table.assign(other=0.75, same=1.75, n=20)


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


def flat(figure: Figure) -> str:
    return words(figure).replace("\n", " ").replace("\u00a0", " ")


def line(ax: Axes, label: str) -> Line2D:
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return found


def scatters(ax: Axes) -> list[NDArray[np.float64]]:
    found = [c for c in ax.collections if isinstance(c, PathCollection)]
    return [np.asarray(one.get_offsets(), dtype=float) for one in found]


def points(ax: Axes) -> set[tuple[float, float]]:
    return {(round(x, 9), round(y, 9)) for part in scatters(ax) for x, y in part.tolist()}


def segments(ax: Axes) -> list[NDArray[np.float64]]:
    parts = [c.get_segments() for c in ax.collections if isinstance(c, LineCollection)]
    return [np.asarray(one) for part in parts for one in part if len(one)]


def lying(ax: Axes) -> set[tuple[float, float, float]]:
    """Low, high and height of the lying intervals."""
    return {(round(s[0, 0], 9), round(s[1, 0], 9), round(s[0, 1], 9)) for s in segments(ax)}


def names(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def seen(figure: Figure) -> list[Text]:
    """Texts that are drawn."""
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for part in figure.findobj(lambda artist: hasattr(artist, "suptitle") and artist is not figure):
        texts += [*part.texts, *(text for legend in part.legends for text in legend.get_texts())]
    for ax in figure.axes:
        texts += [*ax.texts, ax.title, ax._left_title, ax._right_title, ax.xaxis.label, ax.yaxis.label]
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
            texts += [
                label
                for at, label in ticks
                if axis.get_visible() and label.get_visible() and min(limits) <= at <= max(limits)
            ]
    return [text for text in texts if text.get_text().strip() and text.get_visible()]


def all_figures() -> dict[str, Figure]:
    flips = (Flip(0.01, "insensitive"), Flip(2.27, "insensitive"))
    return {
        "effects": effects_with_verdict(
            by_occupation() * 10, judged("repeating", "with a faithful part, person level", flips)
        ),
        "maps, many heads": difference_maps(maps(30, 9), agreement()),
        "maps, more heads": difference_maps(maps(40, 40), agreement()),
        "maps, one direction": difference_maps(maps().query("direction == 'noise'"), agreement()[1:]),
        "cut": cut_pair_by_pair(templates()),
        "cut, small": cut_pair_by_pair(templates().assign(m=-0.01, m_K=-0.011, m_R=-0.01, m_KR=0.003)),
        "dC": delta_c_split(*dc()),
        "dC, steered": delta_c_split(*dc(m0=False)),
        "dC, many": delta_c_split(*dc(120)),
        "phi, unmatched": phi_bars(credits(), sets(matched=False)),
        "phi, withheld": phi_bars(credits(("self_primed", "steered")), sets(("strength",))),
        "swap": binding_swap(exchanged()),
    }


# Every figure


def test_every_figure_names_its_unit_and_its_n_and_keeps_its_texts_apart_and_on_the_page() -> None:
    for name, figure in all_figures().items():
        text = words(figure)
        assert any(unit in text for unit in ("logits", "share", "dC")), name
        assert "occupations" in text, name
        assert "nan" not in text, name
        assert COLUMN <= figure.get_figwidth() <= PAGE, name
        box = figure.get_tightbbox()
        assert min(box.x0, box.y0) >= 0, name
        assert box.x1 <= figure.get_figwidth(), name
        assert box.y1 <= figure.get_figheight() <= 10, name
        boxes = [(text.get_text(), text.get_window_extent().padded(-1)) for text in seen(figure)]
        assert [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)] == [], name


def test_what_has_no_numbers_says_so() -> None:
    figures = {
        "maps": difference_maps(maps().iloc[:0], []),
        "cut": cut_pair_by_pair(templates().iloc[:0]),
        "dC": delta_c_split(*(table.iloc[:0] for table in dc())),
        "phi": phi_bars({}),
        "swap": binding_swap(exchanged().iloc[:0]),
    }
    for name, figure in figures.items():
        assert "not computed" in words(figure), name
        assert "nan" not in words(figure), name


def test_tables_are_left_as_they_were() -> None:
    effects, heads, rows, swap, three = by_occupation(), maps(), templates(), exchanged(), dc()
    effects_with_verdict(effects, judged())
    difference_maps(heads, agreement())
    cut_pair_by_pair(rows)
    binding_swap(swap)
    delta_c_split(*three)
    random = sets()
    phi_bars(credits(), random)
    made = (by_occupation(), maps(), templates(), exchanged(), *dc(), sets().table)
    for given, again in zip((effects, heads, rows, swap, *three, random.table), made, strict=True):
        pd.testing.assert_frame_equal(given, again)


# Effects with verdict


def test_effects_are_drawn_with_their_intervals_occupations_margin_and_states() -> None:
    effects, found = by_occupation(), judged()
    figure = effects_with_verdict(effects, found)
    (ax,) = figure.axes
    assert [name[:5] for name in names(ax)] == ["S: ow", "O: ot", "T: th", "M: no", "O − T", "S − O"]
    quantities = ("S", "O", "T", "M", "D", "S - O")
    assert {(found.intervals[q].mean, row) for row, q in enumerate(quantities)} <= points(ax)
    assert lying(ax) == {
        (round(found.intervals[q].low, 9), round(found.intervals[q].high, 9), row) for row, q in enumerate(quantities)
    }
    single = [part for part in scatters(ax) if len(part) > 1]
    expected = [effects["same"], effects["other"], effects["third"], effects["mention"]]
    expected += [effects["other"] - effects["third"], effects["same"] - effects["other"]]
    for row, (dots, values) in enumerate(zip(single, expected, strict=True)):
        assert dots[:, 0] == pytest.approx(values.to_numpy())
        assert np.abs(dots[:, 1] - row).max() < 0.5
    (band,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert (band.get_x(), band.get_x() + band.get_width()) == (-DELTA, DELTA)
    (right,) = ax.child_axes
    assert names(right) == ["P", "P", "Z", "N", "P", "U"]
    assert all(f"{letter}: {text}" in flat(figure) for letter, text in STATES.items())
    assert set(STATES) == set(get_args(State))


def test_the_headline_is_the_verdict_with_margin_and_flips() -> None:
    text = flat(effects_with_verdict(by_occupation(), judged(flips=(Flip(0.1234, "undecided"), Flip(1.5, "mixed")))))
    assert "Verdict: conflating (partial)" in text
    assert "follows the other person's pronoun, and not a third person's" in text
    assert "margin ±0.50 logits (band), n = 12 occupations" in text
    assert "another verdict: margin ≤ 0.12 (undecided), > 1.50 (mixed)" in text
    assert "margin > 1.50 (mixed)" in flat(
        effects_with_verdict(by_occupation(), judged(flips=(None, Flip(1.5, "mixed"))))
    )
    plain = words(effects_with_verdict(by_occupation(), judged("faithful", None))).split("\n")
    assert "Verdict: faithful" in plain
    assert "the same with any margin of 0.01 to 10 logits" in plain


def test_a_prime_that_was_not_measured_is_named_so() -> None:
    effects = by_occupation().drop(columns="mention")
    figure = effects_with_verdict(effects, verdict(effects, seed=0, n_resamples=99))
    (ax,) = figure.axes
    (note,) = ax.texts
    assert (note.get_text(), note.get_position()[1]) == ("not measured", 3)
    assert {height for _, _, height in lying(ax)} == {0, 1, 2, 4, 5}
    assert "n = 12 occupations" in flat(figure)


# Head maps


def test_difference_maps_draws_both_maps_in_both_directions_on_one_scale() -> None:
    table = maps()
    figure = difference_maps(table.sample(frac=1, random_state=3), agreement())
    panels = [ax for ax in figure.axes if ax.images and ax.get_title()]
    assert [ax.get_title() for ax in panels] == ["other − third", "same − third"] * 2
    columns = ["other_less_third", "same_less_third"]
    limit = table[columns].abs().max().max()
    for ax, (direction, column) in zip(
        panels, [(d, c) for d in ("denoise", "noise") for c in columns], strict=True
    ):  # fmt: skip
        its = table[table["direction"] == direction].sort_values(["layer", "head"])
        assert np.asarray(ax.images[0].get_array()) == pytest.approx(its[column].to_numpy().reshape(3, 4))
        assert ax.images[0].get_clim() == (-limit, limit)
    bars = [ax.get_ylabel() for ax in figure.axes if ax not in panels]
    assert bars == ["difference (logits)"] * 2
    text = flat(figure)
    assert "n = 12 heads, 20 occupations" in text
    assert "Spearman ρ = 0.62 [0.50, 0.71], ceiling 0.85 across halves 0.40, ceiling 0.75" in text
    assert "Spearman ρ = −0.22 [−0.35, 0.01], ceiling 0.80 across halves −0.10, ceiling 0.70" in text


def test_difference_maps_outlines_carriers_by_kind_and_thinly_where_choices_disagree() -> None:
    figure = difference_maps(maps(), agreement())
    for ax in (ax for ax in figure.axes if ax.images and ax.get_title()):
        boxes = [(p.get_x() + 0.5, p.get_y() + 0.5, p.get_linewidth()) for p in ax.patches if isinstance(p, Rectangle)]
        rings = [(*p.get_center(), p.get_linewidth()) for p in ax.patches if isinstance(p, Ellipse)]
        assert {place[:2] for place in boxes} == {(1, 0), (2, 1)}
        assert {place[:2] for place in rings} == {(2, 1), (1, 2)}
        (whole_k, some_k), (some_r, whole_r) = (
            [width for *_, width in sorted(p, key=lambda x: x[1])] for p in (boxes, rings)
        )
        assert some_k == some_r < whole_k == whole_r
        assert {text.get_text() for text in ax.texts} == {"0.1", "1.2", "2.1"}
    text = flat(figure)
    assert "owner-specific, K: 1 + 1" in text
    assert "owner-blind, R: 1 + 1" in text
    assert "thin outline" in text
    whole = maps().replace({"in_k": {0.25: 0.0}, "in_r": {0.5: 0.0}})
    assert "thin" not in flat(difference_maps(whole, agreement()))


def test_difference_maps_greys_what_was_not_computed() -> None:
    table = maps()
    table.loc[5, "other_less_third"] = np.nan
    ax = difference_maps(table, agreement()).axes[0]
    assert np.argwhere(np.ma.getmaskarray(ax.images[0].get_array())).tolist() == [[1, 1]]
    assert "grey: not computed" in ax.get_xlabel()


def test_the_table_of_maps_is_the_mean_over_occupations_that_have_all_three() -> None:
    rows = [
        {"prime": prime, "occupation": role, "layer": layer, "head": 0, "denoise": value, "noise": 10 * value}
        for prime, value in (("other", 3.0), ("same", 5.0), ("third", 1.0))
        for role, value in (("cook", value), ("nurse", 2 * value), ("guard", 100.0))
        for layer in (0, 1)
        if (prime, role) != ("same", "guard")
    ]
    empty = pd.DataFrame()
    chosen = [CarrierSets(empty, k, ((0, 0),), 0.1, {}, None) for k in (((1, 0),), ())]
    table = difference_map_table(pd.DataFrame(rows), chosen)
    assert table.to_dict("list") == {
        "direction": ["denoise", "denoise", "noise", "noise"],
        "layer": [0, 1, 0, 1],
        "head": [0, 0, 0, 0],
        "other_less_third": [3.0, 3.0, 30.0, 30.0],
        "same_less_third": [6.0, 6.0, 60.0, 60.0],
        "in_k": [0.0, 0.5, 0.0, 0.5],
        "in_r": [1.0, 0.0, 1.0, 0.0],
        "n": [2, 2, 2, 2],
    }


# Cuts, pair by pair


def test_cuts_draw_every_template_after_against_before() -> None:
    rows = templates()
    figure = cut_pair_by_pair(rows)
    assert [ax.get_title() for ax in figure.axes] == ["K cut", "R cut", "K and R cut", "", "", ""]
    for ax, (name, cut) in zip(figure.axes, [(n, c) for n in ("e", "m") for c in CUTS], strict=True):
        for member, color, dots in zip((1, 2), (BLUE, ORANGE), scatters(ax), strict=True):
            its = rows[rows["member"] == member]
            assert dots == pytest.approx(its[[name, f"{name}_{cut}"]].to_numpy())
            (drawn,) = [c for c in ax.collections if len(c.get_offsets()) and np.array_equal(c.get_offsets(), dots)]
            assert mpl.colors.to_hex(drawn.get_facecolor()[0]).upper() == color
        assert ax.get_xlim() == ax.get_ylim()
        (diagonal,) = [one for one in ax.lines if list(one.get_xdata()) == list(one.get_ydata())]
        assert tuple(diagonal.get_xdata()) == ax.get_xlim()
        assert any(set(one.get_ydata()) == {0} for one in ax.lines)
        assert any(set(one.get_xdata()) == {0} for one in ax.lines)
        assert [text.get_text() for text in ax.texts] == (["nothing changes"] if cut == "R" else [])
        assert ax.get_xlabel() == f"{name} before (logits)"
    assert [ax.get_ylabel() for ax in figure.axes[::3]] == ["e after (logits)", "m after (logits)"]
    assert "n = 48, 12 pairs, 12 occupations" in flat(figure)


def test_a_cut_that_was_not_made_says_so() -> None:
    figure = cut_pair_by_pair(templates().assign(e_R=np.nan, m_R=np.nan))
    notes = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert notes == [[], ["not computed"], [], [], ["not computed"], []]
    assert figure.axes[1].get_title() == "R cut"


# dC


def test_delta_c_is_drawn_pair_by_pair_sorted_before_and_after() -> None:
    pairs, parts, changed = dc()
    figure = delta_c_split(pairs.sample(frac=1, random_state=4), parts, changed)
    titles = ["K cut", "R cut", "K and R cut", "mean change and its parts"] * 2
    assert [ax.get_title().split("\n")[0] for ax in figure.axes] == titles
    for number, reading in enumerate(("self_primed", "steered")):
        for ax, cut in zip(figure.axes[4 * number :], CUTS, strict=False):
            its = pairs[(pairs["reading"] == reading) & (pairs["cut"] == cut)].sort_values("before")
            before, after = scatters(ax)
            assert before[:, 1] == pytest.approx(its["before"].to_numpy())
            assert after[:, 1] == pytest.approx(its["after"].to_numpy())
            assert np.array([one[:, 1] for one in segments(ax)]) == pytest.approx(its[["before", "after"]].to_numpy())
            (limit,) = ax.lines
            assert set(limit.get_ydata()) == {0.01}
            stop = int(((its["before"] > 0.01) & (its["after"] <= 0.01)).sum())
            stay = int(((its["before"] > 0.01) & (its["after"] > 0.01)).sum())
            assert f"{stop} stop, " in ax.get_title()
            assert f"{stay} stay, " in ax.get_title()
    assert figure.axes[0].get_ylabel() == "self-primed dC"
    assert "n = 24, 12 pairs, 12 occupations" in flat(figure)


def test_the_change_is_stacked_from_its_parts_with_intervals() -> None:
    pairs, parts, changed = dc()
    parts = parts.assign(through_e=-0.4, through_e_low=-0.5, through_e_high=-0.35)
    parts = parts.assign(through_m=-0.1, through_m_low=-0.15, through_m_high=0.0)
    parts = parts.assign(change=-0.5, change_low=-0.6, change_high=-0.45)
    parts.loc[parts["cut"] == "KR", ["through_m", "change", "through_m_low", "through_m_high"]] = [0.1, -0.3, 0.05, 0.2]
    ax = delta_c_split(pairs, parts, changed).axes[3]
    cuts = ["K", "R", "K and R"]
    assert names(ax) == [f"contextual pairs (n = {parts['n_rows'].iloc[0]})", *cuts, "all pairs (n = 24)", *cuts]
    drawn = [
        (round(bar.get_y() + bar.get_height() / 2), round(bar.get_x(), 9), round(bar.get_width(), 9))
        for bar in ax.patches
        if isinstance(bar, Rectangle)
    ]
    for start in (0, 4):
        for row in (start + 1, start + 2):
            assert (row, 0, -0.4) in drawn
            assert (row, -0.4, -0.1) in drawn
            assert {(-0.5, -0.35, row - 0.22), (-0.55, -0.4, row + 0.22), (-0.6, -0.45, row)} <= lying(ax)
            assert (-0.5, row) in points(ax)
        row = start + 3
        assert (row, 0, -0.4) in drawn
        assert (row, 0, 0.1) in drawn  # a part of the other sign starts at zero
        assert (0.05, 0.2, row + 0.22) in lying(ax)
        assert (-0.3, row) in points(ax)


def test_a_reading_without_contextual_pairs_says_so() -> None:
    rows = templates().assign(e=0.2, e_K=0.1, e_R=0.2, e_KR=0.1)
    pairs = pair_rows(rows)
    parts, changed = split(pairs, 0, n_resamples=99), transitions(pairs, 0, n_resamples=99)
    ax = delta_c_split(delta_c_rows(rows), parts, changed).axes[3]
    assert [(text.get_text(), text.get_position()[1]) for text in ax.texts] == [
        ("no such pair", row) for row in (1, 2, 3)
    ]


def test_rows_of_delta_c_agree_with_the_split() -> None:
    pairs, parts, _ = dc()
    of_all = parts[parts["pairs"] == "all"].set_index(["reading", "cut"])["change"]
    means = pairs.assign(change=pairs["after"] - pairs["before"]).groupby(["reading", "cut"])["change"].mean()
    pd.testing.assert_series_equal(means, of_all.sort_index().rename("change"))
    assert set(dc(m0=False)[0]["reading"]) == {"steered"}


# Phi


def test_phi_bars_draws_three_shares_a_form_with_intervals() -> None:
    forms = credits()
    figure = phi_bars(forms)
    for ax, (form, one) in zip(figure.axes, forms.items(), strict=True):
        shares = [one.phi_k, one.phi_r, one.remainder]
        assert [bar.get_width() for bar in ax.patches] == pytest.approx([part.mean for part in shares if part])
        assert lying(ax) == {(round(p.low, 9), round(p.high, 9), row) for row, p in enumerate(shares) if p}
        assert names(ax) == ["on K, $\\phi_K$", "on R, $\\phi_R$", "on neither"]
        assert str(one.n_pairs) in ax.get_title(loc="left")
        assert (form == "strength") == ("strength" in ax.get_title(loc="left"))
        assert {x for one in ax.lines for x in one.get_xdata()} == {0, 1}
    assert figure.axes[-1].get_xlabel() == "share"
    assert "n = 20 occupations" in flat(figure)
    assert "random" not in flat(figure)


def test_phi_bars_gives_the_reason_of_a_form_that_is_withheld() -> None:
    forms = credits(("self_primed", "strength"))
    first, second, third = phi_bars(forms).axes
    for ax, form in ((first, "self_primed"), (third, "strength")):
        assert "".join(text.get_text() for text in ax.texts).replace("\n", " ") == f"withheld: {forms[form].reason}"
        assert len(ax.patches) == 0
    assert second.get_xlabel() == "share"
    assert any(label.get_visible() for label in second.get_xticklabels())


def test_phi_bars_sets_random_sets_beside_the_cut() -> None:
    random = sets()
    figure = phi_bars(credits(), random)
    for ax, form in zip(figure.axes, FORMS, strict=True):
        other, matched, of_cut = scatters(ax)[-3:]
        values = random.table.set_index("matched")[f"v_{form}"]
        assert other[:, 0] == pytest.approx([values[False]])
        assert matched[:, 0] == pytest.approx(values[True].to_numpy())
        assert of_cut.tolist() == [[random.v[form], 3]]
        assert names(ax)[-1] == "v(K), p = 0.33"
    assert "beside 3 random sets of heads, 2 of equal effect" in flat(figure)
    unmatched = phi_bars(credits(), sets(matched=False))
    assert names(unmatched.axes[0])[-1] == "v(K), p = 0.25 (all sets)"


# Binding swap


def test_binding_swap_draws_a_line_and_a_band_a_kind_between_both_effects() -> None:
    table = exchanged()
    figure = binding_swap(table.sample(frac=1, random_state=5).sort_values("kind", kind="stable"))
    (ax,) = figure.axes
    bands = [np.asarray(c.get_paths()[0].vertices) for c in ax.collections]
    for kind, band in zip(("owner difference", "random direction"), bands, strict=True):
        its = table[table["kind"] == kind]
        assert line(ax, f"{kind} exchanged").get_xydata() == pytest.approx(its[["layer", "effect_mean"]].to_numpy())
        for layer, low, high in its[["layer", "effect_low", "effect_high"]].to_numpy():
            at = band[band[:, 0] == layer, 1]
            assert (at.min(), at.max()) == pytest.approx((low, high))
    assert set(line(ax, "O: other referent's").get_ydata()) == {0.75}
    assert set(line(ax, "S: own referent's").get_ydata()) == {1.75}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("layer", "effect of the prime (logits)")
    assert "n = 20 occupations" in flat(figure)
