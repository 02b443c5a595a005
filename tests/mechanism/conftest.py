"""What the tests of mechanism share beside the tiny models of `tests/conftest.py`."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread: None) -> None:
    """All tests here compute on one thread."""
