"""Oracle: `cluster_bootstrap_interval`, column by column."""

import numpy as np
import pytest

from referent_probe.analysis.behaviour.clustered import RESAMPLES, clustered_means, share_interval
from referent_probe.analysis.inference import Interval, cluster_bootstrap_interval


def test_columns_together_are_columns_alone() -> None:
    rng = np.random.default_rng(0)
    cells, names = rng.normal(size=(60, 4)), np.repeat([f"o{i}" for i in range(20)], 3)
    cells[:5, 1], cells[7, 2], cells[:, 3] = np.nan, np.inf, np.nan
    found = clustered_means(cells, names, seed=3, unit="logits")
    for column in range(3):
        kept = np.isfinite(cells[:, column])
        alone = cluster_bootstrap_interval(
            cells[kept, column], names[kept].tolist(), n_resamples=RESAMPLES, seed=3, unit="logits"
        )
        assert (found[column].n_rows, found[column].n_left_out) == (kept.sum(), 60 - kept.sum())
        interval = found[column].interval
        assert [interval.mean, interval.low, interval.high] == pytest.approx([alone.mean, alone.low, alone.high])
        assert (interval.n, interval.unit, interval.n_of) == (alone.n, "logits", "occupations")
    assert (found[3].interval.n, found[3].n_rows, found[3].n_left_out) == (0, 0, 60)
    assert np.isnan(found[3].interval.mean)


def test_a_share_of_none_is_no_certain_zero() -> None:
    none, every = (share_interval(Interval(x, x, x, 13, "share of pairs")) for x in (0.0, 1.0))
    assert (none.low, none.high) == (0, pytest.approx(1 - 0.025 ** (1 / 13)))
    assert (every.low, every.high) == (pytest.approx(0.025 ** (1 / 13)), 1)
    for left in Interval(0.5, 0.2, 0.6, 13, "share"), Interval(0.0, np.nan, np.nan, 1, "share"):
        assert str(share_interval(left)) == str(left)


def test_one_of_many_excludes_no_more_than_none_does() -> None:
    one, none = (share_interval(Interval(x, 0.0, 2 * x, 60, "share of pairs")) for x in (1 / 180, 0.0))
    assert one.high == none.high == pytest.approx(1 - 0.025 ** (1 / 60))
    most = share_interval(Interval(1 - 1 / 180, 1 - 2 / 180, 1.0, 60, "share of pairs"))
    assert most.low == pytest.approx(0.025 ** (1 / 60))
