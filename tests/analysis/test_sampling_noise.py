"""Oracles: enumeration of all counts, the calls one pair at a time, scipy's binomial test and intervals."""

import doctest
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, fisher_exact
from statsmodels.stats.multitest import multipletests

from referent_probe.analysis import noise_in_words, sampling_noise
from referent_probe.analysis.agreement_form import agreement_form
from referent_probe.analysis.behaviour.finished import read_run
from referent_probe.analysis.contextuality import delta_c
from referent_probe.analysis.noise_in_words import noise_summary
from referent_probe.analysis.sampling_noise import (
    BOUNDARIES,
    COLUMNS,
    LEVEL,
    boundary_noise,
    plain_call_probability,
    truth_of_run,
)
from referent_probe.errors import OptionError, RunError
from referent_probe.randomness import generator
from tests.measured import write_run

KEYS = list(COLUMNS[:5])
SOME = generator(0, "some rates").random((12, 2, 4))


@pytest.fixture(scope="module")
def boundary() -> pd.DataFrame:
    return boundary_noise(draws=[20, 200])


def p_of(template: Any, setting: str, order: str) -> float:
    return float(generator(0, template.id, setting, order).random())


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(sampling_noise).failed == 0
    assert doctest.testmod(noise_in_words).failed == 0


# The boundaries


@pytest.mark.parametrize("rates", BOUNDARIES.values())
def test_boundaries_have_a_degree_of_exactly_zero(rates: tuple[float, ...]) -> None:
    c2_f, c2_m, c1_f, c1_m = rates
    assert agreement_form(*rates) == 0
    steered = delta_c(0.5, 0.5, c2_f, 1 - c2_m, c1_f, 1 - c1_m, estimator="steered")
    assert steered == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rates", [*BOUNDARIES.values(), (0.9, 0.2, 0.3, 0.6)])
def test_plain_probability_by_enumeration(rates: tuple[float, ...]) -> None:
    n = 4
    total = 0.0
    for counts in itertools.product(range(n + 1), repeat=4):
        c2, c1 = counts[:2], counts[2:]
        if min(c2) > max(c1) or min(c1) > max(c2):
            total += float(np.prod(binom.pmf(counts, n, rates)))
    assert plain_call_probability(rates, n) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize(("truth", "order", "union"), [("equal rates", 0.30, 0.51), ("generic boundary", 0.49, 0.74)])
def test_plain_calls_at_200_draws_are_as_often_wrong_as_is_known(truth: str, order: float, union: float) -> None:
    one = plain_call_probability(BOUNDARIES[truth], 200)
    assert one == pytest.approx(order, abs=0.015)
    assert 1 - (1 - one) ** 2 == pytest.approx(union, abs=0.015)


@pytest.mark.parametrize(("truth", "limit"), [("equal rates", 1 / 3), ("generic boundary", 1 / 2)])
def test_more_draws_only_remove_ties(truth: str, limit: float) -> None:
    shares = [plain_call_probability(BOUNDARIES[truth], n) for n in (20, 200, 5000, 100_000)]
    assert np.all(np.diff(shares) > 0)
    assert shares[-1] == pytest.approx(limit, abs=0.003)


def test_simulated_plain_calls_fit_the_exact_probability(boundary: pd.DataFrame) -> None:
    plain = boundary[boundary["call"] == "plain"]
    assert len(plain) == 2 * 2 * 2
    for row in plain.itertuples():
        assert row.of == 2000
        assert binomtest(int(row.count), row.of, row.exact).pvalue > 0.001


def test_the_honest_test_keeps_its_level_in_2000_simulations(boundary: pd.DataFrame) -> None:
    honest = boundary[boundary["call"] == "honest"]
    assert set(honest["option_order"]) == {"one", "union"}
    assert honest["exact"].isna().all()
    for row in honest.itertuples():
        assert binomtest(int(row.count), row.of, LEVEL, alternative="greater").pvalue > 0.001
    sharp = honest[(honest["truth"] == "generic boundary") & (honest["draws"] == 200)]
    assert (sharp["share"] > 0.02).all()  # not by never rejecting


# The simulation


