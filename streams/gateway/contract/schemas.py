"""JSON Schemas of the wire types: msgspec makes them, and each field's rule narrows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

import msgspec

from accountant.advice.preview import Preview
from accountant.answers import NoisyAnswer
from accountant.field_rules import Count, Hash, rule_of
from accountant.records import Decision
from accountant.records.http_bodies import Me, PassedOn, Problem
from accountant.records.kinds import KINDS
from accountant.records.limit_fields import BUDGET_FIELDS
from accountant.records.limit_records import (
    LimitName,
    LimitRecord,
    LimitRemaining,
    LimitUpdate,
    PeriodLimitRecord,
    ReachedLimit,
    ReservedRecord,
)
from accountant.records.members import Member
from accountant.records.previews import PreviewRequest
from accountant.records.records import First, HeldRow, ReservationUpdate
from accountant.records.rule_checks import MAX_PURPOSE
from accountant.views.asks import AskView
from accountant.views.datasets import Alert, DatasetView
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, PeriodLimitView, ScopeView, ShareView
from accountant.views.overview import Overview, RecentRequests
from accountant.views.pending import PendingView
from accountant.views.period_report import PeriodReport
from accountant.views.reservations import ReservationPage, ReservationView
from accountant.views.usage import UsageView
from accountant.views.why import Why
from streams.gateway.contract.fields import (
    NULL,
    PRIMITIVES,
    TEMPLATE,
    JsonSchema,
    narrowed,
    never_null,
    reference,
    text,
)
from streams.service.ledger_service import Readiness


class Alive(msgspec.Struct):
    """The process answers."""

    alive: bool


class Pending(msgspec.Struct):
    """A body that was appended and is not decided yet.

    Attributes:
        location: the address of its decision.
    """

    status: str
    location: str


def _served_type(kind: type[Any], **added: Any) -> type[Any]:
    """Return a wire type as servers send it: with added fields, and raw JSON as any value."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(kind):
        if field.type is msgspec.Raw:
            fields.append((field.name, added.pop(field.name, Any), msgspec.UNSET))
        elif field.required:
            fields.append((field.name, added.pop(field.name, field.type)))
        else:
            fields.append((field.name, added.pop(field.name, field.type), field.default))
    config = kind.__struct_config__
    return msgspec.defstruct(
        kind.__name__,
        [*fields, *added.items()],
        namespace={"__doc__": kind.__doc__},
        kw_only=True,
        tag_field=config.tag_field,
        tag=config.tag,
        omit_defaults=True,
    )


_FIRST: Final = _served_type(First, granted=bool)
_DECISION: Final = _served_type(Decision, granted=bool, hash=Hash, first=_FIRST | None)
_PROBLEM: Final = _served_type(Problem, decision=_DECISION)
_PAGE: Final = msgspec.defstruct(
    "DecisionPage",
    [("decisions", list[_DECISION]), ("next", Count)],  # type: ignore[valid-type]
    namespace={"__doc__": "Decisions of a dataset in their order; the next page is after `next`."},
)
_RECENT: Final = _served_type(
    RecentRequests,
    decisions=list[_DECISION],  # type: ignore[valid-type]
    steps=dict[int, _DECISION],  # type: ignore[valid-type]
    remarks=dict[int, tuple[_DECISION, ...]],  # type: ignore[valid-type]
)
_ANSWER_PAGE: Final = msgspec.defstruct(
    "AnswerPage",
    [("answers", list[NoisyAnswer]), ("next", Count)],
    namespace={"__doc__": "Answers of a dataset in their order; the next page is after `next`."},
)
_BODIES: Final = (
    _DECISION,
    _PAGE,
    ReservationPage,
    _served_type(Overview, requests=_RECENT),
    NoisyAnswer,
    _ANSWER_PAGE,
    Preview,
    Alert,
    DatasetView,
    UsageView,
    Why,
    PeriodReport,
    Head,
    Member,
    AskView,
    PassedOn,
    ScopeView,
    AnalystBudget,
    _PROBLEM,
    Readiness,
    Alive,
    Me,
    Pending,
)
USAGE_BY: Final[dict[str, JsonSchema]] = {
    "purpose": {"type": "string", "maxLength": MAX_PURPOSE},
    "day": text(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "a day of the ledger's clock, in UTC"),
    "month": text(r"[0-9]{4}-[0-9]{2}", "a month of the ledger's clock, in UTC"),
}
"""The keys of usage other than the analyst."""


# Responses leave out absent values of these types instead of sending null.
_OF_LEVELS: Final = (
    *(LimitRecord, PeriodLimitRecord, ReservedRecord, LimitName, LimitUpdate, LimitRemaining),
    *(ReachedLimit, ScopeView, PeriodLimitView, ShareView, AnalystBudget, ReservationView),
    *(PendingView,),
)


