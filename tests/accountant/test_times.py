from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.times import from_iso, iso, issued_at, uuid7

TIMES = st.integers(0, 253_402_300_799_999)


@given(TIMES)
def test_a_time_reads_back(at: int) -> None:
    text = iso(at)
    assert from_iso(text) == at
    assert len(text) == 24


@given(TIMES, TIMES)
def test_times_are_ordered_as_their_texts(one: int, other: int) -> None:
    assert (iso(one) < iso(other)) == (one < other)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-11-21T10:00:00.012", "2026-11-21T10:00:00.012+00:00", "2026"]
)
def test_another_form_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time|Invalid isoformat"):
        from_iso(text)


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_a_uuid7_carries_its_time(at: int, random: bytes) -> None:
    text = uuid7(at, random)
    assert issued_at(text) == at
    parsed = uuid.UUID(text)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


@pytest.mark.parametrize(
    "text",
    [
        str(uuid.UUID(int=0)),
        "01a1fd8c-6900-4d4c-8e1f-5f3c2b1a0d9e",
        "01a1fd8c-6900-7d4c-0e1f-5f3c2b1a0d9e",
        "01a1fd8c69007d4c8e1f5f3c2b1a0d9e",
        "01a1fd8c-6900-7d4c-8e1f-5f3c2b1a0d9e\n",
        "",
    ],
)
def test_a_text_that_is_not_a_uuid7_has_no_issue_time(text: str) -> None:
    assert issued_at(text) is None
