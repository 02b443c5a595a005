"""A command's options from a TOML file: keys are the options' names, values are of the options' kinds."""

from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

from referent_probe.errors import OptionError
from referent_probe.stimuli.quoting import quoted
from referent_probe.stimuli.toml_file import read_toml

_LARGEST = 2**63
"""Integers beyond it are no TOML either, though Python reads them."""


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a TOML file as defaults; what the command line gives overrides them.

    Raises:
        OptionError: The file cannot be read, a key is no option, or a value is not of its option's kind.

    Example:
        `flow-pairs = 2` stands for `--flow-pairs 2`, and `json = true` for `--json`.
    """
    if path is None:
        return None
    options = {
        max(parameter.opts, key=len).removeprefix("--"): parameter.name
        for parameter in context.command.params
        if parameter.name not in (None, "config", "help") and parameter.opts[0].startswith("-")
    }
    arguments = {str(p.name).replace("_", "-") for p in context.command.params if not p.opts[0].startswith("-")}
    annotations = get_type_hints(context.command.callback)
    defaults: dict[str, Any] = {}
    for key, value in read_toml(path, OptionError).items():
        name = options.get(key.replace("_", "-"))
        if name is None and key.replace("_", "-") in arguments:
            raise OptionError(f"--config {str(path)!r}: {quoted(key)} is given on the command line, not here")
        if name is None:
            known = ", ".join(sorted(options))
            raise OptionError(f"--config {str(path)!r}: unknown key {quoted(key)}; known are {known}")
        if name in defaults:
            raise OptionError(f"--config {str(path)!r}: key {quoted(key)} stands there twice; write it once")
        if wanted := _mismatch(value, annotations[name]):
            shown = str(value).lower() if isinstance(value, bool) else quoted(value)
            raise OptionError(f"--config {str(path)!r}: {key} = {shown} is of the wrong kind; give {wanted}")
        defaults[name] = value
    context.default_map = {**(context.default_map or {}), **defaults}
    return path


def _mismatch(value: Any, annotation: Any) -> str | None:
    """What the option takes, where the value is something else."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    if get_origin(annotation) is Literal:
        return None if value in kinds else f"one of {', '.join(map(repr, kinds))}"
    kind = kinds[0] if kinds else annotation
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
    if kind is int:
        return None if number else "a whole number, without quotation marks"
    if kind is float:
        return None if number or isinstance(value, float) else "a number, without quotation marks"
    # A path with a NUL makes the system's calls fail.
    return None if isinstance(value, str) and "\0" not in value else "text in quotation marks"
