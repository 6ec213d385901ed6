"""An OpenID provider of the tests' own: real HTTP on a free port, keys that can be changed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
import zlib
from email.message import Message
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "accountant"
Answer = tuple[int, bytes, dict[str, str]]
RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
"""Takes long to make: one for all tests."""


def b64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


@cache
def bomb() -> bytes:
    """Return 400 kB that expand to 400 MB."""
    made, piece = zlib.compressobj(9, wbits=31), bytes(4_000_000)
    return b"".join([*(made.compress(piece) for _ in range(100)), made.flush()])


def jwk_of(key: Any, kid: str | None, **more: Any) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        made = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        made = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        made = OKPAlgorithm.to_jwk(public, as_dict=True)
    made = {name: value for name, value in made.items() if name != "key_ops"}
    return {**made, **({} if kid is None else {"kid": kid}), **more}


def pem_of(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem


def forged(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None) -> str:
    """Return a token as an attacker writes it: without a signature, or with an HMAC of anything."""
    text = ".".join(b64(json.dumps(part).encode()) for part in (header, claims))
    signature = b"" if secret is None else hmac.digest(secret, text.encode(), hashlib.sha256)
    return f"{text}.{b64(signature)}"


class LocalProvider:
    """Serves discovery and keys, until a test makes it unavailable.

    Attributes:
        keys: private keys by id. published: the ids of the published ones.
        broken: how it answers instead, None for rightly.
        asked: paths that were asked for. encodings: which each of them was to be answered in.
    """

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"r1": RSA_KEY}
        self.published = ["r1"]
        self.jwks: list[dict[str, Any]] | None = None
        self.broken: str | None = None
        self.asked: list[str] = []
        self.encodings: list[str | None] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                provider.encodings.append(self.headers.get("Accept-Encoding"))
                self._send(*provider.answer(self.path))

            def do_POST(self) -> None:
                provider.asked.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = dict(parse_qsl(body, keep_blank_values=True))
                self._send(*provider.answer_form(self.path, form, self.headers))

            def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(self, path: str) -> Answer:
        """Return status, body and headers for a path."""
        if self.broken == "error":
            return 500, b"", {}
        if self.broken == "garbage":
            return 200, b"<html>", {}
        if self.broken == "elsewhere":
            return 302, b"", {"Location": "http://127.0.0.1:9/"}
        if self.broken == "huge":
            return 200, b'{"a":"' + b"x" * 2_000_000 + b'"}', {}
        if self.broken == "compressed":
            return 200, bomb(), {"Content-Encoding": "gzip"}
        if self.broken == "another issuer":
            return 200, json.dumps({"issuer": "http://127.0.0.1:9"}).encode(), {}
        if self.broken == "open keys":
            where = {"issuer": self.issuer, "jwks_uri": "http://192.0.2.1/keys"}
            return 200, json.dumps(where).encode(), {}
        if path.endswith("/openid-configuration"):
            return 200, json.dumps(self.discovery()).encode(), {}
        keys = self.jwks
        if keys is None:
            keys = [jwk_of(self.keys[kid], kid, use="sig") for kid in self.published]
        return 200, json.dumps({"keys": keys}).encode(), {}

    def answer_form(self, path: str, form: dict[str, str], headers: Message) -> Answer:
        """Return the same for a form."""
        return 404, b"", {}

    def discovery(self) -> dict[str, Any]:
        """Return the document in which the provider names its endpoints."""
        return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}

    def rotate(self, kid: str, *, keep: tuple[str, ...] = ()) -> None:
        """Sign by a new key from now on, and tell it and those that are kept."""
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())
        self.published = [*keep, kid]

    def claims(self, subject: str = "ana", **more: Any) -> dict[str, Any]:
        now = int(time.time())
        made = {"iss": self.issuer, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 600}
        return {name: value for name, value in {**made, **more}.items() if value is not None}

    def token(
        self, subject: str = "ana", *, kid: str | None = None, header: Any = None, **more: Any
    ) -> str:
        """Return a signed token; a claim that is None is left out."""
        kid = kid or self.published[-1]
        key = self.keys[kid]
        headers = {"kid": kid} if header is None else header
        # Below what writes claims: those here are wrong on purpose.
        body = json.dumps(self.claims(subject, **more)).encode()
        return jwt.PyJWS().encode(body, key, algorithm=algorithm_of(key), headers=headers)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _t: TracebackType | None,
    ) -> None:
        self.close()


def algorithm_of(key: Any) -> str:
    if isinstance(key, rsa.RSAPrivateKey):
        return "RS256"
    return "EdDSA" if isinstance(key, ed25519.Ed25519PrivateKey) else "ES256"
