"""What do heads write into the answer, and from which part of the prompt do they take it?

    python experiments/attribute_attention.py
    python experiments/attribute_attention.py --model PATH_OR_HUB_ID --pairs 24 --out runs/attribution

Direct logit attribution of every head at the target slot, by the span of the prompt that it attends to, feminine less
masculine prime. Sources add up to heads, and heads with embedding, MLPs and biases to the logit difference; how far
they are off is in summary.json, self_check.
"""

from referent_probe import cli
from referent_probe.cli_job_options import job_command
from referent_probe.jobs.survey import SurveyJob


@job_command(pairs=12, script=True)
def main() -> SurveyJob:
    """Attribute the answer to heads, and to the spans that they attend to."""
    return SurveyJob(flow_pairs=0, leading=0)


if __name__ == "__main__":
    cli.run_command(main)
