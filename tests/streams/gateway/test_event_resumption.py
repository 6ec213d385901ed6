"""A stream of events that was cut goes on at Last-Event-ID: nothing is lost or comes twice."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from accountant.records.http_bodies import served_decision
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.gateway.events.position import Position
from streams.gateway.events.stream import MAX_BEHIND
from tests.nightly import rounds
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill
from tests.streams.gateway.cut_streams import (
    Connection,
    Event,
    Refusal,
    read_until,
    read_with_cuts,
)
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import amending

SMALL = {"type": "pure", "epsilon": "0.001"}
Expected = list[tuple[str, Any]]


def now(server: LocalServer) -> str:
    """Return the id with which a stream begins now."""
    (event, *_) = read_until(server.url, bool)
    assert event.kind == ""
    return event.id


def logged(file: Path, *, after: int = -1) -> list[bytes]:
    """Return the decisions of the file after a number."""
    return list(read_decisions(file, first=after + 1))


def expected(values: list[bytes]) -> Expected:
    """Return the events of decisions: each one, and after it the thresholds that it crossed."""
    found: Expected = []
    for value in values:
        decision = json.loads(value)
        found.append(("decision", json.loads(served_decision(value))))
        generation_id = f"{decision.get('dataset')}/{decision.get('generation')}"
        found += [("alert", f"{generation_id}/{each}") for each in decision.get("crossed", ())]
    return found


def events_in(events: list[Event]) -> Expected:
    return [
        (each.kind, each.json if each.kind == "decision" else each.json["alert_id"])
        for each in events
        if each.kind
    ]


@contextmanager
def asking(server: LocalServer, count: int) -> Iterator[threading.Event]:
    """Have requests decided meanwhile, on datasets whose thresholds they cross."""
    done = threading.Event()

    def ask(first: int) -> None:
        for number in range(first, count, 3):
            name = f"d{number // 12}"
            if number % 12 == 0:
                server.open(name)
            server.ask(dataset=name, claim={"type": "pure", "epsilon": "0.15"}, analyst=f"a{first}")

    def run() -> None:
        askers = [threading.Thread(target=ask, args=(first,)) for first in range(3)]
        for each in askers:
            each.start()
        for each in askers:
            each.join()
        server.open("last")
        done.set()

    running = threading.Thread(target=run)
    running.start()
    yield done
    running.join()


def is_complete(events: list[Event]) -> bool:
    return bool(events) and events[-1].kind == "decision" and '"dataset":"last"' in events[-1].data


@pytest.mark.parametrize("seed", range(rounds(1, 12)))
def test_a_stream_cut_anywhere_loses_and_repeats_no_event(
    server: LocalServer, file: Path, seed: int
) -> None:
    begin, first = now(server), server.last_sequence()
    with asking(server, 240):
        events, cuts = read_with_cuts(
            [server.url], begin, is_complete, chance=random.Random(seed), most=10_000
        )
    found = events_in(events)
    assert cuts > 20
    assert found == expected(logged(file, after=first))
    assert sum(kind == "alert" for kind, _ in found) >= 20
    # Each id once more, from the beginning: what comes after it is the rest.
    for number in random.Random(seed).sample(range(len(events) - 1), 25):
        rest = read_until(server.url, is_complete, last=events[number].id)
        assert events_in(rest) == found[number + 1 :]


def test_an_alert_follows_its_decision_live_and_replayed(
    server: LocalServer,
) -> None:
    begin = now(server)
    connection = Connection(server.url)
    server.ask(claim={"type": "pure", "epsilon": "0.85"})
    live: list[Event] = []
    while sum(each.kind == "alert" for each in live) < 2:
        live += [each for each in connection.read() if each.kind]
    connection.close()
    later = read_until(server.url, lambda found: len(found) == 4, last=begin)[1:]
    assert later == live
    decision, *alerts = live
    assert [each.json["threshold"] for each in alerts] == decision.json["crossed"] == ["0.5", "0.8"]
    assert {each.json["decided_at"] for each in alerts} == {decision.json["decided_at"]}
    assert alerts[0].json["spent_ratio"] == pytest.approx(0.85)


def test_an_amendment_sends_alerts_for_new_thresholds_already_reached(
    server: LocalServer, clock: TestClock
) -> None:
    begin = now(server)
    server.ask(claim={"type": "pure", "epsilon": "0.6"})
    for fields in ({"alert_at": ["0.3", "0.5", "0.9"]}, {"horizon": "P9D"}):
        assert server.post("/datasets/census/amend", amending(clock, **fields)).status_code == 200
    server.ask(claim={"type": "pure", "epsilon": "0.01"})
    events = read_until(server.url, lambda found: len(events_in(found)) == 6, last=begin)
    kinds = [kind if kind == "decision" else value for kind, value in events_in(events)]
    first, amended = "census/1/0.5", "census/1/0.3"
    assert kinds == ["decision", first, "decision", amended, "decision", "decision"]


def test_a_filtered_stream_omits_other_events_and_can_be_resumed(
    server: LocalServer, file: Path
) -> None:
    begin, first = now(server), server.last_sequence()
    with asking(server, 96):
        pass
    whole, total = expected(logged(file, after=first)), 0
    for query, is_wanted in (
        ("?dataset=d1", lambda kind, value: _dataset(kind, value) == "d1"),
        ("?analyst=a1", lambda kind, value: kind == "alert" or _caller_of(value) == "a1"),
        ("?analyst=owner", lambda kind, value: kind == "alert" or _caller_of(value) == "owner"),
        (
            "?dataset=d2&analyst=a2",
            lambda kind, value: (
                _dataset(kind, value) == "d2" and (kind == "alert" or _caller_of(value) == "a2")
            ),
        ),
    ):
        wanted = [each for each in whole if is_wanted(*each)]
        assert 0 < len(wanted) < len(whole)
        count = len(wanted)
        events, cuts = read_with_cuts(
            [server.url],
            begin,
            lambda found, count=count: len(found) == count,
            chance=random.Random(query),
            query=query,
            most=4_000,
        )
        total += cuts
        assert events_in(events) == wanted
    assert total > 8


def _dataset(kind: str, value: Any) -> str | None:
    return value.get("dataset") if kind == "decision" else str(value).partition("/")[0]


def _caller_of(value: Any) -> str | None:
    asked = value.get("request", {})
    return asked.get("analyst") or asked.get("by")


def test_a_stream_whose_filter_matches_nothing_still_sends_positions(
    server: LocalServer, file: Path
) -> None:
    server.open("quiet")
    connection = Connection(server.url, query="?dataset=quiet")
    ids: list[str] = []
    while not ids:  # what has come first may be the comment alone
        ids += [each.id for each in connection.read()]
    # Undecodable bodies take no budget: each is a decision of its own.
    add(server.service, 2_500)
    while Position.parse(ids[-1]).numbers[0] < 2_000:  # type: ignore[union-attr]
        ids += [each.id for each in connection.read()]
    connection.close()
    assert len(ids) >= 3
    server.ask(dataset="quiet")
    rest = read_until(
        server.url, lambda found: bool(events_in(found)), last=ids[-1], query="?dataset=quiet"
    )
    assert [each.json["outcome"] for each in rest if each.kind] == ["granted"]


def add(service: EmbeddedService, count: int) -> None:
    """Have so many decisions made of bodies that are no JSON."""

    async def submit() -> None:
        remaining = count
        while remaining:
            some = min(remaining, 2_000)
            await asyncio.gather(*[service.submit("requests", b"?", wait=60) for _ in range(some)])
            remaining -= some

    asyncio.run(submit())


def test_a_position_more_than_20000_decisions_back_is_gone(server: LocalServer, file: Path) -> None:
    too_far = now(server)
    server.ask(claim=SMALL)
    begin, first = now(server), server.last_sequence()
    add(server.service, MAX_BEHIND)
    with pytest.raises(Refusal) as refused:
        read_until(server.url, bool, last=too_far)
    assert refused.value.status == 410
    problem = refused.value.problem
    assert problem["error"] == "gone"
    assert "the log has 20001 newer decisions" in problem["message"]
    assert "GET /datasets/{dataset}/requests?after=" in problem["message"]
    assert "then connect without Last-Event-ID" in problem["message"]
    events = read_until(server.url, lambda found: len(found) > MAX_BEHIND, last=begin)
    numbers = [each.json["partition_sequence"] for each in events if each.kind]
    assert numbers == list(range(first + 1, first + 1 + MAX_BEHIND))


def test_a_position_in_an_archive_is_gone(file: Path, clock: TestClock, tmp_path: Path) -> None:
    with LocalServer(file, clock) as server:
        first = now(server)
    fill(file, clock)
    with LocalServer(file, clock) as server:
        end = now(server)
        events = read_until(server.url, lambda found: _last_id(found) == end, last=first)
    archive_file(file, clock, tmp_path / "old.jsonl.gz")
    gone = 0
    with LocalServer(file, clock) as server:
        server.ask(dataset="survey", claim=SMALL)
        for number, event in enumerate(events):
            answer = server.http.head("/events", headers={"Last-Event-ID": event.id})
            if answer.status_code == 200:
                rest = read_until(server.url, is_after_seal, last=event.id)
                assert events_in(rest)[:-2] == events_in(events[number + 1 :])
                continue
            gone += 1
            assert gone == number + 1, "what is after a position that is held is held"
            with pytest.raises(Refusal, match="is in an archive") as refused:
                read_until(server.url, bool, last=event.id)
            assert refused.value.status == answer.status_code == 410
            assert "GET /datasets/{dataset}/requests?after=" in str(refused.value)
    # Also decision 0, which the file keeps: decision 1 is archived.
    assert 10 < gone < len(events) - 10


def _last_id(events: list[Event]) -> str:
    return events[-1].id if events else ""


def is_after_seal(events: list[Event]) -> bool:
    outcomes = [each.json["outcome"] for each in events if each.kind == "decision"]
    return outcomes[-2:-1] == ["sealed"]


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("0-5", "it is not an event id of this version"),
        ("census/1/0.5", "it is not an event id of this version"),
        ("2-000000000000-1", "it is not an event id of this version"),
        ("1-000000000000-01", "it is not an event id of this version"),
        ("1-000000000000-1-1.1", "it is not an event id of this version"),
        ("1-000000000000-", "it is not an event id of this version"),
        ("1-" + "0" * 12 + "-" + "9" * 16, "it is not an event id of this version"),
        ("x" * 30_000, "it is not an event id of this version"),
        ("1-000000000000-1.1", "it names 2 partitions, and this ledger has 1"),
        ("1-000000000000-0", "the log has other decisions there"),
        ("1-000000000000-1", "the log has other decisions there"),
        ("1-000000000000-999", "partition 0 has no decision 999 yet"),
    ],
)
def test_an_invalid_event_id_is_refused_with_the_reason(
    shared_server: LocalServer, last: str, why: str
) -> None:
    answer = shared_server.http.get("/events", headers={"Last-Event-ID": last})
    problem = answer.json()
    assert (answer.status_code, problem["error"]) == (400, "unknown_event_id")
    assert why in problem["message"]
    assert problem["field"] == "Last-Event-ID"
    assert len(answer.content) < 1_000
    assert not shared_server.service._announced.appended.has_readers


def test_a_position_of_another_or_restored_ledger_is_refused(
    server: LocalServer,
    file: Path,
    clock: TestClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = tmp_path / "copy.db"
    with LocalServer(tmp_path / "other.db", clock) as other:
        other.open()
        foreign = now(other)
    for _ in range(3):
        server.ask(claim=SMALL)
    server.close()
    copy.write_bytes(file.read_bytes())
    with LocalServer(file, clock) as again:
        again.ask(claim=SMALL)
        (future,) = read_until(again.url, bool)
        with pytest.raises(Refusal, match="other decisions there"):
            read_until(again.url, bool, last=foreign)
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINTS", str(tmp_path / "checkpoints"))
    with LocalServer(copy, clock) as restored_server:
        with pytest.raises(Refusal, match="has no decision 5 yet"):
            read_until(restored_server.url, bool, last=future.id)
        restored_server.ask(claim=SMALL)
        with pytest.raises(Refusal, match="restored from a copy"):
            read_until(restored_server.url, bool, last=future.id)


def test_a_position_within_a_missing_decision_is_refused(server: LocalServer) -> None:
    position = Position.parse(now(server))
    assert position is not None
    with pytest.raises(Refusal, match="has no decision 2 yet"):
        read_until(server.url, bool, last=str(position.within(0, 1)))


def test_past_alerts_have_no_event_id_and_are_not_repeated(server: LocalServer) -> None:
    server.ask(claim={"type": "pure", "epsilon": "0.6"})
    server.open("other")
    server.ask(dataset="other", claim={"type": "pure", "epsilon": "0.6"})
    alert, position = read_until(
        server.url, lambda found: len(found) == 2, query="?crossed=true&dataset=other"
    )
    assert (alert.kind, alert.id, alert.json["dataset"]) == ("alert", "", "other")
    assert (position.kind, bool(position.id)) == ("", True)
    server.ask(claim=SMALL)
    again = read_until(
        server.url, lambda found: bool(events_in(found)), last=position.id, query="?crossed=true"
    )
    assert [each.kind for each in again] == ["", "decision"]


@pytest.mark.parametrize("name", ["a%20b", "", "x" * 200])
@pytest.mark.parametrize("field", ["dataset", "analyst"])
def test_an_invalid_name_in_a_filter_is_refused(
    shared_server: LocalServer, field: str, name: str
) -> None:
    answer = shared_server.http.get(f"/events?{field}={name}")
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert not shared_server.service._announced.appended.has_readers
