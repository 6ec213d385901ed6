"""Answers over HTTP by role: own ones, others' as `visibility` says, hidden ones as unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.every_case import check_each
from tests.streams.auth.answering_roles import AnsweringRoles
from tests.streams.auth.roles_server import KINDS, ROLES
from tests.streams.auth.visible import SEE_ALL, status
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import asking
from tests.streams.gateway.records import new_id


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnsweringRoles]:
    with AnsweringRoles(tmp_path_factory.mktemp("answers")) as server:
        server.furnish()
        for dataset in KINDS:
            server.ask_all(dataset)
        yield server


def seen_by(name: str | None, dataset: str) -> set[str]:
    """Return whose answers somebody reads on a dataset, by sender."""
    if status(name, dataset) != 200:
        return set()
    access, visibility = KINDS[dataset]
    is_analyst = access == "anyone" or name in {"ana", "ben"}
    if name in SEE_ALL or (visibility == "members" and is_analyst):
        return {"ana", "eng", "ben"}
    return {"ana": {"ana", "eng"}, "ben": {"ben"}, "eng": {"eng"}}.get(str(name), set())


def test_everybody_reads_own_answers_and_others_as_visibility_says(
    furnished: AnsweringRoles,
) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        for sender, analyst in (("ana", "ana"), ("eng", "ana"), ("ben", "ben")):
            query = {"dataset": dataset, "analyst": analyst}
            path = f"/answers/{furnished.asked[dataset, sender]}"
            answer = furnished.see(name, path, **query)
            if name is None:
                assert answer.status_code == 401
            elif sender in seen_by(name, dataset):
                assert answer.json()["request_id"] == furnished.asked[dataset, sender]
                assert answer.json()["analyst"] == analyst
            else:
                unknown = furnished.see(name, f"/answers/{new_id(furnished.clock)}", **query)
                assert answer.status_code == unknown.status_code == 404
                hidden, missing = answer.json(), unknown.json()
                hidden.pop("value"), missing.pop("value")
                assert hidden == missing

    check_each(check_case, KINDS, ROLES.values())


def test_a_list_has_the_answers_that_its_reader_may_see(furnished: AnsweringRoles) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        answer = furnished.see(name, f"/datasets/{dataset}/answers")
        assert answer.status_code == status(name, dataset)
        if answer.status_code != 200:
            return
        senders = seen_by(name, dataset)
        if senders == {
            "eng"
        }:  # a list knows analysts alone: an engine reads its answers one by one
            senders = set()
        found = {each["request_id"] for each in answer.json()["answers"]}
        assert found == {furnished.asked[dataset, each] for each in senders}

    check_each(check_case, KINDS, ROLES.values())


def test_without_a_name_an_analyst_gets_their_own_answer(furnished: AnsweringRoles) -> None:
    for name, code in (("ana", 200), ("ben", 404), ("olga", 404)):
        path = f"/answers/{furnished.asked['closed-own', 'ana']}"
        assert furnished.see(name, path, dataset="closed-own").status_code == code


def test_a_member_who_was_removed_reads_nothing_more(tmp_path: Path) -> None:
    with AnsweringRoles(tmp_path) as server:
        server.furnish()
        server.ask_all("closed-all")
        path = f"/answers/{server.asked['closed-all', 'ana']}"
        assert server.see("ana", path, dataset="closed-all").status_code == 200
        server.enrol("closed-all", "ana")
        answer = server.see("ana", path, dataset="closed-all")
        assert (answer.status_code, answer.json()["error"]) == (404, "unknown_dataset")


def test_an_engine_reads_what_it_asked_while_the_id_is_remembered(tmp_path: Path) -> None:
    with AnsweringRoles(tmp_path) as server:
        server.furnish()
        server.ask_all("closed-own")
        path = f"/answers/{server.asked['closed-own', 'eng']}"
        query = {"dataset": "closed-own", "analyst": "ana"}
        assert server.see("eng", path, **query).status_code == 200
        assert isinstance(server.clock, TestClock)
        server.clock.pass_(seconds=2 * 3600)
        server.granted("closed-own", "ben")  # the log's clock moves with its decisions
        assert server.see("eng", path, **query).status_code == 404
        assert server.see("ana", path, **query).status_code == 200


@pytest.mark.parametrize("name", ["ana", "ben", "olga"])
def test_events_have_the_answers_that_their_reader_may_see(
    furnished: AnsweringRoles, name: str
) -> None:
    path, senders = "/datasets/closed-own/answers/events", seen_by(name, "closed-own")
    found = set[str]()
    # Answers are in the order of their storage: a hidden one would come before ben's.
    with furnished.http.stream("GET", path, headers=furnished.auth_headers(name)) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                found.add(json.loads(line.removeprefix("data: "))["request_id"])
            if len(found) == len(senders):
                break
    assert found == {furnished.asked["closed-own", each] for each in senders}
    assert furnished.see("zoe", path).status_code == 404


def test_the_stream_of_a_member_who_is_removed_ends(tmp_path: Path) -> None:
    with AnsweringRoles(tmp_path) as server:
        server.furnish()
        path = "/datasets/closed-all/answers/events"
        with server.http.stream("GET", path, headers=server.auth_headers("ben")) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": answers after 0"
            server.enrol("closed-all", "ben")
            body = asking(server.clock, "closed-all", "ana")
            server.done("ana", "/requests", body, "granted")
            assert [line for line in lines if line.startswith("data")] == []
