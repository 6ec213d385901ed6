"""The same id again, on a real broker: never a second charge."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from datetime import datetime
from typing import Any

from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, is_ready, new_id, request, until, working

WINDOW_MS = 2_000
SKEW_MS = 2_000


def now() -> int:
    return time.time_ns() // 1_000_000


class ShiftedClock:
    """The machine's clock, wrong by so many milliseconds."""

    def __init__(self, by: int = 0) -> None:
        self.by = by

    def now(self) -> int:
        return now() + self.by

    def monotonic(self) -> float:
        return time.monotonic()


def ledger_of(broker: LocalBroker, application: str, **options: Any) -> Ledger:
    return Ledger(broker.bootstrap, application, partitions=1, **options)


async def test_the_same_id_again_across_restarts(broker: LocalBroker, application: str) -> None:
    async with ledger_of(broker, application) as ledger:
        body = request("ds", purpose="first")
        same_id = json.loads(body)["request_id"]
        other = request("ds", epsilon="0.002", request_id=same_id)
        anothers = request("ds", analyst="bob", request_id=same_id)
        refused = request("ds", epsilon="7")
        opened = None
        for restart in range(3):
            async with working(ledger):
                if opened is None:
                    (opened,) = await ledger.open("ds")
                    first = await ledger.decided(body)
                    assert first["outcome"] == "granted"
                    assert (await ledger.decided(refused))["outcome"] == "refused"
                    assert (await ledger.decided(anothers))["outcome"] == "granted"
                for again in (body, b"  " + body + b"\n"):
                    repeated = await ledger.decided(again)
                    assert repeated["outcome"] == "repeated", restart
                    named = repeated["first"]
                    assert named["outcome"] == "granted"
                    assert named["cost"] == first["cost"]
                    assert named["partition_sequence"] == first["partition_sequence"]
                    assert named["decided_at"] == first["decided_at"]
                    assert named["hash"] == log_hash(ledger, named["partition_sequence"])
                assert (await ledger.decided(refused))["first"]["reason"] == "exhausted"
                assert (await ledger.decided(other))["outcome"] == "conflict"
                assert (await ledger.decided(anothers))["outcome"] == "repeated"
        verdict = await ledger.judged()
        assert verdict.outcomes == {
            "opened": 1, "granted": 2, "refused": 1, "repeated": 12, "conflict": 3
        }  # fmt: skip
        assert str(verdict.granted["ds"]) == "1/500"


def log_hash(ledger: Ledger, number: int) -> str:
    """Return the hash of a decision's bytes in the log."""
    (records,) = oracle.read(ledger.bootstrap, ledger.topic("decisions"), 1)
    return f"sha256:{hashlib.sha256(records[number].value or b'').hexdigest()}"


async def test_an_id_that_left_the_window_is_expired_and_never_charged_again(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application, window_ms=WINDOW_MS, skew_ms=SKEW_MS) as ledger:
        async with working(ledger):
            await ledger.open("ds")
            await ledger.settle()
            issued = now()
            body = request("ds", request_id=new_id(issued))
            # Issued by a clock that runs ahead: remembered so much longer.
            ahead = request("ds", request_id=new_id(issued + SKEW_MS - 1_000))
            too_far = request("ds", request_id=new_id(issued + SKEW_MS + 2_000))
            # Sent together: the time at which the broker takes them decides.
            places = await ledger.send_all([body, ahead, body, too_far])
            first = [await ledger.decision(place) for place in places]
            assert [each["outcome"] for each in first] == [
                "granted", "granted", "repeated", "invalid"
            ]  # fmt: skip
            assert first[-1]["reason"] == "issued_in_future"
        await until(lambda: now() > issued + WINDOW_MS + 500, "`body` leaves the window")
        async with working(ledger):
            # An invalid one is not remembered: its time has come, and it is charged once.
            assert (await ledger.decided(too_far))["outcome"] == "granted"
            assert (await ledger.decided(too_far))["outcome"] == "repeated"
            assert (await ledger.decided(body))["outcome"] == "expired"
            assert (await ledger.decided(ahead))["outcome"] in {"repeated", "expired"}
            left = issued + SKEW_MS - 1_000 + WINDOW_MS
            await until(lambda: now() > left + 500, "`ahead` leaves the window")
            assert (await ledger.decided(ahead))["outcome"] == "expired"
        async with working(ledger):
            for each in (body, ahead):
                assert (await ledger.decided(each))["outcome"] == "expired"
        verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == 3


async def test_a_workers_fast_clock_dates_no_decision(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        body = request("ds")
        for hours in (0, 2, 1):
            async with working(ledger, clock=ShiftedClock(hours * 3_600_000)):
                if not hours:
                    await ledger.open("ds")
                decision = await ledger.decided(body)
                assert decision["outcome"] == ("repeated" if hours else "granted")
                decided_at = datetime.fromisoformat(decision["decided_at"]).timestamp() * 1000
                assert decided_at <= now()
        await ledger.judged()


async def test_a_worker_with_a_slow_clock_stops_until_the_clock_is_corrected(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        body = request("ds")
        async with working(ledger):
            await ledger.open("ds")
            assert (await ledger.decided(body))["outcome"] == "granted"
        clock = ShiftedClock(-600_000)
        async with working(ledger, clock=clock, ready=False) as worker:
            await until(
                lambda: "behind the last decision" in str(worker.status.readiness()), "refusal"
            )
            place = await ledger.send(body)
            await asyncio.sleep(1)
            assert ledger.visible() == 3
            await until(lambda: not is_ready(worker), "it refuses again")
        async with working(ledger):
            assert (await ledger.decision(place))["outcome"] == "repeated"
        await ledger.judged()
