"""A finished measurement as arrays: templates x context settings x option orders x temperatures."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.errors import RunError
from referent_probe.records import SCHEMAS

SETTINGS = ("c0", "cf", "cm", "n1", "n2", "r_np", "r_both")
"""All context settings, in the order of every table."""

ORDERS = ("mf", "fm")
"""Option orders: masculine option first, feminine option first."""

_OF_TEMPLATE = ("pair", "member", "occupation", "participant", "case", "antecedent", "antecedent_noun", "other_noun")
_PROBABILITIES = ("p_feminine", "p_masculine", "p_they", "p_other", "unexplored")


@dataclass(frozen=True, eq=False)
class Arrays:
    """One run's tables, with the two big ones as arrays; what was not measured is NaN.

    Attributes:
        model: Its name in every table.
        templates: A row a template: `template`, `pair`, `member`, `occupation`, `participant`, `case`, `antecedent`,
            `antecedent_noun`, `other_noun`.
        settings: The context settings that were measured, in the order of `SETTINGS`.
        temperatures: Of the probabilities, ascending.
        primary: Index of the primary one.
        log_odds: `[template, setting, option order]`, logits at T = 1.
        probabilities: `p_feminine`, `p_masculine`, `p_they`, `p_other` and `unexplored`, each
            `[template, setting, option order, temperature]`.
        pair_rows: `[pair, 2]`, the rows of `templates` that are sentence 1 and sentence 2; whole pairs only.
        n_broken_pairs: Pairs of which one member is missing.
        tables: The other tables: joint, sentences, draws, comprehension.
    """

    model: str
    templates: pd.DataFrame
    settings: tuple[str, ...]
    temperatures: tuple[float, ...]
    primary: int
    log_odds: NDArray[np.float64]
    probabilities: Mapping[str, NDArray[np.float64]]
    pair_rows: NDArray[np.intp]
    n_broken_pairs: int
    tables: Mapping[str, pd.DataFrame]

    @property
    def p_valid(self) -> NDArray[np.float64]:
        """p_feminine + p_masculine, `[template, setting, option order, temperature]`."""
        return self.probabilities["p_feminine"] + self.probabilities["p_masculine"]

    @property
    def p_share(self) -> NDArray[np.float64]:
        """p(f|c), `[template, setting, option order, temperature]`; NaN where neither option has any probability."""
        return shares(self.probabilities["p_feminine"], self.probabilities["p_masculine"])

    @property
    def pairs(self) -> pd.DataFrame:
        """A row a whole pair: `pair`, `occupation`, `participant`, `case`, in the order of `pair_rows`."""
        first = self.templates.iloc[self.pair_rows[:, 0]]
        return first[["pair", "occupation", "participant", "case"]].reset_index(drop=True)

    def setting(self, name: str) -> int:
        """Index of a setting, which must be one of `settings`."""
        return self.settings.index(name)


def shares(feminine: NDArray[np.float64], masculine: NDArray[np.float64]) -> NDArray[np.float64]:
    """The feminine part of two probabilities or counts; NaN where both are 0.

    Example:
        >>> shares(np.array([0.2, 0.0]), np.array([0.6, 0.0])).tolist()
        [0.25, nan]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(feminine + masculine > 0, feminine / (feminine + masculine), np.nan))


def as_arrays(tables: Mapping[str, pd.DataFrame], model: str, temperature: float = 0.5) -> Arrays:
    """The tables of a finished measurement run as arrays.

    Args:
        tables: By the names of `records.MEASUREMENT`; all but choices and answers may be absent or empty.
        model: The run's name in every table.
        temperature: The primary one.

    Raises:
        RunError: There are no choices, or no answers at the primary temperature; a row comes twice, a template's
            columns contradict each other, or a setting or an option order is unknown.
    """
    choices, answers = (filled(tables, name) for name in ("choices", "answers"))
    for name, table in ("choices", choices), ("answers", answers):
        if table.empty:
            raise RunError(f"the run of {model!r} has no {name}: measure it again")
    columns = ["template", *_OF_TEMPLATE]
    templates = choices[columns].drop_duplicates(ignore_index=True)
    if templates["template"].duplicated().any():
        twice = templates.loc[templates["template"].duplicated(), "template"].iloc[0]
        raise RunError(f"the run of {model!r} says two things about template {twice!r}: measure it again")
    settings = tuple(name for name in SETTINGS if name in set(choices["setting"]))
    temperatures = tuple(sorted(float(t) for t in answers["temperature"].unique()))
    if temperature not in temperatures:
        raise RunError(f"the run of {model!r} has no answers at its temperature {temperature}: measure it again")
    axes = (tuple(templates["template"]), settings, ORDERS)
    keys = ["template", "setting", "option_order"]
    log_odds = gridded(choices, keys, axes, ["log_odds"], f"choices of {model!r}")["log_odds"]
    probabilities = gridded(
        answers, [*keys, "temperature"], (*axes, temperatures), _PROBABILITIES, f"answers of {model!r}"
    )
    rows = templates.reset_index().pivot(index="pair", columns="member", values="index").reindex(columns=[1, 2])
    whole = rows.dropna().astype(int)
    order = np.argsort(whole.min(axis=1).to_numpy(), kind="stable")  # the order of the file
    return Arrays(
        model,
        templates,
        settings,
        temperatures,
        temperatures.index(temperature),
        log_odds,
        probabilities,
        whole.to_numpy()[order],
        len(rows) - len(whole),
        {name: filled(tables, name) for name in ("joint", "sentences", "draws", "comprehension")},
    )


def filled(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """A table, or one without rows where it is absent."""
    columns = [column.name for column in SCHEMAS[name]]
    return tables[name] if name in tables else pd.DataFrame(columns=columns)


def gridded(
    table: pd.DataFrame,
    keys: list[str],
    axes: tuple[tuple[str | float | int, ...], ...],
    columns: list[str] | tuple[str, ...],
    what: str,
) -> dict[str, NDArray[np.float64]]:
    """Columns of a long table as arrays over the values of its keys; NaN where there is no row.

    Raises:
        RunError: A row comes twice, or a key has a value that its axis lacks; `what` names the table.

    Example:
        >>> table = pd.DataFrame({"template": ["1a"], "setting": ["cf"], "p": [0.5]})
        >>> gridded(table, ["template", "setting"], (("1a",), ("c0", "cf")), ["p"], "answers")["p"].tolist()
        [[nan, 0.5]]
    """
    places = [pd.Index(axis).get_indexer(pd.Index(table[key])) for key, axis in zip(keys, axes, strict=True)]
    for key, place in zip(keys, places, strict=True):
        if (place < 0).any():
            raise RunError(f"the {what} have {key} {table[key].iloc[int(np.argmin(place))]!r}, unknown: measure again")
    shape = tuple(len(axis) for axis in axes)
    flat = np.ravel_multi_index(tuple(places), shape) if len(table) else np.zeros(0, dtype=int)
    if len(np.unique(flat)) < len(flat):
        row = table[keys].iloc[int(np.flatnonzero(table.duplicated(keys))[0])]
        raise RunError(f"the {what} have {', '.join(map(str, row))} twice: measure again")
    arrays = {}
    for column in columns:
        array = np.full(shape, np.nan)
        array.flat[flat] = table[column].to_numpy(dtype=np.float64)
        arrays[column] = array
    return arrays
