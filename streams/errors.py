"""Faults of the shell, by what the processor must do.

LedgerFault (accountant.errors)
|- JournalFault        drop the connection, own again, refold
|  |- Unavailable      the broker or disk does not answer: wait, then the same
|  |- CommitRejected   the journal refuses the records themselves: one of them is poison
|  |- CommitUnknown    a commit may or may not have happened: only a refold can tell
|  `- Fenced           another owner has taken over: own again only if still entitled to
|- ClockOutOfRange     refuse to decide until the clock is right again
`- Refused             never start like this: an operator must act
"""

from __future__ import annotations

from accountant.errors import LedgerFault


class JournalFault(LedgerFault):
    """The journal failed; what it holds is unknown until it is read again."""


class Unavailable(JournalFault):
    """The journal does not answer."""


class CommitRejected(JournalFault):
    """The journal refused the records of a commit, such as for their size."""


class CommitUnknown(JournalFault):
    """A commit's outcome is unknown."""


class Fenced(JournalFault):
    """Another owner has taken this partition over."""


class ClockOutOfRange(LedgerFault):
    """This machine's clock cannot be trusted to date a decision."""


class Refused(LedgerFault):
    """The start is refused. The message names the reason and the command to run."""
