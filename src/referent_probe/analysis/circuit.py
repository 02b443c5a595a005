"""Does a circuit do what the model does, with all of its heads and no more than it needs?

A circuit C is a set of heads at the target slot. F(C) is the prime's effect on the answer when every head outside C
puts out what it puts out in the other run, while the heads of C run on: F of all heads is the total effect, F of none
is 0, exactly, since at the target slot nothing else tells the runs apart.

Source: Wang et al. 2022, Interpretability in the wild (arXiv 2211.00593), section 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from referent_probe.analysis.carriers import ROUNDING, share_of_total
from referent_probe.analysis.inference import bootstrap_intervals, cluster_means, max_t_sign_flip
from referent_probe.randomness import generator

COMPLETE_WITHIN = 0.1
"""Share of the total effect by which F(C without K) and F(M without K) may differ for every K, and F(C) from F(M)."""
NEEDED_FROM = 0.01
"""Share of the total effect that a head of the circuit must change for some K."""


@dataclass(frozen=True, eq=False)
class CircuitChecks:
    """Verdict on a circuit, with the numbers it rests on.

    Attributes:
        table: Rows as `figures_circuit.circuit_checks` takes them: `check` (faithfulness, completeness, minimality),
            `label` (of completeness, how many heads K has), `removed` (the heads of K), `size`, `circuit`, `model`,
            `change` with `_mean`, `_low`, `_high` (95 % over occupations; logits), `n` occupations.
        faithfulness: F(C) over F(M), with its interval; NaN where the total effect is near 0.
        complete: Whether C is faithful and complete within `COMPLETE_WITHIN`; None where the total effect is near 0.
        minimal: Whether every head is needed; None where the total effect is near 0.
        not_needed: Heads that change less than `NEEDED_FROM` for every K; () where the total effect is near 0.
    """

    table: pd.DataFrame
    faithfulness: tuple[float, float, float]
    complete: bool | None
    minimal: bool | None
    not_needed: tuple[str, ...]


def check_circuit(effects: pd.DataFrame, heads: Sequence[str], seed: int) -> CircuitChecks:
    """Judge a circuit by the effects that are left in it, and in the model, without subsets of its heads.

    Args:
        effects: One row a contrast and set: `occupation`, `of` ("circuit": heads outside it are taken from the other
            run; "model": only the removed ones are), `removed` (names of the circuit's heads that are removed,
            joined by " "; "" for none), `effect` and `total_effect` in logits.
        heads: Names of the circuit's heads.
        seed: Of the bootstrap.

    Returns:
        The checks.

    Example:
        A circuit of one head that carries all of an effect of 4: F(C) = 4 = F(M), and without it both are 0.
    """
    means = effects.groupby(["of", "removed", "occupation"])["effect"].mean().unstack("occupation")
    total = effects.groupby("occupation")["total_effect"].mean()
    scale = float(np.sqrt((total**2).mean()))
    rows: list[dict[str, object]] = []
    circuit, model = (
        {str(removed): values for removed, values in means.loc[of].iterrows()} for of in ("circuit", "model")
    )
    rows.append(
        {"check": "faithfulness", "label": "circuit", "size": len(heads)}
        | _estimate("circuit", circuit[""], seed)
        | _estimate("model", model[""], seed)
    )
    gaps = [abs(float(circuit[""].mean() - model[""].mean()))]
    for removed in model:
        if removed:
            out = len(removed.split(" "))
            gaps.append(abs(float(circuit[removed].mean() - model[removed].mean())))
            rows.append(
                {"check": "completeness", "label": _how_many(out, len(heads)), "size": len(heads) - out}
                | {"removed": removed}
                | _estimate("circuit", circuit[removed], seed)
                | _estimate("model", model[removed], seed)
            )
    not_needed = []
    for head in heads:
        changes = {
            removed: circuit[removed] - circuit[with_it]
            for removed in circuit
            if head not in removed.split(" ")
            and (with_it := " ".join(h for h in heads if h in {*removed.split(" "), head})) in circuit
        }
        # Size over occupations: changes of opposite signs shall not cancel, nor one occupation's noise decide.
        best = max(changes.values(), key=lambda change: float(np.abs(change).mean()))
        if float(np.abs(best).mean()) < NEEDED_FROM * scale:
            not_needed.append(head)
        rows.append({"check": "minimality", "label": head, "size": len(heads)} | _estimate("change", best, seed))
    table = pd.DataFrame(rows).assign(n=len(total))
    if scale < ROUNDING:
        return CircuitChecks(table, (np.nan, np.nan, np.nan), complete=None, minimal=None, not_needed=())
    return CircuitChecks(
        table=table,
        faithfulness=_ratio(circuit[""], total, seed),
        complete=bool(max(gaps) <= COMPLETE_WITHIN * scale),
        minimal=not not_needed,
        not_needed=tuple(not_needed),
    )


def _how_many(removed: int, heads: int) -> str:
    """How many heads a set has, in the words of a legend."""
    if removed == heads:
        return "all heads"
    if removed == 1:
        return "one head"
    return "all heads but one" if removed == heads - 1 else "several heads"


def _estimate(name: str, values: "pd.Series[float]", seed: int) -> dict[str, float]:
    row = bootstrap_intervals(values.to_numpy(dtype=np.float64)[:, None], seed=seed).iloc[0]
    return {f"{name}_{part}": float(row[part]) for part in ("mean", "low", "high")}


def _ratio(effect: "pd.Series[float]", total: "pd.Series[float]", seed: int) -> tuple[float, float, float]:
    interval = bootstrap_intervals(total.to_numpy(dtype=np.float64)[:, None], seed=seed).iloc[0]
    if len(total) < 2 or not (interval["low"] > 0 or interval["high"] < 0):
        return np.nan, np.nan, np.nan
    found = share_of_total(
        np.array(effect, dtype=np.float64), np.array(total, dtype=np.float64), generator(seed, "faithfulness")
    )
    return found.mean, found.low, found.high


def changed_by_ablation(alone: pd.DataFrame, without: pd.DataFrame, smallest: float, seed: int) -> pd.DataFrame:
    """Which heads' effects change when the leading heads are held at the other run's: backup heads, and negative ones.

    Args:
        alone: One row a contrast and head: `contrast`, `occupation`, `layer`, `head`, `noise` (logits).
        without: The same heads' noising effects when the leading heads are noised already; `noise`.
        smallest: Smallest effect of interest, logits.
        seed: Of bootstrap and sign flips.

    Returns:
        One row a head: `alone`, `without` and `change` with `_low` and `_high` (logits; 95 % over occupations),
        `p_max_t` of the change over all heads, `role`: "backup" where the change is significant, at least the smallest
        effect, and the head carries more when others are gone, "relies on them" where it carries less, "none"
        otherwise. No rows without a head outside.

    Example:
        Of two heads that copy the prime where one suffices, each has no effect alone and all of it without the other:
        a backup head.
    """
    if without.empty:
        estimates = [f"{name}{end}" for name in ("alone", "without", "change") for end in ("", "_low", "_high")]
        return pd.DataFrame(columns=["layer", "head", *estimates, "p_max_t", "role"])
    wide = [
        table.pivot(index=["contrast", "occupation"], columns=["layer", "head"], values="noise")
        for table in (alone, without.merge(alone[["contrast", "layer", "head"]], on=["contrast", "layer", "head"]))
    ]
    columns = wide[1].columns
    before, after = wide[0][columns], wide[1].loc[wide[0].index]
    occupations = list(before.index.get_level_values("occupation"))
    groups = [cluster_means(part.to_numpy(), occupations) for part in (before, after, after - before)]
    table = columns.to_frame(index=False)
    for name, means in zip(("alone", "without", "change"), groups, strict=True):
        intervals = bootstrap_intervals(means, seed=seed)
        table[name], table[f"{name}_low"], table[f"{name}_high"] = (intervals[p] for p in ("mean", "low", "high"))
    table["p_max_t"] = max_t_sign_flip(groups[2], seed=seed) if len(groups[2]) > 1 else np.nan
    counts = (table["p_max_t"] <= 0.05) & (table["change"].abs() >= smallest)
    grows = table["without"].abs() > table["alone"].abs()
    table["role"] = np.where(counts, np.where(grows, "backup", "relies on them"), "none")
    return table
