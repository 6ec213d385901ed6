"""Authentication and authorization: static tokens, an OpenID provider, and roles."""

from __future__ import annotations

from streams.auth.authenticator import Authenticator
from streams.auth.middleware import add_authentication
from streams.auth.principal import Principal, principal_of
from streams.auth.start import (
    check_access,
    make_authenticator,
    proxies_of,
    tls_of,
    trusts_forwarded_headers,
)
from streams.http.refusal import not_permitted

__all__ = [
    "Authenticator",
    "Principal",
    "add_authentication",
    "check_access",
    "make_authenticator",
    "not_permitted",
    "principal_of",
    "proxies_of",
    "tls_of",
    "trusts_forwarded_headers",
]
