"""Each kind of token at a real server: the right status, nothing appended, no detail."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from streams.auth import token_file
from tests.every_case import check_each
from tests.streams.auth.provider import LocalProvider, b64, forged, pem_of
from tests.streams.auth.token_server import ADMINISTRATOR, TokenServer, wall
from tests.streams.gateway.records import request

MakeCredential = Callable[[TokenServer, LocalProvider], str | bytes | None]


def _expired(server: TokenServer, _: LocalProvider) -> str:
    return server.make("local:late", expires=wall() - 1, another=True)


def _revoked(server: TokenServer, _: LocalProvider) -> str:
    token = server.make("local:gone", another=True)
    token_file.revoke(server.tokens, "local:gone", now=wall())
    return token


def _signed_by_another_key(_: TokenServer, provider: LocalProvider) -> str:
    stranger = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    return jwt.encode(provider.claims(), stranger, algorithm="RS256", headers={"kid": "r1"})


def _signed_by_another_key_type(_: TokenServer, provider: LocalProvider) -> str:
    stranger = ec.generate_private_key(ec.SECP256R1())
    return jwt.encode(provider.claims(), stranger, algorithm="ES256", headers={"kid": "r1"})


def _signed_with_the_public_key(_: TokenServer, provider: LocalProvider) -> str:
    """HS256 signed with the public key: a library that mixes kinds of keys believes it."""
    header = {"alg": "HS256", "typ": "JWT", "kid": "r1"}
    return forged(header, provider.claims(), pem_of(provider.keys["r1"]))


def _signed_with_the_public_key_as_rs256(_: TokenServer, provider: LocalProvider) -> str:
    header = {"alg": "RS256", "typ": "JWT", "kid": "r1"}
    return forged(header, provider.claims(), pem_of(provider.keys["r1"]))


def _with_own_key(_: TokenServer, provider: LocalProvider) -> str:
    """The header brings the key along, or says where it is."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    headers = {"kid": "r1", "jwk": {"kty": "RSA"}, "jku": "http://127.0.0.1:9/", "x5u": "x"}
    return jwt.encode(provider.claims(), key, algorithm="RS256", headers=headers)


def _changed(_: TokenServer, provider: LocalProvider) -> str:
    head, _claims, signature = provider.token().split(".")
    return f"{head}.{b64(json.dumps(provider.claims('olga')).encode())}.{signature}"


def _none(alg: str, *, strip: bool = False) -> MakeCredential:
    def made(_: TokenServer, provider: LocalProvider) -> str:
        token = forged({"alg": alg, "kid": "r1"}, provider.claims(), None)
        return token.rstrip(".") if strip else token

    return made


def _claims(**more: object) -> MakeCredential:
    return lambda _, provider: provider.token(**more)  # type: ignore[arg-type]


def _of_type(typ: object, **more: object) -> MakeCredential:
    """What a provider signs for another end than to be shown to a server."""
    return lambda _, provider: provider.token(header={"kid": "r1", "typ": typ}, **more)  # type: ignore[arg-type]


_BOUND = {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}


def _header(text: str | bytes | None) -> MakeCredential:
    return lambda _server, _provider: text


