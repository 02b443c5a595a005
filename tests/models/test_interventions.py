"""Interventions against full passes of a plain Hugging Face model that TransformerLens never saw, on every family.

In float32 the engine and the twin differ by 5e-6 at most, on logits of up to 6; an intervention moves them by more than
1e-3.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.twins import twin_activations, twin_logits
from torch import Tensor

from referent_probe.models import passes
from referent_probe.models.interventions import Cut, Intervention, Patch, Row, Site, check_place
from referent_probe.models.record import Recorded, record
from referent_probe.models.resume import block_activations, patched_logits
from referent_probe.randomness import generator

LENGTH, DIFFERS, PAD, LAYERS, HEADS = 20, 7, 5, 4, 4
LAST = LENGTH - 1
LATER = tuple(range(DIFFERS, LENGTH))
CLOSE, MOVED = 1e-5, 1e-3

POSITIONS = {
    "target slot": (LAST,),
    "two of the last four": (16, LAST),
    "a span": (9, 10, 11),
    "a span with a gap": (8, 12, LAST),
    "all from the first difference": LATER,
}
QUERIES = {"target slot": (LAST,), "all from the first difference": LATER}
KEYS = {
    "before the first difference": (2, 3),
    "at it": (DIFFERS,),
    "after it": (15, 16),
    "themselves": (17, LAST),
    "all three": (0, 3, DIFFERS, 12, 16),
}


def largest(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max())


def by_row(difference: Tensor) -> Tensor:
    """The largest of each row [rows], of [batch, rows, tokens]."""
    return difference.abs().amax(dim=(0, 2))


def size_of(tiny: Any, site: Site) -> int:
    if site is Site.PATTERN:
        return LENGTH
    return 8 if site.by_head else int(tiny.plain.config.hidden_size)


def heads_of(run: Recorded, site: Site) -> list[int | None]:
    return list(range(run.heads_at(site))) if site.by_head else [None]


def every(run: Recorded, positions: tuple[int, ...], value: Tensor | None = None) -> list[Patch]:
    """All sites of all blocks and heads."""
    return [
        Patch(layer, site, positions, head, value)
        for site in Site
        for layer in range(LAYERS)
        for head in heads_of(run, site)
    ]


def everything_at(run: Recorded, layer: int, sites: Sequence[Site]) -> tuple[Patch, ...]:
    return tuple(Patch(layer, site, LATER, head) for site in sites for head in heads_of(run, site))


@pytest.fixture(scope="module")
def pair(tiny: Any) -> tuple[Recorded, Recorded]:
    """The recorded pair, and the same with its members swapped: each is patched from the other."""
    run = record(tiny.bridge, tiny.ids, DIFFERS, sites=tuple(Site))
    return run, run.take([1, 0])


@pytest.fixture(scope="module")
def together(tiny: Any) -> Recorded:
    """Both prompts, and both without their first five tokens, which are padding instead."""
    filling = torch.full((2, PAD), 11)  # an ordinary token: only the mask can tell that it is padding
    ids = torch.cat([tiny.ids, torch.cat([filling, tiny.ids[:, PAD:]], dim=1)])
    return record(tiny.bridge, ids, DIFFERS, padding=[0, 0, PAD, PAD], sites=tuple(Site))


def differences(tiny: Any, base: Recorded, source: Recorded | None, rows: Sequence[Row]) -> Tensor:
    """Asserts that each row equals its twin; how far it moves the logits [rows]."""
    tokens = range(tiny.plain.config.vocab_size)
    fast = patched_logits(tiny.bridge, base, source, rows, tokens).logits
    slow = twin_logits(tiny.plain, base.ids, None if source is None else source.ids, rows)
    off = by_row(fast - slow)
    wrong = {f"{row}": float(far) for row, far in zip(rows, off, strict=True) if not far < CLOSE}
    assert not wrong
    return by_row(fast - base.logits[:, None])


class TestTheTwin:
    """What it rests on: its own attention and its places, against what transformers itself gives out."""

    def test_without_interventions_it_is_the_plain_model(self, tiny: Any) -> None:
        plain = tiny.plain(tiny.ids, output_hidden_states=True, output_attentions=True)
        assert largest(twin_logits(tiny.plain, tiny.ids, None, [()])[:, 0], plain.logits[:, -1]) < CLOSE
        kept = twin_activations(tiny.plain, tiny.ids)
        for layer in range(LAYERS):
            assert largest(kept[layer, Site.RESIDUAL][:, :, 0], plain.hidden_states[layer]) < CLOSE
            assert largest(kept[layer, Site.PATTERN].transpose(1, 2), plain.attentions[layer]) < CLOSE
        assert torch.equal(tiny.plain(tiny.ids).logits, plain.logits)

    def test_the_stream_is_the_sum_of_what_blocks_add(self, tiny: Any) -> None:
        kept = twin_activations(tiny.plain, tiny.ids)
        for layer in range(LAYERS - 1):
            added = kept[layer, Site.ATTN_OUT] + kept[layer, Site.MLP_OUT]
            assert largest(kept[layer, Site.RESIDUAL] + added, kept[layer + 1, Site.RESIDUAL]) < CLOSE

    def test_heads_outputs_are_patterns_times_values(self, tiny: Any) -> None:
        kept = twin_activations(tiny.plain, tiny.ids)
        for layer in range(LAYERS):
            values = kept[layer, Site.V]
            for head in range(HEADS):
                of_group = values[:, :, head // (HEADS // values.shape[2])]
                z = kept[layer, Site.PATTERN][:, :, head] @ of_group
                assert largest(z, kept[layer, Site.Z][:, :, head]) < CLOSE

    def test_rows_together_are_rows_alone(self, tiny: Any, pair: tuple[Recorded, Recorded]) -> None:
        rows = [*every(pair[0], (9, LAST))[::11], Cut(1, LATER, (3, 12)), Cut(2, (LAST,), (16,), 1, False)]
        together = twin_logits(tiny.plain, tiny.ids, tiny.ids.flip(0), rows)
        alone = [twin_logits(tiny.plain, tiny.ids, tiny.ids.flip(0), [row]) for row in rows]
        assert largest(together, torch.cat(alone, dim=1)) < CLOSE


class TestRecord:
    @pytest.mark.parametrize("site", Site)
    def test_every_site_is_the_plain_models(self, tiny: Any, pair: tuple[Recorded, Recorded], site: Site) -> None:
        run, kept = pair[0], twin_activations(tiny.plain, tiny.ids)
        for layer in range(LAYERS):
            for head in heads_of(run, site):
                expected = kept[layer, site][:, DIFFERS:, head or 0]
                assert largest(run.activation(site, layer, LATER, head), expected) < CLOSE

    @pytest.mark.parametrize(("layer", "first"), [(0, DIFFERS), (3, 17)])
    def test_what_a_block_computes_after_interventions(
        self, tiny: Any, pair: tuple[Recorded, Recorded], layer: int, first: int
    ) -> None:
        base, draw = pair[0], torch.Generator().manual_seed(5)
        sites = [site for site in Site if site not in (Site.RESIDUAL, Site.PATTERN)]

        def patch(site: Site, at: tuple[int, ...], head: int | None = None) -> Patch:
            value = torch.randn(2, len(at), size_of(tiny, site), generator=draw)
            return Patch(layer, site, at, head, value)

        rows: list[tuple[Intervention, ...]] = [
            (patch(Site.RESIDUAL, tuple(range(first, LENGTH))),),
            (patch(Site.RESIDUAL, (18,)), patch(Site.Q, (LAST,), 3), patch(Site.K, (18, LAST), 1)),
            (patch(Site.V, (first, LAST), 0), patch(Site.PATTERN, (18,), 2), patch(Site.MLP_OUT, (LAST,))),
            (patch(Site.Z, (18,), 1), Cut(layer, (18, LAST), (3, 16), 0), patch(Site.ATTN_OUT, (first,))),
            (Cut(layer, (LAST,), (16, 17), None, False),),
        ]
        found = block_activations(tiny.bridge, base, layer, rows, sites)
        for r, row in enumerate(rows):
            kept = twin_activations(tiny.plain, tiny.ids, row)
            for site in sites:
                assert largest(found[site][:, r], kept[layer, site][:, first:].flatten(2)) < CLOSE


class TestPatches:
    @pytest.mark.parametrize("positions", POSITIONS.values(), ids=list(POSITIONS))
    def test_from_the_source_run(self, tiny: Any, pair: tuple[Recorded, Recorded], positions: tuple[int, ...]) -> None:
        moved = differences(tiny, *pair, every(pair[0], positions))
        if positions == LATER:
            assert float(moved.min()) > MOVED

    @pytest.mark.parametrize("positions", POSITIONS.values(), ids=list(POSITIONS))
    def test_to_a_given_value(self, tiny: Any, pair: tuple[Recorded, Recorded], positions: tuple[int, ...]) -> None:
        base, draw, size = pair[0], torch.Generator().manual_seed(1), (2, len(positions))
        rows: list[Row] = []
        for i, patch in enumerate(every(base, positions)):
            random = torch.randn(*size, size_of(tiny, patch.site), generator=draw)
            zero = (i + len(positions)) % 3 == 0  # heads and blocks take turns
            value = torch.zeros(1) if zero else random * (0.3 if patch.site is Site.PATTERN else 1.0)
            rows.append(replace(patch, value=value))
        moved = differences(tiny, base, None, rows)
        if positions == LATER:
            assert float(moved.min()) > MOVED

    @pytest.mark.parametrize("site", Site)
    def test_a_value_broadcasts_to_batch_positions_and_size(self, tiny_model: Callable[[str], Any], site: Site) -> None:
        tiny = tiny_model("gemma2")
        base = record(tiny.bridge, tiny.ids, DIFFERS)
        size, draw = size_of(tiny, site), torch.Generator().manual_seed(2)
        rows = [
            Patch(1, site, at, 1 if site.by_head else None, torch.randn(shape, generator=draw) * 0.3)
            for at in ((LAST,), (16, 18), (9, 12, LAST))
            for n in [len(at)]
            for shape in ((1,), (size,), (n, 1), (n, size), (1, 1, 1), (2, 1, 1), (1, n, size), (2, 1, size))
        ]
        assert float(differences(tiny, base, None, rows).min()) > MOVED

    def test_only_the_source_need_have_recorded_the_site(self, tiny: Any, pair: tuple[Recorded, Recorded]) -> None:
        bare = record(tiny.bridge, tiny.ids, DIFFERS)
        assert float(differences(tiny, bare, pair[1], every(bare, LATER)[::3]).min()) > MOVED

    @pytest.mark.parametrize("start", [0, DIFFERS])
    def test_from_a_run_that_shares_no_token(self, tiny: Any, start: int) -> None:
        """Three prompts that part at token 7 and, as source, three that part from them and one another everywhere."""
        draw = torch.Generator().manual_seed(4)
        vocabulary = tiny.plain.config.vocab_size
        ids, others = (torch.randint(5, vocabulary, (3, LENGTH), generator=draw) for _ in range(2))
        ids[:, :DIFFERS], others[:, :DIFFERS] = ids[:1, :DIFFERS], others[:1, :DIFFERS]
        base, source = (record(tiny.bridge, x, start, sites=tuple(Site)) for x in (ids, others))
        rows: list[Row] = [
            *every(base, (start, 9))[::7],
            *every(base, (17, LAST))[1::7],
            Cut(1, (9, LAST), (3, 18), 2),
            Cut(0, (17, 18), (16,), None, False),
        ]
        assert float(differences(tiny, base, source, rows).max()) > MOVED


class TestCuts:
    @pytest.mark.parametrize("renormalise", [True, False])
    def test_queries_keys_heads_and_windows_of_blocks(
        self, tiny: Any, pair: tuple[Recorded, Recorded], renormalise: bool
    ) -> None:
        places = [(None, (0,)), (None, (1, 2, 3)), (0, (1,)), (1, (0, 1)), (2, (3,)), (3, (2,))]
        rows = [
            tuple(Cut(layer, queries, keys, head, renormalise) for layer in blocks)
            for queries in QUERIES.values()
            for keys in KEYS.values()
            for head, blocks in places
        ]
        moved = differences(tiny, pair[0], None, rows)
        seen = [all(17 in cut.keys and cut.queries == LATER for cut in row) for row in rows]
        assert float(moved[torch.tensor(seen)].min()) > MOVED

    def test_without_a_source_or_with_one_it_is_the_same(self, tiny: Any, pair: tuple[Recorded, Recorded]) -> None:
        rows = [Cut(2, (LAST,), (16,)), Cut(1, LATER, (DIFFERS,), 3, False)]
        with_one, without = (patched_logits(tiny.bridge, pair[0], run, rows, [5, 9]).logits for run in (pair[1], None))
        assert torch.equal(with_one, without)

    @pytest.mark.parametrize("head", range(HEADS))
    def test_what_the_cut_weights_become(self, tiny: Any, pair: tuple[Recorded, Recorded], head: int) -> None:
        """Cut before softmax, the others are divided by one minus what is cut, sink or none; after it, they stay."""
        keys, base = [3, 14, 16], pair[0]
        rows: list[Row] = []
        for layer in range(LAYERS):
            pattern = base.activation(Site.PATTERN, layer, (LAST,), head).clone()
            left = 1 - pattern[..., keys].sum(dim=-1, keepdim=True)
            pattern[..., keys] = 0.0
            rows += [
                Cut(layer, (LAST,), tuple(keys), head),
                Patch(layer, Site.PATTERN, (LAST,), head, pattern / left),
                Cut(layer, (LAST,), tuple(keys), head, renormalise=False),
                Patch(layer, Site.PATTERN, (LAST,), head, pattern),
            ]
        logits = patched_logits(tiny.bridge, base, None, rows, [5, 9, 200]).logits
        assert largest(logits[:, ::2], logits[:, 1::2]) < CLOSE
        assert float(by_row(logits[:, ::4] - logits[:, 2::4]).min()) > CLOSE * 10

    def test_a_key_that_no_query_reads_may_be_cut_to_no_effect(
        self, tiny: Any, pair: tuple[Recorded, Recorded]
    ) -> None:
        rows = [Cut(1, (DIFFERS, 16), (17, LAST), head, before) for head in (None, 2) for before in (True, False)]
        assert float(differences(tiny, pair[0], None, rows).max()) < CLOSE


def place(draw: np.random.Generator, low: int) -> tuple[int, ...]:
    count = draw.integers(1, 5)
    return tuple(sorted(int(p) for p in draw.choice(range(low, LENGTH), size=min(count, LENGTH - low), replace=False)))


def anything(tiny: Any, run: Recorded, draw: np.random.Generator, low: int) -> Intervention:
    layer, at = int(draw.integers(LAYERS)), place(draw, low)
    which = int(draw.integers(len(Site) + 2))
    if which >= len(Site):
        keys = tuple(int(k) for k in draw.choice(LENGTH, size=draw.integers(1, 3), replace=False))
        head = None if draw.random() < 0.3 else int(draw.integers(HEADS))
        return Cut(layer, at, keys, head, renormalise=which == len(Site))
    site = list(Site)[which]
    value = None
    if draw.random() < 0.5:
        value = torch.as_tensor(draw.normal(size=(2, len(at), size_of(tiny, site))) * 0.3, dtype=torch.float32)
    head = int(draw.integers(run.heads_at(site))) if site.by_head else None
    return Patch(layer, site, at, head, value)


class TestSeveralTogether:
    @pytest.mark.parametrize(("low", "seed"), [(DIFFERS, 0), (DIFFERS, 1), (15, 0), (16, 0), (16, 1), (LAST, 0)])
    def test_random_rows(self, tiny: Any, pair: tuple[Recorded, Recorded], low: int, seed: int) -> None:
        draw = generator(seed, "rows of interventions", tiny.family, low)
        rows = [tuple(anything(tiny, pair[0], draw, low) for _ in range(draw.integers(2, 7))) for _ in range(25)]
        moved = differences(tiny, *pair, rows)
        assert float(moved.median()) > MOVED * 10

    @pytest.mark.parametrize(("widest", "low"), [(0, 16), (0, LAST), (LENGTH, DIFFERS)])
    def test_rows_behind_or_beside_one_another(
        self, tiny: Any, pair: tuple[Recorded, Recorded], widest: int, low: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Narrow rows beside, wide ones behind one another: the other way round than they would lie."""
        monkeypatch.setattr(passes, "WIDEST_PACKED", widest)
        draw = generator(0, "layouts", tiny.family, low)
        rows: list[Row] = [tuple(anything(tiny, pair[0], draw, low) for _ in range(3)) for _ in range(10)]
        rows += every(pair[0], (low, LAST))[::5]
        assert float(differences(tiny, *pair, rows).median()) > MOVED

    def test_of_two_at_one_place_the_later_stands(self, tiny: Any, pair: tuple[Recorded, Recorded]) -> None:
        rows: list[Row] = []
        draw = torch.Generator().manual_seed(6)
        for site in Site:
            head = 1 if site.by_head else None
            values = torch.randn(2, 1, 2, size_of(tiny, site), generator=draw)
            one, other = (Patch(1, site, (12, LAST), head, value) for value in values)
            rows += [(one, other), other, (other, one), one]
        logits = patched_logits(tiny.bridge, pair[0], None, rows, [5, 9, 200]).logits
        assert largest(logits[:, ::2], logits[:, 1::2]) < CLOSE
        assert float(by_row(logits[:, ::4] - logits[:, 2::4]).min()) > MOVED


