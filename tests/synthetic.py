"""Tables with known effects, for the tests of analysis and report."""

import numpy as np
import pandas as pd

TRUE = {(0, 1): (0.9, 0.8), (1, 0): (0.0, -0.5), (1, 1): (0.002, 0.002)}
"""Layer and head to effects in denoising and noising: one strong, one against the rest, one consistent but tiny."""


def heads_table(n_occupations: int, noise: float = 0.01, layers: int = 2, heads: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for occupation in range(n_occupations):
        for contrast in range(4):
            for layer in range(layers):
                for head in range(heads):
                    denoise, noising = TRUE.get((layer, head), (0.0, 0.0))
                    tiny = (layer, head) == (1, 1)
                    jitter = rng.normal(0, 1e-5 if tiny else noise, 2)
                    row = {
                        "contrast": f"{occupation}-{contrast}",
                        "pair": str(occupation),
                        "occupation": f"occupation {occupation}",
                        "layer": layer,
                        "head": head,
                        "denoise": denoise + jitter[0],
                        "noise": noising + jitter[1],
                    }
                    row |= {f"attention_to_prime_{s}": v for s, v in (("cf", 0.4), ("cm", 0.2))}
                    row |= {f"direct_logit_attribution_{s}": v for s, v in (("cf", 1.5), ("cm", 0.5))}
                    row |= {f"prime_attribution_{s}": v for s, v in (("cf", 0.3), ("cm", 0.4))}
                    rows.append(row)
    return pd.DataFrame(rows)
