"""Who asks at a door: tokens of its own, tokens of an OpenID provider, and what is open."""

from __future__ import annotations

from streams.gateway.access.authenticator import Authenticator
from streams.gateway.access.guard import guarded
from streams.gateway.access.principal import Principal, principal_of
from streams.gateway.access.refusal import not_permitted
from streams.gateway.access.start import (
    believes_headers,
    check_access,
    make_authenticator,
    proxies_of,
    tls_of,
)

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
