"""What the door's page says of people who are in several datasets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.gateway.pages.paths import dataset_page
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
    door.clock.pass_(seconds=1)  # type: ignore[attr-defined]
    door.ask(dataset="city-1")
    door.open("city-3", population="city")
    why = "city-3 was opened after something was granted on city-1"
    assert f"<td>no (epsilon, delta): {why}</td>" in door.http.get("/").text


@pytest.mark.parametrize("visibility", ["own", "members"])
def test_the_joint_guarantee_is_everybodys_and_names_no_hidden_dataset(
    known: RolesDoor, visibility: str
) -> None:
    policy = {"access": "members", "visibility": visibility, "population": "city"}
    for name, epsilon in (("city-1", "0.5"), ("city-2", "0.25"), ("city-3", "0.125")):
        known.open_for_olga(name, **policy, epsilon=epsilon)
    for name, role in (("ana", "analyst"), ("eng", "engine"), ("aud", "auditor")):
        known.enrol("city-1", name, role)
    for name in ("ana", "eng", "aud", "olga", "root"):
        assert joint_of(known, name) == ("0.875", None), name
    assert "city" not in known.see("zoe", "/").text
    known.clock.pass_(seconds=1)  # type: ignore[attr-defined]
    known.enrol("city-3", "ben", "analyst")
    known.granted("city-3", "ben")
    known.open_for_olga("city-4", **policy)
    for name in ("ana", "eng", "aud"):
        why = "another dataset was opened after something was granted on another dataset"
        assert joint_of(known, name) == (None, why), name
    for name in ("olga", "root"):
        why = "city-4 was opened after something was granted on city-3"
        assert joint_of(known, name) == (None, why), name


def joint_of(known: RolesDoor, name: str) -> tuple[str | None, str | None]:
    """Return the sum of epsilon, or why there is none: as every way of reading tells it."""
    told = known.see(name, "/datasets/city-1").json()["joint_guarantee"]
    (listed, *_) = [
        row["joint_guarantee"]
        for row in known.see(name, "/datasets").json()
        if "joint_guarantee" in row
    ]
    assert listed == told
    epsilon, why = told.get("epsilon"), told.get("why")
    hidden = told.get("others", 0)
    assert hidden == (0 if name in {"olga", "root"} else 2 if why is None else 3)
    texts = [
        known.see(name, "/").text,
        known.see(name, dataset_page("city-1")).text,
        command(known, name, "show", "city-1"),
        command(known, name, "list"),
    ]
    for text in texts:
        said = " ".join(text.split())
        assert str(epsilon or why) in said
        assert "0.875" in said or why is not None
        if hidden:
            assert f"city-1 and {hidden} other datasets" in said
            assert not {"city-2", "city-3", "city-4"} & set(re.findall(r"[a-z0-9-]+", said))
    return epsilon, why


def command(known: RolesDoor, name: str, *arguments: str) -> str:
    """Return what `accountant dataset` prints for somebody."""
    token = {"ACCOUNTANT_TOKEN": known.tokens[name], "COLUMNS": "300"}
    command = [sys.executable, "-m", "streams.cli", "dataset", *arguments, "--url", known.url]
    done = subprocess.run(
        command, env=os.environ | token, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
