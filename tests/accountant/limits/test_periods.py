"""Periods of a pace: whatever lengths follow each other, none is cut short or counted twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accountant.limits.periods import Periods

LENGTHS = st.integers(1, 12)
CHANGES = st.lists(st.tuples(st.integers(0, 30), LENGTHS), max_size=8)


@given(LENGTHS, CHANGES, st.integers(-40, 200))
def test_a_time_lies_in_the_period_of_its_number(
    length: int, changes: list[tuple[int, int]], at: int
) -> None:
    periods, now = Periods(length, 0, length), 0
    for later, each in changes:
        now += later
        periods = periods.with_length(each, now)
    number = periods.number(at)
    assert periods.begin(number) <= at < periods.end(number)
    assert periods.number(periods.begin(number)) == number
    assert periods.number(periods.end(number)) == number + 1


@given(LENGTHS, CHANGES)
def test_a_new_length_keeps_the_running_begin_and_never_shortens_the_period(
    length: int, changes: list[tuple[int, int]]
) -> None:
    periods, now = Periods(length, 0, length), 0
    for later, each in changes:
        now += later
        after = periods.with_length(each, now)
        before, running = periods.number(now), after.number(now)
        begin = after.begin(running)
        assert begin == periods.begin(before)
        assert after.end(running) >= max(periods.end(before), begin + each)
        assert after.end(running + 1) - after.begin(running + 1) == each
        periods = after


@given(
    LENGTHS,
    st.lists(st.tuples(st.integers(0, 9), st.one_of(st.just(0), LENGTHS)), min_size=1, max_size=40),
)
def test_no_period_of_either_length_gives_an_analyst_two_whole_paces(
    length: int, steps: list[tuple[int, int]]
) -> None:
    """Each step waits, then perhaps changes the length, then uses a whole pace if there is one."""
    periods, now, used_in = Periods(length, 0, length), 0, -1
    # Every period that ever ran, as it was announced when it ran, and when a whole pace was used.
    announced, uses = set[tuple[int, int]](), list[int]()
    for later, each in steps:
        now += later
        announced.add((periods.begin(periods.number(now)), periods.end(periods.number(now))))
        if each:
            periods = periods.with_length(each, now)
            announced.add((periods.begin(periods.number(now)), periods.end(periods.number(now))))
        if used_in < periods.begin(periods.number(now)):
            used_in = periods.begin(periods.number(now))
            uses.append(now)
    for begin, end in announced:
        assert sum(begin <= use < end for use in uses) <= 1
