import doctest
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.measurement.small_models import encoded, parse

from referent_probe.errors import ModelError, OptionError, PromptError
from referent_probe.measurement import answer as module
from referent_probe.measurement.answer import Answer, answer_probabilities, answers_behind, next_tokens, whole_answers
from referent_probe.measurement.spelling import Reader, Vocabulary
from referent_probe.measurement.warp import Likely, SamplingSettings, likely, resolve_settings, warp
from referent_probe.models.reading import read
from referent_probe.stimuli.options import FORMS, Case, Forms

SHE, HER, HIS = (FORMS[case] for case in Case)
WORDS = [b"she", b"he", b"r", b"s", b"h", b"e", b"hi", b"m", b"them", b" ", b" he", b"t", b"hey", b".", b"'s", b"!"]
WORDS += [
    b"\xc3",
    b"\xa9",
    b"\x97",
    b"",
    b"He",
    b"R",
    b"x",
    b"\xef\xbf\xbd",
    b"s.",
    b"\xc3\xa9",
    b"they",
    b"im",
    b"eir",
]
EOS = (13, 15)
"""Tokens of `WORDS` that end an answer; the others' text counts."""


def events(answer: Answer) -> tuple[float, float, float, float]:
    return answer.p_feminine, answer.p_masculine, answer.p_they, answer.p_other


def event(word: str, forms: Forms) -> int:
    return {forms.feminine: 0, forms.masculine: 1, forms.they: 2}.get(word, 3)


def planted(paths: Sequence[tuple[int, ...]], size: int = len(WORDS), kept: int | None = None) -> NDArray[np.float64]:
    """Next-token probabilities that depend on the whole path; with `kept`, only so many are not 0."""
    rows = []
    for path in paths:
        row = np.random.default_rng([7, *path]).exponential(size=size) ** 2
        if kept is not None:
            row[np.argsort(row)[:-kept]] = 0
        rows.append(row / row.sum())
    return np.array(rows)


def whole_answer(following: Callable[..., Any], reader: Reader, limit: int, threshold: float = 1e-9) -> Answer:
    """The tree of one prompt, from a model that gives whole rows."""

    def next_tokens(prompts: Sequence[int], paths: Sequence[tuple[int, ...]]) -> list[Likely]:
        assert set(prompts) == {0}
        return [Likely(np.flatnonzero(row), row[row > 0][None]) for row in np.asarray(following(paths))]

    [[answer]] = whole_answers(next_tokens, [reader], limit, threshold)
    return answer


def listed(following: Callable[..., Any], limit: int, forms: Forms, kept: int | None = None) -> list[float]:
    """All sequences, one by one: the text of each is parsed as a whole."""
    total = [0.0] * 4

    def visit(path: tuple[int, ...], p: float) -> None:
        if len(path) == limit or (path and path[-1] in EOS):
            shown = path[:-1] if path[-1] in EOS else path
            text = b"".join(WORDS[i] for i in shown).decode(errors="replace")
            total[event(parse(text), forms)] += p
            return
        row = following([path], kept=kept)[0]
        for token in np.flatnonzero(row).tolist():
            visit((*path, token), p * row[token])

    visit((), 1.0)
    return total


def test_example_in_docstring() -> None:
    assert doctest.testmod(module) == (0, 9)


@pytest.mark.parametrize("forms", [SHE, HER, HIS, Forms("hers", "he", "her"), Forms("x", "é", "t")])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_tree_equals_listing_all_sequences(forms: Forms, limit: int) -> None:
    found = whole_answer(planted, Reader(Vocabulary(WORDS), forms, EOS), limit, threshold=0)
    np.testing.assert_allclose(events(found), listed(cache_of(planted), limit, forms), rtol=0, atol=1e-12)
    assert found.unexplored == 0


def cache_of(following: Callable[..., Any]) -> Callable[..., Any]:
    one = cache(lambda path, kept: following([path], kept=kept)[0])
    return lambda paths, kept=None: [one(path, kept) for path in paths]