class TestIdentities:
    def test_a_run_patched_with_itself_is_the_baseline(self, tiny: Any, pair: tuple[Recorded, Recorded]) -> None:
        base = pair[0]
        rows: list[Row] = [*every(base, (8, LAST))[::2], *every(base, (18,))[1::2]]
        rows += [tuple(every(base, LATER)), tuple(every(base, (17, LAST)))]
        logits = patched_logits(tiny.bridge, base, base, rows, [5, 9, 200]).logits
        assert largest(logits, base.logits[:, None, [5, 9, 200]].expand_as(logits)) < CLOSE

    def test_everything_from_the_other_run_is_the_other_run(self, tiny: Any, pair: tuple[Recorded, Recorded]) -> None:
        base, source = pair
        outputs = [one for layer in range(LAYERS) for one in everything_at(base, layer, [Site.ATTN_OUT, Site.MLP_OUT])]
        heads = [one for layer in range(LAYERS) for one in everything_at(base, layer, [Site.Z, Site.MLP_OUT])]
        stream = Patch(0, Site.RESIDUAL, LATER)
        rows: list[Row] = [stream, (*outputs, stream), (*heads, stream), tuple(every(base, LATER))]
        logits = patched_logits(tiny.bridge, base, source, rows, [5, 9, 200]).logits
        assert largest(logits, source.logits[:, None, [5, 9, 200]].expand_as(logits)) < CLOSE
        assert largest(base.logits, source.logits) > 1e-2

    @pytest.mark.parametrize("layer", range(LAYERS))
    def test_every_way_to_exchange_attention_is_the_same(
        self, tiny: Any, pair: tuple[Recorded, Recorded], layer: int
    ) -> None:
        """The heads' outputs; patterns and values; queries, keys and values; what attention adds."""
        sites = [[Site.ATTN_OUT], [Site.Z], [Site.PATTERN, Site.V], [Site.Q, Site.K, Site.V]]
        rows = [everything_at(pair[0], layer, some) for some in sites]
        logits = patched_logits(tiny.bridge, *pair, rows, [5, 9, 200]).logits
        assert largest(logits[:, 1:], logits[:, :1].expand(-1, 3, -1)) < CLOSE
        assert largest(logits[:, 0], pair[0].logits[:, [5, 9, 200]]) > MOVED


