"""Oracles: heads with known effects after each prime."""

import doctest
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from referent_probe.analysis.conflation import carrier_sets as module
from referent_probe.analysis.conflation.carrier_sets import PRIMES, carrier_sets, head_maps
from referent_probe.errors import OptionError
from referent_probe.planted.rules import RULES

HEADS: Mapping[tuple[int, int], Mapping[str, float]] = {
    (0, 0): {},
    (0, 1): {"same": 1.0, "other": 1.0, "partner": 1.0},  # conflates
    (0, 2): dict.fromkeys(PRIMES, 1.0),  # repeats
    (1, 0): {"same": 1.0},  # binds
    (1, 1): {"other": 1.0, "partner": -1.0},  # two signs
    (1, 2): {"other": 1.0},  # in one-person frames alone
    (2, 0): {"partner": 1.0},  # in pairs alone
    (2, 1): {"other": 1.5, "partner": 1.5, "third": 0.5, "third_frame": 0.5},  # more of what the other person's does
    (2, 2): {"other": -0.8, "partner": -0.8},  # against
}


def table(
    heads: Mapping[tuple[int, int], Mapping[str, float]], n: int = 12, *, noise: float = 0.05, one_way: str = ""
) -> pd.DataFrame:
    """Two contrasts an occupation; the last head of `one_way` is silent in that direction."""
    rng, rows = np.random.default_rng(0), []
    for prime in PRIMES:
        for occupation in range(n):
            for _ in range(2):
                for (layer, head), of in heads.items():
                    a, b = of.get(prime, 0.0) + noise * rng.normal(size=2)
                    rows.append((prime, f"role {occupation:02}", layer, head, a, b))
    found = pd.DataFrame(rows, columns=["prime", "occupation", "layer", "head", "denoise", "noise"])
    if one_way:
        found.loc[(found["layer"] == 0) & (found["head"] == 1), one_way] *= 0.0
    return found


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def test_heads_are_sorted_by_whose_pronoun_they_read() -> None:
    found = carrier_sets(table(HEADS), 0.01, seed=0)
    assert found.k == ((0, 1), (2, 1), (2, 2))
    assert found.r == ((0, 2),)
    assert found.reason is None
    sets = found.table.set_index(["layer", "head"])
    assert sets["set"].to_dict() == {h: "K" if h in found.k else "R" if h in found.r else "" for h in HEADS}
    assert sets.loc[(2, 1), "other - third, denoise mean"] == pytest.approx(1.0, abs=0.05)
    assert sets.loc[(1, 1), "partner - third_frame, noise mean"] == pytest.approx(-1.0, abs=0.05)
    assert sets.loc[(1, 1), "partner - third_frame, noise p"] <= 0.05
    assert sets.loc[(0, 0), "third_frame, denoise p"] > 0.05


@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_one_direction_is_not_enough(direction: str) -> None:
    assert (0, 1) not in carrier_sets(table(HEADS, one_way=direction), 0.01, seed=0).k


def test_directions_must_have_one_sign() -> None:
    turned = table(HEADS).assign(noise=lambda t: -t["noise"])
    found = carrier_sets(turned, 0.01, seed=0)
    assert (found.k, found.r) == ((), ())


def test_what_is_sure_and_tiny_is_nobodys() -> None:
    tiny = {head: {prime: 0.004 * e for prime, e in of.items()} for head, of in HEADS.items()}
    assert carrier_sets(table(tiny, noise=1e-4), 0.01, seed=0).k == ()
    assert carrier_sets(table(tiny, noise=1e-4), 0.01, seed=0).r == ()
    assert carrier_sets(table(tiny, noise=1e-4), 0.001, seed=0).k == ((0, 1), (2, 1), (2, 2))


def test_planted_rules_are_found() -> None:
    for name, k, r in (
        ("gated-conflater", 2, 0),
        ("gated-repeater", 0, 2),
        ("conflater-with-gated-repeater", 1, 1),
        ("binder", 0, 0),
        ("stereotyper", 0, 0),
    ):
        carriers = RULES[name].carriers
        heads = {
            (4, i): {p: c.effect / (2 if c.only else 1) for p in PRIMES if c.moved_by(p)}
            for i, c in enumerate(carriers)
        }
        found = carrier_sets(table({**heads, (0, 0): {}}, noise=0.0), 0.001, seed=0)
        assert (len(found.k), len(found.r)) == (k, r), name


def test_noise_makes_no_carriers() -> None:
    found = carrier_sets(table({(i, j): {} for i in range(6) for j in range(6)}), 0.0, seed=0)
    assert (found.k, found.r, len(found.table)) == ((), (), 36)


def test_under_six_occupations_nothing_is_called() -> None:
    found = carrier_sets(table(HEADS, n=5), 0.01, seed=0)
    assert (found.k, found.r) == ((), ())
    assert str(found.reason).startswith("other - third: 5 occupations, under 6; partner - third_frame: 5")
    assert found.table["third_frame, denoise p"].isna().all()


def test_differences_are_over_occupations_that_both_primes_have() -> None:
    whole = table(HEADS)
    lacking = whole[~((whole["prime"] == "third") & (whole["occupation"] == "role 00"))]
    found = carrier_sets(lacking, 0.01, seed=0)
    assert found.n_occupations == {"other - third": 11, "partner - third_frame": 12, "third_frame": 12}


def test_missing_primes_and_heads_are_refused() -> None:
    whole = table(HEADS)
    with pytest.raises(OptionError, match=r"no head effects after 'third_frame'"):
        carrier_sets(whole[whole["prime"] != "third_frame"], 0.01, seed=0)
    gap = (
        (whole["prime"] == "other") & (whole["occupation"] == "role 03") & (whole["layer"] == 1) & (whole["head"] == 2)
    )
    with pytest.raises(OptionError, match=r"head 1\.2 after 'other' in 'role 03'"):
        carrier_sets(whole[~gap], 0.01, seed=0)


def test_rows_of_an_occupation_are_averaged() -> None:
    maps = head_maps(table(HEADS, noise=0.0), ["other"])
    assert maps["other"].loc["role 00", ("denoise", 2, 1)] == 1.5
    assert maps["other"].shape == (12, 18)
