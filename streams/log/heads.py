"""Reads the head of each partition of a log, and the ledger's id."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accountant.views.heads import Head
    from streams.log.decision_log import DecisionLog, Part

_ROLLBACK: Final = b'"rollback":{'


def read_heads(source: DecisionLog) -> list[Head]:
    """Return the head of each partition.

    Raises: Unavailable, Refused; LogDamaged: a log is empty, or its ends cannot be read.
    """
    from accountant.errors import LogDamaged
    from accountant.records import decode_decision
    from accountant.records.decoding import decode_from_log
    from accountant.views.heads import head_of, ledger_of

    found: list[Head] = []
    ledger = ""
    for part in source.parts():
        first = next(part.values, None)
        if first is None:
            raise LogDamaged(f"partition {part.number} has no decision 0")
        ledger = ledger or decode_from_log(0, first, ledger_of) or ""
        branch, last = _branch_at_seal(part), first
        for last in chain([first], part.values):
            if _ROLLBACK in last:
                rollback = decode_from_log(-1, last, decode_decision).rollback
                branch = branch if rollback is None else rollback.branch
        found.append(
            decode_from_log(-1, last, partial(head_of, ledger, part.number, branch=branch))
        )
    return found


def _branch_at_seal(part: Part) -> int:
    from accountant.records import decode_partition_row

    if part.sealed is None:
        return 0
    return decode_partition_row(part.sealed.state[-1]).branch or 0
