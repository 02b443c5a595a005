"""The stored tables: their columns, with type, unit and meaning.

A table that does not match its schema is never written. Columns that end in `_cf` and `_cm` belong to the prompt with
the feminine and with the masculine priming pronoun.
"""

from dataclasses import dataclass
from typing import Literal

import pandas as pd

Kind = Literal["text", "whole", "number"]

_DTYPES = {"text": "object", "whole": "int64", "number": "float64"}


@dataclass(frozen=True)
class Column:
    """A column of a stored table.

    Attributes:
        name: As in the file.
        kind: "text" (may be null), "whole" (int64) or "number" (float64, NaN where nothing was computed).
        meaning: What it holds, with unit and range.
    """

    name: str
    kind: Kind
    meaning: str


def _both(name: str, meaning: str) -> tuple[Column, Column]:
    return (
        Column(f"{name}_cf", "number", f"{meaning}; feminine prime"),
        Column(f"{name}_cm", "number", f"{meaning}; masculine prime"),
    )


_OF_CONTRAST = (
    Column("contrast", "text", "id of the contrast: template and option order, e.g. 004a-mf"),
    Column("pair", "text", "id of the pair"),
    Column("occupation", "text", "the cluster that is resampled"),
)

CONTRASTS = (
    *_OF_CONTRAST,
    Column("template", "text", "id of the target template"),
    Column("case", "text", "nominative, accusative or possessive"),
    Column("antecedent", "text", "occupation or participant: whom the blank refers to"),
    Column("option_order", "text", "mf: masculine option first; fm: feminine option first"),
    Column("tokens", "whole", "tokens of each prompt, T"),
    Column("first_difference", "whole", "position of the priming pronoun, from 0"),
    Column("ids_cf", "text", "sha256 of the token ids of the cf prompt"),
    Column("ids_cm", "text", "sha256 of the token ids of the cm prompt"),
    Column("total_effect", "number", "log_odds_cf - log_odds_cm, logits"),
    *_both("log_odds", "feminine over masculine option, logits, T = 1"),
    *_both("p_feminine", "probability of the feminine option, 0 to 1"),
    *_both("p_masculine", "probability of the masculine option, 0 to 1"),
    *_both("p_they", "probability of the form of they, 0 to 1; NaN where it is not one token"),
    *_both("p_other", "probability of every other token, 0 to 1"),
    Column("token_blocks", "whole", "tokens times blocks computed for all heads at the target slot, one direction"),
    Column("left_out", "text", "why the contrast was not patched; null where it was"),
)

HEADS = (
    *_OF_CONTRAST,
    Column("layer", "whole", "block, from 0"),
    Column("head", "whole", "query head, from 0"),
    Column("denoise", "number", "cm run with the head's output at the target slot from cf, minus cm run, logits"),
    Column("noise", "number", "cf run minus cf run with the head's output at the target slot from cm, logits"),
    *_both("attention_to_prime", "attention from the target slot to the priming pronoun, 0 to 1"),
    *_both("direct_logit_attribution", "head's direct logit attribution at the target slot, logits"),
    *_both("prime_attribution", "part of the direct logit attribution from the priming pronoun, logits"),
)

FLOW = (
    *_OF_CONTRAST,
    Column("layer", "whole", "block whose input is patched, from 0"),
    Column("span", "text", "span whose residual stream is patched"),
    Column("span_position", "whole", "first token of the span, from 0"),
    Column("span_tokens", "whole", "number of tokens of the span"),
    Column("effect", "number", "cm run with the span's residual stream from cf, minus cm run, logits"),
    Column("reason", "text", "why the effect is 0 without being computed; null where it was computed"),
)

INTERVENTIONS = (
    *_OF_CONTRAST,
    Column("kind", "text", "patch, knockout, ablation, circuit or path"),
    Column("what", "text", "site that is patched, kind of knockout or ablation, or the receiver's input (q, k, v)"),
    Column("layer", "whole", "first block, from 0"),
    Column("last_layer", "whole", "last block, from 0"),
    Column("head", "whole", "head, from 0 (key-value head for k and v); -1 for whole blocks or several heads"),
    Column("where", "text", "span, position or all: where in the prompt"),
    Column("label", "text", "what is cut, or which heads"),
    *_both("log_odds", "feminine over masculine option after the intervention, logits; NaN where not computed"),
    Column("reason", "text", "why nothing was computed, so that the log-odds are the run's own; null where it was"),
)

ATTRIBUTIONS = (
    *_OF_CONTRAST,
    Column("layer", "whole", "block, from 0"),
    Column("head", "whole", "query head, from 0"),
    Column("span", "text", "span whose tokens are attended to from the target slot"),
    *_both("attention", "attention to all of the span's tokens, 0 to 1"),
    Column("attention_c0", "number", "the same without a prime; NaN where not computed or the span is not there"),
    *_both("attribution", "part of the head's direct logit attribution that comes from the span, logits"),
)

