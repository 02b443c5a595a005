"""What could not be computed, and why: parts that a run lacks, and rows without a finite number."""

from typing import Any

import numpy as np

from referent_probe.analysis.behaviour.arrays import SETTINGS, Arrays
from referent_probe.analysis.behaviour.quantities import found
from referent_probe.analysis.behaviour.sampled import draw_counts

_PARTS = {
    "joint": "no estimator 'joint', no rank 4",
    "sentences": "no whole-sentence reading",
    "draws": "no sampled quantities, no intersection-union test",
    "comprehension": "no comprehension accuracy",
}
_WITHOUT = {
    "c0": "no shifts, no divergence, no spearman_difference, no dC from single blanks",
    "cf": "no following of the prime, no dC from single blanks",
    "cm": "no following of the prime, no dC from single blanks",
    "n1": "no noise floor",
    "n2": "no noise floor",
}


def missing_quantities(run: Arrays) -> list[dict[str, Any]]:
    """A row for every context setting and table that the run lacks; the note says what is left out for it."""
    absent = {name: _WITHOUT.get(name, f"nothing of setting {name}") for name in SETTINGS if name not in run.settings}
    absent |= {name: words for name, words in _PARTS.items() if run.tables[name].empty}
    return [found("missing", 1.0, factor=name, note=f"{name} was not measured: {w}") for name, w in absent.items()]


def left_out_quantities(run: Arrays, n_expected_pairs: int) -> list[dict[str, Any]]:
    """Counts of what no number could be computed of, zeros too; probabilities at the primary temperature.

    Args:
        run: The measurement.
        n_expected_pairs: Pairs that were to be measured.
    """
    share, valid = run.p_share[..., run.primary], run.p_valid[..., run.primary]
    absent = max(0, n_expected_pairs - len(run.pair_rows) - run.n_broken_pairs)
    counts: dict[str, tuple[int, str]] = {
        "broken_pairs": (run.n_broken_pairs, "pairs with one member missing: not in pair-level results"),
        "absent_pairs": (absent, "pairs that were to be measured and are not there"),
        "prompts_without_log_odds": (int(np.isnan(run.log_odds).sum()), "no log-odds: not in shifts"),
        "prompts_with_infinite_log_odds": (int(np.isinf(run.log_odds).sum()), "an option of p 0: not in shifts"),
        "prompts_with_p_0_or_1": (int(np.isin(share, (0.0, 1.0)).sum()), "p(f|c) is 0 or 1: KL may be infinite"),
        "prompts_without_answers": (int(np.isnan(valid).sum()), "no probability of an answer is there: no p(f|c)"),
        "prompts_without_an_option": (int((valid == 0).sum()), "neither option has any probability: no p(f|c)"),
    }
    if (counted := draw_counts(run)) is not None:
        n_valid = counted[0]["n_feminine"] + counted[0]["n_masculine"]
        counts["cells_without_valid_draw"] = (int((n_valid == 0).sum()), "no valid draw: not in sampled results")
    return [found("left_out", float(n), factor=reason, note=note) for reason, (n, note) in counts.items()]
