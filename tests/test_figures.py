"""What a reader must find on every figure: axes, units and n, a colour scale centred at zero, every row of the table.

Looks are judged by eye; here is what can be stated.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from numpy.typing import NDArray

from referent_probe import figures, figures_names
from referent_probe.analysis.inference import Interval

TOTAL = Interval(-1.312, -1.77, -0.84, n=20, unit="logits")


@pytest.fixture(autouse=True)
def leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file is written, no style is changed, pyplot knows of no figure."""
    monkeypatch.chdir(tmp_path)
    before = dict(mpl.rcParams)
    yield
    assert list(tmp_path.iterdir()) == []
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def head_table(n_layers: int = 4, n_heads: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    heads = pd.DataFrame(
        [(layer, head) for layer in range(n_layers) for head in range(n_heads)], columns=["layer", "head"]
    )
    for column in ("denoise_mean", "noise_mean", "prime_attribution_mean", "direct_logit_attribution_mean"):
        heads[column] = rng.normal(size=len(heads)) / 10
    return heads.assign(attention_to_prime_mean=rng.uniform(size=len(heads)), carrier="none")


def flow_table(n_layers: int = 4, total: float = 2.0) -> pd.DataFrame:
    spans = ["priming_pronoun", "prime_after_pronoun", "blank", "target_slot"]
    flow = pd.DataFrame([(layer, span) for layer in range(n_layers) for span in spans], columns=["layer", "span"])
    effects = np.linspace(-0.2, 1.0, len(flow)) * total
    return flow.assign(effect_mean=effects, total_mean=total, n_contrasts=32)


def contrast_table(n_pairs: int = 3) -> pd.DataFrame:
    rows = [
        (f"{pair:03d}", "nurse", "accusative", order, 10 * pair + member + (order == "fm"))
        for pair in range(n_pairs)
        for member in (0, 1)
        for order in ("mf", "fm")
    ]
    return pd.DataFrame(rows, columns=["pair", "occupation", "case", "option_order", "total_effect"]).astype(
        {"total_effect": float}
    )


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


def cells(figure: Figure, panel: int = 0) -> NDArray[np.float64]:
    """Values of an image, nan where the cell is grey."""
    return np.ma.filled(figure.axes[panel].images[0].get_array(), np.nan)


def seen_ticks(ax: Axes) -> list[str]:
    low, high = ax.get_xlim()
    places = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    return [label.get_text() for place, label in places if low <= place <= high]


def outlined(figure: Figure, panel: int) -> set[tuple[float, float]]:
    """(layer, head) of the outlined cells."""
    patches = [patch for patch in figure.axes[panel].patches if isinstance(patch, Rectangle)]
    return {(patch.get_y() + 0.5, patch.get_x() + 0.5) for patch in patches}


def all_figures() -> dict[str, Figure]:
    return {
        "head_map": figures.head_map(head_table(), TOTAL),
        "flow_map": figures.flow_map(flow_table()),
        "attention_by_layer": figures.attention_by_layer(head_table()),
        "pair_effects": figures.pair_effects(contrast_table()),
    }


# Every figure


def test_every_figure_names_its_unit_and_its_n_and_fits_the_column() -> None:
    for name, figure in all_figures().items():
        assert "logits" in words(figure), name
        assert re.search(r"n = \d+ \w+", words(figure)), name
        assert figure.get_figwidth() == figures.COLUMN, name


def test_no_text_leaves_the_page() -> None:
    small = Interval(-0.001312, -0.00177, -0.00084, n=20, unit="logits")  # its numbers are long
    carriers = head_table(30, 9).assign(carrier="both")
    drawn = all_figures() | {
        "head_map, long": figures.head_map(carriers, small),
        "flow_map, long": figures.flow_map(flow_table(30, total=-0.01)),
        "attention_by_layer, long": figures.attention_by_layer(carriers),
        "pair_effects, long": figures.pair_effects(contrast_table().assign(occupation="administrator")),
    }
    for name, figure in drawn.items():
        box = figure.get_tightbbox()
        assert box.x0 >= 0, name
        assert box.y0 >= 0, name
        assert box.x1 <= figure.get_figwidth(), name
        assert box.y1 <= figure.get_figheight(), name


def test_tables_are_left_as_they_were() -> None:
    heads, flow, contrasts = head_table(), flow_table(), contrast_table()
    figures.head_map(heads, TOTAL)
    figures.attention_by_layer(heads)
    figures.flow_map(flow)
    figures.pair_effects(contrasts)
    pd.testing.assert_frame_equal(heads, head_table())
    pd.testing.assert_frame_equal(flow, flow_table())
    pd.testing.assert_frame_equal(contrasts, contrast_table())


def test_figures_save_as_png_and_pdf(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("saved")
    for name, figure in all_figures().items():
        figure.savefig(folder / f"{name}.png")
        figure.savefig(folder / f"{name}.pdf")
    assert len(list(folder.iterdir())) == 8


# Head map


def test_head_map_shows_every_head_in_both_directions_on_one_symmetric_scale() -> None:
    heads = head_table()
    figure = figures.head_map(heads.sample(frac=1, random_state=0), TOTAL)
    for panel, column in enumerate(["denoise_mean", "noise_mean"]):
        assert cells(figure, panel) == pytest.approx(heads[column].to_numpy().reshape(4, 3))
        low, high = figure.axes[panel].images[0].get_clim()
        assert low == -high
        assert high == heads[["denoise_mean", "noise_mean"]].abs().to_numpy().max()
        assert figure.axes[panel].get_xlabel() == "head"
    assert figure.axes[0].get_ylabel() == "layer"
    assert figure.axes[2].get_ylabel() == "effect on the log-odds (logits)"
    assert "total effect −1.31 [−1.77, −0.84] logits\nn = 20 occupations; no head is a carrier" in words(figure)


def test_head_map_outlines_the_carriers_of_each_direction() -> None:
    heads = head_table()
    heads.loc[[1, 5, 10], "carrier"] = ["denoise", "noise", "both"]
    figure = figures.head_map(heads, TOTAL)
    assert outlined(figure, 0) == {(0, 1), (3, 1)}
    assert outlined(figure, 1) == {(1, 2), (3, 1)}
    assert "3 carriers outlined" in words(figure)
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["0.1", "3.1"]


def test_head_map_says_when_no_head_is_a_carrier() -> None:
    figure = figures.head_map(head_table(), TOTAL)
    assert outlined(figure, 0) == set()
    assert "no head is a carrier" in words(figure)


def test_head_map_greys_what_was_not_computed() -> None:
    heads = head_table()
    heads.loc[2, "noise_mean"] = np.nan
    figure = figures.head_map(heads.drop(index=4), TOTAL)
    assert np.argwhere(np.isnan(cells(figure, 0))).tolist() == [[1, 1]]
    assert np.argwhere(np.isnan(cells(figure, 1))).tolist() == [[0, 2], [1, 1]]
    assert "grey: not computed" in words(figure)


def test_head_map_of_one_head_of_zeros_and_of_nothing_computed() -> None:
    for value in (0.0, np.nan):
        heads = head_table(1, 1).assign(denoise_mean=value, noise_mean=value)
        assert figures.head_map(heads, TOTAL).axes[0].images[0].get_clim() == (-1, 1)


def test_head_map_grows_with_the_heads_up_to_a_page() -> None:
    assert figures.head_map(head_table(2, 64), TOTAL).get_figwidth() == figures.PAGE


# Flow map


def test_flow_map_shows_shares_of_the_total_in_the_order_of_the_prompt() -> None:
    flow = flow_table()
    figure = figures.flow_map(flow)
    ax, bar = figure.axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["priming pronoun", "prime after pronoun", "blank", "target slot"]
    assert ax.yaxis_inverted()  # the first span is on top
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == ["bold", "normal", "bold", "bold"]
    assert cells(figure) == pytest.approx((flow["effect_mean"] / 2).to_numpy().reshape(4, 4).T)
    assert ax.images[0].get_clim() == (-1, 1)
    assert ax.get_xlabel() == "layer whose input is patched"
    assert bar.get_ylabel() == "share of the total effect"
    assert "total effect 2.00 logits, n = 32 contrasts" in words(figure)


def test_flow_map_of_a_negative_total_shows_what_goes_along_with_it_as_positive() -> None:
    assert cells(figures.flow_map(flow_table(total=-2.0))) == pytest.approx(cells(figures.flow_map(flow_table())))


def test_flow_map_does_not_divide_by_a_total_near_zero() -> None:
    flow = flow_table(total=0.05)
    figure = figures.flow_map(flow)
    assert cells(figure).max() == pytest.approx(0.05)
    assert figure.axes[1].get_ylabel() == "effect (logits)"
    assert "too small a total to divide by" in words(figure)


def test_flow_map_tolerates_nan_and_one_layer() -> None:
    flow = flow_table(1)
    flow.loc[0, "effect_mean"] = np.nan
    figure = figures.flow_map(flow)
    assert np.isnan(cells(figure)).tolist() == [[True], [False], [False], [False]]
    assert figure.axes[0].get_xlabel() == "layer whose input is patched\n(grey: not computed)"
    assert seen_ticks(figure.axes[0]) == ["0"]


# Attention by layer


def test_attention_by_layer_draws_and_names_heads() -> None:
    heads = head_table()
    heads.loc[[1, 5], "carrier"] = ["denoise", "both"]
    figure = figures.attention_by_layer(heads, n_named=1)
    upper, lower = figure.axes
    assert upper.get_ylabel() == "attention (0 to 1)"
    assert (lower.get_xlabel(), lower.get_ylabel()) == ("layer", "attribution (logits)")
    assert lower.get_title() == "direct logit attribution via the priming pronoun"
    assert "10 other heads" in words(figure)
    assert "2 carriers" in words(figure)
    for ax, column in ((upper, "attention_to_prime_mean"), (lower, "prime_attribution_mean")):
        others, carriers = (np.asarray(c.get_offsets()) for c in ax.collections if isinstance(c, PathCollection))
        assert carriers == pytest.approx(heads.loc[[1, 5], ["layer", column]].to_numpy())
        assert len(others) == 10
        largest = heads.loc[heads[column].abs().idxmax()]
        expected = {"0.1", "1.2", f"{largest['layer']}.{largest['head']}"}
        assert {text.get_text() for text in ax.texts} == expected


def test_names_do_not_overlap_where_there_is_room() -> None:
    heads = head_table(12, 2).assign(carrier="none", prime_attribution_mean=0.0)
    heads.loc[[6, 8, 10], "carrier"], heads.loc[[6, 8, 10], "prime_attribution_mean"] = "both", 1.0
    boxes = [text.get_window_extent() for text in figures.attention_by_layer(heads, n_named=0).axes[1].texts]
    assert len(boxes) == 3
    assert sum(box.count_overlaps(boxes) for box in boxes) == 3  # each overlaps itself alone


def test_attention_by_layer_names_no_more_heads_than_can_be_read() -> None:
    figure = figures.attention_by_layer(head_table(8, 8).assign(carrier="both"))
    assert [len(ax.texts) for ax in figure.axes] == [figures_names.MOST_NAMED] * 2


def test_attention_by_layer_tolerates_nan_and_one_head() -> None:
    heads = head_table()
    heads.loc[3, "prime_attribution_mean"] = np.nan
    heads.loc[3, "carrier"] = "both"
    assert "1.0" not in {text.get_text() for text in figures.attention_by_layer(heads).axes[1].texts}
    one = figures.attention_by_layer(
        head_table(1, 1).assign(attention_to_prime_mean=np.nan, prime_attribution_mean=0.0)
    )
    assert seen_ticks(one.axes[1]) == ["0"]


# Pair effects


def test_pair_effects_has_a_sorted_row_for_each_pair() -> None:
    contrasts = contrast_table()
    contrasts["total_effect"] *= -1
    (ax,) = figures.pair_effects(contrasts).axes
    labels = [label.get_text() for label in ax.get_yticklabels()]  # upwards
    assert labels == ["nurse, acc. 002", "nurse, acc. 001", "nurse, acc. 000"]
    masculine_first, feminine_first, means = (np.asarray(c.get_offsets()) for c in ax.collections)
    assert masculine_first.tolist() == [[0, 2], [-1, 2], [-10, 1], [-11, 1], [-20, 0], [-21, 0]]
    assert feminine_first.tolist() == [[-1, 2], [-2, 2], [-11, 1], [-12, 1], [-21, 0], [-22, 0]]
    assert means.tolist() == [[-21, 0], [-11, 1], [-1, 2]]
    assert "effect on feminine log-odds (logits)" in ax.get_xlabel()


def test_pair_effects_explains_its_colours_and_counts() -> None:
    text = words(figures.pair_effects(contrast_table()))
    for phrase in ("masculine option first", "feminine option first", "mean of the pair", "n = 3 pairs, 12 contrasts"):
        assert phrase in text


def test_pair_effects_tolerates_nan_and_one_pair() -> None:
    contrasts = contrast_table(1)
    contrasts.loc[0, "total_effect"] = np.nan
    figure = figures.pair_effects(contrasts)
    assert "n = 1 pairs, 3 contrasts" in words(figure)


def test_pair_effects_of_many_pairs_drops_the_names_and_fits_a_page() -> None:
    figure = figures.pair_effects(contrast_table(180))
    assert figure.axes[0].get_ylabel() == "pairs, sorted by mean"
    assert figure.get_figheight() < 9
