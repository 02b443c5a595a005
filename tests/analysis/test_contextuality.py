"""Oracles: the definition by expectations, closed forms, s_odd by enumeration, known shares of random systems."""

import doctest
from itertools import product
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from referent_probe.analysis import contextuality
from referent_probe.analysis.contextuality import (
    THRESHOLDS,
    Estimator,
    Parts,
    cyclic_delta_c,
    delta_c,
    delta_c_joint,
    delta_c_joint_parts,
    delta_c_parts,
)
from referent_probe.analysis.joint_tables import (
    IDENTITY_TOLERANCE,
    log_odds_ratio_difference,
    qq_statistic,
    self_primed_joint,
)
from referent_probe.errors import OptionError
from referent_probe.randomness import generator

ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
VALID: tuple[Estimator, ...] = ("self_primed", "steered")
Numbers = NDArray[np.float64]


def six(n: int, *labels: str) -> Numbers:
    """p, q, a_f, a_m, b_f, b_m: uniform, `[6, n]`."""
    return generator(0, "six", *labels).random((6, n))


def tables(n: int, *labels: str) -> tuple[Numbers, Numbers]:
    first, second = generator(0, "tables", *labels).dirichlet(np.full(4, 0.7), (2, n)).reshape(2, n, 2, 2)
    return first, second


def sigmoid(x: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-x))


def by_expectations(joint_o1: Numbers, joint_o2: Numbers) -> float:
    """The definition, word by word, with <X1X2> = 4P(f,f) - 2P(X1=f) - 2P(X2=f) + 1."""

    def three(joint: Numbers) -> tuple[float, float, float]:
        first, second = joint[0, 0] + joint[0, 1], joint[0, 0] + joint[1, 0]
        return 4 * joint[0, 0] - 2 * first - 2 * second + 1, 2 * first - 1, 2 * second - 1

    both, one, two = (abs(x - y) for x, y in zip(three(joint_o1), three(joint_o2), strict=True))
    return both - one - two


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(contextuality).failed == 0


def test_thresholds() -> None:
    assert THRESHOLDS == (0.0, 0.01, 0.1)
    assert IDENTITY_TOLERANCE == 1e-9


# Definitions


def test_worked_example() -> None:
    example = 0.5, 0.119, 0.5, 0.018, 0.881, 0.119
    found = {e: round(float(delta_c(*example, estimator=e)), 2) for e in ESTIMATORS}
    assert found["steered"] == -0.20
    assert found["self_primed"] == -0.58
    assert found["released"] == 0.28
    assert found["printed"] < 0


@pytest.mark.parametrize(
    ("estimator", "percent"), [("steered", 33.3), ("released", 40.2), ("self_primed", 14.0), ("printed", 0.0)]
)
def test_shares_of_a_million_random_systems(estimator: Estimator, percent: float) -> None:
    values = np.asarray(delta_c(*six(10**6), estimator=estimator))
    assert 100 * np.mean(values > IDENTITY_TOLERANCE) == pytest.approx(percent, abs=0.2 if percent else 0.0)


def test_joint_is_the_definition() -> None:
    first, second = tables(200)
    expected = [by_expectations(x, y) for x, y in zip(first, second, strict=True)]
    assert delta_c_joint(first, second) == pytest.approx(expected, abs=1e-12)


def test_self_primed_is_the_joint_reading_of_its_tables() -> None:
    values = six(200)
    assert delta_c(*values) == pytest.approx(np.asarray(delta_c_joint(*self_primed_joint(*values))), abs=1e-12)


def test_steered_and_released_have_their_closed_forms() -> None:
    p, q, a_f, a_m, b_f, b_m = six(200)
    u, v, w2, w1 = a_f - a_m, b_f - b_m, a_f + a_m - 1, b_f + b_m - 1
    steered = np.abs(u - v) - np.abs(w2) - np.abs(w1)
    released = np.abs(u - v + w2) - np.abs(w2) - np.abs(w1)
    assert delta_c(p, q, a_f, a_m, b_f, b_m, estimator="steered") == pytest.approx(steered, abs=1e-12)
    assert delta_c(p, q, a_f, a_m, b_f, b_m, estimator="released") == pytest.approx(released, abs=1e-12)


def test_released_is_the_slip_that_it_is_said_to_be() -> None:
    _, _, a_f, a_m, b_f, b_m = six(200)

    def correlation(both: Numbers, prime: float, target: float | Numbers) -> Numbers:
        return 4 * both - 2 * prime - 2 * target + 1

    slip = correlation(a_f / 2, 0.5, 0.5) - correlation(b_f / 2, 0.5, (b_f + b_m) / 2)
    parts = delta_c_parts(0.5, 0.5, a_f, a_m, b_f, b_m, estimator="released")
    assert parts.correlation_difference == pytest.approx(np.abs(slip), abs=1e-12)


def test_printed_is_never_positive() -> None:
    corners = np.array(list(product([0.0, 0.5, 1.0], repeat=6))).T
    for values in (six(10_000), corners):
        assert np.max(delta_c(*values, estimator="printed")) <= IDENTITY_TOLERANCE


