"""The owners' forms: their values, the records that they make, and errors by field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

import msgspec

from accountant.display.numbers import percent_digits
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.records import VERSION, encode
from accountant.records.coerce import coerce_until
from accountant.records.inputs import CheckedInput, check_body
from accountant.records.limit_records import MAX_DAYS, days_of
from accountant.records.members import ROLES, Member
from accountant.records.rule_checks import MAX_PURPOSE
from accountant.values_to_write import period_to_write
from accountant.views.asks import AskView
from accountant.views.confirmations import Confirmation
from accountant.views.limit_views import PeriodLimitView, ScopeView

_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,36})?)\s*%?")
_COMMA: Final = re.compile(r"([0-9]{1,3}),([0-9]{1,36})\s*%?")
_WHOLE: Final = Decimal(100)
_LONGEST: Final = 2_000
MOST_TEXT: Final = 20_000
"""Characters of a text of several lines."""
_TEXTS: Final = frozenset({"lines", "schema"})
_EXACT: Final = Context(prec=100)  # more digits than a part may have
_BEYOND: Final = (
    "This limit has a budget with fields that this form does not show. Saving the form replaces "
    "that budget."
)
_BY_COMMAND: Final = (
    "What is asked for has fields that this form does not show: run `accountant more accept {} {}`."
)
CONFIRMED: Final = "confirmed"
"""The hidden input with the name about which the page has asked back."""
_BUDGET: Final = ("filter", "epsilon", "rho", "delta", "delta_for_claims")
"""The fields of a separate budget on the form; filters with more fields need a program."""
_ANSWERS: Final = "answers"
"""The hidden input with the number of the ask for more that a member or a limit accepts."""
MEMBER: Final = ("member", "team", "until", "reason", "by", CONFIRMED, _ANSWERS)
LIMIT: Final = (
    *("scope", "name", "part", "pace_part", "pace_days", "reserved", "until", "reason", "by"),
    *(CONFIRMED, _ANSWERS, *_BUDGET),
)
PAUSE: Final = ("reason", "by")
PERSON: Final = ("member", "team", "reason", "by", CONFIRMED)
VOIDED: Final = "Voided: "
"""Where a remark with the reason of a void begins."""
VOID: Final = ("grant", "reason", "by")
ANSWER: Final = ("pending", "reason", "by")
MORE: Final = ("wants", "role", "part", "amount", "sum", "team", "reason", "by")
TEAM_LIMIT: Final = "team"
"""What the form that asks for more calls a larger limit of the viewer's team."""
ANSWER_TO_ASK: Final = ("ask", "asker", "amount", "sum", "reason", "by", CONFIRMED)


class FormData(NamedTuple):
    """The contents of a form.

    Attributes:
        request_id: the id of its record, so that sending it twice makes one record.
        values: by name of the input. `roles`: the checked ones.
        errors: by name of the input; general ones under "".
        changes: it changes something that exists, and may also remove it.
        is_open: it is shown unfolded, such as a form to be sent again.
    """

    request_id: str
    values: Mapping[str, str]
    roles: frozenset[str] = frozenset()
    errors: Mapping[str, str] = {}
    changes: bool = False
    is_open: bool = False


class SentForm(NamedTuple):
    """A form, and who sends it about which dataset.

    Attributes:
        as_administrator: sent by an administrator, not by an owner.
    """

    form: FormData
    dataset: str
    by: str
    as_administrator: bool = False


class FormRecord(NamedTuple):
    """A record made from a form.

    Attributes:
        number, line: of several, its line's number and text.
    """

    body: bytes
    checked: CheckedInput
    number: int = 1
    line: str = ""


def parse_form(names: Sequence[str], fields: Mapping[str, str]) -> FormData:
    """Return the contents of a submitted form; each role is a separate checkbox.

    Args:
        names: of its inputs. Only these are read.
    """
    # One more than a text may have, so that a longer one is refused and not cut.
    longest = {name: MOST_TEXT + 1 if name in _TEXTS else _LONGEST for name in names}
    values = {name: fields.get(name, "")[: longest[name]].strip() for name in names}
    roles = frozenset(role for role in ROLES if fields.get(f"role_{role}"))
    changes = fields.get("changes") == "yes"
    return FormData(fields.get("request_id", "")[:100], values, roles, {}, changes, is_open=True)


def blank_form(names: Sequence[str], request_id: str, **more: str) -> FormData:
    """Return an empty form with these inputs."""
    return FormData(request_id, dict.fromkeys(names, "") | more)


def member_form(request_id: str, member: Member | None, **more: str) -> FormData:
    """Return the form that changes a member, or an empty form."""
    values = dict.fromkeys(MEMBER, "") | more
    if member is None:
        return FormData(request_id, values, frozenset({"analyst"}))
    values |= {"member": member.member, "team": member.team or ""}
    values["until"] = _day_or_time(member.until)
    return FormData(request_id, values, frozenset(member.roles), {}, changes=bool(member.roles))


