"""What a thread reads of levels while another puts some, or reads by another policy."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from accountant.limits.state import LimitRule, LimitState
from accountant.limits.store import LimitTable
from accountant.policy import Policy
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records.limit_records import LimitRecord

REPORTED = LimitRecord("analyst", "ana", 1, "0.5", budget={"epsilon": "0.5", "delta": "0"})


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Have threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def both(*works: Callable[[], None]) -> None:
    """Run some works side by side, and raise what one of them raises."""
    failed: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # raised by the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_a_list_of_limits_is_of_one_moment() -> None:
    table, done = LimitTable(), threading.Event()

    def put() -> None:
        for number in range(3_000):
            table.put(
                LimitState("census", "analyst", "", f"a{number}", number, LimitRule(REPORTED))
            )
            table.put(
                LimitState(f"other{number}", "analyst", "", "ana", number, LimitRule(REPORTED))
            )
        done.set()

    def read() -> None:
        last = 0
        while not done.is_set():
            found = table.limits_of("census")
            assert [level.sequence for level in found] == list(range(len(found)))
            assert len(found) >= last
            last = len(found)

    both(put, read)
    assert len(table.limits_of("census")) == 3_000


def test_threads_never_read_the_bounds_of_another_policy() -> None:
    rule = LimitRule(REPORTED)
    plans = [
        open_plan(Policy(filter="basic", epsilon="1", alert_at=(ratio,)))
        for ratio in ("0.1", "0.7")
    ]

    def ask(plan: CompiledPolicy) -> Callable[[], None]:
        right = rule.under(plan)

        def asking() -> None:
            for _ in range(3_000):
                assert rule.under(plan) == right

        return asking

    both(*[ask(plan) for plan in plans])
