"""What a gateway on Kafka finds of recent decisions by their request."""

from __future__ import annotations

import json

from accountant.records.header import decode_header
from streams.kafka.service.follower.recent_decisions import RecentDecisions
from tests.accountant.partition.division import divide, divided
from tests.streams.clock import TestClock

WINDOW_MS = 600_000


def test_every_numbered_decision_is_found_by_its_request() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.5")
    world.ask("pure:0.1", analyst="ana")
    recent = RecentDecisions(TestClock(world.now), WINDOW_MS)
    lines = [(decode_header(value), value) for value in world.log]
    for line, value in lines:
        recent.add((0, "requests", line.partition_sequence), line, value)
    numbered = [each for each in lines if each[0].sequence is not None]
    assert "limit_set" in [line.outcome for line, _ in numbered]
    for line, value in numbered:
        body = json.loads(bytes(line.request))
        caller = body.get("analyst", body.get("by"))
        key = str(line.dataset), caller, body["request_id"]
        assert recent.by_request.get(key) == value, line.outcome
