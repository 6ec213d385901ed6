"""Sessions of questions: reserved by an analyst, begun and settled by a curator alone."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from accountant.advice.preview import Preview, preview
from accountant.partition import hash_of
from accountant.questions.noise import Noise
from accountant.questions.statistics import CountQuestion
from accountant.records import Decision
from accountant.records.header import decode_header
from accountant.records.outcomes import Outcome
from accountant.records.previews import PreviewRequest
from accountant.records.requests import Reserve
from accountant.replay.audit import audit
from accountant.replay.follow import FollowedPartition
from accountant.replay.replay import state_rows
from accountant.replay.state_comparison import rows_at_one_moment
from accountant.times import iso
from accountant.views.datasets import view_of_ledger
from tests.accountant.partition.test_derived_claims import (
    HALF,
    SCHEMA,
    derived,
    invalid,
    opened,
    question,
)
from tests.accountant.world import World, code
from tests.every_case import check_each, check_rows

GAUSSIAN = {"rho": "0.02", "law": "gaussian_refinement"}
LAPLACE = {"epsilon": "0.5", "law": "laplace_reduction"}
STOP = {"relative_error": "0.1"}
COUNT = {"ask": "count"}


def with_curator(**policy: Any) -> World:
    world = opened(SCHEMA, **policy)
    for member, role in (("ana", "analyst"), ("cur", "curator"), ("eng", "engine")):
        enrol(world, member, role)
    return world


def enrol(world: World, member: str, *roles: str) -> None:
    record = world.admin("member", member=member, roles=[*roles])
    assert code(world.send("admin", record)) in {"member_set", "member_removed"}


def reserve(world: World, noise: object = GAUSSIAN, **fields: object) -> str:
    """Reserve a session of a count; return its grant."""
    given = {"reserve": {"until": "PT1H"}, "stop": STOP} | fields
    decision = world.send("requests", question(world, COUNT, noise, **given))
    assert code(decision) == "reserved", decision
    return hash_of(world.log[-1])


def step(world: World, kind: str, grant: str, **fields: object) -> Decision:
    body = {"version": 1, "type": kind, "request_id": world.new_id(), "analyst": "ana"}
    body |= {"dataset": "census", "grant": grant, **fields}
    return world.send("requests", json.dumps(body).encode())


def curated(world: World, kind: str, grant: str, **fields: object) -> Decision:
    return step(world, kind, grant, via="cur", **fields)


@pytest.mark.parametrize(
    ("noise", "claim"), [(GAUSSIAN, "brownian:"), (LAPLACE, "ex_post:epsilon=0.5,")]
)
def test_a_session_is_reserved_at_its_maximum(noise: object, claim: str) -> None:
    world = with_curator()
    reserve(world, noise)
    assert (derived(world.decisions[-1]) or "").startswith(claim)
    (row,) = world.state.reservations
    assert row.is_question
    assert row.claim == world.decisions[-1].derived.claim  # type: ignore[union-attr]


ORDERS = {"orders": ["3", "8"]}
SETTLED = [
    ({"filter": "basic", "delta": "0"}, "claim_not_accepted", "last level"),
    ({"filter": "ex_post", "delta": "0"}, "claim_not_accepted", "last level"),
    (
        {"filter": "split", "epsilon_ex_post": "10", "delta_ex_post": "0"},
        "last level",
        "last level",
    ),
    ({"filter": "zcdp", "epsilon": None, "rho": "1", "delta": "0"}, "last level", "in full"),
    ({"filter": "zcdp_tight"}, "last level", "in full"),
    ({"filter": "unified_brownian"}, "last level", "in full"),
    ({"filter": "fully_adaptive"}, "last level", "in full"),
    ({"filter": "gdp_residue"}, "last level", "in full"),
    ({"filter": "renyi", "order": "8"}, "last level", "in full"),
    ({"filter": "renyi_mixture", **ORDERS}, "last level", "in full"),
    ({"filter": "advanced_2016"}, "claim_not_accepted", "in full"),
    ({"filter": "optimal_homogeneous", "epsilon_each": "0.5"}, "claim_not_accepted", "in full"),
]
"""Of each filter, what a session is charged: Gaussian refinement, and Laplace noise reduction."""


def test_the_filter_decides_whether_a_session_settles_at_its_last_level() -> None:
    def check_case(policy: dict[str, Any], gaussian: str, laplace: str) -> None:
        for noise, expected in ((GAUSSIAN, gaussian), (LAPLACE, laplace)):
            world = with_curator(**policy)
            given = {"reserve": {"until": "PT1H"}, "stop": STOP}
            reserved = world.send("requests", question(world, COUNT, noise, **given))
            if expected == "claim_not_accepted":
                assert code(reserved) == expected
                continue
            grant, claim = hash_of(world.log[-1]), reserved.derived.claim  # type: ignore[union-attr]
            # gdp_residue charges a pure mechanism its own cost when it begins.
            begun = curated(world, "begin", grant)
            settled = curated(world, "settle", grant, shown=claim.first)  # type: ignore[union-attr]
            assert code(settled) == "settled"
            # The first of 11 levels costs that part of the finest.
            part = 1 if expected == "in full" else Fraction(1, 1024)
            sums = [name for name in begun.totals if name not in {"mechanisms", "loss_time"}]
            charged = [(begun.totals[name], settled.totals[name]) for name in sums]
            for before, after in charged:
                assert Fraction(str(after)) == Fraction(str(before)) * part

    check_rows(check_case, SETTLED)


def test_a_curator_begins_and_settles_at_what_was_shown() -> None:
    world = with_curator(filter="zcdp", epsilon=None, rho="1", delta="0")
    grant = reserve(world)
    first = world.decisions[-1].derived.claim.first  # type: ignore[union-attr]
    assert code(curated(world, "begin", grant)) == "begun"
    settled = curated(world, "settle", grant, shown=first)
    assert code(settled) == "settled"
    assert settled.totals is not None
    # rho of the first level: 2^2 / (2 * 102400), and at most 1e-40 more
    assert Decimal("0.00001953125") == Decimal(str(settled.totals["rho"]))
    assert world.ledger().held is None, "nobody continues a question's session"


def test_nobody_else_begins_or_settles() -> None:
    def check_case(sender: dict[str, str], kind: str) -> None:
        world = with_curator()
        grant = reserve(world)
        if kind == "settle":
            assert code(curated(world, "begin", grant)) == "begun"
        before = world.ledger().totals
        assert code(step(world, kind, grant, **sender)) == "not_permitted"
        assert world.ledger().totals == before

    check_each(
        check_case,
        [
            {},
            {"via": "eng"},
            {"analyst": "owner"},
            {"analyst": "cur"},
            {"analyst": "owner", "via": "cur"},
            {"via": "nobody"},
        ],
        ["begin", "settle"],
    )


@pytest.mark.parametrize("sender", [{}, {"analyst": "owner"}])
def test_the_holder_or_an_owner_voids_before_it_begins(sender: dict[str, str]) -> None:
    world = with_curator()
    grant = reserve(world)
    assert code(curated(world, "void", grant)) == "not_permitted"
    assert code(step(world, "void", grant, **sender)) == "voided"
    assert code(curated(world, "begin", grant)) == "not_open"
    grant = reserve(world)
    assert code(curated(world, "begin", grant)) == "begun"
    assert code(step(world, "void", grant, **sender)) == "already_begun"


def test_a_repeated_begin_is_no_second_begin() -> None:
    world = with_curator()
    grant, request_id = reserve(world), world.new_id()
    assert code(curated(world, "begin", grant, request_id=request_id)) == "begun"
    again = curated(world, "begin", grant, request_id=request_id)
    assert (again.outcome, again.first and again.first.outcome) == (
        Outcome.REPEATED,
        Outcome.BEGUN,
    )
    assert code(curated(world, "begin", grant)) == "already_begun"


def test_a_curator_that_is_one_no_more_does_nothing() -> None:
    world = with_curator()
    grant = reserve(world)
    assert code(curated(world, "begin", grant)) == "begun"
    enrol(world, "cur")
    before = world.ledger().totals
    assert code(curated(world, "settle", grant)) == "not_permitted"
    assert world.ledger().totals == before


def test_nothing_begins_for_an_analyst_who_is_one_no_more() -> None:
    world = with_curator(access="members")
    grants = [reserve(world), reserve(world)]
    assert code(curated(world, "begin", grants[0])) == "begun"
    enrol(world, "ana")
    assert code(curated(world, "begin", grants[1])) == "not_permitted"
    assert code(curated(world, "settle", grants[0])) == "settled"


def test_a_curator_takes_no_step_of_another_reservation() -> None:
    world = with_curator()
    claim = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}
    assert code(world.ask(claim, reserve={"until": "PT1H"})) == "reserved"
    grant = hash_of(world.log[-1])
    assert code(curated(world, "begin", grant)) == "not_permitted"
    assert code(step(world, "begin", grant)) == "begun"


def test_more_than_the_maximum_suspends_the_dataset() -> None:
    world = with_curator()
    grant = reserve(world)
    curated(world, "begin", grant)
    assert code(curated(world, "settle", grant, shown="0.0001")) == "beyond_maximum"
    assert code(world.ask("pure:0.001")) == "suspended"


@pytest.mark.parametrize(
    ("noise", "fields", "field"),
    [
        (HALF, {"reserve": {"until": "PT1H"}}, "reserve"),
        (HALF, {"stop": STOP}, "stop"),
        (GAUSSIAN, {}, "reserve"),
        (GAUSSIAN, {"reserve": {"until": "PT1H"}}, "stop"),
        (GAUSSIAN, {"reserve": {"until": "PT1H"}, "stop": {"error": "0"}}, "stop.error"),
        (GAUSSIAN, {"reserve": {"until": "never"}, "stop": STOP}, "reserve.until"),
    ],
)
def test_sessions_alone_reserve_and_stop(
    noise: object, fields: dict[str, object], field: str
) -> None:
    world = with_curator()
    decision = world.send("requests", question(world, COUNT, noise, **fields))
    assert invalid(decision) == ("invalid_field", field)
    plain = world.ask("pure:0.1", stop=STOP)
    assert invalid(plain) == ("invalid_field", "stop")


def test_a_statistic_without_levels_is_not_allowed() -> None:
    world = with_curator()
    given = {"reserve": {"until": "PT1H"}, "stop": STOP}
    asked = {"ask": "mean", "column": "age"}
    assert code(world.send("requests", question(world, asked, GAUSSIAN, **given))) == (
        "question_not_allowed"
    )


def ask_session(world: World) -> Decision:
    given = {"reserve": {"until": "PT1H"}, "stop": STOP}
    return world.send("requests", question(world, COUNT, LAPLACE, **given))


def assert_needs_a_curator(world: World) -> None:
    totals = world.ledger().totals
    decision = ask_session(world)
    assert invalid(decision) == ("question_not_allowed", "noise.law")
    assert decision.error is not None
    assert "`accountant member set census NAME --role curator`" in decision.error.rule
    assert decision.derived is None
    assert world.ledger().totals == totals


@pytest.mark.parametrize("batch", [1, 100])
def test_a_session_is_refused_while_nobody_is_a_curator(batch: int) -> None:
    world = opened(SCHEMA)
    world.batch = batch
    assert_needs_a_curator(world)
    enrol(world, "cur", "engine", "auditor")
    assert_needs_a_curator(world)
    assert code(world.send("requests", question(world, COUNT))) == "granted"
    enrol(world, "cur", "curator")
    assert code(ask_session(world)) == "reserved"
    enrol(world, "cur")
    assert_needs_a_curator(world)
    assert state_rows(world.replayed()) == world.rows()
    report = audit(world.log)
    assert report.ok, report.first_disagreement


def test_a_curator_whose_time_is_over_runs_no_session() -> None:
    world = opened(SCHEMA)
    until = iso(world.now + 60_000)
    world.send("admin", world.admin("member", member="cur", roles=["curator"], until=until))
    world.now += 59_999
    assert code(ask_session(world)) == "reserved"
    world.now += 1
    assert_needs_a_curator(world)


@pytest.mark.parametrize("analyst", [None, "ana"])
def test_a_preview_needs_a_curator_too(analyst: str | None) -> None:
    world = opened(SCHEMA)
    session = PreviewRequest(
        analyst=analyst,
        reserve=Reserve("PT1H"),
        question=CountQuestion(),
        noise=Noise(epsilon="0.5", law="laplace_reduction"),
    )

    def shown() -> Preview:
        members = world.state.members
        view = view_of_ledger(world.ledger())
        return preview(view, session, None, members.get, lambda name: members.of(name).values())

    refused = shown()
    assert (refused.granted, refused.reason) == (False, "question_not_allowed")
    assert refused.error == ask_session(world).error
    enrol(world, "cur", "curator")
    assert shown().granted


def test_replay_audit_and_follower_know_a_question_s_reservation() -> None:
    world = with_curator()
    grants = [reserve(world), reserve(world, LAPLACE), reserve(world)]
    curated(world, "begin", grants[0])
    curated(world, "settle", grants[0])
    curated(world, "begin", grants[1])
    rows = world.rows()
    assert state_rows(world.replayed()) == rows
    report = audit(world.log, state=rows_at_one_moment(dict(rows), 0))
    assert report.ok, report.first_disagreement
    follower = FollowedPartition.from_beginning(world.genesis)
    for value in world.log:
        follower.take(decode_header(value), value)
    found = {row.grant: row for row in follower.state.reservations}
    live = {row.grant: row for row in world.state.reservations}
    assert found.keys() == live.keys() == {grants[1], grants[2]}
    for grant, row in found.items():
        assert (row.is_question, row.claim, row.stage) == (
            True,
            live[grant].claim,
            live[grant].stage,
        )
