"""Inputs that are lost for good: a partition continues after an operator accepts the loss."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections import Counter

import pytest

from streams.audit.log_audit import run_audit
from streams.clock import DAY_MS
from streams.errors import ClockOutOfRange, Refused
from streams.kafka.log import topics
from streams.kafka.log.kafka_log import KafkaLog
from streams.kafka.operate.lost_inputs import accept_lost_inputs
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, Watch, is_ready, new_id, request, until, working
from tests.faults.operator import Operator
from tests.forks import commands
from tests.kafka.test_repeats import ShiftedClock
from tests.streams.uncompared import uncompared

STARTS = ("streams.cli",)

WHY = "the disk of the only copy"


def ledger_of(broker: LocalBroker, application: str) -> Ledger:
    return Ledger(broker.bootstrap, application, partitions=1)


async def with_history(ledger: Ledger) -> bytes:
    """Have some requests decided; return the body of one that was granted."""
    body = request("ds", request_id=new_id())
    async with working(ledger):
        await ledger.open("ds", filter="basic", epsilon="1")
        await ledger.settle()
        await ledger.send_all([body, *(request("ds") for _ in range(9))])
        await ledger.settle()
    return body


def decisions(ledger: Ledger) -> list[dict[str, object]]:
    found = oracle.read(ledger.bootstrap, ledger.topic("decisions"), 1)[0]
    return [json.loads(record.value or b"") for record in found]


def places(ledger: Ledger, source: str = "requests") -> list[int]:
    """Return the offsets of an input that were decided, in the order of their decisions."""
    origins = [decision["source"] for decision in decisions(ledger)[1:]]
    return [o["offset"] for o in origins if o["topic"] == source]  # type: ignore[index,call-overload]


async def why_halted(ledger: Ledger) -> str:
    async with working(ledger, ready=False) as worker:
        await until(lambda: "halted" in str(worker.status.readiness()), "halted")
        return str(worker.status.readiness())


def accepting(
    ledger: Ledger, topic: str, first: int, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run the command that the halted worker names."""
    deployment = ledger.deployment
    environment = {
        **os.environ,
        "ACCOUNTANT_URL": f"kafka://{deployment.bootstrap}",
        "ACCOUNTANT_APPLICATION": deployment.application,
        "ACCOUNTANT_TOPIC_PREFIX": deployment.topics.prefix,
        "ACCOUNTANT_PARTITIONS": "1",
        **settings,
    }
    where = ["--topic", topic, "--partition", "0", "--from", str(first), "--reason", WHY, "--json"]
    return commands.run("topics", "accept-lost-inputs", *where, env=environment, text=True)


async def check_sound(ledger: Ledger, *, granted: int) -> None:
    """Check the whole log: audited, every offset once and in order, every grant charged once."""
    # A thread of its own: the auditor runs an event loop.
    ((_, report),) = await asyncio.to_thread(run_audit, KafkaLog(ledger.deployment))
    assert report.first_disagreement is None
    offsets = places(ledger)
    assert offsets == sorted(set(offsets))
    outcomes = Counter(decision["outcome"] for decision in decisions(ledger))
    assert outcomes["granted"] == granted
    spent = [d["totals"] for d in decisions(ledger) if d["outcome"] == "granted"][-1]
    assert spent["epsilon"] == f"0.{granted:03d}".rstrip("0")  # type: ignore[index]


