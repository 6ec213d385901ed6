"""A server whose provider is unreachable: known keys work for the outage limit and no longer."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from tests.provider.accountant_server import AccountantServer, Answered, until
from tests.provider.real_provider import Key, RealProvider

OUTAGE_S = 10


def assert_closed(answer: httpx.Response, provider: RealProvider) -> None:
    assert (answer.status_code, answer.json()["error"]) == (503, "authentication_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert provider.issuer not in answer.text


@pytest.mark.parametrize("way", ["killed", "paused"])
def test_known_keys_work_for_the_outage_limit_and_after_the_providers_return(
    tmp_path: Path, provider: RealProvider, first: Key, way: str
) -> None:
    provider.restart(Key.rsa("second"))
    unknown = provider.token("olga")
    provider.restart(first)
    with AccountantServer(tmp_path / "server", provider, oidc_outage_seconds=OUTAGE_S) as server:
        olga = provider.token("olga")
        asked = time.monotonic()
        assert server.open("census", olga).status_code == 200
        if way == "killed":
            provider.stop()
        else:
            provider.pause()
        away = time.monotonic()
        answers: list[Answered] = []

        def is_closed() -> bool:
            answers.append(server.timed_status(olga))
            return answers[-1].status != 200

        is_closed()
        assert_closed(server.open("survey", unknown), provider)  # nobody can tell now
        until("the end of the stated time", is_closed)
        assert [each.status for each in answers] == [200] * (len(answers) - 1) + [503]
        # Its keys were read between these moments, and never again.
        assert answers[-1].received >= asked + OUTAGE_S
        assert all(each.sent < away + OUTAGE_S for each in answers[:-1])
        for token in (olga, unknown):
            assert_closed(server.open("survey", token), provider)
        assert_closed(server.request("olga", "census", olga), provider)
        assert server.health() == (200, 200)

        if way == "killed":
            provider.start(first)
        else:
            provider.resume()
        until("its return", lambda: server.status(olga) == 200)
        assert server.status(unknown) == 401  # now somebody can
        assert server.get("/datasets/survey", olga).status_code == 404
        assert server.get("/datasets/census", olga).json()["totals"]["mechanisms"] == 0
        assert server.open("survey", olga).json()["outcome"] == "opened"


def test_a_server_started_during_an_outage_recovers_with_its_provider(
    tmp_path: Path, provider: RealProvider, first: Key
) -> None:
    olga = provider.token("olga")
    provider.stop()
    with AccountantServer(tmp_path / "server", provider) as server:
        assert server.health() == (200, 200)
        assert_closed(server.open("census", olga), provider)
        provider.start(first)
        until("its return", lambda: server.status(olga) == 200)
        assert server.get("/datasets/census", olga).status_code == 404
        assert server.open("census", olga).json()["outcome"] == "opened"
