"""The members of each dataset, updated with decisions and rows of `state`.

Rows and decisions may come twice and out of order: what a later decision of the dataset has said
of a member holds. Who was removed is remembered without roles, so that an older row changes
nothing.
"""

from __future__ import annotations

from accountant.records import Decision
from accountant.records.members import MemberRow, member_row, owner_rows


class MemberViews:
    """The members of datasets that a process follows; each call is O(1) but for those of many."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, MemberRow]] = {}

    def take_row(self, row: MemberRow) -> None:
        """Take in a member's row."""
        rows = self._rows.setdefault(row.dataset, {})
        known = rows.get(row.member)
        if known is None or known.sequence < row.sequence:
            rows[row.member] = row

    def take_decision(self, decision: Decision) -> None:
        """Take in a decision that opens a dataset, or sets or removes a member."""
        dataset, sequence = str(decision.dataset), int(decision.sequence or 0)
        for row in owner_rows(dataset, sequence, decision.owners):
            self.take_row(row)
        if decision.member is not None:
            self.take_row(member_row(dataset, sequence, decision.member))

    def get(self, dataset: str, name: str) -> MemberRow | None:
        """Return a member's row, None for anybody else."""
        row = self._rows.get(dataset, {}).get(name)
        return None if row is None or not row.roles else row

    def of(self, dataset: str) -> list[MemberRow]:
        """Return a dataset's members by name."""
        rows = self._rows.get(dataset, {}).copy().items()
        return [row for _, row in sorted(rows) if row.roles]

    def memberships(self, name: str) -> list[MemberRow]:
        """Return a member's rows by dataset; any thread may call this."""
        datasets = sorted(self._rows.copy())
        return [row for dataset in datasets if (row := self.get(dataset, name)) is not None]


def no_members(_dataset: str, _name: str) -> None:
    """Return None: there is no member."""


def no_roster(_dataset: str) -> tuple[MemberRow, ...]:
    """Return no row: there is no member."""
    return ()
