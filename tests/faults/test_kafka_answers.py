"""What a producer makes of each answer that a broker may give to a step of its transaction."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import TopicPartition

from streams.errors import CommitRejected, CommitUnknown, Fenced, JournalFault, Refused
from streams.kafka.wire.batches import BATCH_BYTES, Record
from streams.kafka.wire.group_offset import GroupOffset
from streams.kafka.wire.producer import TransactionalProducer
from streams.kafka.wire.security import Cluster
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.frames import Action, Api
from tests.faults.ledger import Ledger
from tests.faults.operator import Operator
from tests.faults.proxy import FaultProxy
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.faults

NOT_YET = [
    (Api.INIT_PRODUCER_ID, 14),  # COORDINATOR_LOAD_IN_PROGRESS
    (Api.INIT_PRODUCER_ID, 16),  # NOT_COORDINATOR
    (Api.INIT_PRODUCER_ID, 51),  # CONCURRENT_TRANSACTIONS
    (Api.FIND_COORDINATOR, 15),  # COORDINATOR_NOT_AVAILABLE
    (Api.FIND_COORDINATOR, 14),
    (Api.ADD_PARTITIONS_TO_TXN, 3),  # UNKNOWN_TOPIC_OR_PARTITION
    (Api.ADD_PARTITIONS_TO_TXN, 14),
    (Api.ADD_PARTITIONS_TO_TXN, 15),
    (Api.ADD_PARTITIONS_TO_TXN, 16),
    (Api.ADD_PARTITIONS_TO_TXN, 51),
    # Written all the same: the copy that is sent again must not be a second record.
    (Api.PRODUCE, 3),
    (Api.PRODUCE, 6),  # NOT_LEADER_OR_FOLLOWER
    (Api.PRODUCE, 7),  # REQUEST_TIMED_OUT
    (Api.PRODUCE, 19),  # NOT_ENOUGH_REPLICAS
    (Api.PRODUCE, 20),  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
]
FAULTS = [
    (Api.ADD_PARTITIONS_TO_TXN, 29, Refused),  # TOPIC_AUTHORIZATION_FAILED
    (Api.ADD_PARTITIONS_TO_TXN, 47, Fenced),  # INVALID_PRODUCER_EPOCH
    (Api.ADD_PARTITIONS_TO_TXN, 48, Fenced),  # INVALID_TXN_STATE
    (Api.ADD_PARTITIONS_TO_TXN, 53, Refused),  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    (Api.ADD_PARTITIONS_TO_TXN, 55, CommitUnknown),  # OPERATION_NOT_ATTEMPTED
    (Api.ADD_PARTITIONS_TO_TXN, -1, CommitUnknown),  # UNKNOWN_SERVER_ERROR
    (Api.ADD_PARTITIONS_TO_TXN, 90, CommitUnknown),  # unknown to the client
    (Api.PRODUCE, 10, CommitRejected),  # MESSAGE_TOO_LARGE
    (Api.PRODUCE, 29, Refused),
    (Api.PRODUCE, 45, CommitUnknown),  # OUT_OF_ORDER_SEQUENCE_NUMBER
    (Api.PRODUCE, 46, CommitUnknown),  # DUPLICATE_SEQUENCE_NUMBER
    (Api.PRODUCE, 47, Fenced),
    (Api.PRODUCE, -1, CommitUnknown),
]
OFFSET_NOT_YET = [
    (Api.ADD_OFFSETS_TO_TXN, 14),  # COORDINATOR_LOAD_IN_PROGRESS
    (Api.ADD_OFFSETS_TO_TXN, 16),  # NOT_COORDINATOR
    (Api.ADD_OFFSETS_TO_TXN, 51),  # CONCURRENT_TRANSACTIONS
    (Api.TXN_OFFSET_COMMIT, 14),
    (Api.TXN_OFFSET_COMMIT, 15),  # COORDINATOR_NOT_AVAILABLE
    (Api.TXN_OFFSET_COMMIT, 16),
]
OFFSET_FAULTS = [
    (Api.ADD_OFFSETS_TO_TXN, 30, Refused),  # GROUP_AUTHORIZATION_FAILED
    (Api.ADD_OFFSETS_TO_TXN, 47, Fenced),  # INVALID_PRODUCER_EPOCH
    (Api.TXN_OFFSET_COMMIT, 30, Refused),
    (Api.TXN_OFFSET_COMMIT, 47, Fenced),
    (Api.TXN_OFFSET_COMMIT, -1, CommitUnknown),  # UNKNOWN_SERVER_ERROR
]
AT_THE_END = [(14, CommitUnknown), (15, CommitUnknown), (16, CommitUnknown), (47, Fenced),
              (48, Fenced), (51, CommitUnknown), (-1, CommitUnknown)]  # fmt: skip


@asynccontextmanager
async def started(bootstrap: str, name: str) -> AsyncIterator[TransactionalProducer]:
    producer = TransactionalProducer(Cluster(bootstrap), name)
    try:
        await producer.start()
        yield producer
    finally:
        producer.drop()


async def known_topics(producer: TransactionalProducer) -> set[str]:
    """Return the topics that its client has asked for."""
    await producer._brokers.refresh()
    topics: set[str] = producer._brokers._client.cluster.topics(exclude_internal_topics=False)
    return topics


def values(ledger: Ledger, topic: str = "dead_letters") -> list[bytes | None]:
    (records,) = oracle.read(ledger.bootstrap, ledger.topic(topic), 1)
    return [record.value for record in records]


async def test_a_retriable_refusal_is_retried_and_written_once(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        letters, rows = ledger.topic("dead_letters"), ledger.topic("state")
        for number, (api, code) in enumerate(NOT_YET):
            fault = proxy.inject(api, Action.ANSWER_ERROR, code=code)
            async with started(proxy.bootstrap, f"{application}-{number}") as producer:
                value = b"%d" % number
                await producer.transact(
                    0, {letters: [Record(b"k", value)], rows: [Record(b"k", value)]}
                )
            assert fault.struck.is_set(), (api, code)
        every = [b"%d" % number for number in range(len(NOT_YET))]
        assert values(ledger) == every
        assert values(ledger, "state") == every


async def test_a_write_with_a_lost_response_is_sent_again_and_written_once(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with started(proxy.bootstrap, f"{application}-x") as producer:
            for number, action in enumerate(
                [Action.RESET_BEFORE, Action.RESET_AFTER, Action.LOSE_RESPONSE]
            ):
                fault = proxy.inject(Api.PRODUCE, action)
                await producer.transact(
                    0, {ledger.topic("dead_letters"): [Record(b"k", b"%d" % number)]}
                )
                assert fault.struck.is_set()
        assert values(ledger) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("api", "code", "fault"), FAULTS)
async def test_any_other_refusal_is_a_fault_and_nothing_becomes_visible(
    broker: LocalBroker,
    proxy: FaultProxy,
    application: str,
    api: Api,
    code: int,
    fault: type[JournalFault | Refused],
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        where = {ledger.topic("dead_letters"): [Record(b"k", b"v")]}
        async with started(proxy.bootstrap, f"{application}-x") as producer:
            ends = proxy.count(Api.END_TXN)
            proxy.inject(api, Action.ANSWER_ERROR, code=code)
            with pytest.raises(fault) as raised:
                await producer.transact(0, where)
            assert type(raised.value) is fault
            # The transaction stays open: to continue would commit half of it.
            with pytest.raises(CommitUnknown, match="failed"):
                await producer.transact(0, where)
            assert proxy.count(Api.END_TXN) == ends
        async with started(broker.bootstrap, f"{application}-x") as successor:
            await successor.transact(0, {ledger.topic("dead_letters"): [Record(b"k", b"next")]})
        assert values(ledger) == [b"next"]


@pytest.mark.parametrize(("code", "fault"), AT_THE_END)
async def test_a_commit_is_requested_once_whatever_the_answer(
    broker: LocalBroker, proxy: FaultProxy, application: str, code: int, fault: type[JournalFault]
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        where = {ledger.topic("dead_letters"): [Record(b"k", b"v")]}
        async with started(proxy.bootstrap, f"{application}-x") as producer:
            ends = proxy.count(Api.END_TXN)
            proxy.inject(Api.END_TXN, Action.ANSWER_ERROR, code=code)
            with pytest.raises(fault):
                await producer.transact(0, where)
            with pytest.raises(CommitUnknown, match="failed"):
                await producer.transact(0, where)
            assert proxy.count(Api.END_TXN) == ends + 1
        assert values(ledger) == [b"v"]  # the broker had done it, and nothing was added


async def test_a_write_that_exceeds_the_transaction_timeout_is_given_up(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with started(proxy.bootstrap, f"{application}-x") as producer:
            for nth in (1, 2, 3):  # of 4 s each
                proxy.inject(Api.PRODUCE, Action.LOSE_RESPONSE, nth=nth)
            # And not as one that a successor has fenced: that would wait for its turn.
            with pytest.raises(CommitUnknown, match="in time"):
                await producer.transact(0, {ledger.topic("dead_letters"): [Record(b"k", b"v")]})
        async with started(broker.bootstrap, f"{application}-x"):
            assert values(ledger) == []


async def test_an_error_of_the_client_is_not_a_fault_of_a_record(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    name = f"{application}-x"
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        letters = ledger.topic("dead_letters")
        async with started(proxy.bootstrap, name) as producer:
            producer.expect_at(letters, 0)
            assert await known_topics(producer) == {letters}
            with proxy.away():
                pass
            asked = proxy.count(Api.METADATA, client_id=name)
            async with asyncio.timeout(PATIENCE_S):
                while proxy.count(Api.METADATA, client_id=name) == asked:
                    await known_topics(producer)  # until the other one of its connections is back
            proxy.inject(Api.API_VERSIONS, Action.STRANGE_VERSIONS, client_id=name)
            # What the client has for a version that it does not know: no error of Kafka's.
            with pytest.raises(CommitUnknown, match="NotImplementedError"):
                await producer.transact(0, {letters: [Record(b"k", b"v")]})


async def test_a_producer_looks_up_only_its_own_topics(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        letters = ledger.topic("dead_letters")
        proxy.inject(Api.FIND_COORDINATOR, Action.ANSWER_ERROR, code=15)
        async with started(proxy.bootstrap, f"{application}-x") as producer:
            await producer.transact(0, {letters: [Record(b"k", b"v")]})
            assert await known_topics(producer) == {letters}
        async with started(broker.bootstrap, f"{application}-y") as idle:
            idle.expect_at(letters, 0)
            assert await known_topics(idle) == {letters}


async def test_a_dropped_producer_sends_nothing(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with started(proxy.bootstrap, f"{application}-x") as producer:
            pass
        begun = proxy.count(Api.ADD_PARTITIONS_TO_TXN)
        with pytest.raises(CommitUnknown, match="dropped"):
            await producer.transact(0, {ledger.topic("dead_letters"): [Record(b"k", b"v")]})
        assert proxy.count(Api.ADD_PARTITIONS_TO_TXN) == begun


async def test_several_batches_are_one_transaction_in_order(
    broker: LocalBroker, application: str
) -> None:
    many = [Record(b"k", b"%06d" % i + b"." * 4_000) for i in range(3 * BATCH_BYTES // 4_000)]
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with started(broker.bootstrap, f"{application}-x") as producer:
            for _ in range(2):
                await producer.transact(
                    0, {ledger.topic("state"): many, ledger.topic("dead_letters"): many[:1]}
                )
        assert values(ledger, "state") == [record.value for record in many] * 2
        assert values(ledger) == [many[0].value] * 2


async def test_a_transaction_ended_in_its_middle_shows_no_row_without_its_decisions(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        decisions, rows = ledger.topic("dead_letters"), ledger.topic("state")
        large = [Record(b"k", b"%d" % number + b"." * (BATCH_BYTES // 3)) for number in range(7)]
        async with started(proxy.bootstrap, f"{application}-x") as producer:
            await producer.transact(0, {decisions: [Record(b"k", b"first")]})
            fault = proxy.inject(Api.PRODUCE, Action.DELAY_RESPONSE, seconds=2.0)
            writing = asyncio.create_task(
                producer.transact(0, {decisions: large, rows: [Record(b"k", b"of all 7")]})
            )
            await asyncio.to_thread(fault.wait)
            # As a client could that stores requests: it ends a later transaction.
            proxy.resend(Api.END_TXN, client_id=f"{application}-x")
            with pytest.raises(Fenced):
                await writing
        shown = [value for value in values(ledger) if value is not None]
        assert [value[:1] for value in shown[1:]] == [b"0", b"1"]  # one batch of four
        assert values(ledger, "state") == []


async def test_a_topic_created_during_the_wait_is_written_to(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        operator = Operator(ledger)
        await asyncio.to_thread(operator.delete, "dead_letters")
        async with started(broker.bootstrap, f"{application}-x") as producer:
            where = {ledger.topic("dead_letters"): [Record(b"k", b"v")]}
            writing = asyncio.create_task(producer.transact(0, where))
            await asyncio.sleep(1)
            assert not writing.done()
            await asyncio.to_thread(operator.create_bare, "dead_letters")
            await writing
        assert values(ledger) == [b"v"]


async def test_sequence_numbers_wrap_after_the_largest(
    broker: LocalBroker, application: str
) -> None:
    last = 2**31 - 3
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        letters = ledger.topic("dead_letters")
        async with started(broker.bootstrap, f"{application}-x") as producer:
            # A broker takes the first number that it sees of a producer, whichever it is.
            producer._sequences[TopicPartition(letters, 0)] = last
            for first in (0, 5, 10):
                some = [Record(b"k", struct.pack(">i", first + i)) for i in range(5)]
                await producer.transact(0, {letters: some})
        assert values(ledger) == [struct.pack(">i", i) for i in range(15)]


async def test_an_offset_is_committed_with_the_records_or_not_at_all(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        letters, group = ledger.topic("dead_letters"), f"{application}-marks"
        tp = TopicPartition(letters, 0)
        for number, (api, code) in enumerate(OFFSET_NOT_YET):
            async with started(proxy.bootstrap, f"{application}-{number}") as producer:
                await producer.offset_of(group, tp)  # so that its coordinator is known
                fault = proxy.inject(api, Action.ANSWER_ERROR, code=code)
                offset = GroupOffset(group, tp, number + 1, f"text {number}")
                await producer.transact(0, {letters: [Record(b"k", b"%d" % number)]}, offset)
            # A successor's start waits until the broker has written the end of the transaction.
            async with started(proxy.bootstrap, f"{application}-{number}") as successor:
                assert await successor.offset_of(group, tp) == offset
            assert fault.struck.is_set(), (api, code)
        for api, code, kind in OFFSET_FAULTS:
            async with started(proxy.bootstrap, f"{application}-x") as producer:
                assert await producer.offset_of(group, tp) == offset
                proxy.inject(api, Action.ANSWER_ERROR, code=code)
                other = GroupOffset(group, tp, 99, "of an aborted transaction")
                with pytest.raises(kind):
                    await producer.transact(0, {letters: [Record(b"k", b"aborted")]}, other)
        async with started(broker.bootstrap, f"{application}-x") as successor:
            assert await successor.offset_of(group, tp) == offset
            absent = TopicPartition(letters, 1)
            assert await successor.offset_of(group, absent) is None
        assert values(ledger) == [b"%d" % number for number in range(len(OFFSET_NOT_YET))]