class TestPaddedAtTheLeft:
    """In a batch with longer ones, each prompt is as the twin has it alone."""

    @pytest.mark.parametrize("positions", [(17, LAST), LATER])
    def test_patches(self, tiny: Any, together: Recorded, positions: tuple[int, ...]) -> None:
        def rows(shift: int) -> list[Row]:
            at = tuple(p - shift for p in positions)
            given = (
                Patch(2, Site.K, at, 1, torch.full((1, 1, 1), 0.25)),
                Patch(1, Site.MLP_OUT, at, value=torch.zeros(1)),
            )
            return [*every(together, at)[::3], *given]

        self.compare(tiny, together, rows)

    @pytest.mark.parametrize("renormalise", [True, False])
    def test_cuts(self, tiny: Any, together: Recorded, renormalise: bool) -> None:
        def rows(shift: int) -> list[Row]:
            def at(positions: tuple[int, ...]) -> tuple[int, ...]:
                return tuple(p - shift for p in positions if p >= shift)  # what was padding is not there alone

            return [
                Cut(layer, at(queries), at(keys), head, renormalise)
                for layer, head in ((0, None), (1, 0), (2, 3), (3, None))
                for queries in ((LAST,), (17, 18, LAST), LATER)
                for keys in ((2, 3, 6), (3, 12, 16))
            ]

        self.compare(tiny, together, rows)

    def compare(self, tiny: Any, together: Recorded, rows: Callable[[int], list[Row]]) -> None:
        tokens = range(tiny.plain.config.vocab_size)
        swapped = together.take([1, 0, 3, 2])
        ours = patched_logits(tiny.bridge, together, swapped, rows(0), tokens).logits
        alone = [twin_logits(tiny.plain, x, x.flip(0), rows(s)) for x, s in ((tiny.ids, 0), (tiny.ids[:, PAD:], PAD))]
        assert largest(ours, torch.cat(alone)) < CLOSE
        assert float(by_row((ours - together.logits[:, None])[2:]).max()) > MOVED

    def test_a_cut_that_leaves_only_padding_is_refused(self, tiny: Any, together: Recorded) -> None:
        # Of the short prompts, query 8 sees 5 to 8; of the long ones it sees more.
        with pytest.raises(ValueError, match="nothing left to attend to"):
            patched_logits(tiny.bridge, together, None, [Cut(1, (8,), (5, 6, 7, 8))], [5])


