"""Few resamples, where intervals are not what is tested."""

import gc
from collections.abc import Iterator

import pytest
from tests.measured import few_resamples_in


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    few_resamples_in(monkeypatch)
    yield
    gc.unfreeze()
