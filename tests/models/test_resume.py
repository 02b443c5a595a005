"""Patched runs against full runs, on every family."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from referent_probe.models import resume
from referent_probe.models.interventions import Patch, Site
from referent_probe.models.record import Recorded, record
from referent_probe.models.resume import patched_logits

LENGTH, DIFFERS, LAYERS, HEADS = 20, 7, 4, 4
LAST = LENGTH - 1
TOKENS = [9, 5, 200]
CLOSE = 1e-5

HEAD_POSITIONS = {
    "target slot": (LAST,),
    "a span": (9, 10, 11),
    "a span with a gap": (8, 12, LAST),
    "all from the first difference": tuple(range(DIFFERS, LENGTH)),
}
RESIDUAL_POSITIONS = {
    "first difference": (DIFFERS,),
    "one": (13,),
    "last": (LAST,),
    "a span": (9, 10, 11),
    "all": tuple(range(DIFFERS, LENGTH)),
}


def both_ways(tiny: Any, start: int = DIFFERS) -> tuple[Recorded, Recorded]:
    """The recorded pair, and the same with its members swapped: each is patched from the other."""
    run = record(tiny.bridge, tiny.ids, start)
    return run, run.take([1, 0])


def hook_name(patch: Patch) -> str:
    site = "attn.o.hook_in" if patch.site is Site.Z else "hook_in"
    return f"blocks.{patch.layer}.{site}"


def all_activations(tiny: Any) -> dict[str, Tensor]:
    """Every block's input and heads' outputs, of a full pass without a cache."""
    kept: dict[str, Tensor] = {}

    def keep(tensor: Tensor, hook: Any) -> None:
        kept[hook.name] = tensor.clone()

    names = [f"blocks.{layer}.{site}" for layer in range(LAYERS) for site in ("hook_in", "attn.o.hook_in")]
    with tiny.bridge.hooks(fwd_hooks=[(name, keep) for name in names]):
        tiny.bridge.original_model(tiny.ids)
    return kept


def brute_force(tiny: Any, activations: dict[str, Tensor], patch: Patch) -> Tensor:
    """Last position's logits [2, vocabulary] of full passes over both prompts, each patched from the other."""
    name = hook_name(patch)
    other = activations[name].flip(0)

    def exchange(tensor: Tensor, hook: Any) -> Tensor:
        edited = tensor.clone()
        at = list(patch.positions)
        if patch.site is Site.RESIDUAL:
            edited[:, at] = other[:, at]
        else:
            by_head = edited.view(2, LENGTH, HEADS, -1)
            by_head[:, at, patch.head] = other.reshape(2, LENGTH, HEADS, -1)[:, at, patch.head]
        return edited

    with tiny.bridge.hooks(fwd_hooks=[(name, exchange)]):
        logits: Tensor = tiny.bridge.original_model(tiny.ids).logits[:, -1]
    return logits


def largest(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max())


def every_head(positions: tuple[int, ...]) -> list[Patch]:
    return [Patch(layer, Site.Z, positions, head) for layer in range(LAYERS) for head in range(HEADS)]


def every_residual(*positions: tuple[int, ...]) -> list[Patch]:
    return [Patch(layer, Site.RESIDUAL, at) for layer in range(LAYERS) for at in positions]