def test_steered_with_a_coin_is_self_primed_with_that_first_answer() -> None:
    values, coins = six(200), generator(0, "coins").random(200)
    as_first = delta_c(coins, coins, *values[2:])
    assert delta_c(*values, estimator="steered", coin=coins) == pytest.approx(np.asarray(as_first), abs=1e-12)


@pytest.mark.parametrize("estimator", ["steered", "released"])
def test_unprimed_answers_are_without_influence_where_the_prime_is_set(estimator: Estimator) -> None:
    values = six(100)
    other = np.concatenate([np.full((2, 100), np.nan), values[2:]])
    assert np.array_equal(delta_c(*values, estimator=estimator), delta_c(*other, estimator=estimator))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parts_add_up(estimator: Estimator) -> None:
    values = six(100)
    parts = delta_c_parts(*values, estimator=estimator)
    assert np.min(parts.correlation_difference) >= 0
    assert np.min(parts.signalling) >= 0
    assert np.array_equal(parts.delta_c, delta_c(*values, estimator=estimator))


def test_twice_the_qq_statistic_minus_signalling_is_joint() -> None:
    first, second = tables(1000)
    parts = delta_c_joint_parts(first, second)
    twice = 2 * np.abs(qq_statistic(first, second))
    assert parts.correlation_difference == pytest.approx(twice, abs=1e-12)
    assert delta_c_joint(first, second) == pytest.approx(twice - parts.signalling, abs=1e-12)


# Symmetries


@pytest.mark.parametrize("estimator", VALID)
def test_swapping_the_sentences_or_the_genders_changes_nothing(estimator: Estimator) -> None:
    p, q, a_f, a_m, b_f, b_m = six(300)
    before = np.asarray(delta_c(p, q, a_f, a_m, b_f, b_m, estimator=estimator))
    assert delta_c(q, p, b_f, b_m, a_f, a_m, estimator=estimator) == pytest.approx(before, abs=1e-12)
    genders = 1 - np.stack([p, q, a_m, a_f, b_m, b_f])
    assert delta_c(*genders, estimator=estimator) == pytest.approx(before, abs=1e-12)


def test_swapping_the_orders_or_the_sentences_changes_nothing_in_joint() -> None:
    first, second = tables(300)
    before = np.asarray(delta_c_joint(first, second))
    assert delta_c_joint(second, first) == pytest.approx(before, abs=1e-12)
    swapped = delta_c_joint(np.swapaxes(first, -1, -2), np.swapaxes(second, -1, -2))
    assert swapped == pytest.approx(before, abs=1e-12)
    assert delta_c_joint(first[..., ::-1, :], second[..., ::-1, :]) == pytest.approx(before, abs=1e-12)


# What it excludes: copying of equal strength


def equal_mixture(n: int) -> Numbers:
    """With one probability for both sentences the prime is copied, else the sentence answers as unprimed."""
    p, q, copied, *_ = six(n, "mixture")
    return np.stack([p, q, copied + (1 - copied) * q, (1 - copied) * q, copied + (1 - copied) * p, (1 - copied) * p])


def equal_contrast(n: int) -> Numbers:
    """The same with the prime's opposite."""
    p, q, a_f, a_m, b_f, b_m = equal_mixture(n)
    return np.stack([p, q, a_m, a_f, b_m, b_f])


def equal_logit_shift(n: int) -> Numbers:
    """Each prime moves both sentences by its own number of logits, in any direction."""
    one, two, feminine, masculine = generator(0, "shift").normal(scale=3, size=(4, n))
    return sigmoid(np.stack([one, two, two + feminine, two + masculine, one + feminine, one + masculine]))


@pytest.mark.parametrize("model", [equal_mixture, equal_contrast, equal_logit_shift])
@pytest.mark.parametrize("estimator", VALID)
def test_copying_of_equal_strength_is_never_contextual(model: object, estimator: Estimator) -> None:
    values = model(20_000)  # type: ignore[operator]
    assert np.max(delta_c(*values, estimator=estimator)) <= IDENTITY_TOLERANCE


def test_joint_tables_of_equal_log_odds_ratio_are_never_contextual() -> None:
    rng = generator(0, "equal log odds ratio")
    logits = rng.normal(scale=2, size=(2, 3, 20_000))  # sentence 1, sentence 2, shared by both orders
    tie = rng.normal(scale=3, size=20_000)
    weights = [
        np.exp(np.stack([np.stack([one + two + tie, one], -1), np.stack([two, 0 * one], -1)], -2))
        for one, two, _ in logits
    ]
    first, second = (w / w.sum(axis=(-2, -1), keepdims=True) for w in weights)
    assert np.max(np.abs(log_odds_ratio_difference(first, second))) < 1e-9
    assert np.max(delta_c_joint(first, second)) <= IDENTITY_TOLERANCE


