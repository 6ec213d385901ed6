"""A position comes back from its text as it was, and no other text is one."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from streams.gateway.events.position import Position

NUMBERS = st.lists(st.integers(0, 10**15 - 1), min_size=1, max_size=40)


@given(NUMBERS, st.integers(0, 2**48 - 1), st.integers(1, 999), st.data())
def test_a_position_equals_the_one_parsed_from_its_text(
    numbers: list[int], mark: int, events: int, data: st.DataObject
) -> None:
    position = Position(tuple(numbers), mark)
    assert Position.parse(str(position)) == position
    within = position.within(data.draw(st.integers(0, len(numbers) - 1)), events)
    assert Position.parse(str(within)) == within
    assert sum(within.needed()) == sum(numbers) + 1


@given(st.text(max_size=40) | st.from_regex(r"1-[0-9a-f]{12}-[0-9.]{1,20}(-[0-9.]{1,5})?"))
def test_only_the_exact_text_of_a_position_is_parsed(text: str) -> None:
    position = Position.parse(text)
    assert position is None or str(position) == text


@given(st.lists(st.lists(st.binary(min_size=1), min_size=1, max_size=6), min_size=1, max_size=4))
def test_a_position_advanced_by_decisions_equals_one_of_the_last_decisions(
    logs: list[list[bytes]],
) -> None:
    position = Position.of([(0, log[0]) for log in logs])
    for partition, log in enumerate(logs):
        for number in range(1, len(log)):
            previous = f"sha256:{hashlib.sha256(log[number - 1]).hexdigest()}"
            position = position.after(partition, number, log[number], previous)
    assert position == Position.of([(len(log) - 1, log[-1]) for log in logs])
