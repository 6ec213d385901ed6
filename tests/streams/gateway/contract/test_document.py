"""The document against the server: what schemathesis cannot ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import httpx
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant import field_rules
from accountant.amounts import parse
from accountant.claims.fields import check_delta, check_epsilon, check_noise, check_rate, check_rho
from accountant.errors import RequestInvalid
from accountant.field_rules import rule_of
from accountant.filters.renyi import parse_order
from accountant.odometers.base import checked_delta, parameter
from accountant.policy import Policy, check_alerts, resolve
from accountant.questions.decimals import SIGNED_PATTERN, parse_signed_decimal
from accountant.questions.noise import check_confidence
from accountant.records import limit_records, members
from accountant.records.inputs import check
from accountant.records.limit_fields import check_period_limit
from accountant.records.limit_records import PeriodLimit
from accountant.records.names import is_name
from accountant.times import issued_at
from streams.gateway.contract.fields import RULES, WITHIN
from streams.gateway.contract.responses import RESPONSES
from streams.gateway.contract.schemas import components
from streams.pages import PAGES
from streams.server.app import Pages
from tests.streams.clock import TestClock
from tests.streams.gateway.contract.document import document, schema_of
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import amending, answering, new_id, opening, request

SCHEMAS = components()
AMOUNTS = sorted(name for name, schema in SCHEMAS.items() if "x-minimum" in schema)


def _budget(text: str) -> None:
    resolve(Policy(filter="basic", epsilon=text))


def _budget_rho(text: str) -> None:
    resolve(Policy(filter="zcdp", rho=text))


CHECKS: dict[str, Callable[[str], object]] = {
    "Confidence": lambda text: check_confidence(text, field="confidence"),
    "Delta": lambda text: check_delta(text, "delta"),
    "Epsilon": lambda text: check_epsilon(text, "epsilon"),
    "EpsilonBudget": _budget,
    "NoiseAmount": lambda text: check_noise(text, "scale"),
    "OdometerDelta": checked_delta,
    "OdometerParameter": lambda text: parameter(text, "r"),
    "Order": lambda text: parse_order(text, field="order"),
    "Rate": lambda text: check_rate(text, "rate"),
    "Ratio": lambda text: check_alerts((text,), field="alert_at"),
    "Rho": lambda text: check_rho(text, "rho"),
    "RhoBudget": _budget_rho,
    "Sensitivity": lambda text: parse(text, field="sensitivity"),
}


@pytest.fixture(scope="session")
def pages() -> Pages:
    return PAGES


def is_accepted(check: Callable[[str], object], text: str) -> bool:
    try:
        check(text)
    except RequestInvalid:
        return False
    return True


@pytest.mark.parametrize("name", AMOUNTS)
@given(number=st.decimals(0, 2), exponent=st.integers(-42, 10), data=st.data())
def test_the_documented_bounds_of_an_amount_match_its_check(
    name: str, number: Decimal, exponent: int, data: st.DataObject
) -> None:
    schema = SCHEMAS[name]
    lower = Decimal(schema["x-minimum"])
    upper = Decimal(schema.get("x-maximum", schema.get("x-exclusive-maximum")))
    near = st.sampled_from(
        [lower, upper, Decimal(0), lower * Decimal("0.9"), upper * Decimal("1.1")]
    )
    value = data.draw(near | st.just(round(number, 6).scaleb(exponent)))
    text = f"{value:f}"
    allowed = lower <= value <= upper and (value < upper or "x-maximum" in schema)
    allowed = allowed or (not value and schema["x-zero"])
    if re.search(schema["pattern"], text) is None:
        allowed = False
    assert is_accepted(CHECKS[name], text) == allowed


@given(st.from_regex(SCHEMAS["Name"]["pattern"]) | st.text(max_size=4))
def test_the_documented_patterns_of_names_and_ids_match_the_processor(text: str) -> None:
    for name, of_ours in (("Name", is_name), ("RequestId", lambda t: issued_at(t) is not None)):
        is_valid = jsonschema_rs.validator_for(SCHEMAS[name]).is_valid(text)
        assert is_valid == bool(of_ours(text)), name


@given(days=st.integers(0, 99_999) | st.integers(36_490, 36_510))
def test_the_documented_pattern_of_a_period_matches_the_processor(days: int) -> None:
    text = f"P{days}D"
    limit = PeriodLimit("0.5", text)
    is_valid = jsonschema_rs.validator_for(SCHEMAS["Period"]).is_valid(text)
    assert is_valid == is_accepted(lambda _: check_period_limit("pace", limit), text)


@given(st.from_regex(SIGNED_PATTERN, fullmatch=True) | st.sampled_from(["-0", "0", "00", "1.0"]))
def test_the_documented_signed_decimals_match_the_processor(text: str) -> None:
    schema = SCHEMAS["NumberColumn"]["properties"]["lower"]
    is_valid = jsonschema_rs.validator_for(schema).is_valid(text)
    assert is_valid == is_accepted(lambda each: parse_signed_decimal(each, field="lower"), text)


_CLAIM = {"claim": {"type": "pure", "epsilon": "1"}, "unit": "person", "neighbours": "replace"}
_ASKED = {"question": {"ask": "sum", "column": "age"}, "noise": {"epsilon": "1"}}
_STOP = {"stop": {"error": "50", "confidence": "0.9"}}


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        (_CLAIM, True),
        (_ASKED, True),
        ({}, False),
        (_CLAIM | _ASKED, False),
        (_CLAIM | {"noise": _ASKED["noise"]}, False),
        (_CLAIM | _STOP, False),
        ({"claim": _CLAIM["claim"]}, False),
        ({"question": _ASKED["question"]}, False),
        ({"noise": _ASKED["noise"]}, False),
        (_ASKED | {"unit": "person"}, False),
        (_ASKED | {"other_datasets": ["returns"]}, False),
        (_ASKED | {"question": {"ask": "sum", "column": "\x1d"}}, False),
        (_ASKED | {"question": {"ask": "sum", "column": "no word"}}, True),
        (_ASKED | {"question": {"ask": "quantile", "column": "age", "fraction": "\x7f"}}, False),
        (_ASKED | {"question": {"ask": "quantile", "column": "age", "fraction": "-1"}}, True),
        (_ASKED | {"question": {"ask": "count", "where": "x" * 2_000, "rows": -1}}, True),
        (_ASKED | {"question": {"ask": "count", "where": "x" * 2_001}}, False),
        (_ASKED | {"question": {"ask": "count", "by": ["", "a", "a"]}}, True),
        (_ASKED | {"question": {"ask": "count", "by": ["a", "b", "c", "d"]}}, False),
        (_ASKED | {"question": {"ask": "top", "column": "age", "most": 10**30}}, True),
        (_ASKED | {"noise": {"error": "1", "confidence": "0.4"}}, False),
        (_ASKED | {"noise": {"error": "1", "confidence": "0.9"}}, True),
        (_ASKED | {"noise": {"sigma": "0"}}, False),
    ],
)
def test_the_document_allows_the_questions_that_the_processor_accepts(
    shared_server: LocalServer, clock: TestClock, fields: dict[str, Any], accepted: bool
) -> None:
    body = request(clock) | fields
    for name in set(_CLAIM) - set(fields):
        del body[name]
    documented = schema_of(
        document(shared_server), {"$ref": "#/components/schemas/MechanismRequest"}
    )
    assert is_accepted(lambda text: check("requests", text.encode()), json.dumps(body)) is accepted
    if accepted:
        documented.validate(body)
    # The pattern of an amount knows no bounds: they are beside it.
    beside = {"0.4", "0"} & set(fields.get("noise", {}).values())
    assert documented.is_valid(body) is (accepted or bool(beside))


def test_every_reference_in_the_document_resolves(shared_server: LocalServer) -> None:
    whole = document(shared_server)
    named = set(references(whole))
    assert len(named) > 50
    assert named <= {f"#/components/schemas/{name}" for name in whole["components"]["schemas"]}


def references(part: Any) -> Iterator[str]:
    """Yield what every `$ref` within a part of the document names."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from references(each)
    elif isinstance(part, list):
        for each in part:
            yield from references(each)


