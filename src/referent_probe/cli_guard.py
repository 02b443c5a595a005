"""What a user sees when a command ends: one line for a mistake, a traceback for a fault of ours, the exit status."""

import contextlib
import os
import sys
import traceback
from typing import Any, NoReturn, TextIO, cast

import typer

from referent_probe.errors import ReferentProbeError
from referent_probe.stimuli.quoting import printable, quoted

# Of click, or of the copy inside newer typer.
_ClickError = cast(type[Exception], typer.BadParameter.__mro__[2])


class OutputError(Exception):
    """Standard output is closed or full."""


class _Stream:
    """A text stream whose failure is an `OutputError` or, for errors themselves, silence; and that writes any text."""

    def __init__(self, stream: TextIO | None, silent: bool) -> None:
        self._stream, self._silent, self._broken = stream, silent, False

    def write(self, text: str) -> int:
        if self._stream is None:  # closed before Python began
            self._fail("it is closed")
        elif not self._broken:
            encoding = self._stream.encoding or "utf-8"
            # A file name may hold bytes that are no text, and a terminal may lack a letter.
            shown = text.encode(encoding, "backslashreplace").decode(encoding)
            try:
                self._stream.write(shown)
            except (OSError, ValueError) as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None and not self._broken:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._fail(error)

    def _fail(self, error: Exception | str) -> None:
        self._broken = True
        # What is still in the buffer goes nowhere, or Python's last flush would fail with a traceback.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), cast(TextIO, self._stream).fileno())
        if not self._silent:
            reason = getattr(error, "strerror", None) or error
            raise OutputError(f"cannot write to standard output ({reason}); send it to a file or disk with space")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guarded(application: typer.Typer) -> NoReturn:
    """Run a command and exit: status 0 done, 2 the user's mistake (one line, no traceback), 1 ours or no output."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast(TextIO, _Stream(out, silent=False)), cast(TextIO, _Stream(err, silent=True))
    try:
        status = _run(application)
        try:
            sys.stdout.flush()
        except OutputError as error:
            status = _complain(error, 1)
        sys.stderr.flush()
    finally:
        sys.stdout, sys.stderr = out, err
    sys.exit(status)


def _run(application: typer.Typer) -> int:
    try:
        status = application(standalone_mode=False)
        return status if isinstance(status, int) else 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else _complain(stop.code, 1)
    except ReferentProbeError as error:
        return _complain(error, 2)
    except OutputError as error:
        return _complain(error, 1)
    except typer.Abort:
        return _complain("aborted", 1)
    except _ClickError as error:
        return _usage(error)
    except Exception:
        traceback.print_exc()
        print("this is a fault of referent-probe, please report it with the lines above", file=sys.stderr)
        return 1


def _usage(error: Any) -> int:
    """Says what is wrong with the command line; the status."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message().rstrip(), end="")  # empty where rich has printed the help already
        return int(error.exit_code)
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    given = _given(error)
    if given is not None and quoted(given) not in message:
        message = f"{message}: {quoted(given)} was given"
    command = f"{context.command_path} --help" if context is not None else "--help"
    return _complain(f"{message}; see `{command}`", int(error.exit_code))


def _given(error: Any) -> str | None:
    """The value that does not fit, where the message may lack it."""
    if (details := getattr(error.__cause__, "errors", None)) is not None:  # pydantic's, in newer typer
        return str(details()[0]["input"])
    option = getattr(error, "option_name", None)
    values = [argument.partition("=")[2] for argument in sys.argv if option and argument.startswith(f"{option}=")]
    return values[0] if values else None


def _complain(error: Any, status: int) -> int:
    print(f"error: {printable(' '.join(str(error).split()))}", file=sys.stderr)
    return status
