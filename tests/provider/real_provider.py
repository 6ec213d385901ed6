"""A certified OpenID provider as a process, and the ways in which a program gets its tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from streams.testing.broker_process import pause_process

OPENS = ("tests/provider/*",)
STARTS = ()

PROGRAM: Final = Path(__file__).with_name("provider.mjs")
AUDIENCE: Final = "https://accountant.example"
"""What the server's tokens name; the provider's other services have audiences of their own."""
COMMAND: Final = "accountant-cli"
"""The public client of `accountant login`."""
CALLBACK: Final = "http://127.0.0.1:9/callback"
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class Key:
    """A private key of the provider's."""

    kid: str
    jwk: dict[str, Any]

    @classmethod
    def rsa(cls, kid: str) -> Key:
        key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        jwk = RSAAlgorithm.to_jwk(key, as_dict=True)
        # The provider would tell of its public key, too, that it is for signing.
        del jwk["key_ops"]
        return cls(kid, {**jwk, "kid": kid})

    @classmethod
    def ec(cls, kid: str) -> Key:
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(kid, {**ECAlgorithm.to_jwk(key, as_dict=True), "kid": kid})

    @classmethod
    def ed25519(cls, kid: str) -> Key:
        key = ed25519.Ed25519PrivateKey.generate()
        return cls(kid, {**OKPAlgorithm.to_jwk(key, as_dict=True), "kid": kid})


@dataclass(frozen=True)
class Service:
    """For which service a program asks a token, and how the provider makes tokens for it."""

    audience: str = AUDIENCE
    algorithm: str = "RS256"
    seconds: int = 600
    secret: str | None = None

    @property
    def indicator(self) -> str:
        """By which name a program asks for it (RFC 8707)."""
        how = f"{self.algorithm}/{self.seconds}/{'secret' if self.secret else 'key'}"
        return f"{self.audience}/{how}"


RS256: Final = Service()
ES256: Final = Service(algorithm="ES256")
SERVICES: Final = {
    "rs256": RS256,
    "es256": ES256,
    "ps256": Service(algorithm="PS256"),
    "eddsa": Service(algorithm="EdDSA"),
    "hs256": Service(algorithm="HS256", secret="a secret that both the services know"),
    "soon over": Service(seconds=5),
    "other": Service(audience="https://another.example"),
    "prefix": Service(audience=f"{AUDIENCE}.org"),
}


def free_port() -> int:
    """Return a port that is free, and that no connection takes as its own end meanwhile."""
    own_ends = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(own_ends.read_text().split()[0]) if own_ends.exists() else 32_768
    for _ in range(100):
        port = 10_000 + secrets.randbelow(max(1, min(lowest, 32_768) - 10_000))
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no port is free")


