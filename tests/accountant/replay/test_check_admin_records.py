"""An audit lists what administrators have said of members, and nothing that owners have."""

from __future__ import annotations

from accountant.replay.audit import audit
from accountant.replay.notable_records import AdminMemberRecord
from tests.accountant.partition.circle import enrol, member, opened
from tests.accountant.world import code


def test_an_audit_lists_the_records_of_administrators() -> None:
    world = opened()
    enrol(world, "ana", "analyst")
    help_ = {"as": "administrator", "by": "root", "reason": "olga is away"}
    made = member(world, "ben", "owner", "auditor", **help_)
    assert code(member(world, "zoe", **help_)) == "unknown_member", "which changes nothing"
    removed = member(world, "ana", **help_)
    report = audit(world.log)
    assert report.ok
    assert report.administered == (
        AdminMemberRecord(
            partition_sequence=made.partition_sequence,
            decided_at=made.decided_at,
            dataset="census",
            by="root",
            member="ben",
            roles=("owner", "auditor"),
            reason="olga is away",
        ),
        AdminMemberRecord(
            partition_sequence=removed.partition_sequence,
            decided_at=removed.decided_at,
            dataset="census",
            by="root",
            member="ana",
            roles=(),
            reason="olga is away",
        ),
    )
