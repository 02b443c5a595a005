"""The commands of the mechanistic layer, and `conflation`: each builds its job from the options of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from referent_probe.cli_job_options import job_command
from referent_probe.errors import OptionError
from referent_probe.stimuli.quoting import quoted

if TYPE_CHECKING:
    from referent_probe.jobs.ablate import AblateJob
    from referent_probe.jobs.circuit import CircuitJob
    from referent_probe.jobs.conflation import ConflationJob
    from referent_probe.jobs.head import HeadJob
    from referent_probe.jobs.knockout import KnockoutJob
    from referent_probe.jobs.patch import PatchJob
    from referent_probe.jobs.survey import SurveyJob

DirectionOption = Annotated[
    Literal["both", "denoise", "noise"],
    typer.Option("--direction", help="denoise: into the run with the masculine prime; noise: into the other."),
]
HeadsOption = Annotated[str, typer.Option("--heads", help="all, or some, as in 20.3,26.0.")]
WhereOption = Annotated[
    str,
    typer.Option(
        "--where",
        help="target-slot, another span (priming-pronoun, antecedent, …), a position, all (from the prime on), "
        "each-span or each-position.",
    ),
]
WindowOption = Annotated[int, typer.Option("--window", help="Layers cut at once; 0 for a fifth of the model.")]
ModeOption = Annotated[
    Literal["both", "before", "after"],
    typer.Option("--mode", help="Cut before softmax, or after it, where nothing is redistributed."),
]
QueriesOption = Annotated[
    Literal["target-slot", "later"],
    typer.Option("--queries", help="Whose attention is cut; later: of all tokens behind the prime (slower)."),
]
FramesOption = Annotated[
    Path | None,
    typer.Option("--frames", help="TOML file with one-person frames; by default frames.toml beside the model."),
]
RandomSetsOption = Annotated[int, typer.Option("--random-sets", help="Random sets of heads of equal effect.")]


@job_command()
def patch(
    target: Annotated[
        Literal["z", "resid", "attn_out", "mlp_out", "q", "k", "v", "pattern"],
        typer.Option("--target", help="What is patched: a head's output, the residual stream, …"),
    ] = "z",
    where: WhereOption = "target-slot",
    direction: DirectionOption = "both",
    heads: HeadsOption = "all",
) -> "PatchJob":
    """Patch any activation at any place, one at a time, exactly."""
    from referent_probe.jobs.patch import PatchJob

    return PatchJob(target, where, direction, heads)


@job_command(order="mf")
def flow(direction: DirectionOption = "denoise") -> "PatchJob":
    """Draw where the prime's effect sits, layer by layer: the residual stream patched at each span."""
    from referent_probe.jobs.patch import flow_job

    return flow_job(direction)


@job_command(pairs=24, order="mf")
def survey(
    flow_pairs: Annotated[
        int | None, typer.Option("--flow-pairs", help="Of the pairs, those for the flow map (the slow part); all.")
    ] = None,
    leading: Annotated[int, typer.Option("--leading", help="Leading heads that are patched span by span.")] = 10,
) -> "SurveyJob":
    """Patch all heads, held out; draw the flow map; see where in the prompt the leading heads act."""
    from referent_probe.jobs.survey import SurveyJob

    return SurveyJob(flow_pairs, leading)


@job_command()
def knockout(
    window: WindowOption = 0,
    mode: ModeOption = "both",
    queries: QueriesOption = "target-slot",
    heads: HeadsOption = "all",
) -> "KnockoutJob":
    """Cut attention to the prime, in windows of layers, beside controls."""
    from referent_probe.jobs.knockout import KnockoutJob

    return KnockoutJob(window, mode, queries, heads)


@job_command()
def ablate(
    heads: HeadsOption = "all",
    kinds: Annotated[
        str, typer.Option("--kinds", help="What heads put out instead, at least two kinds.")
    ] = "zero,mean,resample,unprimed,null",
) -> "AblateJob":
    """Ablate heads at the target slot, and see what remains of the prime's effect."""
    from referent_probe.jobs.ablate import AblateJob

    return AblateJob(heads, tuple(_names(kinds)))


@job_command()
def head(
    head: Annotated[str, typer.Argument(help="LAYER.HEAD, as in 26.0.", show_default=False)],
    path_pairs: Annotated[
        int, typer.Option("--path-pairs", help="Pairs on which all earlier heads are tried as senders (slow).")
    ] = 6,
) -> "HeadJob":
    """Make the card of one head: effects, attention, attribution, scores, senders, ablations."""
    from referent_probe.jobs.head import HeadJob

    return HeadJob(head.strip(), path_pairs)


@job_command(pairs=12)
def circuit(
    heads: Annotated[
        str, typer.Option("--heads", help="The circuit, as in 20.3,26.0; by default the carriers, or leading heads.")
    ] = "",
    largest: Annotated[int, typer.Option("--largest", help="Heads at most of a circuit chosen from the data.")] = 10,
    top: Annotated[str, typer.Option("--top", help="Numbers of leading heads patched together.")] = "1,2,5,10,20",
) -> "CircuitJob":
    """Say what the leading heads carry together on held-out occupations, and check a circuit."""
    from referent_probe.jobs.circuit import CircuitJob

    try:
        numbers = tuple(int(name) for name in _names(top))
    except ValueError:
        raise OptionError(f"--top {quoted(top)}: give whole numbers with commas between, as in 1,2,5,10") from None
    return CircuitJob(heads.strip(), largest, numbers)


@job_command(pairs=24)
def conflation(
    frames: FramesOption = None,
    frames_at_hand: Annotated[int, typer.Option("--frames-at-hand", help="Frames of each case that are used.")] = 4,
    frames_per_template: Annotated[int, typer.Option("--frames-per-template", help="Of these, for each sentence.")] = 2,
    random_sets: RandomSetsOption = 200,
) -> "ConflationJob":
    """Does contextuality reflect referent conflation? The verdict on behaviour, and on the heads behind it."""
    from referent_probe.jobs.conflation import ConflationJob

    return ConflationJob(frames, frames_at_hand, frames_per_template, random_sets)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
