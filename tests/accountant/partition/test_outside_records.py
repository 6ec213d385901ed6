"""Releases made elsewhere: charged whatever is in the way, and past the budget no guarantee."""

from __future__ import annotations

import json
from fractions import Fraction
from random import Random
from typing import Any

import mpmath
import pytest

from accountant.amounts import UNIT
from tests.accountant.judged_life import START, Body, Ids, Life, Sent

IDS = Ids()
BASIC = {"filter": "basic", "epsilon": "1"}
RELEASED = {"released_at": "2026-01-01T00:00:00.000Z", "evidence": "table 3 of the report"}


def record(kind: str, **more: Any) -> Body:
    head = {"version": 1, "type": kind, "request_id": IDS.new(START), "dataset": "census"}
    return {**head, **({} if kind == "request" else {"by": "olga"}), **more}


def pure(epsilon: str) -> Body:
    return {"type": "pure", "epsilon": epsilon}


def outside(epsilon: str, **more: Any) -> Body:
    return record("record", claim=pure(epsilon), **RELEASED, **more)


def ask(epsilon: str, analyst: str = "ana", **more: Any) -> Body:
    fields = {"unit": "person", "neighbours": "add_remove", **more}
    return record("request", analyst=analyst, claim=pure(epsilon), **fields)


def share(scope: str, name: str, part: str) -> Body:
    return record("limit", scope=scope, name=name, reserved=part)


def member(name: str, team: str) -> Body:
    return record("member", member=name, roles=["analyst"], team=team)


class World:
    """A life of one dataset: the oracle judges each decision and row, and replays agree."""

    def __init__(self, **policy: Any) -> None:
        self.life, self.at = Life(seed=1), START
        self.said: dict[str, Any] = {}
        self.do(record("open", policy={**BASIC, **policy}), "opened")

    def do(self, body: Body, expected: str) -> dict[str, Any]:
        self.at += 1
        self.said = self.life.decide(Sent.made(body, self.at))
        assert self.said.get("reason", self.said["outcome"]) == expected, body
        self.life.commit()
        self.life.kill()
        return self.said

    @property
    def row(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.life.rows[b"census"])
        return found

    @property
    def spent(self) -> Fraction:
        ledger = self.life.draft.ledger("census")
        assert ledger is not None
        return Fraction(int(ledger.totals[0]), UNIT)

    def cut(self) -> list[tuple[str, str]]:
        return [(each["name"], each["cut"]["epsilon"]) for each in self.said.get("shares_cut", ())]


def test_a_release_elsewhere_is_charged_and_the_guarantee_depends_on_its_bound() -> None:
    world = World()
    world.do(ask("0.25"), "granted")
    said = world.do(outside("0.5", team="blue", evidence_hash="sha256:" + "a" * 64), "recorded")
    assert (said["cost"]["epsilon"], said["guarantee"]) == ("0.5", "if_bounded")
    assert said["totals"] == {"mechanisms": 2, "epsilon": "0.75", "delta": "0"}
    world.do(ask("0.5"), "exhausted")
    world.do(outside("0.25"), "recorded")
    assert world.spent == 1
    assert world.row["recorded"] is True
    assert "over_budget" not in world.row
    world.life.finish()


def test_nothing_is_in_the_way_of_a_release_that_has_happened() -> None:
    world = World(most_per_request="0.1", halt_on_refusal=True)
    world.do(member("ana", "blue"), "member_set")
    world.do(record("limit", scope="team", name="blue", part="0.05"), "limit_set")
    world.do(record("budget", budget={"epsilon": "0.1"}), "budget_set")
    world.do(record("pause"), "paused")
    said = world.do(outside("0.2", team="blue"), "recorded")
    assert said["cost"]["epsilon"] == "0.2"
    assert said["levels"][0]["totals"]["epsilon"] == "0.2", "above the amount of its limit"
    assert said["left"]["epsilon"] == "0", "above the budget in force"
    world.do(record("resume"), "resumed")
    world.do(record("budget", budget={"epsilon": "1"}), "budget_set")
    world.do(ask("0.01"), "exhausted")
    world.do(ask("0.1", "ben"), "granted")
    world.do(ask("0.1", "ben", reserve={"until": "PT1H"}), "reserved")
    world.do(outside("0.2", team="green"), "recorded")
    world.do(record("close"), "closed")
    world.do(outside("0.2", team="blue"), "recorded")
    assert world.said["levels"][0]["totals"]["epsilon"] == "0.4"
    assert world.spent == Fraction(8, 10)
    world.life.finish()


