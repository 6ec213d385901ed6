"""One contract for many requests at once: of a ledger in a file, on Kafka and behind a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from accountant.errors import BudgetError, RequestInvalid
from accountant.records.inputs import check
from streams.client.http.service import HttpService
from streams.clock import SystemClock
from streams.embedded.file_reader import FileReader
from streams.errors import Refused
from streams.service.ledger_service import Service, Submission
from tests.patience import PATIENCE_S
from tests.streams.gateway.local_server import LocalServer
from tests.streams.test_usage_contract import InFile, OnKafka, open_two


@pytest.fixture(params=["file", "http", pytest.param("kafka", marks=pytest.mark.kafka)])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    """A service of a ledger with d0 and d1 open, of two partitions on Kafka."""
    if request.param == "http":
        with LocalServer(tmp_path / "ledger.db", SystemClock()) as server:
            service = HttpService(server.url)
            await open_two(service)
            yield service
            await service.close()
        return
    made: InFile | OnKafka = InFile(tmp_path)
    if request.param == "kafka":
        bootstrap = request.getfixturevalue("broker").bootstrap
        made = OnKafka(bootstrap, request.getfixturevalue("application"), tmp_path)
        await made.start()
    opened = await made.open()
    await open_two(opened)
    yield opened
    await opened.close()
    await made.close()


def asked(number: int, **more: Any) -> bytes:
    from tests.faults.ledger import request

    return request(f"d{number % 2}", **more)


def line(answer: Submission | BudgetError) -> dict[str, Any]:
    assert isinstance(answer, Submission), answer
    assert answer.decision is not None
    found: dict[str, Any] = json.loads(answer.decision)
    return found


async def send(
    service: Service, bodies: Sequence[bytes], *, wait: float = 60, checks: bool = False
) -> list[Submission | BudgetError]:
    checked = [check("requests", body) for body in bodies] if checks else None
    return await service.submit_many(bodies, wait=wait, checked=checked)


async def settled(service: Service, body: bytes) -> bytes:
    """Return the decision on a request that was sent without a wait."""
    sent = json.loads(body)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await service.find(sent["dataset"], sent["analyst"], sent["request_id"])
            if found is not None:
                return found
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("checks", [False, True])
async def test_each_of_many_gets_its_own_decision_in_order(ledger: Service, checks: bool) -> None:
    bodies = [asked(number) for number in range(40)]
    bodies[5] = asked(5, epsilon="5")
    bodies += [bodies[3], json.dumps(json.loads(bodies[4]) | {"purpose": "another"}).encode()]
    found = [line(each) for each in await send(ledger, bodies, checks=checks)]
    assert [each["request"] for each in found] == list(map(json.loads, bodies))
    wanted = ["granted"] * 5 + ["refused"] + ["granted"] * 34 + ["repeated", "conflict"]
    assert [each["outcome"] for each in found] == wanted
    for name in ("d0", "d1"):
        own = [each["partition_sequence"] for each in found if each["dataset"] == name]
        assert own == sorted(own)


async def test_the_same_requests_again_are_charged_once(ledger: Service) -> None:
    bodies = [asked(number) for number in range(20)]
    first = [line(each) for each in await send(ledger, bodies)]
    again = [line(each) for each in await send(ledger, bodies)]
    assert {each["outcome"] for each in first} == {"granted"}
    assert {each["outcome"] for each in again} == {"repeated"}
    for dataset in ("d0", "d1"):
        view = await ledger.dataset(dataset)
        assert view is not None
        assert view.totals is not None
        assert view.totals["epsilon"] == "0.01"


async def test_without_a_wait_all_are_undecided_and_decided_later(ledger: Service) -> None:
    bodies = [asked(number) for number in range(20)]
    found = await send(ledger, bodies, wait=0)
    for each in found:
        assert isinstance(each, Submission)
        assert each.decision is None or line(each)["outcome"] == "granted"
    for body in bodies:
        assert b'"outcome":"granted"' in await settled(ledger, body)
    again = [line(each) for each in await send(ledger, bodies)]
    assert {each["outcome"] for each in again} == {"repeated"}


async def test_hundreds_are_more_than_one_batch_of_a_partition(ledger: Service) -> None:
    bodies = [asked(number, purpose="x" * 200, epsilon="0.0001") for number in range(700)]
    found = [line(each) for each in await send(ledger, bodies, checks=True)]
    assert [each["request"] for each in found] == list(map(json.loads, bodies))
    assert {each["outcome"] for each in found} == {"granted"}
    for name in ("d0", "d1"):
        own = [each["sequence"] for each in found if each["dataset"] == name]
        assert own == [*range(own[0], own[0] + 350)]


async def test_none_of_none(ledger: Service) -> None:
    assert await send(ledger, []) == []


async def test_two_callers_at_once_get_their_own(ledger: Service) -> None:
    calls = [[asked(number) for number in range(30)] for _ in range(5)]
    found = await asyncio.gather(*[send(ledger, bodies) for bodies in calls])
    for bodies, answers in zip(calls, found, strict=True):
        lines = [line(each) for each in answers]
        assert [each["request"] for each in lines] == list(map(json.loads, bodies))
        assert {each["outcome"] for each in lines} == {"granted"}


async def test_a_body_that_breaks_a_rule_harms_no_other(ledger: Service) -> None:
    bad = json.dumps(json.loads(asked(1)) | {"unit": 7}).encode()
    one, wrong, other = await send(ledger, [asked(0), bad, asked(1)])
    assert line(one)["outcome"] == line(other)["outcome"] == "granted"
    if isinstance(ledger, HttpService):
        assert isinstance(wrong, RequestInvalid)
    else:
        assert line(wrong)["outcome"] == "invalid"


async def test_a_call_that_is_given_up_loses_nothing(ledger: Service) -> None:
    bodies = [asked(number) for number in range(20)]
    call = asyncio.create_task(send(ledger, bodies))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    again = [line(each) for each in await send(ledger, bodies)]
    assert {each["outcome"] for each in again} <= {"granted", "repeated"}
    view = await ledger.dataset("d0")
    assert view is not None
    assert view.totals is not None
    assert view.totals["epsilon"] == "0.01"


async def test_a_file_that_is_only_read_refuses_each(tmp_path: Path) -> None:
    service = await InFile(tmp_path).open()
    await service.close()
    reading = FileReader(tmp_path / "ledger.db", SystemClock())
    found = await reading.submit_many([asked(0), asked(1)], wait=1)
    assert [type(each) for each in found] == [Refused] * 2
    await reading.close()
