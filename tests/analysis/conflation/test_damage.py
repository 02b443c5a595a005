"""Oracle: `statsmodels.stats.weightstats.ttost_paired`."""

import doctest

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.weightstats import ttost_paired

from referent_probe.analysis.conflation import damage as module
from referent_probe.analysis.conflation.damage import damage
from referent_probe.errors import OptionError


def series(values: object) -> "pd.Series[float]":
    values = np.asarray(values, dtype=float)
    return pd.Series(values, index=[f"role {i:02}" for i in range(len(values))])


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("shift", "words"),
    [(0.0, "survives the cut"), (-0.3, "is not shown to survive the cut"), (-2.0, "is damaged by the cut")],
)
def test_it_is_the_paired_test_of_statsmodels(shift: float, words: str) -> None:
    rng = np.random.default_rng(0)
    before = series(rng.normal(4.0, 1.0, 30))
    after = before + shift + rng.normal(0.0, 0.5, 30)
    found = damage("the effect of same", before, after, 0.3)
    assert found.p == pytest.approx(ttost_paired(after, before, -0.3, 0.3)[0])
    assert found.words.startswith(f"the effect of same {words}: it changes by")
    assert found.survives == (words == "survives the cut") == (max(-found.change.low, found.change.high) < 0.3)
    assert found.change.mean == pytest.approx((after - before).mean())


def test_occupations_are_paired_by_name_and_both_must_be_known() -> None:
    before, after = series([1.0, 2.0, 3.0, 4.0]), series([1.1, np.nan, 3.1, 4.1])
    found = damage("it", before, after.iloc[::-1], 0.2)
    assert (found.change.n, found.change.mean) == (3, pytest.approx(0.1))


def test_too_few_occupations_show_nothing() -> None:
    found = damage("it", series([1.0]), series([1.0]), 0.2)
    assert (found.survives, np.isnan(found.p)) == (False, True)
    assert "is not shown to survive" in found.words
    assert damage("it", series([]), series([]), 0.2).change.n == 0


def test_a_margin_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match=r"margin 0 is no margin"):
        damage("it", series([1.0]), series([1.0]), 0)
