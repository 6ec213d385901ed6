"""A refund is the inverse of a charge: exactly, at every limit, in every period and share."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import msgspec

from accountant.amounts import Units
from accountant.claims import check_claim
from accountant.claims.text import parse_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import adjudicate
from accountant.limits.applicable_limits import ApplicableLimits, applicable_limits, team_of
from accountant.limits.charge import LimitCharge, after_refund, charges_of, refund
from accountant.limits.reserved_totals import Sums, minus, plus
from accountant.limits.store import LimitOverlay
from accountant.records.outcomes import Outcome
from tests.accountant.partition.circle import BASIC, enrol
from tests.accountant.partition.division import TEAMS, ask_for_outcome, days, divide, divided, limit
from tests.accountant.world import World
from tests.every_case import check_each
from tests.nightly import rounds

PEOPLE = (*TEAMS, "eve")
CLAIMS = (
    *("pure:0.02", "pure:0.05", "pure:0.2", "gaussian:sigma=9,sensitivity=1"),
    *("laplace:scale=90,sensitivity=1", "laplace:scale=33,sensitivity=1"),
)
POLICIES: tuple[dict[str, Any], ...] = (
    BASIC,
    {"filter": "zcdp", "rho": "0.5", "delta": "1e-6"},
    {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"},
)


class Held(NamedTuple):
    """What one grant was charged."""

    totals: tuple[Units, ...]
    levels: list[LimitCharge]


class Trial:
    """Grants and refunds over a world's state, which they leave as it is."""

    def __init__(self, world: World) -> None:
        world.commit()
        self.members = world.state.members
        self.resets = world.state.resets
        self.store = LimitOverlay(world.state.levels)
        self.ledger = world.ledger()
        self.at = world.now

    def limits(self, caller: str) -> ApplicableLimits | None:
        team = team_of(self.members.get("census", caller), self.at)
        return applicable_limits(self.ledger, self.store, caller, team, self.at, self.resets)

    def grant(self, caller: str, claim: str) -> Held | None:
        limits, before = self.limits(caller), self.ledger
        asked = check_claim(parse_claim(claim))
        after, verdict = adjudicate(before, asked, "person", "add_remove", self.at, limits)
        if verdict.outcome is not Outcome.GRANTED:
            return None
        charges = [] if limits is None else charges_of(limits, verdict.charged)
        for each in verdict.charged:
            self.store.put(each.after)
        self.ledger = after
        return Held(minus(after.totals, before.totals), charges)

    def refund(self, held: Held) -> None:
        totals = after_refund(self.ledger.totals, held.totals)
        self.ledger = moved(self.ledger, totals)
        for level in refund(self.store, held.levels, self.ledger):
            self.store.put(level)

    def promised(self) -> Sums:
        return plus(self.ledger.spent, self.store.reserved("census"))

    def snapshot(self) -> object:
        """Return all that later decisions depend on."""
        return self.ledger.totals, self.reserved(), [self.used(caller) for caller in PEOPLE]

    def used(self, caller: str) -> object:
        limits = self.limits(caller)
        if limits is None:
            return None
        former = limits.former_team
        return (
            [(each.counted, each.period_used, each.period) for each in limits.limits],
            (limits.reserved, limits.own_unused, former and former.unused),
        )

    def reserved(self) -> object:
        teams = [self.store.reserved_in("census", team) for team in ("blue", "red", "")]
        return self.store.reserved("census"), teams


def moved(ledger: DatasetLedger, totals: tuple[Units, ...]) -> DatasetLedger:
    return msgspec.structs.replace(ledger, totals=totals, sequence=ledger.sequence + 1)


def divided_at_random(chance: random.Random) -> World:
    policy = chance.choice(POLICIES)
    world = divided(policy)
    own = {"filter": "basic", "epsilon": "0.7", "delta": "1e-6"}
    residue = {"filter": "gdp_residue", "epsilon": "0.9", "delta": "1e-6"}
    for _ in range(chance.randrange(2, 9)):
        scope = chance.choice(["team", "analyst", "analyst", "each", "dataset"])
        name = {"team": ["blue", "red"], "each": ["blue", "red"], "analyst": [*PEOPLE]}
        fields: dict[str, object] = {}
        if scope != "dataset" and chance.random() < 0.6:
            kind = chance.choice(["part", "policy"])
            fields[kind] = "0.7" if kind == "part" else chance.choice([own, residue])
        if chance.random() < 0.6:
            fields["pace"] = {"part": chance.choice(["0.3", "0.5"]), "period": "P1D"}
        if scope in ("team", "analyst") and chance.random() < 0.7:
            fields["reserved"] = chance.choice(["0.1", "0.25", "0.3333333333333333333"])
        limit(world, scope, chance.choice(name[scope]) if scope in name else None, **fields)
        if chance.random() < 0.4:
            world.ask(chance.choice(CLAIMS), analyst=chance.choice(PEOPLE))
        if chance.random() < 0.2:
            world.now += days(0.7)
        if chance.random() < 0.3:
            enrol(world, chance.choice(PEOPLE), "analyst", team=chance.choice(["blue", "red"]))
    return world