PARTS = (
    *_OF_CONTRAST,
    Column("part", "text", "embedding, heads, mlps, biases or constant; all: their sum; logit_difference: the run's"),
    *_both("value", "share in the logit difference at the target slot, logits"),
)

SCORES = (
    *_OF_CONTRAST,
    Column("score", "text", "copying by token, or copying in the prompt"),
    Column("layer", "whole", "block, from 0"),
    Column("head", "whole", "query head, from 0"),
    Column("value", "number", "feminine less masculine pronoun through the head's values and output, logits"),
)

CONTROLS = (
    *_OF_CONTRAST,
    Column("setting", "text", "c0: no prime; n1, n2: null primes; r_np: noun phrase for the pronoun; r_both"),
    Column("tokens", "whole", "tokens of the prompt"),
    Column("log_odds", "number", "feminine over masculine option, logits, T = 1"),
)

PRIMED = (
    Column("pair", "text", "id of the pair"),
    Column("template", "text", "id of the target template"),
    Column("member", "whole", "1 or 2: which sentence of its pair the template is, in the file's order"),
    Column("occupation", "text", "the cluster that is resampled"),
    Column("case", "text", "nominative, accusative or possessive: of the blank"),
    Column("antecedent", "text", "occupation or participant: whom the blank refers to"),
    Column("antecedent_first", "text", "yes or no: whether the target names the blank's referent first"),
    Column("option_order", "text", "mf: masculine option first; fm: feminine option first"),
    Column("prime", "text", "same, other, third, mention, both, partner, third_frame, …: whose pronoun it is"),
    Column("variant", "text", "of both: which person first, and the other pronoun; of unprimed ones: the setting"),
    Column("frame", "whole", "number of the frame in its file, from 0; -1 without one"),
    Column("owner", "text", "the noun that the pronoun belongs to; null where it is nobody's"),
    Column("tokens", "whole", "tokens of the prompt"),
    Column("log_odds_feminine", "number", "feminine over masculine option after the feminine form, logits, T = 1"),
    Column("log_odds_masculine", "number", "the same after the masculine form; NaN where the prime has no pronoun"),
    Column("p_options", "number", "probability of the two options, mean of both prompts, 0 to 1"),
)

SAME_PERSON = (
    Column("pair", "text", "id of the pair"),
    Column("template", "text", "id of the target template"),
    Column("occupation", "text", "the cluster that is resampled"),
    Column("prime", "text", "same, other or third"),
    Column("gender", "text", "of the priming pronoun: feminine or masculine"),
    Column("listed", "text", "answers in the order in which they were listed"),
    Column("log_odds_yes", "number", "yes over no, logits, T = 1"),
)

SELF_CHECKS = (
    Column("contrast", "text", "id of the contrast"),
    Column("sweep", "text", "denoise, noise or flow"),
    Column("layer", "whole", "block, from 0"),
    Column("head", "whole", "query head, from 0; -1 for flow"),
    Column("span", "text", "span, for flow; target_slot for heads"),
    Column("fast", "number", "effect by the partial pass, logits"),
    Column("brute_force", "number", "the same effect by a full pass with hooks, logits"),
    Column("abs_diff", "number", "absolute difference, logits"),
)

_OF_PROMPT = (
    Column("pair", "text", "id of the pair"),
    Column("template", "text", "id of the target template"),
    Column("setting", "text", "c0, cf, cm, n1, n2, r_np or r_both"),
    Column("option_order", "text", "mf: masculine option first; fm: feminine option first"),
)

CHOICES = (
    *_OF_PROMPT,
    Column("member", "whole", "1 or 2: which sentence of its pair the template is, in the file's order"),
    Column("occupation", "text", "the cluster that is resampled"),
    Column("participant", "text", "the other noun"),
    Column("case", "text", "nominative, accusative or possessive"),
    Column("antecedent", "text", "occupation or participant: whom the blank refers to"),
    Column("antecedent_noun", "text", "the noun that the blank refers to"),
    Column("other_noun", "text", "the other noun; its pronoun is the prime's"),
    Column("tokens", "whole", "tokens of the prompt"),
    Column("ids", "text", "sha256 of the prompt's token ids"),
    Column("log_odds", "number", "feminine over masculine option, logits, T = 1, unwarped"),
    Column("option_tokens", "whole", "tokens of the longer option; where above 1, log_odds chains them"),
    Column("nodes", "whole", "partial answers whose next token was read"),
)

