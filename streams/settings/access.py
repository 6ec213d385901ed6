"""Settings of authentication and TLS, of the servers and of their clients."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, SecretStr

from accountant.records.names import is_name, subject_hint
from streams.address import is_private_url
from streams.settings.environment_model import EnvironmentModel

EVERYBODY: Final = "*"
ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""The algorithms that a setting may allow: their public keys can verify, but not sign."""
MOST_TOKEN: Final = 8_192
"""Characters of the longest token, of either kind."""
_OWN_PARAMETERS: Final = frozenset(
    {
        *("client_id", "client_secret", "code_challenge", "code_challenge_method", "nonce"),
        *("redirect_uri", "request", "request_uri", "response_mode", "response_type", "scope"),
        "state",
    }
)
"""What the server itself sends the provider, or what would replace it."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")


def listed(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated setting."""
    return tuple(part for each in text.split(",") if (part := each.strip()))


def _names(text: str) -> str:
    for name in listed(text):
        if not is_name(name):
            rule = f"must be names separated by commas, and {name[:100]!r} is no name"
            hint = subject_hint(name)
            raise ValueError(f"{rule}: {hint}" if hint else rule)
    return text


def _names_or_everybody(text: str) -> str:
    return text if text.strip() == EVERYBODY else _names(text)


def _prefix(text: str) -> str:
    if text and not is_name(text):
        raise ValueError("must be the beginning of a name, such as local:")
    return text


def _file(path: Path | None) -> Path | None:
    # An empty variable, perhaps not filled in yet, must not turn authentication off.
    if path == Path():
        raise ValueError("must name a file; unset it to turn authentication off")
    return path


def _metrics_file(path: Path | None) -> Path | None:
    if path == Path():
        raise ValueError("must name a file; unset it if scrapers use other tokens")
    return path


