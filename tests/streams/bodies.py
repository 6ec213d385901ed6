"""Bodies of requests as a test sends them, at times of its own choosing, and a bare decision."""

from __future__ import annotations

import json
from typing import Any

from accountant.records import FORMAT, RULES, Decision
from accountant.records.outcomes import Outcome
from accountant.times import iso


def request_id(at: int, number: int) -> str:
    """Return the UUIDv7 of a time in milliseconds and a number below 2**60."""
    digits = f"{at:012x}7{number >> 48:03x}8{number & (1 << 48) - 1:015x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def opening(dataset: str, at: int, number: int, *, epsilon: str = "1", **policy: Any) -> bytes:
    """Return the opening of a dataset under basic composition."""
    return _bytes(
        version=1,
        type="open",
        request_id=request_id(at, number),
        dataset=dataset,
        by="owner",
        policy={"filter": "basic", "epsilon": epsilon, **policy},
    )


def closing(dataset: str, at: int, number: int) -> bytes:
    """Return the closing of a dataset."""
    return _bytes(
        version=1, type="close", request_id=request_id(at, number), dataset=dataset, by="owner"
    )


def asking(
    dataset: str,
    at: int,
    number: int,
    *,
    epsilon: str = "0.1",
    analyst: str = "ana",
    purpose: str = "",
    unit: str = "person",
    **more: str,
) -> bytes:
    """Return a request for one pure release."""
    return _bytes(
        version=1,
        type="request",
        request_id=request_id(at, number),
        analyst=analyst,
        dataset=dataset,
        claim={"type": "pure", "epsilon": epsilon},
        unit=unit,
        neighbours="add_remove",
        purpose=purpose,
        **more,
    )


def enrolment(
    dataset: str, at: int, number: int, member: str, *roles: str, **more: object
) -> bytes:
    """Return an owner's record on a member; without a role it is a removal."""
    return _bytes(
        version=1,
        type="member",
        request_id=request_id(at, number),
        dataset=dataset,
        by="owner",
        member=member,
        roles=roles,
        **more,
    )


def releasing(
    dataset: str, at: int, number: int, team: str, *, epsilon: str = "0.1", **more: object
) -> bytes:
    """Return an owner's record of a pure release that a team made elsewhere."""
    return _bytes(
        version=1,
        type="record",
        request_id=request_id(at, number),
        dataset=dataset,
        by="owner",
        claim={"type": "pure", "epsilon": epsilon},
        released_at="2026-01-01T00:00:00.000Z",
        evidence="a table",
        team=team,
        **more,
    )


def limiting(
    dataset: str, at: int, number: int, scope: str, name: str | None = None, **more: object
) -> bytes:
    """Return an owner's record on a limit; with nothing more it lifts it."""
    named = {} if name is None else {"name": name}
    return _bytes(
        version=1,
        type="limit",
        request_id=request_id(at, number),
        dataset=dataset,
        by="owner",
        scope=scope,
        **named,
        **more,
    )


def _bytes(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def decision(number: int) -> Decision:
    """Return the smallest possible decision, with a unique number."""
    return Decision(
        version=FORMAT,
        rules=RULES,
        partition_sequence=number,
        previous="sha256:0",
        decided_at=iso(0),
        floor=iso(0),
        outcome=Outcome.EXPIRED,
    )
