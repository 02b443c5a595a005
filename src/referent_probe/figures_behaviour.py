"""Drawings of what an analysis finds about answers: their probability, divergence, stereotype, information, invariance.

Every function takes tables of `referent_probe.analysing` and returns a `Figure` with a panel a model; it computes and
saves nothing. Shown are answers to prompts, at the primary temperature unless temperature is the axis, with 95 %
intervals. Contextuality is drawn in `figures_contextuality`.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from referent_probe.figures import BLUE, GREY, ORANGE
from referent_probe.figures_lanes import (
    BLACK,
    BOTH_LANE,
    GREEN,
    ORDER_LANES,
    PURPLE,
    Keys,
    Lane,
    Temperature,
    chosen,
    models_of,
    present,
    where,
)
from referent_probe.figures_panels import SHADE, SMALL, Dots, Lines, stacked, strip

SETTINGS = {
    "c0": "unprimed (c0)",
    "cf": "feminine prime (cf)",
    "cm": "masculine prime (cm)",
    "n1": "null prime (n1)",
    "n2": "null prime (n2)",
    "r_np": "referent only (r_np)",
    "r_both": "both named (r_both)",
}
"""Context settings as the figures name them, in their order."""

INFORMATION: dict[str, Keys] = {
    "priming pronoun": {"quantity": "mutual_information", "factor": "priming_pronoun"},
    "role type": {"quantity": "mutual_information", "factor": "role_type"},
    "case": {"quantity": "mutual_information", "factor": "case"},
    "option order": {"quantity": "mutual_information", "factor": "option_order"},
    "rating, 3 bins*": {"quantity": "mutual_information_excess", "factor": "rating_3"},
    "rating, 5 bins*": {"quantity": "mutual_information_excess", "factor": "rating_5"},
}
"""Factors of the upper panel of figure 3."""

WITHIN_TEMPLATES: dict[str, Keys] = {
    "pronoun | template": {"quantity": "mutual_information_conditional", "factor": "priming_pronoun"},
    "order | template": {"quantity": "mutual_information_conditional", "factor": "option_order"},
    "template (ceiling)": {"quantity": "mutual_information", "factor": "template"},
}
"""Factors of the lower panel of figure 3."""

_KL_LANES = tuple(
    Lane(label, {"quantity": f"kl_{name}", "option_order": "both"}, *look)
    for label, name, look in (
        ("exact mean", "exact_mean", (BLACK, "o")),
        ("exact median", "exact_median", (GREEN, "s")),
        ("smoothed mean (200 draws)", "smoothed_mean", (PURPLE, "D", True)),
    )
)
_SETTING_LANES = tuple(
    Lane(SETTINGS[setting], {"setting": setting}, *look)
    for setting, look in {
        "c0": (BLACK, "o", False, "-"),
        "cf": (ORANGE, "^", False, "-"),
        "cm": (BLUE, "v", False, "-"),
        "n1": (GREY, "s", False, "--"),
        "n2": (GREY, "s", True, ":"),
        "r_np": (GREEN, "P", False, "--"),
        "r_both": (PURPLE, "X", False, ":"),
    }.items()
)
_PROBABILITY = (-0.05, 1.05)


def figure_1(quantities: pd.DataFrame, shifts: pd.DataFrame, temperature: Temperature = 0.5) -> Figure:
    """Pronoun choice in each context setting, and its divergence from the unprimed one (the paper's figure 1).

    Args:
        quantities: Read are `p_feminine_share` (option orders mf and fm) and `kl_exact_mean`, `kl_exact_median`,
            `kl_smoothed_mean` (option order both).
        shifts: Read is `p_feminine_share` of each template, setting and option order.
        temperature: Primary one.

    Returns:
        Above p(f|c), an option order a lane: a point a template, the mean and its interval. Below the divergence in
        three readings, in bits.
    """
    models = models_of(quantities)
    tables = [chosen(quantities, model, temperature) for model in models]
    answers = [where(table, {"quantity": "p_feminine_share"}) for table in tables]
    points, places = [chosen(shifts, model, temperature) for model in models], (-0.2, 0.2)
    rows = present(answers, SETTINGS, ORDER_LANES)

    def draw_points(ax: Axes, model: int) -> None:
        for lane, place in zip(ORDER_LANES, places, strict=True):
            for row, keys in enumerate(rows.values()):
                p = where(points[model], {**keys, **lane.keys})["p_feminine_share"]
                strip(ax, p, row + place, lane.color, 0.32)

    share = "p(f|c): probability of the feminine option, given one of the two"
    upper = Dots(
        share, answers, rows, ORDER_LANES, 0.32, 0.5, _PROBABILITY, places=places, edge=BLACK, behind=draw_points
    )
    lower = Dots(
        "KL from the unprimed setting (bits)", tables, present(tables, SETTINGS, _KL_LANES), _KL_LANES, 0.25, 0.0
    )
    detail = "a point a template; markers: mean; bars: 95 % interval"
    kl = pd.concat([table[table["quantity"].str.startswith("kl_")] for table in tables])
    if np.isinf(where(kl, {"option_order": "both"})[["value", "high"]]).any(axis=None):
        detail += "; ∞: no upper end, an option has probability 0 unprimed and not with the prime"
    return stacked(models, [upper, lower], "Pronoun choice in each context setting", detail)


def figure_2(quantities: pd.DataFrame, temperature: Temperature = 0.5) -> Figure:
    """How far answers go with the stereotype, and how much less they do when primed (the paper's figure 2).

    Args:
        quantities: Read are `spearman` and `spearman_difference` (factor antecedent; partner where it is there).
        temperature: Primary one.

    Returns:
        Above rho of femininity rating and p(f|c), an option order a lane, the partner's rating in grey; below rho
        unprimed minus primed.
    """
    models = models_of(quantities)
    lanes = [
        Lane(lane.label, {**lane.keys, "factor": "antecedent"}, lane.color, lane.marker)
        for lane in (*ORDER_LANES, BOTH_LANE)
    ]
    if (quantities["factor"] == "partner").any():
        partner = {"option_order": "both", "factor": "partner"}
        lanes.append(Lane("both orders, partner's rating (as released)", partner, GREY, "s", hollow=True))
    tables = [chosen(quantities, model, temperature) for model in models]
    sections = []
    for name, xlabel in (
        ("spearman", "rank correlation of femininity rating and p(f|c) (rho)"),
        ("spearman_difference", "rho unprimed minus rho in the setting"),
    ):
        named = [where(table, {"quantity": name}) for table in tables]
        sections.append(Dots(xlabel, named, present(named, SETTINGS, lanes), lanes, 0.32, 0.0))
    detail = "rating of the pronoun's antecedent; bars: 95 % interval"
    return stacked(models, sections, "Stereotype in each context setting", detail)


def figure_3(quantities: pd.DataFrame, temperature: Temperature = 0.5) -> Figure:
    """What the answer says about the prompt (the paper's figure 3).

    Args:
        quantities: Read are `mutual_information`, `mutual_information_conditional` and `mutual_information_excess`
            (settings c0 and cf+cm).
        temperature: Primary one.

    Returns:
        Above the information about each factor; below that within a template, and about the template, which is the
        ceiling of what templates fix. In bits; primed settings filled, the unprimed one hollow.
    """
    models = models_of(quantities)
    lanes = [
        Lane(
            lane.label.replace(" option", "") + f", {name}",
            {**lane.keys, "setting": setting},
            lane.color,
            lane.marker,
            hollow,
        )
        for setting, name, hollow in (("cf+cm", "primed", False), ("c0", "unprimed", True))
        for lane in (*ORDER_LANES, BOTH_LANE)
    ]
    tables = [chosen(quantities, model, temperature) for model in models]
    upper = Dots("mutual information with the answer (bits)", tables, INFORMATION, lanes, 0.54, 0.0, explained=False)
    lower = Dots("mutual information with the answer (bits)", tables, WITHIN_TEMPLATES, lanes, 0.54, 0.0)
    detail = "* observed minus that of ratings shuffled over roles; bars: 95 % interval"
    return stacked(models, [upper, lower], "What the answer says about the prompt", detail)


def figure_invariance(quantities: pd.DataFrame, margin: float = 0.2) -> Figure:
    """Whether each context setting leaves the log-odds alone.

    Args:
        quantities: Read are `equivalence` with its `verdict`, and `share_within_margin`, both at the margin (factor
            occupation).
        margin: Largest shift that counts as none, in logits.

    Returns:
        Above the mean shift from the unprimed setting with the margin as a band and the verdict in a word, of both
        orders; below the share of single templates within the margin.
    """
    models, lanes = models_of(quantities), (*ORDER_LANES, BOTH_LANE)
    at = {"factor": "occupation", "threshold": margin}
    tables = [where(chosen(quantities, model), at) for model in models]
    means = [where(table, {"quantity": "equivalence"}) for table in tables]
    shares = [where(table, {"quantity": "share_within_margin"}) for table in tables]
    rows = present(means, SETTINGS, lanes)

    def draw_verdicts(ax: Axes, model: int) -> None:
        ax.axvspan(-margin, margin, color=SHADE, lw=0, zorder=0)
        for row, keys in enumerate(rows.values()):
            for verdict in where(means[model], {**keys, **BOTH_LANE.keys})["verdict"].dropna():
                look = {"fontsize": SMALL, "style": "italic", "ha": "right", "va": "center"}
                ax.text(0.99, row + 0.33, verdict, transform=ax.get_yaxis_transform(), **look)

    xlabel, places = "mean shift of log-odds from the unprimed setting (logits)", (-0.33, -0.11, 0.11)
    upper = Dots(xlabel, means, rows, lanes, 0.42, 0.0, places=places, behind=draw_verdicts, explained=False)
    within = f"share whose own shift is below {margin:g} logits"
    lower = Dots(within, shares, present(shares, SETTINGS, lanes), lanes, 0.3, limits=_PROBABILITY)
    detail = (
        f"band: margin of ±{margin:g} logits; bars: 95 % interval; verdict on the mean (both: not 0, yet equivalent)"
    )
    return stacked(models, [upper, lower], "Does a context leave the answer alone?", detail)


def figure_s4(quantities: pd.DataFrame) -> Figure:
    """Pronoun choice and divergence against temperature (the paper's figure S4).

    Args:
        quantities: Read are `p_feminine_share` (option orders mf and fm) and `kl_exact_mean` (both), at every
            temperature.

    Returns:
        p(f|c) with the masculine and with the feminine option first, and KL from the unprimed setting, in bits; a line
        a setting.
    """
    models = models_of(quantities)
    panels = (
        ("p_feminine_share", "mf", "p(f|c),\nmasculine first", _PROBABILITY),
        ("p_feminine_share", "fm", "p(f|c),\nfeminine first", _PROBABILITY),
        ("kl_exact_mean", "both", "mean KL from\nunprimed (bits)", None),
    )
    measured = set(where(quantities, {"quantity": "p_feminine_share"})["setting"])
    lanes = [lane for lane in _SETTING_LANES if lane.keys["setting"] in measured] or list(_SETTING_LANES)
    sections = [
        Lines(
            ylabel,
            [where(chosen(quantities, model), {"quantity": name, "option_order": order}) for model in models],
            lanes,
            limits,
            explained=name == "kl_exact_mean",
        )
        for name, order, ylabel, limits in panels
    ]
    detail = "settings side by side at each temperature; bars: 95 % interval"
    return stacked(models, sections, "Pronoun choice against temperature", detail)
