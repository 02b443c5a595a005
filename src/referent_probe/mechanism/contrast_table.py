"""The table "contrasts": a row a contrast, what its two prompts are and what they answer."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from referent_probe.measurement.choice import Choice
from referent_probe.mechanism.contrasts import Contrast
from referent_probe.records import CONTRASTS


def contrast_table(contrast: Contrast, choices: Sequence[Choice] | None, token_blocks: int) -> pd.DataFrame:
    """One row, for a contrast that was run or was left out.

    Args:
        contrast: The contrast.
        choices: What the cf and the cm prompt answer; None where it was left out.
        token_blocks: Tokens times blocks computed for its patched runs, one direction.
    """
    row: dict[str, object] = {column.name: np.nan for column in CONTRASTS if column.kind == "number"}
    row |= {
        "contrast": contrast.id,
        "pair": contrast.pair,
        "occupation": contrast.template.occupation,
        "template": contrast.template.id,
        "case": str(contrast.template.case),
        "antecedent": str(contrast.template.antecedent),
        "option_order": str(contrast.order),
        "tokens": contrast.length,
        "first_difference": contrast.first_difference,
        "ids_cf": _hash_ids(contrast.feminine.ids),
        "ids_cm": _hash_ids(contrast.masculine.ids),
        "token_blocks": token_blocks,
        "left_out": contrast.left_out,
    }
    if choices is not None:
        feminine, masculine = choices
        row["total_effect"] = feminine.log_odds - masculine.log_odds
        for setting, choice in zip(("cf", "cm"), choices, strict=True):
            for name in ("log_odds", "p_feminine", "p_masculine", "p_they", "p_other"):
                value = getattr(choice, name)
                row[f"{name}_{setting}"] = np.nan if value is None else value
    return pd.DataFrame([row])


def _hash_ids(ids: Sequence[int]) -> str:
    return hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()
