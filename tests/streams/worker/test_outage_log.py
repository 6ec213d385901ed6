"""A broker that is away takes a line at once, one a minute, and one when it is back."""

from __future__ import annotations

import logging
import re

import pytest

from streams.telemetry.logs import RateLimit, logging_config
from streams.worker.status import BROKER, Status
from tests.streams.clock import TestClock


def test_an_outage_is_logged_at_once_then_each_minute_and_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = TestClock()
    status = Status(clock.monotonic)
    status.trouble(BROKER, None)  # it was never away
    for _ in range(150):  # tries, a second apart
        status.trouble(BROKER, "it does not answer")
        clock.pass_(seconds=1)
    for _ in range(2):
        status.trouble(BROKER, None)
    status.trouble(BROKER, "it does not answer")
    said = [re.findall(r"broker_\w+|seconds=\d+", each.getMessage()) for each in caplog.records]
    assert said == [
        ["broker_away"],
        ["broker_away", "seconds=60"],
        ["broker_away", "seconds=120"],
        ["broker_back", "seconds=150"],
        ["broker_away"],
    ]


def test_errors_of_the_brokers_client_are_one_line_a_minute() -> None:
    clock = TestClock()
    options = dict(logging_config(level="info", is_json=True)["filters"]["broker_errors"])
    assert options.pop("()") is RateLimit
    limit = RateLimit(**options, now=clock.monotonic)

    def is_logged(level: int, text: str, library: str = "aiokafka.client") -> bool:
        return bool(limit.filter(logging.LogRecord(library, level, "", 1, text, (), None)))

    logged = 0
    for number in range(1200):  # ten a second
        logged += is_logged(logging.ERROR, f"of text {number % 9}")
        clock.pass_(seconds=0.1)
    assert logged == 2
    assert is_logged(logging.INFO, "Joined group")
    assert all(is_logged(logging.ERROR, "the same", "streams.worker") for _ in range(9))
