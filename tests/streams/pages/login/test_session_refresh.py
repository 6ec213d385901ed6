"""Sessions that began at the provider: refreshed, never longer than the provider allows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streams.pages.login import provider_client
from streams.pages.login.browser_sessions import LIFETIME_S
from streams.pages.login.session_refresh import EARLY_S, RETRY_S
from tests.streams.oauth.sign_in_provider import SignInProvider
from tests.streams.pages.login.provider_server import ProviderPerson, ProviderServer, leads_to
from tests.streams.waiting import eventually

DUE_S = 600 - EARLY_S
"""Seconds after which the provider's tokens of ten minutes are refreshed."""


@pytest.fixture
def office(tmp_path: Path) -> Iterator[ProviderServer]:
    with SignInProvider() as provider, ProviderServer(tmp_path, provider) as server:
        yield server


@pytest.fixture
def ana(office: ProviderServer) -> Iterator[ProviderPerson]:
    with ProviderPerson(office) as made:
        assert leads_to(made.sign_in_at_provider()) == "/"
        yield made


def grants(office: ProviderServer) -> list[str]:
    return [form["grant_type"] for form in office.provider.forms]


def test_a_session_is_refreshed_a_little_before_its_token_expires(
    office: ProviderServer, ana: ProviderPerson
) -> None:
    office.clock.pass_(seconds=DUE_S - 1)
    assert ana.look("/").status_code == 200
    assert grants(office) == ["authorization_code"]
    for number in range(1, 4):
        office.clock.pass_(seconds=1 if number == 1 else DUE_S)
        assert "<b>ana</b>" in ana.look("/").text
        # Each refresh used the refresh token of the one before: the provider takes each once.
        assert grants(office) == ["authorization_code", *["refresh_token"] * number]
    used = [form["refresh_token"] for form in office.provider.forms[1:]]
    assert len(set(used)) == 3


def test_a_provider_that_does_not_rotate_refresh_tokens_is_asked_with_the_first(
    office: ProviderServer, ana: ProviderPerson
) -> None:
    office.provider.rotates = False
    for _ in range(3):
        office.clock.pass_(seconds=DUE_S)
        assert ana.look("/").status_code == 200
    assert len({form["refresh_token"] for form in office.provider.forms[1:]}) == 1


def test_many_requests_at_once_refresh_a_session_once(
    office: ProviderServer, ana: ProviderPerson
) -> None:
    office.clock.pass_(seconds=DUE_S)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ana.look("/").status_code, range(8)))
    assert found == [200] * 8
    assert grants(office).count("refresh_token") == 1


def test_a_refused_refresh_ends_the_session(office: ProviderServer, ana: ProviderPerson) -> None:
    office.provider.refused = "invalid_grant"
    office.clock.pass_(seconds=DUE_S)
    assert ana.look("/").headers.get("location") == "/sign-in"
    office.provider.refused = None
    assert ana.look("/").status_code == 303
    assert "Your session has ended" in ana.look("/sign-in").text


def test_while_the_provider_is_away_a_session_lives_as_long_as_its_token(
    office: ProviderServer, ana: ProviderPerson
) -> None:
    office.provider.away = True
    office.clock.pass_(seconds=DUE_S)
    assert ana.look("/").status_code == 200
    office.clock.pass_(seconds=EARLY_S - 1)
    assert ana.look("/").status_code == 200
    office.clock.pass_(seconds=1)
    assert ana.look("/").status_code == 303
    office.provider.away = False
    assert ana.look("/").status_code == 303  # it has ended, and does not come back


def test_a_session_ends_with_its_token_by_the_provider_s_clock_too(tmp_path: Path) -> None:
    with (
        SignInProvider() as provider,
        ProviderServer(tmp_path, provider, oidc_skew_seconds=0) as server,
        ProviderPerson(server) as person,
    ):
        provider.seconds = 2
        assert leads_to(person.sign_in_at_provider()) == "/"
        provider.away = True
        eventually(lambda: person.look("/").status_code == 303)


