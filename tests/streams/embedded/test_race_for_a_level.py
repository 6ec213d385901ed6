"""Many ask at once for the last of a limit: one gets it, also after a restart."""

from __future__ import annotations

import json
import threading
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.streams.bodies import asking, enrolment, opening, request_id
from tests.streams.clock import TestClock

ANALYSTS = ("ana", "ben") * 4
PACE = {"pace": {"part": "0.1", "period": "P1D"}}
LEVELS: dict[str, dict[str, Any]] = {
    "a dataset's pace": {"scope": "dataset", **PACE},
    "a team's part": {"scope": "team", "name": "blue", "part": "0.1"},
    "a team's pace": {"scope": "team", "name": "blue", **PACE},
    "an analyst's part": {"scope": "analyst", "name": "ana", "part": "0.1"},
    "a default's part": {"scope": "each", "name": "blue", "part": "0.1"},
    "a share of others": {"scope": "analyst", "name": "cy", "reserved": "0.9"},
}


@pytest.mark.parametrize("name", LEVELS)
def test_one_of_many_gets_the_last_of_a_level(name: str, file: Path, clock: TestClock) -> None:
    fields = LEVELS[name]
    alone = fields["scope"] == "each" or fields.get("name") == "ana"
    who = ("ana",) * 8 if alone else ANALYSTS
    service = EmbeddedService.open(file, Settings(), clock=clock)
    at = clock.now()
    limit = {"version": 1, "type": "limit", "request_id": request_id(at, 4), "dataset": "census"}
    for body in (
        opening("census", at, 1),
        enrolment("census", at, 2, "ana", "analyst", team="blue"),
        enrolment("census", at, 3, "ben", "analyst", team="blue"),
        json.dumps({**limit, "by": "owner", **fields}).encode(),
    ):
        service.submit_sync("admin", body, 10)
    answers: list[dict[str, Any]] = []
    ready = threading.Barrier(len(who))

    def ask(number: int, analyst: str) -> None:
        body = asking("census", at, 10 + number, analyst=analyst)
        ready.wait()
        answer = service.submit_sync("requests", body, 10)
        answers.append(json.loads(answer.decision or b""))

    threads = [threading.Thread(target=ask, args=each) for each in enumerate(who)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reported = Counter(each["outcome"] for each in answers)
    assert reported == {"granted": 1, "refused": 7}
    first = min(answers, key=lambda each: each["partition_sequence"])
    assert first["outcome"] == "granted"
    assert all("level" in each for each in answers if each is not first)
    assert {Fraction(each["totals"]["epsilon"]) for each in answers} == {Fraction("0.1")}
    service.close_sync()
    service = EmbeddedService.open(file, Settings(), clock=clock)
    body = asking("census", at, 99, epsilon="0.01", analyst="ana")
    again = json.loads(service.submit_sync("requests", body, 10).decision or b"")
    assert again["outcome"] == "refused"
    service.close_sync()
