"""How much memory a pass takes beyond the model, said before it starts."""

from pathlib import Path
from typing import Any

import torch

from referent_probe.errors import ModelError


def pass_bytes(network: Any, *, tokens: int, keys: int, prefixes: int, prefix: int) -> int:
    """About the largest number of bytes that a pass through the blocks holds beside weights and recorded runs.

    Args:
        network: The Hugging Face model.
        tokens: Tokens computed at once, over the whole batch.
        keys: Keys that each of them is scored against.
        prefixes: Copies of the prefix's keys and values.
        prefix: Positions of the prefix.

    Example:
        On SmolLM2 (d_model 576, d_mlp 1536, 9 heads of 64) 540 tokens against 365 keys take about 50 MB.
    """
    config = network.config.get_text_config()
    heads, key_value_heads, size = _heads(config)
    width = int(config.hidden_size)
    inner = int(getattr(config, "intermediate_size", None) or 4 * width)
    # Residual stream, norms, q, k, v and z; gate, up and their product; scores, mask added, softmax.
    per_token = 5 * width + 4 * heads * size + 3 * inner + 3 * heads * keys
    # Keys and values of the prefix as they are, and again for each query head of a group.
    per_prefix = 2 * prefix * size * (key_value_heads + (heads if heads > key_value_heads else 0))
    return (tokens * per_token + prefixes * per_prefix) * int(network.dtype.itemsize)


def cache_bytes(network: Any, *, rows: int, positions: int) -> int:
    """Bytes of the keys and values of so many rows, in all blocks.

    Example:
        On SmolLM2 (30 blocks, 3 key-value heads of 64) 21 prompts of 130 tokens take 120 MB.
    """
    config = network.config.get_text_config()
    _, heads, size = _heads(config)
    return 2 * int(config.num_hidden_layers) * heads * size * rows * positions * int(network.dtype.itemsize)


def _heads(config: Any) -> tuple[int, int, int]:
    """Query heads, key-value heads, and the size of a head."""
    heads = int(config.num_attention_heads)
    key_value_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    return heads, key_value_heads, int(getattr(config, "head_dim", None) or config.hidden_size // heads)


def available_bytes(device: str) -> int:
    """Free memory of a device."""
    where = torch.device(device)
    if where.type == "cuda":
        return int(torch.cuda.mem_get_info(where)[0])
    import psutil

    return int(psutil.virtual_memory().available)


def refuse_too_little(needed: int, device: str, item: str) -> None:
    """Refuse work of which not even one item fits.

    Raises:
        ModelError: Names the item, what it needs and what is free.
    """
    free = available_bytes(device)
    if needed > free:
        raise ModelError(
            f"too little memory for {item}: a single patched run needs about {needed / 2**20:.0f} MiB and "
            f"{free / 2**20:.0f} MiB are free on {device}; close other programs, or give a smaller model"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a device or on the CPU."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def begin_measuring(device: str) -> int | None:
    """Let `above` count from now on; what this process holds now, None where that cannot be told."""
    where = torch.device(device)
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
        return int(torch.cuda.memory_allocated(where))
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is what is held now
    except OSError:
        return None
    return _from_status("VmRSS")


def above(held: int | None, device: str) -> int | None:
    """The most bytes that this process held beyond what `begin_measuring` told; None where it told nothing."""
    where = torch.device(device)
    peak = int(torch.cuda.max_memory_allocated(where)) if where.type == "cuda" else _from_status("VmHWM")
    return None if held is None or peak is None else max(0, peak - held)


def _from_status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
