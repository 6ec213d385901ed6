"""What a gateway knows of a ledger, fed with rows and decisions by a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from accountant.records import decode_decision, decode_partition_row
from accountant.records.header import decode_header
from accountant.records.limit_records import ScopeRow
from accountant.records.members import MemberRow
from accountant.records.reservation_rows import ReservationRow
from accountant.records.state_rows import Row, decode_row
from accountant.views.datasets import DatasetView
from accountant.views.follow import ViewFolder, counted_decision, runs
from accountant.views.members import MemberViews
from streams.kafka.service.follower.limits import FollowerLimits
from tests.streams.clock import TestClock

OWN: Final = b'{"partition":0}'


class FollowedLog:
    """The views, members, limits and reservations of one partition, from its rows and log."""

    def __init__(self, clock: TestClock | None = None) -> None:
        self.views: dict[str, DatasetView] = {}
        self.folder = ViewFolder(self.views, {})
        self.members = MemberViews()
        self.clock = TestClock() if clock is None else clock
        self.limits = FollowerLimits(self.members, self.clock, 1, "name")

    def read_rows(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in rows:
            if key == OWN:
                self.limits.take_partition_row(decode_partition_row(value))
            else:
                self.take_row(decode_row(value))

    def take_row(self, row: Row) -> None:
        if isinstance(row, ScopeRow):
            self.limits.take_row(row)
        elif isinstance(row, ReservationRow):
            self.limits.take_reservation_row(row)
        elif isinstance(row, MemberRow):
            self.members.take_row(row)
        else:
            self.folder.take_row(row)

    def read(self, values: list[bytes]) -> None:
        if not values:
            return
        lines = [decode_header(value) for value in values]
        for line, value in zip(lines, values, strict=True):
            if line.outcome.sets_members:
                self.members.take_decision(decode_decision(value))
        decided = (counted_decision(*each, usage=False) for each in zip(lines, values, strict=True))
        for dataset, run in runs(decided).items():
            self.folder.take_run(dataset, run)
        self.limits.take_lines(0, lines, values, self.views)