def _day_or_time(until: str | None) -> str:
    until = until or ""
    return until[:10] if until.endswith("T00:00:00.000Z") else until


def limit_form(request_id: str, limit: ScopeView | None, **more: str) -> FormData:
    """Return the form that changes a limit, or an empty form."""
    values = dict.fromkeys(LIMIT, "") | more
    if limit is None:
        return FormData(request_id, values)
    values |= {"scope": limit.scope, "name": limit.name or "", "part": _percent(limit.part)}
    values |= _budget(limit.policy)
    values |= pace_values(limit.pace)
    if limit.reserved is not None:
        values["reserved"] = _percent(limit.reserved.part)
    values["until"] = _day_or_time(limit.until)
    errors = {"": _BEYOND} if limit.policy and not limit.policy.keys() <= {*_BUDGET} else {}
    return FormData(request_id, values, errors=errors, changes=True)


def pace_values(pace: PeriodLimitView | None) -> dict[str, str]:
    """Return the values of a period limit on a limit's form, none without one."""
    if pace is None:
        return {}
    return {"pace_part": _percent(pace.part), "pace_days": str(days_of(pace.period))}


def accept_by_member(request_id: str, after: Member, ask: AskView, **more: str) -> FormData:
    """Return the form whose member accepts an ask for access.

    Args:
        after: the membership that gives what is asked for.
    """
    shown = member_form(request_id, after, answers=str(ask.ask), **more)
    return shown._replace(changes=False, is_open=True)


def accept_by_limit(
    request_id: str, limit: ScopeView | None, ask: AskView, own: Mapping[str, Any], **more: str
) -> FormData:
    """Return the form whose limit accepts an ask for a larger one.

    Args:
        limit: the limit in force, whose other fields stay; None for none.
        own: what is asked for as a budget of its own, empty for a part.
    """
    shown = limit_form(request_id, limit, answers=str(ask.ask), **more)
    scope, name = ask.scope
    asked = {"scope": scope, "name": name, "part": _percent(ask.part), **_budget(own)}
    errors = {} if own.keys() <= {*_BUDGET} else {"": _BY_COMMAND.format(ask.dataset, ask.ask)}
    return shown._replace(values={**shown.values, **asked}, errors=errors, is_open=True)


def without_ask(form: FormData) -> FormData:
    """Return a form that accepts no ask any more."""
    return form._replace(values={**form.values, _ANSWERS: ""})


def merge_current(form: FormData, limit: ScopeView) -> FormData:
    """Return a form whose empty fields show the current limit."""
    current, typed_in = limit_form(form.request_id, limit), form.values
    values = dict(current.values)
    if any(
        typed_in[name] for name in ("part", *_BUDGET)
    ):  # a part and a separate budget exclude each other
        values |= dict.fromkeys(("part", *_BUDGET), "")
    values = {name: typed_in[name] or values[name] for name in typed_in}
    return current._replace(values=values, is_open=True)


def confirms(form: FormData, asked: Confirmation) -> bool:
    """Tell whether a form was sent again after this question."""
    return form.values[CONFIRMED] == asked.value


def to_confirm(form: FormData, asked: Confirmation) -> FormData:
    """Return a form that answers a question by being sent again."""
    values = {**form.values, CONFIRMED: asked.value}
    rule = "is less than there is. If that is meant, send the form again."
    if asked.similar:
        rule = f"is nearly {asked.similar}. If {asked.value} is meant, send the form again."
    field = _INPUTS.get(asked.field, asked.field)
    return form._replace(values=values, errors={field: rule}, is_open=True)


def filters() -> tuple[str, ...]:
    """Return the filters for a separate budget on the form: those that need no parameter."""
    return tuple(
        name
        for name, kind in FILTERS.items()
        if all(parameter.is_flag for parameter in kind.parameters.values())
    )


def _budget(policy: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str((policy or {}).get(name, "")) for name in _BUDGET}


def _percent(ratio: str | None) -> str:
    if ratio is None:
        return ""
    # With its sign, so that the form does not ask whether a part is meant.
    sign = " %" if _WHOLE * Decimal(ratio) < 1 else ""
    return f"{percent_digits(ratio)}{sign}"


def member_record(sent: SentForm, *, removes: bool) -> FormRecord:
    """Return the record of a member's form.

    Raises: RequestInvalid: a field breaks a rule.
    """
    form, value = sent.form, sent.form.values
    roles = [role for role in ROLES if role in form.roles]
    if not roles and not removes:
        rule = "must be at least one; to remove a member, choose Change beside the name"
        raise RequestInvalid("roles", rule, "")
    fields: dict[str, Any] = {
        "member": value["member"],
        "roles": [] if removes else roles,
        "team": None if removes else value["team"] or None,
        "until": None if removes or not value["until"] else coerce_until(value["until"]),
    }
    return admin_record("member", sent, fields)


