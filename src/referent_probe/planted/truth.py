"""What is known of a planted model beforehand: the content of its `truth.json`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from referent_probe.analysis.contextuality import delta_c
from referent_probe.planted.heads import heads_of
from referent_probe.planted.rules import MIDPOINT, PRIMES, Carrier, Referent, Rule
from referent_probe.planted.words import prior_of
from referent_probe.stimuli.templates import Pair, Template

READS = {
    "own": "the pronoun of the blank's own referent",
    "other": "the pronoun of the other person of the target sentence",
    "own or other": "a pronoun of either person of the target sentence",
    "last": "the last gendered word of the passage",
}

_REFERENTS: tuple[Referent, ...] = ("occupation", "participant")


def truth_of(rule: Rule, pairs: Sequence[Pair]) -> dict[str, Any]:
    """What `truth.json` says, but for the architecture.

    Args:
        rule: Of the model.
        pairs: All pairs of its stimuli.

    Returns:
        `name`, `rule`, the heads by kind (`carriers`, `support`, `distractors`, `constant`), `target_slot_effects` by
        head, `midpoints` by template, `effects` by prime and template, `delta_c` by estimator and pair, `verdict` and
        `unit`.
    """
    templates: list[tuple[Template, Referent]] = [
        (template, template.antecedent.value) for pair in pairs for template in pair.members
    ]
    midpoints = {t.id: MIDPOINT + rule.prior * prior_of(t.antecedent_noun) for t, _ in templates}
    effects = {prime: {t.id: rule.effect(prime, referent) for t, referent in templates} for prime in PRIMES}
    return {
        "name": rule.name,
        "rule": rule.words,
        **_heads(rule),
        "target_slot_effects": target_slot_effects(rule),
        "midpoints": midpoints,
        "effects": effects,
        "delta_c": {
            estimator: {pair.id: _delta_c(pair, midpoints, effects["partner"], estimator) for pair in pairs}
            for estimator in ("self_primed", "steered")
        },
        "verdict": rule.verdict,
        "unit": "logits; temperature 1",
    }


def target_slot_effects(rule: Rule) -> dict[str, float]:
    """What patching each head at the target slot moves, in logits, by "layer.head".

    After the prime of the main job, the other sentence of the pair, and in the mean over both classes of referent,
    of which every pair has one each: a head that works for one class moves half of its effect.

    Example:
        >>> from referent_probe.planted.rules import RULES
        >>> [target_slot_effects(RULES["gated-conflater"])[head] for head in ("4.0", "4.1", "4.2")]
        [0.25, 2.0, 0.0]
    """
    effects = {f"{layer}.{head}": 0.0 for layer, head in heads_of(rule)}
    for head, carrier in _placed(rule):
        works = [carrier.effect for one in _REFERENTS if carrier.only in (None, one)]
        effects[f"4.{head}"] = sum(works) / len(_REFERENTS) if carrier.moved_by("partner") else 0.0
    return effects


def _delta_c(pair: Pair, midpoints: Mapping[str, float], effects: Mapping[str, float], estimator: Any) -> float:
    one, two = (template.id for template in pair.members)

    def p(member: str, prime: float) -> float:
        return float(1 / (1 + np.exp(-midpoints[member] - prime * effects[member] / 2)))

    six = [p(one, 0), p(two, 0), p(two, 1), p(two, -1), p(one, 1), p(one, -1)]
    return float(delta_c(*six, estimator=estimator))


def _heads(rule: Rule) -> dict[str, Any]:
    """Every head once: carriers, those that they depend on, distractors, and the saturator's constant one."""
    heads = heads_of(rule)
    carriers = [
        {
            "layer": 4,
            "head": head,
            "reads": READS[carrier.reads],
            "where": "target-slot",
            "effect": carrier.effect,
            "only": carrier.only,
        }
        for head, carrier in _placed(rule)
    ]
    if any(carrier.reads != "last" for carrier in rule.carriers):
        reads = "the gendered word of its sentence, for the heads of block 4"
        carriers.insert(0, {"layer": 1, "head": 1, "reads": reads, "where": "sentence-end"})
    named = {(carrier["layer"], carrier["head"]) for carrier in carriers}
    constant = [{"layer": 4, "head": 2}] if rule.constant else []
    distractors = [place for place, head in heads.items() if "distraction" in head.writes]
    support = [
        p for p in heads if p not in named and p not in distractors and {"layer": p[0], "head": p[1]} not in constant
    ]
    listed = {"carriers": carriers, "support": _places(support), "distractors": _places(distractors)}
    return listed | ({"constant": constant} if constant else {})


def _placed(rule: Rule) -> Iterator[tuple[int, Carrier]]:
    """Carriers of block 4 with their heads, as `heads_of` places them."""
    yield from enumerate(carrier for carrier in rule.carriers if carrier.reads != "last")
    yield from enumerate((carrier for carrier in rule.carriers if carrier.reads == "last"), start=2)


def _places(places: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"layer": layer, "head": head} for layer, head in places]
