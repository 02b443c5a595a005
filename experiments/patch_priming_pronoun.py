"""Which heads carry the priming pronoun into the answer?

    python experiments/patch_priming_pronoun.py
    python experiments/patch_priming_pronoun.py --model PATH_OR_HUB_ID --stimuli FILE.tsv --pairs 24 --out runs/mine

For every contrast (one sentence, one option order, a feminine against a masculine priming pronoun) it patches each
head's output at the target slot in both directions, reads attention and direct attribution of the priming pronoun, and
for a few pairs sweeps the residual stream by layer and span.
"""

from referent_probe import cli
from referent_probe.priming_pronoun import Settings


def main(
    model: cli.ModelOption = cli.DEFAULT_MODEL,
    stimuli: cli.StimuliOption = "builtin",
    password: cli.PasswordOption = None,
    pairs: cli.PairsOption = 8,
    flow_pairs: cli.FlowPairsOption = 2,
    prompts: cli.PromptsOption = None,
    out: cli.OutOption = None,
    seed: cli.SeedOption = 0,
    device: cli.DeviceOption = "auto",
    dtype: cli.DtypeOption = "float32",
    revision: cli.RevisionOption = None,
    smallest_share: cli.SmallestOption = 0.01,
    csv: cli.CsvOption = False,
    config: cli.ConfigOption = None,
    as_json: cli.JsonOption = False,
    quiet: cli.QuietOption = False,
) -> None:
    """Patch every head at the target slot, and say which ones carry the priming pronoun into the answer."""
    settings = Settings(
        model, stimuli, password, pairs, flow_pairs, prompts, out, seed, device, dtype, revision, smallest_share, csv
    )
    cli.show_job(settings, as_json=as_json, quiet=quiet)


if __name__ == "__main__":
    cli.run_command(main)
