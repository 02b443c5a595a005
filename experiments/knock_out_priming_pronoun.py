"""In which layers does the answer read the prime, and from where?

    python experiments/knock_out_priming_pronoun.py
    python experiments/knock_out_priming_pronoun.py --queries later --window 1 --pairs 24 --out runs/knockout

Attention to the priming pronoun, to the whole prime and to controls is cut in windows of layers, before softmax and
after it; what remains of the prime's effect is drawn window by window.
"""

from referent_probe import cli, cli_jobs
from referent_probe.cli_job_options import job_command
from referent_probe.jobs.knockout import KnockoutJob


@job_command(pairs=12, script=True)
def main(
    window: cli_jobs.WindowOption = 0,
    mode: cli_jobs.ModeOption = "both",
    queries: cli_jobs.QueriesOption = "target-slot",
) -> KnockoutJob:
    """Cut attention to the prime, in windows of layers, beside controls."""
    return KnockoutJob(window, mode, queries)


if __name__ == "__main__":
    cli.run_command(main)
