"""What the door's page says of people who are in several datasets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streams.gateway.access.roles_door import RolesDoor
from tests.streams.gateway.door import Door


@pytest.fixture
def known(tmp_path: Path) -> Iterator[RolesDoor]:
    with RolesDoor(tmp_path) as made:
        yield made


def test_datasets_of_one_population_are_added_up(door: Door) -> None:
    assert "The same people" not in door.http.get("/").text
    door.open("city-1", epsilon="0.5", delta="1e-6", population="city")
    door.open("city-2", epsilon="0.25", population="city")
    page = door.http.get("/").text
    assert "<td>city</td><td>city-1, city-2</td><td>epsilon 0.75, delta 0.000001</td>" in page
    assert "that you see" not in page
    door.clock.pass_(seconds=1)  # type: ignore[attr-defined]
    door.ask(dataset="city-1")
    door.open("city-3", population="city")
    why = "city-3 was opened after something was granted on city-1"
    assert f"<td>no (epsilon, delta): {why}</td>" in door.http.get("/").text


def test_a_dataset_that_is_not_seen_is_in_no_sum(known: RolesDoor) -> None:
    for name, epsilon in (("city-1", "0.5"), ("city-2", "0.25")):
        known.open_for_olga(name, access="members", epsilon=epsilon, population="city")
    known.enrol("city-1", "ana", "analyst")
    mine = known.see("ana", "/").text
    assert "<td>city</td><td>city-1</td><td>epsilon 0.5, delta 0</td>" in mine
    assert "Of the datasets that you see; there may be others." in mine
    assert "city-2" not in mine
    assert "city" not in known.see("zoe", "/").text
    whole = known.see("root", "/").text
    assert "epsilon 0.75, delta 0" in whole
    assert "that you see" not in whole
