"""Oracles: maps that are the same, unrelated, or nothing but the noise of the prime that both are measured against."""

import doctest

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from referent_probe.analysis.conflation import head_map_agreement as module
from referent_probe.analysis.conflation.head_map_agreement import MapAgreement, map_agreement
from referent_probe.errors import OptionError

N_HEADS = 60
Map = NDArray[np.float64]


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def table(same: Map, other: Map, third: Map, seed: int, n: int = 24, noise: float = 1.0) -> pd.DataFrame:
    rng, parts = np.random.default_rng(seed), []
    for prime, values in (("same", same), ("other", other), ("third", third)):
        for occupation in range(n):
            drawn = values + noise * rng.normal(size=(2, N_HEADS))
            parts.append(
                pd.DataFrame(
                    {
                        "prime": prime,
                        "occupation": f"role {occupation:02}",
                        "layer": np.arange(N_HEADS) // 6,
                        "head": np.arange(N_HEADS) % 6,
                        "denoise": drawn[0],
                        "noise": drawn[1],
                    }
                )
            )
    return pd.concat(parts)


def maps(seed: int) -> tuple[Map, Map]:
    rng = np.random.default_rng(seed)
    return 0.3 * rng.normal(size=N_HEADS), 0.3 * rng.normal(size=N_HEADS)


def mean_of(found: list[MapAgreement], field: str) -> float:
    return float(np.mean([x.spearman.mean if field == "spearman" else getattr(x, field) for x in found]))


@pytest.fixture(scope="module")
def kinds() -> dict[str, list[MapAgreement]]:
    """Both directions of several simulated models of each kind."""
    nothing = np.zeros(N_HEADS)
    found: dict[str, list[MapAgreement]] = {"one map": [], "two maps": [], "repeater": []}
    for seed in range(6):
        a, b = maps(seed)
        for kind, (same, other, third) in {
            "one map": (a, a, nothing),
            "two maps": (a, b, nothing),
            "repeater": (a, a, a),
        }.items():
            found[kind] += map_agreement(table(same, other, third, seed), seed=0, n_resamples=49)
    return found


def test_one_map_agrees_up_to_its_ceiling(kinds: dict[str, list[MapAgreement]]) -> None:
    one = kinds["one map"]
    assert mean_of(one, "across_halves") == pytest.approx(mean_of(one, "across_halves_ceiling"), abs=0.06)
    assert mean_of(one, "across_halves") > 0.25
    # The plain one is above what perfect agreement would give: both maps hold the noise of the same third.
    assert mean_of(one, "spearman") > mean_of(one, "ceiling") + 0.1


def test_two_maps_do_not_agree(kinds: dict[str, list[MapAgreement]]) -> None:
    assert abs(mean_of(kinds["two maps"], "across_halves")) < 0.1
    assert mean_of(kinds["two maps"], "across_halves_ceiling") > 0.25
    assert mean_of(kinds["two maps"], "spearman") > 0.1  # noise alone


def test_a_repeater_has_no_maps_and_the_plain_correlation_invents_one(kinds: dict[str, list[MapAgreement]]) -> None:
    repeater = kinds["repeater"]
    assert mean_of(repeater, "spearman") == pytest.approx(0.5, abs=0.1)
    assert abs(mean_of(repeater, "across_halves")) < 0.1
    assert mean_of(repeater, "across_halves_ceiling") < 0.1


def test_without_noise_it_is_spearman_of_the_maps() -> None:
    a, b = maps(9)
    [first, second] = map_agreement(table(a, b, np.zeros(N_HEADS), 0, n=8, noise=0.0), seed=0, n_resamples=49)
    expected = spearmanr(b, a).statistic
    assert (first.direction, second.direction, first.n_heads) == ("denoise", "noise", N_HEADS)
    for value in (first.spearman.mean, first.spearman.low, first.across_halves):
        assert value == pytest.approx(expected)
    assert first.ceiling == first.across_halves_ceiling == pytest.approx(1.0)


def test_the_interval_is_over_occupations(kinds: dict[str, list[MapAgreement]]) -> None:
    for one in kinds["one map"]:
        assert one.spearman.low <= one.spearman.mean <= one.spearman.high
        assert (one.spearman.n, one.spearman.unit) == (24, "rho")


def test_occupations_in_common_are_needed() -> None:
    a, b = maps(0)
    whole = table(a, b, a, 0, n=4)
    lone = whole[~((whole["prime"] == "third") & (whole["occupation"] != "role 00"))]
    with pytest.raises(OptionError, match=r"1 occupations with same, other and third"):
        map_agreement(lone, seed=0)
