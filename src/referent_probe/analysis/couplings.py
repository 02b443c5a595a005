"""Contextuality of any system of binary variables, by a linear program over couplings.

A coupling gives all variables of a system, one for each content and context, a joint distribution that keeps the
distribution within each context. A system is contextual if no coupling makes the same content as equal across contexts
as its marginals allow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from referent_probe.analysis.joint_tables import IDENTITY_TOLERANCE
from referent_probe.errors import OptionError

MAX_VARIABLES = 16
"""Most variables of a system: the linear program has 2 to this power unknowns."""

_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class System:
    """Binary variables in contexts: which contents each context holds, and their joint distribution there.

    Attributes:
        contexts: From the name of a context to its contents and their table, `(2,) * number of contents`: one axis a
            content, in their order, the same value at the same index in every context. Tables sum to 1.

    Raises:
        OptionError: No context, a content twice in a context, a table of another shape, a negative cell or one that is
            not a number, a sum off 1 by over 1e-6, or more than `MAX_VARIABLES` variables.

    Example:
        >>> o1, o2 = [[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]]
        >>> System({"o1": (("x1", "x2"), o1), "o2": (("x1", "x2"), o2)}).variables
        (('o1', 'x1'), ('o1', 'x2'), ('o2', 'x1'), ('o2', 'x2'))
    """

    contexts: Mapping[str, tuple[tuple[str, ...], ArrayLike]]

    def __post_init__(self) -> None:
        if not self.contexts:
            raise OptionError("the system has no context: give at least one.")
        kept = {name: (tuple(contents), _table(name, contents, t)) for name, (contents, t) in self.contexts.items()}
        object.__setattr__(self, "contexts", kept)  # a copy: later changes of the argument do not reach it
        if len(self.variables) > MAX_VARIABLES:
            n = len(self.variables)
            raise OptionError(f"the system has {n} variables: split it up, {MAX_VARIABLES} are the most.")

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Context and content of every variable, in order."""
        return tuple((name, content) for name, (contents, _) in self.contexts.items() for content in contents)


def contextuality_lp(system: System) -> float:
    """How much more often a content must differ between contexts than its marginals require.

    The least sum of P(S_c != S_c') over all contents S and pairs of contexts c, c' that hold S, in couplings that keep
    the contexts' tables, minus the sum of what each pair alone can reach, |P(S_c = 0) - P(S_c' = 0)|. All pairs of a
    content count, not neighbours alone: binary variables have one coupling that is maximal for all pairs at once (the
    multimaximal one), so that 0 means noncontextual for any number of contexts.

    For cyclic systems of any rank it is max(0, dC) / 2. Kujala and Dzhafarov's CNT1 counts P(S_c = S_c' = 1) in place
    of P(S_c != S_c'), which makes it half as large for every system.

    Args:
        system: At most 16 variables. 8 take milliseconds, 16 a second or more.

    Returns:
        At least 0; positive where the system is contextual. Below `IDENTITY_TOLERANCE` it is set to 0, as the solver's
        rounding.

    Source: Dzhafarov, Kujala 2017, Contextuality-by-Default 2.0: systems with binary random variables; Kujala,
    Dzhafarov 2019, Measures of contextuality and noncontextuality (CNT1).

    Example:
        >>> o1, o2 = [[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]]
        >>> contextuality_lp(System({"o1": (("x1", "x2"), o1), "o2": (("x1", "x2"), o2)}))
        1.0
    """
    variables = system.variables
    values = np.arange(2 ** len(variables)) >> np.arange(len(variables))[:, None] & 1  # [variable, outcome]
    constraints, targets = _kept_tables(system, values)
    first = _first_value_probabilities(system)
    cost, reachable = np.zeros(values.shape[1]), 0.0
    for (i, (_, content)), (j, (_, other)) in combinations(enumerate(variables), 2):
        if content == other:
            cost += values[i] != values[j]
            reachable += abs(first[i] - first[j])
    tolerances = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = linprog(cost, A_eq=constraints, b_eq=targets, method="highs", options=tolerances)
    if not solution.success:  # independent contexts are always a coupling, so it is the solver that failed
        raise RuntimeError(f"no coupling of {variables} was found: {solution.message}")
    excess = float(solution.fun - reachable)
    return excess if excess > IDENTITY_TOLERANCE else 0.0


def _kept_tables(system: System, values: NDArray[np.int64]) -> tuple[csr_array, NDArray[np.float64]]:
    """A row for every cell of every context: the outcomes that fall in the cell, and its probability."""
    outcomes, rows, start, row = np.arange(values.shape[1]), [], 0, 0
    for contents, table in system.contexts.values():
        size = len(contents)
        rows.append(row + np.ravel_multi_index(tuple(values[start : start + size]), np.shape(table)))
        start, row = start + size, row + 2**size
    index = np.concatenate(rows)
    shape = row, len(outcomes)
    matrix = csr_array((np.ones(len(index)), (index, np.tile(outcomes, len(rows)))), shape=shape)
    return matrix, np.concatenate([np.ravel(table) for _, table in system.contexts.values()])


def _first_value_probabilities(system: System) -> list[float]:
    """P(value at index 0) of every variable, in order."""
    return [
        float(np.take(np.asarray(table), 0, axis=axis).sum())
        for contents, table in system.contexts.values()
        for axis in range(len(contents))
    ]


def _table(name: str, contents: tuple[str, ...], table: ArrayLike) -> NDArray[np.float64]:
    if not contents or len(set(contents)) < len(contents):
        raise OptionError(f"context {name!r} holds {contents!r}: name one or more contents, each once.")
    array = np.array(table, dtype=np.float64)
    if array.shape != (2,) * len(contents):
        raise OptionError(f"the table of context {name!r} has shape {array.shape}: give {(2,) * len(contents)}.")
    if not (array >= -IDENTITY_TOLERANCE).all():  # NaN too
        raise OptionError(f"the table of context {name!r} holds {array.min():g}: give probabilities, from 0 to 1.")
    total = float(array.sum())
    if abs(total - 1) > _SUM_TOLERANCE:
        raise OptionError(f"the table of context {name!r} sums to {total:g}: divide its cells by their sum.")
    array = np.maximum(array, 0)
    array /= array.sum()  # sums that differ between contexts would leave no coupling
    array.flags.writeable = False
    return array
