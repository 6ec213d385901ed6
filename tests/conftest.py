"""What all tests share: their time limits, marks and order.

Nothing of the product is imported here, before a test needs it. A conftest below imports it in the
fixture that needs it: every test file depends on what its conftests import.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import pytest_timeout
from hypothesis import HealthCheck, settings

from tests.durations import recorder
from tests.durations.order import longest_files_first
from tests.durations.record import recorded, slow_tests
from tests.nightly import NIGHTLY, examples

OPENS = ()

pytest_plugins = ("tests.brokers.fixtures",)

_BROKERS = frozenset({"broker", "own_broker"})
_HERE = Path(__file__).parent
_KAFKA_TESTS = _HERE / "kafka"
# Whole commands as processes, long random lives, games and independent computations.
_SLOW = (
    _HERE / "accountant/conversions",
    _HERE / "accountant/mechanisms",
    _HERE / "audit_game",
    _HERE / "examples",
    _HERE / "streams/cli",
    _HERE / "research/games",
    _HERE / "research/test_experiment.py",
    _HERE / "streams/engines/test_examples.py",
    _HERE / "streams/processing/test_simulation.py",
    _HERE / "streams/processing/test_side_by_side.py",
)

_RETRY_S: Final = 5.0
_FAULTS_S: Final = 1_200  # the longest takes 90 s, and starts a broker of its own


# How fast a machine draws examples or runs one says nothing of the code. `make test` draws the same
# examples each time, so that it judges the change and not the draw; `make nightly` draws new ones,
# and more of them.
settings.register_profile(
    "any_machine",
    deadline=None,
    max_examples=examples(100),
    derandomize=not NIGHTLY,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any_machine")


class TimeLimit(BaseException):
    """A test, its fixtures included, takes longer than it may.

    No Exception, so that `except Exception` does not keep it and Hypothesis looks for no smaller
    example of it.
    """


def pytest_configure(config: pytest.Config) -> None:
    """Give the tests directories of state and data, listen to interrupts, record durations.

    The commands which tests interrupt then listen, too. What a script starts in the background
    is born deaf to them, and so are its children.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Ledgers in files keep checkpoints, and clients answers, in directories of their user: not in
    # this one's.
    directory = tempfile.TemporaryDirectory(prefix="home-", ignore_cleanup_errors=True)
    atexit.register(directory.cleanup)
    os.environ["XDG_STATE_HOME"] = f"{directory.name}/state"
    os.environ["XDG_DATA_HOME"] = f"{directory.name}/data"
    if durations := os.environ.get(recorder.DIRECTORY):
        config.pluginmanager.register(recorder.Recorder(Path(durations).resolve()))


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
    """Raise in a test at its limit, and again every few seconds until it has ended.

    pytest-timeout raises once. That may end a background task instead of the test, and a
    test that has failed may hang again while its fixtures and tasks are cleaned up.

    Between set-up, call and tear-down nothing is raised: pytest catches no error there, so it
    would end the whole session.
    """

    def end(_signal: int, _frame: object) -> None:
        if _PHASE.runs and not pytest_timeout.is_debugging():
            pytest_timeout.dump_stacks(item.config.get_terminal_writer())
            raise TimeLimit(f"{item.nodeid} takes longer than {settings.timeout:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, _RETRY_S)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer() -> bool:
    """Keep the timer of a test that failed: `pytest_runtest_protocol` ends it."""
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Stop the timer once the test and its fixtures have ended."""
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _Phase:
    """Whether a set-up, a call or a tear-down runs: pytest catches what is raised there."""

    runs = False


_PHASE: Final = _Phase()


def _limited() -> Generator[None, object, object]:
    _PHASE.runs = True
    try:
        return (yield)
    finally:
        _PHASE.runs = False


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Let the limit end a set-up."""
    return (yield from _limited())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Let the limit end a test."""
    return (yield from _limited())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Let the limit end a tear-down."""
    return (yield from _limited())


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Turn the garbage collector off while tests are collected, and exempt what that creates.

    Modules and tests live until the end. Searching them for garbage takes a third of the
    processor time of a first collection, which compiles every test. The controller of several
    workers collects none, and leaves their pipes to the garbage collector.
    """
    if session.config.pluginmanager.has_plugin("dsession"):
        return (yield)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test that uses a broker, or took long, so that `make test-fast` leaves it out.

    Those on three brokers run where they are asked for by name.
    """
    runs_cluster = "cluster" in config.option.markexpr
    kept, three = list[pytest.Item](), list[pytest.Item]()
    took = recorded()
    slow = slow_tests(took)
    # There are more than 10,000 items: read the marks of each once, and compare each path once.
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "cluster" in marks and not runs_cluster:
            three.append(item)
            continue
        added = set(_marks_of(item.path))
        if not _BROKERS.isdisjoint(getattr(item, "fixturenames", ())):
            added.add("kafka")
        if item.nodeid.partition("[")[0] in slow:
            added.add("slow")
        for name in added:
            item.add_marker(name)
        if "faults" in marks and "timeout" not in marks:
            item.add_marker(pytest.mark.timeout(_FAULTS_S))
        kept.append(item)
    if three:
        config.hook.pytest_deselected(items=three)
    longest_files_first(kept, took)
    items[:] = kept


@cache
def _marks_of(path: Path) -> frozenset[str]:
    """Return the marks that follow from the directory of a test."""
    marks = {"kafka"} if path.is_relative_to(_KAFKA_TESTS) else set()
    if any(path.is_relative_to(slow) for slow in _SLOW):
        marks.add("slow")
    return frozenset(marks)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the broker's log with each test that fails."""
    report = yield
    if report.failed:
        for name in _BROKERS:
            log_tail = getattr(getattr(item, "funcargs", {}).get(name), "log_tail", None)
            if log_tail is not None:
                report.sections.append((f"log of {name}", log_tail()))
    return report
