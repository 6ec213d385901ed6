"""Exit codes, and the message of each expected error."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NoReturn

import apsw
import typer
from pydantic import ValidationError

from accountant.errors import BudgetError, LogDamaged, MadeByOtherVersion, RequestInvalid
from accountant.foreign_text import escape_lines
from accountant.records.inputs import Undecodable
from accountant.replay.replay import GenesisDiffers
from accountant.suggest import did_you_mean
from streams.address import AddressInvalid
from streams.cli.printing.safe_streams import output_error, reader_is_gone
from streams.clock import CLOCK_OUT_OF_RANGE
from streams.errors import ClockOutOfRange, JournalFault, NotPermitted, Refused, name_missing_extra
from streams.settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Exit(IntEnum):
    """The exit codes; docs/reference/commands.md documents them."""

    OK = 0
    FAILED = 1
    """Refused, does not fit, not found, or the audit failed."""
    USAGE = 2
    """The command line, or a value in it, is wrong."""
    UNAVAILABLE = 3
    """The ledger or broker does not answer: the same command may work later."""
    OPERATOR = 4
    """An operator must act: refused start, wrong topics, damaged or locked file, wrong clock."""
    REPEATED = 5
    """The id was granted before: the mechanism must not run a second time for it."""
    WOULD_GRANT = 6
    """A dry run would be granted. Nothing was granted, so the mechanism must not run."""
    INTERRUPTED = 130


_CLOCK: Final = "correct the clock of the machine that runs the ledger, for example with NTP"
_ADDRESS: Final = (
    "check the address (--url, ACCOUNTANT_URL) and run the command again; retries are safe"
)
_UNDECIDED: Final = (
    "check that a worker runs. The request was accepted and is decided as soon as one does: "
    "look at the dataset before you run the command again"
)
_OPTIONS: Final = {
    "unauthenticated_bind": "--bind",
    **{f"login_{name}": f"--{name}".replace("_", "-") for name in ("issuer", "client_id")},
    **{f"login_{name}": f"--{name}" for name in ("scopes", "audience", "resource")},
}


def fail(code: Exit, message: str, *, hint: str | None = None) -> NoReturn:
    """End the command with a message on stderr, and what to do next."""
    complain(message, hint=hint)
    raise typer.Exit(code)


def complain(message: str, *, hint: str | None = None) -> None:
    """Print to stderr what went wrong, and what to do next."""
    from streams.cli.printing.output import stderr

    stderr().print(f"[bold red]error:[/] {_plain(message)}", soft_wrap=True)
    if hint:
        stderr().print(f"[bold]try:[/]   {_plain(hint)}", soft_wrap=True)


def check_output_complete() -> None:
    """End the command if some output was lost although its reader is still there."""
    if output_error() is not None and not reader_is_gone():
        raise typer.Exit(Exit.OPERATOR)


def fail_word(option: str, rule: str, word: str, known: Iterable[str]) -> NoReturn:
    """End the command for a value that its option does not accept; suggest a close one."""
    meant = did_you_mean(word, known)()
    # The suggestion comes first: the rule may list many words.
    start = f"{option} {word}: {meant} " if meant else ""
    fail(Exit.USAGE, f"{start}{option} {rule}, got {word}")


def fail_unanswered(message: str, *, again: str | None = None) -> NoReturn:
    """End the command without a decision. Only a wrong clock needs an operator.

    Args:
        again: how to send the request again.
    """
    # Over HTTP, only the text of the message tells a wrong clock from other faults.
    if message.startswith(CLOCK_OUT_OF_RANGE):
        fail(Exit.OPERATOR, message, hint=_CLOCK if again is None else f"{_CLOCK}; then {again}")
    fail(Exit.UNAVAILABLE, message, hint=again or _ADDRESS)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


@contextmanager
def escape_usage_errors() -> Iterator[None]:
    """Escape control characters in usage errors, which repeat the words of the user."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str):
            error.message = escape_lines(message)  # type: ignore[attr-defined]
        raise


@contextmanager
def explain_errors() -> Iterator[None]:
    """Turn the expected errors of a command into a message and an exit code."""
    try:
        with name_missing_extra():
            yield
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    except AddressInvalid as error:
        fail(Exit.USAGE, _of_url(str(error)))
    except (RequestInvalid, Undecodable) as error:
        fail(Exit.USAGE, str(error))
    except ClockOutOfRange as error:
        fail(Exit.OPERATOR, str(error), hint=_CLOCK)
    except Refused as error:
        _explain_refused(error)
    except (GenesisDiffers, MadeByOtherVersion) as error:  # nothing is damaged
        fail(Exit.OPERATOR, str(error))
    except LogDamaged as error:
        hint = "keep a copy of the log; `accountant audit` names the first record that disagrees"
        fail(Exit.OPERATOR, f"the decision log is damaged: {error}", hint=hint)
    except JournalFault as error:
        _explain_unavailable(error)
    except BudgetError as error:
        fail(Exit.FAILED, str(error))
    except apsw.Error as error:
        hint = "check that --url names a ledger's file on a local disk that you may write to"
        fail(Exit.OPERATOR, f"the ledger's file cannot be used: {error}", hint=hint)
    except OSError as error:
        _explain_system(error)


def _explain_unavailable(error: JournalFault) -> NoReturn:
    # Imported late: most commands start without the client.
    from streams.client.requests import Undecided

    if isinstance(error, Undecided):
        fail_unanswered(error.why, again=_UNDECIDED)
    fail_unanswered(str(error))


def _explain_refused(error: Refused) -> NoReturn:
    if isinstance(error, NotPermitted):
        fail(Exit.FAILED, str(error), hint="`accountant me` shows your name and roles")
    if isinstance(error.__cause__, ValidationError):
        fail(Exit.USAGE, _wrong_setting(error.__cause__))
    fail(Exit.OPERATOR, str(error))


def _explain_system(error: OSError) -> NoReturn:
    """End the command for an error of the operating system."""
    if isinstance(error, ConnectionError):
        fail_unanswered(str(error))
    if isinstance(error, FileNotFoundError):
        fail(Exit.USAGE, f"no such file: {error.filename}")
    if isinstance(error, IsADirectoryError):
        fail(Exit.USAGE, f"{error.filename} is a directory, not a file")
    if isinstance(error, PermissionError):
        fail(Exit.OPERATOR, f"permission denied: {error.filename}")
    what = error.strerror or str(error)
    if error.filename is not None:
        fail(Exit.OPERATOR, f"{error.filename}: {what}")
    fail(Exit.OPERATOR, what)


def _wrong_setting(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    what = str(first["msg"]).removeprefix("Value error, ")
    if not name:  # the rule concerns several settings, and its text names them
        return what
    return _of_url(what) if name == "url" else f"{_as_typed(name)}: {what}"


def _of_url(message: str) -> str:
    """Return what is wrong with an address, beginning with the option or variable."""
    rest = message.removeprefix("url ")
    return message if rest == message else f"{_as_typed('url')} {rest}"


def _as_typed(name: str) -> str:
    """Return the option or variable that set a setting."""
    option = _OPTIONS.get(name, "--" + name.replace("_", "-"))
    variable = f"{PREFIX}{name.upper()}"
    typed = any(word == option or word.startswith(f"{option}=") for word in sys.argv)
    return variable if variable in os.environ and not typed else option if typed else name
