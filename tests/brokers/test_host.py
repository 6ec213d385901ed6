"""All workers of a run share one broker, which ends with the run, however that ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streams.testing import BrokerError
from streams.testing.broker_settings import Ports
from tests.brokers.finished_topics import AT_ONCE
from tests.brokers.shared import SharedBroker, shared_broker
from tests.faults.proxy import FaultProxy

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).parents[2]


@contextmanager
def host() -> Iterator[tuple[subprocess.Popen[str], str]]:
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.brokers.host", "2"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        address = running.stdout.readline().strip()
        yield running, address
        shutil.rmtree(Path(address).parent, ignore_errors=True)  # a killed host leaves it
    finally:
        running.kill()
        with running:  # closes its pipes
            pass


def is_gone(broker: SharedBroker) -> bool:
    for _ in range(600):
        # The executable of a process that ended but is not reaped cannot be read either.
        if not Path(f"/proc/{broker.pid}/exe").exists() and not broker.directory.exists():
            return True
        time.sleep(0.1)
    return False


def test_workers_share_a_broker_and_each_has_a_proxy_of_its_own() -> None:
    with host() as (running, address):
        with shared_broker(address) as one, shared_broker(address) as two:
            assert (one.pid, one.bootstrap) == (two.pid, two.bootstrap)
            assert one.ports.proxy != two.ports.proxy
            assert one.ports.proxied != two.ports.proxied
            with FaultProxy(one), FaultProxy(two):
                assert one.is_running
            for end in (one.stop, one.kill, one.pause, one.close):
                with pytest.raises(BrokerError, match="own_broker"):
                    end()
        used: set[int] = set()
        for _ in range(8):  # more than there are ports for: a worker that has ended frees its own
            with shared_broker(address) as next_one:
                used.add(next_one.ports.proxy)
        assert len(used) <= 4
        assert running.stdin is not None
        running.stdin.close()
        running.wait(60)
        assert is_gone(one)
        assert not Path(address).parent.exists()


def test_topics_of_ended_tests_are_deleted_and_no_others() -> None:
    with host() as (_, address), shared_broker(address) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        names = ("ended-1.requests", "ended-1.decisions", "running-2.requests")
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            made.result()
        for number in range(AT_ONCE):
            broker.forget("ended-1" if number == 0 else f"other-{number}")
        while admin.list_topics(timeout=30).topics.keys() & set(names[:2]):
            time.sleep(0.05)
        assert set(admin.list_topics(timeout=30).topics) == {"running-2.requests"}


def test_the_broker_ends_with_a_killed_host() -> None:
    with host() as (running, address), shared_broker(address) as broker:
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert is_gone(broker)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_broker_ends_with_an_interrupted_run(tmp_path: Path, how: signal.Signals) -> None:
    waiting, where = tmp_path / "test_waits.py", tmp_path / "broker"
    waiting.write_text(
        "import pathlib, time\n"
        "def test_waits(broker):\n"
        f"    new, where = pathlib.Path({f'{where}.new'!r}), {str(where)!r}\n"
        "    new.write_text(f'{broker.pid} {broker.directory}')\n"
        "    new.rename(where)\n"
        "    time.sleep(600)\n"
    )
    # Without other plugins, which take longer to import than the test takes.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ("xdist.plugin", "pytest_asyncio.plugin", "pytest_timeout", "tests.brokers.fixtures")
    options = [*(f"-p{name}" for name in (*plugins, "no:cacheprovider")), "-n1"]
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", f"--rootdir={ROOT}", *options, str(waiting)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not where.exists():
            assert run.poll() is None
            time.sleep(0.1)
        pid, directory = where.read_text().split()
        broker = SharedBroker(Path(directory), pid=int(pid), ports=Ports(0, 0, 0, 0))
        assert broker.is_running
        if how == signal.SIGINT:
            os.killpg(run.pid, how)  # as a terminal sends it
        else:
            run.send_signal(how)
        run.wait()
        assert is_gone(broker)
    finally:
        run.kill()
        run.wait()
