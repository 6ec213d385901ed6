"""What is left for somebody is of one moment, though another thread commits all the time."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from streams.service.live_limits import LiveLimits
from tests.accountant.partition.division import ask_for_outcome, divide, divided
from tests.streams.clock import TestClock


@pytest.fixture
def quick_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_turns")
def test_use_of_a_reserved_share_changes_nothing_for_others() -> None:
    world = divided()
    divide(world, "analyst", "ben", reserved="0.9")
    world.commit()
    limits = LiveLimits(lambda _: world.state, TestClock())
    found, is_over = Counter[str](), threading.Event()

    def look() -> None:
        while not is_over.is_set():
            budget = limits.budget("census", "ana")
            assert budget is not None
            found[budget.left["epsilon"]] += 1

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(400):
            assert ask_for_outcome(world, "ben", "0.001") == "granted"
            world.commit()
    finally:
        is_over.set()
        for reader in readers:
            reader.join()
    assert found.keys() == {"0.1"}, found
