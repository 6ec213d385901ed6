"""Schemas of what is on the wire: the wire types themselves, narrowed by the rules of each field.

msgspec knows the fields and their types. The bounds come from the constants and regular
expressions with which the processor checks, so that there is no second copy of a rule.
"""

from __future__ import annotations

import inspect
import re
from decimal import Decimal
from typing import Any, Final, get_args

import msgspec

from accountant.advice.preview import Preview
from accountant.amounts import LARGEST, SMALLEST, WIRE_PATTERN
from accountant.claims.claims import MOST_CLAIMS, MOST_TIMES
from accountant.claims.fields import LEAST_EPSILON, LEAST_RHO, MOST_EPSILON, MOST_RHO
from accountant.filters import FILTERS
from accountant.filters.beside import BESIDE
from accountant.filters.renyi import LEAST_ORDER, MOST_ORDER
from accountant.filters.renyi_weighted import MOST_ORDERS
from accountant.fractional import EXCESS_PATTERN
from accountant.odometers import AnyOdometer
from accountant.odometers.advanced_2016_n import LEAST_N, MOST_N
from accountant.odometers.base import LEAST_PARAMETER
from accountant.odometers.combined import MOST_PARTS
from accountant.policy.policy import HORIZON_PATTERN, MOST_ALERTS, MOST_ODOMETERS, UNIT_PATTERN
from accountant.records import Amend, Close, Decision, MechanismRequest, Open, SetMember
from accountant.records.inputs import MOST_PURPOSE
from accountant.records.members import MOST_OWNERS_NAMED, Member
from accountant.records.names import NAME_PATTERN
from accountant.records.previews import PreviewRequest
from accountant.records.records import First
from accountant.times import ID_PATTERN
from accountant.views.datasets import Alert, DatasetView
from accountant.views.heads import Head
from accountant.views.usage import OTHERS, UsageView
from streams.gateway.people.me import Me
from streams.gateway.problems import Problem
from streams.service import Readiness

JsonSchema = dict[str, Any]
_NULL: Final = {"type": "null"}
_TEMPLATE: Final = "#/components/schemas/{name}"


def reference(name: str) -> JsonSchema:
    """Return the reference to a component."""
    return {"$ref": _TEMPLATE.format(name=name)}


def _whole(pattern: str) -> str:
    return f"^(?:{pattern})$"


def _text(pattern: str, description: str) -> JsonSchema:
    return {"type": "string", "pattern": _whole(pattern), "description": description}


def _amount(
    name: str,
    example: str,
    least: Decimal,
    most: Decimal,
    *,
    zero: bool = False,
    below: bool = False,
) -> JsonSchema:
    """Return the schema of a decimal text within bounds.

    JSON Schema bounds numbers and not texts: a regular expression of a bound would take ten
    thousand characters. So each kind of amount is a format, with its bounds beside it.
    """
    end = f"below {most}" if below else f"at most {most}"
    return {
        "type": "string",
        "pattern": _whole(WIRE_PATTERN),
        "format": name,
        "examples": [example],
        "description": f"a decimal, {'0 or ' if zero else ''}at least {least} and {end}",
        "x-minimum": str(least),
        "x-exclusive-maximum" if below else "x-maximum": str(most),
        "x-zero": zero,
    }


_ONE: Final = Decimal(1)
_PRIMITIVES: Final[dict[str, JsonSchema]] = {
    "Name": _text(NAME_PATTERN, "a name of a dataset, an analyst or an owner"),
    "RequestId": _text(ID_PATTERN, "a UUID of version 7 in lower case: its time is that of issue")
    | {"format": "uuid"},
    "Hash": _text("sha256:[0-9a-f]{64}", "the hash of a record of the log"),
    "Time": {"type": "string", "format": "date-time", "description": "in UTC, to the millisecond"},
    "Until": _text(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", "the end of a time"
    )
    | {"examples": ["2027-01-01T00:00:00.000Z"]},
    "Unit": _text(UNIT_PATTERN, "what one neighbour differs in, such as person"),
    "Horizon": _text(HORIZON_PATTERN, "a number of days, such as P365D"),
    "Epsilon": _amount("epsilon", "0.1", LEAST_EPSILON, MOST_EPSILON, zero=True),
    "EpsilonBudget": _amount("epsilon-budget", "1", LEAST_EPSILON, MOST_EPSILON),
    "Rho": _amount("rho", "0.005", LEAST_RHO, MOST_RHO, zero=True),
    "RhoBudget": _amount("rho-budget", "0.5", LEAST_RHO, MOST_RHO),
    "Delta": _amount("delta", "1e-6", SMALLEST, _ONE, zero=True, below=True),
    "OdometerDelta": _amount("odometer-delta", "1e-7", SMALLEST, _ONE, below=True),
    "OdometerParameter": _amount("odometer-parameter", "0.01", LEAST_PARAMETER, LARGEST),
    "Ratio": _amount("ratio", "0.5", SMALLEST, _ONE),
    "Rate": _amount("rate", "0.01", LEAST_EPSILON, _ONE),
    "Noise": _amount("noise", "10", SMALLEST, LARGEST),
    "Sensitivity": _amount("sensitivity", "1", SMALLEST, LARGEST, zero=True),
    "Order": _amount("order", "22", LEAST_ORDER, MOST_ORDER),
    "LedgerAmount": _text(r"inf|[0-9]+(?:\.[0-9]{1,40})?", "a sum of the ledger"),
    "PartOfAUnit": _text(EXCESS_PATTERN, "by which part of 1e-40 a sum is rounded up"),
}


