"""How much memory patching a contrast takes, said before it starts."""

from collections.abc import Sequence

from referent_probe.mechanism.contrasts import Contrast
from referent_probe.models.load import LoadedModel
from referent_probe.models.memory import pass_bytes
from referent_probe.models.resume import PACKED_TOKENS

OVERHEAD = 96 * 2**20
"""Bytes that allocators and libraries take beside."""


def expected_bytes(contrasts: Sequence[Contrast], model: LoadedModel) -> int:
    """About how much memory the largest contrast takes beside the model, in bytes; 0 without work.

    Args:
        contrasts: Those that are patched.
        model: The model.

    Example:
        On SmolLM2 a prompt of 134 tokens takes about 300 MiB.
    """
    lengths = [(c.length, c.first_difference) for c in contrasts if c.left_out is None]
    if not lengths:
        return 0
    longest, shortest_prefix = max(n for n, _ in lengths), min(first for _, first in lengths)
    cfg = model.bridge.cfg
    kept = longest - shortest_prefix
    rows = min(PACKED_TOKENS, model.n_layers * model.n_heads)
    slot = pass_bytes(model.network, tokens=2 * rows, keys=longest + rows, prefixes=2, prefix=longest)
    beside = 2 * max(1, PACKED_TOKENS // kept)
    wide = pass_bytes(model.network, tokens=beside * kept, keys=longest, prefixes=beside, prefix=shortest_prefix)
    whole = pass_bytes(model.network, tokens=2 * longest, keys=longest, prefixes=0, prefix=0)
    logits = 2 * longest * int(cfg.d_vocab) * 4
    recorded = 8 * model.n_layers * (2 * kept * int(cfg.d_model) + 2 * longest * model.n_heads * int(cfg.d_head))
    return max(slot, wide, whole + logits) + 2 * recorded + OVERHEAD
