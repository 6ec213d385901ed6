"""The form "Ask a question", made from a dataset's schema: a question, and what it would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from accountant.errors import RequestInvalid
from accountant.questions import Noise, Question, Schema, check_question, noise_text, question_text
from accountant.questions.calendar_groups import PARTS
from accountant.questions.group_functions import CalendarFunction, GroupText
from accountant.questions.noise_wanted import check_noise_wanted
from accountant.questions.schema import (
    BooleanColumn,
    CalendarColumn,
    CategoryColumn,
    Column,
    NumberColumn,
    TimeColumn,
)
from accountant.questions.statistics import STATISTICS, StatisticQuestion
from accountant.records import VERSION, encode
from accountant.records.inputs import check_body
from accountant.strict_json import read_json
from streams.pages.dataset.form_data import FormRecord
from streams.pages.dataset.preview_form import PreviewResult

_LONGEST: Final = 2_000


NOISES: Final = (
    ("epsilon", "ε that it may cost"),
    ("rho", "ρ that it may cost"),
    ("sigma", "standard deviation of the noise"),
    ("error", "error, 95 % certain"),
)


def _inputs(name: str, statistic: type[StatisticQuestion]) -> list[str]:
    """Return the names of a statistic's own inputs."""
    fields = [] if statistic.column_kind is None else ["column"]
    return [f"{name}_{each}" for each in (*fields, *(each.name for each in statistic.arguments))]


_NAMES: Final = (
    *("where", "by", "amount", "asker"),
    *(name for each in STATISTICS.items() for name in _inputs(*each)),
)


class Ask(NamedTuple):
    """A previewed question, which one more button asks.

    Attributes:
        request_id: of the request.
        question, noise: as JSON. `analyst`: the asker, "" for the viewer.
    """

    request_id: str
    question: str
    noise: str
    analyst: str


class QuestionForm(NamedTuple):
    """The form with its values.

    Attributes:
        statistic: the chosen one. `noise`: the chosen form of noise.
        values, errors: by name of the input, each of which has the prefix `q_` in the query.
        columns: names of the schema's columns, by kind. `groups`: of those that set values apart.
        result: of a preview. `ask`: the same question, to be asked.
    """

    statistic: str
    noise: str
    values: Mapping[str, str]
    errors: Mapping[str, str]
    columns: Mapping[type[Column], Sequence[str]]
    groups: Sequence[str]
    result: PreviewResult | None = None
    ask: Ask | None = None
    noises: tuple[tuple[str, str], ...] = NOISES

    @property
    def statistics(self) -> Sequence[tuple[str, type[StatisticQuestion]]]:
        """Those that the schema has columns for, each with its name."""
        return [
            (name, each)
            for name, each in STATISTICS.items()
            if each.column_kind is None or self.columns[each.column_kind]
        ]


def parse_query(query: Mapping[str, str], schema: Schema) -> QuestionForm:
    """Return the form with the values of a query."""
    statistic, noise = query.get("ask", "count"), query.get("q_noise", "epsilon")
    return QuestionForm(
        statistic=statistic if statistic in STATISTICS else "count",
        noise=noise if noise in dict(NOISES) else "epsilon",
        values={name: _entered(name, query.get(f"q_{name}", "")[:_LONGEST]) for name in _NAMES},
        errors={},
        columns={
            kind: [each.name for each in schema.columns if isinstance(each, kind)]
            for kind in (NumberColumn, CategoryColumn)
        },
        groups=[*_group_choices(schema)],
    )


def _group_choices(schema: Schema) -> Mapping[str, GroupText]:
    """Return what sets values apart, by what the form shows: columns, and parts of dates."""
    columns = {
        each.name: each.name
        for each in schema.columns
        if isinstance(each, CategoryColumn | BooleanColumn)
    }
    dates = [each for each in schema.columns if isinstance(each, CalendarColumn)]
    functions = [
        CalendarFunction(column=each.name, part=part)
        for each in dates
        for part in PARTS
        if part != "hour" or isinstance(each, TimeColumn)
    ]
    return {**{each.text: each for each in functions}, **columns}


def _entered(name: str, text: str) -> str:
    """Return the value of an input; a column is chosen, and its name may end in a space."""
    return text if name == "by" or name.endswith("_column") else text.strip()


def question_of(form: QuestionForm, schema: Schema) -> tuple[Question, Noise]:
    """Return the entered question and noise.

    Raises: RequestInvalid: `field` is the input's name.
    """
    chosen, value = STATISTICS[form.statistic], form.values
    fields: dict[str, Any] = {"ask": form.statistic}
    if chosen.column_kind is not None:
        fields["column"] = value[f"{form.statistic}_column"]
    for argument in chosen.arguments:
        name = f"{form.statistic}_{argument.name}"
        if not value[name]:
            raise RequestInvalid(name, "must not be empty", "")
        fields[argument.name] = _whole(name, value[name]) if argument.is_whole else value[name]
    if value["where"]:
        fields["where"] = value["where"]
    if value["by"]:
        chosen_group = _group_choices(schema).get(value["by"], value["by"])
        fields["by"] = [msgspec.to_builtins(chosen_group)]
    if not value["amount"]:
        raise RequestInvalid("amount", "must not be empty", "")
    try:
        question = msgspec.convert(fields, Question)
        checked = check_question(question, schema)
        noise = check_noise_wanted(msgspec.convert({form.noise: value["amount"]}, Noise))
    except msgspec.ValidationError as error:
        raise RequestInvalid("", f"cannot be asked: {error}", "") from None
    except RequestInvalid as error:
        raise RequestInvalid(_input_of(form, error.field), error.rule, error.value) from None
    return checked.question, noise


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise RequestInvalid(name, "must be a whole number such as 3", text)
    return int(text)


def _input_of(form: QuestionForm, field: str) -> str:
    """Return the input for a field of a question or of noise."""
    if field.startswith("noise"):
        return "amount"
    last = field.removeprefix("question.").partition(".")[0].partition("[")[0]
    own = f"{form.statistic}_{last}"
    return own if own in form.values else last if last in form.values else ""


def question_line(question: Question, noise: Noise) -> str:
    """Return a question and its noise as text."""
    return f"{question_text(question)} ({noise_text(noise)})"


def ask_of(question: Question, noise: Noise, request_id: str, analyst: str) -> Ask:
    """Return the hidden fields of the form that asks a question."""
    return Ask(request_id, encode(question).decode(), encode(noise).decode(), analyst)


def question_record(fields: Mapping[str, str], dataset: str, analyst: str) -> FormRecord:
    """Return the request of a form that asks.

    Raises: RequestInvalid, Undecodable: a field breaks a rule, or is not what the page wrote.
    """
    try:
        question = read_json(fields.get("question", "")[:_LONGEST])
        noise = read_json(fields.get("noise", "")[:_LONGEST])
    except msgspec.DecodeError:
        raise RequestInvalid("question", "must be as the page wrote it", "") from None
    head = {"version": VERSION, "type": "request", "request_id": fields.get("request_id", "")}
    head |= {"analyst": analyst, "dataset": dataset}
    body = encode({**head, "question": question, "noise": noise})
    return FormRecord(body, check_body("requests", body))
