"""What the conflation job found, as summary, tables and sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from referent_probe.analysis.conflation.bridge import Bridge, bridge
from referent_probe.analysis.conflation.damage import Damage, damage
from referent_probe.analysis.conflation.head_map_agreement import MapAgreement, map_agreement
from referent_probe.analysis.conflation.index import ConflationIndex, conflation_index
from referent_probe.analysis.conflation.rows import both_effects, effects_by_occupation, held_out_rows, random_rows
from referent_probe.analysis.conflation.verdict import Verdict, verdict
from referent_probe.analysis.inference import bootstrap_intervals
from referent_probe.analysis.interventions import per_contrast
from referent_probe.analysis.summary_parts import as_json, number, records_in_json
from referent_probe.jobs.conflation_figures import conflation_figures
from referent_probe.jobs.conflation_plan import Plan, head_effects_of, prime_of
from referent_probe.jobs.job import Context, Result, Tables

Heads = list[str]


def conflation_result(context: Context, tables: Tables, plan: Plan, skipped: Mapping[str, str]) -> Result:
    """Put the parts together.

    Args:
        context: What the job worked on.
        tables: The stored ones.
        plan: Which heads were cut where.
        skipped: Why a kind of prime is missing, by its name.
    """
    seed = context.settings.seed
    effects = effects_by_occupation(tables["primed"])
    found, index = verdict(effects, seed), conflation_index(effects, seed)
    cuts = tables["interventions"]
    cuts = cuts[(cuts["kind"] == "knockout") & (cuts["what"] == "set")]
    at_slot, later = (cuts[cuts["where"] == where] for where in ("target-slot", "later"))
    rows = held_out_rows(tables["contrasts"], at_slot, tables["primed"])
    crossed = bridge(rows, random_rows(at_slot, rows), random_for=plan.matched, seed=seed)  # type: ignore[arg-type]
    beyond = bridge(held_out_rows(tables["contrasts"], later, tables["primed"]), seed=seed)
    head_effects = head_effects_of(tables)
    maps = map_agreement(head_effects, seed)
    harmed = _damages(tables, found.delta)
    both = _mean_of(both_effects(tables["primed"]), seed)
    carriers = _carriers(plan)
    shares = _carried(tables, plan)
    return Result(
        summary={
            "verdict": {
                "behavioural": found.name,
                "grade": found.grade,
                "mechanistic": crossed.mechanism.name,
                "words": found.words,
            },
            "states": dict(found.states),
            "margin": {"value": found.delta, "unit": "logits", "flips_at": [_flip(one) for one in found.flips_at]},
            "effects": {name: as_json(interval) for name, interval in found.intervals.items()},
            "both": records_in_json(both),
            "conflation_index": _index(index),
            "carriers": carriers | {"carried": records_in_json(shares)},
            "bridge": _bridge(crossed),
            "bridge_cut_at_all_later_tokens": _bridge(beyond),
            "head_maps": [_agreement(one) for one in maps],
            "damage": [one.as_json() for one in harmed],
            "not_asked": dict(skipped),
            "sentence": crossed.mechanism.sentence,
        },
        tables={
            "effects_by_occupation": effects.reset_index(),
            "held_out_rows": rows,
            "carrier_tests": _carrier_table(plan),
            "carried_by_carriers": shares,
        },
        figures=conflation_figures(
            effects=effects,
            found=found,
            rows=rows,
            crossed=crossed,
            head_effects=head_effects,
            agreement=maps,
            carriers=list(plan.carriers.values()),
        ),
        words=[
            f"Behaviour: {found.words}",
            _index_in_words(index),
            _carriers_in_words(carriers),
            f"{crossed.mechanism.sentence} Mechanism: {crossed.mechanism.name}.",
            *(f"{one.words[0].upper()}{one.words[1:]}." for one in harmed),
        ],
        leading=_leading(found, crossed),
    )


def _carriers(plan: Plan) -> dict[str, Any]:
    """Heads that every choice names, and how many of the choices name each of the others."""
    found: dict[str, Any] = {"chosen_on": [f"half {half}, {order}" for half, order in plan.carriers]}
    for name in ("K", "R"):
        named = [set(sets.k if name == "K" else sets.r) for sets in plan.carriers.values()]
        counts = {head: sum(head in one for one in named) for head in sorted(set().union(*named))}
        found[name] = [f"{a}.{b}" for (a, b), count in counts.items() if count == len(named)]
        found[f"{name}_sometimes"] = {f"{a}.{b}": count for (a, b), count in counts.items() if count < len(named)}
    reasons = {sets.reason for sets in plan.carriers.values() if sets.reason}
    return found | {"reason": "; ".join(sorted(reasons)) or None}


def _carrier_table(plan: Plan) -> pd.DataFrame:
    parts = [sets.table.assign(half=half, option_order=order) for (half, order), sets in plan.carriers.items()]
    return pd.concat(parts, ignore_index=True)


def _carried(tables: Tables, plan: Plan) -> pd.DataFrame:
    """Frame transfer: what the carriers' single effects add up to after each prime, held out, beside its total."""
    effects = head_effects_of(tables)
    totals = tables["prime_contrasts"].drop_duplicates("contrast").set_index("contrast")["total_effect"]
    rows = []
    for (prime, occupation, order), part in effects.groupby(["prime", "occupation", "option_order"]):
        sets = plan.carriers[plan.key_for(str(occupation), str(order))]
        total = float(totals[part["contrast"].unique()].mean())
        for name, heads in (("K", sets.k), ("R", sets.r)):
            keys = pd.MultiIndex.from_frame(part[["layer", "head"]])
            own = part[keys.isin(list(heads))] if heads else part.iloc[:0]
            contrasts = part["contrast"].nunique()
            rows.append(
                {"prime": prime, "set": name, "occupation": occupation, "total": total}
                | {d: float(own[d].sum()) / contrasts for d in ("denoise", "noise")}
            )
    table = pd.DataFrame(rows).groupby(["prime", "set", "occupation"]).mean().groupby(["prime", "set"]).mean()
    return table.reset_index()


