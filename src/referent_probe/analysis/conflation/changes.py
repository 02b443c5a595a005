"""What a cut does to dC: through the effects or through the midpoints, and to which pairs.

Only the part through e says that the cut heads carry the prime. A head that reads no pronoun moves m, and with it dC,
for no reason of interest: damage. And a share of pairs that stop says nothing without those that start.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.analysis.conflation.intervals import N_RESAMPLES, studentized
from referent_probe.analysis.conflation.pair_rows import CUTS, PairRows


def split(rows: PairRows, seed: int, *, n_resamples: int = N_RESAMPLES) -> pd.DataFrame:
    """Change of dC under each cut as a part through e and a part through m, which add up to it exactly.

    Each part is the mean of what replacing that one does first and what it does last.

    Args:
        rows: Held-out pairs.
        seed: Of the bootstrap.
        n_resamples: Bootstrap samples.

    Returns:
        One row a reading, cut and set of pairs: `reading`, `cut`, `pairs` ("contextual" before the cut, or "all"),
        `n_rows` (pairs by option orders), and mean `change`, `through_e`, `through_m` with `_low` and `_high` (95 %
        over occupations); nan where there are no such pairs.

    Example:
        A cut that moves both midpoints by -3 and leaves the effects has `through_e` 0.
    """
    found = []
    for reading in rows.readings:
        contextual = rows.contextual(reading)
        for cut in CUTS:
            m, e = rows.m_after[cut], rows.e_after[cut]
            neither, both = rows.delta_c(reading), rows.delta_c(reading, m=m, e=e)
            only_e, only_m = rows.delta_c(reading, e=e), rows.delta_c(reading, m=m)
            through_e = ((only_e - neither) + (both - only_m)) / 2
            through_m = ((only_m - neither) + (both - only_e)) / 2
            parts = {"change": both - neither, "through_e": through_e, "through_m": through_m}
            for pairs, which in (("contextual", contextual), ("all", np.ones(len(contextual), dtype=bool))):
                about = {"reading": reading, "cut": cut, "pairs": pairs, "n_rows": int(which.sum())}
                found.append(about | _means(rows, parts, which, seed, n_resamples))
    return pd.DataFrame(found)


def transitions(rows: PairRows, seed: int, *, n_resamples: int = N_RESAMPLES) -> pd.DataFrame:
    """Which pairs are contextual before and after each cut, over all pairs.

    Args:
        rows: Held-out pairs.
        seed: Of the bootstrap.
        n_resamples: Bootstrap samples.

    Returns:
        One row a reading, cut and `changed` ("e": midpoints as they were, as the shares are counted; "e and m": the
        cut model as it is): the numbers of rows `kept`, `lost`, `gained`, `never`, their sum `n_rows`, and
        `net_change`, the share of contextual rows after less before, with `_low` and `_high` (95 % over occupations).

    Example:
        Two pairs that swap being contextual are one lost, one gained, and a net change of 0.
    """
    found = []
    for reading in rows.readings:
        before = rows.contextual(reading)
        for cut in CUTS:
            e, m = rows.e_after[cut], rows.m_after[cut]
            for changed, after in (
                ("e", rows.contextual(reading, e=e)),
                ("e and m", rows.contextual(reading, m=m, e=e)),
            ):
                cells = {
                    "kept": before & after,
                    "lost": before & ~after,
                    "gained": ~before & after,
                    "never": ~before & ~after,
                }
                about = {"reading": reading, "cut": cut, "changed": changed, "n_rows": len(before)}
                counts = {name: int(cell.sum()) for name, cell in cells.items()}
                net = {"net_change": after.astype(np.float64) - before}
                every = np.ones(len(before), dtype=bool)
                found.append(about | counts | _means(rows, net, every, seed, n_resamples))
    return pd.DataFrame(found)


def _means(
    rows: PairRows, parts: dict[str, NDArray[np.float64]], which: NDArray[np.bool_], seed: int, n_resamples: int
) -> dict[str, float]:
    """Mean of each part over these rows, with its interval over occupations."""
    table = pd.DataFrame(parts).assign(_n=1.0).mul(which, axis=0)
    sums = table.groupby(rows.keys["occupation"].to_numpy()).sum().to_numpy(dtype=np.float64)
    found = studentized(sums[:, :-1], sums[:, -1:], n_resamples=n_resamples, seed=seed)
    low, high = found.interval()
    return {
        column: float(value)
        for i, name in enumerate(parts)
        for column, value in ((name, found.estimate[i]), (f"{name}_low", low[i]), (f"{name}_high", high[i]))
    }
