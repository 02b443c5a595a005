"""The paragraph says what the table says, and no more."""

from typing import Any

import pytest

from referent_probe.analysis.behaviour.quantities import found, quantities_table
from referent_probe.analysis.behaviour.words import in_words
from referent_probe.analysis.inference import Interval

COUNTS = {"templates": 24, "pairs": 12, "occupations": 12}


def words(rows: list[dict[str, Any]], counts: dict[str, int] = COUNTS) -> str:
    return in_words(quantities_table(rows, "model"), counts, 0.5, 0.2)


def interval(mean: float, low: float, high: float) -> Interval:
    return Interval(mean, low, high, 12, "logits")


def follow(mean: float, low: float, high: float, verdict: str) -> list[dict[str, Any]]:
    keys: dict[str, Any] = {"option_order": "both", "factor": "all", "n_rows": 48, "rows_of": "prompts"}
    return [
        found("follow_shift", interval(mean, low, high), verdict=verdict, **keys),
        found("share_following", 0.25, threshold=0.2, **keys),
        found("share_opposing", Interval(0.5, 0.4, 0.6, 12, "share of templates"), threshold=0.2, **keys),
    ]


@pytest.mark.parametrize(
    ("numbers", "verdict", "said"),
    [
        ((0.5, 0.2, 0.8), "follows", "model follows the gender of the other person's pronoun on average"),
        ((-0.5, -0.8, -0.2), "opposes", "model opposes the gender of the other person's pronoun on average"),
        ((0.1, -0.2, 0.3), "undecided", "model shows no settled stance"),
    ],
)
def test_following(numbers: tuple[float, float, float], verdict: str, said: str) -> None:
    paragraph = words(follow(*numbers, verdict))
    assert said in paragraph
    mean, low, high = numbers
    assert f"{mean:+.2f} [{low:+.2f}, {high:+.2f}] logits" in paragraph
    assert "25% of 48 prompts follow by more than 0.2 logits, 50% [40%, 60%] oppose" in paragraph


def test_what_was_not_measured_is_not_claimed() -> None:
    paragraph = words([found("missing", 1.0, factor="cf"), found("left_out", 3.0, factor="broken_pairs")])
    assert "without both primed settings nothing is said" in paragraph
    assert "joint not measured, self_primed not measured, steered not measured" in paragraph
    assert "No correlation of rating and p(f|c) without a prime is told" in paragraph
    assert "Left out: 3 broken pairs. Not measured: cf." in paragraph


def test_differences_that_are_not_settled_are_called_so() -> None:
    keys: dict[str, Any] = {"option_order": "both", "temperature": 0.5, "factor": "antecedent", "n_rows": 24}
    rows = [
        found("spearman", interval(0.3, 0.1, 0.5), setting="c0", **keys),
        found("spearman_difference", interval(0.2, -0.1, 0.5), setting="cf", **keys),
        found("spearman_difference", interval(0.3, 0.1, 0.5), setting="cm", **keys),
    ]
    assert "minus cf +0.20 [-0.10, +0.50], not settled, minus cm +0.30 [+0.10, +0.50]." in words(rows)


def test_contextual_pairs_with_interval_and_n() -> None:
    keys: dict[str, Any] = {"option_order": "both", "temperature": 0.5, "threshold": 0.01, "n_rows": 12}
    share = Interval(0.25, 0.05, 0.5, 12, "share of pairs")
    paragraph = words([found("contextual_share", share, estimator="joint", **keys)])
    assert "joint 25% [5%, 50%] of 12, self_primed not measured" in paragraph
    assert "not copying (or contrast) of equal strength" in paragraph


def test_few_occupations_are_warned_of() -> None:
    assert "under ten occupations" not in words(follow(0.5, 0.2, 0.8, "follows"))
    assert "under ten occupations" in words(follow(0.5, 0.2, 0.8, "follows"), COUNTS | {"occupations": 9})