def by_loops(n: int, n_data_sets: int) -> dict[tuple[str, str], NDArray[np.bool_]]:
    """Calls of every pair of `SOME`, worked out one by one, `[data set, pair]`."""
    counts = generator(0, "sampling noise", "some", n).binomial(n, SOME, (n_data_sets, *SOME.shape))

    def fisher(more: int, less: int) -> float:
        return float(fisher_exact([[more, n - more], [less, n - less]], alternative="greater").pvalue)

    def p_of_one(k: NDArray[np.int64]) -> float:
        second = max(fisher(k[i], k[j]) for i in (0, 1) for j in (2, 3))
        return min(second, max(fisher(k[j], k[i]) for i in (0, 1) for j in (2, 3)))

    def above(k: NDArray[np.int64]) -> bool:
        return bool(min(k[:2]) > max(k[2:]) or min(k[2:]) > max(k[:2]))

    p = np.array([[[p_of_one(k) for k in pair] for pair in data_set] for data_set in counts])
    plain = np.array([[[above(k) for k in pair] for pair in data_set] for data_set in counts])
    p_values = {"mf": p[..., 0], "fm": p[..., 1], "union": np.minimum(1, 2 * p.min(axis=-1))}
    calls = {("mf", "plain"): plain[..., 0], ("fm", "plain"): plain[..., 1], ("union", "plain"): plain.any(axis=-1)}
    for order, values in p_values.items():
        calls[order, "honest"] = values <= LEVEL
        calls[order, "honest_bh"] = np.array([multipletests(x, LEVEL, method="fdr_bh")[0] for x in values])
    return calls


def test_shares_by_loops() -> None:
    n, n_data_sets = 30, 8
    table = sampling_noise.sampling_noise(SOME, "some", draws=[n], n_data_sets=n_data_sets).set_index(KEYS)
    exact = np.asarray(agreement_form(*np.moveaxis(SOME, -1, 0))) > 0
    contextual = {"mf": exact[:, 0], "fm": exact[:, 1], "union": exact.any(axis=1)}
    assert 0 < contextual["union"].sum() < len(SOME)
    for (order, call), called in by_loops(n, n_data_sets).items():
        is_so = contextual[order]
        false = table.loc[("some", n, order, call, "false_calls")]
        assert (false["count"], false["of"]) == (called[:, ~is_so].sum(), n_data_sets * (~is_so).sum())
        missed = table.loc[("some", n, order, call, "missed")]
        assert (missed["count"], missed["of"]) == ((~called[:, is_so]).sum(), n_data_sets * is_so.sum())
        among = [x[~is_so].sum() / x.sum() if x.any() else 0.0 for x in called]
        assert table.loc[("some", n, order, call, "false_among_calls"), "share"] == pytest.approx(np.mean(among))


