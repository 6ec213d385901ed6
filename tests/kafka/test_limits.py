"""Limits on Kafka: a gateway shows them as the log decides, whether it starts early or late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from accountant.advice.preview import Preview
from accountant.claims.text import parse_claim
from accountant.records import Decision, decode_decision
from accountant.records.limit_records import scope_row_key
from accountant.records.previews import PreviewRequest
from accountant.views.limit_views import AnalystBudget, ScopeView
from streams.errors import Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, request, until, working
from tests.kafka.test_state_topic import is_known
from tests.patience import PATIENCE_S
from tests.streams.bodies import enrolment, limiting

TEAMS: Final = {"ana": "blue", "ben": "blue", "cy": "red"}
LIMITS: Final[list[tuple[str, str | None, dict[str, Any]]]] = [
    ("dataset", None, {"pace": {"part": "0.2", "period": "P1D"}}),
    ("team", "blue", {"part": "0.2", "reserved": "0.1"}),
    ("each", "blue", {"part": "0.1"}),
    ("analyst", "cy", {"part": "0.05", "reserved": "0.05"}),
]
ALL: Final = ["dataset", "team blue", "each blue", "analyst cy"]
NOBODY: Final = "nobody-yet"
LARGE: Final = "1.9"


class ShownLimits(NamedTuple):
    """A gateway's views of a dataset with limits."""

    levels: list[ScopeView]
    budgets: list[AnalystBudget | None]
    previews: list[dict[str, Any]]


def preview_request(epsilon: str, analyst: str) -> PreviewRequest:
    return PreviewRequest(parse_claim(f"pure:{epsilon}"), "person", "add_remove", analyst)


async def previewed(service: KafkaService, analyst: str, epsilon: str) -> Preview:
    shown = await service.preview("census", preview_request(epsilon, analyst))
    assert shown is not None
    return shown


async def shown_limits(service: KafkaService) -> ShownLimits:
    names = (*TEAMS, NOBODY)
    previews = [await previewed(service, name, each) for name in names for each in ("0.01", LARGE)]
    return ShownLimits(
        await service.levels("census"),
        [await service.budget_for("census", name) for name in names],
        # A refusal is a decision, too, and changes no more than this number.
        [msgspec.structs.asdict(each) | {"sequence": 0} for each in previews],
    )


def sums(of: dict[str, str] | None) -> str | None:
    return None if of is None else of["epsilon"]


def check_left(decision: Decision, budget: AnalystBudget | None) -> None:
    """Check that a refusal's `left_at` equals the shown limits that apply."""
    assert budget is not None
    levels = {(each.scope, each.name): each for each in budget.levels}
    assert {(each.scope, each.name) for each in decision.left_at} == {("dataset", None), *levels}
    for each in decision.left_at:
        level = levels[each.scope, each.name]
        assert each.left == (budget.left if each.scope == "dataset" else level.left)
        assert each.pace_left == (None if level.pace is None else level.pace.left)
        assert each.more_at == (None if level.pace is None else level.pace.ends_at)


async def damaged(ledger: Ledger) -> None:
    """Replace cy's limit by bytes that are not a row, under the same key."""
    producer = AIOKafkaProducer(bootstrap_servers=ledger.bootstrap)
    await producer.start()
    key = scope_row_key("census", "analyst", "", "cy")
    await producer.send_and_wait(ledger.topic("state"), b'{"type":"level"', key, partition=0)
    await producer.stop()


def named(levels: list[ScopeView]) -> list[str]:
    return [f"{each.scope} {each.name or ''}".strip() for each in levels]


async def check_limits(service: KafkaService) -> None:
    """Return once a gateway shows every limit."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while (names := named(await service.levels("census"))) != ALL:
        assert asyncio.get_running_loop().time() < deadline, names
        await asyncio.sleep(0.1)


async def decided(service: KafkaService, analyst: str, epsilon: str) -> Decision:
    answer = await service.submit(
        "requests", request("census", analyst=analyst, epsilon=epsilon), wait=PATIENCE_S
    )
    assert answer.decision is not None
    return decode_decision(answer.decision)


async def divide(ledger: Ledger) -> None:
    at = time.time_ns() // 1_000_000
    await ledger.open("census", filter="basic", epsilon="10")
    members = [
        enrolment("census", at, number, name, "analyst", team=team)
        for number, (name, team) in enumerate(TEAMS.items())
    ]
    limits = [
        limiting("census", at, number, scope, name, **fields)
        for number, (scope, name, fields) in enumerate(LIMITS, len(TEAMS))
    ]
    await ledger.send_all([*members, *limits], topic="admin")
    await ledger.settle()


@asynccontextmanager
async def following(deployment: Deployment) -> AsyncIterator[KafkaService]:
    service = await KafkaService.start(deployment)
    try:
        yield service
    finally:
        await service.close()


async def test_a_gateway_shows_limits_as_the_log_decides(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        # Who starts with no decisions to read back has the rows of `state` alone.
        late = replace(ledger.deployment, window_ms=1, skew_ms=0)
        async with working(ledger), following(ledger.deployment) as early:
            assert await early.levels("census") == []
            assert await early.budget_for("census", "ana") is None
            await divide(ledger)
            await check_limits(early)
            for analyst, epsilon in (("ana", "0.4"), ("ben", "0.2"), ("cy", "0.1"), ("ana", "0.3")):
                before = await previewed(early, analyst, epsilon)
                decision = await decided(early, analyst, epsilon)
                assert (decision.granted, before.granted) == (True, True)
                assert (before.sequence + 1, before.cost) == (decision.sequence, decision.cost)
                assert (await previewed(early, analyst, LARGE)).sequence == decision.sequence
            shown = await shown_limits(early)
            assert named(shown.levels) == ALL
            dataset, blue, each, cy = shown.levels
            assert dataset.pace is not None
            assert (dataset.pace.used["epsilon"], dataset.pace.left["epsilon"]) == ("1", "1")
            assert (sums(blue.used), sums(blue.left), each.used) == ("0.9", "1.1", None)
            assert (sums(cy.used), sums(cy.left)) == ("0.1", "0.4")
            async with following(late) as started_later:
                assert await shown_limits(started_later) == shown
            for analyst in (*TEAMS, NOBODY):
                preview = await previewed(early, analyst, LARGE)
                decision = await decided(early, analyst, LARGE)
                assert (preview.granted, preview.reason) == (False, decision.reason)
                assert (preview.level, preview.left_at) == (decision.level, decision.left_at)
                assert (preview.fits, preview.asked) == (decision.fits, decision.asked)
                check_left(decision, await early.budget_for("census", analyst))
            assert await shown_limits(early) == shown
        await damaged(ledger)
        async with following(late) as started_later:
            with pytest.raises(Unavailable, match="rows of partition 0"):
                await started_later.levels("census")
            # The next owner writes the row again.
            async with working(ledger):
                await until(lambda: is_known(started_later, "census"), "its rows are read again")
                assert await shown_limits(started_later) == shown
        await ledger.judged()
