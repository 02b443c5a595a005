"""How much faster, and in how much memory, than a plain loop, other scorers and drawn answers, on the same prompts?

    python benchmarks/measurement.py [--model NAME] [--pairs 4]

Log-odds of the two options behind every choice prompt (pairs x 2 templates x context settings x 2 option orders):
ours; a plain Hugging Face loop (one prompt, one pass, all logits); minicons and lm-evaluation-harness, where they are
installed (`pip install -e '.[peers]'`). Then the whole answers at temperature 0.5 and top-k 40: exact, against draws
by `generate`, which runs a few prompts and is extrapolated to all of them; the second time in the way that does not
read a prompt again for every draw.

Every contender runs alone in a fresh process, on the same float32 weights and threads, and its peak memory is that
process's largest resident set, imports and loading included. Times leave out imports and loading. Ours takes prompts
as messages; the others take the rendered text. The last line of the output is the same as JSON.
"""

import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

# What needs torch is imported by the contenders: a child must hold only what it uses, and starts with the largest
# resident set of its parent.
from referent_probe import cli, cli_options
from referent_probe.errors import ModelError

TEMPERATURE, TOP_K, MAX_NEW_TOKENS = 0.5, 40, 6
SAME_NUMBER = 1e-4
"""Log-odds that differ by less are the same number, in logits."""


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


@dataclass(frozen=True)
class Result:
    """One contender: seconds for all prompts, tokens that passes computed, memory in MiB, differences in logits."""

    contender: str
    note: str = ""
    seconds: float | None = None
    times_ours: float | None = None
    cells: int | None = None
    tokens: int | None = None
    max_abs_diff: float | None = None
    loaded_mib: float | None = None
    peak_mib: float | None = None


Prepared = tuple[Any, Callable[[], list[Any]]]
"""The Hugging Face model whose passes are counted, and what is timed: one value a prompt."""


def prepare_ours(job: Job, *, whole: bool) -> Prepared:
    """Log-odds, or probabilities of whole answers, template by template as `measure_pair` reads them."""
    from referent_probe.measurement.answer import answers_behind
    from referent_probe.measurement.readings import own_tokens
    from referent_probe.measurement.warp import SamplingSettings, resolve_settings
    from referent_probe.models.contexts import log_probabilities, read
    from referent_probe.models.load import load_model
    from referent_probe.models.tokens import answer_token, encode
    from referent_probe.stimuli.options import FORMS, OptionOrder
    from referent_probe.stimuli.primes import ContextSetting
    from referent_probe.stimuli.prompts import choice_prompt
    from referent_probe.stimuli.templates import draw_pairs, load_stimuli

    model = load_model(job.model, device="cpu")
    sampling = resolve_settings(model, SamplingSettings(TEMPERATURE, TOP_K, MAX_NEW_TOKENS))
    templates = [
        (
            FORMS[template.case],
            [
                choice_prompt(template, pair.partner(template), setting, order)
                for setting in list(ContextSetting)[: job.settings]
                for order in OptionOrder
            ],
        )
        for pair in draw_pairs(load_stimuli(), job.pairs, job.seed)
        for template in pair.members
    ]

    def score() -> list[Any]:
        values: list[Any] = []
        for forms, prompts in templates:
            encoded = [encode(prompt, model.tokenizer, model.quirks) for prompt in prompts]
            contexts = read(model, [prompt.ids for prompt in encoded])
            if whole:
                [answers] = answers_behind(
                    model, contexts, [forms] * len(encoded), sampling, [TEMPERATURE], threshold=1e-6
                )
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
    return model.bridge.original_model, score


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

    def draw(prompt: dict[str, Any], n: int) -> int:
        ids = tokenizer(prompt["text"], add_special_tokens=special, return_tensors="pt").input_ids
        rows: dict[str, Any] = {"num_return_sequences": n}
        if read_once:
            cache = DynamicCache(config=model.config)
            with torch.no_grad():
                model(ids[:, :-1], past_key_values=cache, logits_to_keep=1)
            cache.batch_repeat_interleave(n)
            rows = {"past_key_values": cache}
        drawn = model.generate(
            ids.repeat(n, 1) if read_once else ids,
            attention_mask=torch.ones(n if read_once else 1, ids.shape[1], dtype=torch.long),
            do_sample=True,
            temperature=TEMPERATURE,
            top_k=TOP_K,
            max_new_tokens=MAX_NEW_TOKENS,
            pad_token_id=tokenizer.pad_token_id or 0,
            **rows,
        )
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
CONTENDERS: dict[str, Callable[[Job], Prepared]] = {
    OURS: lambda job: prepare_ours(job, whole=False),
    LOOP: prepare_loop,
    "minicons, next word": lambda job: prepare_minicons(job, next_word=True),
    "minicons, conditional": lambda job: prepare_minicons(job, next_word=False),
    "lm-eval": prepare_lm_eval,
    WHOLE: lambda job: prepare_ours(job, whole=True),
    GENERATE: lambda job: prepare_generate(job, read_once=False),
    "generate, prompt read once": lambda job: prepare_generate(job, read_once=True),
}


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
    values = score()
    seconds = time.perf_counter() - began
    measured = {"seconds": seconds, "tokens": tokens, "loaded_mib": loaded, "peak_mib": peak_mib()}
    return measured | {"values": values, "threads": torch.get_num_threads()}