def fingerprint(bridge: Any) -> dict[str, Any]:
    """Weights by their bytes, and every hook and attribute of every module."""
    digest = hashlib.sha256()
    for name, tensor in bridge.state_dict().items():
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    modules = list(bridge.named_modules())
    return {
        "weights": digest.hexdigest(),
        "hooks": [(n, len(m._forward_pre_hooks), len(m._forward_hooks)) for n, m in modules],
        "points": [n for n, point in bridge.hook_dict.items() if point.fwd_hooks or point.bwd_hooks],
        "attributes": [(n, sorted(vars(m))) for n, m in modules],
    }


def bytes_of(run: Recorded) -> list[bytes]:
    kept = [run.ids, run.positions, run.final_residual, run.logits]
    for of_blocks in (run.keys, run.values, run.visible, run.residual, run.z, run.pattern, *run.more.values()):
        kept += of_blocks
    return [tensor.contiguous().numpy().tobytes() for tensor in kept]


class TestAllIsLeftAsItWas:
    def test_after_patches_and_cuts(self, tiny: Any) -> None:
        before = fingerprint(tiny.bridge)
        logits = tiny.bridge.original_model(tiny.ids).logits
        base = record(tiny.bridge, tiny.ids, DIFFERS, sites=tuple(Site))
        source = base.take([1, 0])
        recorded = bytes_of(base), bytes_of(source)
        value = torch.full((1, 1, 1), 0.25)
        rows: list[Row] = [*every(base, LATER)[::4], *every(base, (LAST,), value)[::4]]
        rows += [Cut(1, LATER, (3, 12)), (Cut(2, (LAST,), (16,), 1, False), Patch(3, Site.PATTERN, (LAST,), 2))]
        patched_logits(tiny.bridge, base, source, rows, [5, 9])
        for alone in every(base, (LAST,), value)[::17]:
            patched_logits(tiny.bridge, base, None, [alone], [5, 9])
        block_activations(tiny.bridge, base, 2, [Patch(2, Site.RESIDUAL, (9,), value=value)], [Site.Q])
        assert (bytes_of(base), bytes_of(source)) == recorded
        assert torch.equal(value, torch.full((1, 1, 1), 0.25))
        assert fingerprint(tiny.bridge) == before
        assert before["points"] == []
        assert torch.equal(tiny.bridge.original_model(tiny.ids).logits, logits)

    def test_after_a_refusal_in_the_middle_of_a_pass(self, tiny: Any) -> None:
        base = record(tiny.bridge, tiny.ids, DIFFERS)
        before = fingerprint(tiny.bridge)
        rows = [Cut(0, (LAST,), (16,)), Patch(2, Site.MLP_OUT, (LAST,))]
        with pytest.raises(ValueError, match="mlp_out was not recorded"):
            patched_logits(tiny.bridge, base, base.take([1, 0]), rows, [5])
        assert fingerprint(tiny.bridge) == before


