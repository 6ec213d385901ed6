"""What a server makes of the tokens that a certified provider gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider.accountant_server import AccountantServer, until
from tests.provider.real_provider import ES256, SERVICES, Key, RealProvider, claims, header

EVERY = "RS256,ES256,PS256,EdDSA"


@pytest.fixture
def server(tmp_path: Path, provider: RealProvider) -> Iterator[AccountantServer]:
    with AccountantServer(tmp_path / "server", provider) as running:
        yield running


def test_login_tokens_and_program_tokens_authenticate_their_callers(
    server: AccountantServer, provider: RealProvider
) -> None:
    olga = provider.login("olga")["access_token"]
    assert header(olga)["typ"] == "at+jwt"
    me = server.get("/me", olga).json()
    assert (me["name"], me["kind"], me["administrator"]) == ("olga", "oidc", True)
    opened = server.open("census", olga)
    assert (opened.status_code, opened.json()["outcome"]) == (200, "opened"), opened.text
    ana = provider.token("ana")
    granted = server.request("ana", "census", ana)
    assert (granted.status_code, granted.json()["outcome"]) == (200, "granted"), granted.text
    for token in (ana, provider.login("ana")["access_token"]):
        me = server.get("/me", token).json()
        assert (me["name"], me["kind"], me["administrator"]) == ("ana", "oidc", False)
    shown = server.get("/datasets/census", olga)
    assert shown.json()["totals"]["mechanisms"] == 1, shown.text


@pytest.mark.parametrize("allowed", ["RS256,ES256", EVERY, "ES256"])
def test_only_tokens_of_allowed_algorithms_are_accepted(
    provider: RealProvider, first: Key, tmp_path: Path, allowed: str
) -> None:
    provider.restart(first, Key.ec("elliptic"), Key.ed25519("edwards"))
    with AccountantServer(tmp_path / "server", provider, oidc_algorithms=allowed) as server:
        for name in ("rs256", "es256", "ps256", "eddsa", "hs256"):
            service = SERVICES[name]
            token = provider.token("ana", service)
            assert header(token)["alg"] == service.algorithm
            is_allowed = service.algorithm in allowed.split(",")
            assert server.status(token) == (200 if is_allowed else 401), name


def test_tokens_for_other_uses_get_401_and_append_nothing(
    server: AccountantServer, provider: RealProvider
) -> None:
    olga = provider.token("olga")
    assert server.open("census", olga).status_code == 200
    another = provider.login("olga")
    tokens = {
        "of another audience": provider.token("olga", SERVICES["other"]),
        "of an audience that begins alike": provider.token("olga", SERVICES["prefix"]),
        "without an audience, opaque": provider.token("olga", None),
        "an id token, which is the notebook's": another["id_token"],
        "by a secret": provider.token("olga", SERVICES["hs256"]),
        "cut": olga[:-8],
        "of another's claims": ".".join(
            [olga.split(".")[0], provider.token("ana").split(".")[1], olga.split(".")[2]]
        ),
    }
    answers = {}
    for what, token in tokens.items():
        answer = server.open("survey", token)
        assert answer.status_code == 401, what
        assert answer.headers["www-authenticate"] == "Bearer"
        answers[answer.text] = what
        assert server.request("olga", "census", token).status_code == 401, what
    assert len(answers) == 1  # the same words, whatever was wrong
    assert server.get("/datasets/survey", olga).status_code == 404
    assert server.get("/datasets/census", olga).json()["totals"]["mechanisms"] == 0


def test_a_token_of_another_issuer_with_the_same_keys_is_refused(
    server: AccountantServer, provider: RealProvider, modules: Path, tmp_path: Path, first: Key
) -> None:
    with RealProvider(modules, tmp_path / "another") as another:
        another.start(first)
        token = another.token("olga")
        assert header(token) == header(provider.token("olga"))
        assert server.status(token) == 401
    assert server.status(provider.token("olga")) == 200


def test_a_token_is_accepted_until_it_expires(provider: RealProvider, tmp_path: Path) -> None:
    with AccountantServer(tmp_path / "server", provider, oidc_skew_seconds=1) as server:
        token = provider.token("ana", SERVICES["soon over"])
        expires, results = claims(token)["exp"], []

        def has_expired() -> bool:
            sent = time.time()
            results.append((server.status(token), sent, time.time()))
            return results[-1][0] != 200

        until("its end", has_expired)
        assert [status for status, _, _ in results] == [200] * (len(results) - 1) + [401]
        # To its end and the difference of clocks that is allowed, and no longer.
        assert results[-1][2] >= expires + 1
        assert all(sent < expires + 1 for status, sent, _ in results if status == 200)
        assert server.status(provider.token("ana")) == 200


def test_a_special_subject_is_escaped_or_replaced_by_another_claim(
    provider: RealProvider, tmp_path: Path
) -> None:
    token = provider.token("lab|ana")
    assert claims(token)["sub"] == "lab|ana"
    with AccountantServer(tmp_path / "server", provider) as server:
        assert server.get("/me", token).json()["name"] == "b32.nrqwe7dbnzqq"
    with AccountantServer(tmp_path / "named", provider, oidc_subject_field="analyst") as server:
        assert server.get("/me", token).json()["name"] == "lab-ana"


@pytest.mark.parametrize("path", ["/", "/realms/lab"])
def test_an_issuer_url_may_have_a_path(
    modules: Path, tmp_path: Path, first: Key, path: str
) -> None:
    with RealProvider(modules, tmp_path / "provider", path=path) as provider:
        provider.start(first, Key.ec("elliptic"))
        token = provider.token("ana", ES256)
        assert claims(token)["iss"] == provider.issuer
        with AccountantServer(tmp_path / "server", provider) as server:
            assert server.status(token) == 200
            assert server.status(provider.login("ana")["access_token"]) == 200
