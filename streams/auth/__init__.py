"""Who asks at a door: tokens of its own, tokens of an OpenID provider, and what is open."""

from __future__ import annotations

from streams.auth.authenticator import Authenticator
from streams.auth.middleware import guarded
from streams.auth.principal import Principal, principal_of
from streams.auth.start import (
    believes_headers,
    check_access,
    make_authenticator,
    proxies_of,
    tls_of,
)
from streams.http.refusal import not_permitted

__all__ = [
    "Authenticator",
    "Principal",
    "believes_headers",
    "check_access",
    "guarded",
    "make_authenticator",
    "not_permitted",
    "principal_of",
    "proxies_of",
    "tls_of",
]
