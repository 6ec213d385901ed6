"""Fixtures of the real broker, for every test that wants one.

Not in tests/kafka, because the journal's contract suite and the fault tests use the same broker.
A plugin is imported in each test run: nothing of the product is imported before its first use.
"""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unlimited import unlimited

if TYPE_CHECKING:
    from streams.testing import LocalBroker
    from tests.brokers.shared import SharedBroker
    from tests.faults.proxy import FaultProxy

STARTS = ()

_SHARED: Final[pytest.StashKey[list[SharedBroker]]] = pytest.StashKey()
_HOST: Final = pytest.StashKey[subprocess.Popen[str]]()
_HOST_ADDRESS: Final = pytest.StashKey[str]()
_INPUT: Final = "broker_host"  # of a worker
_END_S: Final = 60.0


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """One broker for all workers: tests use `application` names and leave it running."""
    with session_broker(request.config) as running:
        yield running


@pytest.fixture
def proxy(broker: LocalBroker) -> Iterator[FaultProxy]:
    """A proxy to the session's broker that causes chosen faults, for one test."""
    from tests.faults.proxy import FaultProxy

    with FaultProxy(broker) as running:
        yield running


@pytest.fixture
def own_broker() -> Iterator[LocalBroker]:
    """A broker of the test's own, to be killed, paused and restarted.

    A start costs less than a broker that idles between such tests.
    """
    with _started() as running:
        yield running


@contextmanager
def session_broker(config: pytest.Config, *, users: Sequence[str] = ()) -> Iterator[LocalBroker]:
    """Use the broker that all workers share, or one of this process if it is no worker."""
    address = getattr(config, "workerinput", {}).get(_INPUT)
    if address is None:
        with _started(users) as running:
            yield running
        return
    from tests.brokers.shared import shared_broker

    with ExitStack() as stack:
        with unlimited():
            running = stack.enter_context(shared_broker(address, users=users))
        shared = config.stash.setdefault(_SHARED, [])
        shared.append(running)
        yield running
        shared.remove(running)


@contextmanager
def _started(users: Sequence[str] = ()) -> Iterator[LocalBroker]:
    from streams.testing import LocalBroker

    with ExitStack() as stack:
        with unlimited():  # the very first start downloads Kafka and prepares quick starts
            running = stack.enter_context(LocalBroker(users=users, short_lived=True))
        yield running


@pytest.fixture
def application(request: pytest.FixtureRequest) -> Iterator[str]:
    """A name for this test alone: prefix of its topics, groups and transactional ids."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = f"{words[:40]}-{uuid.uuid4().hex[:8]}"
    yield name
    for running in request.config.stash.get(_SHARED, []):
        running.forget(name)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start the host of the brokers with the first worker, and tell each worker its address."""
    stash = node.config.stash
    if _HOST not in stash:
        host = _started_host(node)
        assert host.stdout is not None
        stash[_HOST] = host
        stash[_HOST_ADDRESS] = host.stdout.readline().strip()
    node.workerinput[_INPUT] = stash[_HOST_ADDRESS]


def _started_host(node: Any) -> subprocess.Popen[str]:
    # In a session of its own, a terminal's interrupt does not reach it: workers end first.
    return subprocess.Popen(
        [sys.executable, "-m", "tests.brokers.host", str(node.workerinput["workercount"])],
        cwd=node.config.rootpath,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the host and its brokers, once all workers have ended."""
    host = config.stash.get(_HOST, None)
    if host is not None:
        try:
            host.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            host.kill()  # the watchdogs of its brokers then end them
            host.communicate()