_RETRY_AFTER: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "retry_after": {
            "type": "integer",
            "minimum": 0,
            "description": "seconds to wait before this line is sent again",
        }
    },
}
_BATCH_LINE: Final[JsonSchema] = {
    "title": "BatchLine",
    "description": "The response to one line of a batch: a decision has `outcome`, a problem "
    "`error`, and a line that is not decided in time has `status` pending.",
    "anyOf": [
        reference("Decision"),
        {"allOf": [reference("Problem"), _RETRY_AFTER]},
        reference("Pending"),
    ],
}
_TERMS: Final = ("claim", "unit", "neighbours")


def _given(needed: Sequence[str], *excluded: str) -> JsonSchema:
    """Return the schema of records that have all the needed fields, and none of the excluded."""
    return {
        "required": [*needed],
        "not": {"anyOf": [{"required": [name]} for name in excluded]},
    }


# `oneOf` would be shorter, but generators of clients then make no class of the record.
_CLAIM_OR_QUESTION: Final[JsonSchema] = {
    "if": {"required": ["question"]},
    "then": _given(["noise"], *_TERMS, "other_datasets"),
    "else": _given(_TERMS, "noise", "stop", "guess"),
}
"""A claim with its terms, or a question in its place."""


def _one_of(first: str, kind: str, second: str) -> JsonSchema:
    """Return the schema of exactly one of two fields that may be null; the second is a text.

    Args:
        kind: the type of the first.
    """
    return {
        "if": {"required": [first], "properties": {first: {"type": kind}}},
        "then": {"properties": {second: NULL}},
        "else": {"required": [second], "properties": {second: {"type": "string"}}},
    }


_CLAIM_OR_MISTAKEN: Final = _one_of("claim", "object", "mistaken")
_EPSILON_OR_RHO: Final = _one_of("epsilon", "string", "rho")
_ANALYST_IF_VIA: Final[JsonSchema] = {
    "via": {"required": ["analyst"], "properties": {"analyst": {"type": "string"}}}
}


def _rules_of(types: Iterable[Any]) -> Iterator[tuple[tuple[str, str], str | None]]:
    """Yield the rule that each field's type names, by component and field."""
    due, known = list(types), set[Any]()
    while due:
        kind = due.pop()
        if kind in known:
            continue
        known.add(kind)
        due += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            for field in msgspec.structs.fields(kind):
                due.append(field.type)
                yield (kind.__name__, field.encode_name), rule_of(field.type)


def components() -> dict[str, JsonSchema]:
    """Return the schemas of the document by name."""
    types = (*(kind.body for kind in KINDS), PreviewRequest, *_BODIES)
    _, found = msgspec.json.schema_components(types, ref_template=TEMPLATE)
    named = dict(_rules_of(types))
    for name, component in found.items():
        component["description"] = inspect.cleandoc(component.get("description", name))
        fields = component.get("properties", {})
        for field, schema in fields.items():
            fields[field] = narrowed(name, field, schema, named.get((name, field)))
    for kind in (_DECISION, _FIRST, _PROBLEM, ReservationUpdate, HeldRow, *_OF_LEVELS):
        fields = found[kind.__name__]["properties"]
        for field, schema in fields.items():
            fields[field] = never_null(schema)
    found["LimitPolicy"] = _budget_of(found["Policy"])
    found["PreviewRequest"]["dependentSchemas"] = _ANALYST_IF_VIA
    for name in ("MechanismRequest", "PreviewRequest"):
        found[name] |= _CLAIM_OR_QUESTION
    found["BatchLine"] = _BATCH_LINE
    found["Resolve"] |= _CLAIM_OR_MISTAKEN
    for name in ("BudgetInForce", "Lifetime"):
        found[name] |= _EPSILON_OR_RHO
    for by, rule in USAGE_BY.items():
        found[f"UsageBy{by.title()}"] = _usage_by(found["UsageView"], by, rule)
    return PRIMITIVES | found


def _budget_of(policy: JsonSchema) -> JsonSchema:
    """Return the schema of a limit's budget: the budget fields of a policy, never null."""
    return {
        "title": "LimitPolicy",
        "description": "A budget for one limit scope: the budget fields of a policy.",
        "type": "object",
        "properties": {name: never_null(policy["properties"][name]) for name in BUDGET_FIELDS},
        "additionalProperties": False,
    }


def _usage_by(view: JsonSchema, by: str, rule: JsonSchema) -> JsonSchema:
    """Return the schema of usage by another key than the analyst."""
    fields = {name: schema for name, schema in view["properties"].items() if name != "analyst"}
    required = [by if name == "analyst" else name for name in view["required"]]
    title = f"UsageBy{by.title()}"
    what = f"Usage of one dataset, by {by}."
    heading = {"title": title, "description": what}
    return view | heading | {"properties": {by: rule} | fields, "required": required}
