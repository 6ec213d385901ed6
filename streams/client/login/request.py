"""What a sign-in asks the provider for, and the errors of an answer that is no sign-in."""

from __future__ import annotations

from dataclasses import dataclass

from streams.errors import Refused
from streams.oauth.endpoints import ProviderEndpoints
from streams.oauth.token_endpoint import OAuthClient, OAuthRefusal


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """One sign-in at a provider.

    Attributes:
        scope: separated by spaces.
        audience, resource: for which server the token is, as the provider names it; empty where
            the provider needs neither.
    """

    endpoints: ProviderEndpoints
    client: OAuthClient
    scope: str
    audience: str = ""
    resource: str = ""

    @property
    def first_fields(self) -> dict[str, str]:
        """The fields of the request that begins a sign-in."""
        audience = {"audience": self.audience} if self.audience else {}
        return {"scope": self.scope, **audience, **self.token_fields}

    @property
    def token_fields(self) -> dict[str, str]:
        """The fields of each request for tokens."""
        return {"resource": self.resource} if self.resource else {}


def refused(refusal: OAuthRefusal) -> Refused:
    """Return the error of a sign-in that the provider refused."""
    words = {
        "access_denied": "the provider was not allowed to sign you in. Run the command again",
        "expired_token": "nobody signed in before the code expired. Run the command again",
        "invalid_client": "the provider does not know this client. Check --client-id",
        "unauthorized_client": (
            "the provider does not allow this way to sign in for this client. Register the client "
            "as native or public, with the flow that you use"
        ),
        "invalid_scope": "the provider does not know the scope. Check --scope",
        "invalid_target": "the provider does not know the server. Check --resource and --audience",
    }.get(refusal.error, f"the provider refused the sign-in: {refusal.error}")
    return Refused(f"{words} ({refusal.description})" if refusal.description else words)
