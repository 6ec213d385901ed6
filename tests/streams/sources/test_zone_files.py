"""The rules of zones are those of the package `tzdata`, whatever the machine has."""

from __future__ import annotations

import time
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pytest
import tzdata

from accountant.questions import parse_question
from streams.sources import DataSources
from streams.sources.source_facts import SchemaFinding, check_schema, read_facts
from streams.sources.zone_files import find_zone, zone_rules_version
from tests.accountant.questions.schemas import visits
from tests.streams.sources.source_files import statistics_of_file, write_parquet


@pytest.fixture
def other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine in Tokyo, whose own rules say that Vaduz has Tokyo's clocks.

    No other test reads this zone: two `ZoneInfo` of one name are not equal, and the cache has one.
    """
    forged = tmp_path / "zoneinfo" / "Europe" / "Vaduz"
    forged.parent.mkdir(parents=True)
    forged.write_bytes((files("tzdata") / "zoneinfo" / "Asia" / "Tokyo").read_bytes())
    before = zoneinfo.TZPATH
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    zoneinfo.reset_tzpath([str(tmp_path / "zoneinfo")])
    zoneinfo.ZoneInfo.clear_cache(only_keys=["Europe/Vaduz"])
    find_zone.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    time.tzset()
    zoneinfo.reset_tzpath(before)
    zoneinfo.ZoneInfo.clear_cache(only_keys=["Europe/Vaduz"])
    find_zone.cache_clear()


def test_neither_zone_nor_rules_of_the_machine_count(other_machine: Path) -> None:
    instants = [datetime(2026, 1, 31, hour, 30, tzinfo=UTC) for hour in (14, 22, 23)]
    days = ["2026-01-31T14:30", "2026-01-31T23:30", "2026-02-01T00:30"]
    columns = {"t": (pa.timestamp("us", "UTC"), instants), "d": (pa.string(), days)}
    columns["unit"] = (pa.int64(), [1, 2, 3])
    settings = write_parquet(other_machine / "visits.parquet", columns)
    for zone in ("Europe/Vaduz", None):
        schema = visits(**({"zone": zone} if zone else {}))
        counted = [
            statistics_of_file(settings, parse_question(text, schema), key=b"k")[0][2:]
            for text in ("count by month(t)", "count by month(d)")
        ]
        assert counted == ([(2, 1), (2, 1)] if zone else [(3, 0), (2, 1)])


def test_the_version_is_that_of_the_package() -> None:
    schema = visits(zone="Europe/Berlin")
    berlin = find_zone("Europe/Berlin")
    assert berlin is not None
    assert berlin.version == zone_rules_version(schema) == f"tzdata {tzdata.__version__}"
    for name in ("europe/berlin", "Europe", "zone", "leapseconds", "Factory/x", "Berlin"):
        assert find_zone(name) is None


def test_a_zone_without_rules_is_found_before_anybody_asks(tmp_path: Path) -> None:
    columns = {"t": (pa.string(), ["2026-01-31"]), "d": (pa.date32(), [None])}
    columns |= {"unit": (pa.int64(), [1]), "c": (pa.string(), ["a"]), "x": (pa.int64(), [1])}
    settings = write_parquet(tmp_path / "visits.parquet", columns)
    schema = visits(zone="Europe/Berlim")
    words = f"tzdata {tzdata.__version__} has no zone Europe/Berlim: all are missing"
    found = [each for each in check_schema(schema, read_facts(settings)) if each.words == words]
    assert found == [
        SchemaFinding(column=name, kind="all_missing", words=words) for name in ("d", "t")
    ]
    sources = DataSources({"census": settings})
    asked = parse_question("count where t is missing", schema)
    assert sources.statistics(asked, key=b"k") == ((1,),)