class TestRecord:
    @pytest.mark.parametrize("start", [DIFFERS, 0, 1, 3])
    def test_a_recorded_pass_is_the_plain_models(self, tiny: Any, start: int) -> None:
        run = record(tiny.bridge, tiny.ids, start)
        plain = tiny.plain(tiny.ids, output_hidden_states=True, output_attentions=True)
        assert largest(run.logits, plain.logits[:, -1]) < CLOSE
        for layer in range(LAYERS):
            assert largest(run.residual[layer], plain.hidden_states[layer][:, start:]) < CLOSE
            assert largest(run.pattern[layer], plain.attentions[layer][:, :, -1]) < CLOSE

    def test_a_prompt_that_is_the_prefix_but_for_one_token(self, tiny: Any) -> None:
        ids = tiny.ids[:1]
        assert largest(record(tiny.bridge, ids, LAST).logits, tiny.plain(ids).logits[:, -1]) < CLOSE

    def test_shapes_are_what_the_docstring_says(self, tiny: Any) -> None:
        run = record(tiny.bridge, tiny.ids, DIFFERS)
        n = LENGTH - DIFFERS
        grouped = HEADS if tiny.family in ("gpt2", "gpt-neox") else 2
        assert run.length == LENGTH
        for of_blocks in (run.keys, run.values, run.visible, run.residual, run.z, run.pattern):
            assert len(of_blocks) == LAYERS
        assert run.keys[0].shape == run.values[0].shape == (2, grouped, LENGTH, 8)
        assert run.visible[0].shape == (1, n, LENGTH)
        assert run.residual[0].shape == run.z[0].shape == (2, n, 32)
        assert run.pattern[0].shape == (2, HEADS, LENGTH)
        assert run.final_residual.shape == (2, 32)

    def test_heads_outputs_are_those_of_a_full_pass(self, tiny: Any) -> None:
        run, full = record(tiny.bridge, tiny.ids, DIFFERS), all_activations(tiny)
        for layer in range(LAYERS):
            z = full[f"blocks.{layer}.attn.o.hook_in"].flatten(2)[:, DIFFERS:]
            assert largest(run.z[layer], z) < CLOSE

    def test_sliding_windows_show_in_what_is_visible(self, tiny: Any) -> None:
        run = record(tiny.bridge, tiny.ids, DIFFERS)
        window = {"gemma2": {0, 2}, "gemma3": {0, 2}, "gpt-oss": {0, 2}, "phi3": {0, 1, 2, 3}}.get(tiny.family, set())
        for layer in range(LAYERS):
            reach = 6 if layer in window else LENGTH
            expected = [[0 <= q - k < reach for k in range(LENGTH)] for q in range(DIFFERS, LENGTH)]
            assert run.visible[layer][0].tolist() == expected

    def test_members_can_be_taken_in_any_order(self, tiny_model: Callable[[str], Any]) -> None:
        tiny = tiny_model("llama")
        run = record(tiny.bridge, tiny.ids, DIFFERS)
        swapped = run.take([1, 0])
        assert torch.equal(swapped.ids, tiny.ids.flip(0))
        assert torch.equal(swapped.z[2], run.z[2].flip(0))
        assert torch.equal(swapped.final_residual, run.final_residual.flip(0))
        again = swapped.take([1, 0])
        assert all(torch.equal(a, b) for a, b in zip(again.keys, run.keys, strict=True))
        assert run.take([0, 0, 1]).logits.shape[0] == 3


