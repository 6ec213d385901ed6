"""An unusable answer of a device endpoint is refused before a person sees it."""

from __future__ import annotations

from typing import Any

import pytest

from streams.oauth.device import DeviceAuthorization, _authorization
from streams.oauth.provider_http import ProviderFault

URL = "https://login.example/device"
GOOD = {
    "device_code": "the-device-code",
    "user_code": "WDJB-MJHT",
    "verification_uri": "https://login.example/code",
    "verification_uri_complete": "https://login.example/code?user_code=WDJB-MJHT",
    "expires_in": 600,
    "interval": 7,
}


def authorization(**changed: Any) -> DeviceAuthorization:
    fields = {**GOOD, **changed}
    return _authorization(URL, {name: each for name, each in fields.items() if each is not None})


def test_an_answer_is_read_and_its_repr_hides_the_device_code() -> None:
    found = authorization()
    assert (found.user_code, found.url) == ("WDJB-MJHT", "https://login.example/code")
    assert (found.expires_in, found.interval) == (600, 7)
    assert "the-device-code" not in repr(found)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"device_code": None}, "without a usable device_code"),
        ({"device_code": "a b"}, "without a usable device_code"),
        ({"device_code": "x" * 5_000}, "without a usable device_code"),
        ({"user_code": "\x1b[2J"}, "without a usable user_code"),
        ({"user_code": 7}, "without a usable user_code"),
        ({"verification_uri": "http://login.example/code"}, "without an https:// verification_uri"),
        ({"verification_uri": "javascript:alert(1)"}, "without an https:// verification_uri"),
        (
            {"verification_uri": "https://login.example/\x1b"},
            "without an https:// verification_uri",
        ),
        ({"verification_uri": None}, "without an https:// verification_uri"),
    ],
)
def test_an_unusable_answer_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ProviderFault, match=words):
        authorization(**fields)


@pytest.mark.parametrize(
    ("fields", "interval", "expires_in"),
    [
        ({"interval": None, "expires_in": None}, 5, 1_800),
        ({"interval": 0, "expires_in": -1}, 5, 1_800),
        ({"interval": -3, "expires_in": True}, 5, 1_800),
        ({"interval": "0", "expires_in": []}, 5, 1_800),
        ({"interval": "three", "expires_in": "1e3"}, 5, 1_800),
        ({"interval": "3", "expires_in": "900"}, 3, 900),
        ({"interval": 2.5, "expires_in": 900.0}, 2.5, 900),
        ({"interval": 0.001}, 1, 600),
        ({"interval": 90, "expires_in": 3_600}, 90, 3_600),
        ({"expires_in": 10**8}, 7, 86_400),
    ],
)
def test_the_providers_pace_is_kept(
    fields: dict[str, Any], interval: float, expires_in: float
) -> None:
    found = authorization(**fields)
    assert (found.interval, found.expires_in) == (interval, expires_in)


def test_an_interval_that_outlasts_its_code_is_a_fault() -> None:
    with pytest.raises(ProviderFault, match="interval of 600 s, and its code expires after 300 s"):
        authorization(interval=600, expires_in=300)


def test_an_unsafe_complete_address_is_left_out() -> None:
    assert authorization(verification_uri_complete="http://evil.example/").complete_url is None
