from __future__ import annotations

import pytest

from streams.gateway.submit import wait_of


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 5),
        ("", 5),
        ("wait=0", 0),
        ("wait=12", 12),
        ("wait=31", 30),
        ("respond-async, wait=7", 7),
        ("wait = 7; foo", 7),
        ('wait="7"', 7),
        ("wait=-1", 5),
        ("wait=1.5", 5),
        ("await=9", 5),
        ("wait=99999999999999", 5),
    ],
)
def test_the_wait_is_read_from_the_prefer_header_and_capped(
    header: str | None, seconds: int
) -> None:
    assert wait_of(header) == seconds
