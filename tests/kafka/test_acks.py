"""What is written counts only once all replicas in sync have it: read off the wire."""

from __future__ import annotations

from aiokafka import AIOKafkaProducer

from accountant.partition.key_hash import partition_of
from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from tests.faults.frames import Api
from tests.faults.ledger import Ledger, opening, request, working
from tests.faults.proxy import FaultProxy
from tests.patience import PATIENCE_S

ALL = -1


async def test_a_ledgers_writers_wait_for_all_replicas(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, via=proxy.bootstrap, partitions=2) as ledger:
        writers = {f"{application}-{partition}" for partition in range(2)}
        genesis = proxy.sent(Api.PRODUCE)
        assert {each.client_id for each in genesis} == writers
        async with working(ledger):
            server = await KafkaService.start(ledger.deployment)
            try:
                await server.submit("admin", opening("ds"), wait=PATIENCE_S)
                await server.submit("requests", request("ds"), wait=PATIENCE_S)
            finally:
                await server.close()
            before = len(proxy.sent(Api.PRODUCE))
            home = partition_of(b"ds", 2)
            await ledger.decided(b"{", key=b"ds", partition=home)  # a dead letter
        ours = [each for each in proxy.sent(Api.PRODUCE) if each.client_id in writers]
        others = [each for each in proxy.sent(Api.PRODUCE) if each.client_id not in writers]
        letters = ledger.topic("dead_letters").encode()
        assert any(letters in each.frame for each in proxy.sent(Api.PRODUCE)[before:])
        assert len(ours) >= len(genesis) + 3  # an opening, a request and a dead letter
        assert len(others) >= 2  # the server's own
        assert {each.required_acks for each in ours} == {ALL}
        assert {each.required_acks for each in others} == {ALL}
        await ledger.judged()


async def test_a_producer_that_waits_for_one_replica_is_detected(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        for acks in (1, "all"):
            async with AIOKafkaProducer(bootstrap_servers=proxy.bootstrap, acks=acks) as producer:
                await producer.send_and_wait(ledger.topic("requests"), b"{}", partition=0)
        assert [each.required_acks for each in proxy.sent(Api.PRODUCE)] == [1, ALL]
