import subprocess
import sys
from pathlib import Path

import pytest

from referent_probe import cli


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "referent_probe", *arguments], capture_output=True, text=True)


def test_help_answers_without_torch() -> None:
    code = (
        "import sys; sys.argv = ['referent-probe', '--help']\n"
        "from referent_probe import cli\n"
        "try:\n    cli.main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'torch', 'transformers', 'transformer_lens', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "stimuli" in done.stdout


def test_import_needs_no_torch_and_every_public_name_is_there() -> None:
    code = (
        "import sys, referent_probe\n"
        "assert 'torch' not in sys.modules\n"
        "assert all(getattr(referent_probe, name) for name in referent_probe.__all__)\n"
        "assert set(dir(referent_probe)) == set(referent_probe.__all__)\n"
        "try:\n    referent_probe.nothing\nexcept AttributeError:\n    pass\nelse:\n    raise SystemExit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_stimuli_check_and_show() -> None:
    done = run("stimuli", "check", "builtin")
    assert done.returncode == 0
    assert "no rule broken. 72 pairs" in done.stdout
    done = run("stimuli", "show", "002")
    assert done.returncode == 0
    assert done.stdout.count("[user] Passage:") == 2 * 3 * 2
    done = run("stimuli", "show", "999")
    assert (done.returncode, "no item '999'" in done.stderr) == (2, True)


def test_stimuli_check_names_row_rule_and_cure(tmp_path: Path) -> None:
    path = tmp_path / "broken.tsv"
    path.write_text(
        "occupation(0)\tother-participant(1)\tanswer\tpronoun_type\ttemplate\n"
        "cook\tguest\t0\t$NOM_PRONOUN\tThe $OCCUPATION thanked the $PARTICIPANT for her help as $NOM_PRONOUN ate.\n"
        "cook\tguest\t0\t$NOM_PRONOUN\tThe $OCCUPATION thanked the $PARTICIPANT for one meal as $NOM_PRONOUN left.\n"
    )
    done = run("stimuli", "check", str(path))
    assert done.returncode == 2
    assert "2" in done.stdout
    assert "'her'" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "breaks the rules" in done.stderr


def test_a_fault_of_ours_is_status_1_with_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(sys, "argv", ["script"])
    with pytest.raises(SystemExit) as stop:
        cli.run_command(broken)
    assert stop.value.code == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
