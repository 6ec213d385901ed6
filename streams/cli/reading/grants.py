"""Finds a reservation by the first digits of its grant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from accountant.claims.fields import GRANT_PATTERN
from streams.cli.printing.exits import Exit, fail

if TYPE_CHECKING:
    from streams.client import Accountant

_WHOLE: Final = re.compile(GRANT_PATTERN)
_PART: Final = re.compile(r"(?:sha256:)?[0-9a-f]{6,63}")


def whole_grant(ledger: Accountant, dataset: str, grant: str) -> str:
    """Return the whole grant; end the command unless its digits name one open reservation.

    A whole one is returned as it is: the ledger says what became of it.
    """
    listing = f"`accountant reservation list {dataset}` lists the open ones"
    if _WHOLE.fullmatch(grant):
        return grant
    if not _PART.fullmatch(grant):
        what = "GRANT must be the hash of a decision `reserved`, or its first digits, at least "
        what += f"six, got {grant}"
        fail(Exit.USAGE, what, hint=f"{listing}, with --json as a whole")
    start = f"sha256:{grant.removeprefix('sha256:')}"
    found = [each.grant for each in ledger.reservations(dataset) if each.grant.startswith(start)]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} open reservations of {dataset} that you may see begin with {start}"
    gone = "" if found else "it was settled or voided, or its time is over; "
    return fail(Exit.USAGE if found else Exit.FAILED, what, hint=f"{gone}{listing}")
