"""What each statistic of the table states: its wire type, its words, and what it is computed from.

A question is a struct on the wire. Its class is the statistic's one entry.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

import msgspec
from msgspec import UNSET, UnsetType

from accountant.errors import RequestInvalid
from accountant.questions.group_functions import GroupText
from accountant.questions.groups import GroupSet
from accountant.questions.parts import ExactPart
from accountant.questions.quotients import Interval, Noises
from accountant.questions.schema import CategoryColumn, Column, NumberColumn, on_grid
from accountant.questions.scope import Scope

_BOUNDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A number that a statistic takes after its column.

    Attributes:
        name: of the field.
        is_whole: an integer; otherwise the text of a decimal.
        expected: what a text must have in its place.
        label, example: of its input on a dataset's page.
    """

    name: str
    is_whole: bool
    expected: str
    label: str
    example: str


class QuestionClauses(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="ask",
):
    """Base of every question.

    Attributes:
        where: the filter, "" for every row.
        by: columns of categories or of true and false, or functions of columns; there is an answer
            for each group.
        rows: the most rows of a unit that enter a statistic, at most the schema's.
        rows_per_group: the most of them in each group, at most `rows`.
    """

    where: str = ""
    by: tuple[GroupText, ...] = ()
    rows: int | UnsetType = UNSET
    rows_per_group: int | UnsetType = UNSET

    def with_clauses_of(self, other: QuestionClauses) -> Self:
        """Return the question with another one's filter, groups and bounds."""
        return msgspec.structs.replace(
            self, **{name: getattr(other, name) for name in QuestionClauses.__struct_fields__}
        )


class StatisticQuestion(QuestionClauses, frozen=True):
    """Base of every question about one statistic."""

    label: ClassVar[str]
    """Its name on a dataset's page."""
    column_kind: ClassVar[type[NumberColumn | CategoryColumn] | None] = None
    arguments: ClassVar[tuple[Argument, ...]] = ()
    shorthands: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Words for the statistic with certain arguments."""
    other_kinds: ClassVar[tuple[type[Column], ...]] = ()
    """Kinds that its column may be of, too."""
    is_ranked: ClassVar[bool] = False
    """The values of a group have an order."""

    @abstractmethod
    def parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return the exact statistics that it is computed from."""
        # There is no default: the sensitivity of another statistic would be too little noise.
        raise TypeError(f"no sensitivity of {type(self).__name__}")

    def drawn_parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return those of its parts that are read from the data, and drawn."""
        return self.parts(scope)

    def check(self, scope: Scope) -> None:
        """Check its arguments. Raises: RequestInvalid: naming field, rule and value."""

    def own_groups(self, column: Column | None) -> GroupSet | None:
        """Return the groups that its column makes, if it makes some."""
        return None

    @property
    def name(self) -> str:
        """The word that it begins with."""
        return str(self.__struct_config__.tag)

    @property
    def column_name(self) -> str:
        """The name of its column, "" without one."""
        return ""

    @property
    def value_name(self) -> str:
        """The heading of its values."""
        return self.name

    @property
    def in_each_group(self) -> int:
        """How many values each group has."""
        return 1

    @property
    def chooses_categories(self) -> bool:
        """Whether its values are categories, and not numbers."""
        return False


class ClampQuestion(StatisticQuestion, frozen=True, kw_only=True):
    """Base of what may narrow the bounds of a column of numbers.

    Attributes:
        clamp: two bounds within the schema's; a number outside them enters as the nearer one.
    """

    clamp: tuple[str, ...] | UnsetType = UNSET


class ColumnQuestion(ClampQuestion, frozen=True):
    """Base of every question on a column."""

    column: str

    @property
    def column_name(self) -> str:
        """The name of its column."""
        return self.column

    def of_column(self, column: Column) -> Column:
        """Return the column as the question reads it, with narrower bounds if it has some.

        Raises: RequestInvalid: they are not within the schema's.
        """
        if self.clamp is UNSET:
            return column
        if not isinstance(column, NumberColumn):
            raise RequestInvalid("clamp", "must be left out but for numbers", ", ".join(self.clamp))
        if len(self.clamp) != _BOUNDS:
            raise RequestInvalid("clamp", "must be two numbers", ", ".join(self.clamp))
        low, high = (on_grid(column, text, field="clamp") for text in self.clamp)
        if not column.bounds[0] <= low < high <= column.bounds[1]:
            rule = f"must be increasing numbers from {column.lower} to {column.upper}"
            raise RequestInvalid("clamp", rule, ", ".join(self.clamp))
        return msgspec.structs.replace(column, lower=self.clamp[0], upper=self.clamp[1])


class EstimateQuestion(ColumnQuestion, frozen=True):
    """Base of what is computed from several noisy numbers, of which the first is a count of rows.

    The functions are total, whatever the noise.
    """

    column_kind = NumberColumn

    def drawn_parts(self, scope: Scope) -> tuple[ExactPart, ...]:
        """Return all parts but a count that the schema states."""
        parts = self.parts(scope)
        return parts if scope.known_count is None else parts[1:]

    @abstractmethod
    def places(self, column: NumberColumn) -> int:
        """Return how many digits after the point its values have."""
        raise NotImplementedError

    @abstractmethod
    def value(self, column: NumberColumn, numbers: Sequence[Fraction]) -> Fraction:
        """Return the value of a group from the noisy numbers of its parts."""
        raise NotImplementedError

    @abstractmethod
    def intervals(
        self,
        column: NumberColumn,
        numbers: Sequence[Sequence[Fraction]],
        *,
        confidence: Decimal,
        noises: Noises,
    ) -> Sequence[Interval]:
        """Return the interval of each group's value, which contains the value itself.

        Args:
            numbers: noisy, those of its parts for each group.
            confidence: with which each interval holds.
            noises: of its parts.
        """
        raise NotImplementedError


class ChoiceQuestion(ColumnQuestion, frozen=True):
    """Base of what chooses among the declared candidates of its column."""

    @property
    def value_name(self) -> str:
        """The heading of its values: the candidates are those of its column."""
        return self.column

    @property
    def chooses_categories(self) -> bool:
        """Whether its candidates are categories."""
        return self.column_kind is CategoryColumn
