"""Does the model understand the primed item: accuracy of the three questions, over all listings of their answers."""

from typing import Any

import numpy as np

from referent_probe.analysis.behaviour.arrays import Arrays
from referent_probe.analysis.behaviour.clustered import clustered_means, share_interval
from referent_probe.analysis.behaviour.quantities import found
from referent_probe.errors import RunError

_NUMBERS = {
    "comprehension_accuracy": "correct",
    "comprehension_p_right": "p_right",
    "comprehension_p_listed": "p_listed",
}


def comprehension_quantities(run: Arrays, seed: int) -> list[dict[str, Any]]:
    """Accuracy and probabilities by question, for cf, cm and both ("cf+cm"); none without the table.

    A prompt is one question about one template in one setting, in one listing of the answers.

    Raises:
        RunError: The table has a template that the choices lack.
    """
    table = run.tables["comprehension"]
    if table.empty:
        return []
    known = run.templates[["template", "occupation"]]
    if unknown := sorted(set(table["template"]) - set(known["template"])):
        raise RunError(f"the run of {run.model!r} asks about template {unknown[0]!r}, which it lacks: measure it again")
    table = table.merge(known, on="template").assign(correct=(table["right"] == table["answer"]).astype(float))
    rows = []
    for question, of_question in table.groupby("question", sort=False):
        for setting, members in (("cf", ("cf",)), ("cm", ("cm",)), ("cf+cm", ("cf", "cm"))):
            part = of_question[of_question["setting"].isin(members)]
            if part.empty:
                continue
            cells = part[list(_NUMBERS.values())].to_numpy(dtype=np.float64)
            means = clustered_means(cells, part["occupation"].to_numpy(), seed=seed, unit="share of prompts")
            for quantity, mean in zip(_NUMBERS, means, strict=True):
                about: dict[str, Any] = {"n_rows": mean.n_rows, "rows_of": "prompts", "n_left_out": mean.n_left_out}
                interval = share_interval(mean.interval) if quantity == "comprehension_accuracy" else mean.interval
                rows.append(found(quantity, interval, **about, setting=setting, factor=str(question)))
    return rows
