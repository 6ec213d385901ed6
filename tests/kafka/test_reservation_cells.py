"""Every cell of the table of reservations in one log on a broker."""

from __future__ import annotations

import asyncio
import itertools

import msgspec

from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from streams.testing import LocalBroker
from tests.accountant.reservations.cells import Script
from tests.accountant.world import START
from tests.faults import oracle
from tests.faults.ledger import Ledger, source_of, working
from tests.faults.operator import Operator
from tests.kafka.test_clock_reset import ANY_TIME, now
from tests.kafka.test_repeats import ShiftedClock

SOON_MS = 5_000
"""The cells happen after the genesis, which has the time of this machine."""


async def test_a_worker_decides_each_cell_as_the_pure_rules_do(
    broker: LocalBroker, application: str
) -> None:
    script = Script(later=now() + SOON_MS - START)
    assert len(script.names) > 150
    times: dict[bytes, int] = {}

    def decide_at_its_time(draft: Draft, record: Input, clock: int) -> EncodedDecision:
        at = times[record.value or b""]
        return decide(draft, msgspec.structs.replace(record, append_time=at), at)

    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        operator = Operator(ledger)
        for name in ("decisions", "state"):
            await asyncio.to_thread(operator.alter, name, *ANY_TIME)
        for at, groups in itertools.groupby(script.rounds(), key=lambda group: group[0].at):
            # Another worker goes on at the next time: a clock that jumps is refused.
            clock = ShiftedClock(at - now())
            async with working(ledger, decide=decide_at_its_time, clock=clock):
                for group in groups:
                    bodies = [script.body(sent) for sent in group]
                    times |= {body: sent.at for body, sent in zip(bodies, group, strict=True)}
                    places = [
                        await ledger.send_all([body], topic=sent.source)
                        for body, sent in zip(bodies, group, strict=True)
                    ]
                    await ledger.settle()
                    records = await asyncio.to_thread(records_by_place, ledger)
                    for sent, (place,) in zip(group, places, strict=True):
                        script.check(sent, records[place])


def records_by_place(ledger: Ledger) -> dict[oracle.Place, bytes]:
    """Return the decisions on a log's inputs, as they are written."""
    (values,) = oracle.read(ledger.bootstrap, ledger.topic("decisions"), 1, committed=True)
    found: dict[oracle.Place, bytes] = {}
    for record in values:
        value = record.value or b""
        source = source_of(value)
        if source is not None:
            found[source["topic"], source["partition"], source["offset"]] = value
    return found
