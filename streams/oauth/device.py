"""Sign-in on another device (RFC 8628): a person types a short code into any browser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streams.address import is_private_url
from streams.oauth.endpoints import ProviderEndpoints
from streams.oauth.provider_http import ProviderFault
from streams.oauth.token_endpoint import OAuthClient, OAuthRefusal, seconds_of, send_form

_USER_CODE: Final = re.compile(r"[\x21-\x7e]{1,64}")
_DEVICE_CODE: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_MOST_URL: Final = 2_000
_LEAST_INTERVAL_S: Final = 1.0
_USUAL_INTERVAL_S: Final = 5.0  # RFC 8628, 3.2
_USUAL_SECONDS: Final = 1_800.0  # the RFC requires `expires_in`
_MOST_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAuthorization:
    """What a person needs to sign in on another device.

    Attributes:
        device_code: what the program shows to get the tokens; secret.
        user_code, url: what the person types, and where. complete_url: the address with the
            code in it, None if the provider gives none.
        expires_in, interval: seconds until the code expires, and at least between two polls.
    """

    device_code: str = field(repr=False)
    user_code: str
    url: str
    complete_url: str | None
    expires_in: float
    interval: float


async def authorize_device(
    endpoints: ProviderEndpoints, client: OAuthClient, fields: Mapping[str, str]
) -> DeviceAuthorization | OAuthRefusal:
    """Begin a sign-in on another device.

    Args:
        fields: such as `scope` and `resource`.

    Raises:
        ProviderUnavailable: the provider has no such endpoint, or does not answer.
        ProviderFault: its answer cannot be used.
    """
    url = endpoints.require("device_authorization_endpoint")
    answer = await send_form(endpoints, client, url, fields)
    return answer if isinstance(answer, OAuthRefusal) else _authorization(url, answer)


def _authorization(endpoint: str, answer: dict[str, Any]) -> DeviceAuthorization:
    code, user_code = answer.get("device_code"), answer.get("user_code")
    url, complete = answer.get("verification_uri"), answer.get("verification_uri_complete")
    if not isinstance(code, str) or _DEVICE_CODE.fullmatch(code) is None:
        raise ProviderFault(f"{endpoint} answers without a usable device_code")
    if not isinstance(user_code, str) or _USER_CODE.fullmatch(user_code) is None:
        raise ProviderFault(f"{endpoint} answers without a usable user_code")
    if not _is_address(url):
        raise ProviderFault(f"{endpoint} answers without an https:// verification_uri")
    interval = max(_seconds(answer.get("interval"), _USUAL_INTERVAL_S), _LEAST_INTERVAL_S)
    expires_in = min(_seconds(answer.get("expires_in"), _USUAL_SECONDS), _MOST_SECONDS)
    if interval >= expires_in:
        raise ProviderFault(
            f"{endpoint} answers with an interval of {interval:g} s, and its code expires after "
            f"{expires_in:g} s"
        )
    return DeviceAuthorization(
        device_code=code,
        user_code=user_code,
        url=str(url),
        complete_url=complete if _is_address(complete) else None,
        expires_in=expires_in,
        interval=interval,
    )


def _is_address(url: object) -> bool:
    return (
        isinstance(url, str)
        and len(url) <= _MOST_URL
        and url.isascii()
        and url.isprintable()
        and " " not in url
        and is_private_url(url)
    )


def _seconds(value: object, default: float) -> float:
    return seconds_of(value) or default