async def test_a_partition_continues_after_deleted_requests_are_accepted_as_lost(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        granted = await with_history(ledger)
        lost = [request("ds") for _ in range(5)]
        await ledger.send_all(lost)
        await ledger.send_all(request("ds") for _ in range(2))
        Operator(ledger).delete_before("requests", 0, 15)
        command = "accept-lost-inputs --topic requests --partition 0 --from 10 --reason WHY`"
        assert command in await why_halted(ledger)

        before = len(decisions(ledger))
        fast = ShiftedClock(10 * DAY_MS)
        with pytest.raises(ClockOutOfRange, match=r"10\.0 days ahead of the broker's"):
            await accept_lost_inputs(
                ledger.deployment,
                "requests",
                0,
                first=10,
                reason=WHY,
                clock=fast,
                compare=uncompared,
            )
        assert len(decisions(ledger)) == before
        for wrong in ({"first": 11}, {"first": 10, "source": "admin"}):
            where = {"source": "requests", "partition": 0, "reason": WHY, **wrong}
            where["compare"] = uncompared
            with pytest.raises(Refused):
                await accept_lost_inputs(ledger.deployment, **where)  # type: ignore[arg-type]
        assert len(decisions(ledger)) == before

        deployment = ledger.deployment
        done = await accept_lost_inputs(
            deployment, "requests", 0, first=10, reason=WHY, compare=uncompared
        )
        assert "gives up offsets 10 to 14" in done
        given_up = decisions(ledger)[-1]
        assert (given_up["outcome"], given_up["reason"]) == ("invalid", "undecodable")
        letters = oracle.read(broker.bootstrap, ledger.topic("dead_letters"), 1)[0]
        assert WHY.encode() in (letters[-1].value or b"")
        with pytest.raises(Refused, match="not 10"):
            await accept_lost_inputs(
                deployment, "requests", 0, first=10, reason=WHY, compare=uncompared
            )

        async with working(ledger, settle=False):
            assert (await ledger.decided(granted))["outcome"] == "repeated"
            # Send the lost requests again, unchanged.
            assert (await ledger.decided(lost[0]))["outcome"] == "granted"
        assert places(ledger) == [*range(10), 14, 15, 16, 17, 18]
        await check_sound(ledger, granted=13)


async def test_a_recreated_topic_is_filled_up_and_nothing_is_decided_twice(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        granted = await with_history(ledger)
        Operator(ledger).delete("requests")
        await topics.create(ledger.deployment)
        early = request("ds")
        await ledger.send_all([granted, early])
        assert "--topic requests --partition 0 --from 10 --reason WHY`" in await why_halted(ledger)

        progress: list[tuple[int, int]] = []
        done = await accept_lost_inputs(
            ledger.deployment,
            "requests",
            0,
            first=10,
            reason=WHY,
            progress=lambda count, of: progress.append((count, of)),
            compare=uncompared,
        )
        assert "Records before 10 are never decided (2 existed)" in done
        assert progress == [(8, 8)]
        with pytest.raises(Refused, match="nothing is lost"):
            await accept_lost_inputs(
                ledger.deployment, "requests", 0, first=10, reason=WHY, compare=uncompared
            )

        async with working(ledger, settle=False):
            assert (await ledger.decided(granted))["outcome"] == "repeated"
            assert (await ledger.decided(early))["outcome"] == "granted"
        assert places(ledger) == list(range(12))
        await check_sound(ledger, granted=11)


async def test_a_partition_continues_after_deleted_admin_records_are_accepted_as_lost(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        await with_history(ledger)
        Operator(ledger).delete("admin")
        await topics.create(ledger.deployment)
        assert "--topic admin --partition 0 --from 1 --reason WHY`" in await why_halted(ledger)
        done = await asyncio.to_thread(accepting, ledger, "admin", 1)
        assert done.returncode == 0, done.stderr
        assert "filled up from offset 0 to 1" in json.loads(done.stdout)["done"][0]
        async with working(ledger, settle=False):
            (place,) = await ledger.open("other")
            assert (await ledger.decision(place))["outcome"] == "opened"
            (place,) = await ledger.open("ds")
            assert (await ledger.decision(place))["reason"] == "already_opened"
        await check_sound(ledger, granted=10)


async def test_a_setting_that_differs_from_the_genesis_is_named_and_not_called_damage(
    broker: LocalBroker, application: str
) -> None:
    async with ledger_of(broker, application) as ledger:
        wrong = {"ACCOUNTANT_WINDOW_MS": "1800000"}
        done = await asyncio.to_thread(accepting, ledger, "requests", 0, **wrong)
        assert done.returncode == 4
        message = " ".join(done.stderr.split())
        assert "the setting is 1800000: set ACCOUNTANT_WINDOW_MS=3600000" in message
        assert "damaged" not in message
        assert "audit" not in message


async def test_a_running_worker_is_not_disturbed_if_nothing_is_lost(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    async with ledger_of(broker, application) as ledger:
        await with_history(ledger)
        async with working(ledger, observers=[watch]) as worker:
            for first in (10, 3):
                with pytest.raises(Refused):
                    await accept_lost_inputs(
                        ledger.deployment,
                        "requests",
                        0,
                        first=first,
                        reason=WHY,
                        compare=uncompared,
                    )
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
            assert is_ready(worker)
        assert (watch.refolds, watch.errors) == (1, [])
