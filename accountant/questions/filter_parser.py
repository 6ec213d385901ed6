"""From the text of a filter to an expression whose names and types the schema knows.

expression = conjunction { "or" conjunction }
conjunction = negation { "and" negation }
negation = "not" negation | "(" expression ")" | test
test = column sign literal
     | column [ "not" ] "in" "(" literal { "," literal } ")"
     | column [ "not" ] "between" literal "and" literal
     | column "is" [ "not" ] "missing"
sign = "=" | "!=" | "<" | "<=" | ">" | ">="
column = word | name in double quotes
literal = number | text | "true" | "false"; dates are texts such as '2026-03-01'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from msgspec import UNSET

from accountant.errors import RequestInvalid
from accountant.questions.filter_expression import (
    SIGNS,
    Conjunction,
    Disjunction,
    FilterExpression,
    ListTest,
    MissingTest,
    Negation,
    ValueTest,
)
from accountant.questions.schema import (
    DATE_PATTERN,
    BooleanColumn,
    CalendarColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    Schema,
    TimeColumn,
    column_hint,
    is_word,
    name_text,
    parse_date,
)
from accountant.questions.schema_values import SchemaValue
from accountant.questions.tokens import Token, TokenReader
from accountant.suggest import did_you_mean

MAX_DEPTH: Final = 16
MAX_TESTS: Final = 100
MAX_LISTED: Final = 100

_BEGINNING: Final = "a column, not or ("
_TESTS: Final = f"one of {' '.join(SIGNS)}, in, not in, between or is"


def parse_filter(text: str, schema: Schema, *, field: str) -> FilterExpression:
    """Return the expression of a whole text.

    Raises: RequestInvalid: naming the character and what is expected there.
    """
    reader = TokenReader(text, field=field)
    expression = FilterParser(reader, schema).parse()
    if reader.peek().kind != "end":
        raise reader.error("and, or, or the end")
    return expression


def _has_form_of_date(token: Token) -> bool:
    """Tell whether a quoted text has the form of a date, whether there is such a day or not."""
    return token.kind == "text" and re.fullmatch(DATE_PATTERN, token.written) is not None


def _column_first() -> str:
    return "write the column first, as in age > 65"


def _missing_hint(column: Column, token: Token) -> Callable[[], str] | None:
    meant = f"write {name_text(column.name)} is missing"
    return (lambda: meant) if token.written.lower() == "null" else None


def _test_hint(column: Column, token: Token) -> Callable[[], str] | None:
    """Return what to write for the tests of other languages, and for a column alone."""
    name, word = name_text(column.name), token.written.lower()
    meant = ""
    if word == "like" and isinstance(column, CategoryColumn):
        category = column.categories[0].replace("'", "''")
        meant = f"list the categories, as in {name} in ('{category}')"
    elif isinstance(column, BooleanColumn) and (token.kind in {"end", "keyword"} or word == ")"):
        meant = f"write {name} = true"
    return (lambda: meant) if meant else None


class FilterParser:
    """Reads one expression, and leaves what follows it to others."""

    def __init__(self, reader: TokenReader, schema: Schema) -> None:
        self._reader = reader
        self._schema = schema
        self._tests = 0

    def parse(self, depth: int = 0) -> FilterExpression:
        """Return the expression that begins at the next word.

        Raises: RequestInvalid: naming the character and what is expected there.
        """
        parts = self._flat(self._conjunction(depth), Disjunction)
        while self._reader.take_if("or"):
            parts += self._flat(self._conjunction(depth), Disjunction)
        return parts[0] if len(parts) == 1 else Disjunction(parts)

    def _conjunction(self, depth: int) -> FilterExpression:
        parts = self._flat(self._negation(depth), Conjunction)
        while self._reader.take_if("and"):
            parts += self._flat(self._negation(depth), Conjunction)
        return parts[0] if len(parts) == 1 else Conjunction(parts)

    @staticmethod
    def _flat(
        part: FilterExpression, kind: type[Conjunction | Disjunction]
    ) -> tuple[FilterExpression, ...]:
        """Return the parts of an equal expression, so that parentheses change no canonical text."""
        return part.parts if isinstance(part, kind) else (part,)

    def _negation(self, depth: int) -> FilterExpression:
        if depth > MAX_DEPTH:
            raise self._reader.error(f"at most {MAX_DEPTH} levels of not and (")
        if self._reader.take_if("not"):
            return Negation(self._negation(depth + 1))
        if self._reader.take_if("("):
            inner = self.parse(depth + 1)
            if not self._reader.take_if(")"):
                raise self._reader.error("and, or, or )")
            return inner
        return self._test()

    def _test(self) -> FilterExpression:
        if self._reader.peek().kind == "number":
            raise self._reader.error(_BEGINNING, hint=_column_first)
        name = self._reader.expect_name(_BEGINNING)
        column = self._column(name)
        self._tests += 1
        if self._tests > MAX_TESTS:
            raise self._reader.error(f"at most {MAX_TESTS} tests", name)
        if self._reader.take_if("is"):
            return self._missing_test(column, name)
        negated = self._reader.take_if("not") is not None
        if self._reader.peek().written.lower() == "between":
            return self._between(column, negated=negated)
        if negated or self._reader.peek().written == "in":
            return ListTest(column.name, self._listed(column), negated)
        sign = self._reader.peek()
        found = next((each for each in SIGNS if each == sign.written), None)
        if sign.kind != "symbol" or found is None:
            raise self._reader.error(_TESTS, hint=_test_hint(column, sign))
        if found not in {"=", "!="}:
            self._check_order(column)
        self._reader.take()
        return ValueTest(column.name, found, self._literal(column))

    def _check_order(self, column: Column) -> None:
        if not isinstance(column, NumberColumn | CalendarColumn):
            kind = str(column.__struct_config__.tag)
            raise self._reader.error(f"= or != (a {kind} column has no order)")

    def _between(self, column: Column, *, negated: bool) -> FilterExpression:
        """Return the two tests that stand for one: as each of them, false of a missing value."""
        self._check_order(column)
        self._reader.take()
        low = self._literal(column)
        self._reader.expect("and", hint=lambda: f"write {name_text(column.name)} between 18 and 65")
        high = self._literal(column)
        self._tests += 1
        if negated:
            return Disjunction(
                (ValueTest(column.name, "<", low), ValueTest(column.name, ">", high))
            )
        return Conjunction((ValueTest(column.name, ">=", low), ValueTest(column.name, "<=", high)))

    def _column(self, name: Token) -> Column:
        names = [column.name for column in self._schema.columns]
        if name.written in names:
            return self._schema.columns[names.index(name.written)]
        longer = [each for each in names if not is_word(each) and each.startswith(name.written)]
        meant = f"did you mean {name_text(longer[0])}?" if longer else ""
        hint = (lambda: meant) if longer else column_hint(name.written, names)
        raise self._reader.error("a column of the schema", name, hint=hint)

    def _missing_test(self, column: Column, name: Token) -> MissingTest:
        negated = self._reader.take_if("not") is not None
        self._reader.expect("missing", hint=_missing_hint(column, self._reader.peek()))
        if column.missing is not UNSET:
            rule = "a column with missing values (the schema reads them as another value)"
            raise self._reader.error(rule, name)
        return MissingTest(column.name, negated)

    def _listed(self, column: Column) -> tuple[SchemaValue, ...]:
        self._reader.expect("in")
        self._reader.expect("(")
        values = [self._literal(column)]
        while self._reader.take_if(","):
            if len(values) == MAX_LISTED:
                raise self._reader.error(f"at most {MAX_LISTED} values in a list")
            values.append(self._literal(column))
        if not self._reader.take_if(")"):
            raise self._reader.error("a comma or )")
        return tuple(values)

    def _literal(self, column: Column) -> SchemaValue:
        token = self._reader.peek()
        match column:
            case NumberColumn():
                what = f"a number for {column.name}, such as 65 or -0.5"
                return self._reader.take_number(what)
            case CategoryColumn():
                if token.kind != "text":
                    wanted = f"a quoted category of {column.name}, such as '{column.categories[0]}'"
                    raise self._reader.error(wanted)
                if token.written not in column.categories:
                    hint = did_you_mean(token.written, column.categories)
                    raise self._reader.error(f"a declared category of {column.name}", hint=hint)
                return self._reader.take().written
            case BooleanColumn():
                found = self._reader.take_if("true", "false")
                if found is None:
                    raise self._reader.error(f"true or false for {column.name}")
                return found.written == "true"
            case DateColumn() | TimeColumn():
                return self._date(column)

    def _date(self, column: CalendarColumn) -> date:
        token = self._reader.peek()
        try:
            if token.kind != "text":
                raise RequestInvalid("", "", token.written)
            found = parse_date(token.written, field="")
        except RequestInvalid:
            what = f"a quoted date for {column.name}, such as '{column.first}'"
            hint = f"there is no day {token.written}" if _has_form_of_date(token) else ""
            raise self._reader.error(what, hint=(lambda: hint) if hint else None) from None
        self._reader.take()
        return found