def test_refunds_in_reverse_order_restore_each_state_exactly() -> None:
    def check_case(seed: int) -> None:
        chance = random.Random(seed)
        trial = Trial(divided_at_random(chance))
        for _ in range(4):
            stack: list[tuple[object, Held]] = []
            for _ in range(chance.randrange(1, 6)):
                before = trial.snapshot()
                held = trial.grant(chance.choice(PEOPLE), chance.choice(CLAIMS))
                if held is not None:
                    stack.append((before, held))
            while stack:
                before, held = stack.pop()
                trial.refund(held)
                assert trial.snapshot() == before
            trial.grant(chance.choice(PEOPLE), chance.choice(CLAIMS))

    check_each(check_case, range(rounds(60, 1_000)))


def test_refunds_in_any_order_leave_every_reserved_share_available() -> None:
    def check_case(seed: int) -> None:
        chance = random.Random(seed)
        world = divided_at_random(chance)
        adds_up = world.ledger().plan.kind.adds_up
        trial = Trial(world)
        start, outstanding = trial.ledger.totals, list[Held]()
        for _ in range(30):
            if outstanding and chance.random() < 0.5:
                trial.refund(outstanding.pop(chance.randrange(len(outstanding))))
            else:
                held = trial.grant(chance.choice(PEOPLE), chance.choice(CLAIMS))
                outstanding += [] if held is None else [held]
            capacity = trial.ledger.plan.capacity
            assert all(a <= b for a, b in zip(trial.promised(), capacity, strict=False))
            if chance.random() < 0.1:
                trial.at += days(0.6)
        for held in outstanding:
            trial.refund(held)
        assert trial.ledger.totals == start or not adds_up

    check_each(check_case, range(rounds(60, 1_000)))


def test_a_refund_of_reused_shares_returns_to_the_whole_dataset() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.4")
    divide(world, "analyst", "ana", reserved="0.4")
    enrol(world, "ana", "analyst", team="red")
    divide(world, "team", "red", reserved="0.4")
    trial = Trial(world)
    held = trial.grant("ana", "pure:0.4")
    assert held is not None
    assert len(held.levels) == 3
    assert trial.grant("eve", "pure:0.6") is not None
    trial.refund(held)
    assert trial.promised()[0] == trial.ledger.spent[0]
    assert trial.grant("eve", "pure:0.4") is not None


def test_a_refund_in_a_later_period_lowers_nothing_there() -> None:
    world = divided()
    divide(world, "analyst", "ana", part="0.9", pace={"part": "0.3", "period": "P1D"})
    trial = Trial(world)
    early = trial.grant("ana", "pure:0.2")
    assert early is not None
    assert trial.grant("ana", "pure:0.2") is None
    trial.at += days(1)
    assert trial.grant("ana", "pure:0.3") is not None
    trial.refund(early)
    assert trial.grant("ana", "pure:0.1") is None
    limits = trial.limits("ana")
    assert limits is not None
    assert limits.limits[0].counted == (3 * 10**39, 0)
    trial.at += days(1)
    assert trial.grant("ana", "pure:0.3") is not None


def test_a_refund_does_not_reach_a_count_that_begins_later() -> None:
    world = divided()
    divide(world, "analyst", "ana", part="0.5")
    trial = Trial(world)
    held = trial.grant("ana", "pure:0.2")
    assert held is not None
    divide(world, "analyst", "ana", policy={"filter": "zcdp", "rho": "0.1", "delta": "1e-6"})
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    later = Trial(world)
    before = later.used("ana")
    later.refund(Held((0,) * len(later.ledger.totals), held.levels))
    assert later.used("ana") == before
