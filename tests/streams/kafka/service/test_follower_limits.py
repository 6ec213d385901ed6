"""Limits in a process that follows a ledger on Kafka, fed with rows and decisions."""

from __future__ import annotations

import msgspec
import pytest

from accountant.claims.text import parse_claim
from accountant.partition.key_hash import partition_of
from accountant.records.header import decode_header
from accountant.records.previews import PreviewRequest
from streams.kafka.service.follower.limits import FollowerLimits
from tests.accountant.partition.division import days, divide, divided, limit
from tests.accountant.partition.test_period_limits import DAILY, set_back
from tests.accountant.world import START, World, code
from tests.streams.clock import TestClock
from tests.streams.kafka.service.followed_log import FollowedLog


class Gateway(FollowedLog):
    """A gateway's reading of a world's rows and decisions; its clock is the world's."""

    def __init__(self, world: World, *, clock: int | None = None) -> None:
        super().__init__(TestClock(world.now if clock is None else clock))

    def previewed(self, claim: str, analyst: str) -> dict[str, object]:
        asked = PreviewRequest(parse_claim(claim), "person", "add_remove", analyst)
        return msgspec.structs.asdict(self.limits.preview(self.views["census"], asked)())


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
    budget = gateway.limits.budget(gateway.views["census"], "ana")
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


def test_a_preview_is_of_the_moment_of_the_request() -> None:
    world = divided()
    assert code(limit(world, "analyst", "ben", reserved="0.9")) == "limit_set"
    gateway = Gateway(world)
    gateway.read(world.log)
    asked = PreviewRequest(parse_claim("pure:0.101"), "person", "add_remove", "ana")
    made = gateway.limits.preview(gateway.views["census"], asked)
    known = len(world.log)
    assert code(world.ask("pure:0.5", analyst="ben")) == "granted"
    gateway.read(world.log[known:])  # while a thread uses the preview
    shown = made()
    assert (shown.granted, shown.fits) == (False, "pure:0.1")


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
    assert gateway.limits.budget(gateway.views["census"], "eve").team is None
    assert gateway.previewed("pure:0.2", "eve")["granted"]
    assert code(world.ask("pure:0.2", analyst="eve")) == "granted"


def test_a_reset_of_any_partition_leaves_no_order_between_partitions() -> None:
    world = World()
    gateway = Gateway(world)
    both = FollowerLimits(gateway.members, gateway.clock, 2, "name")
    gateway.read(world.log)
    assert (gateway.limits.ordered_before(), both.ordered_before()) == (None, None)
    read = len(world.log)
    set_back(world, START - days(1))
    gateway.read(world.log[read:])
    both.take_lines(0, [decode_header(world.log[-1])], world.log[-1:], {})
    assert (gateway.limits.ordered_before(), both.ordered_before()) == (START - days(1), 0)
    fresh = Gateway(world)
    fresh.read_rows(world.rows())
    assert fresh.limits.ordered_before() == START - days(1)
    set_back(world, START - days(2))
    fresh.read(world.log[-1:])
    assert fresh.limits.ordered_before() == 0
