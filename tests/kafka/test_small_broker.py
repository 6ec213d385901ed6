"""A broker with lower default limits: only pinned settings may be relied on."""

from __future__ import annotations

from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, working

KEY = b"k" * 150_000


async def test_a_long_key_is_truncated_in_its_dead_letter_and_delays_no_request(
    application: str,
) -> None:
    with LocalBroker(settings={"message.max.bytes": "100000"}) as broker:
        async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
            async with working(ledger):
                await ledger.open("ds", filter="basic", epsilon="1")
                await ledger.send(b"junk", key=KEY, partition=0)
                place = await ledger.ask("ds")
                assert (await ledger.decision(place))["outcome"] == "granted"
            decisions, state, dead = (
                oracle.read(broker.bootstrap, ledger.topic(topic), 1)[0]
                for topic in ("decisions", "state", "dead_letters")
            )
    (letter,) = dead
    assert letter.key == KEY[:1024]
    assert letter.value == b"junk"
    # What is no decision is dated as the decisions are: a worker's clock may be far ahead.
    times = {record.timestamp for record in decisions}
    assert {record.timestamp for record in [letter, *state]} <= times
