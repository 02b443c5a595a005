import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

from referent_probe import cli
from referent_probe.analysis.carriers import CarrierRule, head_effects
from referent_probe.errors import ReferentProbeError
from referent_probe.figures import attention_by_layer
from referent_probe.priming_pronoun import Finished
from referent_probe.stimuli.templates import load_stimuli
from tests.synthetic import heads_table


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
    assert "no rule broken. Pairs: 180 (" in done.stdout
    done = run("stimuli", "show", "002")
    assert done.returncode == 0
    assert done.stdout.count("[user] Text:") == 2 * 7 * 2
    done = run("stimuli", "show", "999")
    assert (done.returncode, "no item '999'" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("item", "templates"),
    [("2", ["002a", "002b"]), ("02", ["002a", "002b"]), ("2b", ["002b"]), ("002A", ["002a"]), ("20", ["020a", "020b"])],
)
def test_ids_need_no_zeros_before_them(item: str, templates: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cli.show(item)
    assert re.findall(r"^(\d+[ab])  ", capsys.readouterr().out, re.MULTILINE) == templates


def test_every_id_is_named_by_its_number_alone() -> None:
    pairs = load_stimuli().pairs
    for pair in pairs:
        assert cli._templates_of(str(int(pair.id)), pairs, "builtin") == [(pair, t) for t in pair.members]
        for template in pair.members:
            assert cli._templates_of(template.id.lstrip("0"), pairs, "builtin") == [(pair, template)]


@pytest.mark.parametrize(
    ("item", "nearest"),
    [
        ("0", "001, 002, 003"),
        ("181", "180, 179, 178"),
        ("1000000000001", "180, 179, 178"),
        ("004c", "004a, 004b"),
        ("4a-mf", "004a, 004b"),
        ("nurse", None),
        ("", None),
    ],
)
def test_an_unknown_id_is_told_what_ids_look_like_and_the_nearest(item: str, nearest: str | None) -> None:
    with pytest.raises(ReferentProbeError) as error:
        cli.show(item)
    message = str(error.value)
    assert f"no item {item!r} in 'builtin': ids are the pairs' numbers in the file, 001 to 180" in message
    assert "001a or 001b" in message
    assert message.endswith(f"; nearest: {nearest}") if nearest else "nearest" not in message


def test_the_table_shows_what_the_figure_of_attribution_shows(capsys: pytest.CaptureFixture[str]) -> None:
    heads = head_effects(heads_table(8), 0.01, CarrierRule(), seed=0)
    heads.loc[heads["layer"] == 1, "prime_attribution_mean"] = np.nan
    summary = {
        "n_occupations": 8,
        "n_contrasts": 32,
        "cost": {"forward_equivalents_target_slot": 1.0, "tokens": 9.0, "first_difference": 3.0, "seconds": 1.0},
    }
    cli._print_finished(Finished(Path("run"), summary, heads, "In words.", was_complete=False))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.search(r"attention +DLA +via prime +carrier", lines[1])
    by_head = {line.split()[0]: line.split() for line in lines if re.match(r"\d\.\d ", line)}
    assert by_head["0.1"][-3:] == ["+1.00", "-0.10", "both"]  # 1.5 - 0.5 and 0.3 - 0.4, see heads_table
    assert by_head["1.0"][-3:] == ["+1.00", "-", "noise"]
    beside = " ".join(" ".join(lines).split())
    assert "n = 8 occupations, 32 contrasts" in beside
    assert "direct logit attribution" in beside
    figure = attention_by_layer(heads)
    assert "direct logit attribution via the priming pronoun" in figure.axes[1].get_title()
    drawn = [offset for dots in figure.axes[1].collections for offset in np.asarray(dots.get_offsets()).tolist()]
    assert [0, pytest.approx(-0.1)] in drawn


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


USAGE = [
    (["stimuli", "check"], "Missing argument 'path'; see `"),
    (["stimuli", "check", "builtin", "b"], "unexpected extra argument(s) (b); see `"),
    (["stimuly"], "No such command 'stimuly'. Did you mean 'stimuli'?"),
    (["stimuli", "check", "--no-such"], "No such option: --no-such"),
    (["models", "--json=3"], "Option '--json' does not take a value: '3' was given"),
    (["\x1b[31m"], "No such command '\\x1b[31m'"),
    (["stimuli", "check", "--no\udcff"], "No such option: --no\\udcff"),
    (["stimuli", "check", "\udcff.tsv"], "there is no file '\\udcff.tsv'"),
    (["stimuli", "show", "a\nb"], "no item 'a\\nb'"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=[message for _, message in USAGE])
def test_a_usage_error_is_one_line(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["referent-probe", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out, err = capsys.readouterr()
    assert (stop.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert message in err


def test_without_arguments_the_help_is_printed_once() -> None:
    done = run()
    assert (done.returncode, done.stderr, done.stdout.count("Usage: ")) == (2, "", 1)
    assert done.stdout.strip() == run("--help").stdout.strip()


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (SystemExit(130), 130),
        (SystemExit(), 0),
        (SystemExit("why"), 1),
        (None, 0),
        (typer.Exit(3), 3),
        (typer.Abort(), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_statuses_are_kept(raised: BaseException | None, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["script"])

    def command() -> None:
        if raised is not None:
            raise raised

    with pytest.raises(SystemExit) as stop:
        cli.run_command(command)
    assert stop.value.code == status


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")]
)
@pytest.mark.parametrize("arguments", ["stimuli show 002", "--help", "models --json"])
def test_an_output_that_fails_is_one_line(arguments: str, redirection: str, reason: str) -> None:
    command = f"{sys.executable} -m referent_probe {arguments} {redirection}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot write to standard output ({reason})")
    assert done.stderr.count("\n") == 1


def test_an_error_that_cannot_be_printed_keeps_its_status() -> None:
    for redirection in ("2>&-", "2>/dev/full"):
        command = f"{sys.executable} -m referent_probe stimuli show 999 {redirection}"
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")


def test_role_nouns_with_markup_and_any_file_name_print_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "[red]\udcff.tsv"
    row = "[bold]\t:bomb:\t{}\t$NOM_PRONOUN\tThe $OCCUPATION thanked the $PARTICIPANT for a meal as $NOM_PRONOUN {}.\n"
    path.write_text(
        "occupation(0)\tother-participant(1)\tanswer\tpronoun_type\ttemplate\n"
        + row.format(0, "ate")
        + row.format(1, "left")
    )
    done = run("stimuli", "show", "001a", "--stimuli", str(path))
    assert done.returncode == 0, done.stderr
    assert "The [bold] thanked the :bomb: for a meal as BLANK ate." in done.stdout
    done = run("stimuli", "check", str(path))
    assert done.returncode == 0, done.stderr
    assert "[red]\\udcff.tsv: no rule broken" in done.stdout


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
