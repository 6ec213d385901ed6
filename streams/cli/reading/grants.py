"""Finds a reservation by the first digits of its grant."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

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
    listing = f"`accountant reservation list {dataset}` lists the open ones"
    if _WHOLE.fullmatch(grant):
        return grant
    if not _PART.fullmatch(grant):
        what = "GRANT must be the hash of a decision `reserved`, or its first digits, at least "
        what += f"six, got {grant}"
        fail(Exit.USAGE, what, hint=f"{listing}, with --json as a whole")
    start = f"sha256:{grant.removeprefix('sha256:')}"
    if request_id is not None:
        sent = _sent_grant(ledger, dataset, caller, request_id)
        if sent.startswith(start):
            return sent
    found = [each.grant for each in ledger.reservations(dataset) if each.grant.startswith(start)]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} open reservations of {dataset} that you may see begin with {start}"
    gone = "" if found else "it was settled or voided, or its time is over; "
    return fail(Exit.USAGE if found else Exit.FAILED, what, hint=f"{gone}{listing}")


def _sent_grant(ledger: Accountant, dataset: str, caller: str, request_id: str) -> str:
    """Return the grant in a request that was decided, "" if it is not found."""
    from accountant.errors import BudgetError
    from streams.cli.printing.tables import request_of

    with suppress(BudgetError):
        decision = ledger.decision(dataset, caller, request_id)
        if decision is not None:
            return str(request_of(decision).get("grant", ""))
    return ""
