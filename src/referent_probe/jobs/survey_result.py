"""What a survey found, as tables, summary, figures and sentences."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from referent_probe.analysis.carriers import CarrierRule, carried
from referent_probe.analysis.held_out import HeldOut, held_out_carriers
from referent_probe.analysis.inference import cluster_bootstrap_interval
from referent_probe.analysis.interventions import per_contrast
from referent_probe.analysis.stability import ranking_stability
from referent_probe.analysis.summary_parts import as_json, number, of_row, records_in_json
from referent_probe.analysis.survey import (
    attribution_by_span,
    control_shifts,
    head_table,
    parts_of_difference,
    place_effects,
    swept_by_span,
)
from referent_probe.jobs.effects import as_flow, effects_in_json, estimate, leading_cells, total_in_words
from referent_probe.jobs.job import Context, Result, Tables

_NAMES = {"n1": "null prime 1", "n2": "null prime 2", "r_np": "noun phrase for the pronoun", "r_both": "both named"}


def survey_result(context: Context, tables: Tables, smallest: float, leading: Sequence[tuple[int, int]]) -> Result:
    """Put the parts together.

    Args:
        context: What the job worked on.
        tables: The stored ones.
        smallest: Smallest effect of interest, logits.
        leading: Heads that are drawn by span.
    """
    from referent_probe import figures
    from referent_probe.figures_flow import flow_maps
    from referent_probe.figures_mechanism import sources
    from referent_probe.jobs.survey import single_effects

    seed, contrasts = context.settings.seed, tables["contrasts"]
    rule = CarrierRule(smallest_share=context.settings.smallest_share)
    singles = single_effects(tables)
    table = per_contrast(tables["interventions"], contrasts)
    heads = head_table(singles, tables["attributions"], smallest, rule, seed)
    held_out = held_out_carriers(singles, contrasts, rule, seed)
    flow = place_effects(table[table["what"] == "resid"], ("denoise",), smallest, seed)
    by_span = place_effects(
        table[(table["what"] == "z") & swept_by_span(table, leading)], ("denoise", "noise"), smallest, seed
    )
    attribution = attribution_by_span(tables["attributions"], leading, heads, seed)
    controls = control_shifts(tables["controls"], contrasts, seed)
    parts = parts_of_difference(tables["parts"], seed)
    total = cluster_bootstrap_interval(contrasts["total_effect"].dropna(), _clusters(contrasts), seed=seed)
    drawn: dict[str, Any] = {
        "head_map": figures.head_map(heads, total),
        "attention_by_layer": figures.attention_by_layer(heads),
        "pair_effects": figures.pair_effects(contrasts[contrasts["left_out"].isna()]),
    }
    if len(flow) and flow["reason"].isna().any():
        computed = flow[flow["reason"].isna()]
        drawn["flow_map"] = flow_maps({context.model.source.name: as_flow(computed, "denoise")})
    if len(attribution):
        drawn["sources"] = sources(attribution)
    return Result(
        summary={
            "heads": _heads_in_json(heads, total.n),
            "held_out": {
                "rule": "chosen by max-t on one half of the occupations, tested by max-t on the other, both ways",
                "confirmed": records_in_json(held_out.confirmed),
                "tests": records_in_json(held_out.table),
                "reason": held_out.reason,
            },
            "carried": {
                direction: {
                    "sum_of_effects": None if added is None else as_json(added),
                    "share_of_total": None if share is None else as_json(share),
                }
                for direction in ("denoise", "noise")
                for added, share in (carried(singles, heads, contrasts, direction, seed),)
            },
            "flow": effects_in_json(flow, ("denoise",)) if len(flow) else [],
            "leading_heads_by_span": effects_in_json(by_span, ("denoise", "noise")) if len(by_span) else [],
            "attribution_by_span": records_in_json(attribution),
            "logit_difference_by_part": records_in_json(parts),
            "primes_without_a_pronoun": records_in_json(controls),
            "stability": records_in_json(stability := ranking_stability(singles, contrasts, seed)),
        },
        tables={
            "head_effects": heads,
            "held_out": held_out.table,
            "flow_effects": flow,
            "span_effects": by_span,
            "attribution_by_span": attribution,
            "parts_of_logit_difference": parts,
            "control_effects": controls,
            "stability": stability,
        },
        figures=drawn,
        words=[
            total_in_words(contrasts, seed),
            _carriers_in_words(heads, held_out, smallest),
            *_flow_in_words(flow),
            *_controls_in_words(controls),
            *_stability_in_words(stability),
        ],
        leading=_leading(heads),
    )


def _clusters(contrasts: pd.DataFrame) -> list[str]:
    return list(contrasts.loc[contrasts["total_effect"].notna(), "occupation"])


def _heads_in_json(heads: pd.DataFrame, n: int) -> list[dict[str, Any]]:
    names = ("attention_to_prime", "direct_logit_attribution", "prime_attribution")
    return [
        {"layer": int(row["layer"]), "head": int(row["head"]), "carrier": str(row["carrier"])}
        | {
            direction: of_row(row, direction, "logits", n) | {"p_max_t": number(row[f"{direction}_p_max_t"])}
            for direction in ("denoise", "noise")
        }
        | {name: of_row(row, name, "share of attention" if "attention" in name else "logits", n) for name in names}
        for row in heads.to_dict("records")
    ]


def _carriers_in_words(heads: pd.DataFrame, held_out: HeldOut, smallest: float) -> str:
    named = heads[heads["carrier"] == "both"]
    order = named["denoise_mean"].abs().sort_values(ascending=False).index
    listed = ", ".join(
        f"{r['layer']}.{r['head']} ({r['denoise_mean']:+.3f})" for r in named.loc[order].to_dict("records")
    )
    rule = f"max-t at 5 % over {len(heads)} heads x 2 directions, at least {smallest:.3f} logits"
    text = f"Carriers in both directions ({rule}): {listed or 'none'}."
    if held_out.reason:
        return f"{text} Held out, nothing is claimed: {held_out.reason}."
    confirmed = {ways: _named(held_out.confirmed[held_out.confirmed["ways"] == ways]) for ways in (2, 1)}
    return (
        f"{text} Chosen on one half of the occupations and confirmed on the other: {confirmed[2]} both ways, "
        f"{confirmed[1]} one way."
    )


def _named(confirmed: pd.DataFrame) -> str:
    heads: dict[str, list[str]] = {}
    for row in confirmed.to_dict("records"):
        heads.setdefault(f"{row['layer']}.{row['head']}", []).append(_DIRECTION[str(row["direction"])])
    return ", ".join(f"{head} ({' and '.join(words)})" for head, words in heads.items()) or "none"


_DIRECTION = {"denoise": "denoising", "noise": "noising"}


def _flow_in_words(flow: pd.DataFrame) -> list[str]:
    if flow.empty or flow["reason"].notna().all():
        return []
    wide = flow.pivot(index="layer", columns="where", values="denoise_mean")
    total = float(flow["total_mean"].mean())
    if abs(total) < 0.1:
        return ["The total effect of the swept contrasts is too near zero to be followed through the layers."]
    share = wide / total
    arrived = share.index[share["target-slot"] >= 0.5]
    between = share.drop(columns=["priming-pronoun", "target-slot"])
    place = between.max().sort_values(ascending=False).index[0]
    left = share.index[share["priming-pronoun"] < 0.5]
    text = (
        "In the residual stream, more than half of the effect sits at the priming pronoun up to layer "
        f"{int(left[0]) - 1 if len(left) else int(share.index[-1])}"
    )
    if len(arrived):
        text += f", and at the target slot from layer {int(arrived[0])} on"
    if between[place].max() >= 0.1:
        text += (
            f"; between the two the span '{place.replace('-', ' ')}' holds most, {between[place].max():.0%} of it "
            f"before layer {int(between[place].idxmax())}"
        )
    return [f"{text}."]


def _controls_in_words(controls: pd.DataFrame) -> list[str]:
    shown = (
        f"{_NAMES.get(str(row['setting']), row['setting'])} {estimate(row, 'size', 2)}"
        for row in controls.to_dict("records")
    )
    return [f"Primes without a pronoun move the log-odds from no prime by, in size: {'; '.join(shown)} logits."]


def _stability_in_words(stability: pd.DataFrame) -> list[str]:
    halves = stability[stability["comparison"] == "random halves"]
    return [
        f"Rankings of heads on random halves of the occupations agree with a Spearman correlation of "
        f"{row['spearman']:.2f} [{row['low']:.2f}, {row['high']:.2f}] in {_DIRECTION[str(row['direction'])]}."
        for row in halves.to_dict("records")[:1]
    ]


def _leading(heads: pd.DataFrame) -> list[list[str]]:
    table = heads.assign(kind="patch", what="z", last_layer=heads["layer"], where="target-slot", label="", reason=None)
    return leading_cells(table, ("denoise", "noise"))