REFUSED_OF_LLAMA = {
    "a block beyond the last": (Patch(4, Site.Q, (9,), 0), r"layer 4 is not there: the model has blocks 0 to 3"),
    "a block before the first": (Cut(-1, (9,), (3,)), r"layer -1 is not there: the model has blocks 0 to 3"),
    "a block for a cut": (Cut(4, (9,), (3,)), r"layer 4 is not there: the model has blocks 0 to 3"),
    "a query head": (Patch(1, Site.Q, (9,), 4), r"^head 4 is not there: block 1 has 0 to 3"),
    "a pattern's head": (Patch(1, Site.PATTERN, (9,), -1), r"^head -1 is not there: block 1 has 0 to 3"),
    "a cut's head": (Cut(1, (9,), (3,), 4), r"^head 4 is not there: block 1 has 0 to 3"),
    "a key head": (Patch(1, Site.K, (9,), 2), r"key-value head 2 is not there: block 1 has 0 to 1"),
    "a value head": (Patch(1, Site.V, (9,), 3), r"key-value head 3 is not there: block 1 has 0 to 1"),
    "no head": (Patch(1, Site.V, (9,)), r"v is of a head: head None"),
    "a head of the whole": (Patch(1, Site.MLP_OUT, (9,), 0), r"mlp_out is not of a head: head 0"),
    "no position": (Patch(1, Site.ATTN_OUT, ()), r"no position is given for attn_out of block 1"),
    "no query": (Cut(1, (), (3,)), r"a cut needs queries and keys"),
    "no key": (Cut(1, (9,), ()), r"a cut needs queries and keys"),
    "a position before the start": (Patch(1, Site.K, (6, 9), 0), r"positions 6 to 9 lie outside 7 to 19"),
    "a query before the start": (Cut(1, (6,), (3,)), r"positions 6 to 6 lie outside 7 to 19"),
    "a query behind the end": (Cut(1, (9, 20), (3,)), r"positions 9 to 20 lie outside 7 to 19"),
    "a key behind the end": (Cut(1, (9,), (3, 20)), r"keys 3 to 20 lie outside a prompt of 20 tokens"),
    "a key before the first": (Cut(1, (9,), (-1,)), r"keys -1 to -1 lie outside a prompt of 20 tokens"),
    "no value and no source": (Patch(1, Site.Q, (9,), 0), r"q of block 1 has neither a value nor a source run"),
    "nothing left": (Cut(1, (9, 12), tuple(range(10))), r"block 1: a query of \[9\] would have nothing left"),
    "nothing left of a head": (Cut(1, (9,), tuple(range(10)), 2), r"block 1: a query of \[9\] would have nothing"),
    "nothing left after softmax": (Cut(1, (9,), tuple(range(10)), None, False), r"would have nothing left"),
}