class TestPatchedLogits:
    @pytest.mark.parametrize("positions", HEAD_POSITIONS.values(), ids=list(HEAD_POSITIONS))
    def test_heads_equal_brute_force(self, tiny: Any, positions: tuple[int, ...]) -> None:
        base, source = both_ways(tiny)
        patches = every_head(positions)
        fast = patched_logits(tiny.bridge, base, source, patches, TOKENS).logits
        full = all_activations(tiny)
        slow = torch.stack([brute_force(tiny, full, patch)[:, TOKENS] for patch in patches], dim=1)
        assert largest(fast, slow) < CLOSE
        assert largest(slow, base.logits[:, None, TOKENS].expand_as(slow)) > 1e-3  # it is not baseline that is compared

    @pytest.mark.parametrize("positions", RESIDUAL_POSITIONS.values(), ids=list(RESIDUAL_POSITIONS))
    def test_residual_streams_equal_brute_force(self, tiny: Any, positions: tuple[int, ...]) -> None:
        base, source = both_ways(tiny)
        patches = every_residual(positions)
        fast = patched_logits(tiny.bridge, base, source, patches, TOKENS).logits
        full = all_activations(tiny)
        slow = torch.stack([brute_force(tiny, full, patch)[:, TOKENS] for patch in patches], dim=1)
        assert largest(fast, slow) < CLOSE

    def test_patches_of_both_sites_and_several_first_positions_share_a_pass(self, tiny: Any) -> None:
        base, source = both_ways(tiny)
        patches = [
            Patch(2, Site.Z, (LAST,), 3),
            Patch(0, Site.RESIDUAL, (9,)),
            Patch(3, Site.Z, (8, 9), 0),
            Patch(2, Site.RESIDUAL, (15, 16)),
            Patch(2, Site.Z, (12,), 1),
        ]
        fast = patched_logits(tiny.bridge, base, source, patches, TOKENS).logits
        full = all_activations(tiny)
        for i, patch in enumerate(patches):
            assert largest(fast[:, i], brute_force(tiny, full, patch)[:, TOKENS]) < CLOSE

    @pytest.mark.parametrize("start", [0, 3])
    def test_recording_may_start_before_the_difference(self, tiny: Any, start: int) -> None:
        base, source = both_ways(tiny, start)
        patches = [
            *every_residual((DIFFERS,), (start, DIFFERS, 11)),
            *(Patch(layer, Site.Z, tuple(range(start, LENGTH)), layer) for layer in range(LAYERS)),
        ]
        fast = patched_logits(tiny.bridge, base, source, patches, TOKENS).logits
        full = all_activations(tiny)
        for i, patch in enumerate(patches):
            assert largest(fast[:, i], brute_force(tiny, full, patch)[:, TOKENS]) < CLOSE

    def test_a_run_patched_with_itself_is_the_baseline(self, tiny: Any) -> None:
        base, _ = both_ways(tiny)
        patches = [*every_head((LAST,)), *every_head((8, 9)), *every_residual((DIFFERS,), (10, 11))]
        logits = patched_logits(tiny.bridge, base, base, patches, TOKENS).logits
        assert largest(logits, base.logits[:, None, TOKENS].expand_as(logits)) < CLOSE

    def test_the_differing_token_under_the_first_block_makes_the_other_run(self, tiny: Any) -> None:
        base, source = both_ways(tiny)
        logits = patched_logits(tiny.bridge, base, source, [Patch(0, Site.RESIDUAL, (DIFFERS,))], TOKENS).logits
        assert largest(logits[:, 0], source.logits[:, TOKENS]) < CLOSE
        assert largest(base.logits, source.logits) > 1e-2

    def test_the_whole_residual_stream_at_any_depth_makes_the_other_run(self, tiny: Any) -> None:
        base, source = both_ways(tiny)
        patches = every_residual(tuple(range(DIFFERS, LENGTH)))
        logits = patched_logits(tiny.bridge, base, source, patches, TOKENS).logits
        # Above the first block the prefix is the same in both runs, so nothing of the base is left.
        assert largest(logits, source.logits[:, None, TOKENS].expand_as(logits)) < CLOSE

    @pytest.mark.parametrize("packed", [1, 13, 30])
    def test_how_rows_are_packed_is_immaterial(self, tiny: Any, packed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        base, source = both_ways(tiny)
        patches = [*every_head((10, LAST)), *every_residual((12,))]
        wide = patched_logits(tiny.bridge, base, source, patches, TOKENS)
        monkeypatch.setattr(resume, "PACKED_TOKENS", packed)
        narrow = patched_logits(tiny.bridge, base, source, patches, TOKENS)
        assert largest(wide.logits, narrow.logits) < CLOSE
        assert narrow.token_blocks >= wide.token_blocks

    def test_the_order_of_patches_is_immaterial(self, tiny: Any) -> None:
        base, source = both_ways(tiny)
        patches = [*every_head((LAST,)), *every_residual((LAST,))]
        order = torch.randperm(len(patches), generator=torch.Generator().manual_seed(0)).tolist()
        straight = patched_logits(tiny.bridge, base, source, patches, TOKENS).logits
        shuffled = patched_logits(tiny.bridge, base, source, [patches[i] for i in order], TOKENS).logits
        assert largest(straight[:, order], shuffled) < CLOSE

    def test_the_order_of_tokens_is_kept(self, tiny_model: Callable[[str], Any]) -> None:
        tiny = tiny_model("gemma2")
        base, source = both_ways(tiny)
        patches = every_residual((12,))
        forward = patched_logits(tiny.bridge, base, source, patches, [1, 2, 3]).logits
        backward = patched_logits(tiny.bridge, base, source, patches, [3, 2, 1]).logits
        assert largest(forward, backward.flip(-1)) < CLOSE
        alone = patched_logits(tiny.bridge, base, source, patches, [2]).logits
        assert largest(forward[..., 1:2], alone) < CLOSE

    def test_a_bias_on_the_logits(self, tiny_model: Callable[[str], Any]) -> None:
        tiny = tiny_model("phi")
        assert float(tiny.plain.lm_head.bias.abs().min()) > 0
        base, source = both_ways(tiny)
        patches = [*every_head((LAST,)), *every_residual((12,))]
        fast = patched_logits(tiny.bridge, base, source, patches, TOKENS).logits
        full = all_activations(tiny)
        for i, patch in enumerate(patches):
            assert largest(fast[:, i], brute_force(tiny, full, patch)[:, TOKENS]) < CLOSE

    def test_a_batch_of_two_is_each_alone(self, tiny: Any) -> None:
        base, source = both_ways(tiny)
        patches = [*every_head((LAST,)), *every_residual((DIFFERS,), (11, 12))]
        together = patched_logits(tiny.bridge, base, source, patches, TOKENS).logits
        alone = [record(tiny.bridge, tiny.ids[i : i + 1], DIFFERS) for i in range(2)]
        assert largest(torch.cat([run.logits for run in alone]), base.logits) < CLOSE
        for i in range(2):
            one = patched_logits(tiny.bridge, alone[i], alone[1 - i], patches, TOKENS).logits
            assert largest(together[i : i + 1], one) < CLOSE


class TestCost:
    """Blocks 0 to 3, T = 20; a row is as wide as the prompt from the first patched position on."""

    @pytest.fixture
    def runs(self, tiny_model: Callable[[str], Any]) -> Callable[..., int]:
        tiny = tiny_model("llama")
        base, source = both_ways(tiny)
        return lambda patches: patched_logits(tiny.bridge, base, source, patches, TOKENS).token_blocks

    def test_heads_at_the_target_slot(self, runs: Callable[..., int]) -> None:
        # Rows of one token; four join at every block: 4 + 8 + 12 + 16, where one full pass is 20 * 4 = 80.
        assert runs(every_head((LAST,))) == 40

    def test_blocks_below_the_first_patch_see_one_token(
        self, runs: Callable[..., int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        patches = [Patch(2, Site.RESIDUAL, (17,)), Patch(3, Site.Z, (17, 18), 1)]
        assert runs(patches) == 1 + 1 + 3 + 6
        monkeypatch.setattr(resume, "PACKED_TOKENS", 3)  # one row a pass
        assert runs(patches) == (1 + 1 + 3 + 3) + (1 + 1 + 1 + 3)


class TestRefused:
    @pytest.fixture
    def tiny(self, tiny_model: Callable[[str], Any]) -> Any:
        return tiny_model("llama")

    @pytest.mark.parametrize("start", [-1, LENGTH, LENGTH + 5])
    def test_a_start_outside_the_prompt(self, tiny: Any, start: int) -> None:
        with pytest.raises(ValueError, match=rf"start {start} .*{LENGTH} tokens"):
            record(tiny.bridge, tiny.ids, start)

    def test_prompts_that_differ_before_the_start(self, tiny: Any) -> None:
        with pytest.raises(ValueError, match="differ before position 8"):
            record(tiny.bridge, tiny.ids, DIFFERS + 1)

    def test_no_patch(self, tiny: Any) -> None:
        base, source = both_ways(tiny)
        with pytest.raises(ValueError, match="no patch"):
            patched_logits(tiny.bridge, base, source, [], TOKENS)

    @pytest.mark.parametrize("positions", [(DIFFERS - 1,), (9, LENGTH), (-1,)])
    def test_positions_that_were_not_recorded(self, tiny: Any, positions: tuple[int, ...]) -> None:
        base, source = both_ways(tiny)
        with pytest.raises(ValueError, match="lie outside 7 to 19"):
            patched_logits(tiny.bridge, base, source, [Patch(1, Site.RESIDUAL, positions)], TOKENS)

    def test_runs_of_unlike_shape(self, tiny: Any) -> None:
        base, source = both_ways(tiny)
        patches = [Patch(1, Site.RESIDUAL, (10,))]
        for other in (source.take([0]), record(tiny.bridge, tiny.ids, 3), record(tiny.bridge, tiny.ids[:, 1:], 6)):
            with pytest.raises(ValueError, match="do not match"):
                patched_logits(tiny.bridge, base, other, patches, TOKENS)

    @pytest.mark.parametrize(
        "patch",
        [
            Patch(LAYERS, Site.RESIDUAL, (10,)),
            Patch(-1, Site.RESIDUAL, (10,)),
            Patch(1, Site.Z, (10,), HEADS),
            Patch(1, Site.Z, (10,), -1),
            Patch(1, Site.Z, (10,)),
            Patch(1, Site.RESIDUAL, ()),
        ],
    )
    def test_a_place_that_the_model_lacks(self, tiny: Any, patch: Patch) -> None:
        base, source = both_ways(tiny)
        with pytest.raises(ValueError, match=r"is not there|head None|no position"):
            patched_logits(tiny.bridge, base, source, [Patch(2, Site.RESIDUAL, (11,)), patch], TOKENS)


@contextmanager
def left_alone(tiny: Any) -> Iterator[None]:
    """Asserts that weights, logits, hooks and methods are the same, bit by bit, after the body as before it."""

    def hooks() -> list[tuple[str, int, int]]:
        return [(n, len(m._forward_pre_hooks), len(m._forward_hooks)) for n, m in tiny.bridge.named_modules()]

    def attributes() -> list[set[str]]:
        return [set(vars(module)) for module in tiny.bridge.modules()]

    weights = {name: tensor.clone() for name, tensor in tiny.bridge.state_dict().items()}
    logits = tiny.bridge.original_model(tiny.ids).logits
    before = hooks(), attributes()
    yield
    assert (hooks(), attributes()) == before
    points = [p for p in tiny.bridge.hook_dict.values() if p.fwd_hooks or p.bwd_hooks]
    assert points == []
    after = tiny.bridge.state_dict()
    assert weights.keys() == after.keys()
    assert all(torch.equal(weights[name], after[name]) for name in weights)
    assert torch.equal(tiny.bridge.original_model(tiny.ids).logits, logits)


class TestTheModelIsLeftAlone:
    def test_after_recording_and_patching(self, tiny: Any) -> None:
        with left_alone(tiny):
            base, source = both_ways(tiny)
            patched_logits(tiny.bridge, base, source, [*every_head((9, LAST)), *every_residual((12,))], TOKENS)

    @pytest.mark.parametrize("layer", [0, 3])
    def test_after_an_error_in_a_hook(self, tiny: Any, layer: int) -> None:
        base, source = both_ways(tiny)

        def fail(tensor: Tensor, hook: Any) -> Tensor:
            raise RuntimeError("raised in a hook")

        with left_alone(tiny):
            with (
                tiny.bridge.hooks(fwd_hooks=[(f"blocks.{layer}.attn.o.hook_in", fail)]),
                pytest.raises(RuntimeError, match="in a hook"),
            ):
                record(tiny.bridge, tiny.ids, DIFFERS)
            with (
                tiny.bridge.hooks(fwd_hooks=[(f"blocks.{layer}.attn.o.hook_in", fail)]),
                pytest.raises(RuntimeError, match="in a hook"),
            ):
                patched_logits(tiny.bridge, base, source, every_head((LAST,)), TOKENS)

    def test_recorded_activations_are_not_written_to(self, tiny: Any) -> None:
        base, source = both_ways(tiny)
        kept = ("keys", "values", "residual", "z", "pattern")
        before = {name: [tensor.clone() for tensor in getattr(base, name)] for name in kept}
        patched_logits(tiny.bridge, base, source, [*every_head((9, LAST)), *every_residual((12,))], TOKENS)
        for name in kept:
            assert all(torch.equal(a, b) for a, b in zip(before[name], getattr(base, name), strict=True))