class RealProvider:
    """The provider, which may be stopped and come back at its port with other keys.

    Args:
        path: of the issuer, behind its address.
    """

    def __init__(self, modules: Path, home: Path, *, path: str = "") -> None:
        home.mkdir()
        self._modules = modules
        self._home = home
        self._port = free_port()
        self.secret = secrets.token_urlsafe(32)
        self._process: subprocess.Popen[bytes] | None = None
        self.issuer = f"http://127.0.0.1:{self._port}{path}"
        self.programs = ["olga", "ana", "ben", "lab|ana"]
        # Of servers on whose pages people sign in; they count from the next start on.
        self.callbacks: list[str] = []

    def start(self, *keys: Key) -> None:
        """Start it, and return once it answers; it signs by the first key that fits."""
        assert self._process is None
        configuration = self._home / "configuration.json"
        configuration.touch(mode=0o600)
        configuration.write_text(json.dumps(self._configuration(keys)))
        log = self._home / "provider.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                ["node", PROGRAM, self._modules, configuration],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=out,
                env={**os.environ, "NO_COLOR": "1"},
            )
        assert self._process.stdout is not None
        result = b""
        for line in self._process.stdout:
            result += line
            if line == b"listening\n":
                return
        raise AssertionError(result.decode() + log.read_text()[-3000:])

    def _configuration(self, keys: tuple[Key, ...]) -> dict[str, Any]:
        programs = [
            {
                "client_id": name,
                "client_secret": self.secret,
                "grant_types": ["client_credentials"],
                "response_types": [],
                "redirect_uris": [],
            }
            for name in self.programs
        ]
        browser = {
            "client_id": "notebook",
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "redirect_uris": [CALLBACK],
        }
        pages = [
            {
                "client_id": name,
                "grant_types": ["authorization_code", "refresh_token"],
                "redirect_uris": self.callbacks,
                **client,
            }
            for name, client in (
                ("public-pages", {"token_endpoint_auth_method": "none"}),
                ("pages", {"client_secret": self.secret}),
            )
            if self.callbacks
        ]
        command = {
            "client_id": COMMAND,
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "redirect_uris": ["http://127.0.0.1/callback"],
            "grant_types": [
                "authorization_code",
                "refresh_token",
                "urn:ietf:params:oauth:grant-type:device_code",
            ],
        }
        return {
            "issuer": self.issuer,
            "port": self._port,
            "keys": [key.jwk for key in keys],
            "cookieSecret": self.secret,
            "clients": [*programs, browser, command, *pages],
            "resources": {
                each.indicator: {
                    "audience": each.audience,
                    "algorithm": each.algorithm,
                    "seconds": each.seconds,
                    **({} if each.secret is None else {"secret": each.secret}),
                }
                for each in SERVICES.values()
            },
        }

    def stop(self) -> None:
        """End it. Safe to repeat."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.communicate()

    def pause(self) -> None:
        """Have it answer nothing, while connections to it still succeed."""
        assert self._process is not None
        pause_process(self._process.pid)

    def resume(self) -> None:
        """Have it go on after a pause."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def restart(self, *keys: Key) -> None:
        """Stop it, and start it with other keys: what it did not publish, it cannot verify."""
        self.stop()
        self.start(*keys)

    def _endpoint(self, name: str) -> str:
        where = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        return str(httpx.get(where, timeout=_PATIENCE_S, trust_env=False).json()[name])

    def token(self, name: str, service: Service | None = RS256) -> str:
        """Return a program's token by its credentials; the provider's opaque one for None."""
        form = {"grant_type": "client_credentials"}
        if service is not None:
            form["resource"] = service.indicator
        answer = httpx.post(
            self._endpoint("token_endpoint"),
            data=form,
            auth=(quote(name, safe=""), self.secret),
            timeout=_PATIENCE_S,
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def login(self, name: str, service: Service = RS256) -> dict[str, str]:
        """Return what a person's notebook gets by the authorization code flow with PKCE.

        The person logs in at the provider's pages and agrees: access token and id token.
        """
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "client_id": "notebook",
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": "openid",
            "resource": service.indicator,
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        where = self.walk(f"{self._endpoint('authorization_endpoint')}?{urlencode(query)}", name)
        result = parse_qs(urlsplit(where).query)
        assert result["state"] == [state]
        form = {
            "grant_type": "authorization_code",
            "client_id": "notebook",
            "code": result["code"][0],
            "redirect_uri": CALLBACK,
            "code_verifier": verifier,
            "resource": service.indicator,
        }
        answer = httpx.post(
            self._endpoint("token_endpoint"), data=form, timeout=_PATIENCE_S, trust_env=False
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def walk(self, address: str, name: str) -> str:
        """Log in and agree on the provider's pages; return the address to which they lead back."""
        with httpx.Client(timeout=_PATIENCE_S, trust_env=False) as browser:
            answer = browser.get(address)
            until = (CALLBACK, *self.callbacks)
            return str(fill_in_pages(browser, answer, name, until=until).headers["location"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.stop()


def fill_in_pages(
    browser: httpx.Client,
    answer: httpx.Response,
    name: str,
    *,
    until: tuple[str, ...] = (),
    user_code: str = "",
) -> httpx.Response:
    """Log in and agree, as a person does; return the first answer that asks for nothing more.

    Args:
        until: beginnings of addresses that are not visited.
        user_code: what the person types to sign a device in.
    """
    typed = {"login": name, "password": "any", "user_code": user_code}
    for _ in range(20):
        where = answer.headers.get("location", "")
        if where.startswith(until):
            return answer
        if where:
            answer = browser.get(answer.url.join(where))
            continue
        if "<form" not in answer.text:
            return answer
        form = dict[str, str]()
        for field in re.findall(r"<input[^>]*>", answer.text):
            if named := re.search(r'\bname="([^"]*)"', field):
                value = re.search(r'\bvalue="([^"]*)"', field)
                form[named[1]] = value[1] if value else typed[named[1]]
        answer = browser.post(answer.url, data=form)
    raise AssertionError(answer.text)


def header(token: str) -> dict[str, Any]:
    """Return what a token says of its own signature."""
    return dict(jwt.get_unverified_header(token))


def claims(token: str) -> dict[str, Any]:
    """Return what a token says."""
    return dict(jwt.decode(token, options={"verify_signature": False}))