class TestRefused:
    @pytest.mark.parametrize(("one", "message"), REFUSED_OF_LLAMA.values(), ids=list(REFUSED_OF_LLAMA))
    def test_by_llama(self, tiny_model: Callable[[str], Any], one: Intervention, message: str) -> None:
        tiny = tiny_model("llama")
        base = record(tiny.bridge, tiny.ids, DIFFERS)
        sound = Patch(2, Site.Z, (9,), 0, torch.zeros(1))
        for row in (one, (sound, one)):
            with pytest.raises(ValueError, match=message):
                patched_logits(tiny.bridge, base, None, [sound, row], [5])

    @pytest.mark.parametrize("site", [Site.ATTN_OUT, Site.MLP_OUT, Site.Q, Site.K, Site.V, Site.PATTERN])
    def test_a_site_that_was_not_recorded(self, tiny_model: Callable[[str], Any], site: Site) -> None:
        tiny = tiny_model("llama")
        others = [other for other in Site if other is not site]
        base = record(tiny.bridge, tiny.ids, DIFFERS, sites=others)
        with pytest.raises(ValueError, match=rf"{site} was not recorded: give it in `sites`"):
            patched_logits(tiny.bridge, base, base, [Patch(1, site, (9,), 0 if site.by_head else None)], [5])

    def test_key_value_heads_where_each_head_has_its_own(self, tiny_model: Callable[[str], Any]) -> None:
        tiny = tiny_model("gpt2")
        base = record(tiny.bridge, tiny.ids, DIFFERS)
        zeros = torch.zeros(1)
        patched_logits(tiny.bridge, base, None, [Patch(1, Site.K, (9,), 3, zeros)], [5])
        with pytest.raises(ValueError, match=r"key-value head 4 is not there: block 1 has 0 to 3"):
            patched_logits(tiny.bridge, base, None, [Patch(1, Site.K, (9,), 4, zeros)], [5])

    def test_what_is_left_depends_on_the_blocks_window(self, tiny_model: Callable[[str], Any]) -> None:
        tiny = tiny_model("gemma2")
        base = record(tiny.bridge, tiny.ids, DIFFERS)
        in_reach = tuple(range(14, LENGTH))
        assert float(differences(tiny, base, None, [Cut(1, (LAST,), in_reach)]).min()) > MOVED
        with pytest.raises(ValueError, match=r"block 2: a query of \[19\] would have nothing left"):
            patched_logits(tiny.bridge, base, None, [Cut(2, (LAST,), in_reach)], [5])

    @pytest.mark.parametrize("head", [None, 1])
    def test_cuts_of_one_row_that_together_leave_nothing(
        self, tiny_model: Callable[[str], Any], head: int | None
    ) -> None:
        tiny = tiny_model("llama")
        base = record(tiny.bridge, tiny.ids, DIFFERS)
        halves = Cut(1, (LAST,), tuple(range(10))), Cut(1, (18, LAST), tuple(range(10, LENGTH)), head)
        with pytest.raises(ValueError, match="nothing left to attend to"):
            patched_logits(tiny.bridge, base, None, [halves], [5])

    def test_cuts_of_one_row_that_leave_something_to_each(self, tiny_model: Callable[[str], Any]) -> None:
        tiny = tiny_model("llama")
        base = record(tiny.bridge, tiny.ids, DIFFERS)
        early, late = tuple(range(10)), tuple(range(10, LENGTH))
        rows: list[Row] = [
            (Cut(1, (LAST,), early, 0), Cut(1, (LAST,), late, 1)),  # heads of their own
            (Cut(1, (18,), early), Cut(1, (LAST,), late)),  # queries of their own
            (Cut(1, (LAST,), early), Cut(2, (LAST,), late)),  # blocks of their own
        ]
        assert float(differences(tiny, base, None, rows).min()) > MOVED

    def test_a_place_is_checked_without_a_model(self) -> None:
        check_place(Patch(29, Site.Z, (91,), 8), layers=30, heads=9, key_value_heads=3)
        with pytest.raises(ValueError, match=r"layer 30 is not there: the model has blocks 0 to 29"):
            check_place(Patch(30, Site.Z, (91,), 0), layers=30, heads=9, key_value_heads=3)
        with pytest.raises(ValueError, match=r"key-value head 3 is not there: block 29 has 0 to 2"):
            check_place(Patch(29, Site.K, (91,), 3), layers=30, heads=9, key_value_heads=3)
