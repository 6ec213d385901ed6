"""Requests that wait for an owner's approval: docs/decisions/0114-approvals.md."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tests.faults.oracle.expected import Fields
from tests.faults.oracle.texts import at_text

if TYPE_CHECKING:
    from tests.faults.oracle.dataset import Dataset, Verdict
    from tests.faults.oracle.limits import Clock

DAY_MS: Final = 86_400_000
SLACK: Final = 1 + Fraction(1, 10**9)
_DROPPED: Final = 16
_MOST: Final = 1_000
_MOST_EACH: Final = 50
_MOST_ROWS: Final = 10_000


@dataclass
class Waiting:
    """A request that waits, or that was answered."""

    hash: str
    number: int
    sequence: int
    at: int
    request: Fields
    body: bytes
    deadline: int
    resets: int
    first: Fields | None = None

    def waits(self, now: int, resets: int) -> bool:
        """Whether an owner may still answer it."""
        return self.first is None and now < self.deadline and resets == self.resets

    def first_answer(self, now: int, resets: int) -> Fields:
        """The decision that a repeat shows."""
        own = {
            "partition_sequence": self.number,
            "decided_at": at_text(self.at),
            "outcome": "pending",
            "hash": self.hash,
        }
        return self.first or own | ({} if self.waits(now, resets) else {"reason": "lapsed"})


class Approvals:
    """Of one dataset."""

    def __init__(self) -> None:
        self.rows: dict[str, Waiting] = {}

    def of_request(self, analyst: str, request_id: str) -> Waiting | None:
        """Return the row of a request, None where it has none."""
        for row in self.rows.values():
            if (row.request["analyst"], row.request["request_id"]) == (analyst, request_id):
                return row
        return None

    def drop(self, at: int) -> None:
        """Drop the first rows that are 7 days past their deadline."""
        due = [row for row in self.rows.values() if row.deadline + 7 * DAY_MS <= at]
        for row in sorted(due, key=lambda each: (each.deadline, each.sequence))[:_DROPPED]:
            del self.rows[row.hash]

    def refusal(self, dataset: Dataset, request: Fields, clock: Clock) -> str | None:
        """Return why a request that needs an approval may not wait."""
        own = {request["analyst"], request.get("via")}
        members, at = dataset.members, clock.at
        if not any(members.may_govern({"by": name}, at) for name in members.all if name not in own):
            return "no_approver"
        now = max(at, dataset.changed_at)
        waits = [row for row in self.rows.values() if row.waits(now, clock.resets)]
        waiting = [row.request["analyst"] for row in waits]
        many = waiting.count(request["analyst"]) >= _MOST_EACH or len(waiting) >= _MOST
        return "too_many_pending" if many or len(self.rows) >= _MOST_ROWS else None


def wait(
    dataset: Dataset, request: Fields, body: bytes, clock: Clock, place: tuple[str, int]
) -> Fields:
    """Let a request wait; return what its decision says of that."""
    days = int(dataset.policy.get("approve_within", "P7D")[1:-1])
    number = dataset.sequence + 1
    deadline = clock.at + days * DAY_MS
    row = Waiting(*place, number, clock.at, request, body, deadline, clock.resets)
    dataset.approvals.rows[row.hash] = row
    return {"pending": {"until": at_text(row.deadline), "analyst": request["analyst"]}}


def answer(dataset: Dataset, record: Fields, said: Fields, at: int) -> Verdict:
    """Decide an owner's answer."""
    row = dataset.approvals.rows.get(record["pending"])
    if row is None:
        return "refused", "not_pending", {}
    if row.first is not None:
        return "refused", "already_answered", {}
    if not row.waits(max(at, dataset.changed_at), dataset.clock.resets):
        return "refused", "lapsed", {}
    if record["type"] == "deny":
        return "refused", "denied", _answered(row, record)
    if record["by"] in {row.request["analyst"], row.request.get("via")}:
        return "refused", "own_request", {}
    outcome, reason, fields = dataset.approved(row.request, said)
    if outcome == "refused":
        return outcome, reason, fields
    return outcome, reason, {**fields, **_answered(row, record)}


def _answered(row: Waiting, record: Fields) -> Fields:
    """Return what the decision says that answers a request; `waited` is for the partition."""
    why = {"reason": record["reason"]} if record.get("reason") else {}
    pending = {
        "until": at_text(row.deadline),
        "analyst": row.request["analyst"],
        "by": record["by"],
        **why,
        "request": row.hash,
    }
    return {"pending": pending, "waited": row}


def needs_approval(dataset: Dataset, claim: Fields, alone: Fraction | None) -> bool:
    """Return whether a claim takes more of an empty budget than nobody has to approve."""
    above = Fraction(dataset.policy.get("approve_above", "1"))
    return above < 1 and (alone is None or alone > above * SLACK)


def approval_rows(dataset: Dataset) -> dict[bytes, Fields]:
    """Return the rows of `state`, by their keys."""
    found: dict[bytes, Fields] = {}
    for row in dataset.approvals.rows.values():
        key = f'{{"dataset":"{dataset.name}","pending":"{row.hash}"}}'.encode()
        via = {"via": row.request["via"]} if "via" in row.request else {}
        is_open = {"body": row.body} if row.first is None else {}
        said: dict[str, Any] = {} if row.first is None else {"first": row.first}
        found[key] = {
            "type": "pending",
            "version": 2,
            "dataset": dataset.name,
            "pending": row.hash,
            "sequence": row.sequence,
            "partition_sequence": row.number,
            "pending_at": row.at,
            "analyst": row.request["analyst"],
            **via,
            "request_id": row.request["request_id"],
            "deadline": row.deadline,
            **({"resets": row.resets} if row.resets else {}),
            **is_open,
            "body_hash": hashlib.sha256(row.body).hexdigest(),
            **said,
        }
    return found
