"""What the server's page says of people who are in several datasets."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from streams.cli.reading.dataset_reader import find_dataset, reader, with_joint_guarantee
from streams.clock import DAY_MS
from streams.embedded.file_ownership import stopped_ledger
from streams.evidence.operator_records import reset_clock
from streams.pages import PAGES
from streams.pages.paths import dataset_page
from streams.server.app import Pages
from streams.settings import Settings
from tests.streams.auth.roles_server import RolesServer
from tests.streams.cli.here import run_here
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.uncompared import uncompared

DAY_S = DAY_MS / 1000


@pytest.fixture(scope="session")
def pages() -> Pages:
    return PAGES


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[RolesServer]:
    with RolesServer(tmp_path, pages=PAGES) as made:
        yield made


def test_the_page_sums_the_guarantees_of_one_population(server: LocalServer) -> None:
    assert "Datasets about the same people" not in server.http.get("/").text
    server.open("city-1", epsilon="0.5", delta="1e-6", population="city")
    server.open("city-2", epsilon="0.25", population="city")
    page = server.http.get("/").text
    assert "<td>city</td><td>city-1, city-2</td><td>ε = 0.75, δ = 1e-6</td>" in page
    server.clock.pass_(seconds=1)  # type: ignore[attr-defined]
    server.ask(dataset="city-1")
    server.open("city-3", population="city")
    why = "city-3 was opened after something was granted on city-1"
    assert f"<td>no guarantee: {why}</td>" in server.http.get("/").text


def test_after_a_clock_reset_a_population_has_no_joint_guarantee(
    file: Path, clock: TestClock
) -> None:
    clock.pass_(seconds=2 * DAY_S)
    with LocalServer(file, clock) as ahead:
        ahead.open("city-1", population="city")
        ahead.open("town-1", population="town")
        ahead.open("town-2", population="town")
        assert ahead.ask(dataset="city-1").json()["outcome"] == "granted"
    clock.pass_(seconds=-2 * DAY_S)
    with stopped_ledger(file, Settings(), clock.now()) as (journal, genesis):
        done = reset_clock(journal, genesis, clock, "two days ahead", compare=uncompared)
        assert asyncio.run(done) is not None
    clock.pass_(seconds=301)
    with LocalServer(file, clock, pages=PAGES) as server:
        server.open("city-2", population="city")
        why = (
            "the ledger's clock was set back, so it is not known whether city-2 was opened after "
            "something was granted on city-1"
        )
        assert f"<td>no guarantee: {why}</td>" in html.unescape(server.http.get("/").text)
        result = {
            row["dataset"]: row["joint_guarantee"] for row in server.http.get("/datasets").json()
        }
        assert result["city-1"] == result["city-2"]
        assert result["city-1"]["why"] == why
        assert result["town-1"]["epsilon"] == "2"
        assert server.http.get("/datasets/city-1").json()["joint_guarantee"] == result["city-1"]
        with reader(f"sqlite:///{file}") as ledger:
            for name, joint in result.items():
                view = find_dataset(ledger, name)
                assert view is not None
                shown = with_joint_guarantee(view, ledger)
                assert json.loads(msgspec.json.encode(shown.joint_guarantee)) == joint
        asked = server.ask(dataset="town-2").json()
        assert asked["outcome"] == "granted"
        joint_before = server.http.get("/datasets/town-1").json()["joint_guarantee"]
        assert "not known whether town-1 was opened after" in joint_before["why"]


@pytest.mark.parametrize("visibility", ["own", "members"])
def test_every_caller_gets_the_joint_guarantee_without_hidden_names(
    roles: RolesServer, visibility: str
) -> None:
    policy = {"access": "members", "visibility": visibility, "population": "city"}
    for name, epsilon in (("city-1", "0.5"), ("city-2", "0.25"), ("city-3", "0.125")):
        roles.open_for_olga(name, **policy, epsilon=epsilon)
    for name, role in (("ana", "analyst"), ("eng", "engine"), ("aud", "auditor")):
        roles.enrol("city-1", name, role)
    for name in ("ana", "eng", "aud", "olga", "root"):
        assert joint_of(roles, name) == ("0.875", None), name
    assert "city" not in roles.see("zoe", "/").text
    roles.clock.pass_(seconds=1)  # type: ignore[attr-defined]
    roles.enrol("city-3", "ben", "analyst")
    roles.granted("city-3", "ben")
    roles.open_for_olga("city-4", **policy)
    for name in ("ana", "eng", "aud"):
        why = "another dataset was opened after something was granted on another dataset"
        assert joint_of(roles, name) == (None, why), name
    for name in ("olga", "root"):
        why = "city-4 was opened after something was granted on city-3"
        assert joint_of(roles, name) == (None, why), name


def joint_of(roles: RolesServer, name: str) -> tuple[str | None, str | None]:
    """Return the sum of epsilon, or why there is none: as every way of reading tells it."""
    result = roles.see(name, "/datasets/city-1").json()["joint_guarantee"]
    (listed, *_) = [
        row["joint_guarantee"]
        for row in roles.see(name, "/datasets").json()
        if "joint_guarantee" in row
    ]
    assert listed == result
    epsilon, why = result.get("epsilon"), result.get("why")
    hidden = result.get("others", 0)
    assert hidden == (0 if name in {"olga", "root"} else 2 if why is None else 3)
    texts = [
        roles.see(name, "/").text,
        roles.see(name, dataset_page("city-1")).text,
        command(roles, name, "show", "city-1"),
        command(roles, name, "list"),
    ]
    for text in texts:
        text_read = " ".join(text.split())
        assert str(epsilon or why) in text_read
        assert "0.875" in text_read or why is not None
        if hidden:
            assert f"city-1 and {hidden} other datasets" in text_read
            assert not {"city-2", "city-3", "city-4"} & set(re.findall(r"[a-z0-9-]+", text_read))
    return epsilon, why


def command(roles: RolesServer, name: str, *arguments: str) -> str:
    """Return what `accountant dataset` prints for somebody."""
    variables = {"ACCOUNTANT_TOKEN": roles.tokens[name], "COLUMNS": "300"}
    done = run_here(roles.path.parent, "dataset", *arguments, "--url", roles.url, **variables)
    assert done.code == 0, done.err
    return done.out
