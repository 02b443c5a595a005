"""Ratings of a run's nouns, and what the answers have to do with them."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from referent_probe.analysis.behaviour.arrays import ORDERS, Arrays
from referent_probe.analysis.behaviour.clustered import RESAMPLES
from referent_probe.analysis.behaviour.quantities import found
from referent_probe.analysis.rating_information import rating_information_bits
from referent_probe.analysis.stereotype import Alignment, stereotype_correlations
from referent_probe.stimuli.ratings import RatingsMapping, check_roles, load_ratings, rating, role_ratings

BINS = (3, 5)
"""Numbers of equal-count bins of the rating."""

Source = Literal["authors", "exact"]


def ratings_of(
    nouns: Iterable[str], source: str, *, is_winopron: bool, all_roles: bool = True
) -> tuple[dict[str, float], str]:
    """Ratings of role nouns, in lower case, and where they come from.

    Args:
        nouns: Every role noun of the stimuli, antecedent or not.
        source: "authors" or "exact", which for other stimuli than WinoPron both mean the noun itself in the norms; or
            the path of a rating file.
        is_winopron: Whether the stimuli are WinoPron's.
        all_roles: Whether these are all of the stimuli's nouns; else a rating of another role is no mistake.

    Raises:
        StimuliError: The file is no rating file, or rates roles that the stimuli lack.

    Example:
        >>> ratings_of(["Carpenter", "wombat keeper"], "exact", is_winopron=False)
        ({'carpenter': 0.25}, 'Misersky et al. 2014, the noun itself')
    """
    known = sorted({noun.lower() for noun in nouns})
    if source not in get_args(Source):
        given = load_ratings(source)
        if all_roles:
            check_roles(given, known)
        return {noun: given[noun] for noun in known if noun in given}, "the rating file"
    if is_winopron:
        mapping: RatingsMapping = "authors" if source == "authors" else "exact"
        of_role = {role.lower(): value for role, value in role_ratings(mapping).items()}
        words = "as the paper's authors chose" if mapping == "authors" else "the noun itself"
        return {noun: of_role[noun] for noun in known if noun in of_role}, f"Misersky et al. 2014, {words}"
    found_ratings = {noun: rating(noun) for noun in known}
    return {n: r for n, r in found_ratings.items() if r is not None}, "Misersky et al. 2014, the noun itself"


def order_parts(p: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """`[template, option order]` as columns: either order, and their mean as "both"."""
    return {order: p[:, i] for i, order in enumerate(ORDERS)} | {"both": p.mean(axis=1)}


def spearman_quantities(
    run: Arrays, ratings: Mapping[str, float], alignments: Iterable[Alignment], seed: int
) -> list[dict[str, Any]]:
    """Spearman of rating and p(f|c) at the primary temperature, and c0 minus every other setting.

    In option order "both" p(f|c) is averaged over the orders.
    """
    nouns = {name: run.templates[f"{name}_noun"].str.lower().tolist() for name in ("antecedent", "other")}
    p, rows = run.p_share[..., run.primary], []
    parts = [order_parts(p[:, i]) for i in range(len(run.settings))]
    for alignment in alignments:
        for order in (*ORDERS, "both"):
            of_setting = {
                setting: part[order]
                for setting, part in zip(run.settings, parts, strict=True)
                if np.isfinite(part[order]).any()
            }
            if not of_setting:
                continue
            results = stereotype_correlations(
                of_setting,
                nouns["antecedent"],
                nouns["other"],
                ratings,
                alignment=alignment,
                n_resamples=RESAMPLES,
                n_permutations=RESAMPLES - 1,
                seed=seed,
            )
            for setting, result in results.items():
                keys: dict[str, Any] = {
                    "setting": setting,
                    "option_order": order,
                    "temperature": run.temperatures[run.primary],
                    "factor": alignment,
                }
                about: dict[str, Any] = {
                    "n_rows": result.n_templates,
                    "rows_of": "templates",
                    "n_left_out": result.n_unrated + result.n_without_probability,
                    "note": f"as informative as {result.effective_roles:.1f} roles with equally many templates"
                    + ("; the partner's rating, as released" if alignment == "partner" else ""),
                }
                rows.append(found("spearman", result.rho, p=result.p_value, **about, **keys))
                if result.difference is not None:
                    rows.append(found("spearman_difference", result.difference, **about, **keys))
    return rows


def rating_quantities(
    p: NDArray[np.float64],
    templates: pd.DataFrame,
    ratings: Mapping[str, float],
    keys: Mapping[str, Any],
    seed: int,
) -> list[dict[str, Any]]:
    """Information about the binned rating, minus what ratings shuffled over roles give; rows as given.

    Args:
        p: `[n_rows]`, p(f|c).
        templates: `[n_rows]`, with `antecedent_noun` and `occupation`.
        ratings: Role, in lower case, to rating.
        keys: Setting, option order and temperature of the rows.
        seed: Of resamples and shuffles.
    """
    rows = []
    for bins in BINS:
        result = rating_information_bits(
            p,
            templates["antecedent_noun"].str.lower().tolist(),
            ratings,
            templates["occupation"].tolist(),
            bins=bins,
            n_shuffles=RESAMPLES - 1,
            n_resamples=RESAMPLES,
            seed=seed,
        )
        sizes = ", ".join(map(str, result.bin_sizes))
        about: dict[str, Any] = {
            "n_rows": result.n_templates,
            "rows_of": "prompts",
            "n_left_out": result.n_unrated + result.n_left_out,
            "note": f"{bins} bins of {sizes} prompts, {result.n_roles} roles",
            "factor": f"rating_{bins}",
        }
        rows.append(found("mutual_information", result.observed, **about, **keys))
        rows.append(found("mutual_information_shuffled", result.shuffled, **about, **keys))
        rows.append(found("mutual_information_excess", result.difference, p=result.p_value, **about, **keys))
    return rows
