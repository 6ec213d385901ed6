"""Hooks for schemathesis: what it needs besides the document.

Formats: a decimal is text, whose bounds JSON Schema cannot state; the document has them beside
each format (`x-minimum` and its kin), and values are made from there.

One hook, of requests that ought to be accepted, sees to
1. the time in an id (`issued_now`);
2. the caller and the dataset (`in_name_of`), with authentication;
3. a request that there is (`about_a_known_request`), since nobody can guess an id;
4. rules between fields (`mended`), each in a function of its own. A rule that is not here is
   found as a failure, since the server refuses what the document allows;
5. whole numbers: for JSON Schema 3.0 is an integer, the server takes 3 alone (`whole`).
"""

from __future__ import annotations

import hashlib
import json
import os
from decimal import Decimal
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.hooks import HookContext

from accountant.filters import FILTERS
from accountant.questions.laws import ACCURACY_FIRST, FORMS
from accountant.times import uuid7

Fields = dict[str, Any]

BOUNDED = json.loads(os.environ["CONTRACT_AMOUNTS"])
"""The schemas of the document that have bounds beside them."""
ISSUED = int(os.environ["CONTRACT_ISSUED"])
"""The ledger's time, milliseconds since 1970."""
WHO = os.environ.get("CONTRACT_WHO")
"""The caller's name in bodies, with authentication."""
IS_ENGINE = "CONTRACT_ENGINE" in os.environ
"""Whether requests are for an analyst."""
DATASETS = os.environ.get("CONTRACT_DATASETS", "").split()
"""What bodies are about, where the server tells what is whose."""
KNOWN = json.loads(os.environ.get("CONTRACT_KNOWN", "{}"))
"""Operations about one request, each with the parameters of a request that there is."""

_IN_A_POLICY = (
    "alert_at",
    "horizon",
    "most_per_request",
    "access",
    "visibility",
    "open_per_holder",
    "approve_above",
    "approve_within",
)
"""The fields of an amendment that are left out where it gives a whole policy."""
SCHEMA: Fields = {
    "source": {"kind": "csv", "name": "people"},
    "columns": [{"type": "number", "name": "age", "lower": "0", "upper": "120"}],
}
_SCOPES = {
    "name": ("team", "analyst", "each"),
    "part": ("team", "analyst", "each"),
    "policy": ("team", "analyst", "each"),
    "reserved": ("team", "analyst"),
}
"""Which scopes of a limit have a field."""


def decimals(schema: Fields) -> st.SearchStrategy[str]:
    """Return texts of the amounts that a schema allows, its bounds among them."""
    least = Decimal(schema["x-minimum"])
    most = Decimal(schema.get("x-maximum", schema.get("x-exclusive-maximum")))
    fixed = [least] + ([most] if "x-maximum" in schema else []) + [Decimal(0)] * schema["x-zero"]
    digits, lowest, highest = st.integers(1, 99), least.adjusted() + 1, most.adjusted() - 1
    if lowest <= highest:
        exponents = st.integers(lowest, highest)
        between = st.builds(lambda d, e: Decimal(d).scaleb(e - 1), digits, exponents)
    else:  # all between the bounds have the same number of digits
        between = digits.map(lambda d: least + (most - least) * d / 100)
    return (st.sampled_from(fixed) | between).flatmap(lambda value: st.sampled_from(_forms(value)))


def _forms(value: Decimal) -> list[str]:
    """Return the ways to write a decimal."""
    sign, digits, exponent = value.as_tuple()
    assert not sign
    assert isinstance(exponent, int)
    plain = f"{value:f}"
    number = "".join(map(str, digits))
    forms = [f"{number}e{exponent}"] if abs(exponent) < 100 and len(number) < 10 else []
    whole, _, fraction = plain.partition(".")
    if len(whole) < 10 and len(fraction) <= 40:
        forms += [plain, f"{plain}e0", f"{plain}e-00"]
    return forms


for _schema in BOUNDED:
    schemathesis.openapi.format(_schema["format"], decimals(_schema))


def issued_now(body: Fields) -> None:
    """Give a body an id of the ledger's time and of its own, lest all others are conflicts."""
    body["request_id"] = uuid7(ISSUED, hashlib.sha256(json.dumps(body).encode()).digest()[:10])


