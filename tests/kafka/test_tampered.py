"""A log on Kafka that was tampered with, in ten ways: an audit names it, and a worker refuses."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer

from accountant.errors import LedgerFault
from accountant.partition.key_hash import partition_of
from accountant.records import decode_decision
from accountant.replay.replay import Replay
from accountant.times import from_iso
from streams.evidence.keys import SigningKey
from streams.settings import Settings
from streams.testing import LocalBroker
from streams.worker.partition_checkpoints import PartitionCheckpoints, partition_store
from streams.worker.partitions import Worker
from tests.faults import oracle
from tests.faults.ledger import Ledger, new_id, request, until, working
from tests.faults.operator import Operator
from tests.faults.worker_process import settings_of
from tests.forks import commands
from tests.nightly import rounds
from tests.streams.cli.conftest import environment
from tests.streams.evidence.tampering import (
    KINDS,
    WOULD_DECIDE,
    Drawn,
    Log,
    Sound,
    broken_at,
    expected_findings,
    hash_of,
    of_another_ledger,
)

STARTS = ("streams.cli",)

DRAWS = rounds(2, 60)
_AT_ONCE: Final = 2  # draws of each kind that one ledger takes, a partition each
_PARTITIONS: Final = _AT_ONCE * len(KINDS)
_LOST: Final = re.compile(
    r"ends at decision \d+, but decision \d+ was there"
    r"|decision \d+ of the log is another one than at"
    r"|another ledger's log was put in its place"
)
_HALTED: Final = re.compile(r"partition (\d+) halted: (.*)", re.DOTALL)
_FOUND: Final = re.compile(r"partition (\d+): (.*)", re.DOTALL)


def datasets() -> list[str]:
    """Return a dataset for each partition."""
    named: dict[int, str] = {}
    number = 0
    while len(named) < _PARTITIONS:
        named.setdefault(partition_of(f"ds-{number}".encode(), _PARTITIONS), f"ds-{number}")
        number += 1
    return [named[part] for part in range(_PARTITIONS)]


class TamperedLedger:
    """A ledger on Kafka of which each partition is tampered with in a way of its own.

    Attributes:
        kinds: by partition.
    """

    def __init__(self, ledger: Ledger, place: Path, seed: int) -> None:
        self.ledger, self.place = ledger, place
        self.settings = Settings(checkpoints=place, checkpoint_seconds=0.1)
        self.kinds = [kind for kind in KINDS for _ in range(_AT_ONCE)]
        self._seeds = [seed + i for _ in KINDS for i in range(_AT_ONCE)]
        self.sound: list[Sound] = []
        self.drawn: list[Drawn] = []

    def heads(self) -> PartitionCheckpoints:
        return PartitionCheckpoints(self.ledger.deployment, self.settings)

    async def live(self) -> None:
        """Have a worker decide in each partition: grants, a repeat, a conflict, refusals."""
        names = datasets()
        async with working(self.ledger, observers=[self.heads()]):
            await self.ledger.open(*names, filter="basic", epsilon="0.005")
            await self.ledger.settle()
            for _ in range(2):
                bodies = [request(name, request_id=new_id()) for name in names for _ in range(4)]
                others = [request(name, epsilon="0.01", purpose="too much") for name in names]
                again = [bodies[number] for number in range(0, len(bodies), 4)]
                changed = [body.replace(b'"ana"', b'"eve"') for body in again]
                await self.ledger.send_all([*bodies, *again, *others, *changed])
                await self.ledger.settle()
        self.sound = [Sound(log, of_another_ledger(log), len(log)) for log in self.logs()]

    def logs(self) -> list[Log]:
        topic = self.ledger.topic("decisions")
        found = oracle.read(self.ledger.bootstrap, topic, _PARTITIONS)
        return [[r.value for r in part if r.value is not None] for part in found]

    def keep(self) -> None:
        """Store checkpoints like the workers of earlier runs, in place of this one's."""
        for each in self.place.rglob("*.note"):
            each.unlink()
        draws = zip(self.kinds, self._seeds, self.sound, strict=True)
        self.drawn = [KINDS[kind](sound, Random(f"{kind}-{seed}")) for kind, seed, sound in draws]
        for number, (sound, drawn) in enumerate(zip(self.sound, self.drawn, strict=True)):
            genesis = decode_decision(sound.log[0]).genesis
            assert genesis is not None
            assert isinstance(genesis.ledger, str)
            store = partition_store(self.place, self.settings, genesis.ledger, number)
            last = from_iso(json.loads(sound.log[-1])["decided_at"])
            for sequence in drawn.kept:
                store.put(sequence, hash_of(sound.log[sequence]), 0, last)

    async def tamper(self) -> None:
        """Replace the logs by the drawn ones, and remove the drawn rows of `state`."""
        operator, bootstrap = Operator(self.ledger), self.ledger.bootstrap
        rows = await asyncio.to_thread(
            oracle.read, bootstrap, self.ledger.topic("state"), _PARTITIONS
        )
        await asyncio.to_thread(operator.delete, "decisions", "state")
        await asyncio.to_thread(operator.create_bare, "decisions", "state")
        sent = []
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            for number, drawn in enumerate(self.drawn):
                records = [("decisions", None, value) for value in drawn.log]
                if self.has_state(number):
                    records += [("state", row.key, row.value) for row in rows[number]]
                for topic, key, value in records:
                    name = self.ledger.topic(topic)
                    sent.append(await producer.send(name, value, key=key, partition=number))
            await asyncio.gather(*sent)

    def has_state(self, number: int) -> bool:
        """Return whether a partition still has its rows; a restore has none."""
        restored = self.kinds[number] in {"old-backup", "another-ledger"}
        return not restored and not self.drawn[number].without_state

    def is_damaged(self, number: int) -> bool:
        """Return whether a start sees by itself that a log does not agree with itself."""
        if self.has_state(number):
            return True  # the rows have another end, or another hash, than the log
        genesis = decode_decision(self.drawn[number].log[0]).genesis
        assert genesis is not None
        refold = Replay(genesis)
        try:
            for value in self.drawn[number].log:
                refold.take_decision(value)
            refold.finish()
        except LedgerFault:
            return True
        return False

    def audited(self) -> Any:
        """Return the command's output; it must end with the exit code of a finding."""
        env = environment(**settings_of(self.ledger))
        key = SigningKey.load(self.place / "key").verifier.text
        line = ("audit", "--checkpoints", str(self.place), "--key", key, "--json")
        done = commands.run(*line, env=env, text=True)
        assert done.returncode == 1, done.stderr
        return json.loads(done.stdout)


