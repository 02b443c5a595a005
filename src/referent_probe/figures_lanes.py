"""What a figure of behaviour draws of a table: kinds of marker, their legend, the rows of each, what they are of."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D

from referent_probe.figures import BLUE, ORANGE

GREEN, PURPLE, BLACK = "#009E73", "#AA4499", "#000000"
CHARACTERS = 18.5  # in an inch of text

Keys = Mapping[str, Hashable]
Temperature = float | Mapping[str, float]
"""Primary temperature: of all models, or model to its own."""


@dataclass(frozen=True)
class Lane:
    """One kind of marker.

    Attributes:
        label: In the legend.
        keys: Columns and values that its rows of the table have, beside those of the row of the panel.
        color: Of marker and interval.
        marker: As matplotlib names it.
        hollow: Whether the marker is drawn as an outline.
        line: Style of the line that joins its markers, where they are joined.
    """

    label: str
    keys: Keys = field(default_factory=dict)
    color: str = BLACK
    marker: str = "o"
    hollow: bool = False
    line: str = "-"

    @property
    def face(self) -> str:
        """Colour that fills the marker."""
        return "white" if self.hollow else self.color


ORDER_LANES = (
    Lane("masculine option first", {"option_order": "mf"}, BLUE, "o"),
    Lane("feminine option first", {"option_order": "fm"}, ORANGE, "D"),
)
BOTH_LANE = Lane("both orders", {"option_order": "both"}, BLACK, "s")


def where(table: pd.DataFrame, keys: Keys) -> pd.DataFrame:
    """The rows that have these values.

    Example:
        >>> where(pd.DataFrame({"setting": ["c0", "cf"], "value": [1, 2]}), {"setting": "cf"})["value"].tolist()
        [2]
    """
    kept = np.ones(len(table), dtype=bool)
    for column, value in keys.items():
        kept &= (table[column] == value).fillna(False).to_numpy(dtype=bool)
    return table[kept]


def models_of(quantities: pd.DataFrame) -> list[str]:
    """Names of the models, in the order of the table; rows between models and of what is missing name none."""
    between = quantities["quantity"].str.startswith("overlap_") | (quantities["quantity"] == "missing")
    return list(dict.fromkeys(quantities.loc[~between, "model"])) or ["no model"]


def chosen(table: pd.DataFrame, model: str, temperature: Temperature | None = None) -> pd.DataFrame:
    """A model's rows about its answers to prompts; at the given temperature where they have one."""
    kept = where(table, {"reading": "choice", "model": model})
    if temperature is None:
        return kept
    primary = temperature.get(model) if isinstance(temperature, Mapping) else temperature
    return kept[kept["temperature"].isna() | (kept["temperature"] == primary)]


def present(tables: Sequence[pd.DataFrame], names: Mapping[str, str], lanes: Sequence[Lane]) -> dict[str, Keys]:
    """Rows of a panel: the context settings that any table has a row of, in the order of their names."""
    found = {setting for table in tables for lane in lanes for setting in where(table, lane.keys)["setting"]}
    return {label: {"setting": name} for name, label in names.items() if name in found}


def counted(table: pd.DataFrame) -> str:
    """What the numbers are of: rows, what is resampled, and how many rows had no number.

    Example:
        >>> table = pd.DataFrame({"value": [0.1, 0.2], "n": 60, "n_of": "occupations"})
        >>> counted(table.assign(n_rows=[359, 360], rows_of="templates", n_left_out=[1, 0]))
        'n = 359–360 templates, 60 occupations, up to 1 left out'
    """
    shown = table[table["value"].notna()]
    units: dict[str, list[int]] = {}
    for n, of in (("n_rows", "rows_of"), ("n", "n_of")):
        for number, name in zip(shown[n], shown[of], strict=True):
            if not pd.isna(number) and name:
                units.setdefault(name, []).append(int(number))
    lines = [
        (f"{min(ns)}" if min(ns) == max(ns) else f"{min(ns)}–{max(ns)}") + f" {name}" for name, ns in units.items()
    ]
    left_out = shown["n_left_out"].max() if len(shown) else 0
    more = [f"up to {left_out} left out"] if not pd.isna(left_out) and left_out > 0 else []
    return "n = " + ", ".join([*lines, *more]) if lines else ""


def legend(part: SubFigure, lanes: Sequence[Lane], width: float, edge: str | None = None) -> None:
    """Explains the lanes below the panels."""
    handles = [
        Line2D([], [], ls="", marker=one.marker, mfc=one.face, mec=edge or one.color, label=one.label, ms=4, mew=0.8)
        for one in lanes
    ]
    columns = -(-len(lanes) // legend_lines(lanes, width))
    part.legend(handles=handles, ncols=columns, loc="outside lower center", handletextpad=0.1, columnspacing=1)


def legend_lines(lanes: Sequence[Lane], width: float) -> int:
    """Lines of text that a legend takes."""
    columns = max(1, int(width / (max(len(lane.label) for lane in lanes) / CHARACTERS + 0.33)))
    return -(-len(lanes) // columns)
