"""Why a budget is as it is: shares by hand, weeks, teams, caps, and who sees what."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from accountant.amounts import INFINITE, parse_units
from accountant.records.members import Member
from accountant.times import from_iso, iso
from accountant.views.datasets import DatasetView, view_of_ledger
from accountant.views.tallies import LargeGrant
from accountant.views.usage import OTHERS
from accountant.views.why import (
    MAX_SHOWN,
    WHY_BYS,
    UsageByKey,
    UsageSums,
    Why,
    columns,
    decode_why,
    own_rows,
    rows,
    spenders,
    why_of,
    without_members,
)
from tests.accountant.world import World

NOW = from_iso("2026-11-24T12:00:00.000Z")
MEMBERS = [
    Member("ana", ("analyst",), "blue"),
    Member("ben", ("analyst",), "red"),
    Member("cy", ("analyst",), "blue", "2026-11-24T11:59:59.999Z"),
    Member("olga", ("owner",)),
]


def view(**policy: str) -> DatasetView:
    world = World()
    world.open("census", **{"epsilon": "2", "filter": "basic", **policy})
    return view_of_ledger(world.state.ledgers["census"])


def used(key: str, granted: int, refused: int, spent: str) -> UsageByKey:
    return UsageByKey(key, granted, refused, parse_units(spent))


SUMS = UsageSums(
    unit="epsilon",
    analysts=[
        used("cy", 1, 0, "0.1"),
        used("ana", 3, 1, "0.5"),
        used("ben", 2, 0, "0.25"),
        used("dan", 0, 4, "0"),
    ],
    purposes=[used("", 1, 5, "0.1"), used("age, by district", 5, 0, "0.75")],
    days=[
        used("2026-11-22", 1, 0, "0.1"),
        used("2026-11-23", 4, 0, "0.65"),
        used("2026-11-24", 1, 5, "0.1"),
    ],
    reasons=[used("above_cap", 0, 1, "0"), used("exhausted team", 0, 3, "0"), used("x", 0, 1, "0")],
    largest=[LargeGrant(parse_units("0.4"), 7, "id7", "ana", "p", "2026-11-23T00:00:00.000Z")],
    analyst_days={
        "ana": {"2026-11-23": parse_units("0.5")},
        "ben": {"2026-11-24": parse_units("0.25")},
        "cy": {"2026-11-22": parse_units("0.1")},
        OTHERS: {"2026-11-22": parse_units("9")},
    },
)


def report(**changes: object) -> Why:
    sums = msgspec.structs.replace(SUMS, **changes)
    return why_of(view(), sums, MEMBERS, now=NOW)


def test_analysts_are_listed_by_their_part_of_the_budget_in_descending_order() -> None:
    why = report()
    found = [(row.analyst, row.team, row.granted, row.refused, row.spent) for row in why.by_analyst]
    assert found == [
        ("ana", "blue", 3, 1, "0.5"),
        ("ben", "red", 2, 0, "0.25"),
        ("cy", None, 1, 0, "0.1"),  # whose time is over
        ("dan", None, 0, 4, "0"),
    ]
    assert [row.ratio for row in why.by_analyst] == pytest.approx([0.25, 0.125, 0.05, 0])
    assert (why.budget, why.spent, why.unit, why.state) == ("2", "0.85", "epsilon", "open")
    assert [row.purpose for row in why.by_purpose] == ["age, by district", ""]


def test_a_team_is_its_members_now_and_the_others_are_together() -> None:
    found = [(row.team, row.analysts, row.granted, row.spent) for row in report().by_team]
    assert found == [("blue", 1, 3, "0.5"), ("red", 1, 2, "0.25"), ("", 2, 1, "0.1")]


def test_sums_of_each_table_are_exact() -> None:
    tiny = "0.0000000000000000000000000000000000000001"
    why = report(analysts=[used("a", 1, 0, tiny), used("b", 1, 0, "0.3")])
    assert sum(Fraction(row.spent) for row in why.by_team) == Fraction(tiny) + Fraction("0.3")


def test_use_is_summed_by_iso_weeks_from_monday() -> None:
    (last, next_) = report().by_week
    assert (last.week, last.begins, last.spent) == ("2026-W47", "2026-11-16", "0.1")
    assert (next_.week, next_.begins, next_.spent) == ("2026-W48", "2026-11-23", "0.75")
    assert (next_.granted, next_.refused) == (5, 5)
    days = [used(day, 1, 0, "0.1") for day in ("2026-12-31", "2027-01-03", "2027-01-04")]
    found = [(row.week, row.begins, row.granted) for row in report(days=days).by_week]
    assert found == [("2026-W53", "2026-12-28", 2), ("2027-W01", "2027-01-04", 1)]
    # A year's first days may be of the year before, and its last ones of the next.
    days = [used(day, 1, 0, "0.1") for day in ("2021-01-01", "2024-12-30")]
    assert [row.week for row in report(days=days).by_week] == ["2020-W53", "2025-W01"]


def test_refusals_name_the_reason_and_the_level() -> None:
    found = [(each.reason, each.level, each.refused) for each in report().refusals]
    assert found == [("exhausted", "team", 3), ("above_cap", None, 1), ("x", None, 1)]


def test_the_largest_grants_are_listed_with_their_part() -> None:
    (grant,) = report().largest
    assert (grant.cost, grant.ratio, grant.request_id, grant.sequence) == ("0.4", 0.2, "id7", 7)


def test_forecasts_are_of_all_of_teams_and_of_analysts() -> None:
    found = [(each.scope, each.name, each.days, each.spent) for each in report().forecasts]
    assert found[:3] == [
        ("all", None, days, "0.75" if days == 1 else "0.85") for days in (1, 7, 30)
    ]
    assert [each for each in found if each[2] == 30][1:] == [
        ("team", "blue", 30, "0.5"),
        ("team", "red", 30, "0.25"),
        ("analyst", "ana", 30, "0.5"),
        ("analyst", "ben", 30, "0.25"),
        ("analyst", "cy", 30, "0.1"),
    ]
    assert {each.left for each in report().forecasts} == {"2"}


def test_the_requested_analyst_is_listed_even_with_little_use() -> None:
    many = [used(f"a{number:04}", 1, 0, "0.1") for number in range(MAX_SHOWN)]
    few = [used("zoe", 1, 0, "0.01"), used("zed", 1, 0, "0.02")]
    sums = msgspec.structs.replace(SUMS, analysts=[*few, *many])
    for name in ("zoe", "nobody"):
        why = why_of(view(), sums, MEMBERS, now=NOW, analyst=name)
        *apart, own, others = why.by_analyst
        assert (len(apart), own.analyst, others.analyst) == (MAX_SHOWN, name, OTHERS)
        assert [each.name for each in why.forecasts if each.scope == "analyst"][-3:] == [name] * 3
    assert others.spent == "0.03"
    why = why_of(view(), sums, MEMBERS, now=NOW)
    assert (len(why.by_analyst), why.by_analyst[-1].granted) == (MAX_SHOWN + 1, 2)
    everyone = sum(Fraction(row.spent) for row in why.by_analyst)
    assert everyone == sum(Fraction(row.spent) for row in why.by_team)


def test_names_of_forecasts_are_known_before() -> None:
    assert spenders(SUMS, MEMBERS) == (["blue", "red"], ["ana", "ben", "cy"])
    assert spenders(SUMS, MEMBERS, "dan")[1] == ["ana", "ben", "cy", "dan"]


def test_a_dataset_that_grants_nothing_has_no_forecast() -> None:
    for state, fields in {
        "closed": {"closed": True},
        "halted": {"halted": True},
        "paused": {"paused": True},
        "suspended": {"broken": 1},
    }.items():
        stopped = msgspec.structs.replace(view(), **fields)
        why = why_of(stopped, SUMS, MEMBERS, now=NOW)
        assert (why.state, why.forecasts) == (state, ())


def test_a_report_uses_the_time_of_the_log_if_the_clock_is_behind() -> None:
    later = msgspec.structs.replace(view(), last_decided_at=iso(NOW + 5_000))
    assert why_of(later, SUMS, now=NOW).at == iso(NOW + 5_000)


def test_a_dataset_without_requests_has_an_empty_report() -> None:
    why = why_of(view(), UsageSums(unit="epsilon"), now=NOW)
    assert (why.spent, why.by_analyst, why.by_week, why.largest) == ("0", (), (), ())
    assert [each.runs_out_at for each in why.forecasts] == [None] * 3


def test_an_infinite_amount_has_ratio_1() -> None:
    (row,) = report(analysts=[UsageByKey("a", 1, 0, INFINITE)]).by_analyst
    assert (row.spent, row.ratio) == ("inf", 1.0)


def test_days_of_teams_begin_where_an_archive_ends() -> None:
    since = "2026-11-23T12:00:00.000Z"
    opened = msgspec.structs.replace(view(), opened_at="2026-11-01T00:00:00.000Z")
    sums = msgspec.structs.replace(SUMS, since=40, since_at=since)
    why = why_of(opened, sums, MEMBERS, now=NOW)
    assert why.since == 40
    per_day = {(each.scope, each.name, each.days): each.per_day for each in why.forecasts}
    assert per_day["analyst", "ana", 30] == pytest.approx(0.5)  # of a day, not of thirty
    assert per_day["all", None, 30] == pytest.approx(0.85 / 23.5)
    assert why_of(opened, msgspec.structs.replace(sums, since=1), now=NOW).since is None


def test_a_caller_without_access_to_members_sees_only_their_own_team() -> None:
    seen = without_members(report(), "ana")
    assert [(row.analyst, row.team) for row in seen.by_analyst][:2] == [
        ("ana", "blue"),
        ("ben", None),
    ]
    assert [row.team for row in seen.by_team] == ["blue"]
    shown = {(each.scope, each.name) for each in seen.forecasts}
    assert shown == {("all", None), ("team", "blue"), ("analyst", "ana")}
    assert without_members(report(), "dan").by_team == ()
    assert without_members(report(), "dan").spent == "0.85"


def test_a_caller_with_own_visibility_sees_only_the_totals_of_others() -> None:
    seen = own_rows(report(), "ben")
    assert [row.analyst for row in seen.by_analyst] == ["ben"]
    assert (seen.spent, seen.only) == ("0.85", "ben")
    hidden = (seen.by_team, seen.by_purpose, seen.by_week, seen.refusals, seen.largest)
    assert hidden == ((),) * 5
    assert {(each.scope, each.name) for each in seen.forecasts} == {("analyst", "ben")}
    assert own_rows(report(), "ana").largest == ()
    text = msgspec.json.encode(seen).decode()
    for other in ('"ana"', '"cy"', '"dan"', '"blue"', "district", '"id7"'):
        assert other not in text


@pytest.mark.parametrize("by", WHY_BYS)
def test_each_table_has_its_columns(by: str) -> None:
    known = next(each for each in WHY_BYS if each == by)
    found = rows(report(), known)
    assert found
    for row in found:
        assert set(row) == set(columns(known))
    assert (columns(known)[0], columns(known)[-1]) == ("dataset", "unit")


def test_a_report_is_read_back() -> None:
    assert decode_why(msgspec.json.encode(report())) == report()
