from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accountant.times import ID_PATTERN, from_iso, iso, issued_at, uuid7

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


@given(
    st.text(alphabet="0123456789abcdefABCDEF-7g \u0663\u00e9", max_size=40)
    | st.from_regex(ID_PATTERN, fullmatch=True)
)
@example("019a0000-0000-7000-8000-000000000000\n")
@example("019a0000-0000-7000-8000-00000000000")
@example("019a0000-0000-7000-c000-000000000000")
@example("019a0000-0000-6000-8000-000000000000")
@example("019A0000-0000-7000-8000-000000000000")
@example("019a_000-0000-7000-8000-000000000000")
@example("019a0000-0000-7000-8000-00000000000\u0663")
@example("019a0000-0000-7000-8000-00000000000\ud800")
def test_an_id_has_a_time_where_it_has_the_form_of_the_documents(text: str) -> None:
    issued = issued_at(text)
    assert (issued is None) == (re.fullmatch(ID_PATTERN, text) is None)
    assert issued is None or issued == int(text[:8] + text[9:13], 16)


@given(st.from_regex(ID_PATTERN, fullmatch=True), st.integers(0, 35), st.characters())
def test_one_other_character_is_read_as_the_documents_say(text: str, at: int, other: str) -> None:
    changed = text[:at] + other + text[at + 1 :]
    assert (issued_at(changed) is None) == (re.fullmatch(ID_PATTERN, changed) is None)
