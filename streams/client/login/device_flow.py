"""Sign-in on another device: for machines without a browser, also over ssh (RFC 8628)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from streams.client.login.request import LoginRequest, refused
from streams.clock import steady
from streams.oauth.device import DeviceAuthorization, authorize_device
from streams.oauth.provider_http import ProviderFault, ProviderUnavailable
from streams.oauth.token_endpoint import OAuthRefusal, OAuthTokens, TokenEndpoint

_SLOWER_S: Final = 5.0  # RFC 8628, 3.5
_MOST_FAILURES: Final = 5
_EXPIRED: Final = OAuthRefusal("expired_token", "")


async def sign_in_by_device(
    request: LoginRequest, show: Callable[[DeviceAuthorization], None]
) -> OAuthTokens:
    """Sign in on another device.

    Args:
        show: shows the address and the code to a person.

    Raises:
        Refused: nobody signed in before the code expired, or the provider refused.
        ProviderUnavailable: the provider does not answer five times in a row, or when the code
            expires.
        ProviderFault: the provider's answer cannot be used.
    """
    device = await authorize_device(request.endpoints, request.client, request.first_fields)
    if isinstance(device, OAuthRefusal):
        raise refused(device)
    show(device)
    endpoint = TokenEndpoint(request.endpoints, request.client)
    deadline, interval, failures = steady() + device.expires_in, device.interval, 0
    while True:
        await asyncio.sleep(interval)
        is_last = steady() + interval >= deadline
        try:
            answer = await endpoint.poll_device(device.device_code, more=request.token_fields)
        except ProviderFault:
            raise  # the code may be used up: no later poll would tell more
        except ProviderUnavailable:
            failures += 1
            if failures == _MOST_FAILURES or is_last:
                raise
            interval += _SLOWER_S
            continue
        failures = 0
        if isinstance(answer, OAuthTokens):
            return answer
        if answer.error == "slow_down":
            interval += _SLOWER_S
        elif answer.error != "authorization_pending":
            raise refused(answer)
        if is_last:
            raise refused(_EXPIRED)
