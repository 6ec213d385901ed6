"""Owners' forms for many members or limits at once: a line each, all checked before any is sent."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

from accountant.display.numbers import counted
from accountant.display.refusals import refusal_words
from accountant.display.texts import capital
from accountant.errors import RequestInvalid
from accountant.records import Decision
from accountant.records.members import ROLES
from accountant.records.requests import SetLimit, SetMember
from accountant.times import issued_at, uuid7
from accountant.views.confirmations import confirmations_of_people
from streams.http.context import Context
from streams.pages.dataset import form_data
from streams.pages.dataset.form_data import MOST_TEXT, FormData, FormRecord, SentForm
from streams.pages.dataset.lasting_forms import FormSubmission
from streams.pages.dataset.send_record import send_record

MANY: Final = ("lines", "reason", "by", form_data.CONFIRMED)
_MOST_LINES: Final = 200
_MEMBER_FIELDS: Final = ("member", "roles", "team", "until")
_HEADS: Final = (("member", "roles"), ("member", "role"), ("name", "roles"), ("name", "role"))
"""How the header of a table of members begins. That of limits begins with `scope`, no scope."""
_LIMIT_FIELDS: Final = ("scope", "name", "part", "pace_part", "pace_days", "reserved", "until")


class NotAllSent(RequestInvalid):
    """A line was refused, or is not decided; those before it are saved.

    Attributes:
        remaining: that line and those after it.
    """

    remaining = ""


def member_lines(sent: SentForm) -> list[FormRecord]:
    """Return the records of lines `name, role, team, until`; several roles have a + between them.

    Raises: RequestInvalid: a line breaks a rule; the rule names it.
    """
    return _lines(sent, _MEMBER_FIELDS, _member)


def limit_lines(sent: SentForm) -> list[FormRecord]:
    """Return the records of lines `scope, name, % in total, % per period, days, reserved, until`.

    Raises: RequestInvalid: a line breaks a rule; the rule names it.
    """
    return _lines(sent, _LIMIT_FIELDS, _limit)


def _member(sent: SentForm) -> FormRecord:
    typed = {role.strip() for role in sent.form.values["roles"].split("+") if role.strip()}
    if unknown := sorted(typed - set(ROLES)):
        raise RequestInvalid("roles", f"must be of {', '.join(ROLES)}", unknown[0])
    form = sent.form._replace(roles=frozenset(role for role in ROLES if role in typed))
    return form_data.member_record(sent._replace(form=form), removes=False)


def _limit(sent: SentForm) -> FormRecord:
    blank = dict.fromkeys(form_data.LIMIT, "")
    form = sent.form._replace(values={**blank, **sent.form.values})
    return form_data.limit_record(sent._replace(form=form), removes=False)


def _lines(
    sent: SentForm, names: Sequence[str], record_of: Callable[[SentForm], FormRecord]
) -> list[FormRecord]:
    text = sent.form.values["lines"]
    rows = [(number, each.strip()) for number, each in enumerate(text.split("\n"), 1)]
    rows = [(number, each) for number, each in rows if each]
    if rows and _is_header(_cells(rows[0][1].lower())):
        rows = rows[1:]
    if not rows:
        raise RequestInvalid("lines", "must have at least one line", "")
    if len(rows) > _MOST_LINES or len(text) > MOST_TEXT:
        rule = f"must be at most {_MOST_LINES} lines and {MOST_TEXT:,} characters"
        raise RequestInvalid("lines", rule, counted(len(rows), "line"))
    found, first = list[FormRecord](), dict[tuple[str, ...], int]()
    for number, row in rows:
        try:
            values = _values(row, names)
            request_id = _id_of(sent.form.request_id, row)
            form = FormData(request_id, {**values, "reason": sent.form.values["reason"]})
            record = record_of(sent._replace(form=form))
        except RequestInvalid as error:
            where = f" {error.field}" if error.field else ""
            value = f", not {error.value}" if error.value else ""
            raise RequestInvalid(
                "lines", f"line {number}:{where} {error.rule}{value}", ""
            ) from None
        key = _key(record)
        if key in first:
            rule = f"line {number}: is about the same as line {first[key]}"
            raise RequestInvalid("lines", rule, "")
        first[key] = number
        found.append(record._replace(number=number, line=row))
    return found


def _is_header(cells: Sequence[str]) -> bool:
    return cells[0] == _LIMIT_FIELDS[0] or tuple(cells[:2]) in _HEADS


def _values(row: str, names: Sequence[str]) -> Mapping[str, str]:
    cells = _cells(row)
    if len(cells) > len(names):
        rule = f"must be {', '.join(names)}: at most {len(names)} fields"
        raise RequestInvalid("", rule, str(len(cells)))
    return dict.fromkeys(names, "") | dict(zip(names, cells, strict=False))


def _cells(row: str) -> list[str]:
    """Return the fields of a line, as a spreadsheet copies or exports them."""
    delimiter = next((each for each in ("\t", ";") if each in row), ",")
    (cells,) = csv.reader([row], delimiter=delimiter, skipinitialspace=True)
    return [each.strip() for each in cells]


def _id_of(form_id: str, row: str) -> str:
    """Return the id of a line's record: a form that is sent twice makes each once.

    Raises: RequestInvalid: the form's own id is none.
    """
    at = issued_at(form_id)
    if at is None:
        raise RequestInvalid("request_id", "must be that of the form", form_id)
    return uuid7(at, hashlib.sha256(f"{form_id} {row}".encode()).digest()[:10])


def _key(record: FormRecord) -> tuple[str, ...]:
    body = record.checked.body
    if isinstance(body, SetMember):
        return ("member", body.member)
    assert isinstance(body, SetLimit)
    return (body.scope, body.name or "")


async def members_effect(submission: FormSubmission) -> str:
    """Return which members are set, which of them replace an entry, and near names."""
    members = await submission.visibility.service.members(submission.view.dataset)
    return await _effect(submission, {("member", each.member) for each in members})


async def limits_effect(submission: FormSubmission) -> str:
    """Return which limits are set, which of them replace one, and near names."""
    levels = await submission.visibility.service.levels(submission.view.dataset)
    return await _effect(submission, {(each.scope, each.name or "") for each in levels})


async def _effect(submission: FormSubmission, there: Collection[tuple[str, ...]]) -> str:
    lines = submission.records
    replaced = [" ".join(key) for each in lines if (key := _key(each)) in there]
    words = f"{counted(len(lines), 'line')} will be saved."
    if replaced:
        words += f" They replace what is there of: {', '.join(replaced)}."
    return " ".join([words, *[text async for text in _near_names(submission)]])


async def _near_names(submission: FormSubmission) -> AsyncIterator[str]:
    service, dataset = submission.visibility.service, submission.sent.dataset
    members, limits = await service.members(dataset), await service.levels(dataset)
    for each in submission.records:
        body = each.checked.body
        assert isinstance(body, SetMember | SetLimit)
        for asked in confirmations_of_people(body, members, limits):
            yield f"Line {each.number}: {asked.text}"


async def send_lines(context: Context, submission: FormSubmission) -> Decision | None:
    """Send each line's record in order, once none would be refused; return the last decision.

    Raises:
        RequestInvalid: a line would be refused, and none was sent.
        NotAllSent: a line was refused nevertheless, since the dataset changed meanwhile.
        Unavailable.
    """
    records, dataset = submission.records, submission.sent.dataset
    bodies = [(each.body, each.checked) for each in records]
    for each, decision in zip(records, await context.service.dry_run(dataset, bodies), strict=True):
        if why := _not_saved(decision):
            raise RequestInvalid("lines", f"line {each.number}: {why} No line is saved", "")
    last = None
    for index, each in enumerate(records):
        last = await send_record(context.service, each)
        if why := _not_saved(last):
            raise not_all_sent(records, index, why)
    return last


def not_all_sent(records: Sequence[FormRecord], index: int, why: str) -> NotAllSent:
    """Return the error of a line that was refused: which are saved, which are not, what to do."""
    saved = _saved_words(records[:index])
    error = NotAllSent("lines", f"line {records[index].number}: {why} {saved}", "")
    error.remaining = "\n".join(later.line for later in records[index:])
    return error


def _saved_words(before: Sequence[FormRecord]) -> str:
    rest = "This line and those after it are not: correct it, and send the form again"
    if not before:
        return f"No line is saved. {rest}"
    numbers = ", ".join(str(each.number) for each in before)
    lines = "Line" if len(before) == 1 else "Lines"
    are = "is" if len(before) == 1 else "are"
    return f"{lines} {numbers} {are} saved, and no longer in the form. {rest}"


def _not_saved(decision: Decision | None) -> str:
    if decision is None:
        return "it is not decided yet."
    first = decision if decision.first is None else decision.first
    if first.outcome.is_applied:
        return ""
    if first.reason is None:
        return f"{capital(str(first.outcome))}."
    return refusal_words(decision)
