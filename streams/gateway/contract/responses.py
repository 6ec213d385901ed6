"""The responses of each operation: every status, its body and its headers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from accountant.records.kinds import KINDS, OPENING, REQUEST
from streams.gateway.contract.fields import JsonSchema, lines_of, reference
from streams.gateway.contract.schemas import USAGE_BY, components
from streams.gateway.events import LAST_EVENT_ID
from streams.gateway.files import CSV, PARQUET
from streams.http.problems import JSON, NDJSON, PROBLEM_JSON

_TEXT: Final[JsonSchema] = {"type": "string"}


class ResponseSpec(NamedTuple):
    """One status of one operation.

    Attributes:
        description: when the server responses with it.
        body: the schema of its body.
        headers: its headers, with their descriptions.
        media_types: of the body.
        also: schemas of the body in other media types.
    """

    description: str
    body: JsonSchema
    headers: Mapping[str, str] = MappingProxyType({})
    media_types: tuple[str, ...] = (JSON,)
    also: Mapping[str, JsonSchema] = MappingProxyType({})


def _problem(description: str, **headers: str) -> ResponseSpec:
    named = {name.replace("_", "-"): what for name, what in headers.items()}
    return ResponseSpec(description, reference("Problem"), named, (PROBLEM_JSON,))


_AGAIN: Final = "seconds to wait before the next try"
_ON_EVERY: Final = {
    "X-Request-Id": "the id of this exchange in logs: the request's, if it is valid. Not the "
    "`request_id` of a record"
}
_WHERE: Final = "the decision's address, for as long as its id is remembered"
_LISTED: Final = "the list's address: the requested path with its parameters"
_BUSY: Final = _problem("the ledger cannot be reached, or is overloaded", Retry_After=_AGAIN)
_BROKEN: Final = _problem("a field breaks its rule")
_UNKNOWN: Final = _problem("the dataset was never opened, or the caller may not see it")
_NO_ANSWERS: Final = "this server has no answers, since nobody runs questions here"
_QUERY: Final = _problem("a parameter is missing, malformed, repeated or unknown")
_NOT_JSON: Final = _problem(
    "the body is not JSON, or a parameter is malformed or unknown; nothing was appended"
)

# For every operation.
_ALWAYS: Final = {
    "421": _problem("the Host header does not name this machine"),
    "500": _problem("the server failed on this request; its log has the error"),
}
# For every operation but health probes, which have no rate limit.
_LIMITED: Final = {
    "429": _problem("the caller or this address has sent too many requests", Retry_After=_AGAIN),
}
_SUBMITTED: Final = {
    "200": ResponseSpec(
        "the decision: granted, refused, repeated or expired; or the outcome of an admin request. "
        "A repeat has `granted` false, and the outcome of the first decision in `first.outcome`",
        reference("Decision"),
        {"Content-Location": _WHERE},
    ),
    "202": ResponseSpec(
        "not decided in time: poll Location, or send the same bytes again",
        reference("Pending"),
        {"Location": _WHERE, "Retry-After": _AGAIN},
    ),
    "400": _NOT_JSON,
    "409": ResponseSpec(
        "the id was used before for another body; the decision has that request's outcome",
        reference("Decision"),
        {"Content-Location": _WHERE},
    ),
    "413": _problem("the body is too long"),
    "415": _problem("the body is not declared as plain JSON"),
    "422": _problem("a field breaks its rule; includes the decision if one was made"),
    "503": _problem(
        "nothing can be decided now: send the same bytes again after Retry-After seconds",
        Retry_After=_AGAIN,
    ),
}
_WAITS: Final = ResponseSpec(
    "not decided in time: poll Location, or send the same bytes again. Or the decision `pending`: "
    "the request waits until an owner approves or denies it, which Location then shows",
    {"oneOf": [reference("Pending"), reference("Decision")]},
    {"Location": _WHERE, "Retry-After": _AGAIN},
)
_NOT_ITS_SOURCE: Final = _problem(
    "the caller is not allowed to do this, or the source of the dataset's schema is not for it, or "
    "answers no question now; nothing was appended"
)
_ASKED_BACK: Final = ResponseSpec(
    "the id was used before for another body; the decision has that request's outcome. Or a "
    "problem: it is probably a slip, and `new` is not true; nothing was appended",
    reference("Decision"),
    {"Content-Location": _WHERE},
    also={PROBLEM_JSON: reference("Problem")},
)
_NOT_ASKED: Final = ResponseSpec(
    "the id was used before for another body; the decision has that request's outcome. Or a "
    "problem: nobody runs questions here; nothing was appended",
    reference("Decision"),
    {"Content-Location": _WHERE},
    also={PROBLEM_JSON: reference("Problem")},
)
# By operation: what a server refuses, or asks back, for what is there already.
_ASKING_BACK: Final = {
    kind.operation: _SUBMITTED | {"409": _ASKED_BACK} for kind in KINDS if kind.asks_back
}
_SUBMITTED_ON_SOURCES: Final = _ASKING_BACK | {
    REQUEST.operation: _SUBMITTED | {"202": _WAITS, "403": _NOT_ITS_SOURCE, "409": _NOT_ASKED},
    "ask_for_more": _SUBMITTED
    | {
        "202": ResponseSpec(
            "not decided in time; or `passed_on`, whatever was decided, where the caller does not "
            "see the dataset or there is none",
            {"oneOf": [reference("Pending"), reference("PassedOn")]},
        )
    },
    OPENING.operation: _ASKING_BACK[OPENING.operation] | {"403": _NOT_ITS_SOURCE},
}
# For every operation that needs a token, where authentication is on.
_AUTHENTICATED: Final = {
    "401": _problem(
        "no valid token; the answer does not say what is wrong with it",
        WWW_Authenticate="the authentication scheme: Bearer",
    ),
    "403": _problem("the caller is authenticated, but not allowed to do this"),
    "503": _problem(
        "the server cannot check tokens now, or the ledger cannot answer",
        Retry_After=_AGAIN,
    ),
}
_SCHEME: Final = "bearer"
_TOKENS: Final = "a token from `accountant token create`, or from the OpenID provider"
_READY: Final = reference("Readiness")


def _found(what: str, kind: str) -> ResponseSpec:
    return ResponseSpec(what, reference(kind))


def _list_of(what: str, kind: str) -> ResponseSpec:
    return ResponseSpec(what, {"type": "array", "items": reference(kind)})


def _with_location(answer: ResponseSpec) -> ResponseSpec:
    return answer._replace(headers={"Content-Location": _LISTED})


_USAGES: Final = ("UsageView", *(f"UsageBy{by.title()}" for by in USAGE_BY))

# By handler name. An operation with a body that is not listed responses with a decision.
RESPONSES: Final[dict[str, dict[str, ResponseSpec]]] = {
    "list_datasets": {
        "200": _list_of("the datasets, by name", "DatasetView"),
        "400": _QUERY,
        "422": _BROKEN,
        "503": _BUSY,
    },
    "show_dataset": {
        "200": _found("the dataset", "DatasetView"),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "show_overview": {
        "200": _found("the dataset, and all that the caller may see of it", "Overview"),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "show_usage": {
        "200": _with_location(
            ResponseSpec(
                "one row per analyst, purpose, day or month",
                {"type": "array", "items": {"anyOf": [reference(kind) for kind in _USAGES]}},
            )
        ),
        "400": _QUERY,
        "404": _UNKNOWN,
        "422": _problem("`by` is not one of the four keys"),
        "503": _BUSY,
    },
    "show_why": {
        "200": ResponseSpec(
            "who used the budget, and how much longer it lasts",
            reference("Why"),
            also={CSV: _TEXT},
        ),
        "400": _QUERY,
        "404": _UNKNOWN,
        "422": _BROKEN,
        "503": _BUSY,
    },
    "show_report": {
        "200": ResponseSpec(
            "what was asked, granted and spent in the period",
            reference("PeriodReport"),
            also={CSV: _TEXT, PARQUET: {"type": "string", "format": "binary"}},
        ),
        "400": _QUERY,
        "403": _problem("the caller sees neither everybody's requests nor those of a team"),
        "404": _UNKNOWN,
        "422": _BROKEN,
        "503": _BUSY,
    },
    "list_requests": {
        "200": _with_location(
            _found("a page of decisions, in the order of their numbers", "DecisionPage")
        ),
        "400": _QUERY,
        "404": _UNKNOWN,
        "410": _problem("the next decisions are archived: continue from the problem's `after`"),
        "422": _BROKEN,
        "503": _BUSY,
    },
    "list_pending": {
        "200": _with_location(_list_of("the requests that wait for approval", "PendingView")),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "list_reservations": {
        "200": _with_location(
            _found("a page of open reservations, in their decisions' order", "ReservationPage")
        ),
        "400": _QUERY,
        "404": _UNKNOWN,
        "422": _BROKEN,
        "503": _BUSY,
    },
    "show_head": {
        "200": _list_of("the last decision of each partition", "Head"),
        "503": _BUSY,
    },
    "show_decision": {
        "200": _found("the decision", "Decision"),
        "400": _QUERY,
        "404": _problem(
            "the dataset was never opened; the request is not decided yet, or its decision is not "
            "remembered; or the caller may not see it"
        ),
        "503": _BUSY,
    },
    "show_answer": {
        "200": _found("the answer", "NoisyAnswer"),
        "202": ResponseSpec(
            "the question was granted, and has no answer yet: ask again",
            reference("Pending"),
            {"Location": "the answer's address", "Retry-After": _AGAIN},
        ),
        "400": _QUERY,
        "404": _problem(
            "the dataset was never opened; the request is no granted question; the caller may not "
            f"see its answer; or {_NO_ANSWERS}"
        ),
        "422": _BROKEN,
        "503": _BUSY,
    },
    "list_answers": {
        "200": _with_location(
            _found("a page of answers, in the order of their storage", "AnswerPage")
        ),
        "400": _QUERY,
        "404": _problem(
            f"the dataset was never opened, or the caller may not see it; or {_NO_ANSWERS}"
        ),
        "422": _BROKEN,
        "503": _BUSY,
    },
    "stream_answers": {
        "200": ResponseSpec("server-sent events", _TEXT, media_types=("text/event-stream",)),
        "400": _QUERY,
        "404": _problem(
            f"the dataset was never opened, or the caller may not see it; or {_NO_ANSWERS}"
        ),
        "422": _BROKEN,
        "429": _problem(
            "the caller or this address has sent too many requests, or the caller has too many "
            "open streams",
            Retry_After=_AGAIN,
        ),
        "503": _BUSY,
    },
    "stream_events": {
        "200": ResponseSpec("server-sent events", _TEXT, media_types=("text/event-stream",)),
        "400": _problem(
            "a parameter is missing, malformed, repeated or unknown; or Last-Event-ID is not the "
            "id of an event of this ledger"
        ),
        "404": _UNKNOWN,
        "410": _problem(
            "Last-Event-ID is too far back, or archived: page through GET "
            "/datasets/{dataset}/requests, then connect without it"
        ),
        "422": _BROKEN,
        "429": _problem(
            "the caller or this address has sent too many requests, or the caller has too many "
            "open streams",
            Retry_After=_AGAIN,
        ),
        "503": _BUSY,
    },
    "submit_batch": {
        "200": ResponseSpec(
            "one line for each line of the body, in order: a Decision; a Problem, with "
            "`retry_after` where a request of its own would get Retry-After; or Pending. Together "
            "they are the schema BatchLine",
            lines_of("BatchLine", "one BatchLine a line, each as JSON on one line"),
            media_types=(NDJSON,),
        ),
        "400": _problem("the body is empty, or a parameter is unknown"),
        "413": _problem("Content-Length is above 8 MiB"),
        "415": _problem("the body is not declared as plain NDJSON"),
        "429": _problem(
            "the caller or this address has sent too many requests, or the caller has too many "
            "open batches",
            Retry_After=_AGAIN,
        ),
        "503": _problem("the server has too many open batches", Retry_After=_AGAIN),
    },
    "preview_request": {
        "200": _found("the decision that the request would get", "Preview"),
        "400": _NOT_JSON,
        "404": _UNKNOWN,
        "413": _SUBMITTED["413"],
        "415": _SUBMITTED["415"],
        "422": _BROKEN,
        "503": _BUSY,
    },
    "list_members": {
        "200": _with_location(_list_of("the members that the caller may see, by name", "Member")),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "list_asks": {
        "200": _with_location(_list_of("the asks that the caller may see", "AskView")),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "list_limits": {
        "200": _with_location(
            _list_of("the limits that the caller may see, by scope and name", "ScopeView")
        ),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "show_budget": {
        "200": _found("the analyst's remaining budget", "AnalystBudget"),
        "404": _UNKNOWN,
        "422": _BROKEN,
        "503": _BUSY,
    },
    "show_own_budgets": {
        "200": _list_of("the caller's remaining budgets, by dataset", "AnalystBudget"),
        "503": _BUSY,
    },
    "show_me": {"200": _found("the caller", "Me")},
    "healthz": {"200": _found("the process responses", "Alive")},
    "healthz_metrics": {
        "200": ResponseSpec(
            "metrics of readiness and of authentication",
            _TEXT,
            media_types=("text/plain", "application/openmetrics-text"),
        )
    },
    "readyz": {
        "200": ResponseSpec("ready", _READY),
        "503": ResponseSpec("not ready, for these reasons", _READY),
    },
    "metrics": {
        "200": ResponseSpec(
            "every metric, in the format that Accept asks for",
            _TEXT,
            media_types=("text/plain", "application/openmetrics-text"),
        )
    },
}
PROBES: Final = frozenset({"healthz", "healthz_metrics", "readyz"})
"""Operations that need no token."""
_OF_ANY_QUERY: Final = PROBES | {"metrics"}
_UNLIMITED: Final = frozenset({"healthz", "readyz"})
_PARAMETERS: Final = {
    ("path", "dataset"): reference("Name"),
    ("path", "analyst"): reference("Name"),
    ("path", "request_id"): reference("RequestId"),
    ("query", "analyst"): reference("Name"),
    ("query", "dataset"): reference("Name"),
}
_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "seconds to wait for the decision: wait=5",
    "schema": {"type": "string", "examples": ["wait=5"]},
}

_PREFER_ANSWER: Final = {**_PREFER, "description": "seconds to wait for the answer: wait=5"}
_PREFER_REPLAY: Final = {
    **_PREFER,
    "description": "seconds to wait for the decision: wait=5; and replay=original for the first "
    "decision in place of a repeat",
    "schema": {"type": "string", "examples": ["wait=5", "wait=5, replay=original"]},
}
_REPLAY_HEADERS: Final = {
    name: {"description": what, "required": False, "schema": _TEXT}
    for name, what in (
        ("Preference-Applied", "replay=original, if the body is the first decision on a repeat"),
        ("Privacy-Replayed", "true, if the body is the first decision: run no mechanism on it"),
    )
}
_LAST_EVENT_ID: Final = {
    "name": LAST_EVENT_ID,
    "in": "header",
    "description": "the id of the last event received: the stream resumes after it",
    "schema": {"type": "string", "examples": ["1-8f3a0c2b9d11-1041"]},
}


def described(document: dict[str, Any], *, authenticates: bool) -> dict[str, Any]:
    """Complete Litestar's document with parameters, bodies and responses.

    Args:
        authenticates: whether authentication is on.
    """
    document["components"] = {"schemas": components()}
    for item in document["paths"].values():
        for operation in item.values():
            _describe(operation, authenticates=authenticates)
    if authenticates:
        schemes = {_SCHEME: {"type": "http", "scheme": "bearer", "description": _TOKENS}}
        document["components"]["securitySchemes"] = schemes
        document["security"] = [{_SCHEME: []}]
    return document


def _describe(operation: dict[str, Any], *, authenticates: bool) -> None:
    name = operation["operationId"]
    text = inspect.cleandoc(operation.get("description", ""))
    operation["summary"] = text.partition("\n")[0].rstrip(".") or name
    operation["description"] = text
    for parameter in operation.get("parameters", []):
        schema = _PARAMETERS.get((parameter["in"], parameter["name"]))
        if schema is not None:
            parameter["schema"] = schema
        if (name, parameter["name"]) == ("show_answer", "analyst") and not authenticates:
            parameter["required"] = True  # there is no caller whose name would take its place
    if name in {"stream_events", "stream_answers"}:
        operation.setdefault("parameters", []).append(_LAST_EVENT_ID)
    responses = RESPONSES.get(name)
    if name == "submit_batch":
        operation.setdefault("parameters", []).append(_PREFER)
    if name == "show_answer":
        operation.setdefault("parameters", []).append(_PREFER_ANSWER)
    if responses is None and "requestBody" in operation:
        prefer = _PREFER_REPLAY if name == REQUEST.operation else _PREFER
        operation.setdefault("parameters", []).append(prefer)
        responses = _SUBMITTED_ON_SOURCES.get(name, _SUBMITTED)
    if responses is None:
        # An operation that is not listed keeps Litestar's description.
        return
    responses = _limited(name) | responses | _ALWAYS
    if name not in _OF_ANY_QUERY:
        responses = {"400": _problem("the query has a parameter, and there is none")} | responses
    if authenticates:
        # Health probes need no token; with one they show more.
        if name not in PROBES:
            responses = _AUTHENTICATED | responses | {"503": _AUTHENTICATED["503"]}
        operation["security"] = [{}, {_SCHEME: []}] if name in PROBES else [{_SCHEME: []}]
    operation["responses"] = {status: _response(responses[status]) for status in sorted(responses)}
    if name == REQUEST.operation:
        operation["responses"]["200"]["headers"] |= _REPLAY_HEADERS


def _limited(operation: str) -> dict[str, ResponseSpec]:
    return {} if operation in _UNLIMITED else _LIMITED


def _response(answer: ResponseSpec) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": answer.description,
        "content": {
            **{media_type: {"schema": answer.body} for media_type in answer.media_types},
            **{media_type: {"schema": body} for media_type, body in answer.also.items()},
        },
    }
    response["headers"] = {
        name: {"description": what, "required": True, "schema": _TEXT}
        for name, what in {**answer.headers, **_ON_EVERY}.items()
    }
    return response
