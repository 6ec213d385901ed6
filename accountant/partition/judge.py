"""The decision on an analyst's request: first permission, then every budget that applies.

Live decisions and previews both call `decide_request`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from msgspec import UNSET

from accountant.claims import CheckedClaim
from accountant.ledger import Ledger
from accountant.ledger.adjudicate import Verdict, adjudicate, advance
from accountant.limits.applicable_limits import applicable_limits, team_of
from accountant.limits.store import LimitStore
from accountant.partition.permits import RequestParties, may_ask
from accountant.records.members import MemberRow
from accountant.records.outcomes import Outcome, Reason
from accountant.times import ClockResets

_NOT_PERMITTED: Final = Verdict(Outcome.REFUSED, Reason.NOT_PERMITTED)

Members = Callable[[str, str], MemberRow | None]
"""Returns the row of a dataset's member."""


class RequestTerms(RequestParties, Protocol):
    """The terms of a request next to its claim."""

    @property
    def unit(self) -> str: ...
    @property
    def neighbours(self) -> str: ...


def decide_request(
    ledger: Ledger,
    request: RequestTerms,
    claim: CheckedClaim,
    members: Members,
    levels: LimitStore | None,
    at: int,
    resets: ClockResets,
) -> tuple[Ledger, Verdict]:
    """Return the ledger after a request on an open dataset, and the verdict.

    Args:
        levels: of the partition; None where the dataset has none.
        at: the decision's time, milliseconds since 1970.
        resets: those of the partition's clock.
    Precedence: not_permitted, then `adjudicate`'s.
    """
    plan, dataset = ledger.plan, ledger.dataset
    if plan.members_only or request.via is not UNSET:
        lookup = partial(members, dataset)
        if not may_ask(plan.policy, lookup, request, at):
            return advance(ledger, at), _NOT_PERMITTED
    limits = None
    if levels is not None:
        team = team_of(members(dataset, request.analyst), at)
        limits = applicable_limits(ledger, levels, request.analyst, team, at, resets)
    return adjudicate(ledger, claim, request.unit, request.neighbours, at, limits)
