"""How many of the people in a role are women, as people judge it.

Source: Misersky, J., Gygax, P. M., Canal, P., Gabriel, U., Garnham, A., Braun, F., Chiarini, T., Englund, K.,
Hanulikova, A., Öttl, A., Valdrova, J., Von Stockhausen, L., & Sczesny, S. (2014). Norms on the gender perception of
role nouns in Czech, English, French, German, Italian, Norwegian, and Slovak. Behavior Research Methods, 46, 841-871.
`data/misersky_2014.csv` holds the English means, by singular noun.
"""

import csv
from functools import cache
from importlib.resources import files


def rating(role: str) -> float | None:
    """The mean share of women that people ascribe to a role, 0 to 1; None where the norms lack the noun.

    The noun is looked up as it is, but for capitals: no synonyms and no plurals.

    >>> rating("carpenter")
    0.25
    >>> rating("wombat keeper") is None
    True
    """
    return _ratings().get(role.lower())


@cache
def _ratings() -> dict[str, float]:
    text = files("referent_probe.stimuli").joinpath("data/misersky_2014.csv").read_text(encoding="utf-8")
    return {row["role"]: float(row["share_women"]) for row in csv.DictReader(text.splitlines())}