ANSWERS = (
    *_OF_PROMPT,
    Column("temperature", "number", "T of the sampling that the probabilities are of"),
    Column("p_feminine", "number", "probability that the answer is the feminine option, 0 to 1"),
    Column("p_masculine", "number", "probability that the answer is the masculine option, 0 to 1"),
    Column("p_they", "number", "probability that the answer is the form of they, 0 to 1"),
    Column("p_other", "number", "probability of every other answer, 0 to 1"),
    Column("unexplored", "number", "bound on the error of each of the four, 0 to 1"),
)

JOINT = (
    Column("pair", "text", "id of the pair"),
    Column("sentence_order", "whole", "1: sentence 1 stands first; 2: sentence 2 stands first"),
    Column("option_order_1", "text", "order of the options listed for sentence 1, mf or fm"),
    Column("option_order_2", "text", "order of the options listed for sentence 2, mf or fm"),
    Column("temperature", "number", "T of the sampling that the probabilities are of"),
    Column("p_ff", "number", "P(sentence 1 feminine, sentence 2 feminine), given two options; the four sum to 1"),
    Column("p_fm", "number", "P(sentence 1 feminine, sentence 2 masculine), given two options"),
    Column("p_mf", "number", "P(sentence 1 masculine, sentence 2 feminine), given two options"),
    Column("p_mm", "number", "P(sentence 1 masculine, sentence 2 masculine), given two options"),
    Column("p_valid", "number", "probability that both answers are options, 0 to 1"),
    Column("unexplored", "number", "bound on the error of the probabilities behind them, 0 to 1"),
    Column("ids", "text", "sha256 of the token ids of the prompt up to the first answer"),
)

SENTENCES = (
    Column("pair", "text", "id of the pair"),
    Column("template", "text", "id of the target template"),
    Column("setting", "text", "c0, cf, cm, n1, n2, r_np or r_both"),
    Column("tokens", "whole", "tokens scored, from the first that differs to the end of the sentence"),
    Column("log_p_feminine", "number", "log-probability of these tokens with the feminine form, nats"),
    Column("log_p_masculine", "number", "log-probability of these tokens with the masculine form, nats"),
    Column("log_odds", "number", "their difference, logits: reads the whole sentence"),
    Column("left_context_log_odds", "number", "the same of the pronoun's own tokens: reads what stands before only"),
)

DRAWS = (
    *_OF_PROMPT,
    Column("temperature", "number", "T of the sampling"),
    Column("n", "whole", "answers drawn"),
    Column("n_feminine", "whole", "answers that parse to the feminine option"),
    Column("n_masculine", "whole", "answers that parse to the masculine option"),
    Column("n_they", "whole", "answers that parse to the form of they"),
    Column("n_other", "whole", "answers that parse to none of these"),
)

COMPREHENSION = (
    Column("pair", "text", "id of the pair"),
    Column("template", "text", "id of the target template"),
    Column("setting", "text", "cf or cm"),
    Column("question", "text", "referent, part_of_speech or gender"),
    Column("listing", "whole", "in which order the answers are listed, from 0"),
    Column("right", "text", "the right answer"),
    Column("answer", "text", "the most probable answer"),
    Column("p_right", "number", "probability of the right answer, given one that is listed, 0 to 1"),
    Column("p_listed", "number", "probability of the answers that are listed, 0 to 1, T = 1"),
    Column("ids", "text", "sha256 of the prompt's token ids"),
)

SCHEMAS = {
    "contrasts": CONTRASTS,
    "heads": HEADS,
    "flow": FLOW,
    "interventions": INTERVENTIONS,
    "attributions": ATTRIBUTIONS,
    "parts": PARTS,
    "scores": SCORES,
    "controls": CONTROLS,
    "primed": PRIMED,
    "prime_contrasts": CONTRASTS,
    "same_person": SAME_PERSON,
    "self_checks": SELF_CHECKS,
    "choices": CHOICES,
    "answers": ANSWERS,
    "joint": JOINT,
    "sentences": SENTENCES,
    "draws": DRAWS,
    "comprehension": COMPREHENSION,
}

PATCHING = ("contrasts", "heads", "flow", "self_checks")
INTERVENING = ("contrasts", "interventions", "attributions", "parts", "scores", "controls", "self_checks")
CONFLATION = ("contrasts", "prime_contrasts", "primed", "same_person", "interventions", "self_checks")
MEASUREMENT = ("choices", "answers", "joint", "sentences", "draws", "comprehension")
"""The tables of the four kinds of run."""


def conform(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The table with its schema's columns in its schema's order and types.

    Raises:
        ValueError: A column is missing or unknown.

    Example:
        `conform("flow", table).dtypes["layer"]` is int64, also for a table without rows.
    """
    columns = SCHEMAS[name]
    wanted = [column.name for column in columns]
    if set(table.columns) != set(wanted):
        unlike = sorted(set(table.columns) ^ set(wanted))
        raise ValueError(f"table {name!r} and its schema differ in the columns {unlike}")
    return table[wanted].astype({column.name: _DTYPES[column.kind] for column in columns})