@pytest.mark.parametrize("forms", [SHE, HER, HIS])
def test_the_tree_equals_listing_sequences_of_five_where_few_tokens_can_be_drawn(forms: Forms) -> None:
    found = whole_answer(lambda paths: planted(paths, kept=6), Reader(Vocabulary(WORDS), forms, EOS), 5, threshold=0)
    np.testing.assert_allclose(events(found), listed(planted, 5, forms, kept=6), rtol=0, atol=1e-12)


@pytest.mark.parametrize("threshold", [1e-6, 1e-4, 1e-2, 0.1, 0.9])
def test_the_bound_of_a_threshold_holds(threshold: float) -> None:
    reader = Reader(Vocabulary(WORDS), SHE, EOS)
    exact, found = whole_answer(planted, reader, 4, 0), whole_answer(planted, reader, 4, threshold)
    assert sum(events(found)) == pytest.approx(1, abs=1e-12)
    for all_of_it, some in zip(events(exact)[:3], events(found)[:3], strict=True):
        assert some <= all_of_it + 1e-12
        assert all_of_it <= some + found.unexplored + 1e-12
    assert found.p_other - found.unexplored <= exact.p_other + 1e-12
    assert exact.p_other <= found.p_other + 1e-12
    assert found.n_nodes <= exact.n_nodes
    assert threshold < 1e-3 or found.unexplored > 0