def test_past_the_budget_nothing_is_guaranteed_any_more() -> None:
    world = World(odometers=[{"type": "basic"}])
    world.do(ask("0.5"), "granted")
    world.do(record("limit", scope="team", name="blue", part="0.5"), "limit_set")
    said = world.do(outside("0.6", team="blue"), "recorded")
    assert "cost" not in said
    assert (said["guarantee"], said["odometers"]) == ("void", {"basic": "inf"})
    assert said["levels"][0]["totals"]["epsilon"] == "0.6", "the team has released it"
    assert world.spent == Fraction(1, 2)
    for body, outcome in (
        (outside("0.1"), "recorded"),
        (ask("0.1"), "granted"),
        (record("remark", decision=4, remark="a mistake"), "remarked"),
        (record("pause"), "paused"),
        (record("resume"), "resumed"),
        (record("close"), "closed"),
        (outside("0.1"), "recorded"),
    ):
        assert world.do(body, outcome)["guarantee"] == "void", body
    assert world.row["guarantee"] == "void"
    assert world.row["over_budget"] is True
    world.life.finish()


def test_the_newest_share_is_cut_first_whoever_has_used_theirs() -> None:
    world = World()
    for body in (share("team", "red", "0.3"), share("team", "blue", "0.3")):
        world.do(body, "limit_set")
    world.do(share("team", "green", "0.2"), "limit_set")
    world.do(share("team", "red", "0.2"), "limit_set")  # the newest record is red's now
    world.do(member("gus", "green"), "member_set")
    world.do(ask("0.05", "gus"), "granted")
    world.do(outside("0.3"), "recorded")  # nobody has a share in 0.3 of it
    assert world.cut() == []
    world.do(outside("0.1"), "recorded")
    assert world.cut() == [("red", "0.1")]
    world.do(outside("0.2"), "recorded")
    assert world.cut() == [("red", "0.1"), ("green", "0.1")]
    assert world.said["shares_cut"][1]["left"]["epsilon"] == "0.05"
    world.do(ask("0.05", "gus"), "granted")
    world.do(ask("0.01", "gus"), "exhausted")
    world.do(share("team", "red", "0.1"), "over_reserved")
    world.do(outside("0.3"), "recorded")
    assert world.cut() == [("blue", "0.3")]
    world.life.finish()


def test_a_team_uses_its_own_share_before_others_are_cut() -> None:
    world = World()
    for body in (share("team", "blue", "0.5"), share("team", "red", "0.5")):
        world.do(body, "limit_set")
    world.do(outside("0.4", team="blue"), "recorded")
    assert world.cut() == []
    assert world.said["levels"][0]["used"]["epsilon"] == "0.4"
    world.do(outside("0.3", team="blue"), "recorded")
    assert world.cut() == [("red", "0.2")]
    world.life.finish()


def test_a_share_within_its_teams_is_cut_once_it_reserves_more_than_that() -> None:
    world = World()
    world.do(member("ana", "blue"), "member_set")
    world.do(share("team", "blue", "0.6"), "limit_set")
    world.do(share("analyst", "ana", "0.5"), "limit_set")
    world.do(outside("0.4"), "recorded")
    world.do(outside("0.3"), "recorded")
    # Newest first would take ana's, which frees nothing: the team's share contains it.
    assert world.cut() == [("blue", "0.3"), ("ana", "0.2")]
    world.life.finish()


def test_under_gdp_residue_with_outside_no_cost_depends_on_another() -> None:
    """Each costs mu^2 of the Gaussian that dominates it, wherever it stands, and all returns."""
    spent = []
    for released_first in (True, False):
        world = _opened({"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6", "outside": True})
        steps = [(outside("0.1"), "recorded"), (ask("0.05"), "granted")]
        for body, outcome in steps if released_first else reversed(steps):
            world.do(body, outcome)
        world.do(ask("0.03", reserve={"until": "PT1H"}), "reserved")
        grant = world.life.judge.head
        world.do(ask("0.02"), "granted")
        void = {"version": 1, "type": "void", "dataset": "census", "analyst": "ana", "grant": grant}
        world.do({**void, "request_id": IDS.new(START)}, "voided")
        spent.append(world.spent)
        world.life.finish()
    assert spent[0] == spent[1]
    with mpmath.workdps(40):
        # Phi(mu/2) = e^epsilon/(1 + e^epsilon): the two have the same total variation.
        halves = [mpmath.erfinv(mpmath.tanh(mpmath.mpf(e) / 2)) for e in ("0.1", "0.05", "0.02")]
        exact = Fraction(str(sum(8 * half**2 for half in halves)))
    assert 0 <= spent[0] / exact - 1 < Fraction(1, 10**15)


