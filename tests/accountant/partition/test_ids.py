"""The ids of a window: which are kept, and what forgetting the others costs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accountant.partition.ids import MAX_SHARED, IdTable, RememberedDecision, pack_decision
from accountant.records.outcomes import Outcome, Reason

KNOWN = pack_decision(bytes(32), bytes(32), 1, 0, Outcome.GRANTED, None, None)
TIMES = st.integers(0, 9_999)


class Second(int):
    """Counts how often any is compared."""

    compared = 0

    def __lt__(self, other: Any) -> bool:
        Second.compared += 1
        return int(self) < int(other)


class Issued(int):
    def __floordiv__(self, other: int) -> Second:
        return Second(int(self) // other)


def test_forgetting_nothing_costs_the_same_for_any_window() -> None:
    compared = {}
    for seconds in (10, 86_400):
        table = IdTable()
        for second in range(1, seconds + 1):
            table.add(Issued(second * 1000), b"id %d" % second, KNOWN)
        Second.compared = 0
        table.forget(1_999)  # the first second; a commit asks for this again and again
        for _ in range(10):
            table.forget(1_999)
        compared[seconds] = Second.compared
        assert len(table) == seconds - 1
    # Taking one off the heap compares its logarithm: some 16 more, once.
    assert compared[86_400] < compared[10] + 50


@given(st.lists(st.tuples(st.sampled_from(["add", "forget"]), TIMES), max_size=60))
def test_the_id_table_stores_the_ids_of_each_second_that_has_not_ended(
    steps: list[tuple[str, int]],
) -> None:
    table, kept = IdTable(), dict[str, int]()
    for step, time in steps:
        if step == "add":
            table.add(time, b"id %d" % time, KNOWN)
            kept[f"id {time}"] = time
        else:
            table.forget(time)
            kept = {key: at for key, at in kept.items() if (at // 1000 + 1) * 1000 - 1 > time}
        assert len(table) == len(kept)
    for time in range(10_000):
        assert (table.get(time, b"id %d" % time) == KNOWN) == (f"id {time}" in kept)


COSTS = [None, {"rho": "1"}, {"rho": "2"}, {"rho": "1"}]  # two are equal, and not the same object
DECISIONS = st.builds(
    pack_decision,
    st.just(bytes(32)),
    st.just(bytes(32)),
    st.integers(0, 2**56 - 1),
    st.integers(0, 2**48 - 1),
    st.sampled_from([Outcome.GRANTED, Outcome.REFUSED]),
    st.sampled_from([None, Reason.CLOSED]),
    st.sampled_from(COSTS),
)
STEPS = st.lists(st.tuples(TIMES, st.none() | DECISIONS), min_size=1)


@given(st.lists(STEPS, max_size=8), st.integers(0, 5))
def test_each_id_gets_its_own_decision_back_however_few_results_are_shared(
    batches: list[list[tuple[int, RememberedDecision | None]]], max_shared: int
) -> None:
    table, kept = IdTable(max_shared=max_shared), dict[int, RememberedDecision]()
    for batch in batches:
        added = {time: decision for time, decision in batch if decision is not None}
        table.add_all({b"id %d" % time: (time, known) for time, known in added.items()})
        kept |= added
        for watermark in [time for time, decision in batch if decision is None]:
            table.forget(watermark)
            kept = {
                time: each for time, each in kept.items() if time // 1000 >= (watermark + 1) // 1000
            }
        assert len(table) == len(kept)
        assert all(table.get(time, b"id %d" % time) == known for time, known in kept.items())
        assert table.shared <= min(max_shared, len({(e.code, id(e.cost)) for e in kept.values()}))


def test_a_result_is_stored_once_and_until_its_last_id_is_forgotten() -> None:
    table = IdTable()
    for time in range(10_000):
        table.add(time, b"id %d" % time, KNOWN)
    assert table.shared == 1
    table.forget(8_999)
    assert (len(table), table.shared) == (1_000, 1)
    table.forget(9_999)
    assert (len(table), table.shared) == (0, 0)


def test_results_beyond_the_largest_number_are_stored_with_their_ids() -> None:
    table, count = IdTable(), MAX_SHARED + 10
    costs = [{"rho": str(i)} for i in range(count)]
    for i, cost in enumerate(costs):
        known = pack_decision(bytes(32), bytes(32), i, i, Outcome.GRANTED, None, cost)
        table.add(i // 10, b"id %d" % i, known)
    assert table.shared == MAX_SHARED
    for i, cost in enumerate(costs):
        known = table.get(i // 10, b"id %d" % i)
        assert known is not None
        assert (known.partition_sequence, known.cost) == (i, cost)
    table.forget(count)
    assert (len(table), table.shared) == (0, 0)


def test_a_second_is_forgotten_once_the_floor_has_reached_its_end() -> None:
    table = IdTable()
    table.add(1_999, b"id", KNOWN)
    table.forget(1_998)
    assert table.get(1_999, b"id") == KNOWN
    table.forget(1_999)
    assert table.get(1_999, b"id") is None


@given(
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**56 - 1),
    st.integers(0, 2**48 - 1),
    st.sampled_from(Outcome),
    st.none() | st.sampled_from(Reason),
)
def test_a_remembered_decision_gives_back_what_was_packed(
    body_hash: bytes, digest: bytes, number: int, at: int, outcome: Outcome, reason: Reason | None
) -> None:
    known = pack_decision(body_hash, digest, number, at, outcome, reason, {"rho": "1"})
    assert (known.body_hash, known.hash) == (body_hash, digest)
    assert (known.partition_sequence, known.decided_at) == (number, at)
    assert (known.outcome, known.reason, known.cost) == (outcome, reason, {"rho": "1"})


def test_all_outcomes_and_reasons_fit_a_byte_each() -> None:
    assert max(len(Outcome), len(Reason) + 1) <= 256
