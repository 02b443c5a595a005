"""Do models carry the priming pronoun in the same way?

    python experiments/compare_models.py smollm2-135m-instruct models/mine --pairs 12
    python experiments/compare_models.py runs/survey-a runs/survey-b --out runs/a-and-b

Each model is surveyed (a stopped survey goes on), or a finished survey is given by its folder. Flow maps stand side by
side, total effects are tested with Holm's correction, and the head rankings of models of one architecture are compared.
"""

from pathlib import Path
from typing import Annotated

import typer

from referent_probe import cli, cli_options
from referent_probe.cli_job_shown import print_job, show_job
from referent_probe.jobs.compare import compare_surveys
from referent_probe.jobs.settings import JobSettings
from referent_probe.jobs.survey import SurveyJob


def main(
    models: Annotated[list[str], typer.Argument(help="Models, or folders of finished surveys; at least two.")],
    stimuli: cli_options.ModelStimuliOption = None,
    pairs: cli_options.PairsOption = 12,
    flow_pairs: cli_options.FlowPairsOption = 4,
    prompts: cli_options.PromptsOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the comparison; surveys lie beside it, in OUT_surveys.")
    ] = Path("runs/compared"),
    seed: cli_options.SeedOption = 0,
    device: cli_options.DeviceOption = "auto",
    dtype: cli_options.DtypeOption = "float32",
    csv: cli_options.CsvOption = False,
    config: cli_options.ConfigOption = None,
    quiet: cli_options.QuietOption = False,
) -> None:
    """Survey several models, and put them beside each other."""
    # Surveys lie beside the comparison: a run folder holds one run.
    folders = []
    for number, model in enumerate(models, start=1):
        if (Path(model) / "manifest.json").is_file():
            folders.append(Path(model))
            continue
        survey = Path(f"{out}_surveys") / f"{number}_{Path(model).name}"
        settings = JobSettings(
            model, stimuli, pairs=pairs, order="mf", prompts=prompts, out=survey, seed=seed, device=device, dtype=dtype,
            csv=csv,
        )  # fmt: skip
        show_job(settings, SurveyJob(flow_pairs, 0), as_json=False, quiet=quiet)
        folders.append(survey)
    done = compare_surveys(folders, out, seed=seed, csv=csv)
    if not quiet:
        print_job(done)


if __name__ == "__main__":
    cli.run_command(main)
