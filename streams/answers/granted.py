"""The questions in a log: the grants that a curator runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from accountant.answers import Granted
from accountant.claims import Claim
from accountant.partition import hash_of
from accountant.records import decode_decision
from accountant.records.inputs import check
from accountant.records.requests import MechanismRequest
from accountant.times import from_iso

# The encoder writes it so into each decision from whose question a claim was derived. A request
# may repeat it in a decision that grants nothing.
_MARK: Final = b'"derived":'


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedQuestion:
    """A question that a decision has granted.

    Attributes:
        grant: the hash of the decision, `sha256:...`.
        previous: that of the decision before it.
        partition, number: its place in the log.
        decided_at: milliseconds since 1970.
        request: with `question` and `noise`.
        claim: which the ledger derived and charged.
        is_reserved: the request reserved, so it is begun first and settled afterwards.
    """

    grant: str
    previous: str
    partition: int
    number: int
    decided_at: int
    request: MechanismRequest
    claim: Claim
    is_reserved: bool

    @property
    def content(self) -> Granted:
        """What an answer says of its grant."""
        request = self.request
        assert request.question is not UNSET
        assert request.noise is not UNSET
        return Granted(
            dataset=request.dataset,
            request_id=request.request_id,
            analyst=request.analyst,
            grant=self.grant,
            question=request.question,
            noise=request.noise,
            claim=self.claim,
            stop=request.stop or None,
        )


def granted_question(partition: int, value: bytes) -> GrantedQuestion | None:
    """Return the question that a decision of the log grants, None if it grants none.

    Raises: DECODE_ERRORS, BudgetError: this version cannot read the decision.
    """
    if _MARK not in value:
        return None
    decision = decode_decision(value)
    if not decision.outcome.charges or decision.derived is None:
        return None
    request = check("requests", bytes(decision.request)).body
    assert isinstance(request, MechanismRequest)
    assert request.question is not UNSET
    return GrantedQuestion(
        grant=hash_of(value),
        previous=decision.previous,
        partition=partition,
        number=decision.partition_sequence,
        decided_at=from_iso(decision.decided_at),
        request=request,
        claim=decision.derived.claim,
        is_reserved=decision.outcome.reserves,
    )
