"""referent-probe: which heads carry another person's pronoun into a language model's answer?

The public list. Names are imported when they are first used, so that `import referent_probe` needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from referent_probe.analysing import Analysed, analyse
    from referent_probe.analysis.contextuality import cyclic_delta_c, delta_c, delta_c_joint
    from referent_probe.analysis.couplings import System, contextuality_lp
    from referent_probe.analysis.divergence import bernoulli_kl_bits
    from referent_probe.errors import ReferentProbeError
    from referent_probe.jobs.ablate import AblateJob
    from referent_probe.jobs.circuit import CircuitJob
    from referent_probe.jobs.compare import compare_surveys
    from referent_probe.jobs.conflation import ConflationJob
    from referent_probe.jobs.head import HeadJob
    from referent_probe.jobs.knockout import KnockoutJob
    from referent_probe.jobs.patch import PatchJob
    from referent_probe.jobs.run import run_job
    from referent_probe.jobs.settings import JobSettings
    from referent_probe.jobs.survey import SurveyJob
    from referent_probe.measure_settings import MeasureSettings
    from referent_probe.measurement.answer import answer_probabilities
    from referent_probe.measurement.readings import readings
    from referent_probe.measurement.warp import SamplingSettings, resolve_settings
    from referent_probe.measuring import measure
    from referent_probe.mechanism.contrasts import build_contrasts
    from referent_probe.mechanism.patching import patch_contrast
    from referent_probe.mechanism.plan import plan
    from referent_probe.models.load import load_model
    from referent_probe.planted.plant import plant
    from referent_probe.priming_pronoun import Settings, patch_priming_pronoun
    from referent_probe.stimuli.check import check_stimuli
    from referent_probe.stimuli.options import FORMS
    from referent_probe.stimuli.prompts import choice_prompt, load_wording
    from referent_probe.stimuli.templates import draw_pairs, load_stimuli

_HOMES = {
    "AblateJob": "jobs.ablate",
    "Analysed": "analysing",
    "CircuitJob": "jobs.circuit",
    "ConflationJob": "jobs.conflation",
    "FORMS": "stimuli.options",
    "HeadJob": "jobs.head",
    "JobSettings": "jobs.settings",
    "KnockoutJob": "jobs.knockout",
    "MeasureSettings": "measure_settings",
    "PatchJob": "jobs.patch",
    "ReferentProbeError": "errors",
    "SamplingSettings": "measurement.warp",
    "Settings": "priming_pronoun",
    "SurveyJob": "jobs.survey",
    "System": "analysis.couplings",
    "analyse": "analysing",
    "answer_probabilities": "measurement.answer",
    "bernoulli_kl_bits": "analysis.divergence",
    "build_contrasts": "mechanism.contrasts",
    "check_stimuli": "stimuli.check",
    "choice_prompt": "stimuli.prompts",
    "compare_surveys": "jobs.compare",
    "contextuality_lp": "analysis.couplings",
    "cyclic_delta_c": "analysis.contextuality",
    "delta_c": "analysis.contextuality",
    "delta_c_joint": "analysis.contextuality",
    "draw_pairs": "stimuli.templates",
    "load_model": "models.load",
    "load_stimuli": "stimuli.templates",
    "load_wording": "stimuli.prompts",
    "measure": "measuring",
    "patch_contrast": "mechanism.patching",
    "patch_priming_pronoun": "priming_pronoun",
    "plan": "mechanism.plan",
    "plant": "planted.plant",
    "readings": "measurement.readings",
    "resolve_settings": "measurement.warp",
    "run_job": "jobs.run",
}

__all__ = [
    "FORMS",
    "AblateJob",
    "Analysed",
    "CircuitJob",
    "ConflationJob",
    "HeadJob",
    "JobSettings",
    "KnockoutJob",
    "MeasureSettings",
    "PatchJob",
    "ReferentProbeError",
    "SamplingSettings",
    "Settings",
    "SurveyJob",
    "System",
    "analyse",
    "answer_probabilities",
    "bernoulli_kl_bits",
    "build_contrasts",
    "check_stimuli",
    "choice_prompt",
    "compare_surveys",
    "contextuality_lp",
    "cyclic_delta_c",
    "delta_c",
    "delta_c_joint",
    "draw_pairs",
    "load_model",
    "load_stimuli",
    "load_wording",
    "measure",
    "patch_contrast",
    "patch_priming_pronoun",
    "plan",
    "plant",
    "readings",
    "resolve_settings",
    "run_job",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
