"""Oracles: simulated t tests; statsmodels' own search."""

import doctest

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from referent_probe.analysis.conflation import power as module
from referent_probe.analysis.conflation.power import power
from referent_probe.errors import OptionError


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def test_chances_are_those_of_simulated_tests() -> None:
    rng = np.random.default_rng(0)
    found = power(20, 1.5, 1.0, 0.9)
    detected = ttest_1samp(rng.normal(1.0, 1.5, (20, 4000)), 0).pvalue <= 0.05
    shown = [DescrStatsW(rng.normal(0.0, 1.5, 20)).ttost_mean(-0.9, 0.9)[0] <= 0.05 for _ in range(2000)]
    assert found.detects == pytest.approx(detected.mean(), abs=0.025)
    assert found.shows_zero == pytest.approx(np.mean(shown), abs=0.04)


def test_the_number_needed_is_statsmodels() -> None:
    found = power(12, 2.0, 1.5, 0.5)
    assert found.needed_to_detect == np.ceil(TTestPower().solve_power(0.75, power=0.8, alpha=0.05))
    one_sided = TTestPower().solve_power(0.25, power=0.9, alpha=0.05, alternative="larger")
    assert found.needed_to_show_zero == np.ceil(one_sided)
    assert found.n == 12


def test_hopeless_and_certain_cases_are_said() -> None:
    hopeless = power(10, 50.0, 0.1, 0.1)
    assert hopeless.needed_to_detect is None
    assert hopeless.needed_to_show_zero is None
    assert hopeless.shows_zero == 0.0
    assert "80 % takes over 2000" in str(hopeless)
    certain = power(5000, 0.01, 4.0, 1.0)
    assert (certain.detects, certain.shows_zero) == (1.0, 1.0)


@pytest.mark.parametrize("wrong", [(1, 1.0, 1.0, 0.2), (10, 0.0, 1.0, 0.2), (10, 1.0, 0.0, 0.2), (10, 1.0, 1.0, 0.0)])
def test_values_out_of_range_are_refused(wrong: tuple[int, float, float, float]) -> None:
    with pytest.raises(OptionError, match=r"power of .* give at least 2"):
        power(*wrong)
