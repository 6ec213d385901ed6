"""Requests with a question: the ledger derives the claim, and then decides as on any claim."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from accountant.claims.text import claim_text
from accountant.display.refusals import refusal_words
from accountant.partition.draft import Draft
from accountant.questions.schema import Schema
from accountant.records import Decision, decode_decision, decode_snapshot, encode
from accountant.records.dataset_facts import NO_FACTS, schema_fact
from accountant.records.outcomes import Outcome
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, state_rows
from accountant.replay.state_comparison import rows_at_one_moment
from tests.accountant.world import World, code
from tests.every_case import check_rows

COLUMNS = [
    {"type": "number", "name": "age", "lower": "0", "upper": "120"},
    {"type": "category", "name": "region", "categories": ["north", "south"]},
]
SCHEMA: dict[str, Any] = {
    "source": {"kind": "parquet", "name": "census"},
    "columns": COLUMNS,
    "neighbours": "add_remove",
    "unit": {"column": "person_id", "rows": 2},
}
POLICY = {"epsilon": "10", "delta": "1e-6"}
COUNT = {"ask": "count", "where": "age > 65"}
HALF = {"epsilon": "0.5"}


def opened(schema: object = SCHEMA, **policy: object) -> World:
    world = World()
    fields = {} if schema is None else {"schema": schema}
    record = world.admin("open", policy=POLICY | policy, **fields)
    decision = world.send("admin", record)
    assert code(decision) == "opened", decision
    return world


def question(world: World, asked: object = COUNT, noise: object = HALF, **fields: object) -> bytes:
    """Return the bytes of a request with a question, its fields overridden."""
    body = json.loads(world.request(**fields))
    for name in ("claim", "unit", "neighbours"):
        if name not in fields:
            del body[name]
    return json.dumps(body | {"question": asked, "noise": noise}).encode()


def ask(world: World, asked: object = COUNT, noise: object = HALF, **fields: object) -> Decision:
    return world.send("requests", question(world, asked, noise, **fields))


def derived(decision: Decision) -> str | None:
    return None if decision.derived is None else claim_text(decision.derived.claim)


def invalid(decision: Decision) -> tuple[str, str]:
    assert decision.error is not None
    return code(decision), decision.error.field


def test_the_derived_claim_is_charged_and_recorded() -> None:
    world = opened()
    decision = ask(world)
    assert decision.outcome is Outcome.GRANTED
    assert derived(decision) == "pure:0.5"
    plain = opened()
    charged = plain.ask("pure:0.5")
    assert decision.totals == charged.totals
    assert decision.cost == charged.cost
    assert decision.odometers == charged.odometers


@pytest.mark.parametrize(
    ("asked", "noise", "claim"),
    [
        ({"ask": "count", "by": ["region"]}, {"rho": "0.01"}, "zcdp:0.01"),
        ({"ask": "mean", "column": "age"}, HALF, "pure:0.25 + pure:0.25"),
        ({"ask": "top", "column": "region", "most": 2}, HALF, "2*bounded_range:0.25"),
        (COUNT, {"sigma": "20"}, "gaussian:sigma=20,sensitivity=2"),
    ],
)
def test_each_kind_of_question_has_its_claim(asked: object, noise: object, claim: str) -> None:
    found = derived(ask(opened(), asked, noise))
    assert found is not None
    assert found.replace(" ", "") == claim.replace(" ", "")


WITHIN_150 = {"error": "150", "confidence": "0.95"}
"""Of a count of units with two rows each."""


@pytest.mark.parametrize(
    ("policy", "claim"),
    [
        ({"filter": "zcdp_tight"}, "zcdp:0.000339194"),
        ({"filter": "gdp_residue"}, "gaussian:sigma=76.7871,sensitivity=2"),
        ({"filter": "zcdp_tight", "beside": "basic"}, "pure:0.0398098"),
    ],
)
def test_an_error_gets_the_law_of_the_policy(policy: dict[str, str], claim: str) -> None:
    world = opened(**policy)
    assert derived(ask(world, noise=WITHIN_150)) == claim
    # Whatever was spent, by whichever claims: the law follows from the policy alone.
    assert ask(world, noise={"sigma": "30"}).outcome is Outcome.GRANTED
    assert derived(ask(world, noise=WITHIN_150)) == claim
    law = {"law": "discrete_laplace"}
    assert derived(ask(world, noise=WITHIN_150 | law)) == "pure:0.0398098"


def test_more_than_the_budget_is_refused_with_its_claim() -> None:
    world = opened()
    decision = ask(world, noise={"epsilon": "20"})
    assert code(decision) == "exhausted"
    assert derived(decision) == "pure:20"
    assert decision.fits is not None
    assert world.ledger().mechanisms == 0


def test_a_repeated_question_gets_its_first_decision() -> None:
    world = opened()
    body = question(world)
    first, again = world.send("requests", body), world.send("requests", body)
    assert again.outcome is Outcome.REPEATED
    assert again.first is not None
    assert again.first.granted
    assert again.derived is None
    assert world.ledger().mechanisms == 1
    assert first.sequence == world.ledger().sequence


def test_a_dataset_without_a_schema_takes_no_question() -> None:
    world = opened(schema=None)
    decision = ask(world)
    assert code(decision) == "no_schema"
    assert decision.derived is None
    assert world.ledger().mechanisms == 0


@pytest.mark.parametrize(
    ("asked", "noise", "field"),
    [
        ({"ask": "sum", "column": "income"}, HALF, "question.column"),
        ({"ask": "count", "where": "age > "}, HALF, "question.where"),
        ({"ask": "count", "rows": 3}, HALF, "question.rows"),
        ({"ask": "mean", "column": "age"}, {"sigma": "20"}, "noise.sigma"),
        ({"ask": "top", "column": "region", "most": 3}, HALF, "question.most"),
    ],
)
def test_what_the_schema_does_not_allow_is_refused(
    asked: object, noise: object, field: str
) -> None:
    world = opened()
    refused = ask(world, asked, noise)
    assert invalid(refused) == ("question_not_allowed", field)
    assert ("the answer has an interval" in refusal_words(refused)) is (field == "noise.sigma")
    assert world.ledger().mechanisms == 0
    assert code(ask(world)) == "granted"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"claim": {"type": "pure", "epsilon": "0.1"}}, "claim"),
        ({"unit": "person"}, "unit"),
        ({"neighbours": "add_remove"}, "neighbours"),
        ({"other_datasets": ["returns"]}, "other_datasets"),
        ({"reserve": {"until": "P1D"}}, "reserve"),
        ({"via": ""}, "via"),
        ({"purpose": "x" * 201}, "purpose"),
    ],
)
def test_a_question_stands_alone(fields: dict[str, object], field: str) -> None:
    body = json.loads(question(opened()))
    decision = opened().send("requests", json.dumps(body | fields).encode())
    assert invalid(decision) == ("invalid_field", field)


def test_what_needs_no_schema_is_invalid_without_one() -> None:
    def check_case(asked: object, noise: object, field: str) -> None:
        world = opened(schema=None)
        assert invalid(ask(world, asked, noise)) == ("invalid_field", field)

    check_rows(
        check_case,
        [
            (COUNT, {}, "noise"),
            (COUNT, {"epsilon": "0"}, "noise.epsilon"),
            (COUNT, {"epsilon": "1", "rho": "1"}, "noise"),
            (COUNT, {"error": "5"}, "noise.confidence"),
            ({"ask": "count", "where": "x" * 2001}, HALF, "question.where"),
            ({"ask": "count", "by": ["a", "b", "c", "d"]}, HALF, "question.by"),
            ({"ask": "count", "column": "age"}, HALF, "question.column"),
            ({"ask": "guess"}, HALF, "question.ask"),
        ],
    )


@pytest.mark.parametrize("field", ["question", "noise"])
def test_a_claim_and_a_question_exclude_each_other(field: str) -> None:
    world = opened()
    body = json.loads(question(world))
    plain = json.loads(world.request()) | {field: body[field]}
    assert invalid(world.send("requests", json.dumps(plain).encode())) == ("invalid_field", field)
    alone = {name: value for name, value in body.items() if name != field}
    wrong = invalid(world.send("requests", json.dumps(alone).encode()))
    assert wrong == ("invalid_field", "claim" if field == "question" else "noise")


def test_a_key_twice_in_a_question_is_undecodable() -> None:
    world = opened()
    body = question(world).replace(b'"ask": "count"', b'"ask": "count", "where": ""')
    assert code(world.send("requests", body)) == "undecodable"


def test_whoever_may_not_ask_learns_nothing_of_the_schema() -> None:
    for schema in (None, SCHEMA):
        world = opened(schema, access="members")
        for asked in (COUNT, {"ask": "sum", "column": "income"}):
            decision = ask(world, asked)
            assert code(decision) == "not_permitted"
            assert (decision.derived, decision.error) == (None, None)


@pytest.mark.parametrize("record", ["close", "pause"])
def test_a_dataset_that_is_stopped_says_so_first(record: str) -> None:
    world = opened()
    world.send("admin", world.admin(record))
    decision = ask(world, {"ask": "sum", "column": "income"})
    assert code(decision) in {"closed", "paused"}
    assert decision.error is None


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        (SCHEMA | {"neighbours": "replace"}, "schema.neighbours"),
        (SCHEMA | {"columns": []}, "schema.columns"),
        (SCHEMA | {"columns": [COLUMNS[0] | {"upper": "-1"}]}, "schema.columns[0].upper"),
        (SCHEMA | {"path": "/data"}, "schema.path"),
    ],
)
def test_a_wrong_schema_opens_nothing(schema: object, field: str) -> None:
    world = World()
    decision = world.send("admin", world.admin("open", policy=POLICY, schema=schema))
    assert invalid(decision) == ("invalid_field", field)


def test_a_schema_stays_through_every_record() -> None:
    world = opened()
    before = world.ledger().facts
    assert before.schema == schema_fact(msgspec.convert(SCHEMA, Schema))
    ask(world)
    world.amend(alert_at=["0.5"])
    world.ask("pure:0.1")
    ask(world, noise={"epsilon": "20"})
    assert world.ledger().facts == before
    assert code(world.close()) == "closed"
    assert world.ledger().facts == before


def lives() -> World:
    """Return a world with grants and refusals of both kinds of request."""
    world = opened()
    ask(world, noise={"epsilon": "0.1"}, purpose='quotes " and é')
    world.ask("pure:0.05")
    ask(world, {"ask": "mean", "column": "age", "by": ["region"]}, {"epsilon": "0.1"})
    ask(world, noise={"epsilon": "20"})
    ask(world, {"ask": "sum", "column": "income"})
    return world


def test_fast_bytes_are_those_of_the_codec() -> None:
    world = lives()
    for value in world.log:
        assert encode(decode_decision(value)) == value
    world.batch = 10**6
    ask(world)
    value = dict(world.draft.rows())[b"census"]
    assert value is not None
    row = decode_snapshot(value)
    assert encode(row) == value
    assert row.schema is not msgspec.UNSET


def test_a_replay_gives_the_same_rows() -> None:
    world = lives()
    world.commit()
    assert state_rows(world.replayed()) == world.rows()


def test_a_ledger_goes_on_from_its_rows() -> None:
    world = lives()
    rows = world.rows()
    replay = Replay(world.genesis)
    for key, value in rows:
        replay.take_row(key, value)
    for value in world.log:
        replay.take_decision(value)
    world.state = replay.finish()
    assert world.state.ledgers["census"].facts == world.ledger().facts != NO_FACTS
    replay.check_admin_rows(world.log, [])
    world.draft = Draft(world.state)
    assert code(ask(world, noise={"epsilon": "0.1"})) == "granted"
    assert world.rows() == state_rows(world.replayed())


def test_the_audit_derives_each_claim_again() -> None:
    world = lives()
    state = rows_at_one_moment(dict(world.rows()), 0)
    report = audit(world.log, state=state)
    assert report.ok, report.first_disagreement


def test_the_audit_finds_another_claim() -> None:
    world = opened()
    ask(world)
    log = world.log[:-1]
    forged = world.log[-1].replace(
        b'"claim":{"type":"pure","epsilon":"0.5"}', b'"claim":{"type":"pure","epsilon":"0.1"}'
    )
    assert forged != world.log[-1]
    found = audit([*log, forged]).first_disagreement
    assert found is not None
    assert found.what == "derived"


def test_the_audit_finds_another_schema_in_a_row() -> None:
    world = lives()
    rows = dict(world.rows())
    rows[b"census"] = rows[b"census"].replace(b'"upper":"120"', b'"upper":"12"')
    found = audit(world.log, state=rows_at_one_moment(rows, 0)).first_disagreement
    assert found is not None
    assert found.what == "schema"


def test_quoted_names_are_charged_replayed_and_audited() -> None:
    columns = [
        COLUMNS[0] | {"name": "year of birth"},
        COLUMNS[1] | {"name": 'the "where"'},
        {"type": "boolean", "name": "where"},
    ]
    unit = {"column": "id of person", "rows": 1}
    world = opened(SCHEMA | {"columns": columns, "unit": unit})
    asked = {
        "ask": "mean",
        "column": "year of birth",
        "where": '"where" = true and "the ""where""" = \'north\'',
        "by": ['the "where"'],
    }
    assert derived(ask(world, asked)) == "pure:0.25+pure:0.25"
    refused = ask(world, {"ask": "count", "where": "where = true"})
    assert invalid(refused) == ("question_not_allowed", "question.where")
    world.commit()
    assert state_rows(world.replayed()) == world.rows()
    report = audit(world.log, state=rows_at_one_moment(dict(world.rows()), 0))
    assert report.ok, report.first_disagreement
    for value in world.log:
        assert encode(decode_decision(value)) == value
