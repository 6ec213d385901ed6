"""Groups of a question: what of a row sets answers apart, and all the groups that are declared.

Which groups there are follows from the schema and the question alone, and each of them is answered,
also without rows. A row is in one group, by its own value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from accountant.questions.schema import BooleanColumn, CategoryColumn, Column
from accountant.questions.schema_values import SchemaValue


class GroupSet(ABC):
    """A way to set rows apart by the value of a column.

    Attributes:
        column: whose values decide.
    """

    column: Column

    @property
    @abstractmethod
    def heading(self) -> str:
        """What answers call it: a column's name, or the text of a function of it."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many groups there are, known before any of them is listed."""

    @property
    @abstractmethod
    def values(self) -> tuple[str | bool, ...]:
        """The name of each group, in the order of the answers."""

    @abstractmethod
    def place(self, value: SchemaValue) -> int:
        """Return the position of the group of a value of the column."""


@dataclass(frozen=True, slots=True)
class ColumnGroups(GroupSet):
    """The declared values of a column, each a group."""

    column: CategoryColumn | BooleanColumn

    @property
    def heading(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def size(self) -> int:
        """How many values are declared."""
        return len(self.values)

    @property
    def values(self) -> tuple[str | bool, ...]:
        """The declared values, in their order."""
        return self.column.categories if isinstance(self.column, CategoryColumn) else (False, True)

    def place(self, value: SchemaValue) -> int:
        """Return the position of a declared value."""
        return self.values.index(value)
