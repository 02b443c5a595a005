"""Places and heads as users write them."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from referent_probe.errors import OptionError, PromptError
from referent_probe.mechanism.places import check_where, places, reached, read_heads
from referent_probe.stimuli.primes import Span

SPANS = (
    Span.INSTRUCTION, Span.PRIME_OWNER, Span.PRIMING_PRONOUN, Span.PRIME_AFTER_PRONOUN, Span.PRIME_AFTER_PRONOUN,
    Span.ANTECEDENT, Span.TARGET_REST, Span.BLANK, Span.TARGET_REST, Span.TARGET_SLOT,
)  # fmt: skip


@pytest.fixture(scope="module")
def contrast() -> Any:
    """Ten tokens by hand; the pronoun is the third, and a span has a gap."""

    def positions(span: Span) -> tuple[int, ...]:
        return tuple(i for i, one in enumerate(SPANS) if one is span)

    prompt = SimpleNamespace(spans=SPANS, positions=positions)
    return SimpleNamespace(id="001a-mf", feminine=prompt, length=10, first_difference=2)


def test_spans(contrast: Any) -> None:
    assert places(contrast, "target-slot") == {"target-slot": (9,)}
    assert places(contrast, "prime-after-pronoun") == {"prime-after-pronoun": (3, 4)}
    assert places(contrast, "target-rest") == {"target-rest": (6, 8)}
    assert places(contrast, "instruction") == {"instruction": (0,)}


def test_several_places(contrast: Any) -> None:
    assert places(contrast, "all") == {"all": (2, 3, 4, 5, 6, 7, 8, 9)}
    assert places(contrast, "each-position") == {str(i): (i,) for i in range(2, 10)}
    each = places(contrast, "each-span")
    assert list(each) == [
        "instruction", "prime-owner", "priming-pronoun", "prime-after-pronoun", "antecedent", "target-rest", "blank",
        "target-slot",
    ]  # fmt: skip
    assert sorted(i for positions in each.values() for i in positions) == list(range(10))


def test_positions_count_from_either_end(contrast: Any) -> None:
    assert places(contrast, "0") == {"0": (0,)}
    assert places(contrast, "9") == {"9": (9,)}
    assert places(contrast, "-1") == {"-1": (9,)}
    assert places(contrast, "-10") == {"-10": (0,)}
    for outside in ("10", "-11", "500"):
        with pytest.raises(PromptError) as error:
            places(contrast, outside)
        assert str(error.value) == (
            f"the prompt of 001a-mf has no position {outside}: its 10 tokens are 0 to 9, or -10 to -1 from the end"
        )


def test_a_span_that_the_prompt_lacks(contrast: Any) -> None:
    with pytest.raises(PromptError) as error:
        places(contrast, "prefill")
    assert str(error.value) == (
        "the prompt of 001a-mf has no span 'prefill'; it has instruction, prime-owner, priming-pronoun, "
        "prime-after-pronoun, antecedent, target-rest, blank, target-slot; give one of these with --where"
    )


def test_what_the_prime_reaches(contrast: Any) -> None:
    assert reached(contrast, (0, 1)) == ()
    assert reached(contrast, (1, 2, 5)) == (2, 5)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("target_slot", "target-slot"),
        (" Target-Slot ", "target-slot"),
        ("priming_pronoun", "priming-pronoun"),
        ("ALL", "all"),
        ("each_span", "each-span"),
        ("-1", "-1"),
        ("+5", "5"),
        ("007", "7"),
    ],
)
def test_names_are_forgiving(written: str, meant: str) -> None:
    assert check_where(written) == meant


def test_every_span_has_a_name() -> None:
    assert [check_where(str(span)) for span in Span] == [str(span).replace("_", "-") for span in Span]


@pytest.mark.parametrize("where", ["", "nonsense", "1.5", "target slot", "1,2", "0x3", "9" * 5000])
def test_no_places(where: str) -> None:
    with pytest.raises(OptionError, match=r"--where '.*' names no place: give target-slot, another span \(") as error:
        check_where(where)
    assert len(str(error.value)) < 500


def test_heads() -> None:
    assert read_heads("all") is read_heads(" all ") is None
    assert read_heads("20.3") == ((20, 3),)
    assert read_heads("20.3, 4.0,20.3 , 0.12") == ((20, 3), (4, 0), (0, 12))  # in the order given, each once


@pytest.mark.parametrize("text", ["", ",", "20", "20.", ".3", "20.3.1", "-1.0", "1.0;2.0", "a.b", "1.0,", "٣.0", "All"])
def test_no_heads(text: str) -> None:
    with pytest.raises(OptionError, match=r"'.*' names no head: write LAYER.HEAD, as in 20.3,26.0"):
        read_heads(text)


def test_it_needs_no_torch() -> None:
    """So that a slip is refused at once."""
    code = "import sys, referent_probe.mechanism.places; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
