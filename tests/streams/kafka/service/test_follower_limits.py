"""Limits in a process that follows a ledger on Kafka, fed with rows and decisions."""

from __future__ import annotations

import pytest

from accountant.partition import Partition
from accountant.partition.key_hash import partition_of
from streams.service.ledger_reads import LedgerReads
from streams.service.live_views import CountedDecisions
from tests.accountant.partition.division import days, divide, divided, limit
from tests.accountant.partition.test_period_limits import DAILY, set_back
from tests.accountant.world import START, World, code
from tests.streams.clock import TestClock
from tests.streams.kafka.service.followed_log import Gateway


@pytest.mark.parametrize("by", ["rows", "decisions", "both"])
def test_after_a_clock_reset_a_period_limit_follows_the_ledgers_clock(by: str) -> None:
    assert partition_of(b"census", 1) == 0
    world = divided()
    divide(world, "dataset", pace=DAILY)
    world.now = START + days(5.5)
    assert code(world.ask("pure:0.08", analyst="ana")) == "granted"
    set_back(world, START + days(2.5))  # the dataset's last decision is three days ahead now
    gateway = Gateway(world)
    if by != "decisions":
        gateway.read_rows(world.rows())
    if by != "rows":
        gateway.read(world.log)
    shown = gateway.previewed("pure:0.03", "ana")
    budget = gateway.limits.budget("census", "ana")
    assert budget is not None
    decision = world.ask("pure:0.03", analyst="ana")
    assert code(decision) == "exhausted"
    assert (shown["granted"], shown["level"], shown["left_at"]) == (
        *(False, decision.level, decision.left_at),
    )
    (level,) = budget.levels
    assert level.pace is not None
    assert (level.pace.left, level.pace.ends_at) == (
        {"epsilon": "0.02", "delta": "0"},
        decision.left_at[0].more_at,
    )


def test_a_gateway_with_a_late_clock_uses_the_ledgers() -> None:
    world = divided()
    divide(world, "dataset", pace=DAILY)
    assert code(world.ask("pure:0.1", analyst="ana")) == "granted"
    world.now = START + days(1)
    assert code(limit(world, "team", "blue", part="0.5")) == "limit_set"
    assert code(world.open("other", filter="basic", epsilon="1")) == "opened"
    gateway = Gateway(world, clock=START)
    gateway.read(world.log)
    assert gateway.previewed("pure:0.1", "ana")["granted"]
    assert code(world.ask("pure:0.1", analyst="ana")) == "granted"


def test_a_membership_ends_by_the_ledgers_clock() -> None:
    world = divided()
    body = world.admin(
        "member", member="eve", roles=["analyst"], team="red", until="2026-11-21T12:00:00.000Z"
    )
    assert code(world.send("admin", body)) == "member_set"
    divide(world, "team", "red", part="0.1")
    world.now = START + days(1)
    assert code(world.open("other", filter="basic", epsilon="1")) == "opened"
    gateway = Gateway(world, clock=START)
    gateway.read(world.log)
    budget = gateway.limits.budget("census", "eve")
    assert budget is not None
    assert budget.team is None
    assert gateway.previewed("pure:0.2", "eve")["granted"]
    assert code(world.ask("pure:0.2", analyst="eve")) == "granted"


class Reads(LedgerReads):
    """Reads of the partitions of some gateways."""

    def __init__(self, *gateways: Gateway) -> None:
        super().__init__(TestClock(), CountedDecisions(), None, None)  # type: ignore[arg-type]
        self.gateways = gateways

    @property
    def partitions(self) -> int:
        return len(self.gateways)

    def _partition(self, number: int) -> Partition:
        return self.gateways[number].followed.state


def test_a_reset_of_any_partition_leaves_no_order_between_partitions() -> None:
    world = World()
    gateway = Gateway(world)
    one, both = Reads(gateway), Reads(gateway, Gateway(World(partitions=2, partition=1)))  # type: ignore[abstract]
    gateway.read(world.log)
    assert (one.ordered_before(), both.ordered_before()) == (None, None)
    read = len(world.log)
    set_back(world, START - days(1))
    gateway.read(world.log[read:])
    assert (one.ordered_before(), both.ordered_before()) == (START - days(1), 0)
    gateway.read_rows(world.rows())
    assert one.ordered_before() == START - days(1)
    set_back(world, START - days(2))
    gateway.read(world.log[-1:])
    assert one.ordered_before() == 0
