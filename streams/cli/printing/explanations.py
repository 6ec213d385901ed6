"""What a command says of each expected error, and its exit code."""

from __future__ import annotations

import os
import sys
from typing import Final, NamedTuple

import apsw
from pydantic import ValidationError

from accountant.errors import BudgetError, LogDamaged, MadeByOtherVersion, RequestInvalid
from accountant.foreign_text import escape_lines
from accountant.records.inputs import Undecodable
from accountant.replay.replay import GenesisDiffers
from streams.address import AddressInvalid
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.signals import signal_of
from streams.cli.printing.typed_names import with_typed_name
from streams.clock import CLOCK_OUT_OF_RANGE
from streams.errors import (
    TOKENS_UNCHECKED,
    ClockOutOfRange,
    InputInvalid,
    JournalFault,
    NotPermitted,
    Refused,
)
from streams.variables import PREFIX

_CLOCK: Final = "correct the clock of the machine that runs the ledger, for example with NTP"
_ADDRESS: Final = (
    "check the address (--url, ACCOUNTANT_URL) and run the command again; retries are safe"
)
_MEANT: Final = "add {} to send the record as it is"
_UNDECIDED: Final = "check that a worker runs: it decides the request, which was accepted"
_OPTIONS: Final = {
    "unauthenticated_bind": "--bind",
    **{f"login_{name}": f"--{name}".replace("_", "-") for name in ("issuer", "client_id")},
    **{f"login_{name}": f"--{name}" for name in ("scopes", "audience", "resource")},
}


class Explained(NamedTuple):
    """What is said of an error that a command expects, and its exit code."""

    code: int
    message: str
    hint: str | None = None


def explain(error: BaseException, *, again: str | None = None) -> Explained | None:
    """Return what is said of an error, None of one that no command expects.

    Args:
        again: how to send the command's request again, if it may have been sent.
    """
    found = _explained(error)
    if found is None or again is None:
        return found
    hint = None if found.hint == _ADDRESS else found.hint
    if isinstance(error, NotPermitted):
        return found._replace(hint=f"{hint}. Once it is permitted, {again}")
    return found._replace(hint=again if hint is None else f"{hint}; then {again}")


def _explained(error: BaseException) -> Explained | None:
    if isinstance(error, KeyboardInterrupt):
        number = signal_of(error)
        return Explained(128 + number, f"interrupted by {number.name}")
    if isinstance(error, AddressInvalid):
        return Explained(Exit.USAGE, _of_url(str(error)))
    if isinstance(error, InputInvalid):
        return Explained(Exit.USAGE, str(error), error.hint)
    if isinstance(error, RequestInvalid | Undecodable):
        return _explained_invalid(error)
    if isinstance(error, ClockOutOfRange):
        return Explained(Exit.OPERATOR, str(error), _CLOCK)
    if isinstance(error, Refused):
        return _explained_refusal(error)
    if isinstance(error, GenesisDiffers | MadeByOtherVersion):  # nothing is damaged
        return Explained(Exit.OPERATOR, str(error))
    if isinstance(error, LogDamaged):
        hint = "keep a copy of the log; `accountant audit` names the first record that disagrees"
        return Explained(Exit.OPERATOR, f"the decision log is damaged: {error}", hint)
    if isinstance(error, JournalFault):
        return _explained_fault(error)
    if isinstance(error, BudgetError):
        return Explained(Exit.FAILED, str(error))
    if isinstance(error, apsw.Error):
        hint = "check that --url names a ledger's file on a local disk that you may write to"
        return Explained(Exit.OPERATOR, f"the ledger's file cannot be used: {error}", hint)
    return _explained_by_system(error) if isinstance(error, OSError) else None


def _explained_invalid(error: RequestInvalid | Undecodable) -> Explained:
    # Imported late: most commands start without the client.
    from streams.client.unconfirmed import SmallerLimit, Unconfirmed

    if isinstance(error, Unconfirmed):
        hint = _MEANT.format("--yes" if isinstance(error, SmallerLimit) else "--new")
        return Explained(Exit.USAGE, escape_lines(error.what), hint)
    if isinstance(error, Undecodable):
        return Explained(Exit.USAGE, str(error))
    return Explained(Exit.USAGE, with_typed_name(str(error), error.field, error.value))


def _explained_fault(error: JournalFault) -> Explained:
    # Imported late: most commands start without the client.
    from streams.client.requests.requests import Unanswered, Undecided

    message = error.why if isinstance(error, Unanswered) else str(error)
    # Over HTTP, only the text of the message tells a wrong clock from other faults.
    if message.startswith(CLOCK_OUT_OF_RANGE):
        return Explained(Exit.OPERATOR, message, _CLOCK)
    if message.startswith(TOKENS_UNCHECKED):  # it has the next step itself
        return Explained(Exit.UNAVAILABLE, message)
    hint = _UNDECIDED if isinstance(error, Undecided) else _ADDRESS
    return Explained(Exit.UNAVAILABLE, message, hint)


def _explained_refusal(error: Refused) -> Explained:
    if isinstance(error, NotPermitted):
        return Explained(Exit.FAILED, str(error), "`accountant me` shows your name and roles")
    if isinstance(error.__cause__, ValidationError):
        return Explained(Exit.USAGE, _wrong_setting(error.__cause__))
    return Explained(Exit.OPERATOR, str(error))


def _explained_by_system(error: OSError) -> Explained:
    """Return what is said of an error of the operating system."""
    if isinstance(error, ConnectionError):
        return Explained(Exit.UNAVAILABLE, str(error), _ADDRESS)
    if isinstance(error, FileNotFoundError):
        return Explained(Exit.USAGE, f"no such file: {error.filename}")
    if isinstance(error, IsADirectoryError):
        return Explained(Exit.USAGE, f"{error.filename} is a directory, not a file")
    if isinstance(error, PermissionError):
        return Explained(Exit.OPERATOR, f"permission denied: {error.filename}")
    what = error.strerror or str(error)
    if error.filename is not None:
        return Explained(Exit.OPERATOR, f"{error.filename}: {what}")
    return Explained(Exit.OPERATOR, what)


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
