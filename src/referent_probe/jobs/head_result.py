"""The card of one head: tables, one picture, sentences."""

from collections.abc import Mapping

import pandas as pd

from referent_probe.analysis.inference import bootstrap_intervals, cluster_means
from referent_probe.analysis.interventions import cell_effects, per_contrast
from referent_probe.analysis.summary_parts import records_in_json
from referent_probe.jobs.effects import estimate, total_in_words
from referent_probe.jobs.job import Result, Tables

SENDERS = 8
"""Of each input, those that a card shows."""


def head_result(
    name: str, head: str, tables: Tables, general: Mapping[str, float], sequences: int, smallest: float, seed: int
) -> Result:
    """Put the card together.

    Args:
        name: Model and head, for the headline.
        head: LAYER.HEAD.
        tables: The stored ones.
        general: Scores on random tokens, by name, 0 to 1.
        sequences: Random sequences behind them.
        smallest: Smallest effect of interest, logits.
        seed: Of bootstrap and sign flips.
    """
    from referent_probe.figures_head_card import head_card

    contrasts = tables["contrasts"]
    table = per_contrast(tables["interventions"], contrasts)
    total = float(table.groupby("occupation")["total_effect"].mean().mean())
    patched = cell_effects(table[table["kind"] == "patch"], ("denoise", "noise"), smallest, seed).iloc[0]
    card = {
        "effects": pd.DataFrame(
            [
                {"direction": direction, "total": total, "n": patched["n"], "p_max_t": patched[f"{direction}_p_max_t"]}
                | {f"effect_{part}": patched[f"{direction}_{part}"] for part in ("mean", "low", "high")}
                for direction in ("denoise", "noise")
            ]
        ),
        "ablations": _ablations(table, total, smallest, seed),
        "attention": _attention(tables["attributions"], seed),
        "attribution": _attribution(tables["attributions"], seed),
        "senders": _senders(table[table["kind"] == "path"], seed),
        "scores": _scores(tables["scores"], general, seed),
    }
    effects = card["effects"]
    words = [
        total_in_words(contrasts, seed),
        f"Head {head} at the target slot: "
        + ", ".join(
            f"{estimate(row, 'effect')} logits in {row['direction'][:-1]}ing" for row in effects.to_dict("records")
        )
        + ".",
        "Ablated, of the effect remain: "
        + ", ".join(f"{estimate(row, 'remaining', 2)} ({row['kind']})" for row in card["ablations"].to_dict("records"))
        + ".",
        *_scores_in_words(card["scores"]),
        *_senders_in_words(card["senders"]),
    ]
    return Result(
        summary={"head": head, "card": {key: records_in_json(part) for key, part in card.items()}},
        tables={f"card_{key}": part for key, part in card.items()},
        figures={"head_card": head_card({key: part for key, part in card.items() if len(part)}, name)},
        words=words,
        leading=_leading(card),
    )


def _ablations(table: pd.DataFrame, total: float, smallest: float, seed: int) -> pd.DataFrame:
    part = table[table["kind"] == "ablation"]
    effects = cell_effects(part, ("remaining", "removed"), smallest, seed, tested=["removed"])
    return effects.drop(columns="kind").rename(columns={"what": "kind"}).assign(total=total)


def _intervals(values: pd.DataFrame, occupations: "pd.Series[str]", name: str, seed: int) -> pd.DataFrame:
    """Mean over occupations of each column with its interval, a row a column."""
    known = values.columns[values.notna().all()]
    found = bootstrap_intervals(cluster_means(values[known].to_numpy(), list(occupations)), seed=seed)
    return found.set_index(known).reindex(values.columns).add_prefix(f"{name}_")


def _attention(attributions: pd.DataFrame, seed: int) -> pd.DataFrame:
    order = list(dict.fromkeys(attributions["span"]))
    rows = []
    for setting in ("c0", "cf", "cm"):
        wide = attributions.pivot(index=["contrast", "occupation"], columns="span", values=f"attention_{setting}")
        table = _intervals(wide[order], wide.index.get_level_values("occupation").to_series(), "attention", seed)
        rows.append(table.reset_index().assign(setting=setting))
    found = pd.concat(rows, ignore_index=True)
    return found.assign(n=attributions["occupation"].nunique())


