"""Authentication with warm caches: from one request's headers to its principal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from prometheus_client import CollectorRegistry

from benchmarks.measure import Row, Scale, best_of
from streams.auth import Authenticator, Principal, make_authenticator, token_file
from streams.settings import Settings

_TOKENS = 100
_AUDIENCE = "accountant"
_MICROSECONDS = 1e6
_AT_MOST = 100


@contextlib.contextmanager
def _provider(key: rsa.RSAPrivateKey) -> Iterator[str]:
    """Serve discovery and keys during the block, at the yielded address."""
    public = {"kid": "one"} | RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys = {"keys": [public | {"key_ops": ["verify"]}]}
            where = {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}
            body = json.dumps(keys if self.path == "/keys" else where).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def _took(authenticator: Authenticator, token: str, count: int) -> float:
    """Return the microseconds of one authentication."""
    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"authorization", f"Bearer {token}".encode()),
    ]

    async def ask() -> None:
        for _ in range(count):
            found = await authenticator.authenticate(headers, peer="127.0.0.1")
            assert isinstance(found, Principal), found

    with asyncio.Runner() as runner:
        runner.run(ask())
        return best_of(5, lambda: runner.run(ask())) / count * _MICROSECONDS


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the time of one authentication by each kind of token."""
    count = scale.of(20_000)
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    with tempfile.TemporaryDirectory() as directory, _provider(key) as issuer:
        file, now = Path(directory) / "tokens.json", time.time()
        made = [
            token_file.create(file, f"local:a{number}", now=int(now * 1000)).token
            for number in range(_TOKENS)
        ]
        settings = Settings(
            tokens=file, token_prefix="local:", oidc_issuer=issuer, oidc_audience=_AUDIENCE
        )
        authenticator = make_authenticator(settings, CollectorRegistry())
        assert authenticator is not None
        claims = {"iss": issuer, "aud": _AUDIENCE, "sub": "ana", "exp": int(now) + 3_600}
        signed = jwt.encode(claims, key, algorithm="RS256", headers={"kid": "one"})
        for name, token in ((f"a token of {_TOKENS}", made[-1]), ("a provider's token", signed)):
            yield Row(
                name=f"authentication, {name}, warm",
                value=_took(authenticator, token, count),
                unit="us",
                at_most=_AT_MOST,
            )
