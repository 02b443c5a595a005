"""Precisions of weights, and how far fast and full passes may then differ."""

from typing import Literal

Dtype = Literal["float32", "bfloat16", "float16"]

LARGEST_DIFFERENCE: dict[Dtype, float] = {"float32": 1e-4, "float16": 0.1, "bfloat16": 0.25}
"""Logits. Float32 rounding through thirty blocks stays well under its bound; half precisions promise little."""
