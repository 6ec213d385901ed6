"""What each operation of the door answers: every status, its body and its headers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from streams.gateway.contract.fields import JsonSchema, reference
from streams.gateway.contract.schemas import USAGE_BY, components
from streams.gateway.events import LAST_EVENT_ID
from streams.http.problems import JSON, PROBLEM_JSON

_TEXT: Final[JsonSchema] = {"type": "string"}


class ResponseSpec(NamedTuple):
    """One status of one operation.

    Attributes:
        description: when it is answered.
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


_AGAIN: Final = "seconds after which to try again"
_WHERE: Final = "where the decision is, for as long as its id is remembered"
_LISTED: Final = "which list this is: the path of what was asked for, with its parameters"
_BUSY: Final = _problem("the ledger cannot be reached, or has no room", Retry_After=_AGAIN)
_BROKEN: Final = _problem("a field breaks its rule")
_UNKNOWN: Final = _problem("no such dataset was ever opened, or nothing of it is shown")
_QUERY: Final = _problem("a parameter is missing, or given in another form or more than once")

# Of every operation.
_ALWAYS: Final = {
    "421": _problem("the Host header names another machine than this one"),
    "500": _problem("the door failed: its log says how"),
}
# Of every operation but those of supervisors, which are not counted.
_LIMITED: Final = {
    "429": _problem("this address has sent too many requests", Retry_After=_AGAIN),
}
_SUBMITTED: Final = {
    "200": ResponseSpec(
        "the decision: granted, refused, repeated, expired, or what an owner's record came to",
        reference("Decision"),
        {"Content-Location": _WHERE},
    ),
    "202": ResponseSpec(
        "not decided in time: look at Location, or send the same bytes again",
        reference("Pending"),
        {"Location": _WHERE, "Retry-After": _AGAIN},
    ),
    "400": _problem("the body is not JSON; nothing was appended"),
    "409": ResponseSpec(
        "the id was used for another body; the decision says for what outcome",
        reference("Decision"),
        {"Content-Location": _WHERE},
    ),
    "413": _problem("the body is too long"),
    "415": _problem("the body is not declared as plain JSON"),
    "422": _problem("a field breaks its rule; with a decision where one was made"),
    "503": _problem(
        "nothing can be decided now: retry with the same bytes after Retry-After seconds",
        Retry_After=_AGAIN,
    ),
}
# Of every operation that is not open to strangers, where a door knows who asks.
_KNOWN: Final = {
    "401": _problem(
        "no token that this door knows, whatever is wrong with it",
        WWW_Authenticate="the kind of token: Bearer",
    ),
    "403": _problem("who asks is known, and may not"),
    "503": _problem(
        "who asks cannot be established now, or what is asked for cannot be answered",
        Retry_After=_AGAIN,
    ),
}
_SCHEME: Final = "bearer"
_TOKENS: Final = "of `accountant token create`, or of the OpenID provider"
_READY: Final = reference("Readiness")


def _found(what: str, kind: str) -> ResponseSpec:
    return ResponseSpec(what, reference(kind))


def _list_of(what: str, kind: str) -> ResponseSpec:
    return ResponseSpec(what, {"type": "array", "items": reference(kind)})


def _placed(answer: ResponseSpec) -> ResponseSpec:
    return answer._replace(headers={"Content-Location": _LISTED})


_USAGES: Final = ("UsageView", *(f"UsageBy{by.title()}" for by in USAGE_BY))

