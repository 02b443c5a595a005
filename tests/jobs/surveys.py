"""Surveys that several tests look at."""

from referent_probe.jobs.survey import SurveyJob
from tests.jobs.planted import Do, Done


def of_conflater(do: Do) -> Done:
    """Just enough occupations for claims that are held out."""
    return do("conflater", SurveyJob(flow_pairs=2, leading=2), pairs=12)


def of_gated_repeater(do: Do) -> Done:
    """Too few occupations for claims that are held out; another architecture of as many heads."""
    return do("gated-repeater", SurveyJob(flow_pairs=2, leading=0))


def of_binder(do: Do) -> Done:
    """A model without any effect, and a survey without flow."""
    return do("binder", SurveyJob(flow_pairs=0, leading=0), pairs=2)