def pause_record(sent: SentForm, *, resumes: bool) -> FormRecord:
    """Return the record of a form that pauses or resumes a dataset.

    Raises: RequestInvalid: a field breaks a rule.
    """
    return admin_record("resume" if resumes else "pause", sent, {})


def person_record(sent: SentForm, *, resumes: bool) -> FormRecord:
    """Return the record of a form that pauses or resumes one person or one team.

    Raises: RequestInvalid: a field breaks a rule.
    """
    fields = {name: sent.form.values[name] or None for name in ("member", "team")}
    return admin_record("resume_member" if resumes else "pause_member", sent, fields)


def void_record(sent: SentForm) -> FormRecord:
    """Return the record of an owner who voids a reservation.

    Raises: RequestInvalid: a field breaks a rule.
    """
    longest = MAX_PURPOSE - len(VOIDED)
    if len(sent.form.values["reason"]) > longest:
        raise RequestInvalid("reason", f"must be at most {longest} characters", "")
    head = {"version": VERSION, "type": "void", "request_id": sent.form.request_id}
    names = {"analyst": sent.by, "dataset": sent.dataset}
    body = encode({**head, **names, "grant": sent.form.values["grant"]})
    return FormRecord(body, check_body("requests", body))


def answer_record(sent: SentForm, *, denies: bool) -> FormRecord:
    """Return the record of an owner who approves or denies a request that waits.

    Raises: RequestInvalid: a field breaks a rule.
    """
    if denies and not sent.form.values["reason"]:
        raise RequestInvalid("reason", "must be set to deny a request: the analyst sees it", "")
    pending = {"pending": sent.form.values["pending"]}
    return admin_record("deny" if denies else "approve", sent, pending)


def ask_record(sent: SentForm) -> FormRecord:
    """Return the record of an ask to a dataset's owners for more.

    What the form holds beside what is asked for is left out: it shows all its inputs at once.

    Raises: RequestInvalid: a field breaks a rule.
    """
    value, wants = sent.form.values, sent.form.values["wants"]
    if not value["reason"]:
        raise RequestInvalid("reason", "must be set: owners need to know why", "")
    is_limit = wants in {"limit", TEAM_LIMIT}
    fields: dict[str, Any] = {"wants": "limit" if is_limit else wants}
    if wants == TEAM_LIMIT:
        fields["team"] = value["team"]
    if wants == "access":
        fields["role"] = value["role"]
    elif is_limit and value["part"]:
        fields["part"] = percent_ratio(value, "part")
    else:
        fields["budget"] = _amount(value)
    return admin_record("more", sent, fields)


def answer_to_ask(sent: SentForm, *, declines: bool) -> FormRecord:
    """Return the record of an owner who declines an ask, or sets the budget that is asked for.

    Raises: RequestInvalid: a field breaks a rule.
    """
    value = sent.form.values
    if declines and not value["reason"]:
        raise RequestInvalid("reason", "must be set to decline: the person sees it", "")
    number = _number_of_ask(value["ask"])
    if not declines:
        return admin_record("budget", sent, {"budget": _amount(value), _ANSWERS: number})
    return admin_record("decline", sent, {"ask": number, "asker": value["asker"]})


def _amount(value: Mapping[str, str]) -> dict[str, str]:
    """Return the budget of a form, in the sum of the dataset."""
    return {"rho" if value["sum"] == "rho" else "epsilon": value["amount"]}


def _number_of_ask(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,14}", text) else None


def limit_record(sent: SentForm, *, removes: bool) -> FormRecord:
    """Return the record of a limit's form.

    Raises: RequestInvalid: a field breaks a rule.
    """
    value = sent.form.values
    fields: dict[str, Any] = {"scope": value["scope"], "name": value["name"] or None}
    if not removes:
        own = {name: value[name] for name in _BUDGET if value[name]}
        if own.keys() == {"filter"}:  # a filter alone is not a budget
            own = {}
        fields |= {
            "part": percent_ratio(value, "part"),
            "policy": own or None,
            "pace": _pace(value),
        }
        fields["reserved"] = percent_ratio(value, "reserved")
        fields["until"] = coerce_until(value["until"]) if value["until"] else None
        if all(fields[name] is None for name in ("part", "policy", "pace", "reserved")):
            rule = (
                "must be set, or a period limit, a reserved share or a separate budget. To remove "
                "a limit, choose Change beside its name"
            )
            raise RequestInvalid("part", rule, "")
    return admin_record("limit", sent, fields)


