"""Oracles: dC of cyclic systems, systems whose least mismatch can be counted by hand, and laws of any measure."""

import doctest
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from referent_probe.analysis import couplings
from referent_probe.analysis.contextuality import cyclic_delta_c, delta_c, delta_c_joint
from referent_probe.analysis.couplings import System, contextuality_lp
from referent_probe.analysis.joint_tables import list_order_cycle, self_primed_joint
from referent_probe.errors import OptionError
from referent_probe.randomness import generator

Numbers = NDArray[np.float64]
AGREE = np.array([[0.5, 0.0], [0.0, 0.5]])
DISAGREE = AGREE[::-1]


def two_orders(o1: Numbers, o2: Numbers) -> System:
    return System({"o1": (("x1", "x2"), o1), "o2": (("x1", "x2"), o2)})


def cycle(joints: Numbers) -> System:
    n = len(joints)
    return System({str(i): ((f"x{i}", f"x{(i + 1) % n}"), table) for i, table in enumerate(joints)})


# Random systems of which a fair part is contextual: the linear program, and dC


def steered(rng: np.random.Generator) -> tuple[float, float]:
    six = rng.random(6)
    return contextuality_lp(two_orders(*self_primed_joint(0.5, 0.5, *six[2:]))), float(
        delta_c(*six, estimator="steered")
    )


def self_primed(rng: np.random.Generator) -> tuple[float, float]:
    six = rng.random(6)
    return contextuality_lp(two_orders(*self_primed_joint(*six))), float(delta_c(*six, estimator="self_primed"))


def joint(rng: np.random.Generator) -> tuple[float, float]:
    o1, o2 = rng.dirichlet(np.full(4, 0.5), 2).reshape(2, 2, 2)
    return contextuality_lp(two_orders(o1, o2)), float(delta_c_joint(o1, o2))


def rank_4(rng: np.random.Generator) -> tuple[float, float]:
    box = np.array([[AGREE, AGREE], [AGREE, DISAGREE]])
    share = rng.random()  # noise alone is next to never contextual
    joints = share * box + (1 - share) * rng.dirichlet(np.ones(4), (2, 2)).reshape(2, 2, 2, 2)
    names = [(i, j) for i in (0, 1) for j in (0, 1)]
    system = System({f"{i}{j}": ((f"sentence 1, {i}", f"sentence 2, {j}"), joints[i, j]) for i, j in names})
    return contextuality_lp(system), float(cyclic_delta_c(*list_order_cycle(joints)))


Family = Callable[[np.random.Generator], tuple[float, float]]
FAMILIES = pytest.mark.parametrize("family", [steered, self_primed, joint, rank_4])


def agrees_on(n: int, family: Family) -> None:
    rng = generator(0, "linear program", family.__name__)
    found, degrees = np.array([family(rng) for _ in range(n)]).T
    assert np.array_equal(found > 0, degrees > 0)
    assert found == pytest.approx(np.maximum(0, degrees) / 2, abs=1e-9)
    assert 0.05 < np.mean(degrees > 0) < 0.95  # both signs were seen


@FAMILIES
def test_it_is_half_of_a_positive_degree(family: Family) -> None:
    agrees_on(150, family)


@pytest.mark.slow
@FAMILIES
def test_it_is_half_of_a_positive_degree_on_a_thousand_systems(family: Family) -> None:
    agrees_on(1000, family)


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(couplings).failed == 0


@pytest.mark.parametrize("n", [3, 5])
def test_other_ranks(n: int) -> None:
    rng, signs = generator(0, "rank", n), np.array([1, -1])
    for _ in range(10):
        share = rng.random()
        box = np.array([AGREE] * (n - 1) + [DISAGREE])
        joints = share * box + (1 - share) * rng.dirichlet(np.ones(4), n).reshape(n, 2, 2)
        correlations = np.einsum("nst,s,t->n", joints, signs, signs)
        first, second = np.einsum("nst,s->n", joints, signs), np.einsum("nst,t->n", joints, signs)
        degree = float(cyclic_delta_c(correlations, np.stack([first, np.roll(second, 1)], axis=-1)))
        assert contextuality_lp(cycle(joints)) == pytest.approx(max(0, degree) / 2, abs=1e-9)


# Systems that are not cyclic


