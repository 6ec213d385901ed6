"""Workers are killed and paused around an owner's renewals, raises and records of releases."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, request, until
from tests.faults.oracle.texts import at_text, issued
from tests.faults.test_kafka_kill import partitions_of, replayed, take_over
from tests.faults.worker_process import WorkerProcess, running
from tests.nightly import rounds

pytestmark = pytest.mark.faults

LEDGERS: Final = rounds(1, 5)
KILLS: Final = rounds(2, 10)
TAKEOVERS: Final = rounds(1, 2)
GROUPS: Final = [f"group-{number}" for number in range(6)]
"""Half of them have a lifetime of one dataset, half that of a population with two."""
POLICY: Final = {"filter": "basic", "epsilon": "0.2", "delta": "1e-6"}
LIFETIME: Final = {"epsilon": "2", "delta": "1e-4"}
SEVERAL: Final = 3
"""How often each record is sent, with the same bytes: it must count once."""


class Years:
    """What owners send in the years of one group: raises, records, renewals and requests."""

    def __init__(self, group: str, *, shared: bool) -> None:
        self._group, self._shared, self._draw = group, shared, random.Random(group)
        self._latest = {"a": 1, "b": 1} if shared else {"a": 1}

    def openings(self) -> Iterator[bytes]:
        """Yield the openings, with the lifetime in the first."""
        for number, each in enumerate(self._latest):
            lifetime = {"lifetime": LIFETIME} if not number else {}
            if self._shared and lifetime:
                lifetime = {"lifetime": {**LIFETIME, "shared": True}}
            yield self._record("open", each, policy=self._policy(), budget=_part("0.1"), **lifetime)

    def year(self) -> Iterator[tuple[str, bytes]]:
        """Yield topic and value of what is sent about one dataset, its renewal last."""
        each = self._draw.choice([*self._latest])
        yield "admin", self._record("budget", each, budget=_part("0.2"))
        yield "requests", request(self._name(each), epsilon="0.15")
        claim = {"type": "pure", "epsilon": self._draw.choice(["0.01", "0.3"])}
        made = new_id()
        released = at_text(issued(made) - 1000)
        record = {"claim": claim, "released_at": released, "evidence": "a table"}
        if self._draw.random() < 0.5:
            yield "admin", self._record("record", each, request_id=made, **record)
        after = f"{self._group}::{each}{self._latest[each] + 1}"
        policy = self._policy()
        yield "admin", self._record("renew", each, renewed_as=after, policy=policy)
        self._latest[each] += 1
        # So that everybody may ask, as the client does after limits and members.
        yield "admin", self._record("amend", each, access="anyone")

    def _policy(self) -> dict[str, str]:
        return POLICY | ({"population": f"{self._group}::people"} if self._shared else {})

    def _name(self, each: str) -> str:
        return f"{self._group}::{each}{self._latest[each]}"

    def _record(self, kind: str, each: str, **fields: Any) -> bytes:
        names = {"dataset": self._name(each), "by": "owner"}
        head = {"version": 1, "type": kind, "request_id": new_id()}
        return json.dumps({**head, **names, **fields}).encode()


def _part(epsilon: str) -> dict[str, str]:
    return {"epsilon": epsilon}


@pytest.mark.parametrize("seed", range(LEDGERS))
async def test_each_generation_is_charged_once_whatever_is_killed(
    broker: LocalBroker, application: str, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    ledger = Ledger(broker.bootstrap, application, placement="group")
    async with ledger:
        groups = [Years(name, shared=bool(number % 2)) for number, name in enumerate(GROUPS)]
        await ledger.send_all((each for one in groups for each in one.openings()), topic="admin")
        workers = [WorkerProcess(ledger, name, tmp_path) for name in ("w1", "w2")]
        with running(workers):
            for each in workers:
                await until(lambda each=each: len(partitions_of(each, 0) or ()) == 2, "two each")
            await ledger.settle()
            for number in range(KILLS):
                worker = workers[number % 2]
                years = asyncio.create_task(send_years(ledger, groups))
                await asyncio.sleep(draw.uniform(0, 1.5))
                worker.kill()
                since = worker.mark()
                worker.start()
                await years
                await until(
                    lambda since=since, worker=worker: len(replayed(worker, since)) >= 2, "serves"
                )
            for number in range(TAKEOVERS):
                years = asyncio.create_task(send_years(ledger, groups))
                await take_over(workers[number % 2], workers[1 - number % 2])
                await years
            await ledger.settle()
        verdict = await ledger.judged()
    check(verdict.decisions)


async def send_years(ledger: Ledger, groups: list[Years]) -> None:
    """Send a year of every group, each record several times."""
    for one in groups:
        for topic, value in one.year():
            for _ in range(SEVERAL):
                await ledger.send(value, topic=topic)


def check(decisions: list[dict[str, Any]]) -> None:
    """Check the sums of lifetimes, from the decisions alone; the oracle has judged the rest."""
    met = {each["outcome"] for each in decisions}
    assert met >= {"opened", "renewed", "recorded", "budget_set", "granted", "repeated"}
    reasons = {each.get("reason") for each in decisions if each["outcome"] == "refused"}
    assert "beyond_lifetime" in reasons or KILLS < 10
    charged = dict[str, Fraction]()
    for each in decisions:
        lifetime = each.get("lifetime")
        if lifetime is not None:
            first = str(lifetime["first"])
            charged[first] = charged.get(first, Fraction(0)) + Fraction(POLICY["epsilon"])
            assert Fraction(lifetime["spent"]["epsilon"]) == charged[first]
    assert len(charged) == len(GROUPS)
    assert all(spent <= Fraction(LIFETIME["epsilon"]) for spent in charged.values())
