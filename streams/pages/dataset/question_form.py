"""The form "Ask a question", made from a dataset's schema: a question, and what it would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from accountant.errors import RequestInvalid
from accountant.questions import Noise, Question, Schema, check_question, noise_text, question_text
from accountant.questions.noise import check_noise_wanted
from accountant.questions.schema import BooleanColumn, CategoryColumn, NumberColumn
from accountant.records import VERSION, encode
from accountant.records.inputs import check_body
from streams.pages.dataset.form_data import FormRecord
from streams.pages.dataset.preview_form import PreviewResult

_LONGEST: Final = 2_000


class Statistic(NamedTuple):
    """A statistic on the form.

    Attributes:
        column: which kind of column it is of, "" for none.
        number: the name of the number that it needs, "" for none. `words`: what it is.
    """

    name: str
    label: str
    column: str = ""
    number: str = ""
    words: str = ""
    example: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its own inputs."""
        column = (f"{self.name}_column",) if self.column else ()
        return (*column, f"{self.name}_{self.number}") if self.number else column


STATISTICS: Final = (
    Statistic("count", "Count of rows"),
    Statistic("sum", "Sum", "number"),
    Statistic("mean", "Mean", "number"),
    Statistic("variance", "Variance", "number"),
    Statistic("quantile", "Quantile", "number", "fraction", "fraction of rows below it", "0.5"),
    Statistic("histogram", "Histogram: rows of each category", "category"),
    Statistic("top", "Most frequent categories", "category", "most", "how many", "3"),
)
NOISES: Final = (
    ("epsilon", "ε that it may cost"),
    ("rho", "ρ that it may cost"),
    ("sigma", "standard deviation of the noise"),
    ("error", "error, 95 % certain"),
)
_BY_NAME: Final = {each.name: each for each in STATISTICS}
_NAMES: Final = (
    *("where", "by", "amount", "asker"),
    *(name for each in STATISTICS for name in each.inputs),
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
    columns: Mapping[str, Sequence[str]]
    groups: Sequence[str]
    result: PreviewResult | None = None
    ask: Ask | None = None
    noises: tuple[tuple[str, str], ...] = NOISES

    @property
    def statistics(self) -> Sequence[Statistic]:
        """Those that the schema has columns for."""
        return [each for each in STATISTICS if not each.column or self.columns[each.column]]


def parse_query(query: Mapping[str, str], schema: Schema) -> QuestionForm:
    """Return the form with the values of a query."""
    statistic, noise = query.get("ask", "count"), query.get("q_noise", "epsilon")
    return QuestionForm(
        statistic=statistic if statistic in _BY_NAME else "count",
        noise=noise if noise in dict(NOISES) else "epsilon",
        values={name: _entered(name, query.get(f"q_{name}", "")[:_LONGEST]) for name in _NAMES},
        errors={},
        columns={
            name: [each.name for each in schema.columns if isinstance(each, kind)]
            for name, kind in (("number", NumberColumn), ("category", CategoryColumn))
        },
        groups=[
            each.name for each in schema.columns if isinstance(each, CategoryColumn | BooleanColumn)
        ],
    )


def _entered(name: str, text: str) -> str:
    """Return the value of an input; a column is chosen, and its name may end in a space."""
    return text if name == "by" or name.endswith("_column") else text.strip()


def question_of(form: QuestionForm, schema: Schema) -> tuple[Question, Noise]:
    """Return the entered question and noise.

    Raises: RequestInvalid: `field` is the input's name.
    """
    chosen, value = _BY_NAME[form.statistic], form.values
    fields: dict[str, Any] = {"ask": chosen.name}
    if chosen.column:
        fields["column"] = value[f"{chosen.name}_column"]
    if chosen.number:
        name = f"{chosen.name}_{chosen.number}"
        if not value[name]:
            raise RequestInvalid(name, "must not be empty", "")
        is_whole = chosen.number == "most"
        fields[chosen.number] = _whole(name, value[name]) if is_whole else value[name]
    if value["where"]:
        fields["where"] = value["where"]
    if value["by"]:
        fields["by"] = [value["by"]]
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
        question = msgspec.json.decode(fields.get("question", "")[:_LONGEST])
        noise = msgspec.json.decode(fields.get("noise", "")[:_LONGEST])
    except msgspec.DecodeError:
        raise RequestInvalid("question", "must be as the page wrote it", "") from None
    head = {"version": VERSION, "type": "request", "request_id": fields.get("request_id", "")}
    head |= {"analyst": analyst, "dataset": dataset}
    body = encode({**head, "question": question, "noise": noise})
    return FormRecord(body, check_body("requests", body))
