"""The stand-alone verifier knows when a limit ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from streams.evidence import verify
from tests.golden.replayed_logs import played

Said = dict[str, Any]
OPENS = ("tests/golden/*",)


def _limit(said: Said, **fields: Any) -> Said:
    return said | {"limit": said["limit"] | fields}


def _without_end(said: Said) -> Said:
    request = {name: each for name, each in said["request"].items() if name != "until"}
    limit = {name: each for name, each in said["limit"].items() if name != "until"}
    return said | {"request": request, "limit": limit}


FORGED: dict[str, tuple[int, Callable[[Said], Said], str]] = {
    # The record, by its number, what is forged of it, and what the verifier says.
    "end_left_out": (7, lambda said: _limit(said, until=None), "limit.until"),
    "end_before_its_record": (
        7,
        lambda said: (
            _limit(said, until="2026-11-21T10:00:00.000Z")
            | {"request": said["request"] | {"until": "2026-11-21T10:00:00.000Z"}}
        ),
        "ends before it was set",
    ),
    "charged_after_its_end": (
        21,
        lambda said: said | {"levels": [{"scope": "analyst", "name": "ana", "version": 1}]},
        "limits that apply",
    ),
    "charged_to_a_team_after_its_end": (
        21,
        lambda said: (
            said | {"levels": [{"scope": "team", "name": "red", "version": 1}, *said["levels"]]}
        ),
        "after its end",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_the_verifier_notices_a_forged_end(name: str) -> None:
    number, forge, words = FORGED[name]
    values = played("ends").log
    log = verify.Log()
    for value in values[:number]:
        log.take(value)
    with pytest.raises(verify.Wrong, match=words):
        log.decision(forge(json.loads(values[number])), "sha256:" + "0" * 64)


def test_a_limit_without_its_end_is_noticed_by_what_is_granted_later() -> None:
    values = [json.loads(value) for value in played("ends").log]
    log = verify.Log()
    for said in [*values[:7], _without_end(values[7]), *values[8:21]]:
        log.decision(said, "")
    with pytest.raises(verify.Wrong, match="limits that apply"):
        log.decision(values[21], "")


def test_the_verifier_takes_a_log_in_which_the_clock_was_set_back() -> None:
    log = verify.Log()
    for value in played("ends").log:
        log.take(value)