def mend_claim(claim: Fields, *, levels: int = 3) -> None:
    """Mend a claim and those within it, three levels of batches at most."""
    noise_near_sensitivity(claim)
    levels_of_a_session(claim)
    if claim["type"] == "interactive":
        claim["claim"] = {"type": "pure", "epsilon": "0.1"}
    if "times" in claim:
        claim["times"] = min(claim["times"], 30)  # those of all levels are multiplied
    if levels == 0 and claim["type"] in {"repeat", "all_of"}:
        claim.clear()
        claim.update(type="pure", epsilon="0.1")
    for part in [*claim.get("claims", []), *([claim["claim"]] if "claim" in claim else [])]:
        mend_claim(part, levels=levels - 1)


def noise_near_sensitivity(claim: Fields) -> None:
    """Keep the cost of noise, a ratio of fields, within the bounds of epsilon and rho."""
    for noise in {"scale", "sigma", "variance"} & set(claim):
        claim[noise] = "0.5"
        claim["sensitivity"] = "0.25" if Decimal(claim["sensitivity"]) else "0"
    if "previous" in claim:
        claim["previous"] = "0.75"  # above the variance after it
        claim.setdefault("continues", "sha256:" + "0" * 64)  # a reservation must have it
    else:
        claim.pop("continues", None)


def levels_of_a_session(claim: Fields) -> None:
    """Give a session all its levels, and the maximum that they come to."""
    if claim["type"] == "brownian" and "first" in claim:
        claim["first"] = "0.6"  # from the variance up to the one before
    elif claim["type"] == "ex_post" and {"sensitivity", "first", "least"} & set(claim):
        claim |= {"epsilon": "0.5", "sensitivity": "0.25", "first": "1", "least": "0.5"}
        claim.pop("delta", None)


def increasing(texts: list[str]) -> list[str]:
    """Return amounts in order, each once."""
    values = {Decimal(text): text for text in texts}
    return [values[value] for value in sorted(values)]


def alerts_increase(fields: Fields) -> None:
    if fields.get("alert_at"):
        fields["alert_at"] = increasing(fields["alert_at"])


def fields_of_the_filter(policy: Fields) -> None:
    """Keep the one budget and the parameters that the filter reads, and give what it needs."""
    kind = FILTERS[policy.setdefault("filter", "zcdp_tight")]
    given = [name for name in kind.budget_fields if policy.get(name) is not None]
    keep = given[0] if given else kind.budget_fields[0]
    for name in {"epsilon", "rho"} - {keep}:
        policy.pop(name, None)
    policy.setdefault(keep, "1")
    if policy[keep] is None:
        policy[keep] = "1"
    for other in FILTERS.values():
        for name in set(other.parameters) - set(kind.parameters):
            policy.pop(name, None)
    for name, parameter in kind.parameters.items():
        policy.setdefault(name, parameter.example)
    if keep == "rho" or not kind.takes_beside:
        policy.pop("beside", None)


def amounts_of_the_filter(policy: Fields) -> None:
    """Give the filter a budget, a delta, a cap and orders that go together."""
    policy["epsilon" if policy.get("epsilon") else "rho"] = "1"
    policy["delta"] = "1e-6"
    policy.pop("delta_for_claims", None)
    for part in ("most_per_request", "approve_above"):
        if policy.get(part) is not None:
            policy[part] = "0.1"  # times the budget it is an amount above 0
    if policy.get("approve_above") is None:
        policy.pop("approve_within", None)
    if "delta_ex_post" in policy:
        policy["delta_ex_post"] = "1e-7"
    if "epsilon_each" in policy:
        policy["epsilon_each"] = "0.01"  # some fit the budget, and fewer than ten million
    if "orders" in policy:
        policy["orders"] = ["22", "40"]
        if "weights" in policy:
            policy["weights"] = ["0.5", "0.5"]
    if "order" in policy:
        policy["order"] = "22"


def odometers_differ(policy: Fields) -> None:
    """Name each type of odometer once, with a delta below 1/e as those of 2016 need.

    Those of one combination share less than all of delta.
    """
    if policy.get("odometers") is None:
        return
    policy["odometers"] = list({each["type"]: each for each in policy["odometers"]}.values())
    for odometer in policy["odometers"]:
        for each in [odometer, *odometer.get("odometers", [])]:
            if "delta" in each:
                each["delta"] = "1e-7"


def fields_of_a_member(body: Fields) -> None:
    """Keep to a removal what a removal has, and an owner's membership without an end."""
    for field in ("team", "until"):
        if not body["roles"] or (field == "until" and "owner" in body["roles"]):
            body.pop(field, None)
    if body.get("until") is not None:
        body["until"] = "2027-01-01T00:00:00.000Z"  # a pattern knows no calendar
    if "lead" in body["roles"]:
        body["team"] = body.get("team") or "blue"


