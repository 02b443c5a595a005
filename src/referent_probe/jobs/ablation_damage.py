"""Whether a model with ablated heads still works: choices without a prime, and loss on neutral texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from referent_probe.analysis.conflation.damage import Damage, damage
from referent_probe.jobs.job import Context, Tables
from referent_probe.stimuli.neutral import NEUTRAL_TEXTS
from referent_probe.stimuli.primes import ContextSetting
from referent_probe.stimuli.prompts import choice_prompt

if TYPE_CHECKING:
    from referent_probe.mechanism.contrasts import Contrast

MARGIN = 0.2
"""Logits of an unprimed choice that count as none: 5 points of probability at p = 0.5."""
LOSS_MARGIN = 0.05
"""Nats a token that count as none."""

Head = tuple[int, int]


def unprimed_rows(context: Context, contrast: "Contrast", heads: Sequence[Head], pool: Any) -> pd.DataFrame:
    """Rows of the table "controls": the unprimed choice, whole and with the heads ablated."""
    from referent_probe.mechanism.cells import keys
    from referent_probe.mechanism.damage import KINDS, unprimed_choice
    from referent_probe.models.tokens import encode

    template = contrast.template
    partner = context.pairs[contrast.pair].partner(template)
    prompt = choice_prompt(template, partner, ContextSetting.C0, contrast.order, context.wording)
    ids = encode(prompt, context.model.tokenizer, context.model.quirks).ids
    found = unprimed_choice(context.model, ids, contrast.tokens, heads, pool.mean(contrast))
    names = ("c0", *(f"c0, {kind}" for kind in KINDS))
    return pd.DataFrame(
        [
            keys(contrast) | {"setting": name, "tokens": len(ids), "log_odds": value}
            for name, value in zip(names, found, strict=True)
        ]
    )


def damages(context: Context, tables: Tables, heads: Sequence[Head]) -> tuple[list[Damage], str | None]:
    """Equivalence tests of both, by kind of ablation, and why one is missing."""
    from referent_probe.mechanism.damage import KINDS, neutral_losses

    found = []
    wide = tables["controls"].pivot_table(index="occupation", columns="setting", values="log_odds")
    for kind in KINDS:
        what = f"the unprimed choice, heads at {_WORDS[kind]},"
        found.append(damage(what, wide["c0"], wide[f"c0, {kind}"], MARGIN))
    losses = neutral_losses(context.model, NEUTRAL_TEXTS, heads)
    if losses is None:
        return found, "the model's vocabulary lacks words of the neutral texts, so that there is no loss on them"
    before = pd.Series(losses["none"])
    for kind in KINDS:
        what = f"the loss on {len(NEUTRAL_TEXTS)} neutral texts, heads at {_WORDS[kind]} everywhere,"
        found.append(damage(what, before, pd.Series(losses[kind]), LOSS_MARGIN, unit="nats a token"))
    return found, None


_WORDS = {"zero": "0", "mean": "their mean"}
