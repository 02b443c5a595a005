"""What do heads write into the answer, and from which part of the prompt do they take it?

    python experiments/attribute_attention.py
    python experiments/attribute_attention.py --model PATH_OR_HUB_ID --pairs 24 --out runs/attribution

Direct logit attribution of every head at the target slot, by the span of the prompt that it attends to, feminine less
masculine prime. Sources add up to heads, and heads with embedding, MLPs and biases to the logit difference; how far
they are off is in summary.json, self_check.
"""

from referent_probe import cli, cli_jobs, cli_options
from referent_probe.jobs.settings import JobSettings
from referent_probe.jobs.survey import SurveyJob


def main(
    model: cli_options.ModelOption = cli_options.DEFAULT_MODEL,
    stimuli: cli_options.ModelStimuliOption = None,
    password: cli_options.PasswordOption = None,
    pairs: cli_options.PairsOption = 12,
    order: cli_jobs.OrderOption = "both",
    prompts: cli_options.PromptsOption = None,
    out: cli_options.OutOption = None,
    seed: cli_options.SeedOption = 0,
    device: cli_options.DeviceOption = "auto",
    dtype: cli_options.DtypeOption = "float32",
    revision: cli_options.RevisionOption = None,
    smallest_share: cli_options.SmallestOption = 0.01,
    csv: cli_options.CsvOption = False,
    config: cli_options.ConfigOption = None,
    as_json: cli_options.JsonOption = False,
    quiet: cli_options.QuietOption = False,
) -> None:
    """Attribute the answer to heads, and to the spans that they attend to."""
    settings = JobSettings(
        model, stimuli, password, pairs, order, prompts, out, seed, device, dtype, revision, smallest_share, csv
    )
    cli_jobs.show_job(settings, SurveyJob(flow_pairs=0, leading=0), as_json=as_json, quiet=quiet)


if __name__ == "__main__":
    cli.run_command(main)
