"""What a reader must find on attribution plots side by side: the same rows and colours, each model's own total."""

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from referent_probe import figures
from referent_probe.figures_flow import MOST_SHARE, flow_maps, in_order

SPANS = ("priming_pronoun", "prime_after_pronoun", "blank", "target_slot")


@pytest.fixture(autouse=True)
def leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file is written, no style is changed, pyplot knows of no figure."""
    monkeypatch.chdir(tmp_path)
    before = dict(mpl.rcParams)
    yield
    assert list(tmp_path.iterdir()) == []
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def flow_table(n_layers: int = 4, total: float = 2.0, spans: tuple[str, ...] = SPANS, n: int = 32) -> pd.DataFrame:
    flow = pd.DataFrame([(layer, span) for layer in range(n_layers) for span in spans], columns=["layer", "span"])
    return flow.assign(effect_mean=np.linspace(-0.2, 1.0, len(flow)) * total, total_mean=total, n_contrasts=n)


def shares(flow: pd.DataFrame) -> NDArray[np.float64]:
    """By hand: spans down, layers across."""
    n_spans = flow["span"].nunique()
    return (flow["effect_mean"] / flow["total_mean"]).to_numpy().reshape(-1, n_spans).T


def cells(figure: Figure, panel: int) -> NDArray[np.float64]:
    """Values of an image, nan where the cell is grey."""
    return np.ma.filled(figure.axes[panel].images[0].get_array(), np.nan)


def rows(figure: Figure, panel: int = 0) -> list[str]:
    return [label.get_text() for label in figure.axes[panel].get_yticklabels()]


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


def test_one_model_is_drawn_as_its_flow_map_is() -> None:
    flow = flow_table(total=-2.0).drop(index=5)
    figure, alone = flow_maps({"tiny": flow}), figures.flow_map(flow)
    assert cells(figure, 0) == pytest.approx(cells(alone, 0), nan_ok=True)
    assert figure.axes[0].images[0].get_clim() == alone.axes[0].images[0].get_clim()
    assert figure.axes[0].images[0].get_extent() == alone.axes[0].images[0].get_extent()
    assert rows(figure) == rows(alone)
    assert [label.get_fontweight() for label in figure.axes[0].get_yticklabels()] == ["bold", "normal", "bold", "bold"]
    assert figure.axes[1].get_ylabel() == alone.axes[1].get_ylabel() == "share of the total effect"
    assert "layer whose input is patched\n(grey: not computed)" in words(figure)
    assert figure.axes[0].get_title() == "tiny\ntotal −2.00 logits"
    assert "n = 32 contrasts" in words(figure)
    assert figure.get_figwidth() == alone.get_figwidth() == figures.COLUMN


def test_models_with_as_many_layers_share_colours_rows_and_the_axis_of_layers() -> None:
    flows = {"one": flow_table(total=2.0), "two": flow_table(total=-0.5, n=8).assign(effect_mean=-0.7)}
    figure = flow_maps(flows)
    for panel, flow in enumerate(flows.values()):
        assert cells(figure, panel) == pytest.approx(shares(flow))
        assert figure.axes[panel].images[0].get_clim() == pytest.approx((-1.4, 1.4))
        assert figure.axes[panel].images[0].get_extent()[:2] == [-0.5, 3.5]
        assert figure.axes[panel].get_ylim() == (3.5, -0.5)  # the first span is on top
    assert len(figure.axes) == 3  # two panels, one colour bar
    assert figure.axes[0].get_title() == "one\ntotal 2.00 logits\nn = 32 contrasts"
    assert figure.axes[1].get_title() == "two\ntotal −0.50 logits\nn = 8 contrasts"


def test_models_of_other_depths_are_drawn_over_depth_and_say_how_many_layers_they_have() -> None:
    figure = flow_maps({"short": flow_table(3), "long": flow_table(12)})
    extents = [list(figure.axes[panel].images[0].get_extent()) for panel in (0, 1)]
    assert extents == [[0, 1, -0.5, 3.5]] * 2  # depth across; the rows as in every flow map
    assert [cells(figure, panel).shape for panel in (0, 1)] == [(4, 3), (4, 12)]
    assert "as a share of all layers" in words(figure)
    assert [ax.get_title().splitlines()[-1] for ax in figure.axes[:2]] == ["3 layers", "12 layers"]


def test_a_span_that_one_model_lacks_is_grey_there_and_stands_in_its_place() -> None:
    figure = flow_maps({"one": flow_table(spans=("blank", "target_slot")), "two": flow_table()})
    assert rows(figure) == ["priming pronoun", "prime after pronoun", "blank", "target slot"]
    assert np.isnan(cells(figure, 0)).all(axis=1).tolist() == [True, True, False, False]
    assert not np.isnan(cells(figure, 1)).any()
    assert "grey: not computed" in words(figure)


def test_a_total_too_small_to_divide_by_leaves_its_panel_out_and_says_why() -> None:
    small, large = flow_table(total=0.05), flow_table(total=2.0)
    figure = flow_maps({"small": small, "large": large})
    assert len(figure.axes[0].images) == 0
    assert [text.get_text() for text in figure.axes[0].texts] == ["total too small\nto divide by"]
    assert "total 0.05 logits" in figure.axes[0].get_title()
    assert cells(figure, 1) == pytest.approx(shares(large))
    assert rows(figure) == ["priming pronoun", "prime after pronoun", "blank", "target slot"]


def test_an_empty_table_leaves_its_panel_out_and_says_so() -> None:
    full = flow_table()
    figure = flow_maps({"none": full.iloc[:0], "full": full})
    assert [text.get_text() for text in figure.axes[0].texts] == ["not computed"]
    assert figure.axes[0].get_title() == "none"
    assert cells(figure, 1) == pytest.approx(shares(full))
    assert "n = 32 contrasts" in words(figure)
    assert "nan" not in words(figure)


def test_where_every_total_is_too_small_colours_are_logits() -> None:
    flows = {"one": flow_table(total=0.05), "two": flow_table(total=-0.02)}
    figure = flow_maps(flows)
    for panel, flow in enumerate(flows.values()):
        assert cells(figure, panel) == pytest.approx(shares(flow) * flow["total_mean"].iloc[0])
    assert figure.axes[2].get_ylabel() == "effect (logits)\n(totals too small to divide by)"


@pytest.mark.parametrize(("largest", "limit", "beyond"), [(1.2, 1.2, "neither"), (9.0, MOST_SHARE, "both")])
def test_one_extreme_share_does_not_pale_the_others_and_the_colour_bar_shows_it(
    largest: float, limit: float, beyond: str
) -> None:
    extreme = flow_table(total=1.0)
    extreme.loc[3, "effect_mean"] = -largest
    figure = flow_maps({"one": flow_table(), "two": extreme})
    assert figure.axes[0].images[0].get_clim() == (-limit, limit)
    assert figure.axes[1].images[0].colorbar.extend == beyond


def test_many_models_fill_a_page_row_by_row_and_no_text_leaves_it() -> None:
    name = "an-owner/a-model-with-quite-a-long-name-Instruct"
    for flows in (
        {f"{name}-{number}": flow_table(4 + number, total=0.02 + number, n=number) for number in range(6)},
        {name: flow_table(40, total=-0.01)},
        {"one": flow_table(1), "two": flow_table(1, n=1)},
    ):
        figure = flow_maps(flows)
        box = figure.get_tightbbox()
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.get_figwidth()
        assert box.y1 <= figure.get_figheight()
        assert figure.get_figwidth() <= figures.PAGE
        assert sum(ax.get_visible() for ax in figure.axes) == len(flows) + 1


def test_the_tables_are_left_as_they_were_and_none_is_refused() -> None:
    flow = flow_table()
    flow_maps({"one": flow, "two": flow})
    pd.testing.assert_frame_equal(flow, flow_table())
    for flows in ({}, {"one": flow.iloc[:0]}):
        with pytest.raises(ValueError, match="one table a model"):
            flow_maps(flows)


def test_names_keep_the_order_of_their_lists() -> None:
    assert in_order([["a", "b", "c"], ["a", "b", "c"]]) == ["a", "b", "c"]
    assert in_order([["b", "d"], ["a", "b", "c", "d", "e"]]) == ["a", "b", "c", "d", "e"]
    assert in_order([["a", "b"], ["b", "a"]]) == ["a", "b"]  # where they disagree, that of the first
    assert in_order([]) == []