def halted(worker: Worker) -> dict[int, str]:
    """Return why partitions are halted."""
    found = (_HALTED.fullmatch(why) for why in worker.status.readiness().reasons)
    return {int(each[1]): each[2] for each in found if each is not None}


def noticed(worker: Worker, heads: PartitionCheckpoints) -> dict[int, str]:
    """Return why partitions are halted, or are going to be."""
    found = (_FOUND.fullmatch(why) for why in heads.refused)
    return {int(each[1]): each[2] for each in found if each is not None} | halted(worker)


@pytest.fixture(params=[pytest.param(n, id=f"draws-from-{n}") for n in range(0, DRAWS, _AT_ONCE)])
async def tampered(
    request: pytest.FixtureRequest, broker: LocalBroker, application: str, tmp_path: Path
) -> Any:
    async with Ledger(broker.bootstrap, application, partitions=_PARTITIONS) as ledger:
        made = TamperedLedger(ledger, tmp_path / "kept", request.param)
        await made.live()
        await asyncio.to_thread(made.keep)
        await made.tamper()
        yield made


async def test_an_audit_names_a_manipulated_log_and_a_worker_refuses_it(
    tampered: TamperedLedger,
) -> None:
    audit = await asyncio.to_thread(tampered.audited)
    assert audit["checkpoints"]["of_this_ledger"]
    for number, (sound, drawn) in enumerate(zip(tampered.sound, tampered.drawn, strict=True)):
        wrong = expected_findings(sound, drawn)
        said = audit["checkpoints"]["partitions"][number]["wrong"]
        assert len(said) == len(wrong), (number, said, wrong)
        assert all(one.startswith(other) for one, other in zip(said, wrong, strict=True)), said
        disagrees = audit["partitions"][number]["report"]["first_disagreement"]
        broken = broken_at(drawn.log)
        if broken is not None:
            assert drawn.first <= disagrees["partition_sequence"] <= broken, (number, disagrees)
        else:
            assert wrong, (number, "nothing shows it")

    before = await asyncio.to_thread(tampered.logs)
    heads = tampered.heads()
    options: dict[str, Any] = {"ready": False, "looks_again": (0.2,)}
    async with working(tampered.ledger, observers=[heads], **options) as worker:
        await until(lambda: len(noticed(worker, heads)) == _PARTITIONS, "each partition refused")
        rest = set(range(_PARTITIONS)) - halted(worker).keys()
        await tampered.ledger.send_all(request(datasets()[number]) for number in rest)
        await until(lambda: len(halted(worker)) == _PARTITIONS, "each partition halted")
        why = halted(worker)
        assert not worker.status.serving
    after = await asyncio.to_thread(tampered.logs)
    for number, drawn in enumerate(tampered.drawn):
        end, newest = len(drawn.log) - 1, drawn.kept[-1]
        is_damaged = tampered.is_damaged(number)
        assert is_damaged != bool(_LOST.search(why[number])), (number, why[number])
        assert not (is_damaged and tampered.kinds[number] in WOULD_DECIDE)
        if is_damaged or end <= newest or tampered.kinds[number] == "another-ledger":
            assert after[number] == before[number], tampered.kinds[number]  # nothing was decided
        else:  # a worker's start checks the last decision, then the others
            assert after[number][: end + 1] == before[number]