def test_every_operation_states_each_status_and_its_body(shared_server: LocalServer) -> None:
    for path, item in document(shared_server)["paths"].items():
        for method, operation in item.items():
            known = operation["operationId"] in RESPONSES or "requestBody" in operation
            assert known, f"streams/gateway/contract/responses.py: what {path} answers"
            assert {"421", "500"} <= set(operation["responses"]), (method, path)
            for answer in operation["responses"].values():
                assert all(content["schema"] for content in answer["content"].values())


def test_why_and_report_alone_return_csv(shared_server: LocalServer) -> None:
    """Another one would have to be sent by `download`, too: as an attachment, never sniffed."""
    answers = {
        path: str(method.get("responses", {}))
        for path, methods in document(shared_server)["paths"].items()
        for method in methods.values()
    }
    assert [path for path, result in answers.items() if "text/csv" in result] == [
        "/datasets/{dataset}/why",
        "/datasets/{dataset}/report",
    ]


def test_every_route_of_the_server_is_in_the_document(shared_server: LocalServer) -> None:
    described = set(document(shared_server)["paths"])
    of_the_app = {"/requests", "/datasets", "/events", "/healthz", "/readyz", "/metrics"}
    assert of_the_app <= described


def test_events_match_the_document(server: LocalServer) -> None:
    whole = document(server)
    decision = schema_of(whole, {"$ref": "#/components/schemas/Decision"})
    alert = schema_of(whole, {"$ref": "#/components/schemas/Alert"})
    kinds = {"decision": decision, "alert": alert}
    received: list[str] = []
    with server.http.stream("GET", "/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert next(lines).startswith(":")
        for _ in range(6):
            server.ask()
        event = ""
        for line in lines:
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                kinds[event].validate(json.loads(line[6:]))
                received.append(event)
            if set(received) == set(kinds):
                break
    far = "1-000000000000-1"
    for query, headers, status in (
        ("?crossed=maybe", {}, 400),
        ("", {"Last-Event-ID": far}, 400),
        ("?dataset=a%20b", {}, 422),
        ("?dataset=cenus", {}, 404),
    ):
        wrong = server.http.get(f"/events{query}", headers=headers)
        assert wrong.status_code == status
        stated = whole["paths"]["/events"]["get"]["responses"][str(status)]
        (content,) = stated["content"].values()
        schema_of(whole, content["schema"]).validate(wrong.json())
    parameters = {each["name"] for each in whole["paths"]["/events"]["get"]["parameters"]}
    assert parameters == {"crossed", "dataset", "analyst", "Last-Event-ID"}


def answers(server: LocalServer, clock: TestClock) -> list[tuple[str, str, httpx.Response]]:
    """Return an answer of each kind that a test can have, with its operation."""
    asked = server.ask()
    where = asked.headers["content-location"]
    sent = json.loads(asked.request.content)
    again = server.post("/requests", sent)
    other = server.post("/requests", sent | {"purpose": "another"})
    ahead = server.ask(request_id=new_id(clock, ahead_ms=400_000))
    pages = "/datasets/{dataset}/requests"
    why = "/datasets/{dataset}/why"
    one = "/datasets/{dataset}/requests/{request_id}"
    return [
        ("post", "/requests", asked),
        ("post", "/requests", again),
        ("post", "/requests", other),
        ("post", "/requests", ahead),
        ("post", "/requests", server.ask(claim={"type": "pure", "epsilon": "1"})),
        ("post", "/requests", server.post("/requests", b"no json")),
        ("post", "/requests", server.post("/requests", sent, content_type="text/plain")),
        ("post", "/requests", server.ask(purpose="x" * 70_000)),
        (
            "post",
            "/datasets/{dataset}/amend",
            server.post("/datasets/census/amend", amending(clock)),
        ),
        ("get", one, server.http.get(where)),
        ("get", one, server.http.get(where.partition("?")[0])),
        ("get", "/datasets/{dataset}", server.http.get("/datasets/census")),
        ("get", "/datasets/{dataset}", server.http.get("/datasets/nowhere")),
        ("get", "/datasets/{dataset}/usage", server.http.get("/datasets/census/usage")),
        ("get", why, server.http.get("/datasets/census/why?analyst=zoe")),
        ("get", why, server.http.get("/datasets/nowhere/why")),
        ("get", why, server.http.get("/datasets/census/why?by=colour")),
        ("get", pages, server.http.get("/datasets/census/requests")),
        ("get", pages, server.http.get("/datasets/census/requests?after=x")),
        ("get", pages, server.http.get("/datasets/nowhere/requests")),
        ("get", "/healthz", server.http.get("/healthz", headers={"host": "evil.example"})),
    ]


def test_responses_match_the_document(server: LocalServer, clock: TestClock) -> None:
    whole = document(server)
    statuses = set()
    for method, path, response in answers(server, clock):
        statuses.add(response.status_code)
        stated = whole["paths"][path][method]["responses"][str(response.status_code)]
        media_type = response.headers["content-type"].partition(";")[0]
        schema_of(whole, stated["content"][media_type]["schema"]).validate(response.json())
        headers = stated.get("headers", {})
        required = {name for name, header in headers.items() if header["required"]}
        assert required <= {name.title() for name in response.headers}
    assert statuses == {200, 400, 404, 409, 413, 415, 421, 422}


def test_a_request_that_waits_matches_the_document(server: LocalServer, clock: TestClock) -> None:
    whole = document(server)
    opened = server.post("/datasets", opening(clock, "plans", approve_above="0.05"))
    assert opened.json()["outcome"] == "opened"
    waiting = server.ask(dataset="plans")
    assert (waiting.status_code, waiting.json()["outcome"]) == (202, "pending")
    where = waiting.headers["location"]
    assert where == waiting.headers["content-location"]
    asked = json.loads(waiting.request.content)
    repeated = server.post("/requests", asked)
    replayed = server.post("/requests", asked, prefer="replay=original")
    listed = server.http.get("/datasets/plans/pending")
    preview = {name: asked[name] for name in ("claim", "unit", "neighbours")}
    (found,) = listed.json()
    answer = answering(clock, "plans", pending=found["pending"])
    one = "/datasets/{dataset}/requests/{request_id}"
    for method, path, response, status in (
        ("post", "/requests", waiting, 202),
        ("post", "/requests", repeated, 200),
        ("post", "/requests", replayed, 202),
        ("get", "/datasets/{dataset}/pending", listed, 200),
        ("get", one, server.http.get(where), 200),
        (
            "post",
            "/datasets/{dataset}/preview",
            server.post("/datasets/plans/preview", preview),
            200,
        ),
        (
            "post",
            "/datasets/{dataset}/approve",
            server.post("/datasets/plans/approve", answer),
            200,
        ),
        ("get", one, server.http.get(where), 200),
    ):
        assert response.status_code == status, response.text
        stated = whole["paths"][path][method]["responses"][str(status)]
        schema = stated["content"]["application/json"]["schema"]
        schema_of(whole, schema).validate(response.json())
        headers = stated.get("headers", {})
        required = {name for name, header in headers.items() if header["required"]}
        assert required <= {name.title() for name in response.headers}
    assert response.json()["outcome"] == "granted", "the request's address shows its answer"


def test_limits_match_the_document(server: LocalServer, clock: TestClock) -> None:
    whole = document(server)
    accepts = schema_of(whole, {"$ref": "#/components/schemas/SetLimit"})
    decision = schema_of(whole, {"$ref": "#/components/schemas/Decision"})
    pace = {"part": "1", "period": "P36500D"}
    for name, fields_set in (
        ("ana", {"policy": {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6"}}),
        ("ana", {"part": "0.15", "pace": pace, "reserved": "0.15"}),
        ("ben", {"part": None, "policy": None, "pace": None, "reserved": "0.5"}),
    ):
        fields = {"type": "limit", "scope": "analyst", "name": name, "dataset": "census"}
        body = {"version": 1, "request_id": new_id(clock), "by": "owner", **fields, **fields_set}
        accepts.validate(body)
        result = server.post("/datasets/census/limits", body).json()
        assert result.get("outcome") == "limit_set", result
        decision.validate(result)
    granted, refused = server.ask().json(), server.ask().json()
    decision.validate(granted)
    decision.validate(refused)
    assert granted["levels"]
    assert refused["level"]
    assert refused["left_at"]
    for wrong in ({"period": "P36501D"}, {"part": "half"}, {"more": 1}):
        assert not accepts.is_valid({**body, "pace": {**pace, **wrong}}), wrong
    for wrong in ({"unit": "person"}, {"filter": None}, {"filter": "none"}, {"beside": "basic"}):
        assert not accepts.is_valid({**body, "policy": wrong}), wrong


def test_a_problem_has_the_members_of_rfc_9457(server: LocalServer, clock: TestClock) -> None:
    result = 0
    for _, _, response in answers(server, clock):
        problem = response.json()
        if "error" not in problem or response.status_code < 400:
            continue
        result += 1
        assert response.headers["content-type"] == "application/problem+json"
        assert problem["status"] == response.status_code
        assert problem["type"] == f"/problems/{problem['error']}"
        assert problem["title"]
        assert problem["detail"] == problem["message"]
    assert result >= 7


def test_the_rules_of_a_component_are_of_one_that_exists() -> None:
    assert set(WITHIN) <= set(SCHEMAS), "its fields have no rules any more"


def test_each_rule_that_a_type_names_is_described() -> None:
    modules = (field_rules, members, limit_records)
    aliases = {name: rule_of(kind) for each in modules for name, kind in vars(each).items()}
    named = {name: rule for name, rule in aliases.items() if rule is not None}
    assert len(named) > 20
    assert all(name == rule for name, rule in named.items()), named
    assert set(named) <= SCHEMAS.keys() | RULES.keys()
    assert set(named) >= set(RULES)


def test_a_field_has_the_rule_of_its_type_and_not_of_its_name() -> None:
    def type_of(component: str, field: str) -> object:
        return SCHEMAS[component]["properties"][field]

    assert type_of("Seal", "first") == {"type": "string"}
    assert type_of("Rollback", "first") == {"type": "integer"}
    assert type_of("KeyChange", "by") == {"type": "string"}
    assert type_of("Void", "grant") == RULES["Grant"]
    held = SCHEMAS["DatasetPart"]["properties"]["held"]
    assert {"$ref": "#/components/schemas/HeldRow"} in held["anyOf"]