def fields_of_an_ask(body: Fields) -> None:
    """Give an ask, or its decline, a reason, and an ask what it wants and nothing else."""
    body["reason"] = body.get("reason") or "a second report"
    if body["type"] == "decline":
        return
    for field in ("role", "part", "budget", "team"):
        body.pop(field, None)
    asked = {"access": {"role": "auditor"}, "limit": {"part": "0.2"}}
    body |= asked.get(body["wants"], {"budget": {"epsilon": "0.1"}})


def person_or_team(body: Fields) -> None:
    """Name one person, or one team instead, and say why they are paused."""
    if body.get("member") is not None:
        body.pop("team", None)
    elif body.get("team") is None:
        body["member"] = "ana"
    if body["type"] == "pause_member":
        body["reason"] = body.get("reason") or "a loop"


def fields_of_a_limit(body: Fields) -> None:
    """Name the limit's subject, and keep one separate budget that the scope allows."""
    scope = body["scope"]
    if body.get("until") is not None:
        body["until"] = "2027-01-01T00:00:00.000Z"  # a pattern knows no calendar
    for field, scopes in _SCOPES.items():
        if scope not in scopes:
            body.pop(field, None)
    if scope != "dataset" and body.get("name") is None:
        body["name"] = "ana"
    if body.get("part") is not None:
        body.pop("policy", None)
    if not any(body.get(field) for field in ("part", "policy", "pace", "reserved")):
        # Most that are drawn say nothing, and would remove limits that there are not.
        drawn = hashlib.sha256(json.dumps(body).encode()).digest()[0]
        said: list[Fields] = [{}, {"pace": {"part": "0.5", "period": "P30D"}}]
        said += [] if scope == "dataset" else [{"part": "0.5"}, {"policy": {"filter": "basic"}}]
        said += [{"reserved": "0.001"}] if scope in _SCOPES["reserved"] else []
        body |= said[drawn % len(said)]
        if "part" in body and body["part"] is not None:
            body.pop("policy", None)  # one that says nothing is a budget, too


def fields_of_a_question(body: Fields) -> None:
    """Make a session of a question that has all that sessions need; of another one, none of it."""
    is_preview = "request_id" not in body
    is_session = "reserve" in body and (is_preview or "stop" in body)
    if not is_session:
        body.pop("reserve", None)
        body.pop("stop", None)
    body["noise"] = noise_of_one_form(body["noise"], is_session=is_session)
    stop = body.get("stop")
    if stop is not None and ("error" in stop) is ("relative_error" in stop):
        stop.pop("error", None)
        stop.setdefault("relative_error", "0.1")


def noise_of_one_form(noise: Fields, *, is_session: bool) -> Fields:
    """Return noise of the first form that is given, with a law of this form."""
    form = next((form for form in FORMS if form in noise), "epsilon")
    laws = [law for law in FORMS[form] if (law in ACCURACY_FIRST) is is_session]
    mended = {form: noise.get(form, "0.5")}
    if form == "error":
        mended["confidence"] = noise.get("confidence", "0.95")
    if is_session or "law" in noise:
        mended["law"] = noise["law"] if noise.get("law") in laws else laws[0]
    if is_session and "first" in noise:
        mended["first"] = noise["first"]
    return mended