def peak_mib() -> float:
    """Largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def run_in_child(name: str, job: Job) -> dict[str, Any]:
    """The same in a fresh process; `note` tells why there is no result."""
    package = PEERS.get(name)
    if package and find_spec(package) is None:
        return {"note": f"not installed: pip install {package.replace('_', '-')}"}
    command = [sys.executable, __file__, "--only", name, "--job", json.dumps(asdict(job))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))
    reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if package:
        return {"note": f"failed: {reason}"}
    raise ModelError(f"{name!r} failed with {job.model!r}: {reason}")


def summarise(job: Job, rounds: list[dict[str, dict[str, Any]]]) -> list[Result]:
    """Medians over rounds; draws extrapolated to all prompts; ratios to ours, of log-odds or of whole answers."""
    first = rounds[0]
    n = len(first[OURS]["values"])
    seconds = {
        name: statistics.median(r[name]["seconds"] for r in rounds) * n / len(found["values"])
        for name, found in first.items()
        if "seconds" in found
    }
    results = []
    for name, found in first.items():
        if name not in seconds:
            results.append(Result(name, note=found["note"]))
            continue
        scored, cells = name not in list(CONTENDERS)[-3:], len(found["values"])
        results.append(
            Result(
                contender=name,
                note="" if cells == n else f"from {cells} prompts",
                seconds=seconds[name],
                times_ours=seconds[name] / seconds[OURS if scored else WHOLE],
                cells=cells,
                tokens=found["tokens"] * n // cells,
                max_abs_diff=max(abs(a - b) for a, b in zip(found["values"], first[OURS]["values"], strict=True))
                if scored
                else None,
                loaded_mib=max(r[name]["loaded_mib"] for r in rounds),
                peak_mib=max(r[name]["peak_mib"] for r in rounds),
            )
        )
    return results


def goals(results: list[Result]) -> dict[str, tuple[float | None, float]]:
    """(measured, bound) by name; None where there is no peer to compare with."""
    by_name = {r.contender: r for r in results if r.seconds is not None}
    same = [by_name[name] for name in PEERS if name in by_name and by_name[name].max_abs_diff < SAME_NUMBER]
    return {
        "times faster than the plain loop, at least": (by_name[LOOP].times_ours, 3.0),
        "times cheaper than draws by generate, at least": (by_name[GENERATE].times_ours, 100.0),
        "times faster than the fastest peer, at least": (min((r.times_ours for r in same), default=None), 1.0),
        "peak memory over the leanest peer's, at most": (
            by_name[OURS].peak_mib / min(r.peak_mib for r in same) if same else None,
            1.0,
        ),
    }


def largest_z(job: Job, found: dict[str, dict[str, Any]]) -> float:
    """Largest distance of a count of draws from what the exact probability expects, in standard errors."""
    exact = found[WHOLE]["values"]
    distances = []
    for name in list(CONTENDERS)[-2:]:
        for i, count in zip(drawn_cells(job, len(exact)), found[name]["values"], strict=True):
            spread = (job.draws * exact[i] * (1 - exact[i])) ** 0.5
            distances.append(abs(count - job.draws * exact[i]) / max(spread, 1.0))
    return max(distances)


def main(
    model: cli_options.ModelOption = cli_options.DEFAULT_MODEL,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="Built-in pairs, 28 prompts each.")] = 4,
    settings: Annotated[int, typer.Option("--settings", min=1, max=7, help="Context settings, the first ones.")] = 7,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Runs of every contender; medians are given.")] = 1,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Answers drawn a prompt.")] = 200,
    draw_cells: Annotated[int, typer.Option("--draw-cells", min=1, help="Prompts that answers are drawn for.")] = 2,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Draws in one call of generate.")] = 200,
    peer_batch: Annotated[int, typer.Option("--peer-batch", min=1, help="Prompts that a peer scores at once.")] = 1,
    threads: Annotated[int, typer.Option("--threads", min=0, help="Of torch; 0 for its own choice.")] = 0,
    seed: cli_options.SeedOption = 0,
    only: Annotated[str | None, typer.Option("--only", hidden=True)] = None,
    job: Annotated[str | None, typer.Option("--job", hidden=True)] = None,
) -> None:
    """Compare exact choice probabilities with a plain loop, other scorers and drawn answers."""
    if only and job:
        print(json.dumps(run_alone(only, Job(**json.loads(job)))))
        return
    with TemporaryDirectory() as folder:
        texts = str(Path(folder) / "prompts.json")
        asked = Job(model, pairs, settings, seed, draws, draw_cells, at_once, peer_batch, threads, texts)
        found = [{name: run_in_child(name, asked) for name in CONTENDERS} for _ in range(rounds)]
    results = summarise(asked, found)
    n, used = len(found[0][OURS]["values"]), found[0][OURS]["threads"]
    table = Table(box=None, title=f"{model}: {n} prompts, {used} threads")
    for name in ("contender", "s", "/ ours", "tokens", "diff", "MiB loaded", "peak", ""):
        table.add_column(name, justify="left" if name in ("contender", "") else "right")
    for r in results:
        if r.seconds is None:
            table.add_row(r.contender, *[""] * 6, r.note)
            continue
        diff = "" if r.max_abs_diff is None else f"{r.max_abs_diff:.0e}"
        table.add_row(
            r.contender, f"{r.seconds:.1f}", f"{r.times_ours:.2f}", str(r.tokens), diff, f"{r.loaded_mib:.0f}",
            f"{r.peak_mib:.0f}", r.note,
        )  # fmt: skip
    out = Console(highlight=False)
    out.print(table)
    for name, (value, bound) in goals(results).items():
        out.print(f"{name} {bound:g}: {'no peer here' if value is None else f'{value:.2f}'}")
    z = largest_z(asked, found[0])
    out.print(f"draws are at most {z:.1f} standard errors from the exact probabilities")
    about: dict[str, Any] = {"model": model, "prompts": n, "threads": used, "versions": installed()}
    about |= {"job": {k: v for k, v in asdict(asked).items() if k != "prompts"}, "rounds": rounds, "largest_z": z}
    print(json.dumps(about | {"contenders": [asdict(r) for r in results], "goals": goals(results)}))


def installed() -> dict[str, str]:
    """Versions of what is compared."""
    found = {}
    for package in ("referent-probe", "torch", "transformers", "transformer-lens", "minicons", "lm-eval"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


if __name__ == "__main__":
    cli.run_command(main)
