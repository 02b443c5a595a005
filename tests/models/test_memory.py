"""Running out of memory, and saying so before."""

from typing import Any

import pytest
import torch

from referent_probe.errors import ModelError
from referent_probe.models import memory, passes
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.memory import available_bytes, is_out_of_memory, pass_bytes, refuse_too_little
from referent_probe.models.record import record
from referent_probe.models.resume import patched_logits

PATCHES = [Patch(layer, Site.Z, (18, 19), head) for layer in range(4) for head in range(4)]


def limit_rows(monkeypatch: pytest.MonkeyPatch, most: int, error: Exception) -> None:
    """Passes of more rows than `most` fail as on a device whose memory is full."""
    real = passes.Pass.run

    def run(self: Any, bridge: Any, tokens: Any) -> Any:
        if len(self.rows) > most:
            raise error
        return real(self, bridge, tokens)

    monkeypatch.setattr(passes.Pass, "run", run)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes"),
    ],
)
def test_passes_are_halved_until_they_fit(tiny_model: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    tiny = tiny_model("llama")
    run = record(tiny.bridge, tiny.ids, 7)
    whole = patched_logits(tiny.bridge, run, run.take([1, 0]), PATCHES, [5, 9])
    assert whole.halvings == 0
    limit_rows(monkeypatch, 3, error)
    halved = patched_logits(tiny.bridge, run, run.take([1, 0]), PATCHES, [5, 9])
    assert halved.halvings == 3  # 16, 8, 4, 2
    assert float((halved.logits - whole.logits).abs().max()) < 1e-5


def test_if_not_one_row_fits_the_item_is_named(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = tiny_model("llama")
    run = record(tiny.bridge, tiny.ids, 7)
    limit_rows(monkeypatch, 0, MemoryError())
    monkeypatch.setattr(memory, "available_bytes", lambda device: 10)
    with pytest.raises(ModelError, match=r"too little memory for a prompt of 20 tokens: .* MiB are free on cpu"):
        patched_logits(tiny.bridge, run, run, PATCHES, [5, 9])


def test_another_error_is_not_taken_for_it(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = tiny_model("llama")
    run = record(tiny.bridge, tiny.ids, 7)
    limit_rows(monkeypatch, 0, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        patched_logits(tiny.bridge, run, run, PATCHES, [5, 9])
    assert not is_out_of_memory(ValueError("out of memory is not meant"))


def test_the_estimate_grows_with_everything(tiny_model: Any) -> None:
    network = tiny_model("llama").plain
    counts = {"tokens": 10, "keys": 20, "prefixes": 2, "prefix": 8}
    base = pass_bytes(network, **counts)
    assert base > 0
    assert all(pass_bytes(network, **counts | {name: 2 * n}) > base for name, n in counts.items())
    # 4 heads of 8, 2 key-value heads, d_model 32, d_mlp 64: counted by hand.
    assert base == 4 * (10 * (5 * 32 + 4 * 32 + 3 * 64 + 3 * 4 * 20) + 2 * (2 * 8 * 8 * (2 + 4)))


def test_free_memory_is_known_and_enough_is_not_refused() -> None:
    assert available_bytes("cpu") > 2**20
    refuse_too_little(1, "cpu", "a prompt")
