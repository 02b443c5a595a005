"""The commands `models`, `models get` and `doctor`: what is printed, where, and with which status."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from referent_probe import cli, doctor
from referent_probe.doctor import Finding, Status
from referent_probe.errors import ModelError
from referent_probe.models import shelf
from referent_probe.models.registry import KNOWN
from referent_probe.models.shelf import Got


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit status of a command."""
    monkeypatch.setattr(sys, "argv", ["referent-probe", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return int(stop.value.code or 0)


def test_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "models") == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    for name in KNOWN:
        assert sum(line.split()[:1] == [name] for line in lines) == 1
    assert "Gemma terms of use" in printed
    assert "Hub: meta-llama/Llama-3.1-8B-Instruct; Llama 3.1 Community License, gated." in printed


def test_list_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "models", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in listed][: len(KNOWN)] == list(KNOWN)
    assert {"name", "origin", "at_hand", "how", "parameters", "licence"} <= set(listed[0])


@pytest.mark.parametrize(("was_there", "printed"), [(True, "is at hand already: "), (False, "is at hand: ")])
def test_get(
    was_there: bool, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}

    def get_model(name: str, **options: Any) -> Got:
        asked.update(options)
        options["notify"]("fetching")
        return Got(name, Path("/there"), was_there, KNOWN["gemma-3-270m"])

    monkeypatch.setattr(shelf, "get_model", get_model)
    assert run(monkeypatch, "models", "get", "gemma-3-270m", "--revision", "v1") == 0
    seen = capsys.readouterr()
    assert f"gemma-3-270m {printed}/there\nlicence: Gemma terms of use" in seen.out
    assert seen.err.strip() == "fetching"
    assert asked["revision"] == "v1"


def test_get_what_cannot_be_had(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def get_model(name: str, **options: Any) -> Got:
        raise ModelError("no network; go online")

    monkeypatch.setattr(shelf, "get_model", get_model)
    assert run(monkeypatch, "models", "get", "phi-4") == 2
    assert capsys.readouterr().err == "error: no network; go online\n"


@pytest.mark.parametrize(("status", "code"), [(Status.OK, 0), (Status.WARNING, 0), (Status.FAILED, 2)])
@pytest.mark.parametrize("as_json", [False, True])
def test_doctor(
    status: Status, code: int, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def examine(notify: Any) -> Iterator[Finding]:
        notify("loading")
        yield Finding("Python", Status.OK, "3.11")
        yield Finding("torch", status, "broken?", "mend it")

    monkeypatch.setattr(doctor, "examine", examine)
    assert run(monkeypatch, "doctor", *(["--json"] if as_json else [])) == code
    seen = capsys.readouterr()
    if as_json:
        found = json.loads(seen.out)
        assert found["ok"] is (code == 0)
        assert found["findings"][1] == {"about": "torch", "status": status, "found": "broken?", "cure": "mend it"}
        assert seen.err == ""
    else:
        assert f"{status:<8} torch: broken?; mend it" in seen.out
        assert seen.out.splitlines()[-1].startswith("1 failed" if code else "0 failed")
