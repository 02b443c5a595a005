"""Loading tiny models from folders, and the refusals: bad folders, wrong models, versions that are wrong in silence."""

import copy
import json
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformer_lens.hook_points import HookPoint
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_bridge.generalized_components.attention import AttentionBridge

from referent_probe.errors import ModelError
from referent_probe.models import load
from referent_probe.models.checks import TOLERANCE, check_bridge, check_network, probe_ids
from referent_probe.models.config import longest_prompt
from referent_probe.models.load import LoadedModel, load_model
from referent_probe.models.quirks import PLAIN, Quirks
from referent_probe.models.registry import DEFAULT_MODEL
from referent_probe.models.source import ModelSource


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of a sound folder, to be spoiled at will."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.fixture(scope="module")
def loaded(saved: Path) -> LoadedModel:
    return load_model(str(saved), device="cpu")


def refusal(name: str | Path, **options: Any) -> str:
    """The message of a refusal; always one line that quotes the name."""
    with pytest.raises(ModelError) as caught:
        load_model(str(name), **{"device": "cpu"} | options)
    message = str(caught.value)
    assert "\n" not in message
    assert repr(str(name)) in message
    return message


class TestSound:
    def test_what_is_loaded(self, loaded: LoadedModel, saved: Path, tokenizer: Any) -> None:
        assert (loaded.n_layers, loaded.n_heads) == (2, 4)
        assert (loaded.device, loaded.dtype) == ("cpu", "float32")
        assert (loaded.source.kind, loaded.source.folder) == ("folder", saved)
        assert loaded.tokenizer.is_fast
        assert loaded.tokenizer.chat_template == tokenizer.chat_template
        assert loaded.tokenizer(" she")["input_ids"] == tokenizer(" she")["input_ids"]

    def test_it_computes_what_the_saved_model_computes(self, loaded: LoadedModel, llama: Any) -> None:
        ids = torch.arange(30, 50)[None]
        assert float((loaded.bridge.original_model(ids).logits - llama(ids).logits).abs().max()) < 1e-5

    def test_without_interventions_it_computes_the_same_and_nothing_is_bridged(
        self, loaded: LoadedModel, saved: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(TransformerBridge, "boot_transformers", None)
        alone, ids = load_model(str(saved), device="cpu", interventions=False), torch.arange(30, 50)[None]
        assert torch.equal(alone.network(ids).logits, loaded.network(ids).logits)
        assert (alone.bridge, alone.checks.patch_with_itself) == (None, None)
        assert (alone.n_layers, alone.n_heads, alone.quirks) == (loaded.n_layers, loaded.n_heads, loaded.quirks)
        assert alone.network.config._attn_implementation == "eager"
        assert not any(parameter.requires_grad for parameter in alone.network.parameters())
        assert not any(module.training for module in alone.network.modules())

    def test_gradients_are_off_and_it_evaluates(self, loaded: LoadedModel) -> None:
        assert not any(parameter.requires_grad for parameter in loaded.bridge.parameters())
        assert not any(parameter.requires_grad for parameter in loaded.bridge.original_model.parameters())
        assert not any(module.training for module in loaded.bridge.modules())
        assert not loaded.bridge.original_model(torch.arange(9, 12)[None]).logits.requires_grad
        assert torch.is_grad_enabled()

    def test_attention_is_eager(self, loaded: LoadedModel) -> None:
        assert loaded.bridge.original_model.config._attn_implementation == "eager"

    def test_no_hook_is_left(self, loaded: LoadedModel) -> None:
        assert [p.name for p in loaded.bridge.hook_dict.values() if p.fwd_hooks or p.bwd_hooks] == []

    def test_its_checks_are_within_rounding(self, loaded: LoadedModel) -> None:
        checks = loaded.checks.as_dict()
        assert checks.pop("edited_pattern_effect") > 1e-3
        assert set(checks) == {
            "bridge_against_hugging_face",
            "prefix_and_suffix_against_full",
            "patch_with_itself",
        }
        assert all(0 <= difference < 1e-4 for difference in checks.values())
        line = loaded.checks.in_one_line()
        assert "\n" not in line
        assert "bridge = Hugging Face to " in line

    def test_every_family_loads(self, tiny: Any, tokenizer: Any, tmp_path: Path) -> None:
        tiny.plain.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        model = load_model(str(tmp_path), device="cpu")
        assert (model.n_layers, model.n_heads) == (4, 4)
        logits = model.bridge.original_model(tiny.ids).logits
        assert float((logits - tiny.plain(tiny.ids).logits).abs().max()) < 1e-5

    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    def test_half_precision(self, dtype: Any, saved: Path) -> None:
        model = load_model(str(saved), device="cpu", dtype=dtype)
        assert {p.dtype for p in model.bridge.original_model.parameters()} == {getattr(torch, dtype)}
        assert model.dtype == dtype

    def test_a_gguf_file(self, gguf_file: Path, llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REFERENT_PROBE_CACHE", str(tmp_path))
        model = load_model(str(gguf_file), device="cpu")
        ids = torch.arange(30, 50)[None]
        assert float((model.bridge.original_model(ids).logits - llama(ids).logits).abs().max()) < 1e-5

    def test_an_architecture_that_the_config_does_not_name_is_filled_in(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        del config["architectures"]
        (folder / "config.json").write_text(json.dumps(config))
        assert load_model(str(folder), device="cpu").n_layers == 2

    def test_a_tokenizer_without_chat_template(self, folder: Path) -> None:
        (folder / "chat_template.jinja").unlink()
        assert load_model(str(folder), device="cpu").tokenizer.chat_template is None


class TestImages:
    """Gemma 3 from 4B on reads images too, and TransformerLens then wants torchvision."""

    @pytest.fixture
    def with_images(self, tokenizer: Any, tmp_path: Path) -> Path:
        from transformers import Gemma3Config, Gemma3ForConditionalGeneration

        text = {
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
        }
        vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        size = {"image_size": 28, "patch_size": 14}
        torch.manual_seed(0)
        config = Gemma3Config(text_config=text, vision_config=vision | size, mm_tokens_per_image=1, image_token_index=5)
        model = Gemma3ForConditionalGeneration(config)
        for parameter in model.parameters():
            parameter.data += torch.randn_like(parameter) * 0.2
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        return tmp_path

    def test_nothing_is_installed_to_load_one(self, with_images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ran: list[Any] = []
        monkeypatch.setattr(subprocess, "check_call", lambda command, *rest, **options: ran.append(command))
        before = subprocess.check_call
        model = load_model(str(with_images), device="cpu")
        assert ran == []
        assert subprocess.check_call is before
        assert (model.n_layers, model.n_heads) == (2, 4)

    def test_the_guard_is_lifted_after_a_failure(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def boot(*args: Any, **kwargs: Any) -> Any:
            subprocess.check_call(["pip", "install", "torchvision"])

        before = subprocess.check_call
        monkeypatch.setattr(TransformerBridge, "boot_transformers", boot)
        assert "nothing is run while a model is loaded: ['pip', 'install', 'torchvision']" in refusal(saved)
        assert subprocess.check_call is before


class TestQuirks:
    def test_of_a_plain_folder(self, loaded: LoadedModel) -> None:
        assert loaded.quirks == PLAIN

    def test_seen_in_the_chat_template(self, folder: Path) -> None:
        template = folder / "chat_template.jinja"
        template.write_text(template.read_text() + "{% if enable_thinking %}{% endif %}<think>")
        expected = Quirks(thinking_switch=True, assistant_opening="\n\n</think>\n\n")
        assert load_model(str(folder), device="cpu").quirks == expected

    def test_known_by_name(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(load, "find_model", lambda name, **options: ModelSource(name, "hub", saved, "commit:abc"))
        assert load_model("google/gemma-3-12b-it", device="cpu").quirks == Quirks(system_turn=False)

    def test_quantised_weights_are_unpacked(self, save_tiny: Callable[..., Path], tmp_path: Path) -> None:
        # MXFP4, as in gpt-oss: half a byte 0x22 is twice the code of 1.0, and scale 124 is 2 ** -3.
        from safetensors.torch import load_file, save_file

        folder = save_tiny(tmp_path, "gpt-oss", 1)
        weights, packed = load_file(folder / "model.safetensors"), {}
        for name, weight in weights.items():
            if name.endswith("_proj") and weight.ndim == 3:
                experts, rows, columns = weight.shape
                packed[f"{name}_blocks"] = torch.full((experts, columns, rows // 32, 16), 0x22, dtype=torch.uint8)
                packed[f"{name}_scales"] = torch.full((experts, columns, rows // 32), 124, dtype=torch.uint8)
            else:
                packed[name] = weight
        assert len(packed) == len(weights) + 2
        save_file(packed, folder / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
        (folder / "config.json").write_text(json.dumps(config))
        model = load_model(str(folder), device="cpu")
        assert model.quirks.quantisation == "mxfp4"
        assert {p.dtype for p in model.bridge.original_model.parameters()} == {torch.float32}
        unpacked = dict(model.bridge.original_model.named_parameters())
        experts = [weight for name, weight in unpacked.items() if name.endswith(("down_proj", "gate_up_proj"))]
        assert len(experts) == 2
        assert all(bool((weight == 0.125).all()) for weight in experts)


class TestDevices:
    @pytest.mark.parametrize("device", ["nonsense", "", "cpu:x", "gpu"])
    def test_one_that_does_not_exist(self, device: str, saved: Path) -> None:
        with pytest.raises(ModelError) as caught:
            load_model(str(saved), device=device)
        assert f"device {device!r} cannot be used" in str(caught.value)
        assert str(caught.value).endswith("give cpu, cuda or auto")
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("device", ["meta", "vulkan", "xla"])
    def test_one_that_no_model_runs_on(self, device: str, saved: Path) -> None:
        with pytest.raises(ModelError, match=f"device '{device}' is none that this program knows; give cpu, cuda, mps"):
            load_model(str(saved), device=device)

    def test_mps_where_there_is_none(self, saved: Path) -> None:
        if torch.backends.mps.is_available():
            pytest.skip("there is an MPS device here")
        with pytest.raises(ModelError, match="device 'mps' is not there; give cpu or auto"):
            load_model(str(saved), device="mps")

    def test_cuda_where_there_is_none(self, saved: Path) -> None:
        if torch.cuda.is_available():
            pytest.skip("there is a CUDA device here")
        with pytest.raises(ModelError, match="device 'cuda' cannot be used"):
            load_model(str(saved), device="cuda")

    def test_auto(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert load_model(str(saved), device="auto").device == "cpu"


class TestBadFolders:
    def test_a_path_that_is_not_there(self) -> None:
        assert "check the path" in refusal("./missing")

    def test_without_config(self, folder: Path) -> None:
        (folder / "config.json").unlink()
        assert "config.json is missing" in refusal(folder)

    def test_without_weights(self, folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        assert "holds no *.safetensors weights; save the model as safetensors" in refusal(folder)

    def test_with_pickled_weights_only(self, folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        assert "pytorch_model.bin is pickled, and pickled weights are not read" in refusal(folder)

    @pytest.mark.parametrize("kept", [0, 4, 100, 20_000])
    def test_with_weights_cut_short(self, kept: int, folder: Path) -> None:
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:kept])
        message = refusal(folder)
        assert "its weights cannot be read" in message
        assert "get the folder again, or save it again" in message

    def test_with_weights_of_another_shape(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 48}))
        assert "its weights cannot be read" in refusal(folder)

    def test_with_weights_missing(self, folder: Path) -> None:
        # transformers fills what is missing with random numbers and says so in its log alone.
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
        message = refusal(folder)
        assert "its weights lack 9 tensors that its config asks for, 'model.layers.2.input_layernorm.weight'" in message
        assert "get the folder again" in message

    @pytest.mark.parametrize("content", ["", "{", "[]", '"text"', "{}", '{"model_type": "teapot"}'])
    def test_with_a_config_of_no_model(self, content: str, folder: Path) -> None:
        (folder / "config.json").write_text(content)
        refusal(folder)

    def test_without_tokenizer(self, folder: Path) -> None:
        for file in [*folder.glob("tokenizer*"), *folder.glob("special_tokens*")]:
            file.unlink()
        message = refusal(folder)
        assert "its tokenizer cannot be read" in message
        assert message.endswith("the folder needs a tokenizer.json")

    def test_with_a_broken_tokenizer(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text("{")
        assert "its tokenizer cannot be read" in refusal(folder)

    def test_with_a_tokenizer_without_offsets(self, folder: Path) -> None:
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer"}))
        message = refusal(folder)
        assert "its tokenizer ByT5Tokenizer reports no character offsets" in message
        assert message.endswith("the folder needs a tokenizer.json")

    def test_with_fewer_embeddings_than_ids(self, folder: Path, llama: Any) -> None:
        self.shrink(folder, llama, 300)
        message = refusal(folder)
        assert "its tokenizer has ids up to 329 (" in message
        assert "the model's vocabulary has 300 tokens, ids 0 to 299; give the folder the tokenizer" in message

    @pytest.mark.parametrize("named", [True, False])
    def test_with_an_added_token_beyond_its_embeddings(self, named: bool, folder: Path, tokenizer: Any) -> None:
        # As after fine-tuning with a new chat format; or as Gemma's image marker, which no prompt of text holds.
        added = copy.deepcopy(tokenizer)
        added.add_special_tokens({"additional_special_tokens": ["<|new|>"]})
        if named:
            added.chat_template = "<|new|>" + added.chat_template
        added.save_pretrained(folder)
        if named:
            assert "its tokenizer has ids up to 330 ('<|new|>')" in refusal(folder)
        else:
            assert load_model(str(folder), device="cpu").n_layers == 2

    @staticmethod
    def shrink(folder: Path, llama: Any, rows: int) -> None:
        small = copy.deepcopy(llama)
        small.resize_token_embeddings(rows)
        small.save_pretrained(folder)

    def test_that_brings_its_own_code(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | {
            "model_type": "teapot",
            "auto_map": {"AutoConfig": "teapot.TeapotConfig"},
        }
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "teapot.py").write_text("raise SystemExit('a model folder ran its own code')")
        assert "needs trust_remote_code=True, which you should give to authors you trust only" in refusal(folder)

    @pytest.mark.parametrize("content", [b"{", b"", b"[]", b'"x"', b"null", b"\xff\xfe\x00"])
    def test_with_a_damaged_generation_config(self, content: bytes, folder: Path) -> None:
        # transformers goes on without it, and a measurement of whole answers then has other numbers.
        (folder / "generation_config.json").write_bytes(content)
        message = refusal(folder)
        assert "its generation_config.json cannot be read (" in message
        assert "get the file again, or remove it" in message

    def test_without_a_generation_config(self, folder: Path) -> None:
        (folder / "generation_config.json").unlink()
        assert load_model(str(folder), device="cpu").n_layers == 2


class TestWeights:
    """Weights that do not fit the config, or are no numbers."""

    @staticmethod
    def configure(folder: Path, **settings: Any) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | settings))

    @staticmethod
    def change(folder: Path, edit: Callable[[dict[str, Tensor]], object]) -> None:
        from safetensors.torch import load_file, save_file

        weights = load_file(folder / "model.safetensors")
        edit(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    @pytest.mark.parametrize(
        ("family", "setting", "first"),
        [
            ("llama", "num_hidden_layers", "model.layers.1.input_layernorm.weight"),
            ("gpt2", "n_layer", "transformer.h.1.attn.c_attn.weight"),
            ("gpt-neox", "num_hidden_layers", "gpt_neox.layers.1.attention.dense.bias"),
        ],
    )
    def test_of_more_blocks_than_the_config_has(
        self, family: str, setting: str, first: str, save_tiny: Callable[..., Path], tmp_path: Path
    ) -> None:
        folder = save_tiny(tmp_path, family, 3)
        self.configure(folder, **{setting: 1})
        message = refusal(folder)
        assert f"tensors for which its config has no place, '{first}' and '" in message
        assert "give it the config.json that it was trained with" in message

    @pytest.mark.parametrize("name", ["model.layers.1.self_attn.q_proj.bias", "model.layers.0.self_attn.q_norm.weight"])
    def test_of_a_part_of_a_block_that_the_config_leaves_out(self, name: str, folder: Path) -> None:
        self.change(folder, lambda weights: weights.update({name: torch.ones(32)}))
        assert f"its weights hold 1 tensors for which its config has no place, '{name}' among them" in refusal(folder)

    def test_of_a_bias_on_the_logits_that_is_not_used(self, folder: Path) -> None:
        self.change(folder, lambda weights: weights.update({"lm_head.bias": torch.ones(330)}))
        assert "'lm_head.bias' among them" in refusal(folder)

    @pytest.mark.parametrize(
        "name",
        [
            "model.layers.0.self_attn.rotary_emb.inv_freq",
            "model.layers.7.self_attn.rotary_emb.inv_freq",
            "model.layers.0.self_attn.masked_bias",
            "model.layers.0.self_attn.bias",
            "vision_tower.layers.5.mlp.weight",
            "vision_tower.encoder.layers.5.mlp.bias",
            "multi_modal_projector.weight",
        ],
    )
    def test_leftovers_without_effect_are_taken(self, name: str, folder: Path) -> None:
        self.change(folder, lambda weights: weights.update({name: torch.ones(4)}))
        assert load_model(str(folder), device="cpu").n_layers == 2

    def test_of_blocks_that_guess_further_tokens_are_taken(self, folder: Path) -> None:
        self.change(folder, lambda weights: weights.update({"model.layers.2.mlp.up_proj.weight": torch.ones(64, 32)}))
        assert "'model.layers.2.mlp.up_proj.weight' among them" in refusal(folder)
        self.configure(folder, num_nextn_predict_layers=1)
        assert load_model(str(folder), device="cpu").n_layers == 2

    def test_an_output_layer_that_the_config_ties_away(self, folder: Path) -> None:
        self.configure(folder, tie_word_embeddings=True)
        message = refusal(folder)
        assert "its weights hold an output layer ('lm_head.weight') that differs from the embeddings" in message
        assert "set it to false in config.json" in message

    def test_an_output_layer_that_is_missing(self, folder: Path) -> None:
        self.change(folder, lambda weights: weights.pop("lm_head.weight"))
        assert "its weights lack 1 tensors that its config asks for, 'lm_head.weight'" in refusal(folder)

    def test_an_output_layer_that_is_the_embeddings_again_is_taken(self, folder: Path) -> None:
        self.configure(folder, tie_word_embeddings=True)
        embeddings = "model.embed_tokens.weight"
        self.change(folder, lambda weights: weights.update({"lm_head.weight": weights[embeddings].clone()}))
        assert load_model(str(folder), device="cpu").n_layers == 2

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
    def test_that_are_not_numbers(self, value: float, dtype: str, folder: Path, tokenizer: Any) -> None:
        (she,) = tokenizer(" she", add_special_tokens=False)["input_ids"]
        self.change(folder, lambda weights: weights["model.embed_tokens.weight"][she].fill_(value))
        message = refusal(folder, dtype=dtype)
        assert "its weights hold NaN or infinity in 'model.embed_tokens.weight'; get the folder again" in message

    def test_the_first_one_that_is_no_number_is_named(self, folder: Path) -> None:
        names = ("model.layers.1.mlp.up_proj.weight", "model.norm.weight", "lm_head.weight")
        self.change(folder, lambda weights: [weights[name].view(-1)[-1:].fill_(float("nan")) for name in names])
        assert f"NaN or infinity in '{names[0]}'" in refusal(folder)

    def test_too_large_for_half_precision(self, folder: Path) -> None:
        self.change(folder, lambda weights: weights["lm_head.weight"][0, :1].fill_(1e5))
        message = refusal(folder, dtype="float16")
        assert "NaN or infinity in 'lm_head.weight'" in message
        assert "or load it as bfloat16 or float32" in message
        assert load_model(str(folder), device="cpu").n_layers == 2


class TestLongestPrompt:
    def test_of_the_config(self, loaded: LoadedModel) -> None:
        assert loaded.longest_prompt == 1024

    @pytest.mark.parametrize("positions", [64, 12])
    def test_of_learned_positions(self, positions: int, tokenizer: Any, tmp_path: Path) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.manual_seed(0)
        config = GPT2Config(vocab_size=len(tokenizer), n_positions=positions, n_embd=32, n_layer=2, n_head=4)
        model = GPT2LMHeadModel(config)
        for parameter in model.parameters():
            parameter.data += torch.randn_like(parameter) * 0.2
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        assert load_model(str(tmp_path), device="cpu").longest_prompt == positions

    @pytest.mark.parametrize(
        ("rope", "longest"),
        [
            ({"rope_type": "dynamic", "factor": 2.0}, 1024),
            ({"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 256}, 256),
            ({"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 256}, 256),
            (
                {
                    "rope_type": "longrope",
                    "factor": 8.0,
                    "short_factor": [1.0] * 4,
                    "long_factor": [2.0] * 4,
                    "original_max_position_embeddings": 128,
                },
                128,
            ),
            ({"rope_type": "linear", "factor": 2.0}, 1024),
            (
                {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 128,
                },
                1024,
            ),
        ],
    )
    def test_where_the_rotation_of_keys_is_scaled(self, rope: dict[str, Any], longest: int, folder: Path) -> None:
        TestWeights.configure(folder, rope_parameters=rope | {"rope_theta": 10000.0})
        assert load_model(str(folder), device="cpu").longest_prompt == longest

    def test_where_the_config_names_the_original_beside_its_rotation(self) -> None:
        from transformers import Phi3Config

        config = Phi3Config(
            hidden_size=32,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=131072,
            original_max_position_embeddings=4096,
            rope_scaling={"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
        )
        assert longest_prompt(config) == 4096

    def test_where_each_kind_of_block_has_its_own_rotation(self) -> None:
        from transformers import Gemma3TextConfig

        config = Gemma3TextConfig(max_position_embeddings=512)
        assert longest_prompt(config) == 512
        scaled = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 200}
        config.rope_parameters["full_attention"] |= scaled
        assert longest_prompt(config) == 200

    def test_where_none_is_named(self) -> None:
        from transformers import BloomConfig

        assert longest_prompt(BloomConfig()) is None


class TestWrongKinds:
    def test_an_encoder(self, tokenizer: Any, tmp_path: Path) -> None:
        from transformers import BertConfig, BertForMaskedLM

        shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **shape)).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        message = refusal(tmp_path)
        assert "is a BertForMaskedLM, not a causal language model" in message
        assert "give a decoder-only model" in message

    @pytest.mark.parametrize("architecture", ["BertModel", "BertForSequenceClassification", None])
    def test_other_encoders(self, architecture: str | None, folder: Path) -> None:
        config: dict[str, Any] = {"model_type": "bert", "hidden_size": 32}
        if architecture:
            config["architectures"] = [architecture]
        (folder / "config.json").write_text(json.dumps(config))
        if architecture:
            assert f"is a {architecture}, not a causal language model" in refusal(folder)
        else:
            refusal(folder)

    def test_an_encoder_decoder(self, tokenizer: Any, tmp_path: Path) -> None:
        from transformers import T5Config, T5ForConditionalGeneration

        config = T5Config(vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4)
        T5ForConditionalGeneration(config).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        assert "is a T5ForConditionalGeneration, not a causal language model" in refusal(tmp_path)

    def test_a_classifier(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"architectures": ["LlamaForSequenceClassification"]}))
        assert "is a LlamaForSequenceClassification, not a causal language model" in refusal(folder)

    def test_positions_that_are_no_rotation_of_keys(self, tokenizer: Any, tmp_path: Path) -> None:
        # ALiBi adds to the scores by distance, which packed rows do not keep; the check at load finds it.
        from transformers import BloomConfig, BloomForCausalLM

        config = BloomConfig(vocab_size=len(tokenizer), hidden_size=32, n_layer=2, n_head=4)
        torch.manual_seed(0)
        model = BloomForCausalLM(config)
        for parameter in model.parameters():
            parameter.data += torch.randn_like(parameter) * 0.2
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        message = refusal(tmp_path)
        assert "a run patched with its own activations differs from itself" in message
        assert "give a model of another family" in message

    def test_attention_that_is_only_watched(self, tokenizer: Any, tmp_path: Path) -> None:
        # TransformerLens runs GPT-J's own attention and shows the pattern afterwards.
        from transformers import GPTJConfig, GPTJForCausalLM

        config = GPTJConfig(vocab_size=len(tokenizer), n_positions=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=8)
        GPTJForCausalLM(config).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        assert "an edited attention pattern does not change the logits" in refusal(tmp_path)

    def test_a_model_without_attention(self, tokenizer: Any, tmp_path: Path) -> None:
        from transformers import MambaConfig, MambaForCausalLM

        config = MambaConfig(vocab_size=len(tokenizer), hidden_size=32, state_size=4, num_hidden_layers=2)
        MambaForCausalLM(config).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        assert "is a MambaForCausalLM and has no attention in 2 of its 2 blocks" in refusal(tmp_path)

    def test_a_model_without_blocks(self, save_tiny: Callable[..., Path], tmp_path: Path) -> None:
        assert "has no blocks, so that there are no heads to patch" in refusal(save_tiny(tmp_path, "llama", 0))

    def test_a_family_that_transformer_lens_does_not_know(self, tokenizer: Any, tmp_path: Path) -> None:
        from transformers import CTRLConfig, CTRLLMHeadModel

        config = CTRLConfig(vocab_size=len(tokenizer), n_positions=64, n_embd=32, dff=32, n_layer=1, n_head=2)
        CTRLLMHeadModel(config).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        assert "TransformerLens cannot bridge" in refusal(tmp_path)


class TestWrongVersions:
    """What transformers 5.24 did to TransformerLens 4.3, and its like."""

    def check(self, message: str, problem: str) -> None:
        assert problem in message
        assert f"transformers {version('transformers')}" in message
        assert f"transformer-lens {version('transformer-lens')}" in message
        assert "install the versions in constraints.txt" in message

    def test_a_cache_that_is_dropped(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(AttentionBridge, "_update_kv_cache", lambda self, k, v, **kwargs: (k, v))
        self.check(refusal(saved), "keys and values of a cached prefix are lost or misplaced")

    def test_the_layers_cache_argument_renamed(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        update = AttentionBridge._update_kv_cache

        def renamed(self: Any, k: Tensor, v: Tensor, **kwargs: Any) -> Any:
            return update(self, k, v, cache=kwargs.pop("past_key_values", None), **kwargs)

        monkeypatch.setattr(AttentionBridge, "_update_kv_cache", renamed)
        self.check(refusal(saved), "keys and values of a cached prefix are lost or misplaced")

    def test_attention_edits_without_effect(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # As where a fused kernel has used the pattern before the hook sees it.
        call = HookPoint.__call__

        def read_only(self: Any, tensor: Tensor, *args: Any) -> Tensor:
            seen = call(self, tensor, *args)
            return tensor if str(self.name).endswith("attn.hook_pattern") else seen

        monkeypatch.setattr(HookPoint, "__call__", read_only)
        self.check(refusal(saved), "an edited attention pattern does not change the logits (a fused attention kernel?)")

    def test_attention_hooks_that_never_fire(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        call = HookPoint.__call__

        def silent(self: Any, tensor: Tensor, *args: Any) -> Tensor:
            return tensor if str(self.name).endswith("attn.hook_pattern") else call(self, tensor, *args)

        monkeypatch.setattr(HookPoint, "__call__", silent)
        self.check(refusal(saved), "hooks on pattern did not fire in all of 2 blocks")

    def test_a_bridge_that_computes_something_else(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        boot = TransformerBridge.boot_transformers

        def off(*args: Any, **kwargs: Any) -> Any:
            bridge = boot(*args, **kwargs)
            bridge.blocks[1].ln1.weight.data.mul_(1.5)
            return bridge

        monkeypatch.setattr(TransformerBridge, "boot_transformers", off)
        self.check(refusal(saved), "the bridge's logits differ from the plain Hugging Face model's")

    def test_a_model_whose_logits_are_not_numbers(self, folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        weights = load_file(folder / "model.safetensors")
        weights["model.norm.weight"] = torch.full_like(weights["model.norm.weight"], float("nan"))
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        refusal(folder)


class TestChecks:
    @pytest.mark.parametrize("vocabulary", [16, 330, 32_000, 262_144])
    def test_probe_ids_lie_inside_the_vocabulary(self, vocabulary: int) -> None:
        ids = probe_ids(vocabulary, torch.device("cpu"))
        assert ids.shape == (1, 24)
        assert int(ids.min()) >= 0
        assert int(ids.max()) < vocabulary
        assert len(set(ids[0].tolist())) >= min(20, vocabulary // 4)

    def test_every_family_passes_far_inside_the_tolerance(self, tiny: Any) -> None:
        ids = probe_ids(tiny.plain.config.vocab_size, torch.device("cpu"))
        checks = check_bridge(tiny.bridge, ids, tiny.plain(ids).logits, "float32", tiny.family).as_dict()
        effect = checks.pop("edited_pattern_effect")
        assert effect is not None
        assert all(difference is not None and difference < 1e-5 for difference in checks.values())
        assert effect > TOLERANCE["float32"]

    def test_a_network_alone_is_checked_too(self, tiny: Any) -> None:
        ids = probe_ids(tiny.plain.config.vocab_size, torch.device("cpu"))
        checks = check_network(tiny.plain, ids, tiny.plain(ids).logits, "float32", tiny.family)
        assert checks.prefix_and_suffix_against_full < 1e-5
        assert checks.in_one_line().startswith("prefix + suffix = full pass to ")
        assert checks.as_dict().keys() > {"patch_with_itself"}

    @pytest.mark.parametrize("lost", ["past_key_values", "position_ids"])
    def test_a_network_that_loses_its_prefix_is_refused(self, tiny_model: Callable[[str], Any], lost: str) -> None:
        plain = tiny_model("llama").plain

        class Losing:
            config = plain.config

            def __call__(self, ids: torch.Tensor, **given: Any) -> Any:
                if lost == "position_ids":  # wrong ones
                    return plain(ids, **given | {"position_ids": 2 * torch.arange(ids.shape[1])[None]})
                return plain(ids)

        ids = probe_ids(plain.config.vocab_size, torch.device("cpu"))
        with pytest.raises(ModelError, match=r"'mine' is refused .* a cached prefix are lost or misplaced"):
            check_network(Losing(), ids, plain(ids).logits, "float32", "mine")

    def test_all_that_is_wrong_is_named(
        self, tiny_model: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tiny = tiny_model("llama")
        monkeypatch.setattr(AttentionBridge, "_update_kv_cache", lambda self, k, v, **kwargs: (k, v))
        ids = probe_ids(tiny.plain.config.vocab_size, torch.device("cpu"))
        with pytest.raises(ModelError) as caught:
            check_bridge(tiny.bridge, ids, tiny.plain(ids).logits + 1, "float32", "mine")
        message = str(caught.value)
        assert "the bridge's logits differ" in message
        assert "a cached prefix" in message
        assert "(bridge = Hugging Face to 1e+00" in message


@pytest.mark.slow
def test_the_packaged_model_loads() -> None:
    model = load_model(DEFAULT_MODEL, device="cpu")
    assert (model.n_layers, model.n_heads) == (30, 9)
    assert model.checks.bridge_against_hugging_face < 1e-3
    assert model.checks.prefix_and_suffix_against_full < 1e-3
