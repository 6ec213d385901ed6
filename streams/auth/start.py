"""Checks of the access settings at start: the server starts safely, or not at all."""

from __future__ import annotations

import ipaddress
import ssl
from typing import Final

from prometheus_client import CollectorRegistry

from streams.auth.authenticator import Authenticator
from streams.auth.metrics_token import MetricsToken, read_metrics_token
from streams.auth.middleware import Network
from streams.auth.oidc import Provider, TokenRequirements
from streams.auth.principal import Kind, Principal
from streams.auth.provider_keys import ProviderKeys
from streams.auth.sign_in_client import sign_in_client
from streams.auth.static_tokens import StaticTokens
from streams.auth.token_file import read
from streams.errors import Refused
from streams.files.private_files import check_trusted
from streams.http.host_header import is_loopback
from streams.settings import PREFIX, Settings
from streams.settings.access import EVERYBODY, listed

_AUTHENTICATION: Final = f"{PREFIX}TOKENS or {PREFIX}OIDC_ISSUER"
_OF_AUTHENTICATION: Final = (
    "administrators",
    "openers",
    "metrics_readers",
    "metrics_token_file",
    "token_prefix",
)
"""Settings that have no effect while authentication is off."""


def check_access(settings: Settings) -> None:
    """Check the settings of authentication and TLS, before anything is opened.

    Raises: Refused: a setting is missing, or a file cannot be used.
    """
    _check_together(settings)
    tls_of(settings)
    if settings.tokens is not None:
        read(settings.tokens)
    sign_in_client(settings)
    if settings.metrics_token_file is not None:
        read_metrics_token(settings.metrics_token_file)
    if settings.authenticates and not is_loopback(settings.bind) and not settings.is_private:
        raise Refused(
            f"{PREFIX}BIND {settings.bind} is reachable from other machines, and tokens must not "
            f"cross a network in plain text. Set {PREFIX}TLS_CERTIFICATE and {PREFIX}TLS_KEY; or "
            f"set {PREFIX}TRUSTED_PROXY if a proxy ends TLS"
        )


def _check_together(settings: Settings) -> None:
    both = settings.tokens is not None and settings.oidc_issuer is not None
    promised = [name for name in _OF_AUTHENTICATION if getattr(settings, name)]
    of_provider = sorted(each for each in settings.model_fields_set if each.startswith("oidc_"))
    if of_provider and settings.oidc_issuer is None:
        raise Refused(f"{PREFIX}{of_provider[0].upper()} needs {PREFIX}OIDC_ISSUER: set both")
    rules = (
        ("OIDC_AUDIENCE", "OIDC_ISSUER", settings.oidc_issuer and not settings.oidc_audience),
        ("TLS_KEY", "TLS_CERTIFICATE", settings.tls_certificate and not settings.tls_key),
        ("TLS_CERTIFICATE", "TLS_KEY", settings.tls_key and not settings.tls_certificate),
    )
    for needed, present, is_missing in rules:
        if is_missing:
            raise Refused(f"{PREFIX}{present} needs {PREFIX}{needed}: set both")
    if both and not settings.token_prefix:
        raise Refused(
            f"{PREFIX}TOKENS and {PREFIX}OIDC_ISSUER together need {PREFIX}TOKEN_PREFIX, such as "
            "local:, so that a static token and the provider never share a name"
        )
    if not settings.authenticates and "bind" in settings.model_fields_set:
        raise Refused(
            f"{PREFIX}BIND is set, but authentication is off, so {PREFIX}BIND has no effect. "
            f"To turn authentication on, set {_AUTHENTICATION}. To serve without it, unset "
            f"{PREFIX}BIND and set {PREFIX}UNAUTHENTICATED_BIND: everyone who can reach that "
            "address has full access"
        )
    if promised and not settings.authenticates:
        raise Refused(
            f"{PREFIX}{promised[0].upper()} is set, but authentication is off: everyone who can "
            f"reach this server would have full access. Set {_AUTHENTICATION}"
        )


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Return the server's TLS context, None without TLS.

    Raises: Refused: certificate or key cannot be used.
    """
    if settings.tls_certificate is None or settings.tls_key is None:
        return None

    def password() -> str:
        raise Refused(
            f"{settings.tls_key} is encrypted, and a server cannot ask for its password. "
            "Decrypt it: `openssl pkey -in KEY -out NEW_KEY`"
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        check_trusted(settings.tls_certificate, secret=False, then="review it")
        check_trusted(settings.tls_key, secret=True, then="replace the key and its certificate")
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password)
    except (OSError, ValueError) as error:
        files = f"{settings.tls_certificate} and {settings.tls_key}"
        what = getattr(error, "strerror", None) or str(error)
        raise Refused(f"TLS cannot be set up with {files}: {what}") from error
    return context


def proxies_of(settings: Settings) -> tuple[Network, ...]:
    """Return the networks of the proxy that ends TLS; none without such a proxy."""
    return tuple(ipaddress.ip_network(each) for each in listed(settings.trusted_proxy))


def trusts_forwarded_headers(settings: Settings) -> bool:
    """Tell whether the server may take a client's address from X-Forwarded-For."""
    return not (settings.authenticates or settings.trusted_proxy)


def make_authenticator(settings: Settings, registry: CollectorRegistry) -> Authenticator | None:
    """Return the authenticator that the settings ask for, None where authentication is off.

    Raises: Refused: see `check_access`.
    """
    check_access(settings)
    if not settings.authenticates:
        return None
    administrators = frozenset(listed(settings.administrators))

    def is_one(name: str, kind: Kind) -> Principal:
        return Principal(name, kind, name in administrators)

    tokens = None
    if settings.tokens is not None:
        prefix = settings.token_prefix
        tokens = StaticTokens(settings.tokens, lambda name: is_one(name, "token"), prefix=prefix)
        tokens.load()
    provider = None
    if settings.oidc_issuer is not None:
        accepts = _token_requirements(settings, settings.oidc_issuer)
        outage = settings.oidc_outage_seconds
        keys = ProviderKeys(accepts.issuer, accepts.algorithms, outage)
        provider = Provider(accepts, keys, lambda name: is_one(name, "oidc"))
    everybody = settings.metrics_readers.strip() == EVERYBODY
    readers = None if everybody else frozenset(listed(settings.metrics_readers))
    scraper = settings.metrics_token_file
    return Authenticator(
        tokens,
        provider,
        metrics_readers=readers,
        metrics_token=None if scraper is None else MetricsToken(scraper),
        registry=registry,
    )


def _token_requirements(settings: Settings, issuer: str) -> TokenRequirements:
    return TokenRequirements(
        issuer=issuer,
        audience=settings.oidc_audience or "",
        algorithms=listed(settings.oidc_algorithms),
        subject_field=settings.oidc_subject_field,
        skew=settings.oidc_skew_seconds,
        not_prefix=settings.token_prefix,
    )
