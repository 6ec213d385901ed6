"""What `why` is made of is what a plain count of the log says, and stays bounded."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import apsw
import pytest

from accountant.amounts import UNIT, Units
from accountant.partition.operate import reset_clock
from accountant.views.tallies import MAX_LARGEST
from accountant.views.usage import OTHERS
from accountant.views.why import UsageSums
from streams.index import UsageIndex
from streams.index.tables import MAX_DAYS, MOST_A_DAY
from streams.index.usage_index import NOTHING, VERSION
from tests.accountant.world import World
from tests.streams.index.logs import DAY_MS, PURPOSES, busy_world, filled, rows_of

ALWAYS = "0000-01-01"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db.index"


def sums_of(index: UsageIndex, dataset: str, since_day: str = ALWAYS) -> UsageSums:
    found = rows_of(index).sums(dataset, since_day=since_day)
    assert found is not None
    return found


def analyst_decisions(log: Sequence[bytes], dataset: str) -> list[dict[str, Any]]:
    """Return the decisions on requests of analysts, plainly from the whole log."""
    found = [json.loads(value) for value in log]
    return [
        decision
        for decision in found
        if decision.get("dataset") == dataset
        and "sequence" in decision
        and decision["outcome"] in {"granted", "refused"}
        and "analyst" in decision.get("request", {})
    ]


def cost(decision: dict[str, Any]) -> Fraction:
    return Fraction(next(iter(decision.get("cost", {"": "0"}).values())))


def recount(log: Sequence[bytes], dataset: str) -> tuple[Any, ...]:
    """Return days of analysts, reasons and largest grants, counted plainly."""
    days: dict[str, dict[str, Fraction]] = {}
    reasons = Counter[str]()
    grants = list[tuple[Fraction, int, str, str, str, str]]()
    for decision in analyst_decisions(log, dataset):
        request, day = decision["request"], decision["decided_at"][:10]
        spent = days.setdefault(request["analyst"], {})
        spent[day] = spent.get(day, Fraction(0)) + cost(decision)
        if decision["outcome"] == "refused":
            level = decision.get("level")
            reasons[decision["reason"] + (f" {level['scope']}" if level else "")] += 1
        else:
            who = request["request_id"], request["analyst"], request.get("purpose", "")
            grants.append((cost(decision), decision["sequence"], *who, decision["decided_at"]))
    largest = sorted((each for each in grants if each[0]), key=lambda each: (-each[0], each[1]))
    return days, dict(reasons), largest[:MAX_LARGEST]


def comparable_sums(sums: UsageSums) -> tuple[Any, ...]:
    """Return the same of an index."""
    days = {
        analyst: {day: exact(units) for day, units in spent.items()}
        for analyst, spent in sums.analyst_days.items()
    }
    reasons = {each.key: each.refused for each in sums.reasons}
    return days, reasons, [(exact(grant.cost), *grant[1:]) for grant in sums.largest]


def exact(units: Units) -> Fraction:
    assert isinstance(units, int)
    return Fraction(units, UNIT)


def random_world(seed: int) -> World:
    """Return a partition that many asked for weeks, with limits, repeats and another clock."""
    chance = random.Random(seed)
    world = World(batch=chance.choice([1, 20]))
    for dataset in ("census", "adult"):
        world.open(dataset, epsilon="100", filter="basic", delta="1e-6")
    world.send("admin", world.admin("member", member="a1", roles=["analyst"], team="blue"))
    for name, said_ in (("a1", {"part": "0.01"}), ("a2", {"part": "0.02"})):
        world.send("admin", world.admin("limit", scope="analyst", name=name, **said_))
    for number in range(240):
        world.now += chance.randrange(DAY_MS // 3)
        claim = chance.choice(["pure:0.5", "pure:0.25", f"pure:{chance.random():.30f}", "pure:200"])
        world.ask(
            claim,
            dataset=chance.choice(["census", "adult", "nowhere"]),
            analyst=f"a{chance.randrange(6)}",
            purpose=chance.choice(PURPOSES),
            **({"unit": "household"} if number % 17 == 0 else {}),
        )
        if number == 120:
            world.took(reset_clock(world.draft, world.now - 9 * DAY_MS, "it was ahead"))
            world.now -= 9 * DAY_MS
    world.commit()
    return world


@pytest.mark.parametrize("slices", [1, 7, 1_000])
@pytest.mark.parametrize("seed", range(4))
def test_sums_equal_those_of_the_whole_log(path: Path, seed: int, slices: int) -> None:
    log = random_world(seed).log
    index = filled(path, log, slices=slices)
    for dataset in ("census", "adult"):
        sums = sums_of(index, dataset)
        days, reasons, largest = recount(log, dataset)
        assert comparable_sums(sums) == (days, reasons, largest)
        assert "exhausted analyst" in reasons or dataset == "adult"
        assert len(largest) == MAX_LARGEST
        for by, rows in (("analyst", sums.analysts), ("purpose", sums.purposes)):
            usage = rows_of(index).usage(dataset, by)  # type: ignore[arg-type]
            reported = {(row.key, row.granted, row.refused, Fraction(row.spent)) for row in usage}
            assert {(row[0], row[1], row[2], exact(row[3])) for row in rows} == reported
        assert (sums.unit, sums.since, sums.since_at) == ("epsilon", 0, "")
    assert rows_of(index).sums("nowhere", since_day=ALWAYS) is None


def test_days_are_returned_from_a_first_one_on(path: Path) -> None:
    index = filled(path, busy_world().log)
    every = {day for days in sums_of(index, "adult").analyst_days.values() for day in days}
    since = sorted(every)[3]
    shown = {day for days in sums_of(index, "adult", since).analyst_days.values() for day in days}
    assert shown == {day for day in every if day >= since}


def test_equal_grants_are_ordered_by_time_among_the_largest(path: Path) -> None:
    world = World(batch=50)
    world.open("census", epsilon="900", filter="basic")
    for number in range(60):
        world.ask("pure:0.5" if number % 3 else "pure:0.75", purpose=str(number))
    world.commit()
    for slices in (1, 9, 1_000):
        largest = sums_of(filled(path.with_name(f"{slices}"), world.log, slices=slices), "census")
        assert [grant.purpose for grant in largest.largest] == [str(3 * n) for n in range(20)]


def test_grants_that_cost_nothing_are_none_of_the_largest(path: Path) -> None:
    world = World()
    world.open("census", epsilon="1", filter="basic")
    assert world.ask("pure:0").granted
    world.commit()
    assert sums_of(filled(path, world.log), "census").largest == []


def long_world(days: int, *, a_day: int = 1) -> World:
    world = World(batch=100)
    world.open("census", epsilon="900", filter="basic")
    for _ in range(days):
        world.now += DAY_MS
        for number in range(a_day):
            world.ask("pure:0.001", analyst=f"a{number}")
    world.commit()
    return world


@pytest.mark.parametrize("slices", [1, 10, 1_000])
def test_days_of_longer_ago_are_forgotten(path: Path, slices: int) -> None:
    world = long_world(MAX_DAYS + 30)
    index = filled(path, world.log, slices=slices)
    sums = sums_of(index, "census")
    days = sorted(sums.analyst_days["a0"])
    assert len(days) == MAX_DAYS
    last = date.fromisoformat(days[-1])
    assert days[0] == (last - timedelta(MAX_DAYS - 1)).isoformat()
    # The sums have all of them.
    assert sum(day.granted for day in sums.days) == MAX_DAYS + 30


def test_days_of_a_clock_that_ran_ahead_drop_none_of_the_others(path: Path) -> None:
    world = long_world(20)
    before = sums_of(filled(path.with_name("before"), world.log), "census").analyst_days["a0"]
    world.now += 3_650 * DAY_MS
    world.ask("pure:0.001", analyst="a0")
    world.took(reset_clock(world.draft, world.now - 3_649 * DAY_MS, "it was ahead"))
    world.now -= 3_649 * DAY_MS - DAY_MS // 24  # ids up to the skew after a reset have expired
    world.ask("pure:0.001", analyst="a0")
    world.commit()
    days = sums_of(filled(path, world.log, slices=5), "census").analyst_days["a0"]
    assert set(before) < set(days)
    assert len(days) == 22


@pytest.mark.parametrize("slices", [333, 5_000])
def test_analysts_above_the_daily_limit_are_summed_in_one_row(path: Path, slices: int) -> None:
    world = long_world(1, a_day=MOST_A_DAY + 50)
    world.ask("pure:0.001", analyst="a3")
    world.ask("pure:0.001", analyst=f"a{MOST_A_DAY + 1}")
    world.commit()
    sums = sums_of(filled(path, world.log, slices=slices), "census")
    assert len(sums.analyst_days) == MOST_A_DAY + 1
    (others,) = sums.analyst_days[OTHERS].values()
    assert exact(others) == 51 * Fraction("0.001")
    (own,) = sums.analyst_days["a3"].values()
    assert exact(own) == Fraction("0.002")
    assert len(sums.analysts) == MOST_A_DAY + 50


def test_an_index_of_the_version_before_is_made_again(path: Path) -> None:
    log = random_world(1).log
    filled(path, log).close()
    db = apsw.Connection(str(path))
    db.execute("DROP TABLE analyst_days; DROP TABLE largest; DROP TABLE reasons")
    db.pragma("user_version", 1)
    db.close()
    index = UsageIndex.open(path)
    assert VERSION > 1
    assert index.reached() == NOTHING
    index.take(0, NOTHING, log)
    assert comparable_sums(sums_of(index, "census")) == recount(log, "census")


def test_a_partition_that_starts_again_leaves_no_rows(path: Path) -> None:
    index = filled(path, random_world(2).log)
    index.start_again(0)
    db = apsw.Connection(str(path))
    for table in ("analyst_days", "largest", "reasons"):
        assert db.execute(f"SELECT count(*) FROM {table}").get == 0
    assert rows_of(index).sums("census", since_day=ALWAYS) is None