def test_released_calls_equal_logit_shifts_contextual() -> None:
    assert np.mean(np.asarray(delta_c(*equal_logit_shift(20_000), estimator="released")) > 0.01) > 0.05


def test_copying_of_unequal_strength_is_contextual() -> None:
    for estimator in VALID:
        assert delta_c(0.5, 0.5, 0.9, 0.1, 0.6, 0.4, estimator=estimator) == pytest.approx(0.6)


# Any rank


def test_rank_2_is_joint() -> None:
    first, second = tables(300)
    signs = np.array([1, -1])
    both = np.stack([first, second], axis=1)
    correlations = np.einsum("ncst,s,t->nc", both, signs, signs)
    marginals = np.stack([np.einsum("ncst,s->nc", both, signs), np.einsum("ncst,t->nc", both, signs)], axis=1)
    assert cyclic_delta_c(correlations, marginals) == pytest.approx(np.asarray(delta_c_joint(first, second)), abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_s_odd_by_enumeration(n: int) -> None:
    rng = generator(0, "cyclic", n)
    correlations = np.concatenate([rng.uniform(-1, 1, (200, n)), rng.integers(-1, 2, (200, n))])  # zeros and ones too
    marginals = rng.uniform(-1, 1, (400, n, 2))
    odd = [signs for signs in product([1, -1], repeat=n) if signs.count(-1) % 2]
    expected = [
        max(float(np.dot(signs, c)) for signs in odd) - (n - 2) - sum(abs(x - y) for x, y in m)
        for c, m in zip(correlations, marginals, strict=True)
    ]
    assert cyclic_delta_c(correlations, marginals) == pytest.approx(expected, abs=1e-12)


def test_bell_bound() -> None:
    root = np.sqrt(0.5)
    assert cyclic_delta_c([root, root, root, -root], np.zeros((4, 2))) == pytest.approx(2 * np.sqrt(2) - 2)


# Input


def test_scalars_give_floats_and_arrays_broadcast() -> None:
    assert type(delta_c(0.5, 0.5, 0.5, 0.5, 0.5, 0.5)) is float
    assert type(delta_c(np.float64(0.5), 0, 1, 0, 1, 0, estimator="printed")) is float
    parts = delta_c_parts(np.full((3, 1), 0.5), 0.5, np.full(4, 0.5), 0.5, 0.5, 0.5, estimator="steered")
    assert np.shape(parts.correlation_difference) == np.shape(parts.signalling) == (3, 4)
    assert type(delta_c_joint(np.full((2, 2), 0.25), np.full((2, 2), 0.25))) is float
    assert type(cyclic_delta_c([0.0, 0.0], np.zeros((2, 2)))) is float
    assert Parts(1.0, 0.5).delta_c == 0.5


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_nan_passes_through(estimator: Estimator) -> None:
    values = np.array([[0.5, np.nan], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, np.nan], [0.5, 0.5]])
    assert np.isnan(delta_c(*values, estimator=estimator)).tolist() == [False, True]
    assert np.isnan(cyclic_delta_c([np.nan, 1.0], np.zeros((2, 2))))
    assert np.isnan(delta_c_joint(np.full((2, 2), np.nan), np.full((2, 2), 0.25)))


def test_arguments_stay_as_they_were() -> None:
    values = six(5)
    before = values.copy()
    for estimator in ESTIMATORS:
        delta_c(*values, estimator=estimator)
    assert np.array_equal(values, before)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_probabilities_out_of_range_are_quoted(estimator: Estimator) -> None:
    with pytest.raises(OptionError, match=r"q holds 1\.5: give probabilities"):
        delta_c(0.5, [0.5, 1.5], 0.5, 0.5, 0.5, 0.5, estimator=estimator)
    with pytest.raises(OptionError, match=r"b_m holds -0\.1"):
        delta_c(0.5, 0.5, 0.5, 0.5, 0.5, -0.1, estimator=estimator)


def test_bad_input_is_quoted() -> None:
    with pytest.raises(
        OptionError, match=r"estimator is 'joint': give one of self_primed, steered, released, printed\."
    ):
        delta_c(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, estimator="joint")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="coin holds 2"):
        delta_c(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, estimator="steered", coin=2)
    with pytest.raises(OptionError, match=r"joint_o2 holds a table that sums to 0\.9"):
        delta_c_joint(np.full((2, 2), 0.25), [[0.9, 0.0], [0.0, 0.0]])
    with pytest.raises(OptionError, match=r"joint_o1 holds -0\.25"):
        delta_c_joint([[-0.25, 0.75], [0.25, 0.25]], np.full((2, 2), 0.25))
    with pytest.raises(OptionError, match=r"correlations holds 1\.1"):
        cyclic_delta_c([1.1, 0.0], np.zeros((2, 2)))
    for correlations, marginals in ((np.zeros(3), np.zeros((2, 2))), (np.zeros(1), np.zeros((1, 2))), (0.5, 0.5)):
        with pytest.raises(OptionError, match="with n of 2 or more"):
            cyclic_delta_c(correlations, marginals)
