"""Stimuli and wording that lie in a model's folder: read, said, and never missed in silence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from referent_probe.errors import PromptError, StimuliError
from referent_probe.stimuli.beside_model import TRUTH, stimuli_for, what_is_read, wording_for
from referent_probe.stimuli.prompts import DEFAULT_WORDING

WORDING = "system = ''\nuser = '{passage} {option_1} {option_2}'\nprefill = ''\n"


def spoil(folder: Path, name: str, how: str) -> None:
    (folder / name).unlink()
    if how == "folder":
        (folder / name).mkdir()
    elif how == "link":
        (folder / name).symlink_to("nowhere")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stimuli.tsv").write_text("")
    (tmp_path / "prompts.toml").write_text(WORDING)
    (tmp_path / TRUTH).write_text("{}")
    return tmp_path


def test_what_is_beside_the_model_is_read_unless_another_is_named(folder: Path) -> None:
    model, mine = str(folder), folder / "mine.toml"
    assert stimuli_for(model, None) == f"{folder}/stimuli.tsv"
    assert wording_for(model, None).user == "{passage} {option_1} {option_2}"
    assert what_is_read(model, None, None) == f"stimuli: {folder}/stimuli.tsv; wording: {folder}/prompts.toml"
    assert what_is_read(model, "builtin", mine) == f"stimuli: builtin; wording: {mine}"
    assert stimuli_for(model, "builtin") == "builtin"


@pytest.mark.parametrize("model", ["smollm2-135m-instruct", "org/model", "~nobody-at-all/x", "x" * 5000, "a\0b"])
def test_other_models_have_the_builtin_ones(model: str) -> None:
    assert what_is_read(model, None, None) == "stimuli: builtin; wording: builtin"
    assert wording_for(model, None) is DEFAULT_WORDING


def test_an_ordinary_folder_needs_neither(folder: Path) -> None:
    for name in (TRUTH, "stimuli.tsv", "prompts.toml"):
        (folder / name).unlink()
    assert what_is_read(str(folder), None, None) == "stimuli: builtin; wording: builtin"


CASES: list[tuple[str, type[Exception], Callable[[str], object], str]] = [
    ("stimuli.tsv", StimuliError, lambda model: stimuli_for(model, None), "--stimuli"),
    ("prompts.toml", PromptError, lambda model: wording_for(model, None), "--prompts"),
]


@pytest.mark.parametrize(("name", "kind", "read", "option"), CASES, ids=["stimuli", "wording"])
@pytest.mark.parametrize("how", ["missing", "link", "folder"])
def test_a_planted_model_without_its_own_is_refused(
    folder: Path, name: str, kind: type[Exception], read: Callable[[str], object], option: str, how: str
) -> None:
    spoil(folder, name, how)
    message = "lacks '{}', .* make it again" if how == "missing" else "'{}' in the model's folder '.*' is no file"
    with pytest.raises(kind, match=rf"{message.format(name)}.* {option}$"):
        read(str(folder))
    with pytest.raises(kind, match=option):
        what_is_read(str(folder), None, None)
    if how != "missing":  # of any model's folder
        (folder / TRUTH).unlink()
        with pytest.raises(kind, match="is no file"):
            read(str(folder))


def test_a_planted_model_with_named_ones_is_taken(folder: Path) -> None:
    mine = folder / "mine.toml"
    mine.write_text(WORDING)
    for name in ("stimuli.tsv", "prompts.toml"):
        spoil(folder, name, "missing")
    assert stimuli_for(str(folder), "builtin") == "builtin"
    assert wording_for(str(folder), mine).name == "mine"


def test_the_line_stays_one_line(folder: Path) -> None:
    odd = folder / "a\nb"
    odd.mkdir()
    (odd / "stimuli.tsv").write_text("")
    assert what_is_read(str(odd), None, None) == f"stimuli: {folder}/a\\nb/stimuli.tsv; wording: builtin"
