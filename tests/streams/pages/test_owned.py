"""The page of an owner's datasets: what runs out first, who is refused, what waits."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.streams.gateway.records import request
from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.test_page import words


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    """A server where olga owns three datasets, and opie another."""
    with PagesServer(tmp_path_factory.mktemp("owned")) as made:
        made.furnish()
        made.limited("analyst", "otto", part="0.1")
        made.ask("otto", "0.09")
        made.limited("analyst", "ben", part="0.3")
        for name in ("zoe", "opie"):
            made.enrol("survey", name, "analyst", team="pace")
        made.limited("each", "pace", part="0.01")
        made.ask("zoe", "0.009")
        made.ask("opie", "0.009")
        made.limited("analyst", "opie", part="0.9")
        made.open_for_olga("calm", epsilon="9")
        made.open_for_olga("asked", epsilon="1", approve_above="0.1")
        made.open_for_olga("opies", epsilon="1")
        made.enrol("opies", "opie", "owner")
        made.enrol("opies", "olga", "auditor")
        claim = {"type": "pure", "epsilon": "0.5"}
        body = request(made.clock, dataset="asked", analyst="ana", claim=claim)
        assert made.send("ana", "/requests", body).status_code == 202
        ask = {"version": 1, "type": "more", "by": "ana", "dataset": "calm", "wants": "access"}
        made.enrol("calm", "ana", "analyst")
        more = {**ask, "role": "auditor", "reason": "the report"}
        made.done("ana", "/datasets/calm/more", more, "more_asked")
        yield made


def shown(server: PagesServer, name: str | None, sort: str = "") -> tuple[list[str], str]:
    """Return the datasets in their order, and the words of the page."""
    path = f"/pages/owned?sort={sort}"
    text = server.http.get(path, headers=server.auth_headers(name)).text
    return re.findall('<tr><th scope="row"><a href="[^"]*">([^<]*)</a></th>', text), words(text)


def test_an_owner_sees_what_runs_out_waits_and_is_refused(office: PagesServer) -> None:
    names, text = shown(office, "olga")
    assert names[0] == "survey"
    assert set(names) == {"survey", "calm", "asked"}
    assert "Requests wait for approval, or asks for more for an answer, on 2 of 3." in text
    assert "asks: 1 for more of calm" in text
    assert "2 refusals on survey ana 1, otto 1" in text
    assert "1 request on asked" in text


def test_an_owner_sees_who_is_near_a_limit(office: PagesServer) -> None:
    names, text = shown(office, "olga", "near")
    assert names[0] == "survey"
    near = "analyst otto 90 %, analyst zoe (default of team pace) 90 %"
    assert f"2 limits of survey nearly used {near}" in text, text
    assert "ben 20" not in text


def test_each_order_has_its_first_row(office: PagesServer) -> None:
    assert shown(office, "olga", "waits")[0][0] == "asked"
    assert shown(office, "olga", "refused")[0][0] == "survey"
    assert shown(office, "olga", "<script>")[0] == shown(office, "olga")[0]


def test_nobody_sees_the_datasets_of_other_owners(office: PagesServer) -> None:
    assert shown(office, "opie")[0] == ["opies"]
    for name in ("ana", "aud", "root"):
        names, text = shown(office, name)
        assert names == []
        assert "You own no dataset." in text
        assert "otto" not in text
