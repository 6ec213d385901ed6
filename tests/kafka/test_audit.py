"""An audit of a log on Kafka learns the least end of the log from `state`."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from confluent_kafka import Producer

from accountant.errors import LogDamaged
from accountant.partition import Partition
from accountant.replay.audit import AuditReport
from streams.audit.log_audit import run_audit
from streams.audit.partition_processes import partition_processes
from streams.cli.reading.log_at import log_at
from streams.kafka.log.kafka_log import KafkaLog
from streams.processing.observers import Committed
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.forged_rows import forged, replaced
from tests.faults.ledger import Ledger, request, until, working
from tests.faults.operator import Operator
from tests.faults.worker_process import settings_of
from tests.patience import PATIENCE_S

DATASETS = ["ds-0", "ds-1", "ds-2", "ds-3"]


async def reports(ledger: Ledger) -> list[AuditReport]:
    # A thread of its own: the auditor runs an event loop.
    return [report for _, report in await asyncio.to_thread(run_audit, KafkaLog(ledger.deployment))]


async def ask(ledger: Ledger, count: int) -> None:
    await ledger.send_all(request(DATASETS[i % 4], epsilon="0.0001") for i in range(count))
    await ledger.settle()


async def test_a_cut_log_is_reported(broker: LocalBroker, application: str) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        async with working(ledger):
            await ledger.open(*DATASETS)
            await ask(ledger, 40)
        assert [report.ok for report in await reports(ledger)] == [True, True]

        whole = oracle.read(broker.bootstrap, ledger.topic("decisions"), 2)
        operator = Operator(ledger)
        await asyncio.to_thread(operator.delete, "decisions")
        await asyncio.to_thread(operator.create_bare, "decisions")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number, records in enumerate(whole):
            for record in records[: None if number == 0 else -3]:
                producer.produce(
                    ledger.topic("decisions"), record.value, record.key, partition=number
                )
        assert producer.flush(PATIENCE_S) == 0

        sound, cut = await reports(ledger)
        assert sound.ok
        assert not cut.ok
        assert cut.records == len(whole[1]) - 3
        wrong = cut.first_disagreement
        assert wrong is not None
        assert (wrong.partition_sequence, wrong.what) == (len(whole[1]) - 1, "head")
        assert "decisions are missing" in wrong.found


async def test_a_log_written_during_the_audit_is_sound(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger, working(ledger):
        await ledger.open(*DATASETS)
        asking = asyncio.create_task(ask(ledger, 4_000))
        appended = 0
        while not asking.done():
            found = await reports(ledger)
            assert all(report.ok for report in found), found
            appended += 1
        await asking
        assert appended > 0
        assert sum(report.granted for report in await reports(ledger)) == 4_000


class _Halts:
    """Notes why partitions were halted."""

    def __init__(self) -> None:
        self.why: list[BaseException] = []

    def replayed(self, partition: Partition, seconds: float) -> None: ...

    def committed(self, committed: Committed) -> None: ...

    def dropped(self, partition: int, error: BaseException | None) -> None: ...

    def halted(self, partition: int, error: BaseException) -> None:
        self.why.append(error)


async def test_a_forged_row_fails_the_audit_and_halts_the_worker(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with working(ledger):
            await ledger.open(DATASETS[0], filter="basic", epsilon="1")
            await ledger.send_all(request(DATASETS[0], epsilon="0.3") for _ in range(3))
            await ledger.settle()
        (sound,) = await reports(ledger)
        assert sound.ok
        assert sound.rows == 3

        (records,) = oracle.read(broker.bootstrap, ledger.topic("state"), 1)
        rows = {record.key: record.value for record in records if record.value is not None}
        unspent = replaced(b'"mechanisms":3,"epsilon":"0.9"', b'"mechanisms":0,"epsilon":"0"')
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for key, value in forged(rows, DATASETS[0].encode(), unspent).items():
            producer.produce(ledger.topic("state"), value, key, partition=0)
        assert producer.flush(PATIENCE_S) == 0

        (report,) = await reports(ledger)
        assert not report.ok
        wrong = report.first_disagreement
        assert wrong is not None
        assert (wrong.row, wrong.what) == ("dataset ds-0", "totals.mechanisms")
        halts = _Halts()
        async with working(ledger, ready=False, observers=[halts], looks_again=()):
            await until(lambda: halts.why, "the worker halts")
        assert isinstance(halts.why[0], LogDamaged)
        assert "dataset ds-0 in `state` has totals.mechanisms 0" in str(halts.why[0])


async def test_partitions_side_by_side_give_the_reports_of_one_after_another(
    broker: LocalBroker, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        async with working(ledger):
            await ledger.open(*DATASETS)
            await ask(ledger, 40)
        for name, value in settings_of(ledger).items():
            monkeypatch.setenv(name, value)
        log, open_log = KafkaLog(ledger.deployment), partial(log_at, f"kafka://{broker.bootstrap}")
        made = await asyncio.to_thread(partition_processes, log, open_log, 2, least=0)
        assert made is not None
        found = await asyncio.to_thread(run_audit, log, processes=made)  # raises where in doubt
        assert found == await asyncio.to_thread(run_audit, log)
        assert [(number, report.ok) for number, report in found] == [(0, True), (1, True)]
