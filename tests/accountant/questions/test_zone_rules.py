"""The rules of zones, beside those that Python reads from the same files."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from random import Random
from zoneinfo import ZoneInfo

import pytest

from accountant.questions.zone_rules import ZoneRules, parse_zone
from tests.nightly import rounds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAST, MOST = (
    int((each.replace(tzinfo=UTC) - EPOCH).total_seconds())
    for each in (datetime.min + timedelta(days=2), datetime.max - timedelta(days=2))  # noqa: DTZ901
)
NAMES = (files("tzdata") / "zones").read_text().split()


def content_of(name: str) -> bytes:
    return (files("tzdata") / "zoneinfo").joinpath(*name.split("/")).read_bytes()


def instants(rules: ZoneRules, random: Random) -> list[int]:
    """Return instants around changes, and others."""
    near = random.sample(rules.changes, min(len(rules.changes), 20))
    at = [each + moved for each in near for moved in (-1, 0, 1)]
    at += [random.randrange(LEAST, MOST) for _ in range(10)]
    at += [random.randrange(2**31) for _ in range(10)]
    return [each for each in at if LEAST <= each <= MOST]


def test_clocks_show_what_python_reads_from_the_same_file() -> None:
    random = Random(1)
    special = {"Europe/Dublin", "Africa/Casablanca", "Asia/Gaza", "America/Nuuk", "Etc/GMT+12"}
    for name in sorted({*random.sample(NAMES, rounds(30, 500)), *special}):
        content = content_of(name)
        rules = parse_zone(name, "tzdata", content)
        zone = ZoneInfo.from_file(io.BytesIO(content))
        for instant in instants(rules, random):
            offset = (EPOCH + timedelta(seconds=instant)).astimezone(zone).utcoffset()
            assert offset is not None
            assert rules.local_second(instant) == instant + offset.total_seconds(), name


def test_rules_go_on_to_the_year_9999() -> None:
    berlin = parse_zone("Europe/Berlin", "tzdata", content_of("Europe/Berlin"))
    last = EPOCH + timedelta(seconds=berlin.changes[-1])
    assert (last.year, last.month, last.hour) == (9999, 10, 1)


def test_a_file_of_another_form_is_refused() -> None:
    for content in (b"", b"TZif", b"TZif2" + bytes(10), b"zone.tab", content_of("UTC")[:60]):
        with pytest.raises(ValueError, match="TZif"):
            parse_zone("UTC", "", content)