@pytest.mark.parametrize(
    ("policy", "claim", "reason"),
    [
        (
            {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"},
            pure("0.1"),
            "record_not_possible",
        ),
        (
            {"filter": "ex_post", "epsilon": "1"},
            {"type": "gaussian", "sigma": "9", "sensitivity": "1"},
            "claim_not_accepted",
        ),
        (
            {"neighbours": "replace", "filter": "zcdp", "rho": "1", "epsilon": None},
            {"type": "subsampled_gaussian", "rate": "0.1", "sigma": "9", "sensitivity": "1"},
            "claim_not_accepted",
        ),
    ],
)
def test_only_what_has_no_price_is_refused(policy: Body, claim: Body, reason: str) -> None:
    kept = {name: value for name, value in {**BASIC, **policy}.items() if value is not None}
    world = _opened(kept)
    world.do(record("record", claim=claim, **RELEASED), reason)
    world.do(record("record", claim=pure("0.1"), **RELEASED, by="eve"), "not_permitted")
    world.do(record("record", claim=pure("0.1"), **RELEASED, follows=1), "out_of_date")
    ahead = {"released_at": "2999-01-01T00:00:00.000Z"}  # later than the record itself
    yesterday = {"released_at": "yesterday"}
    for broken in ({"evidence": ""}, yesterday, ahead, {"evidence_hash": "1"}):
        fields = {**RELEASED, **broken}
        world.do(record("record", claim=pure("0.1"), **fields), "invalid_field")
    world.do(record("record", claim=pure("-1"), **RELEASED), "invalid_field")
    assert "guarantee" not in world.row
    world.life.finish()


def _opened(policy: Body) -> World:
    world = World.__new__(World)
    world.life, world.at = Life(seed=2), START
    world.do(record("open", policy=policy), "opened")
    return world


def test_under_basic_beside_a_release_is_let_in_by_either_half_or_voids() -> None:
    policy = {"filter": "fully_adaptive", "epsilon": "0.05", "delta": "1e-6", "beside": "basic"}
    world = _opened(policy)
    said = world.do(outside("0.03"), "recorded")
    assert (said["ends"], said["cost"]["epsilon"]) == ("fully_adaptive", "0.03")
    assert said["guarantee"] == "if_bounded"
    assert world.do(outside("0.03"), "recorded")["guarantee"] == "void"
    world.life.finish()


FILTERS = (
    BASIC,
    {"filter": "zcdp", "rho": "0.1", "delta": "1e-6"},
    {"epsilon": "1", "delta": "1e-6", "beside": "basic"},
    {"filter": "renyi", "epsilon": "1", "delta": "1e-6", "order": "22"},
    {"filter": "fully_adaptive", "epsilon": "1", "delta": "2e-6", "delta_for_claims": "1e-6"},
    {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6", "outside": True},
)
OWN = (
    {"filter": "basic", "epsilon": "0.2"},
    {"filter": "gdp_residue", "epsilon": "0.3", "delta": "1e-6"},
)


@pytest.mark.parametrize("seed", range(len(FILTERS)))
def test_records_beside_shares_limits_and_reservations_are_as_predicted(seed: int) -> None:
    """Of each decision and row; and spent and reserved amounts never exceed the budget."""
    chance, life, at = Random(seed), Life(seed=seed), START
    open_grants: list[str] = []

    def do(body: Body) -> dict[str, Any]:
        nonlocal at
        at += chance.choice([1, 40, 3_000_000])
        body["request_id"] = IDS.new(at)
        return life.decide(Sent.made(body, at))

    def body() -> Body:
        kind = chance.choice("rrrrllaaasssm")
        team, part = chance.choice(["blue", "red", "green"]), f"0.{chance.randrange(1, 4)}"
        small = f"{chance.randrange(1, 99)}e-3"
        claims: list[Body] = [pure(small), {"type": "laplace", "scale": "31", "sensitivity": "1"}]
        claims.append({"type": "gaussian", "sigma": "7", "sensitivity": "0.5"})
        if kind == "r":
            named = {"team": team} if chance.random() < 0.7 else {}
            return record("record", claim=chance.choice(claims), **RELEASED, **named)
        if kind == "l":
            own = {"policy": chance.choice(OWN)} if chance.random() < 0.3 else {"part": part}
            pace = {"pace": {"part": part, "period": "P1D"}} if chance.random() < 0.5 else {}
            return record("limit", scope="team", name=team, **own, **pace)
        if kind == "s":
            scope, name = chance.choice([("team", team), ("analyst", chance.choice("abc"))])
            return record("limit", scope=scope, name=name, reserved=part)
        if kind == "m":
            return record("member", member=chance.choice("abc"), roles=["analyst"], team=team)
        if open_grants and chance.random() < 0.4:
            step = chance.choice(["begin", "void", "settle"])
            head = {"version": 1, "type": step, "dataset": "census", "analyst": "a"}
            return {**head, "grant": chance.choice(open_grants)}
        more = {"reserve": {"until": "PT1H"}} if chance.random() < 0.4 else {}
        fields = {"claim": chance.choice(claims), "unit": "person", "neighbours": "add_remove"}
        return record("request", analyst="a" if more else chance.choice("abc"), **fields, **more)

    do(record("open", policy=FILTERS[seed]))
    for number in range(90):
        said = do(body())
        if said["outcome"] == "reserved":
            life.commit()
            open_grants.append(life.judge.head)
        if number % 9 == 0:
            life.commit()
            life.kill()
        ledger = life.draft.ledger("census")
        assert ledger is not None
        withheld = life.draft.levels.reserved("census")
        for spent, held, most in zip(ledger.spent, withheld, ledger.plan.limits, strict=False):
            assert not held or spent + held <= most
    life.finish()
    assert life.met["recorded"] > 10


@pytest.mark.parametrize(
    ("policy", "claim", "totals"),
    [
        (BASIC, pure("0.3"), {"epsilon": "0.3"}),
        ({**BASIC, "most_per_request": "0.1"}, pure("1"), {"epsilon": "1"}),
        ({"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"}, pure("0.05"), {}),
        ({"epsilon": "1", "delta": "1e-6", "beside": "basic"}, pure("0.3"), {"epsilon": "0.3"}),
        (
            {"filter": "zcdp", "rho": "0.5"},
            {
                "type": "repeat",
                "times": 3,
                "claim": {"type": "laplace", "scale": "7", "sensitivity": "1"},
            },
            {},
        ),
    ],
)
@pytest.mark.parametrize("fixed_before", [False, True])
def test_a_dataset_starts_with_what_was_released_before(
    policy: Body, claim: Body, totals: Body, fixed_before: bool
) -> None:
    world = World.__new__(World)
    world.life, world.at = Life(seed=3), START
    spent = {"claim": claim, "evidence": "table 3", "fixed_before": fixed_before}
    said = world.do(record("open", policy=policy, spent=spent), "opened")
    assert {name: said["cost"][name] for name in totals} == totals
    assert said["totals"]["mechanisms"] == (3 if claim["type"] == "repeat" else 1)
    assert "guarantee" not in said
    world.do(ask("2"), "above_cap" if "most_per_request" in policy else "exhausted")
    world.do(record("amend", policy={**policy, "alert_at": ["0.5"]}), "already_granted")
    assert world.row["spent"]["evidence"] == "table 3"
    assert world.row["spent"].get("fixed_before", False) is fixed_before
    world.life.finish()


@pytest.mark.parametrize(
    ("policy", "spent"),
    [
        (BASIC, {"claim": pure("1.1"), "evidence": "table 3"}),
        (BASIC, {"claim": {"type": "zcdp", "rho": "0.1"}, "evidence": "table 3"}),
        (BASIC, {"claim": pure("0.1"), "evidence": ""}),
        (BASIC, {"claim": pure("0.1")}),
        (BASIC, {"claim": pure("0.1"), "evidence": "table 3", "fixed_before": "yes"}),
        ({**BASIC, "population": "people"}, {"claim": pure("0.1"), "evidence": "table 3"}),
    ],
)
def test_an_opening_that_does_not_hold_what_was_released_is_invalid(
    policy: Body, spent: Body
) -> None:
    world = World.__new__(World)
    world.life, world.at = Life(seed=4), START
    world.do(record("open", policy=policy, spent=spent), "invalid_field")
    world.do(record("open", policy=policy), "opened")
    world.life.finish()


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_of_all_that_ran_is_within_what_is_still_guaranteed(seed: int) -> None:
    """Randomized responses, whose worst loss together is exactly the sum of their epsilons."""
    chance, life, at = Random(seed), Life(seed=seed), START
    life.decide(Sent.made(record("open", policy=BASIC), at))
    loss, is_void = Fraction(0), False
    for _ in range(60):
        at += 1
        size = f"{chance.randrange(1, 30)}e-3" if chance.random() < 0.9 else "0.4"
        ran = chance.random() < 0.2
        said = life.decide(Sent.made(outside(size) if ran else ask(size), at))
        assert said["outcome"] in ({"recorded"} if ran else {"granted", "refused"})
        if said["outcome"] != "refused":
            loss += Fraction(size)
            is_void = is_void or (ran and "cost" not in said)
        assert (said.get("guarantee") == "void") is is_void
        assert is_void or loss <= 1
    assert is_void == (loss > 1)
    life.finish()
