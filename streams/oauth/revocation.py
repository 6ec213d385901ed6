"""Revokes a token at its provider (RFC 7009)."""

from __future__ import annotations

import asyncio
from typing import Final

from streams.error_words import words_of
from streams.oauth.provider_http import ProviderUnavailable, provider_http

_TIMEOUT_S: Final = 5.0


async def revoke_refresh_token(*, issuer: str, url: str, client_id: str, token: str) -> None:
    """Revoke the refresh token of a public client; the provider ends its access tokens with it.

    Args:
        url: the provider's `revocation_endpoint`.

    Raises: ProviderUnavailable: the provider did not confirm it.
    """
    # Imported late, as in `provider_http`.
    import httpx

    form = {"token": token, "token_type_hint": "refresh_token", "client_id": client_id}
    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            provider_http(issuer, _TIMEOUT_S) as http,
            # The body is not read: a status is all that RFC 7009 defines.
            http.stream("POST", url, data=form) as response,
        ):
            status = response.status_code
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise ProviderUnavailable(f"{url} does not answer: {words_of(error)}") from error
    if status != 200:
        raise ProviderUnavailable(f"{url} answers with status {status}")
