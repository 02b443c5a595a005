import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from referent_probe.errors import PromptError
from referent_probe.measurement.answer import answer_probabilities
from referent_probe.measurement.choice import next_token_choice
from referent_probe.measurement.readings import own_tokens, readings
from referent_probe.measurement.warp import SamplingSettings
from referent_probe.stimuli.options import FORMS, Case, Forms

SHE = FORMS[Case.NOMINATIVE]
PLAIN = SamplingSettings(1.0, None, 3)


def logits_after(small: Any, *tokens: int) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = small.plain(torch.tensor([[*small.prompt.ids, *tokens]])).logits[0, -1]
    return logits


@pytest.fixture
def small(small_model: Callable[..., Any]) -> Any:
    """A prompt whose tokens are those that the tokenizer gives its text."""
    import dataclasses

    from tests.measurement.small_models import encoded

    model = small_model("byte-level")
    tokenizer = model.loaded.tokenizer
    ids = tokenizer('his him "', add_special_tokens=True)["input_ids"]
    return dataclasses.replace(model, prompt=encoded(tokenizer, ids))


def test_next_token_is_the_choice(small: Any) -> None:
    found = readings(small.loaded, small.prompt, SHE, PLAIN)
    ids = [small.loaded.tokenizer.convert_tokens_to_ids(form) for form in ("she", "he", "they")]
    choice = next_token_choice(logits_after(small).numpy(), *ids)
    assert found.next_token is not None
    assert found.next_token.p_feminine == pytest.approx(choice.p_feminine, abs=1e-6)
    assert found.next_token.p_masculine == pytest.approx(choice.p_masculine, abs=1e-6)
    assert found.next_token.p_they == pytest.approx(choice.p_they, abs=1e-6)
    assert found.teacher_forced == found.next_token
    assert found.whole_answer == answer_probabilities(small.loaded, [small.prompt], SHE, PLAIN)[0]


def test_an_option_of_several_tokens_is_followed(small: Any) -> None:
    forms = Forms("tim", "he", "mere")
    found = readings(small.loaded, small.prompt, forms, PLAIN)
    assert found.next_token is None
    ids = own_tokens(small.prompt, "tim", small.loaded.tokenizer)
    assert ids is not None
    assert len(ids) == 3
    expected = math.prod(float(logits_after(small, *ids[:i]).double().softmax(-1)[ids[i]]) for i in range(3))
    assert found.teacher_forced is not None
    assert found.teacher_forced.p_feminine == pytest.approx(expected, rel=1e-4)
    assert found.largest_difference == pytest.approx(
        abs(found.teacher_forced.share_feminine - found.whole_answer.share_feminine)
    )


def test_agreement_is_the_largest_difference_against_the_margin(small: Any) -> None:
    found = readings(small.loaded, small.prompt, SHE, PLAIN, margin=0.0)
    assert found.next_token is not None
    assert found.largest_difference == pytest.approx(
        abs(found.next_token.share_feminine - found.whole_answer.share_feminine)
    )
    assert found.largest_difference > 0
    assert not found.agree
    assert readings(small.loaded, small.prompt, SHE, PLAIN, margin=1.0).agree


def test_he_as_the_beginning_of_her_makes_the_readings_differ(small: Any) -> None:
    """The masculine option here is "he", which "her" and "herm" begin with too."""
    forms = Forms("her", "he", "them")
    found = readings(small.loaded, small.prompt, forms, PLAIN)
    assert found.teacher_forced is not None
    assert found.whole_answer.p_masculine != pytest.approx(found.teacher_forced.p_masculine, rel=0.05)


def test_tokens_that_join_with_the_prompts_end_give_no_reading(small: Any) -> None:
    import dataclasses

    from tests.measurement.small_models import encoded

    tokenizer = small.loaded.tokenizer
    ends_in_s = encoded(tokenizer, tokenizer("him s", add_special_tokens=True)["input_ids"])
    assert own_tokens(ends_in_s, "he", tokenizer) is None
    found = readings(small.loaded, ends_in_s, SHE, PLAIN)
    assert found.next_token is None
    assert found.teacher_forced is None
    assert math.isnan(found.largest_difference)
    assert not found.agree
    assert dataclasses.replace(found, largest_difference=0.0).agree


def test_no_option_in_the_top_k_gives_no_share(small: Any) -> None:
    order = logits_after(small).argsort(descending=True).tolist()
    best = small.loaded.tokenizer.convert_ids_to_tokens(order[0])
    assert best not in ("she", "he")
    found = readings(small.loaded, small.prompt, SHE, SamplingSettings(1.0, 1, 1))
    assert found.next_token is not None
    assert math.isnan(found.next_token.share_feminine)
    assert not found.agree


def test_unreadable_forms_are_refused(small: Any) -> None:
    with pytest.raises(PromptError, match="masculine form ''"):
        readings(small.loaded, small.prompt, Forms("she", "", "they"))


@pytest.mark.slow
def test_on_the_embedded_model_the_readings_agree() -> None:
    import time

    from referent_probe.models.load import load_model
    from referent_probe.models.tokens import encode
    from referent_probe.stimuli.options import OptionOrder
    from referent_probe.stimuli.primes import ContextSetting
    from referent_probe.stimuli.prompts import choice_prompt
    from referent_probe.stimuli.templates import load_stimuli

    model = load_model(device="cpu")
    by_case = {pair.case: pair for pair in load_stimuli().pairs}
    for case, pair in by_case.items():
        template = pair.members[0]
        for setting in (ContextSetting.CF, ContextSetting.CM):
            prompt = encode(
                choice_prompt(template, pair.partner(template), setting, OptionOrder.MASCULINE_FIRST), model.tokenizer
            )
            begin = time.perf_counter()
            found = readings(model, prompt, FORMS[case])
            print(f"{template.id} {setting} {time.perf_counter() - begin:.2f} s: {found}")
            assert found.agree
            assert found.next_token is not None
            assert found.largest_difference < 0.01
            assert found.whole_answer.unexplored < 1e-6
            whole = found.whole_answer
            assert whole.p_feminine + whole.p_masculine + whole.p_they + whole.p_other == pytest.approx(1, abs=1e-12)
            assert whole.p_other < 0.2
