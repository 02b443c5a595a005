"""Commands about models and the machine: what is at hand, getting the rest, and whether everything works."""

import json
from typing import Annotated

import typer
from rich.console import Console

models_app = typer.Typer(help="Which models are at hand, and getting others.", no_args_is_help=False)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context, as_json: _Json = False) -> None:
    """List the models that can be named with --model: at hand or how to get them, parameters, licence."""
    if context.invoked_subcommand is not None:
        return
    from referent_probe.models.shelf import list_models

    listed = list_models()
    if as_json:
        print(json.dumps([model.as_dict() for model in listed], indent=1))
        return
    for model in listed:
        size = "" if model.parameters is None else _count(model.parameters)
        print(f"{model.name:<21}  {size:>6}  {'at hand' if model.at_hand else f'get it with: {model.how}'}")
        licence = "" if model.licence is None else f"; {model.licence}{', gated' if model.gated else ''}"
        print(f"    {model.origin}{licence}. {model.note}".rstrip())
    print(
        "\n--model takes these names, a folder, a GGUF file, or any Hub id. "
        "For a gated model accept its terms on the Hub, and set HF_TOKEN."
    )


@models_app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="A name of the list, or a Hub id such as org/model.")],
    revision: Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of a Hub model.")] = None,
) -> None:
    """Fetch a model so that it loads without a network. What is there already is left alone."""
    from referent_probe.models.shelf import get_model

    err = Console(stderr=True, highlight=False, markup=False, emoji=False)
    got = get_model(name, revision=revision, notify=lambda message: err.print(message, soft_wrap=True))
    print(f"{name} is at hand{' already' if got.was_there else ''}: {got.where}")
    if got.known is not None:
        print(f"licence: {got.known.licence}. {got.known.note}".rstrip())


def doctor(as_json: _Json = False) -> None:
    """Look whether everything works that a run needs; each line names the cure. Status 2 if something failed."""
    from referent_probe.doctor import Status, examine

    err = Console(stderr=True, quiet=as_json, highlight=False, markup=False, emoji=False)
    findings = []
    for finding in examine(lambda message: err.print(message, soft_wrap=True)):
        findings.append(finding)
        if not as_json:
            print(finding, flush=True)
    failed = sum(finding.status is Status.FAILED for finding in findings)
    warned = sum(finding.status is Status.WARNING for finding in findings)
    if as_json:
        found = {"ok": failed == 0, "findings": [finding.as_dict() for finding in findings]}
        print(json.dumps(found, indent=1))
    else:
        print(f"{failed} failed, {warned} warnings, {len(findings) - failed - warned} ok")
    if failed:
        raise typer.Exit(2)


def _count(parameters: int) -> str:
    return f"{parameters / 1e9:.1f} B" if parameters >= 1e9 else f"{parameters / 1e6:.0f} M"
