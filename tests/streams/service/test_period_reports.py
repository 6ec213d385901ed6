"""A report of a period: what it counts, whose, and which decisions it reads for that."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from accountant.errors import RequestInvalid
from accountant.foreign_text import csv_text
from accountant.partition.operate import reset_clock
from accountant.records import encode
from accountant.records.members import Member, MemberRow
from accountant.views.datasets import DatasetView, view_of_ledger
from accountant.views.period import Period, months_between, parse_period
from accountant.views.period_report import (
    REPORT_BYS,
    PeriodReport,
    ReportBy,
    decode_period_report,
    report_columns,
    report_rows,
)
from accountant.views.population import ordered_before
from accountant.views.usage import OTHERS
from accountant.views.visibility import WHOLE, DatasetAccess, LedTeam
from streams.errors import Gone
from streams.service.period_reports import report_of_period
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import World

DAY = 86_400_000
FORMULA = '=HYPERLINK("x")'
DECEMBER = parse_period("2026-12", "", "")


@dataclass
class Source:
    """A dataset of a world, as a service reads it."""

    world: World
    people: dict[str, str] = field(default_factory=dict)
    archived: int = 0
    read: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.commit()
        self.values = [
            value
            for value, line in zip(self.world.log, self.world.decisions, strict=True)
            if line.dataset == "census" and line.sequence is not None
        ]

    async def dataset(self, name: str) -> DatasetView | None:
        ledger = self.world.state.ledgers.get(name)
        return None if ledger is None else view_of_ledger(ledger)

    async def members(self, dataset: str) -> list[Member]:
        return [Member(name, ("analyst",), team or None) for name, team in self.people.items()]

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        if after < self.archived:
            raise Gone("archived", after=self.archived)
        found = self.values[after : after + limit]
        self.read += range(after + 1, after + 1 + len(found))
        return found

    def ordered_before(self) -> int | None:
        return ordered_before([self.world.state.resets])

    def report(self, period: Period = DECEMBER, access: DatasetAccess = WHOLE) -> PeriodReport:
        now = self.world.now
        found = asyncio.run(report_of_period(self, "census", period, access=access, now=now))
        assert found is not None
        return found


def world_of_winter() -> World:
    """Return a world that was asked on 30 November, in December and in January, now the 12th.

    In December ana and ben have spent 0.1 + 1e-12 and 0.2, and eve was refused.
    """
    world = World()
    world.open("census", epsilon="1", filter="basic")
    world.open("other", epsilon="1", filter="basic")
    world.now += 9 * DAY
    world.ask("pure:0.05", analyst="ana", purpose="before")
    world.now += 10 * DAY
    world.ask("pure:0.1", analyst="ana", purpose="")
    world.ask("pure:0.5", analyst="ana", dataset="other", purpose="hidden")
    world.ask(f"pure:0.{'0' * 11}1", analyst="ana", purpose=FORMULA)
    world.ask("pure:0.2", analyst="ben", purpose="counts")
    world.ask("pure:5", analyst="eve", purpose="<b>all</b>")
    world.now += 33 * DAY
    world.ask("pure:0.3", analyst="ben", purpose="after")
    return world


TEAMS = {"ana": "red", "ben": "blue", "eve": ""}


def table(report: PeriodReport, by: ReportBy) -> dict[str, tuple[int, int, str]]:
    return {row.key: (row.granted, row.refused, row.spent) for row in report.table(by)}


def test_a_month_counts_its_own_decisions_exactly_in_every_table() -> None:
    report = Source(world_of_winter(), TEAMS).report()
    exact = f"0.3{'0' * 10}1"
    assert table(report, "month") == {"": (3, 1, exact)}
    assert table(report, "team")["red"] == (2, 0, f"0.1{'0' * 10}1")
    assert table(report, "team")[""] == (0, 1, "0")
    assert table(report, "analyst")["ben"] == (1, 0, "0.2")
    assert table(report, "purpose")[FORMULA] == (1, 0, f"0.{'0' * 11}1")
    assert table(report, "outcome") == {"granted": (3, 0, exact), "exhausted": (0, 1, "0")}
    for by in REPORT_BYS:
        assert sum(Decimal(row.spent) for row in report.table(by)) == Decimal(exact), by
        text = csv_text(report_columns(by), report_rows(report, by))
        assert not {"hidden", "before", "other"} & set(text.replace(",", " ").split())
    rows = report_rows(report, "purpose")
    assert '"\'=HYPERLINK(""x"")"' in csv_text(report_columns("purpose"), rows)
    assert decode_period_report(encode(report)) == report


def test_months_say_their_days_and_whether_they_are_over() -> None:
    source = Source(world_of_winter())
    rows = source.report(parse_period("", "2026-11-30", "")).by_month
    said = [(row.month, row.begins, row.ends, row.ended, row.granted) for row in rows]
    assert said == [
        ("2026-11", "2026-11-30", "2026-11-30", True, 1),
        ("2026-12", "2026-12-01", "2026-12-31", True, 3),
        ("2027-01", "2027-01-01", "2027-01-31", False, 1),
    ]
    (row,) = source.report(parse_period("", "2027-01-01", "2027-01-02")).by_month
    assert (row.ends, row.ended, row.granted) == ("2027-01-02", True, 0)
    assert source.report(parse_period("2025-01", "", "")).by_month == ()
    every = [row.month for row in source.report(Period()).by_month]
    assert every == ["2026-11", "2026-12", "2027-01"]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (("2026-13", "", ""), "month"),
        (("2026-1", "", ""), "month"),
        (("October", "", ""), "month"),
        (("2026-10", "2026-10-01", ""), "month"),
        (("", "2026-02-30", ""), "from"),
        (("", "", "20261001"), "to"),
        (("", "2026-10-02", "2026-10-01"), "to"),
    ],
)
def test_a_period_that_is_none_names_its_field(given: tuple[str, str, str], wrong: str) -> None:
    with pytest.raises(RequestInvalid) as error:
        parse_period(*given)
    assert error.value.field == wrong


def test_the_months_between_two_days_cross_years() -> None:
    assert months_between("2025-12-31", "2026-01-01") == ["2025-12", "2026-01"]
    assert months_between("2026-01-02", "2026-01-01") == []


def test_a_report_leaves_out_decisions_from_before_and_after_the_period() -> None:
    world = world_of_winter()
    for _ in range(30):
        world.now += DAY
        world.ask("pure:0.0001", analyst="ben")
    source = Source(world)
    (row,) = source.report(parse_period("", "2027-01-20", "2027-01-21")).by_month
    assert row.granted == 2
    assert source.read.count(1) == 0


def test_what_a_reservation_gives_back_counts_in_the_month_of_its_request() -> None:
    scene = Scene()
    scene.now += 9 * DAY + 55 * DAY // 96  # 30 November, 23:45
    scene.do("reserve")
    assert [row.spent for row in Source(scene).report(Period()).by_month] == ["0.1"]
    scene.now += DAY // 48
    scene.do("void")
    scene.now += 40 * DAY
    scene.ask("pure:0.5")
    (row,) = Source(scene).report(parse_period("2026-11", "", "")).by_month
    assert (row.granted, row.spent) == (1, "0")
    (row,) = Source(scene).report(parse_period("2026-12", "", "")).by_month
    assert (row.granted, row.spent) == (0, "0")


def test_a_clock_that_was_set_back_hides_no_decision() -> None:
    world = world_of_winter()
    world.took(reset_clock(world.draft, world.now - 40 * DAY, "it was ahead"))
    world.now -= 39 * DAY
    for _ in range(4):
        assert world.ask("pure:0.01", analyst="ana").granted
    assert table(Source(world).report(), "month")[""][0] == 7
    assert table(Source(world).report(parse_period("2027-01", "", "")), "month")[""][0] == 1


def test_archived_decisions_are_said_to_be_missing() -> None:
    report = Source(world_of_winter(), archived=3).report()
    assert report.since is not None
    assert table(report, "month")[""][0] == 2
    january = Source(world_of_winter(), archived=2).report(parse_period("2027-01", "", ""))
    assert january.since is None


def test_many_keys_of_a_month_are_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accountant.views.period_report.MOST_KEYS", 1)
    report = Source(world_of_winter()).report()
    others = (2, 1, f"0.1{'0' * 10}1")
    assert table(report, "analyst") == {"ben": (1, 0, "0.2"), OTHERS: others}


def of_team(team: str, since: dict[str, int]) -> DatasetAccess:
    """Return the access of a lead.

    Args:
        since: the number of the decision that has set each member.
    """

    def member(dataset: str, name: str) -> Any:
        if name not in since:
            return None
        found = {"dataset": dataset, "member": name, "roles": ("analyst",), "team": team}
        return MemberRow(version=1, **found, sequence=since[name])  # type: ignore[arg-type]

    return DatasetAccess("lea", False, False, team, LedTeam("census", team, member))


def test_a_lead_gets_the_team_alone_and_nothing_from_before_an_analyst_joined() -> None:
    world = world_of_winter()
    for lead, spent, keys in (
        (of_team("blue", {"ben": 1}), "0.2", {"ben"}),
        (of_team("blue", {"ben": 100}), "0", set[str]()),
    ):
        report = Source(world, TEAMS).report(access=lead)
        assert report.team == "blue"
        assert set(table(report, "analyst")) == keys
        assert table(report, "month")[""][2] == spent
        assert set(table(report, "purpose")) == ({"counts"} if keys else set())
        said = json.dumps([report_rows(report, by) for by in REPORT_BYS])
        assert not {"red", "ana", "eve", "exhausted"} & set(said.replace('"', " ").split())


def test_what_came_back_of_a_request_from_before_takes_nothing_off_a_lead_s_sum() -> None:
    scene = Scene()
    scene.do("reserve")
    scene.now += 1000
    joined = len(scene.log)
    scene.do("void")
    scene.ask("pure:0.3")
    report = Source(scene).report(Period(), of_team("red", {"ana": joined}))
    assert [(row.granted, row.spent) for row in report.by_month] == [(1, "0.3")]


def test_a_caller_who_sees_all_requests_but_no_members_gets_no_other_team() -> None:
    analyst = DatasetAccess("ana", False, True, "red")
    report = Source(world_of_winter(), TEAMS).report(access=analyst)
    assert set(table(report, "team")) == {"red"}
    assert set(table(report, "analyst")) == {"ana", "ben", "eve"}
    assert report.team is None
