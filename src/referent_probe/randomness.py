"""Randomness that is keyed by what it is for, and never global."""

import hashlib
import json

import numpy as np


def generator(seed: int, *labels: str | int) -> np.random.Generator:
    """A random generator of its own for every seed and list of labels; the same on every machine.

    Work that is keyed by what it is (`"bootstrap"`, a pair's id) draws the same numbers whatever ran before it.

    Example:
        >>> bool(generator(0, "pairs").random() == generator(0, "pairs").random())
        True
        >>> bool(generator(0, "pairs").random() == generator(0, "flips").random())
        False
    """
    key = json.dumps([seed, *labels], default=int)  # default: numpy's integers
    return np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big"))
