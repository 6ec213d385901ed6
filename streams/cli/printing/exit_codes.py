"""The exit codes of commands."""

from __future__ import annotations

from enum import IntEnum


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
    PENDING = 7
    """The request waits for an owner's approval, or would: the mechanism must not run yet."""
    INTERRUPTED = 130
    """By Ctrl-C; in general 128 and the number of the signal."""
