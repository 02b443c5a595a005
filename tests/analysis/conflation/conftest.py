"""Tables of held-out pairs, from the rules of the planted models and at random."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from referent_probe.analysis.conflation.pair_rows import CUTS, PairRows, pair_rows
from referent_probe.planted.rules import MIDPOINT, RULES, Carrier

OWNER_SPECIFIC = {"K": ("own", "own or other", "other"), "R": ("last",)}
OWNER_SPECIFIC["KR"] = (*OWNER_SPECIFIC["K"], *OWNER_SPECIFIC["R"])


def effect(carriers: tuple[Carrier, ...], prime: str, referent: str) -> float:
    return sum(c.effect for c in carriers if c.moved_by(prime) and c.only in (None, referent))


def planted_table(name: str, n_pairs: int = 24, *, constant: float = 0.0) -> pd.DataFrame:
    """What cutting the carriers of a planted model does to every pair, by its rule.

    Args:
        name: Of the planted model.
        n_pairs: One pair an occupation; member 1 is the blank of the occupation in every other pair.
        constant: What the cut takes from every midpoint.
    """
    rule, rows = RULES[name], []
    for i in range(n_pairs):
        for member, referent in enumerate(("occupation", "participant")[:: 1 if i % 2 else -1], start=1):
            row = {"pair": f"pair {i:02}", "occupation": f"role {i:02}", "member": member, "option_order": "fm"}
            row |= {"m": MIDPOINT, "m0": MIDPOINT, "e": effect(rule.carriers, "partner", referent)}
            row["e_third_frame"] = effect(rule.carriers, "third_frame", referent)
            for cut in CUTS:
                left = tuple(c for c in rule.carriers if c.reads not in OWNER_SPECIFIC[cut])
                row |= {f"e_{cut}": effect(left, "partner", referent), f"m_{cut}": MIDPOINT - constant}
            rows.append(row)
    return pd.DataFrame(rows)


def random_table(seed: int, n_occupations: int = 12, pairs_each: int = 4) -> pd.DataFrame:
    """Pairs with effects and midpoints of all sizes, before and after cuts, in both option orders."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n_occupations * pairs_each):
        for order in ("fm", "mf"):
            for member in (1, 2):
                row = {"pair": f"pair {i:02}", "occupation": f"role {i % n_occupations:02}", "member": member}
                row |= {"option_order": order, "m0": rng.normal(0, 0.5)}
                for suffix, scale in (("", 4.0), ("_K", 2.0), ("_R", 3.0), ("_KR", 1.0)):
                    row |= {f"m{suffix}": rng.normal(0, 0.5), f"e{suffix}": scale * rng.gamma(0.7)}
                row["e_third_frame"] = 2.0 * rng.gamma(0.7)
                rows.append(row)
    return pd.DataFrame(rows)


@pytest.fixture
def planted() -> Callable[..., pd.DataFrame]:
    return planted_table


@pytest.fixture
def at_random() -> Callable[..., pd.DataFrame]:
    return random_table


@pytest.fixture
def rows_of() -> Callable[[Mapping[str, NDArray[np.float64]]], PairRows]:
    """Rows from `[n_rows, 2]` arrays by name (e, and what is not as before any cut), each row an occupation."""

    def build(arrays: Mapping[str, NDArray[np.float64]]) -> PairRows:
        n = len(arrays["e"])
        found = {"m": np.full((n, 2), MIDPOINT), "m0": np.full((n, 2), MIDPOINT), **arrays}
        for cut in CUTS:
            found = {f"m_{cut}": found["m"], f"e_{cut}": found["e"], **found}
        parts = [
            pd.DataFrame({name: values[:, i] for name, values in found.items()}).assign(
                member=i + 1, pair=[f"pair {j:04}" for j in range(n)], occupation=[f"role {j:04}" for j in range(n)]
            )
            for i in (0, 1)
        ]
        return pair_rows(pd.concat(parts).assign(option_order="fm"))

    return build
