"""The mistakes a user can make and mend.

Every message quotes the offending input and names the cure. The command line prints the message alone and exits
with status 2; anything that is not a `ReferentProbeError` is a fault of this package and exits with status 1.
"""


class ReferentProbeError(Exception):
    """Base class: something in the input, the files or the environment that the user can put right."""


class StimuliError(ReferentProbeError):
    """A stimuli file that is missing, unreadable or breaks a rule."""


class PromptError(ReferentProbeError):
    """A prompt wording, or a prompt and tokenizer, that cannot be used together."""


class ModelError(ReferentProbeError):
    """A model that cannot be found, loaded or trusted."""


class RunError(ReferentProbeError):
    """A run folder that cannot be made, continued or written."""


class OptionError(ReferentProbeError):
    """A value of a command's option that is out of range."""


class ExactnessError(Exception):
    """A fast computation disagrees with its brute-force twin: a fault of this package, never shown as a result."""