def test_three_parties_must_differ_once() -> None:
    """Greenberger, Horne, Zeilinger: the products XXX = -1, XYY = YXY = YYX = 1 allow no common values.

    The product of all four is that of squares, 1, if every content has one value; one difference repairs it.
    """

    def parity(sign: int) -> Numbers:
        return np.array([np.prod(v) == sign for v in product([1, -1], repeat=3)]).reshape(2, 2, 2) / 4

    contexts = {"XXX": -1, "XYY": 1, "YXY": 1, "YYX": 1}
    system = System(
        {name: (tuple(f"{x}{i}" for i, x in enumerate(name)), parity(sign)) for name, sign in contexts.items()}
    )
    assert len(system.variables) == 12
    assert contextuality_lp(system) == pytest.approx(1)


def test_a_content_in_three_contexts_counts_in_every_pair_of_them() -> None:
    both = ("x", "y")
    system = System({"1": (both, AGREE), "2": (both, DISAGREE), "3": (both, AGREE)})
    assert contextuality_lp(system) == pytest.approx(2)  # 1 against 2, and 2 against 3


def test_contents_alone_are_never_contextual() -> None:
    rows = generator(0, "alone").dirichlet(np.ones(2), 4)
    assert contextuality_lp(System({str(i): (("x",), row) for i, row in enumerate(rows)})) == 0


def test_parts_of_one_joint_distribution_are_never_contextual() -> None:
    whole = generator(0, "whole").dirichlet(np.ones(8)).reshape(2, 2, 2)
    names = ("x", "y", "z")
    kept = ((0, 1), (1, 2), (0, 2), (0, 1, 2))
    contexts = {
        str(i): (tuple(names[k] for k in axes), whole.sum(axis=tuple({0, 1, 2} - set(axes))))
        for i, axes in enumerate(kept)
    }
    assert contextuality_lp(System(contexts)) == 0


def test_a_further_context_never_lowers_it() -> None:
    rng, both = generator(0, "further"), ("x", "y")
    for _ in range(20):
        tables = rng.dirichlet(np.full(4, 0.3), 3).reshape(3, 2, 2)
        contexts = {str(i): (both, table) for i, table in enumerate(tables)}
        fewer = {name: contexts[name] for name in ("0", "1")}
        assert contextuality_lp(System(contexts)) >= contextuality_lp(System(fewer)) - 1e-9


def test_order_of_contexts_and_contents_and_names_of_values_change_nothing() -> None:
    rng = generator(0, "relabelled")
    joints = 0.8 * np.array([AGREE, AGREE, DISAGREE]) + 0.2 * rng.dirichlet(np.ones(4), 3).reshape(3, 2, 2)
    before = contextuality_lp(cycle(joints))
    assert before > 0
    contexts = dict(reversed(cycle(joints).contexts.items()))
    turned = {name: (contents[::-1], np.asarray(table).T) for name, (contents, table) in contexts.items()}
    flipped = {name: (contents, np.asarray(table)[::-1, ::-1]) for name, (contents, table) in contexts.items()}
    for other in (contexts, turned, flipped):
        assert contextuality_lp(System(other)) == pytest.approx(before, abs=1e-9)


# Input


def test_the_system_keeps_a_copy() -> None:
    table = AGREE.copy()
    system = two_orders(table, DISAGREE)
    table[:] = 0.25
    assert contextuality_lp(system) == pytest.approx(1)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(system.contexts["o1"][1])[0, 0] = 1


def test_sums_of_float32_are_taken() -> None:
    assert contextuality_lp(two_orders(AGREE * (1 + 5e-7), DISAGREE * (1 - 5e-7))) == pytest.approx(1)


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ({}, "no context"),
        ({"a": (("x", "x"), AGREE)}, r"context 'a' holds \('x', 'x'\)"),
        ({"a": ((), 1.0)}, r"context 'a' holds \(\)"),
        ({"a": (("x",), AGREE)}, r"the table of context 'a' has shape \(2, 2\): give \(2,\)"),
        ({"a": (("x",), [1.5, -0.5])}, "the table of context 'a' holds -0.5"),
        ({"a": (("x",), [np.nan, 0.5])}, "the table of context 'a' holds nan"),
        ({"a": (("x",), [0.5, 0.4])}, "the table of context 'a' sums to 0.9"),
        ({str(i): (("x", "y"), AGREE) for i in range(9)}, "the system has 18 variables: split it up, 16 are the most"),
    ],
)
def test_bad_systems_are_quoted(contexts: dict[str, tuple[tuple[str, ...], object]], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        System(contexts)  # type: ignore[arg-type]