# By the names of the handlers; an operation that takes a body and is not here answers a decision.
ANSWERS: Final[dict[str, dict[str, ResponseSpec]]] = {
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
        "200": _found("the dataset, and all that the caller sees of it", "Overview"),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "show_usage": {
        "200": _placed(
            ResponseSpec(
                "a row for each analyst, purpose, day or month",
                {"type": "array", "items": {"anyOf": [reference(kind) for kind in _USAGES]}},
            )
        ),
        "400": _QUERY,
        "404": _UNKNOWN,
        "422": _problem("by is none of these"),
        "503": _BUSY,
    },
    "show_why": {
        "200": ResponseSpec(
            "who used the budget, and how much longer it lasts",
            reference("Why"),
            also={"text/csv": _TEXT},
        ),
        "400": _QUERY,
        "404": _UNKNOWN,
        "422": _BROKEN,
        "503": _BUSY,
    },
    "list_requests": {
        "200": _placed(
            _found("a page of decisions, in the order of their numbers", "DecisionPage")
        ),
        "400": _QUERY,
        "404": _UNKNOWN,
        "410": _problem("the next decisions are in an archive: read on from the `after` it names"),
        "422": _BROKEN,
        "503": _BUSY,
    },
    "show_head": {
        "200": _list_of("the end of each partition's log", "Head"),
        "503": _BUSY,
    },
    "show_decision": {
        "200": _found("the decision", "Decision"),
        "400": _QUERY,
        "404": _problem("not among the recent decisions, or not shown to who asks"),
        "503": _BUSY,
    },
    "stream_events": {
        "200": ResponseSpec("server-sent events", _TEXT, media_types=("text/event-stream",)),
        "400": _problem("a parameter as elsewhere; or Last-Event-ID is of no event of this ledger"),
        "410": _problem(
            "Last-Event-ID is too far back, or archived: read GET /datasets/{dataset}/requests on, "
            "then connect without it"
        ),
        "422": _BROKEN,
        "429": _problem(
            "this address has sent too many requests, or who asks has too many streams open",
            Retry_After=_AGAIN,
        ),
        "503": _BUSY,
    },
    "preview_request": {
        "200": _found("what the request would be told", "Preview"),
        "400": _problem("the body is not JSON"),
        "404": _UNKNOWN,
        "413": _SUBMITTED["413"],
        "415": _SUBMITTED["415"],
        "422": _BROKEN,
        "503": _BUSY,
    },
    "list_members": {
        "200": _placed(_list_of("the members who are shown to who asks, by name", "Member")),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "list_limits": {
        "200": _placed(
            _list_of("the limits that are shown to who asks, by scope and name", "LevelView")
        ),
        "404": _UNKNOWN,
        "503": _BUSY,
    },
    "show_budget": {
        "200": _found("what the analyst may still use", "AnalystBudget"),
        "404": _UNKNOWN,
        "422": _BROKEN,
        "503": _BUSY,
    },
    "show_own_budgets": {
        "200": _list_of("what the one who asks may still use, by dataset", "AnalystBudget"),
        "503": _BUSY,
    },
    "show_me": {"200": _found("who asks", "Me")},
    "healthz": {"200": _found("the process answers", "Alive")},
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
OF_SUPERVISORS: Final = frozenset({"healthz", "readyz"})
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
    "description": "how long to wait for the decision, in seconds: wait=5",
    "schema": {"type": "string", "examples": ["wait=5"]},
}

_LAST_EVENT_ID: Final = {
    "name": LAST_EVENT_ID,
    "in": "header",
    "description": "the id of the last event that came: the stream goes on after it",
    "schema": {"type": "string", "examples": ["1-8f3a0c2b9d11-1041"]},
}


def described(document: dict[str, Any], *, authenticates: bool) -> dict[str, Any]:
    """Return the document that Litestar makes of the handlers, with what they take and answer.

    Args:
        authenticates: the door knows who asks.
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
    if name == "stream_events":
        operation.setdefault("parameters", []).append(_LAST_EVENT_ID)
    answers = ANSWERS.get(name)
    if answers is None and "requestBody" in operation:
        operation.setdefault("parameters", []).append(_PREFER)
        answers = _SUBMITTED
    if answers is None:
        # An operation that is not described here keeps what its handler says of it.
        return
    told = _limited(name) | answers | _ALWAYS
    if authenticates:
        # A token shows more of health, and is not needed there.
        told = told if name in OF_SUPERVISORS else _KNOWN | told | {"503": _KNOWN["503"]}
        operation["security"] = [{}, {_SCHEME: []}] if name in OF_SUPERVISORS else [{_SCHEME: []}]
    operation["responses"] = {status: _response(told[status]) for status in sorted(told)}


def _limited(operation: str) -> dict[str, ResponseSpec]:
    return {} if operation in OF_SUPERVISORS else _LIMITED


def _response(answer: ResponseSpec) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": answer.description,
        "content": {
            **{media_type: {"schema": answer.body} for media_type in answer.media_types},
            **{media_type: {"schema": body} for media_type, body in answer.also.items()},
        },
    }
    if answer.headers:
        response["headers"] = {
            name: {"description": what, "required": True, "schema": _TEXT}
            for name, what in answer.headers.items()
        }
    return response
