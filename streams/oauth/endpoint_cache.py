"""A cache of a provider's endpoints, read when somebody needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from streams.oauth.endpoints import ProviderEndpoints, read_endpoints
from streams.oauth.provider_http import ProviderUnavailable, provider_http

MAX_AGE_S: Final = 300.0
"""Endpoints are read again after this time."""
BETWEEN_S: Final = 2.0
"""Minimum time between two attempts, however many people sign in."""
_TIMEOUT_S: Final = 5.0


class EndpointCache:
    """The endpoints of one provider.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, issuer: str, now: Callable[[], float]) -> None:
        self._issuer = issuer
        self._now = now
        self._lock = asyncio.Lock()
        self._found: ProviderEndpoints | None = None
        self._failed: ProviderUnavailable | None = None
        self._tried_at = float("-inf")

    async def find(self) -> ProviderEndpoints:
        """Return the endpoints, at most `MAX_AGE_S` old while the provider answers.

        Raises: ProviderUnavailable: they were never read, and cannot be read now.
        """
        # The lock has everyone wait for one attempt, which is bounded.
        async with self._lock:
            age = self._now() - self._tried_at
            if age >= (MAX_AGE_S if self._failed is None else BETWEEN_S):
                self._tried_at = self._now()
                try:
                    self._found, self._failed = await self._read(), None
                except ProviderUnavailable as error:
                    self._failed = error
            if self._found is None:
                assert self._failed is not None
                raise type(self._failed)(str(self._failed)) from self._failed
            return self._found

    async def _read(self) -> ProviderEndpoints:
        try:
            async with asyncio.timeout(_TIMEOUT_S), provider_http(self._issuer, _TIMEOUT_S) as http:
                return await read_endpoints(http, self._issuer)
        except TimeoutError as error:
            raise ProviderUnavailable(
                f"{self._issuer} did not answer in {_TIMEOUT_S:g} s"
            ) from error
