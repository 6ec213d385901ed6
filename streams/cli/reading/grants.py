"""Finds a reservation, or a request that waits, by the first digits of its hash."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from accountant.claims.fields import GRANT_PATTERN
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail

if TYPE_CHECKING:
    from streams.client import Accountant

_WHOLE: Final = re.compile(GRANT_PATTERN)
_PART: Final = re.compile(r"(?:sha256:)?[0-9a-f]{6,63}")


def whole_grant(
    ledger: Accountant, dataset: str, grant: str, *, caller: str, request_id: str | None
) -> str:
    """Return the whole grant; end the command unless its digits name one open reservation.

    A whole one is returned as it is: the ledger says what became of it.

    Args:
        caller, request_id: of an earlier attempt, which may have ended the reservation: its grant
            is that of the decision on this id.
    """
    return _whole_hash(
        _Named("GRANT", "reserved", "reservation", "open reservations", "settled or voided"),
        dataset,
        grant,
        sent=lambda: _sent(ledger, dataset, caller, request_id, "grant"),
        hashes=lambda: [each.grant for each in ledger.reservations(dataset)],
    )


def whole_pending(
    ledger: Accountant, dataset: str, pending: str, *, caller: str, request_id: str | None
) -> str:
    """Return the whole hash of a request that waits; end the command unless the digits name one.

    Args:
        caller, request_id: as of `whole_grant`.
    """
    return _whole_hash(
        _Named("PENDING", "pending", "approval", "requests that wait", "answered"),
        dataset,
        pending,
        sent=lambda: _sent(ledger, dataset, caller, request_id, "pending"),
        hashes=lambda: [each.pending for each in ledger.pending(dataset)],
    )


class _Named(NamedTuple):
    """What a hash names: its argument, its decision's outcome, its command, and some of them.

    Attributes:
        gone: what may have become of one that is not found.
    """

    argument: str
    outcome: str
    command: str
    many: str
    gone: str


def _whole_hash(
    named: _Named,
    dataset: str,
    text: str,
    *,
    sent: Callable[[], str],
    hashes: Callable[[], list[str]],
) -> str:
    listing = f"`accountant {named.command} list {dataset}` lists the {named.many}"
    if _WHOLE.fullmatch(whole := f"sha256:{text.removeprefix('sha256:')}"):
        return whole
    if not _PART.fullmatch(text):
        what = f"{named.argument} must be the hash of a decision `{named.outcome}`, or its first "
        what += f"digits, at least six, got {text}"
        fail(Exit.USAGE, what, hint=f"{listing}, with --json as a whole")
    start = f"sha256:{text.removeprefix('sha256:')}"
    before = sent()
    if before.startswith(start):
        return before
    found = [each for each in hashes() if each.startswith(start)]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} {named.many} of {dataset} that you may see begin with {start}"
    gone = "" if found else f"it was {named.gone}, or its time is over; "
    return fail(Exit.USAGE if found else Exit.FAILED, what, hint=f"{gone}{listing}")


def _sent(ledger: Accountant, dataset: str, caller: str, request_id: str | None, field: str) -> str:
    """Return the hash in a record that was decided, "" if it is not found."""
    from accountant.errors import BudgetError

    if request_id is None:
        return ""
    with suppress(BudgetError):
        decision = ledger.decision(dataset, caller, request_id)
        if decision is not None:
            return str(msgspec.json.decode(decision.input_body).get(field, ""))
    return ""
