"""How much of the stimuli was measured, beside what is to be expected."""

from collections.abc import Mapping
from typing import Any

from referent_probe.analysis.behaviour.arrays import Arrays
from referent_probe.analysis.behaviour.finished import FinishedRun
from referent_probe.errors import RunError
from referent_probe.stimuli.rows import WINOPRON_SHA256

WINOPRON_COUNTS = {"templates": 360, "pairs": 180, "rated_templates": {"authors": 279, "exact": 201}}
"""Of the whole of WinoPron, rated templates by source of the ratings."""


def counts_of(run: FinishedRun, its: Arrays, of_role: Mapping[str, float], rated_by: str) -> dict[str, dict[str, Any]]:
    """What was found beside what is to be expected, null where that is not known."""
    rated = sum(noun.lower() in of_role for noun in its.templates["antecedent_noun"])
    n_pairs = len(run.pairs)
    expected: dict[str, int | None] = {"templates": 2 * n_pairs, "pairs": n_pairs, "rated_templates": None}
    is_whole = run.stimuli["sha256"] == WINOPRON_SHA256 and n_pairs == WINOPRON_COUNTS["pairs"]
    if is_whole and rated_by.startswith("Misersky"):
        by_source: dict[str, int] = WINOPRON_COUNTS["rated_templates"]  # type: ignore[assignment]
        expected["rated_templates"] = by_source["authors" if "authors" in rated_by else "exact"]
    counts = {
        "templates": len(its.templates),
        "pairs": len(its.pair_rows),
        "rated_templates": rated,
        "occupations": int(its.templates["occupation"].nunique()),
        "rated_roles": len({n.lower() for n in its.templates["antecedent_noun"]} & set(of_role)),
    }
    complete = is_whole and counts["templates"] == WINOPRON_COUNTS["templates"]
    if complete and expected["rated_templates"] not in (None, rated):
        raise RunError(
            f"{str(run.folder)!r} has {rated} rated templates of WinoPron, which has {expected['rated_templates']}: "
            "measure it again"
        )
    return {
        name: {"found": n}
        | ({} if expected.get(name) is None else {"expected": expected[name], "as_expected": n == expected[name]})
        for name, n in counts.items()
    }
