"""What `measurement.py` compares: each contender loads a model, and then gives one value a prompt, which is timed.

What needs torch is imported where it is used: a child process must hold only what its contender uses.
"""

import json
import re
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

TEMPERATURE, TOP_K, MAX_NEW_TOKENS = 0.5, 40, 6


@dataclass(frozen=True)
class Job:
    """What every contender is asked; `prompts` is the file that holds the texts, written by "ours"."""

    model: str
    pairs: int
    settings: int
    seed: int
    draws: int
    draw_cells: int
    at_once: int
    peer_batch: int
    threads: int
    prompts: str


Prepared = tuple[Any, Callable[[], list[Any]]]
"""The Hugging Face model whose passes are counted, and what is timed: one value a prompt."""


def prepare_ours(job: Job, *, whole: bool) -> Prepared:
    """Log-odds, or probabilities of whole answers, template by template as `measure_pair` reads them."""
    from referent_probe.measurement.answer import answers_behind
    from referent_probe.measurement.readings import own_tokens
    from referent_probe.measurement.warp import SamplingSettings, resolve_settings
    from referent_probe.models.contexts import log_probabilities
    from referent_probe.models.load import load_model
    from referent_probe.models.reading import read, root_of
    from referent_probe.models.tokens import answer_token, encode
    from referent_probe.stimuli.options import FORMS, OptionOrder
    from referent_probe.stimuli.primes import ContextSetting
    from referent_probe.stimuli.prompts import choice_prompt
    from referent_probe.stimuli.templates import draw_pairs, load_stimuli

    model = load_model(job.model, device="cpu", interventions=False)
    sampling = resolve_settings(model, SamplingSettings(TEMPERATURE, TOP_K, MAX_NEW_TOKENS))
    cells = list(product(list(ContextSetting)[: job.settings], OptionOrder))
    templates = [
        (FORMS[template.case], [choice_prompt(template, pair.partner(template), *cell) for cell in cells])
        for pair in draw_pairs(load_stimuli(), job.pairs, job.seed)
        for template in pair.members
    ]

    def score() -> list[Any]:
        values: list[Any] = []
        root = None
        for forms, prompts in templates:
            encoded = [encode(prompt, model.tokenizer, model.quirks) for prompt in prompts]
            ids = [prompt.ids for prompt in encoded]
            root = root or root_of(model, ids)  # as `measure` does, once for all
            contexts = read(model, ids, root, keep=whole)
            if whole:
                every = [forms] * len(encoded)
                [answers] = answers_behind(model, contexts, every, sampling, [TEMPERATURE], threshold=1e-6)
                values += [answer.p_feminine for answer in answers]
                continue
            options = [own_tokens(prompt, form, model.tokenizer) for prompt in encoded for form in _two(forms)]
            rows = [row for row in range(len(encoded)) for _ in range(2)]
            scores = [float(score.sum()) for score in log_probabilities(model, contexts, rows, options)]
            values += [f - m for f, m in zip(scores[::2], scores[1::2], strict=True)]
        return values

    if not whole:
        texts = []
        for forms, prompts in templates:
            for encoded in (encode(prompt, model.tokenizer, model.quirks) for prompt in prompts):
                tokens = [answer_token(encoded, form, model.tokenizer) for form in _two(forms)]
                texts.append({"text": encoded.text, "forms": _two(forms), "tokens": tokens})
        about = {"folder": str(model.source.folder), "adds_special": model.tokenizer.chat_template is None}
        Path(job.prompts).write_text(json.dumps(about | {"prompts": texts}), encoding="utf-8")
    return model.network, score


def _two(forms: Any) -> tuple[str, str]:
    return forms.feminine, forms.masculine


def hugging_face(job: Job) -> tuple[Any, Any, list[dict[str, Any]], bool]:
    """The same weights as an ordinary model, its tokenizer, the prompts, and whether the tokenizer adds to them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    given = json.loads(Path(job.prompts).read_text(encoding="utf-8"))
    model = AutoModelForCausalLM.from_pretrained(given["folder"], dtype=torch.float32, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(given["folder"], local_files_only=True)
    return model, tokenizer, given["prompts"], given["adds_special"]


def prepare_loop(job: Job) -> Prepared:
    """One prompt, one pass, all logits."""
    import torch

    model, tokenizer, prompts, special = hugging_face(job)

    def score() -> list[float]:
        odds = []
        for prompt in prompts:
            ids = tokenizer(prompt["text"], add_special_tokens=special, return_tensors="pt").input_ids
            with torch.no_grad():
                feminine, masculine = model(ids).logits[0, -1, prompt["tokens"]].tolist()
            odds.append(feminine - masculine)
        return odds

    return model, score


def prepare_minicons(job: Job, *, next_word: bool) -> Prepared:
    """By the distribution of the next token, or by both options as continuations."""
    from minicons.scorer import IncrementalLMScorer

    model, tokenizer, prompts, special = hugging_face(job)
    scorer = IncrementalLMScorer(model, "cpu", tokenizer=tokenizer)

    def score() -> list[float]:
        odds = []
        for begin in range(0, len(prompts), job.peer_batch):
            some = prompts[begin : begin + job.peer_batch]
            texts = [prompt["text"] for prompt in some]
            if next_word:
                log_p = scorer.next_word_distribution(texts, chat=not special)
                pairs = [row[prompt["tokens"]].tolist() for row, prompt in zip(log_p, some, strict=True)]
            else:
                scores = scorer.conditional_score(
                    [text for text in texts for _ in range(2)],
                    [form for prompt in some for form in prompt["forms"]],
                    separator="",
                    reduction=lambda log_p: log_p.sum(0).item(),
                    chat=not special,
                )
                pairs = list(zip(scores[::2], scores[1::2], strict=True))
            odds += [feminine - masculine for feminine, masculine in pairs]
        return odds

    return model, score


def prepare_lm_eval(job: Job) -> Prepared:
    """By both options as continuations, of which it computes a prompt's logits once."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model, tokenizer, prompts, _ = hugging_face(job)
    harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=job.peer_batch)

    def score() -> list[float]:
        asked = [(prompt["text"], form) for prompt in prompts for form in prompt["forms"]]
        requests = [Instance("loglikelihood", {}, arguments, i) for i, arguments in enumerate(asked)]
        scores = [log_p for log_p, _ in harness.loglikelihood(requests, disable_tqdm=True)]
        return [f - m for f, m in zip(scores[::2], scores[1::2], strict=True)]

    return model, score


