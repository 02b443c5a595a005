import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from referent_probe.measurement.choice import next_token_choice

LOGITS = arrays(np.float64, 7, elements=st.floats(-60, 60))


def test_worked_example() -> None:
    # exp: 4, 2, 1, 1 -> sum 8
    choice = next_token_choice(np.log([4.0, 2.0, 1.0, 1.0]), feminine=0, masculine=1, they=2)
    assert choice.log_odds == pytest.approx(np.log(2))
    assert (choice.p_feminine, choice.p_masculine, choice.p_they, choice.p_other) == pytest.approx(
        (0.5, 0.25, 0.125, 0.125)
    )


@given(LOGITS)
@example(np.array([0.0, -21.0, 16.5, 0.0, -21.0, -21.0, -21.0]))
def test_probabilities_sum_to_one_and_lie_between(logits: np.ndarray) -> None:
    choice = next_token_choice(logits, 1, 4, 6)
    parts = [choice.p_feminine, choice.p_masculine, choice.p_they, choice.p_other]
    assert sum(p for p in parts if p is not None) == pytest.approx(1.0, abs=1e-12)
    assert all(p is not None and 0 <= p <= 1 for p in parts)


@given(LOGITS, st.floats(-1000, 1000))
def test_a_constant_added_to_all_logits_changes_nothing(logits: np.ndarray, constant: float) -> None:
    plain, moved = next_token_choice(logits, 0, 3), next_token_choice(logits + constant, 0, 3)
    assert moved.log_odds == pytest.approx(plain.log_odds, abs=1e-9)
    assert moved.p_other == pytest.approx(plain.p_other, abs=1e-9)


@given(LOGITS)
def test_swapping_the_options_flips_the_sign(logits: np.ndarray) -> None:
    assert next_token_choice(logits, 2, 5).log_odds == pytest.approx(-next_token_choice(logits, 5, 2).log_odds)


def test_without_a_token_for_they_its_share_is_other() -> None:
    logits = np.array([0.0, 1.0, 2.0, 3.0])
    assert next_token_choice(logits, 0, 1).p_they is None
    whole, split = next_token_choice(logits, 0, 1), next_token_choice(logits, 0, 1, 2)
    assert whole.p_other == pytest.approx(split.p_other + split.p_they)