def check_issuer(text: str | None) -> str | None:
    """Return a provider's issuer; raise ValueError if it is no address that may be trusted."""
    if text is None:
        return None
    parts = urlsplit(text)
    if (
        not is_private_url(text)
        or not parts.hostname
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise ValueError("must be https://HOST..., or http:// on this machine only")
    return text


def _secret_file(path: Path | None) -> Path | None:
    if path == Path():
        raise ValueError("must name a file; unset it for a public client")
    return path


def _redirect_url(text: str | None) -> str | None:
    if text is None:
        return None
    # First: it also rejects what urlsplit does.
    is_private = is_private_url(text)
    parts = urlsplit(text if is_private else "")
    if not parts.hostname or "@" in parts.netloc:
        raise ValueError("must be https://HOST/sign-in/callback, or http:// on this machine only")
    if parts.query or parts.fragment or not text.isascii() or not text.isprintable():
        raise ValueError("must be an address without a query, as registered at the provider")
    return text


def _scopes(text: str) -> str:
    if "openid" not in text.split():
        raise ValueError("must contain openid, such as `openid offline_access`")
    return text


def _sign_in_parameters(text: str) -> str:
    try:
        pairs = parse_qsl(text, strict_parsing=True) if text else []
    except ValueError:
        raise ValueError("must be NAME=VALUE, several joined by &, encoded as in a URL") from None
    names = [name for name, _ in pairs]
    own = sorted(_OWN_PARAMETERS.intersection(names))
    if own or len(set(names)) != len(names):
        raise ValueError(f"must not contain {own[0] if own else 'a name twice'}")
    return text


def _algorithms(text: str) -> str:
    names = listed(text)
    if not names or not ALGORITHMS.issuperset(names):
        raise ValueError(f"must be some of {', '.join(sorted(ALGORITHMS))}, separated by commas")
    return text


def _networks(text: str) -> str:
    # A variable with nothing but commas must not count as a list that allows every address.
    if text and not listed(text):
        raise ValueError("must name at least one address or network; unset it for no proxy")
    for each in listed(text):
        try:
            ipaddress.ip_network(each)
        except ValueError:
            raise ValueError(
                "must be addresses or networks, such as 10.0.0.7 or 10.0.0.0/24"
            ) from None
    return text


def fault_of_token(text: str) -> str:
    """Return the rule that a token of either kind breaks, "" for a sound one."""
    if len(text) > MOST_TOKEN:
        return f"must be a token of at most {MOST_TOKEN} characters, got more"
    if _TOKEN.fullmatch(text) is None:
        return "must be a single token, as printed by `accountant token create` or the provider"
    return ""


def _token(secret: SecretStr | None) -> SecretStr | None:
    """Check a client's token; no message repeats it."""
    text = "" if secret is None else secret.get_secret_value().strip()
    if not text:
        return None
    fault = fault_of_token(text)
    if fault:
        raise ValueError(fault)
    return SecretStr(text)


class AccessSettings(EnvironmentModel):
    """The settings of authentication; `tokens` or `oidc_issuer` turns it on."""

    bind: str = Field(
        "127.0.0.1",
        min_length=1,
        description="address to listen at with authentication; an address that other machines "
        "reach needs TLS or a trusted proxy",
    )
    tokens: Annotated[Path | None, AfterValidator(_file)] = Field(
        None, description="file with the hashes of static tokens; turns authentication on"
    )
    token_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        "",
        max_length=50,
        description="prefix of the names of static tokens; no name of the provider may have it",
    )
    oidc_issuer: Annotated[str | None, AfterValidator(check_issuer)] = Field(
        None, description="the OpenID provider; turns authentication on"
    )
    oidc_audience: str | None = Field(
        None, max_length=1_000, description="the audience that the provider's tokens must name"
    )
    oidc_subject_field: str = Field(
        "sub",
        pattern=r"^[A-Za-z0-9_.:/-]{1,200}$",
        description="the field of the provider's tokens that contains the name",
    )
    oidc_algorithms: Annotated[str, AfterValidator(_algorithms)] = Field(
        "RS256,ES256", description="allowed signature algorithms of the provider's tokens"
    )
    oidc_skew_seconds: float = Field(
        60.0,
        ge=0,
        le=600,
        description="allowed difference of the provider's and the server's clock, in seconds",
    )
    oidc_outage_seconds: float = Field(
        3_600.0,
        ge=0,
        le=86_400,
        description="how long cached keys stay valid while the provider is away, in seconds",
    )
    oidc_client_id: str | None = Field(
        None,
        min_length=1,
        max_length=1_000,
        pattern=r"^[\x21-\x7e]+$",
        description="this server's client id at the provider; turns sign-in by redirect on",
    )
    oidc_client_secret_file: Annotated[Path | None, AfterValidator(_secret_file)] = Field(
        None, description="file with the client's secret, mode 0600; unset for a public client"
    )
    oidc_redirect_url: Annotated[str | None, AfterValidator(_redirect_url)] = Field(
        None,
        max_length=2_000,
        description="this server's address with the path /sign-in/callback, exactly as registered "
        "at the provider",
    )
    oidc_scopes: Annotated[str, AfterValidator(_scopes)] = Field(
        "openid",
        pattern=r"^[\x21\x23-\x5b\x5d-\x7e ]{1,1000}$",
        description="scopes that a sign-in by redirect asks for, separated by spaces",
    )
    oidc_sign_in_parameters: Annotated[str, AfterValidator(_sign_in_parameters)] = Field(
        "",
        max_length=2_000,
        description="further fields of a sign-in by redirect, such as audience=accountant, encoded "
        "as in a URL",
    )
    administrators: Annotated[str, AfterValidator(_names)] = Field(
        "", description="names of the administrators, separated by commas"
    )
    openers: Annotated[str, AfterValidator(_names_or_everybody)] = Field(
        "",
        description="names that may open datasets, besides administrators, separated by commas; "
        "`*` for everyone who is signed in",
    )
    metrics_readers: Annotated[str, AfterValidator(_names_or_everybody)] = Field(
        "",
        description="names that may read /metrics and the reasons of /readyz, besides "
        "administrators, separated by commas; `*` for everyone, /metrics also without a token",
    )
    metrics_token_file: Annotated[Path | None, AfterValidator(_metrics_file)] = Field(
        None,
        description="file with a token for GET /metrics alone, valid also while other tokens "
        "cannot be checked",
    )
    tls_certificate: Path | None = Field(
        None, description="PEM file of the server's certificate chain; turns TLS on"
    )
    tls_key: Path | None = Field(None, description="PEM file of the certificate's private key")
    trusted_proxy: Annotated[str, AfterValidator(_networks)] = Field(
        "",
        description="addresses or networks of the proxy that terminates TLS, separated by commas; "
        "the server then rejects connections from all others",
    )
    token: Annotated[SecretStr | None, AfterValidator(_token)] = Field(
        None, description="the client's token; never printed"
    )
    token_file: Path | None = Field(
        None,
        description="file with the client's token, instead of `token`; both together are refused; "
        "the client rereads it when it changes",
    )
    token_unencrypted: bool = Field(
        False, description="send the client's token over http:// to other machines"
    )

    @property
    def is_private(self) -> bool:
        """Whether connections are encrypted up to this machine or its proxy."""
        return self.tls_certificate is not None or bool(self.trusted_proxy)

    @property
    def authenticates(self) -> bool:
        """Whether the server requires authentication."""
        return self.tokens is not None or self.oidc_issuer is not None