def prepare_generate(job: Job, *, read_once: bool) -> Prepared:
    """Counts of the feminine option among draws, for some prompts, spread evenly over all."""
    import torch
    from transformers import DynamicCache

    model, tokenizer, prompts, special = hugging_face(job)
    sampling = {"do_sample": True, "temperature": TEMPERATURE, "top_k": TOP_K, "max_new_tokens": MAX_NEW_TOKENS}
    sampling |= {"pad_token_id": tokenizer.pad_token_id or 0}

    def draw(prompt: dict[str, Any], n: int) -> int:
        ids = tokenizer(prompt["text"], add_special_tokens=special, return_tensors="pt").input_ids
        rows: dict[str, Any] = {"num_return_sequences": n}
        if read_once:
            cache = DynamicCache(config=model.config)
            with torch.no_grad():
                model(ids[:, :-1], past_key_values=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(n)
            rows = {"past_key_values": cache}
        asked = ids.repeat(n, 1) if read_once else ids
        drawn = model.generate(asked, attention_mask=torch.ones_like(asked), **sampling, **rows)
        texts = tokenizer.batch_decode(drawn[:, ids.shape[1] :], skip_special_tokens=True)
        words = [re.match(r"\s*([^\W\d_]*)", text)[1].casefold() for text in texts]
        return words.count(prompt["forms"][0])

    def score() -> list[int]:
        torch.manual_seed(job.seed)
        chunks = [min(job.at_once, job.draws - begin) for begin in range(0, job.draws, job.at_once)]
        return [sum(draw(prompts[i], n) for n in chunks) for i in drawn_cells(job, len(prompts))]

    return model, score


def drawn_cells(job: Job, n: int) -> list[int]:
    """Which of n prompts answers are drawn for."""
    return [i * n // min(job.draw_cells, n) for i in range(min(job.draw_cells, n))]


OURS, LOOP, WHOLE, GENERATE = "ours", "plain loop", "ours, whole answers", "generate"
PEERS = {"minicons, next word": "minicons", "minicons, conditional": "minicons", "lm-eval": "lm_eval"}
"""The package of each."""

SCORERS: dict[str, Callable[[Job], Prepared]] = {
    OURS: lambda job: prepare_ours(job, whole=False),
    LOOP: prepare_loop,
    "minicons, next word": lambda job: prepare_minicons(job, next_word=True),
    "minicons, conditional": lambda job: prepare_minicons(job, next_word=False),
    "lm-eval": prepare_lm_eval,
}
"""These give log-odds of the feminine over the masculine option, in logits."""

DRAWERS: dict[str, Callable[[Job], Prepared]] = {
    GENERATE: lambda job: prepare_generate(job, read_once=False),
    "generate, prompt read once": lambda job: prepare_generate(job, read_once=True),
}
"""These give counts of the feminine option."""

CONTENDERS = SCORERS | {WHOLE: lambda job: prepare_ours(job, whole=True)} | DRAWERS
"""What is timed, in this order; the first writes the texts for the others. The whole answers are probabilities."""


def run_alone(name: str, job: Job) -> dict[str, Any]:
    """One contender in this process: its values, seconds, tokens and memory."""
    import torch

    if job.threads:
        torch.set_num_threads(job.threads)
    model, score = CONTENDERS[name](job)
    with torch.no_grad():  # the first pass is slower
        model(torch.arange(24)[None])
    tokens = 0

    def count(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal tokens
        tokens += (args[0] if args else kwargs["input_ids"]).numel()

    model.register_forward_pre_hook(count, with_kwargs=True)
    loaded, began = peak_mib(), time.perf_counter()
    measured = {"loaded_mib": loaded, "values": score(), "seconds": time.perf_counter() - began}
    return measured | {"tokens": tokens, "peak_mib": peak_mib(), "threads": torch.get_num_threads()}


def peak_mib() -> float:
    """Largest resident set of this process so far; it starts with that of the parent, which is therefore small."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
