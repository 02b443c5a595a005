"""Sequences read together, with what they begin with computed once, must come out as each does alone."""

from typing import Any

import pytest
import torch

from referent_probe.models import contexts as module
from referent_probe.models.contexts import Contexts, go_on, log_probabilities, logits_behind
from referent_probe.models.reading import read, root_of

CLOSE = 1e-5
START, MIDDLE = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16], list(range(20, 32))
SHAPES = {
    "one": [START],
    "one token": [[5]],
    "nothing shared": [START, MIDDLE, [40, 41]],
    "all share": [[*START, 3], [*START, 4, 5], [*START, 6, 6, 6]],
    "shared in two steps": [
        [*START, *middle, *tail] for middle in (MIDDLE, [*MIDDLE[:4], 50], [60] * 14) for tail in ([3], [4, 5], [3, 9])
    ],
    "beginnings of each other": [START[:3], START, [*START, *MIDDLE], [*START, *MIDDLE, 1], [*START, *MIDDLE, 2]],
    "twice": [START, [*START, 3], START],
}


def loaded(tiny: Any) -> Any:
    """What of a `LoadedModel` is needed here."""

    class Model:
        network, n_layers, device = tiny.bridge.original_model, len(tiny.bridge.blocks), "cpu"

    return Model()


def alone(tiny: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = tiny.bridge.original_model(torch.tensor([ids])).logits[0, -1]
    return logits


def largest(found: torch.Tensor, wanted: list[torch.Tensor]) -> float:
    return float((found - torch.stack(wanted)).abs().max())


@pytest.mark.parametrize("shape", SHAPES)
def test_each_comes_out_as_it_does_alone(tiny: Any, shape: str) -> None:
    sequences = SHAPES[shape]
    found = read(loaded(tiny), sequences)
    assert largest(found.logits, [alone(tiny, ids) for ids in sequences]) < CLOSE
    assert [found.keys[0].shape[2] - pad for pad in found.padding] == [len(ids) for ids in sequences]


def test_going_on_behind_rows_of_unlike_length(tiny: Any) -> None:
    sequences = SHAPES["shared in two steps"] + [START[:2]]
    model, rows, tails = loaded(tiny), [9, 0, 4, 9], [[3, 1, 2], [9], [4, 4], [70] * 5]
    before = read(model, sequences)
    wanted = [alone(tiny, [*sequences[row], *tail]) for row, tail in zip(rows, tails, strict=True)]
    assert largest(logits_behind(model, before, rows, tails), wanted) < CLOSE
    after = go_on(model, before, rows, tails)
    assert largest(after.logits, wanted) < CLOSE
    further = [alone(tiny, [*sequences[row], *tail, 33]) for row, tail in zip(rows, tails, strict=True)]
    assert largest(logits_behind(model, after, range(4), [[33]] * 4), further) < CLOSE
    swapped = after.take([3, 0])
    assert largest(logits_behind(model, swapped, [0, 1], [[33]] * 2), [further[3], further[0]]) < CLOSE
    assert largest(read(model, sequences).logits, list(before.logits)) == 0  # nothing was changed by going on


def test_log_probabilities_of_tails_token_by_token(tiny: Any) -> None:
    sequences = [START, [*START, *MIDDLE], START[:4]]
    model, rows, tails = loaded(tiny), [1, 0, 2, 1], [[3, 1, 2], [9], [4, 4], [70] * 5]
    found = log_probabilities(model, read(model, sequences), rows, tails)
    for row, tail, log_p in zip(rows, tails, found, strict=True):
        wanted = [
            float(alone(tiny, [*sequences[row], *tail[:i]]).double().log_softmax(-1)[token])
            for i, token in enumerate(tail)
        ]
        assert log_p.tolist() == pytest.approx(wanted, abs=CLOSE)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_chunks_change_rounding_only(tiny: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sequences = SHAPES["shared in two steps"]
    whole = read(loaded(tiny), sequences)
    monkeypatch.setattr(module, "ROWS", rows)
    monkeypatch.setattr(module, "SHORT_ROWS", rows)
    assert largest(read(loaded(tiny), sequences).logits, list(whole.logits)) < CLOSE


def test_order_changes_no_bit(tiny: Any) -> None:
    sequences = SHAPES["shared in two steps"] + SHAPES["all share"]
    found, turned = read(loaded(tiny), sequences), read(loaded(tiny), sequences[::-1])
    assert torch.equal(found.logits, turned.logits.flip(0))


def test_what_is_shared_is_computed_once(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """14 prompts of 120 tokens, all alike for 60 and in pairs for 105: 60 + 7 * 45 + 14 * 15 tokens."""
    tiny = tiny_model("llama")
    counted = []
    network = tiny.bridge.original_model
    forward = type(network).forward
    monkeypatch.setattr(
        type(network),
        "forward",
        lambda self, ids, **named: (counted.append(ids.numel()), forward(self, ids, **named))[1],
    )
    sequences = [[1] * 60 + [2 + i] * 45 + [10 + j] * 15 for i in range(7) for j in range(2)]
    assert largest(read(loaded(tiny), sequences).logits, [alone(tiny, ids) for ids in sequences]) < CLOSE
    assert counted[:3] == [60, 7 * 45, 14 * 15]


def test_a_chunk_that_does_not_fit_is_halved(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = tiny_model("llama")
    once, tried = module._pass, []

    def tight(*args: Any, **named: Any) -> Contexts:
        tried.append(len(args[3]))
        if len(args[3]) > 2:
            raise torch.OutOfMemoryError("too much")
        return once(*args, **named)

    monkeypatch.setattr(module, "_pass", tight)
    sequences = SHAPES["shared in two steps"]
    found = read(loaded(tiny), sequences)
    assert largest(found.logits, [alone(tiny, ids) for ids in sequences]) < CLOSE
    assert max(tried) > 2
    monkeypatch.setattr(module, "_pass", lambda *args, **named: (_ for _ in ()).throw(RuntimeError("another fault")))
    with pytest.raises(RuntimeError, match="another fault"):
        read(loaded(tiny), sequences)


@pytest.mark.parametrize("shape", ["all share", "shared in two steps", "beginnings of each other", "one"])
@pytest.mark.parametrize("length", [1, 2, 3, 9, 10, 11])
def test_a_root_changes_rounding_only(tiny_model: Any, shape: str, length: int) -> None:
    """Also one that is too long for some, is all of one, or begins none."""
    tiny, sequences = tiny_model("gpt-oss"), SHAPES[shape]
    model = loaded(tiny)
    root = root_of(model, [[*START, 3][: length + 1], [*START[:length], 99]])
    assert root is not None
    assert root.ids == tuple(START[:length]) if length < 10 else root.ids[:10] == tuple(START)
    found = read(model, sequences, root)
    assert largest(found.logits, [alone(tiny, ids) for ids in sequences]) < CLOSE
    assert [found.keys[0].shape[2] - pad for pad in found.padding] == [len(ids) for ids in sequences]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, 3, 16])
def test_logits_alone_are_the_same_and_nothing_goes_on_from_them(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch, shape: str, rows: int
) -> None:
    monkeypatch.setattr(module, "ROWS", rows)
    model = loaded(tiny_model("llama"))
    found, whole = read(model, SHAPES[shape][::-1], keep=False), read(model, SHAPES[shape][::-1])
    assert torch.equal(found.logits, whole.logits)
    assert (found.keys, found.values, found.padding) == ((), (), ())
    assert torch.equal(found.take([0, 0]).logits, whole.logits[[0, 0]])
    tails = [(5,)] * len(whole.logits)
    first, other = (log_probabilities(model, contexts, range(len(tails)), tails) for contexts in (found, whole))
    assert first == other
    with pytest.raises(ValueError, match="keep=False"):
        go_on(model, found, [0], [[3]])


def test_a_root_is_not_read_again(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = tiny_model("llama")
    model, counted = loaded(tiny), []
    sequences = [[1] * 60 + [2 + i] * 45 + [10 + j] * 15 for i in range(7) for j in range(2)]
    root = root_of(model, sequences)
    assert root is not None
    assert len(root.ids) == 60
    forward = type(tiny.bridge.original_model).forward
    monkeypatch.setattr(
        type(tiny.bridge.original_model),
        "forward",
        lambda self, ids, **named: (counted.append(ids.numel()), forward(self, ids, **named))[1],
    )
    read(model, sequences, root)
    assert counted == [7 * 45, 14 * 15]
    assert root_of(model, [[1, 2], [3]]) is None


@pytest.mark.parametrize("sequences", [[], [[]], [[1], []]])
def test_nothing_to_read_is_refused(tiny_model: Any, sequences: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="no sequence to read, or an empty one"):
        read(loaded(tiny_model("llama")), sequences)
