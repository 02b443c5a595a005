"""From stored tables to what the verdict and the bridge take."""

import numpy as np
import pandas as pd

from referent_probe.analysis.conflation.states import PRIMES


def effects_by_occupation(primed: pd.DataFrame) -> pd.DataFrame:
    """S, O, T and M: mean effects by occupation, over case, member, frame and option order.

    Args:
        primed: Table "primed".

    Returns:
        A row an occupation, columns of `states.PRIMES` that were measured, logits.
    """
    known = primed.assign(effect=primed["log_odds_feminine"] - primed["log_odds_masculine"])
    means = known[known["prime"].isin(PRIMES)].groupby(["occupation", "prime"])["effect"].mean()
    return means.unstack("prime").reindex(columns=[p for p in PRIMES if p in set(known["prime"])])


def both_effects(primed: pd.DataFrame) -> pd.DataFrame:
    """What each of two pronouns does beside the other, by occupation, logits.

    Args:
        primed: Table "primed", with the prime `both`.

    Returns:
        A row an occupation: `own` and `other`, effects averaged over the other pronoun's gender and both orders;
        `last`, how much more a pronoun does in the last sentence than in the first, mean of both persons. Empty
        without that prime.
    """
    rows = primed[primed["prime"] == "both"]
    if rows.empty:
        return pd.DataFrame(columns=["own", "other", "last"])
    parts = rows["variant"].str.extract(r"own (first|last), other (feminine|masculine)")
    rows = rows.assign(place=parts[0], beside=parts[1])
    feminine, masculine = rows["log_odds_feminine"], rows["log_odds_masculine"]
    rows = rows.assign(own=feminine - masculine, level=(feminine + masculine) / 2)
    keys = ["occupation", "template", "option_order", "place"]
    wide = rows.pivot_table(index=keys, columns="beside", values="level")
    beside = pd.DataFrame(
        {"own": rows.groupby(keys)["own"].mean(), "other": wide["feminine"] - wide["masculine"]}
    ).reset_index()
    means = beside.groupby(["place", "occupation"])[["own", "other"]].mean()
    own_first, own_last = means.loc["first"], means.loc["last"]
    more = own_last["own"] - own_first["own"] + own_first["other"] - own_last["other"]
    return ((own_first + own_last) / 2).assign(last=more / 2)


def held_out_rows(contrasts: pd.DataFrame, cuts: pd.DataFrame, primed: pd.DataFrame) -> pd.DataFrame:
    """The table that `bridge.bridge` takes: a row a template and option order.

    Args:
        contrasts: Table "contrasts" of the partner's prime.
        cuts: Rows of "interventions" with sets of heads cut at the target slot.
        primed: Table "primed", for unprimed log-odds and the effect of `third_frame`.
    """
    known = contrasts.dropna(subset=["total_effect"])
    table = pd.DataFrame(
        {
            "contrast": known["contrast"],
            "pair": known["pair"],
            "occupation": known["occupation"],
            "template": known["template"],
            "member": np.where(known["template"].str.endswith("a"), 1, 2),
            "option_order": known["option_order"],
            "m": (known["log_odds_cf"] + known["log_odds_cm"]) / 2,
            "e": known["total_effect"],
        }
    )
    for name in ("K", "R", "KR"):
        rows = cuts[cuts["label"] == name].set_index("contrast")
        table[f"m_{name}"] = table["contrast"].map((rows["log_odds_cf"] + rows["log_odds_cm"]) / 2)
        table[f"e_{name}"] = table["contrast"].map(rows["log_odds_cf"] - rows["log_odds_cm"])
    keys = ["template", "option_order"]
    unprimed = primed[(primed["prime"] == "unprimed") & (primed["variant"] == "c0")]
    frames = primed[primed["prime"] == "third_frame"]
    effect = frames["log_odds_feminine"] - frames["log_odds_masculine"]
    table = table.merge(unprimed[[*keys, "log_odds_feminine"]].rename(columns={"log_odds_feminine": "m0"}), on=keys)
    return table.merge(frames[keys].assign(e_third_frame=effect), on=keys, how="left")


def random_rows(cuts: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Effects after each random set, as `controls.random_sets` takes them; None where there is none.

    A set of the same number is another one for each choice of carriers; only numbers that all have are kept.

    Args:
        cuts: As in `held_out_rows`.
        rows: From `held_out_rows`.
    """
    random = cuts[cuts["label"].str.startswith("random ")]
    counts = random.groupby("label")["contrast"].nunique()
    whole = counts.index[counts == len(rows)]
    random = random[random["label"].isin(whole)]
    if random.empty:
        return None
    table = random.assign(set=random["label"], e=random["log_odds_cf"] - random["log_odds_cm"])
    return table[["contrast", "set", "e"]].merge(rows[["contrast", "pair", "member", "option_order"]], on="contrast")
