"""The scope that asks a provider for refresh tokens."""

from __future__ import annotations

from typing import Final

OFFLINE_ACCESS: Final = "offline_access"


def asks_for_refresh_token(scopes: str) -> bool:
    """Tell whether scopes, separated by spaces, ask for a refresh token."""
    return OFFLINE_ACCESS in scopes.split()


def consent_fields(scopes: str) -> dict[str, str]:
    """Return the fields that a request for these scopes needs beside them.

    A provider may ignore `offline_access` without `prompt=consent` (OpenID Connect Core, 11).
    """
    return {"prompt": "consent"} if asks_for_refresh_token(scopes) else {}
