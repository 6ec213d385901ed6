"""The settings under which browsers sign in at the provider, checked at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from streams.errors import Refused
from streams.files.private_files import read_private
from streams.oauth.token_endpoint import OAuthClient
from streams.settings import PREFIX, Settings

CALLBACK: Final = "/sign-in/callback"
"""The path to which the provider sends browsers back."""
_NEEDS_CLIENT: Final = (
    "oidc_client_secret_file",
    "oidc_redirect_url",
    "oidc_scopes",
    "oidc_sign_in_parameters",
)
_MOST_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInClient:
    """This server as the provider knows it, and how browsers sign in there.

    Attributes:
        redirect_url: where the provider sends browsers back to.
        parameters: further fields of each sign-in.
    """

    issuer: str
    client: OAuthClient
    redirect_url: str
    scopes: str
    parameters: Mapping[str, str]

    @property
    def token_parameters(self) -> Mapping[str, str]:
        """Return the fields that token requests repeat: a resource (RFC 8707), nothing else."""
        return {name: value for name, value in self.parameters.items() if name == "resource"}


def sign_in_client(settings: Settings) -> SignInClient | None:
    """Return how browsers sign in at the provider, None if they paste tokens alone.

    Raises: Refused: the settings are incomplete, or the secret cannot be read.
    """
    client_id, redirect_url = settings.oidc_client_id, settings.oidc_redirect_url
    if client_id is None:
        lost = sorted(name for name in _NEEDS_CLIENT if name in settings.model_fields_set)
        if lost:
            raise Refused(f"{PREFIX}{lost[0].upper()} needs {PREFIX}OIDC_CLIENT_ID: set both")
        return None
    if redirect_url is None:
        raise Refused(f"{PREFIX}OIDC_CLIENT_ID needs {PREFIX}OIDC_REDIRECT_URL: set both")
    if urlsplit(redirect_url).path != CALLBACK:
        raise Refused(
            f"{PREFIX}OIDC_REDIRECT_URL must be this server's address and {CALLBACK}, such as "
            f"https://accountant.example.org{CALLBACK}, got {redirect_url}"
        )
    if settings.is_private and urlsplit(redirect_url).scheme != "https":
        raise Refused(
            f"{PREFIX}OIDC_REDIRECT_URL must begin with https://, since browsers reach this server "
            f"by TLS, got {redirect_url}"
        )
    secret = settings.oidc_client_secret_file
    return SignInClient(
        issuer=settings.oidc_issuer or "",
        client=OAuthClient(client_id=client_id, secret="" if secret is None else _secret(secret)),
        redirect_url=redirect_url,
        scopes=" ".join(settings.oidc_scopes.split()),
        parameters=dict(parse_qsl(settings.oidc_sign_in_parameters)),
    )


def _secret(path: Path) -> str:
    try:
        content = read_private(
            path,
            _MOST_BYTES + 1,
            what="the file of the client's secret",
            then="have the provider replace the secret",
        ).content
    except FileNotFoundError as error:
        raise Refused(
            f"{path} does not exist. Write the client's secret into it, with mode 0600; or unset "
            f"{PREFIX}OIDC_CLIENT_SECRET_FILE for a public client"
        ) from error
    text = content.strip()
    if not text or len(content) > _MOST_BYTES or not text.isascii() or len(text.split()) != 1:
        raise Refused(f"{path} must contain the client's secret alone, of at most 1,024 characters")
    return text.decode("ascii")
