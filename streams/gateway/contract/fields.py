"""Rules of fields on the wire, as JSON Schemas, and which field has which rule.

The bounds are the constants and regular expressions of the processor's own checks, so that no rule
exists twice.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from accountant.amounts import LARGEST, SMALLEST, WIRE_PATTERN
from accountant.claims.claims import MAX_CLAIMS, MAX_TIMES
from accountant.claims.fields import GRANT_PATTERN, MAX_EPSILON, MAX_RHO, MIN_EPSILON, MIN_RHO
from accountant.filters import FILTERS
from accountant.filters.beside import BESIDE
from accountant.filters.renyi import MAX_ORDER, MIN_ORDER
from accountant.filters.renyi_weighted import MAX_ORDERS
from accountant.foreign_text import PLAIN_PATTERN
from accountant.fractional import EXCESS_PATTERN
from accountant.odometers.advanced_2016_n import MAX_N, MIN_N
from accountant.odometers.base import MIN_PARAMETER
from accountant.odometers.combined import MAX_PARTS
from accountant.policy.policy import (
    HORIZON_PATTERN,
    MAX_ALERTS,
    MAX_ODOMETERS,
    MAX_OPEN,
    MOST_DAYS_TO_APPROVE,
    UNIT_PATTERN,
)
from accountant.questions.decimals import MAX_PLACES, SIGNED_PATTERN
from accountant.questions.expected_error import MAX_GUESS
from accountant.questions.group_functions import MAX_CUTS
from accountant.questions.noise import MAX_CONFIDENCE, MIN_CONFIDENCE
from accountant.questions.noise_wanted import MAX_WEIGHT
from accountant.questions.question import MAX_GROUPED
from accountant.questions.schema import (
    DATE_PATTERN,
    MAX_CATEGORIES,
    MAX_CATEGORY,
    MAX_COLUMNS,
    MAX_NAME,
    MAX_ROWS,
    MAX_SIZE,
    WORD_PATTERN,
    ZONE_PATTERN,
)
from accountant.questions.statistics import MAX_STATISTICS, STATISTICS
from accountant.questions.tokens import MAX_TEXT
from accountant.records.limit_records import MAX_DAYS
from accountant.records.members import MAX_OWNERS_NAMED
from accountant.records.names import NAME_PATTERN
from accountant.records.parts import MAX_OTHERS
from accountant.records.rule_checks import MAX_PURPOSE
from accountant.times import ID_PATTERN
from accountant.views.usage import OTHERS
from streams.gateway.contract.why_schemas import OF_WHY

JsonSchema = dict[str, Any]
NULL: Final = {"type": "null"}
TEMPLATE: Final = "#/components/schemas/{name}"


def reference(name: str) -> JsonSchema:
    """Return the reference to a component."""
    return {"$ref": TEMPLATE.format(name=name)}


def lines_of(name: str, description: str) -> JsonSchema:
    """Return the schema of NDJSON whose lines are a component each.

    OpenAPI 3.1 cannot describe lines. The extension has the name that OpenAPI 3.2 gives to it.
    """
    return {"type": "string", "description": description, "x-itemSchema": reference(name)}


def _whole(pattern: str) -> str:
    return f"^(?:{pattern})$"


def text(pattern: str, description: str) -> JsonSchema:
    """Return the schema of a text that a regular expression matches as a whole."""
    return {"type": "string", "pattern": _whole(pattern), "description": description}


def _counted(maximum: int) -> str:
    """Return a regular expression of the whole numbers from 1 to `maximum`."""
    digits = str(maximum)
    found = [digits]
    for place, digit in enumerate(digits):
        least, after = int(place == 0), len(digits) - place - 1
        if int(digit) > least:
            found.append(f"{digits[:place]}[{least}-{int(digit) - 1}][0-9]{{{after}}}")
    return "|".join([f"[1-9][0-9]{{0,{len(digits) - 2}}}", *found])


def _amount(
    name: str,
    example: str,
    least: Decimal,
    maximum: Decimal,
    *,
    zero: bool = False,
    below: bool = False,
) -> JsonSchema:
    """Return the schema of a decimal text within bounds.

    JSON Schema bounds numbers and not texts: a regular expression of a bound would take ten
    thousand characters. So each kind of amount is a format with its bounds as extra fields.
    """
    end = f"below {maximum}" if below else f"at most {maximum}"
    return {
        "type": "string",
        "pattern": _whole(WIRE_PATTERN),
        "format": name,
        "examples": [example],
        "description": f"a decimal, {'0 or ' if zero else ''}at least {least} and {end}",
        "x-minimum": str(least),
        "x-exclusive-maximum" if below else "x-maximum": str(maximum),
        "x-zero": zero,
    }


_ONE: Final = Decimal(1)
PRIMITIVES: Final[dict[str, JsonSchema]] = {
    "Name": text(NAME_PATTERN, "a name of a dataset, an analyst or an owner"),
    "RequestId": text(ID_PATTERN, "a lower-case UUID of version 7 with its time of issue")
    | {"format": "uuid"},
    "Hash": text("sha256:[0-9a-f]{64}", "the hash of one of the log's records"),
    "Time": {"type": "string", "format": "date-time", "description": "in UTC, to the millisecond"},
    "Until": text(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", "an expiry time"
    )
    | {"examples": ["2027-01-01T00:00:00.000Z"]},
    "Unit": text(
        UNIT_PATTERN, "the unit of privacy: what neighbouring datasets differ in, such as person"
    ),
    "Horizon": text(HORIZON_PATTERN, "a number of days, such as P365D"),
    "Period": text(f"P(?:{_counted(MAX_DAYS)})D", f"days, such as P30D, at most P{MAX_DAYS}D")
    | {"examples": ["P30D"]},
    "Epsilon": _amount("epsilon", "0.1", MIN_EPSILON, MAX_EPSILON, zero=True),
    "EpsilonBudget": _amount("epsilon-budget", "1", MIN_EPSILON, MAX_EPSILON),
    "Rho": _amount("rho", "0.005", MIN_RHO, MAX_RHO, zero=True),
    "RhoBudget": _amount("rho-budget", "0.5", MIN_RHO, MAX_RHO),
    "Delta": _amount("delta", "1e-6", SMALLEST, _ONE, zero=True, below=True),
    "OdometerDelta": _amount("odometer-delta", "1e-7", SMALLEST, _ONE, below=True),
    "OdometerParameter": _amount("odometer-parameter", "0.01", MIN_PARAMETER, LARGEST),
    "Ratio": _amount("ratio", "0.5", SMALLEST, _ONE),
    "Confidence": _amount("confidence", "0.95", MIN_CONFIDENCE, MAX_CONFIDENCE),
    "Rate": _amount("rate", "0.01", MIN_EPSILON, _ONE),
    "NoiseAmount": _amount("noise", "10", SMALLEST, LARGEST),
    "Sensitivity": _amount("sensitivity", "1", SMALLEST, LARGEST, zero=True),
    "Order": _amount("order", "22", MIN_ORDER, MAX_ORDER),
    "LedgerAmount": text(r"inf|[0-9]+(?:\.[0-9]{1,40})?", "a sum of the ledger"),
    "PartOfAUnit": text(EXCESS_PATTERN, "the part of 1e-40 by which a sum was rounded up"),
}


def _listed(item: str, maximum: int, least: int = 0) -> JsonSchema:
    found: JsonSchema = {"type": "array", "items": reference(item), "maxItems": maximum}
    return found | {"minItems": least} if least else found


def _between(least: int, maximum: int) -> JsonSchema:
    return {"type": "integer", "minimum": least, "maximum": maximum}


_PLAIN: Final[JsonSchema] = {"type": "string", "pattern": _whole(PLAIN_PATTERN)}
_NOTE: Final[JsonSchema] = _PLAIN | {"maxLength": MAX_PURPOSE}
_SUMS: Final[JsonSchema] = {"type": "object", "additionalProperties": reference("LedgerAmount")}
_WORD: Final = text(WORD_PATTERN, "a name, no word of the grammar of questions")
_SIGNED: Final = text(SIGNED_PATTERN, "a decimal, which may be below 0") | {"not": {"const": "-0"}}
_FRACTION: Final = text(r"[0-9]+(?:/[0-9]+)?", "an integer, or a quotient of two")
_COLUMN: Final[JsonSchema] = _PLAIN | {"minLength": 1, "maxLength": MAX_NAME}
_CATEGORY: Final[JsonSchema] = _PLAIN | {"minLength": 1, "maxLength": MAX_CATEGORY}
_DATE: Final = text(DATE_PATTERN, "a date that there is")
_QUESTION: Final[dict[str, JsonSchema]] = {
    "where": _PLAIN | {"maxLength": MAX_TEXT},
    "by": {
        "type": "array",
        "items": {
            "anyOf": [
                _PLAIN,
                *(
                    {"$ref": f"#/components/schemas/{name}"}
                    for name in ("BandFunction", "CalendarFunction")
                ),
            ]
        },
        "maxItems": MAX_GROUPED,
    },
    # What a dataset's schema does not allow is refused by its decision, whatever its letters.
    "column": _PLAIN,
    "clamp": {"items": _PLAIN},
    "width": _PLAIN,
    **{
        argument.name: _PLAIN
        for kind in STATISTICS.values()
        for argument in kind.arguments
        if not argument.is_whole
    },
}
_EXCESS: Final[JsonSchema] = {
    "type": "object",
    "additionalProperties": reference("PartOfAUnit"),
}
_TOTALS: Final[JsonSchema] = {
    "type": "object",
    "additionalProperties": {"anyOf": [reference("LedgerAmount"), {"type": "integer"}]},
}
_RATIO: Final[JsonSchema] = {"type": "number", "minimum": 0, "maximum": 1}
_COUNT: Final[JsonSchema] = {"type": "integer", "minimum": 0}

_UNTIL: Final = f"P(?:(?:{_counted(30)})D|T(?:{_counted(720)})H|T(?:{_counted(43_200)})M)"

# The rules that a field's type names and that are no components of the document.
RULES: Final[dict[str, JsonSchema]] = {
    "Amounts": _SUMS,
    "ApproveWithin": text(
        f"P(?:{_counted(MOST_DAYS_TO_APPROVE)})D", f"days, at most P{MOST_DAYS_TO_APPROVE}D"
    ),
    "ContinuedGrant": text(
        GRANT_PATTERN, "the hash of the decision `reserved` of the session before"
    ),
    "Count": _COUNT,
    "Excess": _EXCESS,
    "Grant": text(GRANT_PATTERN, "the hash of the decision `reserved`"),
    "Note": _NOTE,
    "OpenPerHolder": _between(1, MAX_OPEN),
    "Owners": _listed("Name", MAX_OWNERS_NAMED, 1) | {"uniqueItems": True},
    "PartOfOne": _RATIO,
    "Requests": _between(MIN_N, MAX_N),
    "Roles": {"uniqueItems": True},
    "Thresholds": _listed("Ratio", MAX_ALERTS),
    "Times": _between(1, MAX_TIMES),
    "Weights": {
        "type": "array",
        "items": _between(1, MAX_WEIGHT),
        "minItems": 2,
        "maxItems": MAX_STATISTICS,
    },
    "Totals": _TOTALS,
}
_CROSSED: Final[dict[str, JsonSchema]] = {"crossed": {"items": reference("Ratio")}}
# By component, before the rule of the type: bounds that no other component has.
WITHIN: Final[dict[str, dict[str, JsonSchema]]] = {
    "AllOf": {"claims": {"minItems": 1, "maxItems": MAX_CLAIMS}},
    "Combined": {"odometers": {"minItems": 2, "maxItems": MAX_PARTS}},
    "Policy": {
        "filter": {"enum": list(FILTERS)},
        "beside": {"enum": [BESIDE]},
        "odometers": {"maxItems": MAX_ODOMETERS},
        "orders": _listed("Order", MAX_ORDERS, 1),
        "weights": _listed("Ratio", MAX_ORDERS, 1),
    },
    "UsageView": {
        # One text with two forms: generated clients read the first of several types alone.
        "analyst": text(f"{NAME_PATTERN}|{re.escape(OTHERS)}", "a name, or all others together"),
    },
    "Me": {"kind": {"enum": ["oidc", "token"]}},
    "Amend": {"open_per_holder": _between(0, MAX_OPEN)},
    "Schema": {
        "columns": {"minItems": 1, "maxItems": MAX_COLUMNS},
        "zone": text(ZONE_PATTERN, "a name of the IANA database") | {"maxLength": MAX_NAME},
        "size": _between(1, MAX_SIZE),
    },
    "DataSource": {"name": _WORD},
    "UnitColumn": {"column": _COLUMN, "rows": _between(1, MAX_ROWS)},
    "NumberColumn": {"name": _COLUMN, "places": _between(0, MAX_PLACES)}
    | dict.fromkeys(("lower", "upper", "step", "missing"), _SIGNED),
    "CategoryColumn": {
        "name": _COLUMN,
        "categories": {
            "minItems": 1,
            "maxItems": MAX_CATEGORIES,
            "uniqueItems": True,
            "items": _CATEGORY,
        },
        "missing": _CATEGORY,
    },
    "BooleanColumn": {"name": _COLUMN},
    **dict.fromkeys(
        ("DateColumn", "TimeColumn"),
        {"name": _COLUMN} | dict.fromkeys(("first", "last", "missing"), _DATE),
    ),
    "CalendarFunction": {"column": _PLAIN},
    "BandFunction": {
        "column": _PLAIN,
        "cuts": {"items": _PLAIN, "maxItems": MAX_CUTS},
        "width": _PLAIN,
    },
    **{kind.__name__: _QUESTION for kind in STATISTICS.values()},
    "SeveralQuestion": {name: rule for name, rule in _QUESTION.items() if name in {"where", "by"}}
    | {"statistics": {"minItems": 2, "maxItems": MAX_STATISTICS}},
    # Which unit a dataset has is its policy's: another one is refused, whatever its letters.
    "MechanismRequest": {
        "unit": _PLAIN,
        "other_datasets": _listed("Name", MAX_OTHERS, 1) | {"uniqueItems": True},
    },
    "PreviewRequest": {"unit": _PLAIN, "guess": _between(1, MAX_GUESS)},
    "Reserve": {"until": text(_UNTIL, "at most 30 days")},
    "Remark": {"remark": _NOTE | {"minLength": 1}},
    "RecordRelease": {"evidence": _NOTE | {"minLength": 1}},
    "SpentBefore": {"evidence": _NOTE | {"minLength": 1}},
    "Resolve": {"mistaken": _NOTE | {"minLength": 1}},
    **dict.fromkeys(("LimitUpdate", "ReachedLimit"), _CROSSED),
    "Decision": {"request": {"description": "the input, verbatim; an invalid one with escapes"}},
    "Problem": {"type": {"format": "uri-reference"}, "status": _between(400, 599)},
    "NoisyAnswer": {
        "grant": text(GRANT_PATTERN, "the hash of the decision `granted` or `reserved`"),
    },
    "StatisticNoise": dict.fromkeys(("scale", "variance"), _FRACTION),
    "Overview": {"dataset": reference("DatasetView"), "budget": reference("AnalystBudget")},
    "AlertOrigin": {"number": _COUNT, "branch": _COUNT},
    **OF_WHY,
}


def narrowed(component: str, field: str, schema: JsonSchema, named: str | None) -> JsonSchema:
    """Return a field's schema with its rule; a rule without a type adds to the schema's own.

    Args:
        named: the rule that the field's type names.
    """
    rule = WITHIN.get(component, {}).get(field)
    if rule is None:
        rule = {} if named is None else RULES[named] if named in RULES else reference(named)
    default = {"default": schema["default"]} if "default" in schema else {}
    if NULL in schema.get("anyOf", ()):
        (inner,) = [each for each in schema["anyOf"] if each != NULL]
        return default | {"anyOf": [_ruled(inner, rule), NULL]}
    return _ruled(schema, rule) | default


def _ruled(schema: JsonSchema, rule: JsonSchema) -> JsonSchema:
    whole = {"$ref", "type", "anyOf", "enum"} & set(rule)
    return rule if whole else schema | rule


def never_null(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a field that is left out where it would be null."""
    schema = {key: value for key, value in schema.items() if key != "default"}
    if NULL not in schema.get("anyOf", ()):
        return schema
    inner: JsonSchema = next(each for each in schema["anyOf"] if each != NULL)
    return inner