def test_intervals_are_clopper_pearsons() -> None:
    table = sampling_noise.sampling_noise(SOME, "some", draws=[30], n_data_sets=8)
    for row in table[table["count"].notna()].itertuples():
        expected = binomtest(int(row.count), row.of).proportion_ci(0.95, method="exact")
        assert (row.low, row.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    among = table[table["count"].isna()]
    assert (among["quantity"] == "false_among_calls").all()
    assert ((among["low"] <= among["share"]) & (among["share"] <= among["high"])).all()


def test_numbers_of_draws_and_seeds_are_keyed() -> None:
    both = sampling_noise.sampling_noise(SOME, "some", draws=[20, 50], n_data_sets=5)
    alone = sampling_noise.sampling_noise(SOME, "some", draws=[50], n_data_sets=5)
    pd.testing.assert_frame_equal(both[both["draws"] == 50].reset_index(drop=True), alone)
    other = sampling_noise.sampling_noise(SOME, "some", draws=[50], n_data_sets=5, seed=1)
    assert not other["share"].equals(alone["share"])


def test_draws_find_what_is_contextual() -> None:
    rates = np.tile([0.7, 0.7, 0.4, 0.4], (5, 2, 1))
    table = sampling_noise.sampling_noise(rates, "clear", draws=[20, 200, 5000], n_data_sets=20)
    assert set(table["quantity"]) == {"missed", "false_among_calls"}  # no pair that could be called falsely
    missed = table[table["quantity"] == "missed"].pivot(index="draws", columns=["option_order", "call"], values="share")
    assert (missed.diff().dropna() <= 0).all(axis=None)
    assert (missed.loc[5000] == 0).all()
    assert (missed["union", "plain"] <= missed["union", "honest"]).all()


@pytest.mark.parametrize(
    ("rates", "message"), [([[0.5] * 4], r"rates have shape \(1, 4\)"), ([[[0.5, 0.5, 0.5, 1.5]] * 2], "1.5")]
)
def test_bad_rates_are_quoted(rates: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        sampling_noise.sampling_noise(rates, "bad")


# A run as the truth


def test_rates_of_a_run_are_its_exact_probabilities(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", p_of, n_pairs=3, settings=("c0", "cf", "cm"), parts=(), valid=0.8)
    truth = truth_of_run(read_run(folder))
    assert (truth.model, truth.temperature, truth.n_left_out) == ("synthetic", 0.5, 0)
    assert truth.rates.shape == (3, 2, 4)
    choices = pd.read_parquet(folder / "choices.parquet")
    for i, (_, rows) in enumerate(choices.groupby("pair", sort=False)):
        one, two = (rows.loc[rows["member"] == member, "template"].iloc[0] for member in (1, 2))
        for j, order in enumerate(("mf", "fm")):
            b_f, b_m, a_f, a_m = (
                float(generator(0, template, setting, order).random())
                for template in (one, two)
                for setting in ("cf", "cm")
            )
            assert truth.rates[i, j] == pytest.approx([a_f, 1 - a_m, b_f, 1 - b_m])
            assert truth.delta_c[i, j] == pytest.approx(delta_c(0.5, 0.5, a_f, a_m, b_f, b_m, estimator="steered"))


def test_pairs_without_all_probabilities_are_left_out_and_counted(tmp_path: Path) -> None:
    def change(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        choices, answers = tables["choices"], tables["answers"].copy()
        templates = choices["template"].unique()
        silent = (answers["template"] == templates[0]) & (answers["setting"] == "cf")
        answers.loc[silent, ["p_feminine", "p_masculine"]] = 0.0
        gone = templates[2]
        choices, answers = (table[table["template"] != gone] for table in (choices, answers))
        return tables | {"choices": choices, "answers": answers}

    folder = write_run(tmp_path / "run", p_of, n_pairs=4, parts=(), change=change)
    truth = truth_of_run(read_run(folder))
    assert (len(truth.rates), truth.n_left_out) == (2, 2)
    noise = pd.concat(
        [
            boundary_noise(n_simulations=20, draws=[20]),
            sampling_noise.sampling_noise(truth.rates, truth.model, draws=[20], n_data_sets=3),
        ]
    )
    words = noise_summary(noise, truth)["in_words"]
    assert "of 2 pairs (2 more lack an answer and are left out)" in words
    told = words.rsplit("\n\n", 1)[1]
    unions = noise[(noise["truth"] == truth.model) & (noise["option_order"] == "union")]
    for row in unions[unions["quantity"].isin(["false_calls", "missed"])].itertuples():
        assert f"{100 * row.share:.1f} % [{100 * row.low:.1f}, {100 * row.high:.1f}]" in told
        assert f"(n = {row.of} simulated pairs)" in told


@pytest.mark.parametrize(
    ("settings", "missing"), [(("c0", "cm"), "has no cf:"), (("c0", "n1"), "has no cf and no cm:")]
)
def test_a_run_without_primes_is_refused(tmp_path: Path, settings: tuple[str, ...], missing: str) -> None:
    folder = write_run(tmp_path / "run", p_of, n_pairs=1, settings=settings, parts=())
    with pytest.raises(RunError, match=missing):
        truth_of_run(read_run(folder))


def test_a_run_without_whole_pairs_is_refused(tmp_path: Path) -> None:
    def first_members(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        choices = tables["choices"][tables["choices"]["member"] == 1]
        answers = tables["answers"][tables["answers"]["template"].isin(set(choices["template"]))]
        return tables | {"choices": choices, "answers": answers}

    folder = write_run(tmp_path / "run", p_of, n_pairs=2, parts=(), change=first_members)
    with pytest.raises(RunError, match="has no pair with cf and cm"):
        truth_of_run(read_run(folder))


# In words


def test_the_summary_holds_every_number_and_the_words_quote_them(boundary: pd.DataFrame) -> None:
    summary = noise_summary(boundary, None)
    assert summary["run"] is None
    for row in boundary.itertuples():
        told = summary["shares"][row.truth][str(row.draws)][row.option_order][row.call][row.quantity]
        assert (told["share"], told["low"], told["high"], told["of"]) == (row.share, row.low, row.high, row.of)
    words = summary["in_words"]
    assert "with 200 draws a cell in 30.3 % of option orders and 51.5 % of unions of two" in words
    assert "named in 48.0 % of option orders and 73.0 % of unions of two" in words
    worst = boundary.loc[boundary["call"] == "honest", "share"].max()
    assert f"at most {100 * worst:.1f} %" in words
