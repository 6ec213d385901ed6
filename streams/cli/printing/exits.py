"""Exit codes, and what each expected error says before it."""

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
from accountant.foreign_text import escaped_lines
from accountant.records.inputs import Undecodable
from accountant.replay.replay import GenesisDiffers
from accountant.suggest import did_you_mean
from streams.address import AddressInvalid
from streams.cli.printing.lasting_streams import nobody_reads, output_error
from streams.clock import CLOCK_OUT_OF_RANGE
from streams.errors import ClockOutOfRange, JournalFault, NotPermitted, Refused, name_missing_extra
from streams.settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Exit(IntEnum):
    """What the command's exit code means; docs/reference/commands.md says the same."""

    OK = 0
    FAILED = 1
    """The answer is no: refused, does not fit, not found, or an audit that disagrees."""
    USAGE = 2
    """The command line, or a value in it, is wrong."""
    UNAVAILABLE = 3
    """The ledger or broker does not answer: the same command may work later."""
    OPERATOR = 4
    """Someone must act: a refused start, wrong topics, a damaged or locked file, the clock."""
    REPEATED = 5
    """The id was granted before: the mechanism must not run a second time for it."""
    WOULD_GRANT = 6
    """A dry run would be granted; nothing was, so the mechanism must not run."""
    INTERRUPTED = 130


_CLOCK: Final = "check the clock of the machine that decides, for example by NTP"
_ADDRESS: Final = (
    "is the address right (--url, ACCOUNTANT_URL)? Requests may be retried as they are"
)
_OPTIONS: Final = {"unauthenticated_bind": "--bind"}


def fail(code: Exit, message: str, *, hint: str | None = None) -> NoReturn:
    """End the command with a message on stderr, and what to do next."""
    complain(message, hint=hint)
    raise typer.Exit(code)


def complain(message: str, *, hint: str | None = None) -> None:
    """Say on stderr what went wrong, and what to do next."""
    from streams.cli.printing.output import stderr

    stderr().print(f"[bold red]error:[/] {_plain(message)}", soft_wrap=True)
    if hint:
        stderr().print(f"[bold]try:[/]   {_plain(hint)}", soft_wrap=True)


def check_partition_counts() -> None:
    """End the command if a part of what it wrote is missing, and somebody still reads."""
    if output_error() is not None and not nobody_reads():
        raise typer.Exit(Exit.OPERATOR)


def fail_word(option: str, rule: str, word: str, known: Iterable[str]) -> NoReturn:
    """End the command for a word that its option does not know."""
    meant = did_you_mean(word, known)()
    fail(Exit.USAGE, f"{option} {rule}, got {word}" + (f": {meant}" if meant else ""))


def fail_unanswered(message: str, *, again: str | None = None) -> NoReturn:
    """End the command for want of a decision; a wrong clock does not mend itself.

    Args:
        again: how to ask once more.
    """
    # A door's answer is known by its text alone.
    if message.startswith(CLOCK_OUT_OF_RANGE):
        fail(Exit.OPERATOR, message, hint=_CLOCK if again is None else f"{_CLOCK}; then {again}")
    fail(Exit.UNAVAILABLE, message, hint=again or _ADDRESS)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


@contextmanager
def plain_usage() -> Iterator[None]:
    """Have the message about a wrong command line, which repeats its words, act nowhere."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str):
            error.message = escaped_lines(message)  # type: ignore[attr-defined]
        raise


@contextmanager
def explained() -> Iterator[None]:
    """Turn the errors that are expected of a command into a message and an exit code."""
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
        hint = "`accountant audit` names the first record that disagrees"
        fail(Exit.OPERATOR, f"the decision log is damaged: {error}", hint=hint)
    except JournalFault as error:
        fail_unanswered(str(error))
    except BudgetError as error:
        fail(Exit.FAILED, str(error))
    except apsw.Error as error:
        hint = "is it a ledger's file on a local disk, that this user may write (--url)?"
        fail(Exit.OPERATOR, f"the ledger's file cannot be used: {error}", hint=hint)
    except OSError as error:
        _explain_system(error)


def _explain_refused(error: Refused) -> NoReturn:
    if isinstance(error, NotPermitted):
        fail(Exit.FAILED, str(error), hint="`accountant me` shows as whom the door knows you")
    if isinstance(error.__cause__, ValidationError):
        fail(Exit.USAGE, _wrong_setting(error.__cause__))
    fail(Exit.OPERATOR, str(error))


def _explain_system(error: OSError) -> NoReturn:
    """End the command for what the operating system refused."""
    if isinstance(error, ConnectionError):
        fail_unanswered(str(error))
    if isinstance(error, FileNotFoundError):
        fail(Exit.USAGE, f"no such file: {error.filename}")
    if isinstance(error, IsADirectoryError):
        fail(Exit.USAGE, f"{error.filename} is a directory")
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
    if not name:  # of several together, and says itself of which
        return what
    return _of_url(what) if name == "url" else f"{_as_typed(name)}: {what}"


def _of_url(message: str) -> str:
    """Return what is wrong with an address, beginning with where it was given."""
    rest = message.removeprefix("url ")
    return message if rest == message else f"{_as_typed('url')} {rest}"


def _as_typed(name: str) -> str:
    """Return the option or variable that a setting was given by."""
    option = _OPTIONS.get(name, "--" + name.replace("_", "-"))
    variable = f"{PREFIX}{name.upper()}"
    typed = any(word == option or word.startswith(f"{option}=") for word in sys.argv)
    return variable if variable in os.environ and not typed else option if typed else name
