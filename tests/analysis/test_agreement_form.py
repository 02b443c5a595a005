"""Oracles: dC by its definitions."""

import doctest
from itertools import product

import numpy as np
import pytest

from referent_probe.analysis import agreement_form as module
from referent_probe.analysis.agreement_form import agreement_form, agreement_form_joint
from referent_probe.analysis.contextuality import delta_c, delta_c_joint
from referent_probe.analysis.joint_tables import self_primed_joint
from referent_probe.errors import OptionError
from referent_probe.randomness import generator

SIX = np.concatenate(
    [generator(0, "six").random((6, 100_000)), np.array(list(product([0.0, 0.5, 1.0], repeat=6))).T], axis=1
)


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(module).failed == 0


def test_steered_is_its_agreement_form() -> None:
    _, _, a_f, a_m, b_f, b_m = SIX
    found = np.asarray(agreement_form(a_f, 1 - a_m, b_f, 1 - b_m))
    assert np.max(np.abs(found - delta_c(*SIX, estimator="steered"))) < 1e-12


def test_self_primed_is_its_agreement_form() -> None:
    found = np.asarray(agreement_form_joint(*self_primed_joint(*SIX)))
    assert np.max(np.abs(found - delta_c(*SIX, estimator="self_primed"))) < 1e-12


def test_joint_is_its_agreement_form() -> None:
    first, second = generator(0, "tables").dirichlet(np.full(4, 0.5), (2, 100_000)).reshape(2, -1, 2, 2)
    assert np.max(np.abs(np.asarray(agreement_form_joint(first, second)) - delta_c_joint(first, second))) < 1e-12


def test_ties_are_exact() -> None:
    rates = np.arange(201) / 200
    assert not np.any(agreement_form(rates, rates, rates, rates))


def test_nan_passes_and_scalars_give_floats() -> None:
    assert np.isnan(agreement_form([np.nan, 0.5], 0.5, 0.5, 0.5)).tolist() == [True, False]
    assert type(agreement_form(0.5, 0.5, 0.5, 0.5)) is float
    assert np.isnan(agreement_form_joint(np.full((2, 2), np.nan), np.full((2, 2), 0.25)))


def test_bad_input_is_quoted() -> None:
    with pytest.raises(OptionError, match="c1_m holds 7"):
        agreement_form(0.5, 0.5, 0.5, 7)
    with pytest.raises(OptionError, match="joint_o1 holds a table that sums to 0"):
        agreement_form_joint(np.zeros((2, 2)), np.full((2, 2), 0.25))
