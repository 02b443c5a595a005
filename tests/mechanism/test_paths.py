"""Path patching against full passes in which everything off the path is held by hooks, on every family."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from referent_probe.mechanism.brute_force import full_path_logits
from referent_probe.mechanism.paths import PATHS, direct_logits, path_logits
from referent_probe.models.interventions import Site
from referent_probe.models.record import Recorded, record

LENGTH, DIFFERS, LAYERS, HEADS = 20, 7, 4, 4
LAST = LENGTH - 1
TOKENS = [9, 5, 200]
CLOSE = 1e-5
INPUTS = {"q": "attn.hook_q", "k": "attn.hook_k", "v": "attn.hook_v"}
SENDERS = [(0, 1), (1, 3), (2, 0)]


def activations(tiny: Any) -> dict[str, Tensor]:
    kept: dict[str, Tensor] = {}

    def keep(tensor: Tensor, hook: Any) -> None:
        kept[hook.name] = tensor.clone()

    names = [
        f"blocks.{layer}.{place}"
        for layer in range(LAYERS)
        for place in ("attn.o.hook_in", "hook_attn_out", "hook_mlp_out", *INPUTS.values())
    ]
    found: dict[str, Tensor] = {}
    for name in names:  # one at a time: an alias fires under the name of its place
        kept.clear()
        with tiny.bridge.hooks(fwd_hooks=[(name, keep)]):
            tiny.bridge.original_model(tiny.ids)
        (found[name],) = kept.values()
    return found


def exchange(kept: dict[str, Tensor], name: str, at: list[int], heads: int, head: int) -> Callable[..., Tensor]:
    def hook(tensor: Tensor, hook: Any) -> Tensor:
        changed, other = tensor.clone(), kept[name].flip(0)
        by_head = changed.reshape(2, LENGTH, heads, -1)
        by_head[:, at, head] = other.reshape(2, LENGTH, heads, -1)[:, at, head]
        return by_head.reshape(tensor.shape)

    return hook


def hold(kept: dict[str, Tensor], name: str) -> tuple[str, Callable[..., Tensor]]:
    return name, lambda tensor, hook: kept[name].clone()


def only_the_stream(kept: dict[str, Tensor], sender: tuple[int, int], at: list[int], end: int) -> list[Any]:
    """The sender is patched, and up to block `end` nothing else may follow."""
    layer, head = sender
    hooks = [(f"blocks.{layer}.attn.o.hook_in", exchange(kept, f"blocks.{layer}.attn.o.hook_in", at, HEADS, head))]
    hooks += [hold(kept, f"blocks.{i}.hook_attn_out") for i in range(layer + 1, end)]
    return hooks + [hold(kept, f"blocks.{i}.hook_mlp_out") for i in range(layer, end)]


@pytest.fixture(scope="module")
def everything() -> dict[str, tuple[Recorded, dict[str, Tensor]]]:
    return {}


@pytest.fixture
def run(tiny: Any, everything: dict[str, tuple[Recorded, dict[str, Tensor]]]) -> tuple[Recorded, dict[str, Tensor]]:
    if tiny.family not in everything:
        everything[tiny.family] = (
            record(tiny.bridge, tiny.ids, DIFFERS, sites=[Site.Q, Site.K, Site.V]),
            activations(tiny),
        )
    return everything[tiny.family]


def test_head_to_logits(tiny: Any, run: tuple[Recorded, dict[str, Tensor]]) -> None:
    recorded, kept = run
    senders = [*SENDERS, (3, 2)]
    fast = direct_logits(tiny.bridge, recorded, recorded.take([1, 0]), senders, TOKENS)
    for i, sender in enumerate(senders):
        with tiny.bridge.hooks(fwd_hooks=only_the_stream(kept, sender, [LAST], LAYERS)):
            slow = tiny.bridge.original_model(tiny.ids).logits[:, -1, TOKENS]
        assert float((fast[:, i] - slow).abs().max()) < CLOSE
    assert float((fast - recorded.logits[:, None, TOKENS]).abs().max()) > 1e-3


def test_itself_through_any_path_changes_nothing(tiny: Any, run: tuple[Recorded, dict[str, Tensor]]) -> None:
    recorded, _ = run
    baseline = recorded.logits[:, None, TOKENS]
    assert float((direct_logits(tiny.bridge, recorded, recorded, SENDERS, TOKENS) - baseline).abs().max()) < CLOSE
    for through in INPUTS:
        same = path_logits(tiny.bridge, recorded, recorded, SENDERS, (3, 1), through, (8, LAST), TOKENS).logits
        assert float((same - baseline).abs().max()) < CLOSE


@pytest.mark.parametrize("through", INPUTS)
@pytest.mark.parametrize("positions", [(LAST,), (DIFFERS, 8, 12)])
@pytest.mark.parametrize("at_target_slot", [True, False])
def test_head_to_head(
    tiny: Any, run: tuple[Recorded, dict[str, Tensor]], through: str, positions: tuple[int, ...], at_target_slot: bool
) -> None:
    recorded, kept = run
    at, (layer, head) = list(positions), (3, 1)
    fast = path_logits(
        tiny.bridge,
        recorded,
        recorded.take([1, 0]),
        SENDERS,
        (layer, head),
        through,
        positions,
        TOKENS,
        at_target_slot=at_target_slot,
    ).logits
    name = f"blocks.{layer}.{INPUTS[through]}"
    heads = kept[name].shape[2]
    read = head * heads // HEADS
    for i, sender in enumerate(SENDERS):
        seen: list[Tensor] = []
        hooks = only_the_stream(kept, sender, at, layer)
        with tiny.bridge.hooks(fwd_hooks=[*hooks, (name, lambda t, hook, seen=seen: seen.append(t.clone()))]):
            tiny.bridge.original_model(tiny.ids)

        def receive(tensor: Tensor, hook: Any, seen: list[Tensor] = seen) -> Tensor:
            changed = tensor.clone()
            changed[:, at, read] = seen[0][:, at, read]
            return changed

        def keep_the_others(z: Tensor, hook: Any) -> Tensor:
            changed = kept[f"blocks.{layer}.attn.o.hook_in"].reshape(2, LENGTH, HEADS, -1).clone()
            moved = [LAST] if at_target_slot else list(range(LENGTH))
            changed[:, moved, head] = z.reshape(2, LENGTH, HEADS, -1)[:, moved, head]
            return changed.reshape(z.shape)

        with tiny.bridge.hooks(fwd_hooks=[(name, receive), (f"blocks.{layer}.attn.o.hook_in", keep_the_others)]):
            slow = tiny.bridge.original_model(tiny.ids).logits[:, -1, TOKENS]
        assert float((fast[:, i] - slow).abs().max()) < CLOSE


@pytest.mark.parametrize("through", INPUTS)
def test_the_check_of_every_run_says_the_same(tiny: Any, run: tuple[Recorded, dict[str, Tensor]], through: str) -> None:
    recorded, _ = run
    positions = (LAST,) if through == "q" else tuple(range(DIFFERS, LENGTH))
    fast = path_logits(
        tiny.bridge, recorded, recorded.take([1, 0]), SENDERS, (3, 1), through, positions, TOKENS, at_target_slot=True
    ).logits
    for i, sender in enumerate(SENDERS):
        slow = full_path_logits(tiny.bridge, *tiny.ids, sender, (3, 1), PATHS[through], positions)
        assert float((fast[0, i] - slow[TOKENS]).abs().max()) < CLOSE


def test_a_path_moves_something(tiny: Any, run: tuple[Recorded, dict[str, Tensor]]) -> None:
    recorded, _ = run
    moved = path_logits(tiny.bridge, recorded, recorded.take([1, 0]), SENDERS, (3, 1), "q", (LAST,), TOKENS).logits
    assert float((moved - recorded.logits[:, None, TOKENS]).abs().max()) > 1e-4


def test_a_sender_behind_the_receiver_is_refused(tiny_model: Callable[[str], Any]) -> None:
    tiny = tiny_model("llama")
    recorded = record(tiny.bridge, tiny.ids, DIFFERS, sites=[Site.Q])
    with pytest.raises(ValueError, match=r"head 3.0 does not come before head 3.1"):
        path_logits(tiny.bridge, recorded, recorded, [(1, 0), (3, 0)], (3, 1), "q", (LAST,), TOKENS)
    torch.testing.assert_close(recorded.ids, tiny.ids)
