"""What a question writes after `by`: names of columns, and functions of them, `month(visited)`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.errors import RequestInvalid
from accountant.questions.band_groups import BandGroups, multiples_within
from accountant.questions.calendar_groups import PARTS, CalendarGroups, CalendarPart
from accountant.questions.decimals import decimal_text
from accountant.questions.groups import ColumnGroups, GroupSet
from accountant.questions.schema import (
    MAX_CANDIDATES,
    CalendarColumn,
    Column,
    NumberColumn,
    Schema,
    TimeColumn,
    name_text,
    on_grid,
)
from accountant.questions.tokens import Token, TokenReader
from accountant.suggest import did_you_mean

MAX_CUTS: Final = 100


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


class BandFunction(GroupFunction, frozen=True, tag="band"):
    """Bands of a column of numbers: cut at some numbers, or at the multiples of a width.

    Attributes:
        cuts: increasing, each from `lower` to `upper`; those at the ends cut nothing.
        width: in place of cuts.
    """

    cuts: tuple[str, ...] = ()
    width: str | UnsetType = UNSET

    @property
    def text(self) -> str:
        """Such as `band(age, 0, 18, 65)` or `band(age, width 10)`."""
        inner = self.cuts if self.width is UNSET else [f"width {self.width}"]
        return f"band({', '.join([name_text(self.column), *inner])})"

    def groups_of(self, column: Column, *, field: str) -> GroupSet:
        """Return the bands of the declared range."""
        if not isinstance(column, NumberColumn):
            raise _kind_error(column, "number", field=field)
        field = field.removesuffix(".column")
        if (self.width is UNSET) is not bool(self.cuts):
            raise RequestInvalid(field, "must have either cuts or a width", self.text)
        if self.width is not UNSET:
            return bands_of_width(column, self.width, heading=self.text, field=f"{field}.width")
        if len(self.cuts) > MAX_CUTS:
            rule = f"must be at most {MAX_CUTS} numbers"
            raise RequestInvalid(f"{field}.cuts", rule, f"{len(self.cuts)} numbers")
        cuts = [
            on_grid(column, text, field=f"{field}.cuts[{i}]") for i, text in enumerate(self.cuts)
        ]
        lower, upper = column.bounds
        for i, (cut, text) in enumerate(zip(cuts, self.cuts, strict=True)):
            if not (cuts[i - 1] if i else lower - 1) < cut or not lower <= cut <= upper:
                rule = f"must be increasing numbers from {column.lower} to {column.upper}"
                raise RequestInvalid(f"{field}.cuts[{i}]", rule, text)
        return BandGroups(column, self.text, tuple(cut for cut in cuts if lower < cut < upper))


def bands_of_width(column: NumberColumn, width: str, *, heading: str, field: str) -> BandGroups:
    """Return the bands of a column between the multiples of a width.

    Raises: RequestInvalid: the width is not above 0, is not on the column's grid, or too narrow.
    """
    size = on_grid(column, width, field=field)
    if size <= 0:
        raise RequestInvalid(field, "must be greater than 0", width)
    numbers = multiples_within(column, size)
    if len(numbers) >= MAX_CANDIDATES:
        rule = f"must make at most {MAX_CANDIDATES} bands"
        raise RequestInvalid(field, rule, f"{len(numbers) + 1} bands")
    return BandGroups(column, heading, tuple(number * size for number in numbers), size)


GroupText = str | CalendarFunction | BandFunction
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
        hint = f"write band({name}, width 10), or band({name}, 0, 18, 65) with your own numbers"
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
    function: CalendarFunction | BandFunction
    if name.written == "band":
        function = _band_function(reader)
    else:
        function = _calendar_function(reader, name)
    reader.expect(")")
    return function


def _band_function(reader: TokenReader) -> BandFunction:
    column = reader.expect_name("a column").written
    reader.expect(",", hint=lambda: f"write band({name_text(column)}, width 10)")
    width = read_width(reader)
    if width is not None:
        return BandFunction(column=column, width=width)
    cuts = [decimal_text(reader.take_number("a number, or width"))]
    while reader.take_if(","):
        cuts.append(decimal_text(reader.take_number("a number")))
    return BandFunction(column=column, cuts=tuple(cuts))


def read_width(reader: TokenReader) -> str | None:
    """Read the width of bands, None if something else follows."""
    if reader.peek().kind != "word" or reader.peek().written != "width":
        return None
    reader.take()
    return decimal_text(reader.take_number("a number, such as 10"))


def _calendar_function(reader: TokenReader, name: Token) -> CalendarFunction:
    part = next((each for each in PARTS if each == name.written), None)
    if part is None:
        functions = (*PARTS, "band")
        hint = did_you_mean(name.written, functions)
        raise reader.error(f"one of {', '.join(functions)}", name, hint=hint)
    return CalendarFunction(column=reader.expect_name("a column").written, part=part)


def parse_groups(text: str) -> tuple[GroupText, ...]:
    """Return what one text names: groups with commas between, or else one column's name."""
    try:
        reader = TokenReader(text, field="by")
        groups = [read_group(reader)]
        while reader.take_if(","):
            groups.append(read_group(reader))
    except RequestInvalid:
        return (text,)
    is_list = len(groups) > 1 and reader.peek().kind == "end"
    return tuple(groups) if is_list else (parse_group(text),)


def parse_group(text: str) -> GroupText:
    """Return what a program or a form names: a function in its text, or else a column's name."""
    try:
        reader = TokenReader(text, field="by")
        group = read_group(reader)
    except RequestInvalid:
        return text
    is_function = not isinstance(group, str) and reader.peek().kind == "end"
    return group if is_function else text
