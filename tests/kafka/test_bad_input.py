"""Bad records cost nothing, stall nothing, and get a reason."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from aiokafka import errors as kafka
from confluent_kafka import KafkaException, Producer

from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.partition.key_hash import partition_of
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, Watch, new_id, opening, request, until, working
from tests.kafka.raw_batches import GZIP, Raw, append, batch
from tests.patience import PATIENCE_S

PARTITIONS = 2


def key_of(partition: int) -> str:
    """Return a name of a dataset that belongs to a partition."""
    return next(
        f"ds-{i}" for i in range(100) if partition_of(f"ds-{i}".encode(), PARTITIONS) == partition
    )


HOME, ELSEWHERE = key_of(0), key_of(1)


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(request(HOME)), **fields}).encode()


def pure(epsilon: Any) -> bytes:
    return changed(claim={"type": "pure", "epsilon": epsilon})


TWICE = request(HOME)[:-1] + b', "dataset": "x"}'
DEEP = request(HOME).replace(b'{"type": "pure"', b'{"type": ' + b"[" * 17 + b"]" * 17, 1)
FUTURE = changed(request_id=new_id(4_000_000_000_000))

# What it is, topic, body, outcome, reason; each to partition 0.
BAD: list[tuple[str, str, bytes | None, str, str]] = [
    ("no value", "requests", None, "invalid", "undecodable"),
    ("nothing", "requests", b"", "invalid", "undecodable"),
    ("no text", "requests", b"\xff\xfe\x00", "invalid", "undecodable"),
    ("no JSON", "requests", b"{", "invalid", "undecodable"),
    ("no object", "requests", b"[1]", "invalid", "invalid_field"),
    ("two objects", "requests", b"{}{}", "invalid", "undecodable"),
    ("zeros", "requests", bytes(1000), "invalid", "undecodable"),
    ("a key twice", "requests", TWICE, "invalid", "undecodable"),
    ("a lone surrogate", "requests", changed(purpose="\ud800"), "invalid", "undecodable"),
    ("deep", "requests", b"[" * 60_000, "invalid", "undecodable"),
    ("deep claim", "requests", DEEP, "invalid", "undecodable"),
    ("oversize", "requests", changed(purpose="x" * 70_000), "invalid", "oversize"),
    ("largest that the topic takes", "requests", b" " * 1_048_000, "invalid", "oversize"),
    ("an unknown field", "requests", changed(more=1), "invalid", "invalid_field"),
    ("another version", "requests", changed(version=2), "invalid", "invalid_field"),
    ("a number for a name", "requests", changed(analyst=5), "invalid", "invalid_field"),
    ("a name with a slash", "requests", changed(dataset="a/b"), "invalid", "invalid_field"),
    ("an id of version 4", "requests", changed(request_id="0" * 36), "invalid", "invalid_field"),
    ("no claim", "requests", changed(claim=None), "invalid", "invalid_field"),
    ("a claim of no type", "requests", changed(claim={"epsilon": "1"}), "invalid", "invalid_field"),
    ("a number for an amount", "requests", pure(0.1), "invalid", "invalid_field"),
    ("too small", "requests", pure("1e-400"), "invalid", "invalid_field"),
    ("too large", "requests", pure("1e999"), "invalid", "invalid_field"),
    ("NaN", "requests", pure("NaN"), "invalid", "invalid_field"),
    ("minus zero", "requests", pure("-0"), "invalid", "invalid_field"),
    ("minus one", "requests", pure("-1"), "invalid", "invalid_field"),
    ("hexadecimal", "requests", pure("0x1p3"), "invalid", "invalid_field"),
    ("a space before", "requests", pure(" 1"), "invalid", "invalid_field"),
    ("many digits", "requests", pure("0." + "1" * 50_000), "invalid", "invalid_field"),
    ("a long purpose", "requests", changed(purpose="x" * 201), "invalid", "invalid_field"),
    ("wrong partition", "requests", request(ELSEWHERE), "invalid", "wrong_partition"),
    ("opened in the wrong partition", "admin", opening(ELSEWHERE), "invalid", "wrong_partition"),
    ("a request in admin", "admin", request(HOME), "invalid", "invalid_field"),
    ("an opening in requests", "requests", opening("ds-other"), "invalid", "invalid_field"),
    ("unknown dataset", "requests", changed(dataset="unknown"), "refused", "unknown_dataset"),
    ("opened already", "admin", opening(HOME), "refused", "already_opened"),
    ("another unit", "requests", changed(unit="household"), "refused", "unit_mismatch"),
    ("too much", "requests", request(HOME, epsilon="5"), "refused", "exhausted"),
    ("from the future", "requests", FUTURE, "invalid", "issued_in_future"),
    ("long ago", "requests", changed(request_id=new_id(1)), "expired", ""),
]


def unknown_at_home() -> bytes:
    name = next(
        f"unknown-{i}" for i in range(100) if partition_of(f"unknown-{i}".encode(), PARTITIONS) == 0
    )
    return changed(dataset=name)


async def test_invalid_records_get_a_reason_and_cost_nothing(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        async with working(ledger) as worker:
            await ledger.open(HOME)
            for what, topic, body, outcome, reason in BAD:
                value = unknown_at_home() if what == "unknown dataset" else body
                bad = await ledger.send(value, topic=topic, key=HOME.encode(), partition=0)
                good = await ledger.ask(HOME, epsilon="0.0001")
                decision = await ledger.decision(bad)
                assert (decision["outcome"], decision.get("reason", "")) == (outcome, reason), what
                assert (await ledger.decision(good))["outcome"] == "granted", what
            assert worker.status.readiness().ready
        verdict = await ledger.judged()
        assert verdict.outcomes["granted"] == len(BAD)
        assert verdict.granted.keys() == {HOME}
        dead = oracle.read(broker.bootstrap, ledger.topic("dead_letters"), PARTITIONS)
        assert len(dead[0]) == sum(reason in oracle.DEAD for *_, reason in BAD)
        # A person can read the beginning of a dead letter.
        assert max(len(record.value or b"") for record in dead[0]) == 4096


async def test_compressed_bombs_are_refused_by_the_broker_or_decided_oversize(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        async with working(ledger):
            await ledger.open(HOME)
            await ledger.settle()  # bombs can delay a commit, and a replay reads requests too
            for kind in ("gzip", "lz4", "zstd", "snappy"):
                assert "MSG_SIZE_TOO_LARGE" in bomb(ledger, kind, 50_000_000)
                assert bomb(ledger, kind, 200_000) == ""
                assert (await ledger.decided(request(HOME)))["outcome"] == "granted"
        verdict = await ledger.judged()
        assert verdict.reasons == {"oversize": 4}
        assert verdict.outcomes == {"opened": 1, "granted": 4, "invalid": 4}


def bomb(ledger: Ledger, compression: str, size: int) -> str:
    """Send so many spaces, compressed; return the broker's error, if any."""
    producer = Producer(
        {
            "bootstrap.servers": ledger.bootstrap,
            "compression.type": compression,
            "message.max.bytes": 100_000_000,
        }
    )
    failed: list[str] = []
    producer.produce(
        ledger.topic("requests"),
        b" " * size,
        HOME.encode(),
        partition=0,
        on_delivery=lambda error, _message: failed.append(error.name() if error else ""),
    )
    try:
        producer.flush(PATIENCE_S)
    except KafkaException as error:  # pragma: no cover (the delivery report has it)
        failed.append(str(error))
    return failed[0].upper().lstrip("_")


