"""The provider is away: known keys go on for the stated time, and nobody's does after it."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from tests.provider.real_door import Answered, RealDoor, until
from tests.provider.real_provider import Key, RealProvider

OUTAGE_S = 10


def assert_closed(answer: httpx.Response, provider: RealProvider) -> None:
    assert (answer.status_code, answer.json()["error"]) == (503, "authentication_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert provider.issuer not in answer.text


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_known_keys_go_on_for_the_stated_time_and_again_once_it_is_back(
    tmp_path: Path, provider: RealProvider, first: Key, how: str
) -> None:
    provider.restart(Key.rsa("second"))
    unknown = provider.token("olga")
    provider.restart(first)
    with RealDoor(tmp_path / "door", provider, oidc_outage_seconds=OUTAGE_S) as door:
        olga = provider.token("olga")
        asked = time.monotonic()
        assert door.open("census", olga).status_code == 200
        if how == "killed":
            provider.stop()
        else:
            provider.pause()
        away = time.monotonic()
        seen: list[Answered] = []

        def is_closed() -> bool:
            seen.append(door.asked(olga))
            return seen[-1].status != 200

        is_closed()
        assert_closed(door.open("survey", unknown), provider)  # nobody can tell now
        until("the end of the stated time", is_closed)
        assert [each.status for each in seen] == [200] * (len(seen) - 1) + [503]
        # Its keys were read between these moments, and never again.
        assert seen[-1].received >= asked + OUTAGE_S
        assert all(each.sent < away + OUTAGE_S for each in seen[:-1])
        for token in (olga, unknown):
            assert_closed(door.open("survey", token), provider)
        assert_closed(door.request("olga", "census", olga), provider)
        assert door.health() == (200, 200)

        if how == "killed":
            provider.start(first)
        else:
            provider.resume()
        until("its return", lambda: door.status(olga) == 200)
        assert door.status(unknown) == 401  # now somebody can
        assert door.get("/datasets/survey", olga).status_code == 404
        assert door.get("/datasets/census", olga).json()["totals"]["mechanisms"] == 0
        assert door.open("survey", olga).json()["outcome"] == "opened"


def test_a_door_that_starts_while_its_provider_is_away_waits_for_it(
    tmp_path: Path, provider: RealProvider, first: Key
) -> None:
    olga = provider.token("olga")
    provider.stop()
    with RealDoor(tmp_path / "door", provider) as door:
        assert door.health() == (200, 200)
        assert_closed(door.open("census", olga), provider)
        provider.start(first)
        until("its return", lambda: door.status(olga) == 200)
        assert door.get("/datasets/census", olga).status_code == 404
        assert door.open("census", olga).json()["outcome"] == "opened"
