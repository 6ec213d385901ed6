"""What a question writes after `by`: names of columns, and functions of them, `month(visited)`."""

from __future__ import annotations

from abc import abstractmethod

import msgspec

from accountant.errors import RequestInvalid
from accountant.questions.calendar_groups import PARTS, CalendarGroups, CalendarPart
from accountant.questions.groups import ColumnGroups, GroupSet
from accountant.questions.schema import (
    CalendarColumn,
    Column,
    NumberColumn,
    Schema,
    TimeColumn,
    name_text,
)
from accountant.questions.tokens import Token, TokenReader
from accountant.suggest import did_you_mean


class GroupFunction(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="group",
):
    """Base of functions of a column, whose values set answers apart."""

    column: str

    @property
    @abstractmethod
    def text(self) -> str:
        """Its text in a question."""

    @abstractmethod
    def groups_of(self, column: Column, *, field: str) -> GroupSet:
        """Return the groups. Raises: RequestInvalid: the column has none of these."""


class CalendarFunction(GroupFunction, frozen=True, tag="calendar"):
    """The years, months or other parts of a column of dates or times."""

    part: CalendarPart

    @property
    def text(self) -> str:
        """Such as `month(visited)`."""
        return f"{self.part}({name_text(self.column)})"

    def groups_of(self, column: Column, *, field: str) -> GroupSet:
        """Return the parts of the declared range."""
        if self.part == "hour" and not isinstance(column, TimeColumn):
            raise _kind_error(column, "time", field=field)
        if not isinstance(column, CalendarColumn):
            raise _kind_error(column, "date or time", field=field)
        return CalendarGroups(column, self.part)


GroupText = str | CalendarFunction
"""A column's name, or a function of one."""


def group_text(group: GroupText) -> str:
    """Return the text of what follows `by`."""
    return name_text(group) if isinstance(group, str) else group.text


def groups_of(group: GroupText, schema: Schema, *, field: str) -> GroupSet:
    """Return the groups that a question names, and that the schema declares.

    Raises: RequestInvalid: naming field, rule and value.
    """
    if not isinstance(group, str):
        column = schema.find(group.column, field=f"{field}.column")
        return group.groups_of(column, field=f"{field}.column")
    column = schema.find(group, field=field)
    if isinstance(column, NumberColumn | CalendarColumn):
        raise _kind_error(column, "category or boolean", field=field)
    return ColumnGroups(column)


def _kind_error(column: Column, kind: str, *, field: str) -> RequestInvalid:
    named = f"{column.name}, a {column.__struct_config__.tag} column"
    name = name_text(column.name)
    hint = ""
    if isinstance(column, NumberColumn):
        hint = f"ask each range by itself, as in where {name} >= 0 and {name} < 10"
    elif isinstance(column, CalendarColumn):
        hint = f"write month({name}), or another of {', '.join(PARTS)}"
    return RequestInvalid(field, f"must be a {kind} column", named, hint=lambda: hint)


def read_group(reader: TokenReader) -> GroupText:
    """Read a column's name, or a function of one.

    Raises: RequestInvalid: naming the character and what is expected there.
    """
    name = reader.expect_name("a column")
    if name.kind != "word" or not reader.take_if("("):
        return name.written
    function = _calendar_function(reader, name)
    reader.expect(")")
    return function


def _calendar_function(reader: TokenReader, name: Token) -> CalendarFunction:
    part = next((each for each in PARTS if each == name.written), None)
    if part is None:
        hint = did_you_mean(name.written, PARTS)
        raise reader.error(f"one of {', '.join(PARTS)}", name, hint=hint)
    return CalendarFunction(column=reader.expect_name("a column").written, part=part)


def parse_group(text: str) -> GroupText:
    """Return what a program or a form names: a function in its text, or else a column's name."""
    try:
        reader = TokenReader(text, field="by")
        group = read_group(reader)
    except RequestInvalid:
        return text
    is_function = not isinstance(group, str) and reader.peek().kind == "end"
    return group if is_function else text
