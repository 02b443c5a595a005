"""The long table of everything that an analysis finds: one number a row, with its interval, unit and n.

`QUANTITIES` names every quantity and the columns that tell its rows apart; a row that gives others is refused, so that
`summary.json` has the same shape for every run.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from referent_probe.analysis.inference import Interval

KEYS = ("setting", "option_order", "temperature", "estimator", "threshold", "factor")
"""Columns that tell the rows of a quantity apart, beside model and reading; null where they do not apply."""

COLUMNS = (
    "model",
    "reading",
    "quantity",
    *KEYS,
    "value",
    "low",
    "high",
    "n",
    "n_of",
    "n_rows",
    "rows_of",
    "n_left_out",
    "unit",
    "p",
    "p_adjusted",
    "verdict",
    "note",
)
"""Of the table, in order. `n` counts what is resampled, `n_rows` what the number is of, `n_left_out` what had no finite
number; low and high are the ends of a 95 % interval (`clustered.share_interval` where a share is 0 or 1)."""

_NUMBERS = ("temperature", "threshold", "value", "low", "high", "p", "p_adjusted")
_COUNTS = ("n", "n_rows", "n_left_out")


@dataclass(frozen=True)
class Quantity:
    """What a quantity is.

    Attributes:
        unit: Of value, low and high.
        keys: Which of `KEYS` its rows have.
        meaning: One line.
    """

    unit: str
    keys: tuple[str, ...]
    meaning: str


_ANSWER = ("setting", "option_order", "temperature")
_SHIFT = ("setting", "option_order", "factor")
_MARGIN = ("setting", "option_order", "threshold", "factor")
_INFORMATION = ("setting", "option_order", "temperature", "factor")
_SYSTEM = ("option_order", "temperature", "estimator")
_CALL = (*_SYSTEM, "threshold")
_SAMPLED = ("option_order", "temperature", "estimator", "threshold")

QUANTITIES: Mapping[str, Quantity] = {
    # Answers
    "p_feminine_share": Quantity("probability", _ANSWER, "mean p(f|c): p_feminine over p_feminine + p_masculine"),
    "p_valid": Quantity("probability", _ANSWER, "mean p_feminine + p_masculine"),
    "p_they": Quantity("probability", _ANSWER, "mean probability of the form of they"),
    "p_other": Quantity("probability", _ANSWER, "mean probability of every other answer"),
    "unexplored_largest": Quantity("probability", ("temperature",), "largest bound on the error of a probability"),
    "order_effect_absolute": Quantity("probability", ("setting", "temperature"), "mean |p(f|c) in mf - in fm|"),
    "order_effect_signed": Quantity("probability", ("setting", "temperature"), "mean p(f|c) in mf - in fm"),
    # Divergence from c0
    "kl_exact_mean": Quantity("bits", _ANSWER, "mean of the finite exact KL(setting || c0)"),
    "kl_exact_median": Quantity("bits", _ANSWER, "median of the exact KL(setting || c0), infinite ones too"),
    "kl_smoothed_mean": Quantity("bits", _ANSWER, "mean expected KL of 200 smoothed draws: set it beside the paper's"),
    # Invariance: log-odds minus those of c0; the factor is the cluster, occupation or participant
    "mean_shift": Quantity("logits", _SHIFT, "mean shift of log-odds from c0; p: of no difference, Holm over settings"),
    "rms_shift": Quantity("logits", _SHIFT, "root mean square shift"),
    "share_within_margin": Quantity("share of templates", _MARGIN, "share with |shift| below the margin"),
    "equivalence": Quantity("logits", _MARGIN, "mean shift; p: TOST at the margin, Holm over settings; verdict"),
    "noise_floor": Quantity("logits", ("option_order", "factor"), "root mean square difference of n1 and n2"),
    # Follows the prime: log-odds in cf minus in cm; the factor is all, or a case
    "follow_shift": Quantity("logits", ("option_order", "factor"), "mean log-odds cf - cm; above 0: follows the prime"),
    "follow_rms": Quantity("logits", ("option_order", "factor"), "root mean square of log-odds cf - cm"),
    "share_following": Quantity("share of templates", ("option_order", "threshold", "factor"), "cf - cm above margin"),
    "share_opposing": Quantity("share of templates", ("option_order", "threshold", "factor"), "cf - cm below -margin"),
    # Stereotype; the factor is the alignment, antecedent or partner
    "spearman": Quantity("rho", _INFORMATION, "rank correlation of rating and p(f|c)"),
    "spearman_difference": Quantity("rho", _INFORMATION, "rho in c0 minus rho in the setting"),
    # Information; settings c0 or cf+cm
    "mutual_information": Quantity("bits", _INFORMATION, "pooled I(answer; factor)"),
    "mutual_information_conditional": Quantity("bits", _INFORMATION, "I(answer; factor | template)"),
    "mutual_information_shuffled": Quantity("bits", _INFORMATION, "mean over ratings shuffled over roles"),
    "mutual_information_excess": Quantity("bits", _INFORMATION, "observed minus shuffled; p: one-sided"),
    "mutual_information_sampled": Quantity("bits", _INFORMATION, "the same from the draws, biased upward"),
    # Contextuality
    "contextual_share": Quantity("share of pairs", _CALL, "share of pairs with dC above the threshold"),
    "delta_c_mean": Quantity("dC", _SYSTEM, "mean dC"),
    "correlation_difference_mean": Quantity("dC", _SYSTEM, "mean first term of dC"),
    "signalling_mean": Quantity("dC", _SYSTEM, "mean signalling"),
    "delta_c_quantile": Quantity("dC", (*_SYSTEM, "factor"), "quantile of dC over pairs"),
    "correlation_difference_quantile": Quantity("dC", (*_SYSTEM, "factor"), "quantile of the first term"),
    "signalling_quantile": Quantity("dC", (*_SYSTEM, "factor"), "quantile of the signalling"),
    "u_minus_v_mean": Quantity("probability", _SYSTEM, "mean (af - am) - (bf - bm)"),
    "u_minus_v_absolute_mean": Quantity("probability", _SYSTEM, "mean size of the same"),
    "log_odds_ratio_difference_mean": Quantity("logits", _SYSTEM, "mean log odds ratio of o1 minus of o2"),
    "log_odds_ratio_difference_absolute_mean": Quantity("logits", _SYSTEM, "mean size of the same"),
    "qq_mean": Quantity("probability", _SYSTEM, "mean P(agree) in o1 minus in o2"),
    "qq_absolute_mean": Quantity("probability", _SYSTEM, "mean size of the same"),
    # Draws
    "draws_per_cell": Quantity("draws", ("temperature",), "mean number of valid draws a cell"),
    "draws_valid_share": Quantity("share of draws", _ANSWER, "share of draws that are one of the options"),
    "draws_outside_99": Quantity("share of cells", ("temperature",), "share outside the 99 % range of exact p(f|c)"),
    "plain_call_share": Quantity("share of pairs", _SAMPLED, "share of pairs whose sampled dC is above 0"),
    "test_rejected_share": Quantity("share of pairs", _SAMPLED, "share rejected by the intersection-union test"),
    # Comprehension; the factor is the question
    "comprehension_accuracy": Quantity("share of prompts", ("setting", "factor"), "most probable answer is right"),
    "comprehension_p_right": Quantity("probability", ("setting", "factor"), "mean probability of the right answer"),
    "comprehension_p_listed": Quantity("probability", ("setting", "factor"), "mean probability of listed answers"),
    # Several runs: model names them, joined by " & "
    "overlap_pairs": Quantity("pairs", _CALL, "pairs contextual in exactly these models"),
    "overlap_jaccard": Quantity("share of pairs", _CALL, "contextual in both models, of those in either"),
    # What was not computed
    "left_out": Quantity("count", ("factor",), "rows that no number could be computed of, by reason"),
    "missing": Quantity("count", ("factor",), "a part that the run lacks; the note says what is left out for it"),
}


def found(
    quantity: str,
    value: Interval | float,
    *,
    n_rows: int | None = None,
    rows_of: str | None = None,
    n_left_out: int = 0,
    p: float = math.nan,
    p_adjusted: float = math.nan,
    verdict: str | None = None,
    note: str | None = None,
    reading: str = "choice",
    **keys: str | float,
) -> dict[str, Any]:
    """A row of the long table, without its model.

    Args:
        quantity: One of `QUANTITIES`.
        value: With its interval and n; a bare number has neither.
        n_rows: What the number is of: templates, pairs, ….
        rows_of: What `n_rows` counts, in the plural.
        n_left_out: How many more had no finite number.
        p: p value.
        p_adjusted: The same, adjusted for several tests.
        verdict: In a word.
        note: What a reader has to know.
        reading: "choice", or "whole_sentence" for scores of sentences with either pronoun filled in.
        **keys: The quantity's keys.

    Raises:
        ValueError: The quantity is unknown or has other keys.

    Example:
        >>> found("p_valid", 0.5, setting="c0", option_order="mf", temperature=0.5)["unit"]
        'probability'
    """
    if quantity not in QUANTITIES or set(QUANTITIES[quantity].keys) != set(keys):
        raise ValueError(f"{quantity!r} with {sorted(keys)}: keys differ from those declared.")
    interval = value if isinstance(value, Interval) else Interval(float(value), math.nan, math.nan, 0, "", "")
    return {
        "reading": reading,
        "quantity": quantity,
        **keys,
        "value": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "n": interval.n if isinstance(value, Interval) else n_rows,
        "n_of": interval.n_of if isinstance(value, Interval) else rows_of,
        "n_rows": n_rows,
        "rows_of": rows_of,
        "n_left_out": n_left_out,
        "unit": QUANTITIES[quantity].unit,
        "p": p,
        "p_adjusted": p_adjusted,
        "verdict": verdict,
        "note": note,
    }


def quantities_table(rows: Iterable[Mapping[str, Any]], model: str) -> pd.DataFrame:
    """Rows of `found` as a table with the columns `COLUMNS`: numbers float64, counts Int64, the rest text or None.

    Example:
        >>> quantities_table([found("draws_per_cell", 200, temperature=0.5)], "m")[["model", "value"]].values.tolist()
        [['m', 200.0]]
    """
    table = pd.DataFrame([{"model": model, **row} for row in rows], columns=list(COLUMNS))
    kinds = {name: "float64" if name in _NUMBERS else "Int64" if name in _COUNTS else "object" for name in COLUMNS}
    table = table.astype(kinds)
    texts = [name for name, kind in kinds.items() if kind == "object"]
    return table.assign(**{name: table[name].where(table[name].notna(), None) for name in texts})
