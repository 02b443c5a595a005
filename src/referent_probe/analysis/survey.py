"""Tables of a survey: heads, places, attribution by source, parts of the logit difference, primes without a pronoun."""

from collections.abc import Sequence

import pandas as pd

from referent_probe.analysis.carriers import CarrierRule, head_effects
from referent_probe.analysis.inference import bootstrap_intervals, cluster_means
from referent_probe.analysis.interventions import CELL, cell_effects


def place_effects(table: pd.DataFrame, measures: Sequence[str], smallest: float, seed: int) -> pd.DataFrame:
    """Effects of cells by place, with the mean total effect of the contrasts that have it; empty of no cells.

    Args:
        table: From `interventions.per_contrast`; a cell that was run twice counts once.
        measures: Of `interventions.MEASURES`.
        smallest: Smallest effect of interest, logits.
        seed: Of bootstrap and sign flips.
    """
    if table.empty:
        return pd.DataFrame()
    table = table.drop_duplicates(["contrast", *CELL])
    effects = cell_effects(table, measures, smallest, seed)
    totals = table.groupby(["where", "occupation"])["total_effect"].mean().groupby("where").mean()
    effects["total_mean"] = effects["where"].map(totals)
    return effects


def swept_by_span(table: pd.DataFrame, leading: Sequence[tuple[int, int]]) -> "pd.Series[bool]":
    """The sweep by span, told from that of all heads by having more than one place."""
    places = table[table["what"] == "z"].groupby(["layer", "head"])["where"].nunique()
    several = {key for key, count in places.items() if count > 1}
    keys = zip(table["layer"], table["head"], strict=True)
    return pd.Series([key in several and key in set(leading) for key in keys], index=table.index)


def head_table(
    singles: pd.DataFrame, attributions: pd.DataFrame, smallest: float, rule: CarrierRule, seed: int
) -> pd.DataFrame:
    """The table "head_effects" of the main job, from this job's tables."""
    keys = ["contrast", "layer", "head"]
    whole = attributions.groupby(keys)[["attribution_cf", "attribution_cm"]].sum(min_count=1)
    prime = attributions[attributions["span"] == "priming_pronoun"].set_index(keys)
    wide = singles.set_index(keys)
    for setting in ("cf", "cm"):
        wide[f"attention_to_prime_{setting}"] = prime[f"attention_{setting}"]
        wide[f"direct_logit_attribution_{setting}"] = whole[f"attribution_{setting}"]
        wide[f"prime_attribution_{setting}"] = prime[f"attribution_{setting}"]
    return head_effects(wide.reset_index(), smallest, rule, seed)


def attribution_by_span(
    attributions: pd.DataFrame, leading: Sequence[tuple[int, int]], heads: pd.DataFrame, seed: int
) -> pd.DataFrame:
    """Of the leading heads, attention attribution by source span: feminine less masculine run."""
    if attributions["attribution_cf"].isna().all():
        return pd.DataFrame()
    spans = list(dict.fromkeys(attributions["span"]))
    totals = heads.set_index(["layer", "head"]).filter(like="direct_logit_attribution")
    rows = []
    for layer, head in leading:
        own = attributions[(attributions["layer"] == layer) & (attributions["head"] == head)]
        own = own.assign(change=own["attribution_cf"] - own["attribution_cm"])
        wide = own.pivot(index=["contrast", "occupation"], columns="span", values="change")[spans].fillna(0.0)
        means = cluster_means(wide.to_numpy(), list(wide.index.get_level_values("occupation")))
        found = bootstrap_intervals(means, seed=seed).add_prefix("attribution_")
        found.insert(0, "span", spans)
        known = dict(zip(totals.columns, totals.loc[[(layer, head)]].to_numpy()[0], strict=True))
        rows.append(found.assign(layer=layer, head=head, n=len(means), **known))
    return pd.concat(rows, ignore_index=True)


def parts_of_difference(parts: pd.DataFrame, seed: int) -> pd.DataFrame:
    """What the change of the logit difference is made of: feminine less masculine run."""
    wide = parts.assign(change=parts["value_cf"] - parts["value_cm"])
    wide = wide.pivot(index=["contrast", "occupation"], columns="part", values="change")
    means = cluster_means(wide.to_numpy(), list(wide.index.get_level_values("occupation")))
    found = bootstrap_intervals(means, seed=seed).add_prefix("change_")
    return found.assign(part=list(wide.columns), unit="logits", n=len(means))


def control_shifts(controls: pd.DataFrame, contrasts: pd.DataFrame, seed: int) -> pd.DataFrame:
    """How far primes without a pronoun move the log-odds from no prime, whichever way."""
    wide = controls.pivot(index=["contrast", "occupation"], columns="setting", values="log_odds")
    lengths = controls.groupby("setting")["tokens"].mean()
    settings = [setting for setting in wide.columns if setting != "c0"]
    shifts = wide[settings].sub(wide["c0"], axis=0)
    occupations = list(wide.index.get_level_values("occupation"))
    rows = []
    for name, values in (("shift", shifts), ("size", shifts.abs())):
        found = bootstrap_intervals(cluster_means(values.to_numpy(), occupations), seed=seed)
        rows.append(found.add_prefix(f"{name}_"))
    table = pd.concat(rows, axis=1)
    table.insert(0, "setting", settings)
    primed = contrasts["tokens"].mean()
    extra = [float(lengths[setting] - primed) for setting in settings]
    return table.assign(tokens_more_than_primed=extra, unit="logits", n=len(set(occupations)))