def test_a_session_survives_a_short_outage_of_the_provider(
    office: ProviderServer, ana: ProviderPerson
) -> None:
    office.provider.away = True
    office.clock.pass_(seconds=DUE_S)
    for _ in range(3):
        assert ana.look("/").status_code == 200
    assert grants(office).count("refresh_token") == 1  # not at each request
    office.provider.away = False
    office.clock.pass_(seconds=RETRY_S)
    assert ana.look("/").status_code == 200
    assert grants(office).count("refresh_token") == 2
    office.clock.pass_(seconds=DUE_S - 1)
    assert ana.look("/").status_code == 200


@pytest.mark.parametrize("claims", [{"sub": "ben"}, {"aud": "payroll"}, {"exp": 1_000_000_000}])
def test_a_refreshed_token_of_another_person_or_service_ends_the_session(
    office: ProviderServer, ana: ProviderPerson, claims: dict[str, object]
) -> None:
    office.provider.access = claims
    office.clock.pass_(seconds=DUE_S)
    assert ana.look("/").status_code == 303
    office.provider.access = {}
    assert ana.look("/").status_code == 303


def test_a_refreshed_token_of_another_subject_with_the_same_name_ends_the_session(
    tmp_path: Path,
) -> None:
    with (
        SignInProvider() as provider,
        ProviderServer(tmp_path, provider, oidc_subject_field="oid") as server,
        ProviderPerson(server) as person,
    ):
        provider.access = {"oid": "ana", "sub": "1"}
        provider.identity = {"oid": "ana", "sub": "1"}
        assert leads_to(person.sign_in_at_provider()) == "/"
        provider.access = {"oid": "ana", "sub": "2"}
        server.clock.pass_(seconds=DUE_S)
        assert person.look("/").status_code == 303


def test_a_refreshed_session_ends_after_twelve_hours(
    office: ProviderServer, ana: ProviderPerson
) -> None:
    office.provider.seconds = 3_600
    office.clock.pass_(seconds=DUE_S)
    assert ana.look("/").status_code == 200
    left, due = LIFETIME_S - DUE_S, 3_600 - EARLY_S
    while left > due:
        office.clock.pass_(seconds=due)
        left -= due
        assert ana.look("/").status_code == 200
    office.clock.pass_(seconds=left)
    assert ana.look("/").status_code == 303


def test_signing_out_ends_every_copy_of_a_session_that_can_be_refreshed(
    office: ProviderServer, ana: ProviderPerson
) -> None:
    cookie = ana.session or ""
    assert ana.sign_out().status_code == 303
    office.clock.pass_(seconds=DUE_S)
    with ProviderPerson(office) as thief:
        thief.http.cookies.set("accountant-session", cookie, domain="127.0.0.1", path="/")
        assert thief.look("/").status_code == 303
    assert "refresh_token" not in grants(office)


def test_without_a_refresh_token_a_session_ends_with_its_token(tmp_path: Path) -> None:
    with SignInProvider() as provider, ProviderServer(tmp_path, provider) as server:
        provider.refreshes = False
        with ProviderPerson(server) as person:
            assert leads_to(person.sign_in_at_provider()) == "/"
            server.clock.pass_(seconds=599)
            assert person.look("/").status_code == 200
            server.clock.pass_(seconds=1)
            assert person.look("/").status_code == 303
        assert grants(server) == ["authorization_code"]


def test_roles_are_read_at_each_request_and_not_at_the_sign_in(
    office: ProviderServer, ana: ProviderPerson
) -> None:
    assert ana.look("/pages/datasets/survey").status_code == 200
    office.enrol("ana")
    assert ana.look("/pages/datasets/survey").status_code == 404
    assert ">survey</a>" not in ana.look("/").text
    office.enrol("ana", "analyst")
    assert ana.look("/pages/datasets/survey").status_code == 200
    assert ana.look("/").status_code == 200  # still signed in


def test_token_requests_are_bounded_in_number(
    office: ProviderServer, ana: ProviderPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_client, "MOST_AT_ONCE", 0)
    with ProviderPerson(office) as other:
        assert other.sign_in_at_provider().status_code == 503
    office.clock.pass_(seconds=DUE_S)
    assert ana.look("/").status_code == 200
    assert grants(office) == ["authorization_code"]
    monkeypatch.undo()
    office.clock.pass_(seconds=RETRY_S)
    assert ana.look("/").status_code == 200
    assert grants(office) == ["authorization_code", "refresh_token"]