def _attribution(attributions: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Feminine less masculine run."""
    change = attributions.assign(change=attributions["attribution_cf"] - attributions["attribution_cm"])
    if change["change"].isna().all():
        return pd.DataFrame()
    wide = change.pivot(index=["contrast", "occupation"], columns="span", values="change")
    wide = wide[list(dict.fromkeys(attributions["span"]))].fillna(0.0)
    wide.insert(0, "all", wide.sum(axis=1))
    table = _intervals(wide, wide.index.get_level_values("occupation").to_series(), "attribution", seed)
    return table.rename_axis("source").reset_index().assign(n=change["occupation"].nunique())


def _senders(paths: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The strongest senders through each input; both directions averaged."""
    if paths.empty:
        return pd.DataFrame()
    paths = paths.assign(effect=(paths["denoise"] + paths["noise"]) / 2)
    parts = []
    for through, part in paths.groupby("what", sort=False):
        wide = part.pivot(index=["contrast", "occupation"], columns=["layer", "head"], values="effect")
        table = _intervals(wide, wide.index.get_level_values("occupation").to_series(), "effect", seed).reset_index()
        table = table.loc[table["effect_mean"].abs().sort_values(ascending=False, kind="stable").index[:SENDERS]]
        names = [f"{layer}.{head}" for layer, head in zip(table["layer"], table["head"], strict=True)]
        parts.append(table.assign(sender=names, through=through, n=part["occupation"].nunique()))
    return pd.concat(parts, ignore_index=True)


def _scores(scores: pd.DataFrame, general: Mapping[str, float], seed: int) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for score, part in scores.dropna(subset=["value"]).groupby("score", sort=False):
        row = bootstrap_intervals(cluster_means(part["value"].to_numpy(), list(part["occupation"])), seed=seed).iloc[0]
        rows.append(
            {"score": score, "range": "logits", "n": part["occupation"].nunique()}
            | {f"score_{end}": row[end] for end in ("mean", "low", "high")}
        )
    for name, value in general.items():
        rows.append({"score": f"{name} score", "range": "0 to 1", "score_mean": value, "n": 0})
    return pd.DataFrame(rows).reindex(columns=["score", "score_mean", "score_low", "score_high", "range", "n"])


def _scores_in_words(scores: pd.DataFrame) -> list[str]:
    parts = []
    for row in scores.to_dict("records"):
        text = f"{row['score_mean']:.2f}" if row["range"] == "0 to 1" else f"{estimate(row, 'score', 2)} logits"
        parts.append(f"{row['score']} {text}")
    return [
        f"Scores: {'; '.join(parts)} (above 0 logits it copies the pronoun's gender, below 0 it writes against it)."
    ]


def _senders_in_words(senders: pd.DataFrame) -> list[str]:
    if senders.empty:
        return []
    names = {"q": "queries", "k": "keys", "v": "values"}
    parts = [
        f"through {names[str(through)]} "
        + ", ".join(f"{row['sender']} ({row['effect_mean']:+.3f})" for row in part.head(3).to_dict("records"))
        for through, part in senders.groupby("through", sort=False)
    ]
    return [f"Strongest senders, in logits: {'; '.join(parts)} (n = {int(senders['n'].max())} occupations)."]


def _leading(card: Mapping[str, pd.DataFrame]) -> list[list[str]]:
    rows = [["what", "value"]]
    for row in card["effects"].to_dict("records"):
        rows.append([f"{row['direction'][:-1]}ing", estimate(row, "effect")])
    for row in card["ablations"].to_dict("records"):
        rows.append([f"remaining, {row['kind']}", estimate(row, "remaining")])
    for row in card["scores"].to_dict("records"):
        rows.append([str(row["score"]), f"{row['score_mean']:+.3f}"])
    return rows
