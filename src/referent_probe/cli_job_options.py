"""The options that all jobs of the mechanistic layer take, added to those of each job's own."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from referent_probe.cli_job_shown import show_job
from referent_probe.cli_options import (
    DEFAULT_MODEL,
    ConfigOption,
    CsvOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    ModelStimuliOption,
    OutOption,
    PairsOption,
    PasswordOption,
    PromptsOption,
    QuietOption,
    RevisionOption,
    SeedOption,
    SmallestOption,
)

if TYPE_CHECKING:
    from referent_probe.jobs.job import Job

ModelArgument = Annotated[str, typer.Argument(help="Packaged model, folder, GGUF file or Hub id.", show_default=False)]
OrderOption = Annotated[
    Literal["both", "mf", "fm"], typer.Option("--order", help="Orders of the options; mf: masculine first.")
]


def _shared(
    stimuli: ModelStimuliOption = None,
    password: PasswordOption = None,
    pairs: PairsOption = 8,
    order: OrderOption = "both",
    prompts: PromptsOption = None,
    out: OutOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    revision: RevisionOption = None,
    smallest_share: SmallestOption = 0.01,
    csv: CsvOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Only its signature is used."""


def job_command(
    *, pairs: int = 8, order: str = "both", script: bool = False
) -> "Callable[[Callable[..., Job]], Callable[..., None]]":
    """Make a command of a function that builds a job from the options of its own.

    Args:
        pairs: How many pairs by default.
        order: Which order of the options by default.
        script: True for a script's main function, whose model is an option, the embedded one by default; False for a
            command, whose model comes first.

    Returns:
        A decorator. The command has the job's own options first, then those that all jobs share, and the function's
        docstring as its help.

    Example:
        `job_command(pairs=12)(lambda: SurveyJob())` takes a model, and `--pairs` with 12 as default.
    """

    def decorate(build: "Callable[..., Job]") -> Callable[..., None]:
        own = list(inspect.signature(build).parameters.values())
        shared = [
            one.replace(default={"pairs": pairs, "order": order}.get(one.name, one.default))
            for one in inspect.signature(_shared).parameters.values()
        ]
        keyword = inspect.Parameter.KEYWORD_ONLY
        model = inspect.Parameter("model", keyword, annotation=ModelArgument)
        if script:
            model = model.replace(annotation=ModelOption, default=DEFAULT_MODEL)

        def command(**given: Any) -> None:
            from referent_probe.jobs.settings import JobSettings

            job = build(**{one.name: given.pop(one.name) for one in own})
            as_json, quiet = given.pop("as_json"), given.pop("quiet")
            del given["config"]  # what the file says is in the other options by now
            show_job(JobSettings(**given), job, as_json=as_json, quiet=quiet)

        parameters = [one.replace(kind=keyword) for one in (model, *own, *shared)]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__name__, command.__doc__ = build.__name__, build.__doc__
        return command

    return decorate
