"""The requests of a file in the order of their time, and a count of every other line.

Each line is counted once: to be decided, repeated, left out, or not decided for a reason.
The order of the lines does not matter.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from accountant.advice.offline import ADMIN_TYPES, LAST_MS, tag_of
from accountant.errors import BudgetError, RequestInvalid
from accountant.records import DECODE_ERRORS, decode_decision, encode
from accountant.records.inputs import Undecodable, canonical, check
from accountant.records.outcomes import Outcome, Reason
from accountant.records.requests import MechanismRequest
from accountant.times import from_iso, issued_at, uuid7


@dataclass(slots=True)
class Columns:
    """How many lines of a file are of each kind.

    Attributes:
        decided: requests that were granted or refused.
        repeated: requests that are in the file already; a log's repeats.
        left_out: owners' records, and decisions about no request.
        reasons: of what was not decided, how many for each.
        first: number of the first line that was not decided, from 1.
        why: what is wrong with that one.
    """

    decided: int = 0
    repeated: int = 0
    left_out: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: int | None = None
    why: str = ""

    @property
    def not_decided(self) -> int:
        """How many lines are not counted anywhere else."""
        return self.reasons.total()

    def refuse(self, number: int, reason: str, why: str = "") -> None:
        """Count a line that is not decided.

        Args:
            number: the line's, from 1.
            why: the broken rule; default the reason.
        """
        self.reasons[reason] += 1
        if self.first is None or number < self.first:
            self.first, self.why = number, why or reason


class RequestLine(NamedTuple):
    """One request, sorted by its fields from the first on.

    Attributes:
        at: when it was decided in a log, else the time in its id; milliseconds since 1970.
        place: number of its decision in a log, else -1.
        body: the request under an id of that time, so that it never expires.
        known_as: digest of the caller and the id. `digest`: of the whole content.
        number: of its line.
    """

    at: int
    dataset: str
    place: int
    request_id: str
    known_as: bytes
    digest: bytes
    body: bytes
    number: int


class _Elsewhere(Exception):
    """A line that asks nothing: its column, else the reason."""

    def __init__(self, column: str = "", reason: str = "", why: str = "") -> None:
        self.column, self.reason, self.why = column, reason, why
        super().__init__(column or reason)


def read_in_order(lines: Iterable[tuple[int, bytes]], columns: Columns) -> list[RequestLine]:
    """Return the requests to ask in their order, and count every other line.

    Args:
        lines: with their numbers: requests, owners' records, decisions of a log.
    """
    found = []
    for number, line in lines:
        try:
            found.append(_read(number, line))
        except _Elsewhere as other:
            if other.column == "repeated":
                columns.repeated += 1
            elif other.column == "left_out":
                columns.left_out += 1
            else:
                columns.refuse(number, other.reason, other.why)
    found.sort()
    said: dict[bytes, bytes] = {}
    asked = []
    for each in found:
        first = said.setdefault(each.known_as, each.digest)
        if first is each.digest:
            asked.append(each)
        elif first == each.digest:
            columns.repeated += 1
        else:
            columns.refuse(each.number, str(Outcome.CONFLICT), "its id is another request's")
    return asked


def _read(number: int, line: bytes) -> RequestLine:
    tag = tag_of(line)
    if tag in ADMIN_TYPES:
        raise _Elsewhere("left_out")
    if tag != "decision":
        return _parse_request(number, line, None, -1)
    try:
        decision = decode_decision(line)
        at = from_iso(decision.decided_at)
    except (*DECODE_ERRORS, ValueError, BudgetError) as error:
        raise _Elsewhere(reason=Reason.UNDECODABLE, why=f"no decision: {error}") from None
    body = bytes(decision.request)
    if decision.outcome.is_repeat:
        raise _Elsewhere("repeated")
    if decision.outcome.is_not_considered:
        reason = str(decision.reason or decision.outcome)
        raise _Elsewhere(reason=reason, why=f"the log has it as {decision.outcome}: {reason}")
    if not body or tag_of(body) in ADMIN_TYPES:
        raise _Elsewhere("left_out")
    return _parse_request(number, body, at, decision.partition_sequence)


def _parse_request(number: int, line: bytes, at: int | None, place: int) -> RequestLine:
    try:
        request = check("requests", canonical(line)).body
    except Undecodable as error:
        raise _Elsewhere(reason=error.reason, why=str(error)) from None
    except RequestInvalid as error:
        why = f"{error.field} {error.rule}, got {error.value}"
        raise _Elsewhere(reason=Reason.INVALID_FIELD, why=why) from None
    assert isinstance(request, MechanismRequest)
    at = issued_at(request.request_id) if at is None else at
    if at is None or not 0 <= at <= LAST_MS:
        raise _Elsewhere(reason=Reason.ISSUED_IN_FUTURE)
    caller = f"{request.dataset}/{request.analyst}/{request.request_id}"
    known_as = hashlib.sha256(caller.encode()).digest()
    renamed = msgspec.structs.replace(request, request_id=uuid7(at, known_as[:10]))
    digest = hashlib.sha256(encode(request)).digest()
    return RequestLine(
        at, request.dataset, place, request.request_id, known_as, digest, encode(renamed), number
    )
