"""Does contextuality reflect that the model takes one person for the other?

    python experiments/referent_conflation.py
    python experiments/referent_conflation.py --model PATH_OR_HUB_ID --stimuli winopron-data.zip --out runs/conflation

Primes that differ in whose pronoun it is (the blank's own referent's, the other person's, a third person's, nobody's)
give a verdict on behaviour; heads that carry the other person's pronoun as such, and heads that copy any pronoun, are
chosen on one half of the data and cut on the other, and what remains of contextuality says what it was made of. The
answer is one sentence in summary.json.
"""

from referent_probe import cli, cli_jobs
from referent_probe.cli_job_options import job_command
from referent_probe.jobs.conflation import ConflationJob


@job_command(pairs=40, script=True)
def main(frames: cli_jobs.FramesOption = None, random_sets: cli_jobs.RandomSetsOption = 200) -> ConflationJob:
    """Say whether the model takes one person for the other, and which heads are behind it."""
    return ConflationJob(frames, random_sets=random_sets)


if __name__ == "__main__":
    cli.run_command(main)
