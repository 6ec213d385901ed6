"""Checkpoints in sinks over kills: none is false, and a start sends the newest."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Final

import pytest

from accountant.partition import hash_of
from streams.audit.checkpoints import compare_checkpoints, read_evidence
from streams.audit.log_audit import run_audit
from streams.cli.reading.log_at import log_at
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import open_signed
from streams.kafka.log.checkpoint_topic import Topic
from streams.kafka.log.topic_sink import topic_sink
from streams.kafka.wire.security import Cluster
from streams.settings import Settings, load
from streams.testing import LocalBroker
from tests.faults.sqlite_life import forked, since, verdict
from tests.nightly import rounds
from tests.streams.bodies import asking, opening
from tests.streams.evidence.sinks.kinds import make_topic
from tests.streams.evidence.sinks.receiver import CheckpointReceiver
from tests.streams.waiting import eventually

pytestmark = pytest.mark.faults

KILLS: Final = rounds(3, 30)
BORN: Final = time.time_ns() // 1_000_000
A_LIFE: Final = 100_000


class KillingReceiver(CheckpointReceiver):
    """A receiver that kills the sender at a chosen moment.

    Attributes:
        victim: the process.
        moment: `before` a note is kept, `kept` and not answered, `answered`, or None.
    """

    victim = 0
    moment: str | None = None

    def keep(self, note: bytes) -> None:
        if self.moment == "before":
            self.kill()
            return
        super().keep(note)
        if self.moment == "kept":
            self.kill()

    def kill(self) -> None:
        if self.victim:
            os.kill(self.victim, signal.SIGKILL)
            self.victim = 0


def live(file: Path, settings: Settings, life: int) -> None:
    """Decide until killed."""
    service = EmbeddedService.open(file, settings, topic_sink=topic_sink)
    service.submit_sync("admin", opening("census", BORN, 0), 10)
    for number in itertools.count(life * A_LIFE + 1):
        service.submit_sync("requests", asking("census", BORN, number, epsilon="0.0001"), 10)
        time.sleep(0.002)  # so that the log stays short


def was_sent(body: bytes) -> bool:
    """Return whether a body is one of those that the lives send."""
    number = int(json.loads(body)["request_id"].replace("-", "")[17:], 16)
    return body in {
        opening("census", BORN, 0),
        asking("census", BORN, number, epsilon="0.0001"),
    }


def test_over_kills_no_sink_has_a_false_checkpoint_or_lacks_the_newest(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    make_topic(broker.bootstrap, application)
    topic = f"kafka://{broker.bootstrap}/{application}"
    file, store = tmp_path / "ledger.db", tmp_path / "kept"
    chance = random.Random(21)
    with KillingReceiver(tmp_path / "received") as receiver:
        settings = load(
            checkpoints=store,
            checkpoint_seconds=0.1,
            checkpoint_places=f"{topic},{receiver.url}",
            checkpoint_places_seconds=1,
        )
        for life in range(KILLS):
            receiver.moment = ("before", "kept", None)[life % 3]
            before = len(receiver.posts)
            child = forked(lambda n=life: live(file, settings, n))
            eventually(lambda seen=before: len(receiver.posts) > seen)
            time.sleep(chance.uniform(0, 1.2))  # more are sent meanwhile, to the topic, too
            if receiver.moment is None:
                os.kill(child, signal.SIGKILL)
            receiver.victim = child
            _, status = os.waitpid(child, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, "it ended by itself"
            receiver.victim = 0
        receiver.moment = None
        service = EmbeddedService.open(
            file, settings, topic_sink=topic_sink
        )  # nobody asks any more
        end = head_of(file)
        key = SigningKey.load(store / "key").verifier
        to_read = Topic(Cluster(broker.bootstrap), application)
        for notes in (receiver.notes, lambda: [note for _, note in to_read.notes()]):
            eventually(
                lambda notes=notes: end in {open_signed(each, [key])[3:5] for each in notes()}
            )
        service.close_sync()
    for place in (str(receiver.directory), topic):
        evidence = read_evidence(place, [key.text], None)
        assert evidence is not None
        report = compare_checkpoints(
            evidence, run_audit(log_at(str(file)), None, evidence), looked=True, is_meant=False
        )
        assert report.ok, report
        assert report.partitions[0].agree > KILLS
    judged = verdict(file, tmp_path / "copy", was_sent, since(BORN))
    assert len(judged.decisions) > 10 * KILLS


def head_of(file: Path) -> tuple[int, str]:
    values = list(read_decisions(file))
    return len(values) - 1, hash_of(values[-1])
