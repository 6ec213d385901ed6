"""Requests above `approve_above`: they wait, and an owner's approval is the grant."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from accountant.partition.operate import reset_clock
from accountant.policy import Policy, resolve
from accountant.policy.proposal import differences
from accountant.records import Decision, encode
from accountant.records.pending_rows import DAY_MS, MAX_PENDING_EACH
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, state_rows
from accountant.times import iso
from tests.accountant.judged_life import START, Body, Ids, Life, Sent
from tests.accountant.world import World, code

TERMS = {"filter": "basic", "epsilon": "1", "approve_above": "0.1"}


class Waiting(World):
    """A dataset with the owners olga and otto, of which larger requests wait."""

    def __init__(self, **policy: object) -> None:
        super().__init__()
        self.send(
            "admin",
            self.admin("open", policy={**TERMS, **policy}, owners=["olga", "otto"], by="olga"),
        )

    def answer(self, kind: str, waiting: Decision, by: str = "olga", **fields: object) -> Decision:
        body = self.admin(kind, by=by, pending=self.hash_of(waiting), **fields)
        return self.send("admin", body)

    def hash_of(self, decision: Decision) -> str:
        encoded = next(each for each in self.encoded if each.decision == decision)
        return f"sha256:{encoded.digest.hex()}"

    def waits(self, claim: str = "pure:0.3", **fields: object) -> Decision:
        waiting = self.ask(claim, **fields)
        assert code(waiting) == "pending", waiting
        return waiting

    def check(self) -> None:
        """Replays, a start from rows and an audit agree with the live state."""
        rows = self.rows()
        assert state_rows(self.replayed()) == rows
        restart = Replay(self.genesis)
        for key, value in rows:
            restart.take_row(key, value)
        start = restart.start
        assert start is not None
        for value in self.log:
            restart.take_decision(value)
        assert state_rows(restart.finish()) == rows
        report = audit(self.log, genesis=self.genesis)
        assert report.ok, report


def test_a_larger_request_waits_and_charges_nothing() -> None:
    world = Waiting()
    assert code(world.ask("pure:0.1")) == "granted"
    waiting = world.waits()
    assert waiting.totals == {"mechanisms": 1, "epsilon": "0.1", "delta": "0"}
    assert waiting.asked == {"epsilon": "0.3", "delta": "0"}
    assert waiting.cost is None
    assert waiting.pending is not None
    assert waiting.pending.until == "2026-11-28T10:00:00.000Z"
    world.check()


def test_an_approval_is_the_grant_of_the_request_itself() -> None:
    world = Waiting()
    waiting = world.waits(purpose="table 4")
    granted = world.answer("approve", waiting, reason="seen in the plan")
    assert (code(granted), granted.cost) == ("granted", {"epsilon": "0.3", "delta": "0"})
    assert bytes(granted.request) == bytes(waiting.request)
    assert msgspec.json.decode(granted.approval)["type"] == "approve"
    assert granted.pending is not None
    assert (granted.pending.by, granted.pending.analyst) == ("olga", "ana")
    assert granted.totals == {"mechanisms": 1, "epsilon": "0.3", "delta": "0"}
    world.check()


def test_a_repeat_is_answered_from_the_row_long_after_its_id_is_forgotten() -> None:
    world = Waiting()
    body = world.request("pure:0.3")
    waiting = world.send("requests", body)
    assert code(world.send("requests", body)) == "repeated"
    granted = world.answer("approve", waiting)
    world.now += 3 * DAY_MS
    again = world.send("requests", body)
    assert code(again) == "repeated"
    assert again.first is not None
    assert (again.first.outcome, again.first.cost) == ("granted", granted.cost)
    other = body.replace(b"0.3", b"0.4")
    assert code(world.send("requests", other)) == "conflict"
    world.check()
    world.now += 30 * DAY_MS
    world.ask("pure:0.01")
    assert code(world.send("requests", body)) == "expired"
    assert world.rows()[0][1].find(b"pending") == -1
    world.check()


def test_an_approval_decides_the_request_as_if_it_were_sent_now() -> None:
    world = Waiting()
    waiting = world.waits("pure:0.6")
    other = world.waits("pure:0.6", analyst="ben")
    assert code(world.answer("approve", waiting)) == "granted"
    refused = world.answer("approve", other)
    assert (code(refused), refused.fits) == ("exhausted", "pure:0.4")
    assert msgspec.json.decode(refused.request)["type"] == "approve"
    assert code(world.answer("deny", other, reason="too late")) == "denied"
    world.check()


@pytest.mark.parametrize("kind", ["approve", "deny"])
def test_an_answer_is_given_once_in_time_and_by_an_owner(kind: str) -> None:
    world = Waiting()
    waiting = world.waits()
    assert code(world.answer(kind, waiting, by="ana")) == "not_permitted"
    late = world.waits()
    assert code(world.answer(kind, waiting)) in {"granted", "denied"}
    assert code(world.answer(kind, waiting)) == "already_answered"
    unknown = world.admin(kind, by="olga", pending="sha256:" + "0" * 64)
    assert code(world.send("admin", unknown)) == "not_pending"
    world.now += 7 * DAY_MS
    assert code(world.answer(kind, late)) == "lapsed"
    world.check()


def test_nobody_approves_their_own_request() -> None:
    world = Waiting()
    own = world.waits(analyst="olga")
    assert code(world.answer("approve", own, by="olga")) == "own_request"
    assert code(world.answer("approve", own, by="otto")) == "granted"
    world.send("admin", world.admin("member", by="olga", member="otto", roles=[]))
    assert code(world.ask("pure:0.3", analyst="olga")) == "no_approver"
    world.check()


def test_somebody_s_requests_that_wait_are_bounded() -> None:
    world = Waiting()
    first = world.waits()
    for _ in range(MAX_PENDING_EACH - 1):
        world.waits()
    assert code(world.ask("pure:0.3")) == "too_many_pending"
    world.waits(analyst="ben")
    world.answer("deny", first)
    world.waits()
    world.check()


def test_a_request_whose_deadline_is_over_makes_room_for_another() -> None:
    world = Waiting()
    for _ in range(MAX_PENDING_EACH):
        world.waits()
    world.now += 7 * DAY_MS
    world.waits()
    world.check()


@pytest.mark.parametrize("named", [{}, {"approve_above": "0.3"}])
def test_a_lowered_budget_leaves_approvals_unless_it_names_others(named: dict[str, str]) -> None:
    world = Waiting(approve_within="P2D")
    lower = {"filter": "basic", "epsilon": "0.5", **named}
    assert code(world.send("admin", world.admin("amend", by="olga", policy=lower))) == "amended"
    assert code(world.ask("pure:0.1")) == ("granted" if named else "pending")
    last = world.waits("pure:0.2")
    assert last.pending is not None
    assert last.pending.until == "2026-11-23T10:00:00.000Z"
    world.check()


def test_what_needs_an_approval_may_be_amended() -> None:
    world = Waiting()
    waiting = world.waits()

    def amend(**fields: str) -> str:
        return code(world.send("admin", world.admin("amend", by="olga", **fields)))

    assert amend(approve_within="P1D") == "invalid_field"
    assert amend(approve_above="1", approve_within="P31D") == "invalid_field"
    assert amend(approve_above="1") == "amended"
    assert code(world.ask("pure:0.3")) == "granted"
    assert code(world.answer("approve", waiting)) == "granted"
    assert amend(approve_above="0.2", approve_within="P1D") == "amended"
    assert code(world.ask("pure:0.1")) == "granted"
    again = world.waits("pure:0.21")
    assert again.pending is not None
    assert again.pending.until == "2026-11-22T10:00:00.000Z"
    world.check()


def test_a_policy_without_approvals_is_one_that_asks_for_none() -> None:
    plain = Policy(filter="basic", epsilon="1")
    none, some = (msgspec.structs.replace(plain, approve_above=part) for part in ("1", "0.1"))
    assert differences(resolve(none), plain) == {}
    assert differences(resolve(some), plain) == {"approve_above": ("0.1", "1")}


def test_what_does_not_fit_is_refused_and_does_not_wait() -> None:
    world = Waiting(most_per_request="0.5")
    assert code(world.ask("pure:0.6")) == "above_cap"
    assert code(world.ask("pure:0.5")) == "pending"
    world.ask("pure:0.1")
    for _ in range(9):
        world.ask("pure:0.1")
    assert code(world.ask("pure:0.3")) == "exhausted"
    world.check()


def test_a_clock_that_is_set_back_revives_no_request() -> None:
    world = Waiting()
    body = world.request("pure:0.3")
    waiting = world.send("requests", body)
    world.now += 7 * DAY_MS
    assert code(world.answer("approve", waiting)) == "lapsed"
    world.commit()
    world.took(reset_clock(world.draft, START, "it was ahead"))
    world.now = START + 600_000
    assert code(world.answer("approve", waiting)) == "lapsed"
    assert code(world.answer("approve", waiting)) == "lapsed"
    again = world.send("requests", body)
    assert again.first is not None
    assert (again.first.outcome, again.first.reason) == ("pending", "lapsed")
    assert code(world.answer("approve", world.waits())) == "granted"
    world.check()


def test_a_repeat_says_that_its_deadline_is_over() -> None:
    world = Waiting()
    body = world.request("pure:0.3")
    world.send("requests", body)
    said = []
    for later in (7 * DAY_MS - 1, 1):
        world.now += later
        first = world.send("requests", body).first
        assert first is not None
        said.append((first.outcome, first.reason))
    assert said == [("pending", None), ("pending", "lapsed")]
    world.check()


def test_a_reservation_lasts_from_its_approval_on() -> None:
    world = Waiting()
    waiting = world.waits(reserve={"until": "PT1H"})
    world.now += DAY_MS
    reserved = world.answer("approve", waiting)
    assert code(reserved) == "reserved"
    assert reserved.reservation is not None
    assert reserved.reservation.until == "2026-11-22T11:00:00.000Z"
    world.check()


@pytest.mark.parametrize("paused", [{"member": "ana"}, {"team": "red"}])
def test_a_pause_of_who_asks_holds_at_the_approval(paused: dict[str, str]) -> None:
    world = Waiting()
    member = world.admin("member", by="olga", member="ana", roles=["analyst"], team="red")
    world.send("admin", member)
    waiting = world.waits()
    pause = world.admin("pause_member", by="olga", reason="on leave", **paused)
    assert code(world.send("admin", pause)) == "member_paused"
    refused = world.answer("approve", waiting)
    assert (code(refused), refused.pause is not None) == ("person_paused", True)
    world.check()
    world.send("admin", world.admin("resume_member", by="olga", **paused))
    assert code(world.answer("approve", waiting)) == "granted"
    world.check()


def test_several_datasets_are_asked_one_by_one() -> None:
    world = Waiting()
    world.send("admin", world.admin("open", dataset="more", policy=TERMS, owners=["olga"]))
    done = world.ask("pure:0.3", other_datasets=["more"])
    assert (code(done), done.refused_by) == ("not_alone", "census")
    world.check()


def test_a_pause_and_a_limit_hold_at_the_approval() -> None:
    world = Waiting()
    waiting = world.waits()
    world.send("admin", world.admin("pause", by="olga"))
    assert code(world.answer("approve", waiting)) == "paused"
    world.send("admin", world.admin("resume", by="olga"))
    limit = world.admin("limit", by="olga", scope="analyst", name="ana", part="0.2")
    assert code(world.send("admin", limit)) == "limit_set"
    refused = world.answer("approve", waiting)
    assert (code(refused), refused.level is not None) == ("exhausted", True)
    world.check()
    assert encode(waiting)


@pytest.mark.parametrize("seed", range(4))
def test_weeks_of_requests_that_wait_are_as_predicted(seed: int) -> None:
    """The oracle judges each decision and row, over deadlines and after them, with kills."""
    chance, life, ids, at = Random(seed), Life(seed=seed), Ids(), START
    waiting: list[str] = []
    sent: list[Body] = []
    own = {"approve_above": "0.05", "approve_within": "P2D", "open_per_holder": 5}
    policies: list[Body] = [
        {"filter": "basic", "epsilon": "3", **own},
        {"epsilon": "2", "delta": "1e-6", "beside": "basic", "most_per_request": "0.3", **own},
        {"filter": "gdp_residue", "epsilon": "4", "delta": "1e-6", **own},
        {"filter": "zcdp", "rho": "0.4", "access": "members", **own},
    ]

    def do(body: Body) -> Body:
        nonlocal at
        at += chance.choice([1, 40, 3_600_000, DAY_MS // 2])
        head = {"version": 1, "dataset": "census"}
        said = life.decide(Sent.made({**head, "request_id": ids.new(at), **body}, at))
        sent.append(body)
        return said

    def next_body() -> Body:
        kind = chance.choice("rrrrrraaaaddmlprs")
        by = {"by": chance.choice(["olga", "otto", "ana"])}
        if kind in "ad" and waiting:
            type_ = "approve" if kind == "a" else "deny"
            return {"type": type_, "pending": chance.choice(waiting[-6:]), **by}
        if kind == "m":
            roles = chance.choice([["owner"], ["analyst"], ["analyst", "owner"], []])
            return {"type": "member", "member": chance.choice("xy"), "roles": roles, **by}
        if kind == "l":
            part = {"part": chance.choice(["0.1", "0.4", "1"])}
            ends = (
                {"until": iso(at + chance.randrange(1, 4) * DAY_MS)}
                if chance.random() < 0.5
                else {}
            )
            return {"type": "limit", "scope": "analyst", "name": "x", **part, **ends, **by}
        if kind == "p":
            if chance.random() < 0.5:
                pause = chance.choice(["pause_member", "resume_member"])
                return {"type": pause, "member": "x", "reason": "a loop", **by}
            return {"type": chance.choice(["pause", "resume", "resume"]), **by}
        if kind == "s" and sent:
            return chance.choice(sent)
        claim = {"type": "pure", "epsilon": f"{chance.randrange(1, 40)}e-2"}
        more = {"reserve": {"until": "P2D"}} if chance.random() < 0.3 else {}
        terms = {"unit": "person", "neighbours": "add_remove"}
        analyst = chance.choice(["x", "y", "olga"])
        return {"type": "request", "analyst": analyst, "claim": claim, **terms, **more}

    do({"type": "open", "by": "olga", "owners": ["olga", "otto"], "policy": policies[seed]})
    for name in ("x", "y", "olga"):
        roles = ["analyst"] if name != "olga" else ["owner", "analyst"]
        do({"type": "member", "by": "otto", "member": name, "roles": roles})
    for number in range(120):
        said = do(next_body())
        if said["outcome"] == "pending":
            waiting.append(life.judge.head)
        if number % 5 == 0:
            life.commit()
        if number % 15 == 0:
            life.commit()
            life.kill()
    life.finish()
    assert life.met["pending"] > 8


def test_an_audit_finds_an_approval_of_another_request() -> None:
    """The half of an audit that decides nothing compares what is granted with what waits."""
    world = Waiting()
    waiting = world.waits("pure:0.3")
    world.answer("approve", waiting)
    forged = world.log[-1].replace(b'"epsilon": "0.3"', b'"epsilon": "0.2"')
    assert forged != world.log[-1]
    report = audit([*world.log[:-1], forged], decided=lambda *_: None)
    assert report.first_disagreement is not None
    assert report.first_disagreement.what == "request"
