"""Decide a request over several datasets, and the steps of its reservation: all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import UNSET

from accountant.claims import CheckedClaim
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import Verdict, advance
from accountant.partition.approvals import approvals_of, begin_decision
from accountant.partition.draft import Draft
from accountant.partition.judge import decide_request
from accountant.partition.reservation_records import put_step, reserve, step_result
from accountant.records import ReservationStep
from accountant.records.outcomes import Outcome, Reason
from accountant.records.requests import MechanismRequest
from accountant.reservations.reservation import Reservation
from accountant.reservations.steps import StepResult

_BY_ANOTHER: Final = Verdict(Outcome.REFUSED, Reason.OTHER_DATASET)
_FIRST_REASONS: Final[dict[Reason | None, int]] = {Reason.NOT_PERMITTED: 0, Reason.NOT_OPEN: 1}
"""The reasons of a step's refusal that come before those of an earlier dataset."""


class PartResult(NamedTuple):
    """What a decision is in one of its datasets.

    Attributes:
        before, after: the dataset's ledger.
        fields: further fields of the decision as the dataset sees it.
        new: the row of a reservation, without the hash that names it.
    """

    before: DatasetLedger
    after: DatasetLedger
    verdict: Verdict
    fields: dict[str, object]
    new: Reservation | None = None


def missing_part(draft: Draft, request: MechanismRequest) -> tuple[Reason, str] | None:
    """Return why no ledger can decide a request, and the dataset; None where all can."""
    genesis = draft.partition.genesis
    for name in request.datasets:
        if not genesis.decides_together(request.dataset, name):
            return Reason.NOT_TOGETHER, name
    for name in request.datasets:
        if draft.ledger(name) is None:
            return Reason.UNKNOWN_DATASET, name
    return None


def decide_parts(
    draft: Draft, request: MechanismRequest, claim: CheckedClaim
) -> tuple[PartResult, ...]:
    """Return the result of a request for each of its datasets, in their order.

    The first dataset that refuses refuses for all: it alone may be halted or exhausted by that, the
    datasets after it are not asked, and nothing is charged anywhere.
    """
    at, reserves = draft.decided_at, request.reserve is not UNSET
    ledgers = [_begin(draft, name) for name in request.datasets]
    results: list[PartResult] = []
    for ledger in ledgers:
        after, verdict = decide_request(
            ledger,
            request,
            claim,
            draft.members.get,
            draft.levels if ledger.limits else None,
            at,
            draft.resets,
            reserves,
            draft.reservations,
            request.datasets,
            draft.reservations.open_of_holder,
            approvals_of(draft),
        )
        results.append(PartResult(ledger, after, verdict, _granted_fields(verdict)))
        if verdict.outcome.is_refusal:
            refused = results[-1]
            return tuple([refused if each is ledger else _not_asked(each, at) for each in ledgers])
    return _with_reservations(results, request, claim, at) if reserves else tuple(results)


def _not_asked(ledger: DatasetLedger, at: int) -> PartResult:
    return PartResult(ledger, advance(ledger, at), _BY_ANOTHER, {})


def _granted_fields(verdict: Verdict) -> dict[str, object]:
    if not verdict.outcome.charges:
        return {}
    updates = tuple([each.update for each in verdict.charged])
    return {"cost": verdict.cost, "asked": None, "levels": updates}


def _with_reservations(
    granted: Sequence[PartResult], request: MechanismRequest, claim: CheckedClaim, at: int
) -> tuple[PartResult, ...]:
    """Return the results of a request that reserves: one row a dataset, with one deadline."""
    clock = _latest_clock([each.before for each in granted], at)
    results = []
    for each in granted:
        after, fields, new = reserve(
            each.before, each.after, request, claim.claim, each.verdict, clock
        )
        results.append(PartResult(each.before, after, each.verdict, fields, new))
    return tuple(results)


def names_several(draft: Draft, step: ReservationStep) -> bool:
    """Tell whether a step is one for all datasets of its reservation: it names the first."""
    found = draft.reservations.open(step.dataset, step.grant)
    return found is not None and found.datasets[:1] == (step.dataset,)


def decide_step_parts(
    draft: Draft, first: DatasetLedger, step: ReservationStep
) -> tuple[PartResult, ...]:
    """Return the result of a step for each dataset of its reservation, in their order.

    The step is taken in all of them or in none, by the latest of their clocks. The first dataset
    that refuses refuses for all.

    Args:
        first: the ledger of the step's own dataset, without what is final.
    """
    at = draft.decided_at
    found = draft.reservations.open(step.dataset, step.grant)
    assert found is not None
    ledgers = [first, *(_begin(draft, name) for name in found.datasets[1:])]
    clock = _latest_clock(ledgers, at)
    taken = [_StepPart.of(draft, each, step, clock) for each in ledgers]
    return tuple(
        [
            PartResult(part.ledger, *put_step(draft, part.ledger, step, result))
            for part, result in zip(taken, _all_or_none(taken, at), strict=True)
        ]
    )


class _StepPart(NamedTuple):
    """What a step would be in one dataset alone; `row` is the reservation before it."""

    ledger: DatasetLedger
    row: Reservation | None
    result: StepResult

    @classmethod
    def of(
        cls, draft: Draft, ledger: DatasetLedger, step: ReservationStep, clock: int
    ) -> _StepPart:
        row = draft.reservations.open(ledger.dataset, step.grant)
        return cls(ledger, row, step_result(draft, ledger, step, clock))

    @property
    def breaks(self) -> bool:
        return self.result.reason is Reason.BEYOND_MAXIMUM and self.result.reservation != self.row

    def refused(self, reason: Reason | None, at: int) -> StepResult:
        """Return a refusal that changes nothing but the dataset's number."""
        pause = self.result.pause if reason is Reason.PERSON_PAUSED else None
        return StepResult(Outcome.REFUSED, reason, advance(self.ledger, at), self.row, pause=pause)


def _all_or_none(parts: Sequence[_StepPart], at: int) -> list[StepResult]:
    """Return the results of a step in each dataset, none of them granted where one is refused.

    A missing permission comes first, then a missing row, then the order of the datasets.
    A false claim breaks the reservation in every dataset, or in none: where the sender is no member
    of one of them any more, or a dataset whose clock is ahead has dropped its row.
    """
    refusals = [part for part in parts if part.result.outcome.is_refusal]
    if not refusals:
        return [part.result for part in parts]
    refusing = min(refusals, key=lambda part: _FIRST_REASONS.get(part.result.reason, 2))
    breaks = all(part.breaks for part in parts)
    results = []
    for part in parts:
        reason = refusing.result.reason if part is refusing else Reason.OTHER_DATASET
        broken = part.result._replace(reason=reason)
        results.append(broken if breaks else part.refused(reason, at))
    return results


def _latest_clock(ledgers: Sequence[DatasetLedger], at: int) -> int:
    return max([each.clock(at) for each in ledgers])


def _begin(draft: Draft, name: str) -> DatasetLedger:
    ledger = draft.ledger(name)
    assert ledger is not None
    return begin_decision(draft, ledger)
