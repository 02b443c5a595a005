"""What the doctor finds, one finding at a time."""

import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referent_probe import doctor
from referent_probe.doctor import Finding, Status
from referent_probe.errors import ModelError
from referent_probe.models.registry import DEFAULT_MODEL


@pytest.fixture
def look(tmp_path: Path) -> Callable[..., dict[str, Finding]]:
    """Looks at packages as if these versions were installed."""
    pins = tmp_path / "constraints.txt"
    pins.write_text("# Python 3.11\ntransformers==5.23.0\nTransformer_Lens==4.3.0\nnumpy==2.4.6\n")
    required = ["transformers>=5.0,<5.24", "transformer-lens>=4.3,<5", "numpy>=2.0", 'ruff>=0.9; extra == "lint"']

    def packages(**versions: str | None) -> dict[str, Finding]:
        here = {"transformers": "5.23.0", "transformer_lens": "4.3.0", "numpy": "2.4.6"} | versions
        found = doctor.packages(required, pins, lambda name: here.get(name.replace("-", "_")))
        return {finding.about: finding for finding in found}

    return packages


class TestPackages:
    def test_all_as_tested(self, look: Callable[..., dict[str, Finding]]) -> None:
        found = look()
        assert list(found) == ["packages"]
        assert found["packages"].status is Status.OK
        assert found["packages"].found == "transformers 5.23.0, transformer-lens 4.3.0, 1 others"

    @pytest.mark.parametrize("version", ["5.24.0", "5.25.1", "6.0", "5.24.0rc1"])
    def test_the_bad_pair(self, version: str, look: Callable[..., dict[str, Finding]]) -> None:
        found = look(transformers=version)["transformers"]
        assert found.status is Status.FAILED
        assert f"{version} with transformer-lens 4.3.0: this pair drops the cache" in found.found
        assert found.cure == "run: pip install 'transformers>=5.0,<5.24'"

    def test_a_later_lens_is_not_called_the_bad_pair(self, look: Callable[..., dict[str, Finding]]) -> None:
        found = look(transformers="5.24.0", transformer_lens="4.5.0")
        assert "is outside <5.24,>=5.0" in found["transformers"].found

    def test_outside_the_range(self, look: Callable[..., dict[str, Finding]]) -> None:
        found = look(numpy="1.26.4")["numpy"]
        assert (found.status, found.found) == (Status.FAILED, "1.26.4 is outside >=2.0")
        assert found.cure == "run: pip install 'numpy==2.4.6'"

    def test_another_version_than_tested(self, look: Callable[..., dict[str, Finding]]) -> None:
        found = look(numpy="2.5.0")["numpy"]
        assert (found.status, found.found) == (Status.WARNING, "2.5.0; tested with 2.4.6")

    def test_a_build_of_the_tested_version_is_that_version(self, look: Callable[..., dict[str, Finding]]) -> None:
        assert list(look(numpy="2.4.6+cpu")) == ["packages"]

    def test_missing(self, look: Callable[..., dict[str, Finding]]) -> None:
        found = look(numpy=None)["numpy"]
        assert str(found) == "failed   numpy: not installed; run: pip install 'numpy==2.4.6'"

    def test_outside_a_checkout_ranges_alone_count(self, tmp_path: Path) -> None:
        (found,) = doctor.packages(["numpy>=2.0"], tmp_path / "none.txt", lambda name: "2.9")
        assert (found.status, found.found) == (Status.OK, "1 others")


class TestMachine:
    def test_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        assert "devices: cpu" in doctor.torch_here().found
        monkeypatch.setattr(torch, "get_num_threads", lambda: 10_000)
        found = doctor.torch_here()
        assert found.status is Status.WARNING
        assert "set OMP_NUM_THREADS" in str(found.cure)

    def test_torch_that_does_not_import(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        assert doctor.torch_here().status is Status.FAILED

    @pytest.mark.parametrize(
        ("free", "status"), [(16e9, Status.OK), (1e9, Status.WARNING), (None, Status.OK)], ids=["much", "little", "?"]
    )
    def test_memory(self, free: float | None, status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doctor, "_free_memory", lambda: free)
        found = doctor.memory()
        assert found.status is status
        assert (found.cure is None) == (status is Status.OK)

    def test_memory_is_read_somewhere(self) -> None:
        free = doctor._free_memory()
        assert free is None or 1e6 < free < 1e15

    def test_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REFERENT_PROBE_CACHE", str(tmp_path / "cache"))
        (found,) = doctor.cache()
        assert "0 unpacked models, 0.0 GB" in found.found
        assert list((tmp_path / "cache").iterdir()) == []
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1e9))
        (found,) = doctor.cache()
        assert found.status is Status.WARNING
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("REFERENT_PROBE_CACHE", str(tmp_path / "file"))
        (found,) = doctor.cache()
        assert found.status is Status.FAILED
        assert "REFERENT_PROBE_CACHE" in str(found.cure)


class TestContents:
    def test_the_embedded_model_that_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def distribution(name: str) -> Any:
            raise importlib.metadata.PackageNotFoundError(name)

        monkeypatch.setattr(importlib.metadata, "distribution", distribution)
        found, others = doctor.models()
        assert (found.status, found.cure) == (Status.FAILED, f"run: referent-probe models get {DEFAULT_MODEL}")
        assert others.status is Status.OK

    def test_stimuli(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert doctor.stimuli().status is Status.OK
        monkeypatch.setattr("referent_probe.stimuli.check.check_stimuli", lambda path: ["line 3: no blank"])
        found = doctor.stimuli()
        assert (found.status, found.found) == (Status.FAILED, "1 rules broken: line 3: no blank")

    @pytest.mark.parametrize(
        ("error", "found", "cure"),
        [
            (ModelError("'x' is refused;\ncure"), "'x' is refused; cure", None),
            (ImportError("no such name"), "ImportError: no such name", "install the versions in constraints.txt"),
        ],
    )
    def test_load_checks_that_fail(
        self, error: Exception, found: str, cure: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def load_model(*args: Any, **kwargs: Any) -> Any:
            raise error

        monkeypatch.setattr("referent_probe.models.load.load_model", load_model)
        assert doctor.load_checks() == Finding("load checks", Status.FAILED, found, cure)

    @pytest.mark.slow
    def test_load_checks_that_pass(self) -> None:
        assert doctor.load_checks().status is Status.OK


def test_everything_is_looked_at_and_loading_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "load_checks", lambda notify: Finding("load checks", Status.OK, "stood in for"))
    about = [finding.about for finding in doctor.examine()]
    assert about[0] == "Python"
    assert about[-1] == "load checks"
    assert {"torch", "memory", "cache", "model", "other models", "stimuli"} < set(about)
