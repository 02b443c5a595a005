"""Oracles: tables worked by hand, and expectations by loops over answers."""

import doctest

import numpy as np
import pytest
from numpy.typing import NDArray

from referent_probe.analysis import joint_tables
from referent_probe.analysis.contextuality import cyclic_delta_c
from referent_probe.analysis.joint_tables import (
    list_order_cycle,
    log_odds_ratio,
    log_odds_ratio_difference,
    qq_statistic,
    self_primed_joint,
)
from referent_probe.errors import OptionError
from referent_probe.randomness import generator

INDEPENDENT = np.full((2, 2), 0.25)
AGREE = np.array([[0.5, 0.0], [0.0, 0.5]])


def logit(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(p / (1 - p))


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(joint_tables).failed == 0


def test_self_primed_tables_by_hand() -> None:
    o1, o2 = self_primed_joint(0.5, 0.2, 0.6, 0.4, 0.9, 0.7)
    assert o1.tolist() == pytest.approx(np.array([[0.3, 0.2], [0.2, 0.3]]))  # rows: sentence 1, the first blank
    assert o2.tolist() == pytest.approx(np.array([[0.18, 0.56], [0.02, 0.24]]))  # columns: sentence 2, the first blank


def test_self_primed_tables_keep_what_they_were_made_of() -> None:
    p, q, a_f, a_m, b_f, b_m = generator(0, "six").random((6, 100))
    o1, o2 = self_primed_joint(p, q, a_f, a_m, b_f, b_m)
    assert o1.sum(axis=(1, 2)) == pytest.approx(1)
    assert o2.sum(axis=(1, 2)) == pytest.approx(1)
    assert o1.sum(axis=2)[:, 0] == pytest.approx(p)
    assert o2.sum(axis=1)[:, 0] == pytest.approx(q)
    second_given_first, first_given_second = o1[:, :, 0] / o1.sum(axis=2), o2[:, 0, :] / o2.sum(axis=1)
    assert second_given_first == pytest.approx(np.stack([a_f, a_m], axis=1))
    assert first_given_second == pytest.approx(np.stack([b_f, b_m], axis=1))
    assert log_odds_ratio(o1) == pytest.approx(logit(a_f) - logit(a_m))
    assert log_odds_ratio(o2) == pytest.approx(logit(b_f) - logit(b_m))


def test_self_primed_tables_broadcast() -> None:
    o1, o2 = self_primed_joint(np.full((3, 1), 0.5), 0.5, np.full(4, 0.5), 0.5, 0.5, 0.5)
    assert o1.shape == o2.shape == (3, 4, 2, 2)


def test_log_odds_ratio_of_extremes() -> None:
    assert log_odds_ratio(AGREE) == np.inf
    assert log_odds_ratio(AGREE[::-1]) == -np.inf
    assert np.isnan(log_odds_ratio([[1.0, 0.0], [0.0, 0.0]]))
    assert np.isnan(log_odds_ratio_difference(AGREE, AGREE))  # infinite in both orders
    assert log_odds_ratio_difference(AGREE, INDEPENDENT) == np.inf


def test_qq_statistic_is_antisymmetric_and_takes_arrays() -> None:
    first, second = generator(0, "qq").dirichlet(np.ones(4), (2, 50)).reshape(2, 50, 2, 2)
    there, back = np.asarray(qq_statistic(first, second)), np.asarray(qq_statistic(second, first))
    assert there == pytest.approx(-back)
    assert there == pytest.approx([x[0, 0] + x[1, 1] - y[0, 0] - y[1, 1] for x, y in zip(first, second, strict=True)])


def test_list_order_cycle_by_loops() -> None:
    joints = generator(0, "cycle").dirichlet(np.ones(4), (2, 2)).reshape(2, 2, 2, 2)
    answers = [(s, t, 1 - 2 * s, 1 - 2 * t) for s in (0, 1) for t in (0, 1)]

    def mean(i: int, j: int, what: str) -> float:
        values = {"product": lambda x, y: x * y, "first": lambda x, y: x, "second": lambda x, y: y}
        return float(sum(joints[i, j, s, t] * values[what](x, y) for s, t, x, y in answers))

    correlations, marginals = list_order_cycle(joints)
    assert correlations == pytest.approx([mean(i, j, "product") for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))])
    expected = [[mean(i, j, "first") for j in (0, 1)] for i in (0, 1)]
    expected += [[mean(i, j, "second") for i in (0, 1)] for j in (0, 1)]
    assert marginals == pytest.approx(np.array(expected))


def test_list_order_cycle_takes_arrays_and_finds_a_contextual_system() -> None:
    box = np.stack([np.stack([AGREE, AGREE]), np.stack([AGREE, AGREE[::-1]])])
    correlations, marginals = list_order_cycle(np.stack([box, np.full((2, 2, 2, 2), 0.25)]))
    assert np.asarray(cyclic_delta_c(correlations, marginals)).tolist() == [2.0, -2.0]


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], "joint holds a table that sums to 2"),
        ([[-0.5, 0.5], [0.5, 0.5]], "joint holds -0.5"),
        ([0.5, 0.5], r"joint has shape \(2,\)"),
        ("no table", "joint is 'no table'"),
    ],
)
def test_bad_tables_are_quoted(joint: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        log_odds_ratio(joint)  # type: ignore[arg-type]


def test_four_by_four_tables_are_asked_for() -> None:
    with pytest.raises(OptionError, match=r"joints has shape \(3, 2, 2\)"):
        list_order_cycle(np.full((3, 2, 2), 0.25))