def admin_record(kind: str, sent: SentForm, fields: Mapping[str, Any]) -> FormRecord:
    """Return the record of a form.

    Raises: RequestInvalid: a field breaks a rule.
    """
    head = {"version": VERSION, "type": kind, "request_id": sent.form.request_id}
    names = {"dataset": sent.dataset, "by": sent.by}
    answers = _number_of_ask(sent.form.values.get(_ANSWERS, ""))
    named = {_ANSWERS: answers, **fields}
    present = {name: value for name, value in named.items() if value is not None}
    role = {"as": "administrator"} if sent.as_administrator else {}
    reason = sent.form.values.get("reason", "")
    body = encode({**head, **names, **present, **role, "reason": reason})
    return FormRecord(body, check_body("admin", body))


def percent_ratio(value: Mapping[str, str], name: str) -> str | None:
    """Return the ratio of an input in percent, None where it is empty.

    Raises: RequestInvalid: it is none, or perhaps a part.
    """
    text = value[name]
    if not text:
        return None
    found = _PERCENT.fullmatch(text)
    percent = Decimal(found[1]) if found else Decimal(0)
    if not 0 < percent <= _WHOLE:
        rule = "must be a percentage above 0 and at most 100, such as 20"
        if comma := _COMMA.fullmatch(text):
            rule = f"must have a point, not a comma: write {comma[1]}.{comma[2]}"
        raise RequestInvalid(name, rule, text)
    if percent < 1 and not text.endswith("%"):
        meant = f"{_EXACT.multiply(percent, _WHOLE).normalize(_EXACT):f}"
        rule = (
            f"is less than one percent: write {meant} for {meant} %, or {text} % with the sign if "
            "that is meant"
        )
        raise RequestInvalid(name, rule, text)
    ratio = _EXACT.divide(percent, _WHOLE)
    return f"{ratio.normalize(_EXACT):f}"


def _pace(value: Mapping[str, str]) -> dict[str, str] | None:
    part, days = percent_ratio(value, "pace_part"), value["pace_days"]
    if part is None and not days:
        return None
    if part is None:
        raise RequestInvalid("pace_part", "must be set together with its days, such as 1", "")
    if not re.fullmatch(r"[1-9][0-9]{0,4}", days) or int(days) > MAX_DAYS:
        rule = f"must be a whole number of days from 1 to {MAX_DAYS:,}"
        if period := period_to_write(days):
            rule = f"{rule}: {period.replace('P', '').removesuffix('D')}"
        raise RequestInvalid("pace_days", rule, days)
    return {"part": part, "period": f"P{days}D"}


_INPUTS: Final = {
    "pace.part": "pace_part",
    "pace.period": "pace_days",
    "policy": "epsilon",
    **dict.fromkeys(("budget", "budget.epsilon", "budget.rho"), "amount"),
}


def with_error(form: FormData, error: RequestInvalid) -> FormData:
    """Return a form with an error beside its field."""
    field = error.field.partition("[")[0]
    name = field.removeprefix("policy.").removeprefix("budget.")
    name = name if name in form.values else _INPUTS.get(field, name)
    name = "claim" if name.startswith("claim.") else name
    known = name in form.values or name == "roles"
    said = error.rule if known or not error.field else f"{error.field} {error.rule}"
    shown = f", not {error.value}" if error.value and known else ""
    shown += f": {error.hint}" if error.hint and not error.hint.endswith("?") else ""
    return form._replace(errors={name if known else "": f"{said[0].upper()}{said[1:]}{shown}."})


def refill(kind: str, request: bytes | msgspec.Raw, new_id: str) -> FormData | None:
    """Return the form that made a record, to be sent again under a new id.

    None for another kind of record.
    """
    record = check_body("admin", bytes(request)).body
    fields = msgspec.to_builtins(record)
    if fields.get("type") != kind:
        return None
    if kind == "member":
        member = msgspec.convert(fields, Member)
        more = {"reason": fields.get("reason", ""), _ANSWERS: str(fields.get(_ANSWERS) or "")}
        again = member_form(new_id, member, **more)
        return again._replace(changes=True, is_open=True)
    shown = {name: fields.get(name) for name in ("scope", "name", "part", "policy")}
    pace, reserved = fields.get("pace"), fields.get("reserved")
    values = dict.fromkeys(LIMIT, "")
    values |= {name: str(shown[name] or "") for name in ("scope", "name")}
    values |= {"part": _percent(shown["part"]), "reserved": _percent(reserved)}
    values |= _budget(shown["policy"])
    if pace is not None:
        values |= {"pace_part": _percent(pace["part"]), "pace_days": str(days_of(pace["period"]))}
    values["until"] = _day_or_time(fields.get("until"))
    values |= {"reason": fields.get("reason", ""), _ANSWERS: str(fields.get(_ANSWERS) or "")}
    return FormData(new_id, values, is_open=True)
