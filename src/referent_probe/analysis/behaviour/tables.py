"""All quantities of one run: the three tables of an analysis."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from referent_probe.analysis.behaviour.answers import answer_quantities, divergence_quantities
from referent_probe.analysis.behaviour.arrays import Arrays
from referent_probe.analysis.behaviour.comprehension import comprehension_quantities
from referent_probe.analysis.behaviour.contextual import contextual_quantities
from referent_probe.analysis.behaviour.factors import information_quantities, sampled_information_quantities
from referent_probe.analysis.behaviour.gaps import left_out_quantities, missing_quantities
from referent_probe.analysis.behaviour.quantities import quantities_table
from referent_probe.analysis.behaviour.roles import spearman_quantities
from referent_probe.analysis.behaviour.sampled import draw_quantities, sampled_pairs, verdict_quantities
from referent_probe.analysis.behaviour.shifts import (
    choice_log_odds,
    follow_quantities,
    sentence_log_odds,
    shift_quantities,
    shifts_table,
)
from referent_probe.analysis.behaviour.systems import joint_pairs, sentence_pairs, single_blank_pairs
from referent_probe.analysis.stereotype import Alignment


@dataclass(frozen=True, eq=False)
class Tables:
    """What is found of one run, or of several below each other.

    Attributes:
        quantities: One number a row, with the columns `quantities.COLUMNS`.
        pairs: A row a pair, estimator, option order and temperature, with the columns `systems.COLUMNS`.
        shifts: A row a template, setting and option order.
    """

    quantities: pd.DataFrame
    pairs: pd.DataFrame
    shifts: pd.DataFrame


def tables_of(
    run: Arrays, ratings: Mapping[str, float], *, margin: float, as_released: bool, n_expected_pairs: int, seed: int
) -> Tables:
    """Everything that one run says.

    Args:
        run: The measurement.
        ratings: Role noun, in lower case, to femininity, 0 to 1.
        margin: Largest shift that counts as none, above 0, in logits.
        as_released: Whether to give the published alignment of ratings, by the partner, beside the right one.
        n_expected_pairs: Pairs that were to be measured.
        seed: Of every resample and shuffle.

    Raises:
        OptionError: The margin is not above 0.
        RunError: A table of the run contradicts the choices.
    """
    readings = [odds for odds in (choice_log_odds(run), sentence_log_odds(run)) if odds is not None]
    alignments: tuple[Alignment, ...] = ("antecedent", "partner") if as_released else ("antecedent",)
    rows = answer_quantities(run, seed) + divergence_quantities(run, seed)
    for odds in readings:
        rows += shift_quantities(odds, run.templates, margin, seed)
        rows += follow_quantities(odds, run.templates, margin, seed)
    rows += spearman_quantities(run, ratings, alignments, seed)
    rows += information_quantities(run, ratings, seed)
    exact = _joined([joint_pairs(run), single_blank_pairs(run), *(sentence_pairs(run, odds) for odds in readings[1:])])
    drawn = sampled_pairs(run)
    rows += contextual_quantities(exact, run.temperatures[run.primary], seed)
    rows += draw_quantities(run, seed) + verdict_quantities(drawn, seed) + sampled_information_quantities(run, seed)
    rows += comprehension_quantities(run, seed)
    rows += left_out_quantities(run, n_expected_pairs) + missing_quantities(run)
    shifts = pd.concat([shifts_table(run, odds, ratings) for odds in readings], ignore_index=True)
    return Tables(quantities_table(rows, run.model), _joined([exact, drawn]), shifts)


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """The tables below each other; those without rows say nothing about types."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return tables[0]
    # Columns that one of them lacks altogether would set their types.
    kept = [table.dropna(axis=1, how="all") for table in filled]
    return pd.concat(kept, ignore_index=True).reindex(columns=tables[0].columns)