def _damages(tables: Tables, margin: float) -> list[Damage]:
    """What the cuts do to the own person's pronoun, alone and beside the other's."""
    cuts = tables["interventions"]
    known = tables["prime_contrasts"].drop_duplicates("contrast")
    found = []
    for prime, what in (("same", "the effect of the own person's pronoun"), ("both", "its effect beside the other's")):
        of_prime = cuts[(cuts["kind"] == "knockout") & (cuts["what"] == prime)]
        table = per_contrast(of_prime, known)
        before = known[known["contrast"].map(prime_of) == prime].groupby("occupation")["total_effect"].mean()
        for name in ("K", "R"):
            after = table[table["label"] == name].groupby("occupation")["remaining"].mean()
            if len(after):
                found.append(damage(f"{what}, {name} cut:", before, after, margin))
    return found


def _mean_of(effects: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Mean over occupations of each column with its interval."""
    if effects.empty:
        return pd.DataFrame()
    found = bootstrap_intervals(effects.to_numpy(dtype=np.float64), seed=seed)
    return found.assign(effect=list(effects.columns), unit="logits", n=len(effects))


def _bridge(found: Bridge) -> dict[str, Any]:
    """The bridge in JSON, with the names that readers look for at its top."""
    whole = found.as_json()
    main = whole["forms"].get("self_primed") or whole["forms"]["steered"]
    strength = whole["forms"]["strength"]
    named = {name: main[name] for name in ("phi_K", "phi_R", "remainder")}
    return named | {f"{name}_strength": strength[name] for name in ("phi_K", "phi_R", "remainder")} | whole


def _index(index: ConflationIndex) -> dict[str, Any]:
    return {"reason": index.reason} | ({} if index.interval is None else as_json(index.interval))


def _index_in_words(index: ConflationIndex) -> str:
    if index.interval is None:
        return f"Conflation index O/S: undefined, {index.reason}."
    return f"Conflation index O/S: {index.interval}."


def _flip(flip: Any) -> dict[str, Any] | None:
    return None if flip is None else {"margin": flip.margin, "verdict": flip.name}


def _agreement(one: MapAgreement) -> dict[str, Any]:
    numbers = {
        name: number(float(getattr(one, name))) for name in ("ceiling", "across_halves", "across_halves_ceiling")
    }
    return {"direction": one.direction, "spearman": as_json(one.spearman), "n_heads": one.n_heads, **numbers}


def _carriers_in_words(carriers: Mapping[str, Any]) -> str:
    parts = []
    for name, text in (("K", "read the other person's pronoun as such"), ("R", "copy any pronoun")):
        sure = ", ".join(carriers[name]) or "none"
        some = ", ".join(f"{head} ({count})" for head, count in carriers[f"{name}_sometimes"].items())
        parts.append(f"heads that {text} ({name}): {sure}" + (f", and in some of the choices {some}" if some else ""))
    return f"Carriers, chosen on {len(carriers['chosen_on'])} parts of the data: {'; '.join(parts)}."


def _leading(found: Verdict, crossed: Bridge) -> list[list[str]]:
    table = [["quantity", "state", "logits"]]
    for name, interval in found.intervals.items():
        ends = f" [{interval.low:+.2f}, {interval.high:+.2f}]" if np.isfinite(interval.low) else ""
        table.append([name, found.states.get(name, "-"), f"{interval.mean:+.2f}{ends}"])
    for form, one in crossed.forms.items():
        for name, share in (("phi_K", one.phi_k), ("phi_R", one.phi_r), ("remainder", one.remainder)):
            shown = "-" if share is None else f"{share.mean:.0%} [{share.low:.0%}, {share.high:.0%}]"
            table.append([f"{name}, {form}", "", shown])
    return table
