"""Which heads carry the priming pronoun into the answer?

    python experiments/patch_priming_pronoun.py
    python experiments/patch_priming_pronoun.py --model PATH_OR_HUB_ID --stimuli FILE.tsv --pairs 24 --out runs/mine

For every contrast (one sentence, one option order, a feminine against a masculine priming pronoun) it patches each
head's output at the target slot in both directions, reads attention and direct attribution of the priming pronoun, and
for a few pairs sweeps the residual stream by layer and span.
"""

from referent_probe import cli, cli_options
from referent_probe.priming_pronoun import Settings


def main(
    model: cli_options.ModelOption = cli_options.DEFAULT_MODEL,
    stimuli: cli_options.ModelStimuliOption = None,
    password: cli_options.PasswordOption = None,
    pairs: cli_options.PairsOption = 8,
    flow_pairs: cli_options.FlowPairsOption = 2,
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
    """Patch every head at the target slot, and say which ones carry the priming pronoun into the answer."""
    settings = Settings(
        model, stimuli, password, pairs, flow_pairs, prompts, out, seed, device, dtype, revision, smallest_share, csv
    )
    cli.show_job(settings, as_json=as_json, quiet=quiet)


if __name__ == "__main__":
    cli.run_command(main)