async def test_a_record_that_breaks_adjudication_becomes_a_dead_letter(
    broker: LocalBroker, application: str
) -> None:
    def planted(draft: Draft, record: Input, clock: int) -> EncodedDecision:
        encoded = decide(draft, record, clock)  # it fails late, when all is decided
        if b"planted" in (record.value or b""):
            raise ZeroDivisionError("planted")
        return encoded

    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        bad = request(HOME, purpose="planted")
        async with working(ledger, decide=planted) as worker:
            await ledger.open(HOME)
            first = await ledger.send(bad)
            decision = await ledger.decision(first)
            assert (decision["outcome"], decision["reason"]) == ("invalid", "internal_error")
            assert "request" not in decision  # a body that broke adjudication is not echoed
            bodies = [request(HOME, purpose="planted" * (i % 5 == 0)) for i in range(50)]
            places = await ledger.send_all(bodies)
            await ledger.settle()
            assert worker.status.readiness().ready
            for body, place in zip(bodies, places, strict=True):
                found = (await ledger.decision(place))["outcome"]
                assert found == ("invalid" if b"planted" in body else "granted")
        # Its id was not remembered: after the fix, the same request is decided again.
        async with working(ledger):
            assert (await ledger.decided(bad))["outcome"] == "granted"
        failed = [first, *places[::5]]
        verdict = await ledger.judged(internal_errors=failed)
        assert verdict.reasons == {"internal_error": 11}
        assert verdict.outcomes["granted"] == 41
        letters = oracle.read(broker.bootstrap, ledger.topic("dead_letters"), PARTITIONS)[0]
        assert len(letters) == 11
        assert all(b"planted" in (letter.value or b"") for letter in letters)


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_halt_elsewhere_does_not_stop_a_partition(
    broker: LocalBroker, application: str, partition: int
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        opened = await ledger.open(HOME, ELSEWHERE)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(ledger.topic("decisions"), b"forged", b"x", partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        async with working(ledger, ready=False) as worker:
            await until(lambda: worker.status.serving == {1 - partition}, "the other one serves")
            name = (HOME, ELSEWHERE)[1 - partition]
            await ledger.decision(opened[1 - partition])
            assert (await ledger.decided(request(name)))["outcome"] == "granted"
            await until(lambda: "halted" in " ".join(worker.status.readiness().reasons), "halted")
            (why,) = worker.status.readiness().reasons
            assert f"partition {partition} halted" in why
            assert "cannot be read" in why
            assert "`accountant audit`" in why


_OWN: Final = HOME.encode()
_HOME: Final = Raw(_OWN, None)
# Its size, plus 2 ** 31 that the broker cuts off.
_STRETCHED: Final = bytes([len(_OWN) << 1 | 0x80, 0x80, 0x80, 0x80, 0x10])
_YEAR_2500: Final = 16_725_225_600_000

# What it is and how it is laid out: all of them taken by the broker, whoever can read them.
ODD: list[tuple[str, Raw]] = [
    ("a header of no text", _HOME._replace(headers=[(b"\xff\xfe", b"v")])),
    ("a header cut in a character", _HOME._replace(headers=[("\u00e9".encode()[:1], b"v")])),
    ("a header without value", _HOME._replace(headers=[(b"name", None)])),
    ("a header without name", _HOME._replace(headers=[(b"", b"")])),
    ("a long header", _HOME._replace(headers=[(b"n" * 60_000, b"v" * 60_000)])),
    ("many headers", _HOME._replace(headers=[(b"\xff", None)] * 20_000)),
    ("no key", Raw(None, None)),
    ("an empty key", Raw(b"", None)),
    ("another's key", Raw(ELSEWHERE.encode(), None)),
    ("a key of no text", Raw(b"\xff\xfe", None)),
    ("a stretched size", _HOME._replace(key_size=_STRETCHED)),
    ("before all time", _HOME._replace(timestamp=-1)),
    ("in a far year", _HOME._replace(timestamp=_YEAR_2500)),
    ("attributes", _HOME._replace(attributes=0x7F)),
    ("all attributes", _HOME._replace(attributes=0xFF)),
    ("an offset far behind the end", _HOME._replace(offset=1_000_000)),
    ("an offset of the next batch", _HOME._replace(offset=3)),
    ("the offset of another", _HOME._replace(offset=0)),
    ("an offset before the batch", _HOME._replace(offset=-5)),
]


async def append_odd(ledger: Ledger, odd: Raw, topic: str = "requests", codec: int = 0) -> int:
    """Append a record between two plain ones; return the offset of the first."""
    value = odd.value or request(HOME, epsilon="0.0001")
    plain = [Raw(_OWN, request(HOME, epsilon="0.0001")) for _ in range(2)]
    records = batch([plain[0], odd._replace(value=value), plain[1]], codec=codec)
    return await append(ledger.bootstrap, ledger.topic(topic), 0, records)


@pytest.mark.parametrize("codec", [0, GZIP], ids=["plain", "gzip"])
async def test_every_record_that_the_broker_accepts_is_decided(
    broker: LocalBroker, application: str, codec: int
) -> None:
    watch = Watch()
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        async with working(ledger, observers=[watch]) as worker:
            await ledger.open(HOME, ELSEWHERE)
            for what, odd in ODD:
                first = await append_odd(ledger, odd, codec=codec)
                good = await ledger.ask(HOME, epsilon="0.0001")
                assert good == ("requests", 0, first + 3), what
                for offset in range(first, first + 4):
                    decision = await ledger.decision(("requests", 0, offset))
                    assert decision["outcome"] == "granted", (what, offset - first)
                assert (await ledger.decided(request(ELSEWHERE)))["outcome"] == "granted", what
            assert worker.status.readiness().ready
        # Nothing was dropped for it, not even for a moment.
        assert (watch.refolds, watch.errors, watch.halts) == (PARTITIONS, [], {})
        places = [place for place in watch.reported if place[:2] == ("requests", 0)]
        assert places == [("requests", 0, offset) for offset in range(4 * len(ODD))]


async def test_records_accepted_without_a_worker_are_decided_in_order(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        await ledger.open(HOME)
        headed = Raw(_OWN, opening(HOME), headers=[(b"\xff", b"")])
        await append_odd(ledger, headed, topic="admin")
        ids = []
        for _, odd in ODD:
            ids += [new_id()]
            await append_odd(ledger, odd._replace(value=changed(request_id=ids[-1])))
            await ledger.ask(HOME, epsilon="0.0001")
        (last,) = await ledger.send_all([request(HOME, epsilon="0.0001")])
        async with working(ledger, settle=False, observers=[watch]):
            await ledger.decision(last)
            for i in range(len(ODD)):
                decision = await ledger.decision(("requests", 0, 4 * i + 1))
                assert decision["request"]["request_id"] == ids[i], ODD[i][0]
            assert (await ledger.decision(("admin", 0, 2)))["reason"] == "already_opened"
        assert (watch.refolds, watch.errors, watch.halts) == (PARTITIONS, [], {})
        requests = [place for place in watch.reported if place[:2] == ("requests", 0)]
        assert requests == [("requests", 0, offset) for offset in range(4 * len(ODD) + 1)]


# What no plain producer may write: the broker itself refuses it.
_ONE: Final = [_HOME._replace(value=request(HOME))]
REFUSED: list[tuple[str, bytes]] = [
    ("a marker of a transaction", batch([Raw(b"\0\0\0\1", bytes(6))], attributes=0x20)),
    ("requests as markers", batch(_ONE, attributes=0x20)),
    ("a transaction of nobody's", batch(_ONE, attributes=0x10)),
    ("the broker's own time", batch(_ONE, attributes=0x08)),
    ("unknown compression", batch(_ONE, attributes=0x05)),
    ("no records", batch([])),
    ("two batches", batch(_ONE) * 2),
    ("a wrong checksum", batch(_ONE)[:-1] + b"\1"),
    ("a header whose name is nothing", batch([_ONE[0]._replace(headers=[(None, b"")])])),
]


async def test_a_record_that_the_broker_rejects_leaves_no_trace(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=PARTITIONS) as ledger:
        async with working(ledger):
            await ledger.open(HOME)
            for what, records in REFUSED:
                with pytest.raises(kafka.KafkaError):
                    await append(broker.bootstrap, ledger.topic("requests"), 0, records)
                decision = await ledger.decided(request(HOME, epsilon="0.0001"))
                assert decision["outcome"] == "granted", what
        verdict = await ledger.judged()
        assert verdict.outcomes == {"opened": 1, "granted": len(REFUSED)}
