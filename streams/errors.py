"""Faults of the shell, by what the processor must do.

LedgerFault (accountant.errors)
|- JournalFault        drop the connection, own again, refold
|  |- Unavailable      the broker or disk does not answer: wait, then the same
|  |- CommitRejected   the journal refuses the records themselves: one of them is poison
|  |- CommitUnknown    a commit may or may not have happened: only a refold can tell
|  `- Fenced           another owner has taken over: own again only if still entitled to
|- ClockOutOfRange     refuse to decide until the clock is right again
|- Gone                read on from where the message says
`- Refused             never start like this: an operator must act
   |- Unreadable       ask again: what was sent may have been recorded
   |- Unauthenticated  show a token that the door knows
   `- NotPermitted     ask an owner or an administrator for the role
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from accountant.errors import LedgerFault


class AccountantWarning(UserWarning):
    """What a program should be changed for, or kept in mind, though the call succeeds."""


class JournalFault(LedgerFault):
    """The journal failed; what it holds is unknown until it is read again."""


class Unavailable(JournalFault):
    """The journal does not answer.

    Attributes:
        after: seconds after which to ask again, where that was said; else 0.
    """

    def __init__(self, message: str = "", *, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class CommitRejected(JournalFault):
    """The journal refused the records of a commit, such as for their size."""


class CommitUnknown(JournalFault):
    """A commit's outcome is unknown."""


class Fenced(JournalFault):
    """Another owner has taken this partition over."""


class ClockOutOfRange(LedgerFault):
    """This machine's clock cannot be trusted to date a decision."""


class Gone(LedgerFault):
    """What is asked for cannot be read any more; the message says from where on it can.

    Attributes:
        after: the number after which decisions of the dataset can be read, None where it is not
            of one dataset.
    """

    def __init__(self, message: str, *, after: int | None = None) -> None:
        super().__init__(message)
        self.after = after


class Refused(LedgerFault):
    """The start is refused. The message names the reason and the command to run."""


class Unreadable(Refused):
    """What answers is no door, or its answer was changed on the way."""


class Unauthenticated(Refused):
    """The door does not know who asks; nothing was appended."""


class NotPermitted(Refused):
    """The door knows who asks, and lets them do no such thing; nothing was appended."""


_EXTRAS: Final = {
    "aiokafka": "kafka",
    "faust": "kafka,server",
    "jwt": "server",
    "litestar": "server",
    "mode": "kafka,server",
    "uvicorn": "server",
    "numpy": "mechanisms",
}


class NotInstalled(Refused):
    """What was asked for needs an extra; the message says how to install it."""


def not_installed(error: ModuleNotFoundError) -> NotInstalled | None:
    """Return what to say for a module that is missing, None if it is of no extra."""
    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    if extra is None:
        return None
    return NotInstalled(
        f"this needs {module}, which is not installed: "
        f"pip install 'streaming-privacy-accountant[{extra}]'"
    )


@contextmanager
def name_missing_extra() -> Iterator[None]:
    """Have an import that fails for want of an extra name that extra.

    Raises: NotInstalled.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        said = not_installed(error)
        if said is None:
            raise
        raise said from error