def _listed(item: str, most: int, least: int = 0) -> JsonSchema:
    found: JsonSchema = {"type": "array", "items": reference(item), "maxItems": most}
    return found | {"minItems": least} if least else found


def _between(least: int, most: int) -> JsonSchema:
    return {"type": "integer", "minimum": least, "maximum": most}


_NOTE: Final[JsonSchema] = {"type": "string", "maxLength": MOST_PURPOSE}
_SUMS: Final[JsonSchema] = {"type": "object", "additionalProperties": reference("LedgerAmount")}
_OWNERS: Final[JsonSchema] = _listed("Name", MOST_OWNERS_NAMED, 1) | {"uniqueItems": True}
_MEMBER: Final[dict[str, JsonSchema]] = {
    **dict.fromkeys(("member", "team"), reference("Name")),
    "roles": {"uniqueItems": True},
    "until": reference("Until"),
}
_TOTALS: Final[JsonSchema] = {
    "type": "object",
    "additionalProperties": {"anyOf": [reference("LedgerAmount"), {"type": "integer"}]},
}
_RATIO: Final[JsonSchema] = {"type": "number", "minimum": 0, "maximum": 1}
_COUNT: Final[JsonSchema] = {"type": "integer", "minimum": 0}

# By name, wherever a field of that name stands.
_EVERYWHERE: Final[dict[str, JsonSchema]] = {
    **{name: reference("Name") for name in ("dataset", "analyst", "by", "via", "population")},
    **{name: reference("Epsilon") for name in ("epsilon", "eta", "mu")},
    **{name: reference("Noise") for name in ("scale", "sigma", "variance", "previous")},
    **{name: reference("OdometerParameter") for name in ("r", "y", "v0", "beta")},
    **dict.fromkeys(("sequence", "generation", "offset", "partition"), _COUNT),
    **dict.fromkeys(("cost", "asked", "left", "budget"), _SUMS),
    **{
        name: reference("Time")
        for name in ("decided_at", "opened_at", "last_decided_at", "horizon_ends_at")
    },
    "request_id": reference("RequestId"),
    "rho": reference("Rho"),
    "delta": reference("Delta"),
    "rate": reference("Rate"),
    "sensitivity": reference("Sensitivity"),
    "times": _between(1, MOST_TIMES),
    "n": _between(LEAST_N, MOST_N),
    "purpose": _NOTE,
    "reason": _NOTE,
    "alert_at": _listed("Ratio", MOST_ALERTS),
    "horizon": reference("Horizon"),
    "most_per_request": reference("Ratio"),
    "totals": _TOTALS,
    "rounded_up": {"type": "object", "additionalProperties": reference("PartOfAUnit")},
    "spent_ratio": _RATIO,
    "hash": reference("Hash"),
}
# By component, before those.
_WITHIN: Final[dict[str, dict[str, JsonSchema]]] = {
    "AllOf": {"claims": {"minItems": 1, "maxItems": MOST_CLAIMS}},
    "Odometer": {"delta": reference("OdometerDelta")},
    "Combined": {"odometers": {"minItems": 2, "maxItems": MOST_PARTS}},
    "Policy": {
        "filter": {"enum": list(FILTERS)},
        "beside": {"enum": [BESIDE]},
        "epsilon": reference("EpsilonBudget"),
        "rho": reference("RhoBudget"),
        "delta_for_claims": reference("Delta"),
        "unit": reference("Unit"),
        "odometers": {"maxItems": MOST_ODOMETERS},
        "order": reference("Order"),
        "orders": _listed("Order", MOST_ORDERS, 1),
        "weights": _listed("Ratio", MOST_ORDERS, 1),
        "epsilon_ex_post": reference("EpsilonBudget"),
        "delta_ex_post": reference("Delta"),
        "epsilon_each": reference("EpsilonBudget"),
    },
    "UsageView": {
        # One text with two forms: generated clients read the first of several types alone.
        "analyst": _text(f"{NAME_PATTERN}|{re.escape(OTHERS)}", "a name, or all others together"),
        "granted": _COUNT,
        "refused": _COUNT,
        "spent": reference("LedgerAmount"),
    },
    "Member": _MEMBER,
    "SetMember": _MEMBER,
    "Membership": _MEMBER,
    "Me": {"name": reference("Name")},
    "Open": {"owners": _OWNERS},
    "Decision": {
        "previous": reference("Hash"),
        "floor": reference("Time"),
        "reason": {},
        "partition_sequence": _COUNT,
        "request": {"description": "the input, verbatim"},
    },
    "Problem": {
        "type": {"format": "uri-reference"},
        "status": _between(400, 599),
        "after": _COUNT,
    },
    "Preview": {"reason": {}, "more": _COUNT},
    "DecisionPage": {"next": _COUNT},
    "Head": {"partition_sequence": _COUNT, "branch": _COUNT, "head": reference("Hash")},
    "First": {"partition_sequence": _COUNT, "reason": {}},
}