NOW = int(time.time())
REFUSED: dict[str, MakeCredential] = {
    "none": _header(None),
    "empty": _header(b""),
    "the word alone": _header(b"Bearer"),
    "another scheme": lambda server, _: f"Basic {server.administrator}".encode(),
    "without a scheme": lambda server, _: server.administrator.encode(),
    "two tokens": lambda server, _: f"Bearer {server.administrator} x".encode(),
    "behind a comma": lambda server, _: f"Bearer x, Bearer {server.administrator}".encode(),
    "unknown": _header("acct_" + "A" * 43),
    "a part of one": lambda server, _: server.administrator[:-1],
    "more than one": lambda server, _: server.administrator + "A",
    "in capitals": lambda server, _: server.administrator.upper(),
    "its hash": lambda server, _: hashlib.sha256(server.administrator.encode()).hexdigest(),
    "its id": lambda server, _: token_file.read(server.tokens)[0][0].id,
    "not ASCII": _header("Bearer acct_é".encode("latin-1")),
    "bytes of nothing": _header(b"Bearer \xff\xfe"),
    "expired of the file": _expired,
    "revoked": _revoked,
    "name without the prefix": lambda server, _: server.make("ana", another=True),
    "expired": _claims(exp=NOW - 120),
    "without an end": _claims(exp=None),
    "an end that is text": _claims(exp="never"),
    "an end that is no number": _claims(exp=float("nan")),
    "of later": _claims(nbf=NOW + 3_600),
    "issued later": _claims(iat=NOW + 3_600),
    "another audience": _claims(aud="payroll"),
    "no audience": _claims(aud=None),
    "audience of no text": _claims(aud=[1]),
    "another issuer": _claims(iss="https://elsewhere.example.org"),
    "no issuer": _claims(iss=None),
    "issuer in a list": _claims(iss=["x"]),
    "no subject": _claims(sub=None),
    "subject that is no text": _claims(sub=7),
    "subject that is half a character": _claims(sub="\ud800"),
    "subject that is empty": _claims(sub=""),
    "subject of the static tokens": _claims(sub=ADMINISTRATOR),
    "subject of the static tokens in capitals": _claims(sub="Local:olga"),
    "alg none": _none("none"),
    "alg None": _none("None"),
    "alg none without a signature": _none("none", strip=True),
    "alg empty": _none(""),
    "key confusion": _signed_with_the_public_key,
    "key confusion named RS256": _signed_with_the_public_key_as_rs256,
    "signed by another key": _signed_by_another_key,
    "signed by a key of another type": _signed_by_another_key_type,
    "a key of its own": _with_own_key,
    "changed": _changed,
    "unknown key": lambda _, provider: provider.token(header={"kid": "other"}),
    "no algorithm": lambda _, provider: forged({"kid": "r1"}, provider.claims(), b""),
    "algorithm of no text": lambda _, p: forged({"alg": ["RS256"], "kid": "r1"}, p.claims(), b""),
    "key id of no text": lambda _, p: forged({"alg": "RS256", "kid": 7}, p.claims(), b""),
    "critical header": lambda _, p: p.token(header={"kid": "r1", "crit": ["exp"]}),
    "deeply nested": _header(b64(b"[" * 5_000) + ".e30.e30"),
    "proof of a key": _of_type("dpop+jwt"),
    "logout token": _of_type("logout+jwt"),
    "logout token by its claims": _of_type("JWT", events={}),
    "a type of no text": _of_type(7),
    "bound to a key": _claims(cnf=_BOUND),
    "ID token": _claims(at_hash="x"),
    "ID token of the code flow": _claims(c_hash="x"),
    "ID token of Keycloak": _claims(typ="ID"),
    "refresh token of Keycloak": _claims(typ="Refresh"),
    "four parts": lambda _, p: p.token() + ".x",
    "header that is no JSON": lambda _, p: "e30x." + p.token().partition(".")[2],
}


def test_an_unacceptable_token_gets_401_and_appends_nothing(
    token_server: TokenServer, shared_provider: LocalProvider
) -> None:
    def check_case(case: str) -> None:
        credential = REFUSED[case](token_server, shared_provider)
        before = token_server.last_sequence()
        shown = credential if isinstance(credential, bytes) else f"Bearer {credential}".encode()
        headers = {"content-type": "application/json"}
        if credential is not None:
            headers["authorization"] = shown  # type: ignore[assignment]
        answers = [
            token_server.http.post("/requests", json=request(token_server.clock), headers=headers),
            token_server.get("/datasets", credential),
        ]
        for answer in answers:
            assert answer.status_code == 401, answer.text
            assert answer.headers["www-authenticate"] == "Bearer"
            assert (
                answer.content == token_server.get("/", None).content
            )  # the same, whatever was wrong
        assert token_server.last_sequence() == before

    check_each(check_case, REFUSED)