def whole(value: Any) -> Any:
    """Return a copy of JSON with its whole numbers written without a point."""
    if isinstance(value, dict):
        return {name: whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def lifetime_of_the_policy(body: Fields) -> None:
    """Make a lifetime the largest of its kind, or drop it where generations cannot be added."""
    policy = body["policy"]
    if policy.get("rho") is None:
        body["lifetime"] = {"epsilon": "1000", "delta": "0.9999999999"}
    elif policy.get("filter") == "zcdp":
        body["lifetime"] = {"rho": "1000000", "delta": "0.9999999999"}
    else:
        del body["lifetime"]


def name_of_the_next_generation(body: Fields) -> None:
    """Give the next generation another name than the dataset's."""
    if body.get("type") == "renew" and "dataset" in body and body["renewed_as"] == body["dataset"]:
        body["renewed_as"] = body["dataset"][:90] + ".2"


def release_made_elsewhere(body: Fields) -> None:
    """Give a release a time that there is; before an opening, one that fits each budget."""
    if body.get("type") == "record":
        body["released_at"] = "2026-01-01T00:00:00.000Z"  # a pattern knows no calendar
    if body.get("spent") is not None:
        body["spent"]["claim"] = {"type": "pure", "epsilon": "0.001"}
        if body["policy"].get("population") is not None:
            del body["spent"]


def mended(given: Fields) -> Fields:
    """Return a body that obeys the rules between its fields."""
    body: Fields = whole(given)
    if "request_id" in body:
        issued_now(body)
    alerts_increase(body)
    if body.get("other_datasets") is not None:
        others = [name for name in body["other_datasets"] if name != body["dataset"]]
        body["other_datasets"] = list(dict.fromkeys(others))
        if not others:
            del body["other_datasets"]
    if body.get("claim") is not None:
        mend_claim(body["claim"])
    if "noise" in body:
        fields_of_a_question(body)
    if body.get("schema") is not None:
        body["schema"] = SCHEMA | {"neighbours": body["policy"].get("neighbours", "add_remove")}
    if body.get("type") == "amend" and body.get("policy") is not None:
        for name in _IN_A_POLICY:
            body.pop(name, None)
    if body.get("type") == "amend" and body.get("approve_above") is None:
        body.pop("approve_within", None)
    if body.get("type") == "member":
        fields_of_a_member(body)
    if body.get("type") in ("more", "decline"):
        fields_of_an_ask(body)
    if body.get("type") in ("pause_member", "resume_member"):
        person_or_team(body)
    if body.get("type") == "limit":
        fields_of_a_limit(body)
    if body.get("policy") is not None:
        for mend in (
            fields_of_the_filter,
            amounts_of_the_filter,
            odometers_differ,
            alerts_increase,
        ):
            mend(body["policy"])
    if body.get("type") in ("open", "renew") and body.get("budget") is not None:
        # All of the ceiling: how much of it a filter can use is a rule of that filter.
        amounts = {name: body["policy"].get(name) for name in ("epsilon", "rho")}
        body["budget"] = {name: amount for name, amount in amounts.items() if amount is not None}
    if body.get("lifetime") is not None:
        lifetime_of_the_policy(body)
    release_made_elsewhere(body)
    return body


def in_name_of(who: str, body: Fields) -> None:
    """Have a body say of itself whose it is, and be about a dataset that there is."""
    for field in {"analyst", "by"} & set(body):
        body[field] = who
    if body.get("type") in {"request", "begin", "settle", "void"}:
        body.pop("via", None)
        if IS_ENGINE:
            body |= {"via": who, "analyst": "ana"}
    if "dataset" in body and body.get("type") != "open":
        drawn = hashlib.sha256(json.dumps(body).encode()).digest()[0]
        body["dataset"] = DATASETS[drawn % len(DATASETS)]
    if body.get("other_datasets") is not None:
        others = [name for name in DATASETS if name != body["dataset"]]
        body["other_datasets"] = others[: len(body["other_datasets"])]
        if not others:
            del body["other_datasets"]
    if "request_id" in body:
        issued_now(body)


def about_a_known_request(case: schemathesis.Case) -> None:
    """Have most calls about one request be about a request that there is."""
    known: Fields = KNOWN.get(case.operation.label, {})
    asked = repr((case.path_parameters, sorted(case.query.items())))
    if known and hashlib.sha256(asked.encode()).digest()[0] % 4:
        case.path_parameters |= known["path"]
        case.query |= known["query"]


def period_of_a_report(case: schemathesis.Case) -> None:
    """Leave out days beside a month, and have the first day come first."""
    query = case.query or {}
    if query.get("month"):
        for name in {"from", "to"} & query.keys():
            del query[name]
    elif query.get("from") and query.get("to"):
        query["from"], query["to"] = sorted((query["from"], query["to"]))


@schemathesis.serializer("application/x-ndjson")
def ndjson_body(_context: object, value: object) -> bytes:
    """A batch is text to the document: one request a line.

    Every text of at least one line is answered, so a value of another type becomes no line at all.
    """
    return value.encode() if isinstance(value, str) else b""


@schemathesis.deserializer("application/x-ndjson")
def ndjson_text(_context: object, response: schemathesis.Response) -> str:
    return response.content.decode()


@schemathesis.hook
def before_call(_context: HookContext, case: schemathesis.Case, _kwargs: Fields) -> None:
    """Mend what ought to be accepted; what ought to be refused stays as it is."""
    if case.meta is None:
        return
    if all(each.mode is GenerationMode.POSITIVE for each in case.meta.components.values()):
        # A value of the document may have replaced the one that broke a rule.
        case.meta.generation.mode = GenerationMode.POSITIVE
    if case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    about_a_known_request(case)
    period_of_a_report(case)
    if isinstance(case.body, dict):
        case.body = mended(case.body)
        if WHO is not None:
            in_name_of(WHO, case.body)
        name_of_the_next_generation(case.body)
        if "dataset" in case.path_parameters and "dataset" in case.body:
            case.path_parameters["dataset"] = case.body["dataset"]
