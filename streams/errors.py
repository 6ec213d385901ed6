"""Errors of `streams`, by what the processor or the caller must do.

InputInvalid          name another file or address, or correct this one

LedgerFault (accountant.errors)
|- JournalFault        drop the connection, take ownership again, replay
|  |- Unavailable      the broker or disk does not answer: wait, then do the same
|  |- CommitRejected   the journal refuses the records themselves: dead-letter the bad one
|  |- CommitUnknown    a commit may or may not have happened: replay to find out
|  `- Fenced           another owner has taken over: continue only if assigned again
|- ClockOutOfRange     do not decide until the clock is right again
|- Gone                continue to read from where the message says
`- Refused             do not retry: somebody must act first
   |- Unreadable       ask again: the request may have been recorded
   |- NoAnswers        connect to a server that reads the data
   |- Unauthenticated  send a token that the server knows
   `- NotPermitted     ask an owner or an administrator for the role
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from accountant.errors import BudgetError, LedgerFault

TOKENS_UNCHECKED: Final = "the server cannot check tokens now"
"""How the message of a server begins that has no decision about a token."""


class AccountantWarning(UserWarning):
    """The call succeeds, but its result or its program needs attention."""


class InputInvalid(BudgetError, ValueError):
    """A file or an address is not one that the call can read.

    Attributes:
        hint: what to name instead, if the message does not say it.
    """

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class JournalFault(LedgerFault):
    """The journal failed; its content is unknown until it is read again."""


class Unavailable(JournalFault):
    """The ledger does not answer.

    Attributes:
        after: seconds to wait before the next attempt, if the server says so; else 0.
    """

    def __init__(self, message: str = "", *, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class CommitRejected(JournalFault):
    """The journal refused the records of a commit, for example because of their size."""


class CommitUnknown(JournalFault):
    """A commit's outcome is unknown."""


class Fenced(JournalFault):
    """Another owner has taken this partition over."""


class ClockOutOfRange(LedgerFault):
    """This machine's clock cannot be trusted to date a decision."""


class Gone(LedgerFault):
    """The requested decisions are archived; the message says from where on they can be read.

    Attributes:
        after: decisions of the dataset after this number can be read; None if it is not about one
            dataset.
        first: number in the log of the first decision after the archived ones; None if it is
            about one dataset.
    """

    def __init__(self, message: str, *, after: int | None = None, first: int | None = None) -> None:
        super().__init__(message)
        self.after = after
        self.first = first


class Refused(LedgerFault):
    """Nothing was done, and a retry does not help. The message names the reason and the remedy."""


class NoAnswers(Refused):
    """Nobody runs questions here, or their source answers none now: one would cost, for nothing."""


class Unreadable(Refused):
    """The response is not a gateway's, or it was changed on the way."""


class Unauthenticated(Refused):
    """The server cannot authenticate the caller; nothing was recorded."""


class NotPermitted(Refused):
    """The caller is authenticated but not allowed to do this; nothing was recorded."""


class PassedOnToOwners(Refused):
    """An ask for access was sent, and no decision is shown: the caller does not see the dataset.

    Nor would they if it was never opened: nothing tells both apart.
    """


_EXTRAS: Final = {
    "aiokafka": "kafka",
    "faust": "kafka,server",
    "jwt": "server",
    "litestar": "server",
    "mode": "kafka,server",
    "uvicorn": "server",
    "numpy": "mechanisms",
    "opentelemetry": "otel",
}


class NotInstalled(Refused):
    """A feature needs an extra that is not installed; the message has the command."""


def install_command(extra: str) -> str:
    """Return what installs an extra. No index has the package, so it is installed from a clone."""
    return f"`pip install '.[{extra}]'` in a clone of the repository"


def needs_extra(what: str, module: str, extra: str) -> str:
    """Return the message for a module that is not installed."""
    return f"{what} needs {module}, which is not installed. Run {install_command(extra)}"


def not_installed(error: ModuleNotFoundError) -> NotInstalled | None:
    """Return the error for a missing module, None if it belongs to no extra."""
    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    if extra is None:
        return None
    return NotInstalled(needs_extra("this", module, extra))


@contextmanager
def name_missing_extra() -> Iterator[None]:
    """Name the missing extra where an import within the block fails.

    Raises: NotInstalled.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        refused = not_installed(error)
        if refused is None:
            raise
        raise refused from error