@pytest.mark.parametrize(
    ("credential", "result"),
    [
        (_header("x" * 8_193), "the token is longer than 8192 characters"),
        (_header("acct_" + "x" * 30_000), "the token is longer than 8192 characters"),
        (_claims(sub="a" * 101), "subject has 101 characters, which makes a name of 166"),
        (_claims(sub="|" * 61), "subject has 61 characters, which makes a name of 102"),
    ],
)
def test_a_too_long_token_or_subject_gets_401_with_its_length(
    token_server: TokenServer,
    shared_provider: LocalProvider,
    credential: MakeCredential,
    result: str,
) -> None:
    answer = token_server.get("/me", credential(token_server, shared_provider))
    assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert result in answer.json()["message"]


def test_a_subject_with_special_characters_gets_an_escaped_name(
    token_server: TokenServer, shared_provider: LocalProvider
) -> None:
    me = token_server.get("/me", shared_provider.token("auth0|5f7c8ec7c33c6c004bbafe82")).json()
    assert me["name"] == "b32.mf2xi2bqpq2wmn3dhbswgn3dgmzwgntdgaydiytcmftgkobs"


def test_a_key_in_the_token_header_is_ignored(
    token_server: TokenServer, shared_provider: LocalProvider
) -> None:
    header = {"kid": "r1", "jwk": {"kty": "RSA"}, "jku": "http://127.0.0.1:9/", "x5u": "x"}
    assert token_server.get("/me", shared_provider.token(header=header)).json()["name"] == "ana"


def test_a_valid_token_authenticates_its_subject(
    token_server: TokenServer, shared_provider: LocalProvider
) -> None:
    ben = token_server.make("local:ben", expires=wall() + 60_000)
    late = shared_provider.token("ana", exp=int(time.time()) - 1)  # clocks may differ by 60 s
    access = shared_provider.token("ana", header={"kid": "r1", "typ": "application/at+jwt"})
    for token, name, kind, administrator in (
        (token_server.administrator, ADMINISTRATOR, "token", True),
        (ben, "local:ben", "token", False),
        (shared_provider.token("ana"), "ana", "oidc", False),
        (shared_provider.token("ana", aud=["payroll", "accountant"]), "ana", "oidc", False),
        (late, "ana", "oidc", False),
        (access, "ana", "oidc", False),
    ):
        for _ in range(2):  # the second time it is remembered
            me = token_server.get("/me", token).json()
            assert [each["dataset"] for each in me.pop("datasets")] == ["census"] * administrator
            assert me == {
                "name": name,
                "kind": kind,
                "administrator": administrator,
                "authentication": True,
            }
    assert token_server.status(f"bearer {ben}".encode()) == 200  # the scheme is of any case


def test_two_authorization_headers_get_401(token_server: TokenServer) -> None:
    shown = f"Bearer {token_server.administrator}"
    for other in (shown, "Bearer x", "Basic x"):
        for both in ([shown, other], [other, shown]):
            headers = [("Authorization", each) for each in both]
            assert token_server.http.get("/me", headers=headers).status_code == 401


def test_a_token_in_the_url_gets_401(token_server: TokenServer) -> None:
    for name in ("access_token", "token", "authorization"):
        answer = token_server.http.get("/me", params={name: token_server.administrator})
        assert answer.status_code == 401


def test_a_too_long_authorization_header_causes_no_server_error(token_server: TokenServer) -> None:
    answer = token_server.http.get("/me", headers={"Authorization": "Bearer " + "x" * 200_000})
    assert answer.status_code in {400, 401, 431}


def test_metrics_count_authentications_and_contain_no_token(
    token_server: TokenServer, shared_provider: LocalProvider
) -> None:
    oidc = shared_provider.token("ana")
    assert token_server.status(oidc) == 200
    text = token_server.get("/metrics", token_server.administrator).text
    for outcome in ("accepted", "unauthenticated", "unavailable"):
        assert f'privacy_http_authentications_total{{outcome="{outcome}"}}' in text
    for secret in (token_server.administrator, oidc, hashlib.sha256(oidc.encode()).hexdigest()):
        assert secret not in text