def script(data: list[bytes], *steps: dict[int, float]) -> Callable[[Sequence[tuple[int, ...]]], NDArray[np.float64]]:
    """A model whose next token depends on how many there are."""

    def following(paths: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        row = np.zeros(len(data))
        for token, p in steps[len(paths[0])].items():
            row[token] = p
        return np.tile(row, (len(paths), 1))

    return following


@pytest.mark.parametrize(
    ("data", "steps", "limit", "eos", "expected"),
    [
        # he, then r or a full stop: "her" or nothing
        ([b"he", b"r", b"."], ({0: 1}, {1: 0.25, 2: 0.75}, {2: 1}), 3, (), (0.25, 0, 0, 0.75)),
        # hers is not her
        ([b"her", b"s", b"."], ({0: 1}, {1: 0.25, 2: 0.75}, {2: 1}), 3, (), (0.75, 0, 0, 0.25)),
        # in capitals and in pieces
        ([b"H", b"E", b"R!"], ({0: 1}, {1: 1}, {2: 1}), 3, (), (1, 0, 0, 0)),
        # an end of sequence right after the option, one of several
        ([b"him", b"s", b"e"], ({0: 1}, {1: 0.5, 2: 0.5}), 2, (1, 2), (0, 1, 0, 0)),
        # the limit in the middle of an option
        ([b"h", b"i", b"m"], ({0: 1}, {1: 1}, {2: 1}), 2, (), (0, 0, 0, 1)),
        ([b"h", b"i", b"m"], ({0: 1}, {1: 1}, {2: 1}), 3, (), (0, 1, 0, 0)),
        # nothing but spaces, and an end at once
        ([b" ", b"them", b"x"], ({0: 0.5, 2: 0.5}, {0: 0.5, 1: 0.5}), 2, (2,), (0, 0, 0.25, 0.75)),
        # part of a character, then its end: a letter, or a sign
        ([b"him", b"\xc3", b"\xa9", b"\x97"], ({0: 1}, {1: 1}, {2: 0.5, 3: 0.5}), 3, (), (0, 0.5, 0, 0.5)),
        ([b"him", b"\xc3", b"\xa9", b"\x97"], ({0: 1}, {1: 1}, {}), 2, (), (0, 1, 0, 0)),
        # a special token (a non-letter) before and after
        ([b"her", b"\xef\xbf\xbd"], ({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}), 2, (), (0.25, 0, 0, 0.75)),
    ],
)
def test_by_hand(data: Any, steps: Any, limit: int, eos: tuple[int, ...], expected: tuple[float, ...]) -> None:
    found = whole_answer(script(data, *steps), Reader(Vocabulary(data), HER, eos), limit)
    assert events(found) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("forms", [SHE, HER, Forms("s", "he", "them")])
@pytest.mark.parametrize("settings", [SamplingSettings(0.5, 10, 3), SamplingSettings(1.0, None, 3)])
def test_a_real_model_equals_listing_all_its_sequences(small: Any, forms: Forms, settings: SamplingSettings) -> None:
    """The plain model runs on every prefix in full, without a cache."""
    found = answer_probabilities(small.loaded, [small.prompt], forms, settings, threshold=0)[0]
    tokens = range(small.plain.config.vocab_size)
    temperature, k = settings.temperature, settings.top_k

    def following(paths: list[tuple[int, ...]]) -> NDArray[np.float64]:
        with torch.no_grad():
            logits = small.plain(torch.tensor([[*small.prompt.ids, *path] for path in paths])).logits[:, -1].double()
        if k is not None:
            least = logits.sort(descending=True).values[:, k - 1 : k]
            logits = logits.masked_fill(logits < least, -torch.inf)
        weights = (logits / temperature).exp()
        return (weights / weights.sum(-1, keepdim=True)).numpy()

    total = [0.0] * 4
    level: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(3):
        grown: dict[tuple[int, ...], float] = {}
        for row, (path, p) in zip(following(list(level)), level.items(), strict=True):
            for token in tokens:
                if token == 2:
                    total[event(parse(small.text(path)), forms)] += p * row[token]
                elif row[token] > 0:
                    grown[(*path, token)] = p * row[token]
        level = grown
    texts = small.loaded.tokenizer.backend_tokenizer.decode_batch(
        [[*small.prompt.ids, *path] for path in level], skip_special_tokens=False
    )
    before = len(small.loaded.tokenizer.backend_tokenizer.decode(list(small.prompt.ids), skip_special_tokens=False))
    for text, p in zip(texts, level.values(), strict=True):
        total[event(parse(text[before:]), forms)] += p
    np.testing.assert_allclose(events(found), total, rtol=0, atol=1e-6)


DRAWS, BATCH = 20_000, 2_000


@pytest.mark.parametrize("case", [Case.NOMINATIVE, Case.ACCUSATIVE])
@pytest.mark.parametrize("kind", ["byte-level", "sentence-piece"])
def test_draws_of_generate_come_out_as_computed(small_model: Callable[..., Any], kind: str, case: Case) -> None:
    forms, settings = FORMS[case], SamplingSettings(0.7, 20, 5)
    small = small_model(kind, SEEDS[kind], (2, 3))
    expected = events(answer_probabilities(small.loaded, [small.prompt], forms, settings)[0])
    words = drawn_words(small, settings)
    counts = Counter(event(word, forms) for word in words.elements())
    for i, p in enumerate(expected):
        assert 0.002 < p < 0.998, expected  # every event occurs
        error = (p * (1 - p) / DRAWS) ** 0.5
        drawn = counts[i] / DRAWS
        print(f"{kind} {case}: drawn {drawn:.4f}, exact {p:.4f}, {(drawn - p) / error:+.2f} standard errors")
        assert abs(drawn - p) < 3 * error


SEEDS = {"byte-level": 0, "sentence-piece": 3}


@cache
def drawn_words(small: Any, settings: SamplingSettings) -> Counter[str]:
    """What the answers parse to, of so many draws."""
    texts: Counter[tuple[int, ...]] = Counter()
    torch.manual_seed(11)
    prompt = torch.tensor([small.prompt.ids])
    for _ in range(DRAWS // BATCH):
        out = small.plain.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            temperature=settings.temperature,
            top_k=settings.top_k,
            max_new_tokens=settings.max_new_tokens,
            num_return_sequences=BATCH,
            pad_token_id=0,
        )
        texts.update(map(tuple, out[:, prompt.shape[1] :].tolist()))
    words: Counter[str] = Counter()
    for tokens, n in texts.items():
        ends = [i for i, token in enumerate(tokens) if token in (2, 3)]
        words[parse(small.text(tokens[: ends[0]] if ends else tokens))] += n
    return words


def test_every_family_equals_its_plain_model(tiny: Any, tokenizer: Any) -> None:
    """All pairs of tokens of a model of four blocks, behind a prompt longer than its sliding window."""
    loaded = as_loaded(tiny.bridge, tokenizer)
    prompt = encoded(tokenizer, tiny.ids[0].tolist())
    found = answer_probabilities(loaded, [prompt], SHE, SamplingSettings(1.0, None, 2), threshold=0)[0]
    size = len(tokenizer)
    with torch.no_grad():
        first = tiny.plain(tiny.ids[:1]).logits[:, -1].double().softmax(-1)[0]
        longer = torch.cat([tiny.ids[:1].expand(size, -1), torch.arange(size)[:, None]], dim=1)
        pairs = first[:, None] * tiny.plain(longer).logits[:, -1].double().softmax(-1)
    total = torch.zeros(4, dtype=torch.float64)
    words = words_of_pairs(tokenizer)
    for i in range(4):
        total[i] = pairs[torch.from_numpy(words == i)].sum()
    np.testing.assert_allclose(events(found), total.numpy(), rtol=0, atol=1e-5)


@cache
def words_of_pairs(tokenizer: Any) -> NDArray[np.int64]:
    """The event of every pair of tokens; an end of sequence, 2, in the first place ends it there."""
    size = len(tokenizer)
    texts = tokenizer.backend_tokenizer.decode_batch(
        [[i, j] if j != 2 else [i] for i, j in itertools.product(range(size), repeat=2)], skip_special_tokens=False
    )
    codes = np.array([event(parse(text), SHE) for text in texts]).reshape(size, size)
    codes[2] = 3
    return codes


def as_loaded(bridge: Any, tokenizer: Any) -> Any:
    from pathlib import Path
    from types import SimpleNamespace

    return SimpleNamespace(
        network=bridge.original_model,
        n_layers=len(bridge.blocks),
        tokenizer=tokenizer,
        device="cpu",
        source=SimpleNamespace(name="tiny", folder=Path()),
    )


def test_order_and_company_change_rounding_only(small: Any) -> None:
    tokenizer, ids = small.loaded.tokenizer, small.prompt.ids
    prompts = [encoded(tokenizer, list(some)) for some in (ids, ids[:7], ids[::-1], ids[3:], [*ids[:9], 5, 6])]
    settings = SamplingSettings(0.5, 10, 4)
    together = answer_probabilities(small.loaded, prompts, SHE, settings)
    turned = answer_probabilities(small.loaded, prompts[::-1], SHE, settings)[::-1]
    for prompt, found, other in zip(prompts, together, turned, strict=True):
        alone = answer_probabilities(small.loaded, [prompt], SHE, settings)[0]
        assert events(found) == pytest.approx(events(alone), abs=1e-6)
        assert events(found) == pytest.approx(events(other), abs=1e-6)
        assert sum(events(found)) == pytest.approx(1, abs=1e-12)


def test_each_prompt_has_its_own_forms(small: Any) -> None:
    settings = SamplingSettings(0.5, 10, 4)
    mixed = answer_probabilities(small.loaded, [small.prompt] * 2, [SHE, HER], settings)
    for forms, found in zip((SHE, HER), mixed, strict=True):
        alone = answer_probabilities(small.loaded, [small.prompt], forms, settings)[0]
        assert events(found) == pytest.approx(events(alone), abs=1e-6)
    with pytest.raises(OptionError, match="1 forms for 2 prompts"):
        answer_probabilities(small.loaded, [small.prompt] * 2, [SHE], settings)
    assert answer_probabilities(small.loaded, [], SHE, settings) == []


def test_several_temperatures_come_from_the_same_pass(small: Any) -> None:
    resolved = resolve_settings(small.loaded, SamplingSettings(0.5, 10, 4))
    contexts = read(small.loaded, [small.prompt.ids])
    temperatures = (0.3, 0.5, 1.0)
    found = answers_behind(small.loaded, contexts, [SHE], resolved, temperatures, threshold=0)
    for temperature, [answer] in zip(temperatures, found, strict=True):
        one = SamplingSettings(temperature, 10, 4)
        alone = answer_probabilities(small.loaded, [small.prompt], SHE, one, threshold=0)[0]
        assert events(answer) == pytest.approx(events(alone), abs=1e-9)


@pytest.mark.parametrize("tied", [1, 3, 30])
def test_what_is_likely_is_what_is_left_by_warping(tied: int) -> None:
    """With many ties at the k-th score the whole row is looked at."""
    logits = torch.randn(3, 200, generator=torch.Generator().manual_seed(0))
    logits[:, 50 : 50 + tied] = logits.topk(5).values[:, -1:]
    settings = [SamplingSettings(t, 5) for t in (0.3, 1.0)]
    for row, found in zip(logits, likely(logits, settings), strict=True):
        for setting, p in zip(settings, found.probabilities, strict=True):
            whole = warp(row[None], setting).double().softmax(-1)[0].numpy()
            dense = np.zeros(200)
            dense[found.ids] = p
            np.testing.assert_allclose(dense, whole, rtol=0, atol=1e-15)
            assert (dense > 0).sum() >= 3 + tied


def test_swapping_the_options_swaps_their_probabilities(small: Any) -> None:
    settings = SamplingSettings(0.5, 10, 4)
    one = answer_probabilities(small.loaded, [small.prompt], SHE, settings)[0]
    other = answer_probabilities(small.loaded, [small.prompt], Forms("HE", "She", "They"), settings)[0]
    assert (one.p_feminine, one.p_masculine) == (other.p_masculine, other.p_feminine)
    assert one.share_feminine == pytest.approx(1 - other.share_feminine)


def test_batches_of_partial_answers_do_not_matter(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SamplingSettings(1.0, None, 4)
    one = answer_probabilities(small.loaded, [small.prompt], SHE, settings, threshold=1e-5)[0]
    monkeypatch.setattr(module, "_NODES", 3)
    other = answer_probabilities(small.loaded, [small.prompt], SHE, settings, threshold=1e-5)[0]
    assert one.n_nodes > 32
    assert events(one) == pytest.approx(events(other), abs=1e-6)


def test_the_model_is_left_as_it_was(small: Any) -> None:
    ids = torch.tensor([small.prompt.ids])
    before = small.loaded.bridge.original_model(ids).logits
    answer_probabilities(small.loaded, [small.prompt], SHE, SamplingSettings(0.5, 10, 3))
    assert torch.equal(small.loaded.bridge.original_model(ids).logits, before)
    assert not before.requires_grad


def test_several_ends_of_sequence_count(small_model: Callable[..., Any]) -> None:
    """Where </s> alone ends, <|end|> is a non-letter; both decide, so that answers are the same."""
    settings = SamplingSettings(1.0, None, 4)
    one, both, none = (small_model("byte-level", 0, eos) for eos in (2, (2, 3), None))
    found = [answer_probabilities(m.loaded, [m.prompt], SHE, settings)[0] for m in (one, both, none)]
    assert found[0] == found[1] == found[2]
    # An end of sequence that is a letter is another matter.
    letter = one.loaded.tokenizer.convert_tokens_to_ids("r")
    odd = small_model("byte-level", 0, (2, letter))
    changed = answer_probabilities(odd.loaded, [odd.prompt], SHE, settings)[0]
    assert changed.p_feminine > found[0].p_feminine + 1e-4


def test_at_the_limit_of_one_token_the_next_token_is_the_answer(small_model: Callable[..., Any]) -> None:
    small = small_model("byte-level")
    settings = SamplingSettings(1.0, None, 1)
    found = answer_probabilities(small.loaded, [small.prompt], SHE, settings)[0]
    [(ids, [some])] = next_tokens(small.loaded, read(small.loaded, [small.prompt.ids]), [settings])([0], [()])
    row = np.zeros(max(ids) + 1)
    row[ids] = some
    token = small.loaded.tokenizer.convert_tokens_to_ids
    assert found.p_feminine == pytest.approx(row[token("she")], abs=1e-15)
    assert found.p_masculine == pytest.approx(row[[token(t) for t in ("he", "Ġhe", "He")]].sum(), abs=1e-15)
    assert (found.n_nodes, found.unexplored) == (1, 0)


@pytest.mark.parametrize("threshold", [-1e-9, 1, float("nan")])
def test_a_threshold_out_of_range_is_refused(small: Any, threshold: float) -> None:
    with pytest.raises(OptionError, match=r"is not a probability in \[0, 1\); the default is 1e-9"):
        answer_probabilities(small.loaded, [small.prompt], SHE, threshold=threshold)


def test_forms_and_models_that_cannot_be_read_are_refused(small_model: Callable[..., Any]) -> None:
    small = small_model("byte-level")
    with pytest.raises(PromptError, match="equals the feminine form"):
        answer_probabilities(small.loaded, [small.prompt], Forms("she", "She", "they"))
    config = small.loaded.bridge.original_model.generation_config
    config.top_p = 0.9
    try:
        with pytest.raises(ModelError, match=r"top_p = 0.9"):
            answer_probabilities(small.loaded, [small.prompt], SHE)
        resolved = resolve_settings(small.loaded, override=["top_p"])
        assert answer_probabilities(small.loaded, [small.prompt], SHE, resolved)
    finally:
        config.top_p = None


@pytest.mark.slow
def test_the_embedded_model_equals_listing_the_answers_of_the_plain_one() -> None:
    """Without a cache, token texts by decoding whole paths; paths below 1e-7 are left out on this side."""
    from transformers import AutoModelForCausalLM

    from referent_probe.models.load import load_model
    from referent_probe.models.tokens import encode
    from referent_probe.stimuli.options import OptionOrder
    from referent_probe.stimuli.primes import ContextSetting
    from referent_probe.stimuli.prompts import choice_prompt
    from referent_probe.stimuli.templates import load_stimuli

    model = load_model(device="cpu")
    plain = AutoModelForCausalLM.from_pretrained(model.source.folder).eval()
    pair = next(pair for pair in load_stimuli().pairs if pair.case is Case.NOMINATIVE)
    template = pair.members[0]
    prompt = encode(
        choice_prompt(template, pair.partner(template), ContextSetting.CF, OptionOrder.MASCULINE_FIRST), model.tokenizer
    )
    total = [0.0] * 3
    level: dict[tuple[int, ...], float] = {(): 1.0}
    for step in range(6):
        grown: dict[tuple[int, ...], float] = {}
        for path, p in level.items():
            with torch.no_grad():
                logits = plain(torch.tensor([[*prompt.ids, *path]]), logits_to_keep=1).logits[0, -1].double()
            logits[logits < logits.sort(descending=True).values[39]] = -torch.inf
            row = logits.softmax(-1)
            for token in row.nonzero()[:, 0].tolist():
                shown = path if token == 2 else (*path, token)
                text = model.tokenizer.decode(shown, clean_up_tokenization_spaces=False)
                word, q = parse(text), p * float(row[token])
                if token == 2 or step == 5 or len(word) < len(text.lstrip()):
                    if event(word, SHE) < 3:
                        total[event(word, SHE)] += q
                elif q > 1e-7 and any(form.startswith(word) for form in ("she", "he", "they")):
                    grown[(*path, token)] = q
        level = grown
    found = answer_probabilities(model, [prompt], SHE, SamplingSettings(1.0, 40))[0]
    print(found, total)
    assert events(found)[:3] == pytest.approx(total, abs=2e-5)
