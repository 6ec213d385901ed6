"""Each line of a file is in one column, and the order of the lines changes nothing."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.advice.compare import Comparison
from accountant.advice.fixed_in_advance import FixedInAdvance
from accountant.advice.request_file import Columns, read_in_order
from accountant.policy import Policy
from accountant.records.outcomes import Outcome
from accountant.times import uuid7
from tests.accountant.world import START, World

HOUR = 3_600_000
POLICY = Policy(filter="zcdp_tight", epsilon="1", delta="1e-6")


def request(number: int, **fields: Any) -> bytes:
    body = {
        "version": 1,
        "type": "request",
        "request_id": uuid7(START + number * HOUR, number.to_bytes(10)),
        "analyst": "ana",
        "dataset": f"d{number % 2}",
        "claim": {"type": "pure", "epsilon": "0.3"},
        "unit": "person",
        "neighbours": "add_remove",
    }
    return json.dumps(body | fields).encode()


def log() -> list[bytes]:
    world = World()
    world.send("admin", world.admin("open", policy={"epsilon": "1", "delta": "1e-6"}))
    for _ in range(4):
        world.ask("pure:0.3")
    world.send("requests", b"{")
    return world.log


JUNK = [b"{", b"[]", b"hello\x1b", b"\xff", b'{"type": "decision"}', b'{"type": "open"}', b'"x"']
LINES = [request(i) for i in range(6)] + [request(2), request(3, purpose="another")]
LINES += [request(9, unit="household"), request(10, claim={"type": "zcdp", "rho": "5"}), *log()]


def compared(lines: list[bytes]) -> tuple[Any, ...]:
    columns, comparison, best = Columns(), Comparison(POLICY), FixedInAdvance(POLICY)
    asked = read_in_order(enumerate(lines, 1), columns)
    per_dataset: dict[str, int] = {}
    for each in asked:
        encoded = comparison.take(each.body)
        assert encoded.outcome in {Outcome.GRANTED, Outcome.REFUSED}
        columns.decided += 1
        per_dataset[each.dataset] = per_dataset.get(each.dataset, 0) + 1
        best.take(encoded, comparison.lines)
    whole = columns.decided + columns.repeated + columns.left_out + columns.not_decided
    assert whole == len(lines)
    reported = [(a.name, a.tallies) for a in (*comparison.alternatives(), best.alternative)]
    for name, tallies in reported:
        for dataset, tally in tallies.items():
            if tally.admitted + tally.refused:
                assert tally.admitted + tally.refused == per_dataset[dataset], name
    return reported, columns.decided, columns.repeated, columns.left_out, columns.reasons


@cache
def whole() -> tuple[Any, ...]:
    return compared(LINES + JUNK)


@settings(max_examples=8, deadline=None)
@given(st.permutations(LINES + JUNK))
def test_the_order_of_the_lines_changes_no_count(lines: list[bytes]) -> None:
    assert compared(lines) == whole()


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(LINES + JUNK) | st.binary(max_size=30), max_size=20))
def test_each_line_is_in_one_column(lines: list[bytes]) -> None:
    compared(lines)
