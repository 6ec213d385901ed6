"""A provider's endpoints, as its discovery document names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from streams.address import is_private_url
from streams.oauth.provider_http import ProviderFault, read_object

if TYPE_CHECKING:
    import httpx

_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_METHODS: Final = "token_endpoint_auth_methods_supported"

Endpoint = Literal[
    "jwks_uri",
    "authorization_endpoint",
    "token_endpoint",
    "device_authorization_endpoint",
    "end_session_endpoint",
    "revocation_endpoint",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEndpoints:
    """The endpoints of a provider. None: not offered, or neither https:// nor on this machine.

    Attributes:
        issuer: exactly as configured.
        names_issuer: the answer to a browser's sign-in contains `iss` (RFC 9207).
        takes_basic: the token endpoint takes a client's secret by Basic authentication.
    """

    issuer: str
    jwks_uri: str | None = None
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    end_session_endpoint: str | None = None
    revocation_endpoint: str | None = None
    names_issuer: bool = False
    takes_basic: bool = False

    def require(self, name: Endpoint) -> str:
        """Return an endpoint's URL.

        Raises: ProviderFault: the provider has no such endpoint.
        """
        found: str | None = getattr(self, name)
        if found is None:
            raise ProviderFault(f"its {name} is not an https:// address")
        return found


async def read_endpoints(http: httpx.AsyncClient, issuer: str) -> ProviderEndpoints:
    """Return a provider's endpoints.

    Args:
        http: see `provider_http`.

    Raises:
        ProviderUnavailable: there is no such document.
        ProviderFault: it cannot be used, or names another issuer.
    """
    known = await read_object(http, "GET", issuer.rstrip("/") + _WELL_KNOWN)
    # Compared exactly: the document of another provider would name its own keys.
    if known.get("issuer") != issuer:
        other = str(known.get("issuer"))[:200]
        raise ProviderFault(f"its issuer is {other!r}, not {issuer}")
    methods = known.get(_METHODS)
    return ProviderEndpoints(
        issuer=issuer,
        jwks_uri=_url(known, "jwks_uri"),
        authorization_endpoint=_url(known, "authorization_endpoint"),
        token_endpoint=_url(known, "token_endpoint"),
        device_authorization_endpoint=_url(known, "device_authorization_endpoint"),
        end_session_endpoint=_url(known, "end_session_endpoint"),
        revocation_endpoint=_url(known, "revocation_endpoint"),
        names_issuer=known.get("authorization_response_iss_parameter_supported") is True,
        # Without a list, OpenID Connect Discovery means Basic authentication alone.
        takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
    )


def _url(known: dict[str, Any], name: Endpoint) -> str | None:
    found = known.get(name)
    return found if isinstance(found, str) and is_private_url(found) else None
