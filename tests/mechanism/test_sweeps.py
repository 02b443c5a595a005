"""Cells of sweeps, counted and named by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from referent_probe.errors import OptionError
from referent_probe.mechanism.places import BEFORE_THE_PRIME
from referent_probe.mechanism.sweeps import (
    CONTROLS,
    CUTS,
    Shape,
    ablation_cells,
    head_name,
    hidden,
    joint_cells,
    knockout_cells,
    parse_heads,
    patch_cells,
    windows,
)
from referent_probe.models.interventions import Cut, Patch, Site
from referent_probe.stimuli.primes import Span

SHAPE = Shape(layers=3, heads=4, key_value_heads=2)
SPANS = (
    Span.INSTRUCTION, Span.PRIME_REST, Span.PRIME_OWNER, Span.PRIMING_PRONOUN, Span.PRIME_AFTER_PRONOUN,
    Span.PRIME_AFTER_PRONOUN, Span.OTHER_REFERENT, Span.BLANK, Span.PREFILL, Span.TARGET_SLOT,
)  # fmt: skip


def contrast_of(spans: tuple[Span, ...] = SPANS) -> Any:
    def positions(span: Span) -> tuple[int, ...]:
        return tuple(i for i, one in enumerate(spans) if one is span)

    prompt = SimpleNamespace(spans=spans, positions=positions)
    (pronoun,) = positions(Span.PRIMING_PRONOUN)
    return SimpleNamespace(id="001a-mf", feminine=prompt, length=len(spans), first_difference=pronoun)


@pytest.fixture(scope="module")
def contrast() -> Any:
    """Ten tokens: prime at 1 to 5, pronoun at 3, other referent at 6, target slot at 9."""
    return contrast_of()


class TestPatches:
    def test_heads(self, contrast: Any) -> None:
        cells = patch_cells(contrast, SHAPE, Site.Z, "target-slot")
        assert [(c.layer, c.head) for c in cells] == [(layer, head) for layer in range(3) for head in range(4)]
        assert [(one.layer, one.site, one.positions, one.head) for c in cells for one in c.row] == [
            (layer, Site.Z, (9,), head) for layer in range(3) for head in range(4)
        ]
        assert {(c.kind, c.what, c.where, c.label, c.reason) for c in cells} == {
            ("patch", "z", "target-slot", "", None)
        }
        assert all(c.last_layer == c.layer for c in cells)

    def test_key_value_heads_serve_groups_of_query_heads(self, contrast: Any) -> None:
        for site in (Site.K, Site.V):
            cells = patch_cells(contrast, SHAPE, site, "all")
            assert [(c.layer, c.head) for c in cells] == [(layer, head) for layer in range(3) for head in range(2)]
            assert [c.label for c in cells[:2]] == ["serves query heads 0 to 1", "serves query heads 2 to 3"]
            some = patch_cells(contrast, SHAPE, site, "all", [(2, 3), (0, 1), (2, 2)])
            assert [(c.layer, c.head) for c in some] == [(2, 1), (0, 0)]
        ungrouped = patch_cells(contrast, Shape(3, 4, 4), Site.K, "all")
        assert {c.label for c in ungrouped} == {""}

    def test_whole_blocks(self, contrast: Any) -> None:
        for site in (Site.RESIDUAL, Site.ATTN_OUT, Site.MLP_OUT):
            cells = patch_cells(contrast, SHAPE, site, "each-span")
            assert len(cells) == 3 * 9
            assert {c.head for c in cells} == {-1}
            assert all(one.head is None for c in cells for one in c.row)
            some = patch_cells(contrast, SHAPE, site, "target-slot", [(2, 3), (0, 0), (2, 1)])
            assert [c.layer for c in some] == [0, 2]

    def test_what_lies_before_the_prime_is_not_computed(self, contrast: Any) -> None:
        cells = patch_cells(contrast, SHAPE, Site.RESIDUAL, "each-span")
        before = [c for c in cells if c.reason]
        assert {c.where for c in before} == {"instruction", "prime-rest", "prime-owner"}
        assert {(c.row, c.reason) for c in before} == {((), BEFORE_THE_PRIME)}
        positions = {c.where: c.row[0].positions for c in cells if c.row and isinstance(c.row[0], Patch)}
        assert positions["prime-after-pronoun"] == (4, 5)

    def test_a_place_on_both_sides_is_patched_from_the_pronoun_on(self) -> None:
        both = contrast_of((Span.FORMAT, Span.PRIMING_PRONOUN, Span.FORMAT, Span.TARGET_SLOT))
        (cell,) = patch_cells(both, Shape(1, 1, 1), Site.RESIDUAL, "format")
        assert cell.row[0].first == cell.row[0].last == 2


class TestKnockouts:
    def test_what_is_hidden(self, contrast: Any) -> None:
        assert dict(hidden(contrast)) == {
            "priming pronoun": (3,),
            "whole prime": (1, 2, 3, 4, 5),
            "prime after the pronoun": (4, 5),
            "token before the pronoun": (2,),
            "other referent": (6,),
            "first token": (0,),
        }
        assert list(hidden(contrast)) == [*CUTS, *CONTROLS]

    def test_windows(self) -> None:
        assert windows(3, 1) == [(0, 0), (1, 1), (2, 2), (0, 2)]
        assert windows(3, 2) == [(0, 1), (1, 2), (0, 2)]
        assert windows(3, 3) == [(0, 2)]
        assert windows(1, 1) == [(0, 0)]

    def test_cells_of_every_cut_mode_and_window(self, contrast: Any) -> None:
        cells = knockout_cells(contrast, SHAPE, 2, ("before", "after"))
        assert len(cells) == 6 * 2 * 3
        assert {(c.kind, c.head, c.where, c.reason) for c in cells} == {("knockout", -1, "target-slot", None)}
        (one,) = (c for c in cells if (c.label, c.what, c.layer, c.last_layer) == ("whole prime", "after", 1, 2))
        assert one.row == tuple(Cut(layer, (9,), (1, 2, 3, 4, 5), None, renormalise=False) for layer in (1, 2))
        assert all(cut.renormalise == (c.what == "before") for c in cells for cut in c.row if isinstance(cut, Cut))

    def test_later_tokens_are_all_behind_the_prime(self, contrast: Any) -> None:
        cells = {c.label: c.row for c in knockout_cells(contrast, SHAPE, 3, ("before",), "later")}
        assert cells["priming pronoun"] == tuple(Cut(layer, (6, 7, 8, 9), (3,)) for layer in range(3))
        # The other referent itself, at 6, keeps its own attention; those behind it lose it.
        assert cells["other referent"] == tuple(Cut(layer, (7, 8, 9), (6,)) for layer in range(3))

    def test_a_query_within_what_is_hidden_loses_what_stands_before_it(self) -> None:
        spans = (Span.PRIMING_PRONOUN, Span.OTHER_REFERENT, Span.OTHER_REFERENT, Span.BLANK, Span.TARGET_SLOT)
        cells = {c.label: c for c in knockout_cells(contrast_of(spans), Shape(1, 1, 1), 1, ("before",), "later")}
        assert set(cells["other referent"].row) == {Cut(0, (3, 4), (1, 2)), Cut(0, (2,), (1,))}
        nothing = cells["token before the pronoun"]  # it stands first
        assert (nothing.row, nothing.reason) == ((), "the prompt has no such token")

    def test_named_heads_are_cut_in_all_their_blocks_at_once(self, contrast: Any) -> None:
        cells = knockout_cells(contrast, SHAPE, 1, ("before",), heads=[(0, 1), (2, 3)])
        assert len(cells) == 6
        assert {(c.layer, c.last_layer) for c in cells} == {(0, 2)}
        assert cells[0].row == (Cut(0, (9,), (3,), 1), Cut(2, (9,), (3,), 3))


class TestSetsOfHeads:
    def test_ablations(self, contrast: Any) -> None:
        sets = {"1.2": ((1, 2),), "together": ((1, 2), (2, 0))}
        cells = ablation_cells(contrast, ("zero", "mean"), sets)
        assert [(c.what, c.label, c.layer, c.last_layer, c.head) for c in cells] == [
            (kind, *rest) for kind in ("zero", "mean") for rest in (("1.2", 1, 1, 2), ("together", 1, 2, -1))
        ]
        assert [(one.layer, one.head, one.first) for one in cells[1].row] == [(1, 2, 9), (2, 0, 9)]

    def test_joint(self, contrast: Any) -> None:
        cells = joint_cells(contrast, {"": (), "0.0 2.1": ((0, 0), (2, 1))}, "circuit")
        assert [(c.label, c.reason, len(c.row)) for c in cells] == [("", "no head is patched", 0), ("0.0 2.1", None, 2)]
        assert (cells[1].layer, cells[1].last_layer, cells[1].head) == (0, 2, -1)


def test_heads_that_are_there() -> None:
    assert len(parse_heads("all", SHAPE)) == len(set(parse_heads(" all", SHAPE))) == 12
    assert parse_heads("2.3, 0.0,2.3", SHAPE) == ((2, 3), (0, 0))
    for missing in ("3.0", "0.4", "0.0,99.1"):
        with pytest.raises(
            OptionError, match=r"head \d+\.\d is not there: the model has layers 0 to 2 with heads 0 to 3"
        ):
            parse_heads(missing, SHAPE)
    assert [head_name(head) for head in parse_heads("2.3,0.0", SHAPE)] == ["2.3", "0.0"]
    assert (SHAPE.heads_at(Site.V), SHAPE.heads_at(Site.Z), SHAPE.heads_at(Site.PATTERN)) == (2, 4, 4)
