"""What has a dC and what has none."""

import numpy as np
import pytest

from referent_probe.analysis.behaviour.single_blank import contextuality_of, refuse_left_context
from referent_probe.analysis.contextuality import delta_c, delta_c_joint
from referent_probe.analysis.joint_tables import qq_statistic, self_primed_joint
from referent_probe.errors import OptionError

SIX = np.random.default_rng(0).random((500, 2, 3))
P, BF, BM = SIX[:, 0].T
Q, AF, AM = SIX[:, 1].T


@pytest.mark.parametrize("estimator", ["self_primed", "steered", "released", "printed"])
def test_it_is_delta_c_of_the_six(estimator: str) -> None:
    found = contextuality_of(SIX, estimator=estimator)  # type: ignore[arg-type]
    expected = delta_c(P, Q, AF, AM, BF, BM, estimator=estimator)  # type: ignore[arg-type]
    assert found["delta_c"] == pytest.approx(expected, abs=1e-12)
    assert found["correlation_difference"] - found["signalling"] == pytest.approx(found["delta_c"], abs=1e-12)
    assert np.isnan(found["qq"]).all() == (estimator in ("released", "printed"))


def test_what_stands_beside_it() -> None:
    found = contextuality_of(SIX)
    tables = self_primed_joint(P, Q, AF, AM, BF, BM)
    assert found["delta_c"] == pytest.approx(delta_c_joint(*tables), abs=1e-12)
    assert found["qq"] == pytest.approx(qq_statistic(*tables), abs=1e-12)
    assert found["u_minus_v"] == pytest.approx(AF - AM - BF + BM)
    # Positive log odds ratios are shifts of the primed sentence's log-odds between the primes.
    shift = np.log(AF / (1 - AF)) - np.log(AM / (1 - AM)) - np.log(BF / (1 - BF)) + np.log(BM / (1 - BM))
    assert found["log_odds_ratio_difference"] == pytest.approx(shift)


@pytest.mark.parametrize("settings", [("n1", "n2"), ("r_np", "r_both"), ("cf", "n1"), ("cm", "cf"), ("cf",)])
def test_without_a_priming_pronoun_there_is_no_dc(settings: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match=r"no dC for .*without a priming pronoun there is no second answer"):
        contextuality_of(SIX, settings=settings)


def test_left_context_is_refused() -> None:
    with pytest.raises(OptionError, match="same text before the blank"):
        refuse_left_context("left_context")
    with pytest.raises(OptionError, match="'left_context' says nothing about pairs"):
        contextuality_of(SIX, reading="left_context")
    refuse_left_context("choice")