class Alive(msgspec.Struct):
    """The process answers."""

    alive: bool


class Pending(msgspec.Struct):
    """A body that was appended and is not decided yet.

    Attributes:
        location: where its decision will be.
    """

    status: str
    location: str


def _answered(kind: type[Any], **added: Any) -> type[Any]:
    """Return a wire type as doors answer it: with more fields, and raw JSON as any value."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(kind):
        if field.type is msgspec.Raw:
            fields.append((field.name, added.pop(field.name, Any), msgspec.UNSET))
        elif field.required:
            fields.append((field.name, field.type))
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


_FIRST: Final = _answered(First, granted=bool)
_DECISION: Final = _answered(Decision, granted=bool, hash=str, first=_FIRST | None)
_PROBLEM: Final = _answered(Problem, decision=_DECISION)
_PAGE: Final = msgspec.defstruct(
    "DecisionPage",
    [("decisions", list[_DECISION]), ("next", int)],  # type: ignore[valid-type]
    namespace={"__doc__": "Decisions of a dataset in their order; the next page is after `next`."},
)
_ANSWERS: Final = (
    _DECISION,
    _PAGE,
    Preview,
    Alert,
    DatasetView,
    UsageView,
    Head,
    Member,
    _PROBLEM,
    Readiness,
    Alive,
    Me,
    Pending,
)
USAGE_BY: Final[dict[str, JsonSchema]] = {
    "purpose": {"type": "string", "maxLength": MOST_PURPOSE},
    "day": _text(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "a day of the ledger's clock, in UTC"),
    "month": _text(r"[0-9]{4}-[0-9]{2}", "a month of the ledger's clock, in UTC"),
}
"""What usage is by where it is not by analyst."""
_ODOMETERS: Final = {kind.__name__ for kind in get_args(AnyOdometer)}


def components() -> dict[str, JsonSchema]:
    """Return the schemas of the document by name."""
    types = (MechanismRequest, PreviewRequest, Open, Amend, Close, SetMember, *_ANSWERS)
    _, found = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    for name, component in found.items():
        component["description"] = inspect.cleandoc(component.get("description", name))
        fields = component.get("properties", {})
        for field, schema in fields.items():
            fields[field] = _narrowed(name, field, schema)
    for kind in (_DECISION, _FIRST, _PROBLEM):
        fields = found[kind.__name__]["properties"]
        for field, schema in fields.items():
            fields[field] = _never_null(schema)
    for by, rule in USAGE_BY.items():
        found[f"UsageBy{by.title()}"] = _usage_by(found["UsageView"], by, rule)
    return _PRIMITIVES | found


def _usage_by(view: JsonSchema, by: str, rule: JsonSchema) -> JsonSchema:
    """Return the schema of usage by something else than the analyst."""
    fields = {name: schema for name, schema in view["properties"].items() if name != "analyst"}
    required = [by if name == "analyst" else name for name in view["required"]]
    title = f"UsageBy{by.title()}"
    what = f"What was asked of one dataset, by {by}."
    told = {"title": title, "description": what}
    return view | told | {"properties": {by: rule} | fields, "required": required}


def _narrowed(component: str, field: str, schema: JsonSchema) -> JsonSchema:
    """Return a field's schema with its rule; a rule without a type adds to the schema's own."""
    own = _WITHIN.get("Odometer" if component in _ODOMETERS - {"Combined"} else component, {})
    rule = own.get(field, _EVERYWHERE.get(field, {}))
    kept = {"default": schema["default"]} if "default" in schema else {}
    if _NULL in schema.get("anyOf", ()):
        (inner,) = [each for each in schema["anyOf"] if each != _NULL]
        return kept | {"anyOf": [_ruled(inner, rule), _NULL]}
    return _ruled(schema, rule) | kept


def _ruled(schema: JsonSchema, rule: JsonSchema) -> JsonSchema:
    whole = {"$ref", "type", "anyOf", "enum"} & set(rule)
    return rule if whole else schema | rule


def _never_null(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a field that is left out where it would be null."""
    schema = {key: value for key, value in schema.items() if key != "default"}
    if _NULL not in schema.get("anyOf", ()):
        return schema
    inner: JsonSchema = next(each for each in schema["anyOf"] if each != _NULL)
    return inner
