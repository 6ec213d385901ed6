"""An embedded ledger's alerts: published at once, posted, remembered over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from accountant.records import decode_decision
from streams.alerts.relayed_decisions import RelayedDecision, RelayedDecisions
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.metrics.registry import make_registry
from streams.settings import Settings, load
from tests.faults.edges import edge_time
from tests.faults.sqlite_life import forked, since, verdict
from tests.nightly import rounds
from tests.patience import PATIENCE_S
from tests.streams.alerts.receiver import Receiver, until
from tests.streams.bodies import asking, opening

BORN = time.time_ns() // 1_000_000
KILLS = rounds(4, 10)
ALL = ["census/1/0.5", "census/1/0.8", "census/1/0.95", "census/1/1"]


def settings(receiver: Receiver, **more: Any) -> Settings:
    return load(alert_webhook=receiver.url, **more)


class Life:
    """A ledger that is open for a while."""

    def __init__(self, file: Path, options: Settings) -> None:
        self.service = EmbeddedService.open(file, options)
        # Unique ids, also among other lives of the same file.
        self._numbers = itertools.count(int.from_bytes(os.urandom(4)) << 24)

    def open(self, dataset: str = "census", **policy: str) -> None:
        self.send("admin", opening(dataset, BORN, next(self._numbers), **(policy or ONE)))

    def ask(self, epsilon: str, dataset: str = "census") -> None:
        self.send("requests", asking(dataset, BORN, next(self._numbers), epsilon=epsilon))

    def send(self, source: Any, body: bytes) -> None:
        answer = self.service.submit_sync(source, body, 20)
        assert answer.decision is not None

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        self.service.close_sync()


ONE = {"filter": "basic", "epsilon": "1"}


def thresholds(file: Path) -> set[str]:
    """Return the thresholds that the log's decisions have reached."""
    decisions = [decode_decision(value) for value in read_decisions(file)]
    return {
        f"{each.dataset}/{each.generation}/{ratio}" for each in decisions for ratio in each.crossed
    }


def test_each_threshold_is_posted_once_in_order(file: Path) -> None:
    with Receiver() as receiver, Life(file, settings(receiver)) as life:
        life.open()
        for _ in range(10):
            life.ask("0.1")
        until(lambda: len(receiver.taken) == len(ALL), "all delivered")
        assert receiver.taken == ALL
        assert receiver.posts[0].body["spent_ratio"] >= 0.5
        text = "".join(
            str(family.samples)
            for family in make_registry(None, life.service.alert_counts).collect()
        )
        assert "path-secret" not in text
    with Receiver() as other, Life(file, settings(other)) as life:
        life.ask("0.1")  # refused: nothing is new
    assert other.posts == [], "what was delivered is remembered"


def test_an_undelivered_alert_is_posted_after_a_restart(file: Path) -> None:
    receiver = Receiver(500, 500, 500, 500)
    with Life(file, settings(receiver)) as life:
        life.open()
        life.ask("0.6")
        until(lambda: receiver.posts, "a first try")
    assert receiver.taken == []
    receiver.down()
    with Life(file, settings(receiver)) as life:
        life.ask("0.3")
    receiver._answers = iter(())
    receiver.up()
    with Life(file, settings(receiver)) as life:
        life.ask("0.06")
        until(lambda: ALL[2] in receiver.taken, "the last one is delivered")
    receiver.down()
    assert receiver.taken == ALL[:3], "after all, and in their order"
    assert {post.key for post in receiver.posts} == set(ALL[:3])


@pytest.mark.slow
def test_a_receiver_gets_the_alerts_of_its_downtime(file: Path) -> None:
    receiver = Receiver()
    receiver.down()
    with Life(file, settings(receiver)) as life:
        life.open()
        for _ in range(10):
            life.ask("0.1")
        counts = life.service.alert_counts
        until(lambda: counts.of("webhook", "failed") >= 2, "attempt and failed")
        receiver.up()
        until(lambda: receiver.taken == ALL, "all delivered in their order")
        assert counts.of("webhook", "given_up") == 0
    receiver.down()


@pytest.mark.slow
def test_a_slow_receiver_delays_no_decision(file: Path) -> None:
    with Receiver(slow=3600) as receiver:
        with Life(file, settings(receiver)) as life:
            life.open()
            for _ in range(10):
                life.ask("0.1")  # each is answered within its 20 s
            until(lambda: receiver.posts, "a first try")
            for number in range(50):
                life.open(f"d{number}")
            assert len(receiver.posts) == 1
            (gauge,) = [
                family
                for family in life.service.alert_counts.collect()
                if family.name == "privacy_alerts_waiting"
            ]
            waiting = {sample.labels["to"]: sample.value for sample in gauge.samples}
            assert waiting == {"topic": 0, "webhook": len(ALL)}
        # The end does not wait for an hour either.
        assert [post.key for post in receiver.posts] == ALL[:1]


def test_a_given_up_alert_is_counted_and_not_posted_again(file: Path) -> None:
    receiver = Receiver(422)
    with Life(file, settings(receiver)) as life:
        life.open()
        life.ask("0.9")
        until(lambda: receiver.taken == ["census/1/0.8"], "the one after it is delivered")
        assert life.service.alert_counts.of("webhook", "given_up") == 1
    with Life(file, settings(receiver)) as life:
        life.ask("0.05")
        until(lambda: "census/1/0.95" in receiver.taken, "the next one")
    receiver.down()
    assert receiver.taken == ["census/1/0.8", "census/1/0.95"]


async def test_a_subscriber_gets_alerts_and_decisions(file: Path) -> None:
    life = await asyncio.to_thread(Life, file, Settings())
    alerts = life.service.alerts()
    await asyncio.to_thread(life.open)
    await asyncio.to_thread(life.ask, "0.9")
    assert [(await anext(alerts)).alert_id for _ in range(2)] == ALL[:2]
    await life.service.close()
    with pytest.raises(StopAsyncIteration):
        await anext(alerts)


def test_a_truncated_line_and_another_ledgers_file_are_ignored(file: Path) -> None:
    remembered = file.with_name(file.name + ".alerts")
    heads = {2: "sha256:a", 4: "sha256:b", 11: "sha256:c"}
    stored = RelayedDecisions(file, "sha256:1")
    for number in (2, 4):
        stored.add(RelayedDecision(number, 0, heads[number]))
    stored.close()
    remembered.write_bytes(remembered.read_bytes() + b"11 0 sha256:c")  # the end is missing
    again = RelayedDecisions(file, "sha256:1")
    assert again.newest_in(heads.get) == (4, 0, "sha256:b")
    again.add(RelayedDecision(11, 3, "sha256:c"))
    again.close()
    assert RelayedDecisions(file, "sha256:1").newest_in(heads.get) == (11, 3, "sha256:c")
    assert RelayedDecisions(file, "sha256:1").newest_in({2: "sha256:a", 4: "sha256:d"}.get) == (
        2,
        0,
        "sha256:a",
    )
    assert RelayedDecisions(file, "sha256:2").newest_in(heads.get) is None


def test_the_file_stays_small_and_has_what_is_newest(file: Path) -> None:
    stored = RelayedDecisions(file, "sha256:1")
    for number in range(2_500):
        stored.add(RelayedDecision(number, 0, f"sha256:{number}"))
    stored.close()
    stored = RelayedDecisions(file, "sha256:1")
    stored.add(RelayedDecision(2_500, 0, "sha256:2500"))
    stored.close()
    lines = file.with_name(file.name + ".alerts").read_bytes().splitlines()
    assert len(lines) == 1_001
    assert lines[-1] == b"2500 0 sha256:2500"


def test_a_lost_cursor_repeats_all_alerts_and_says_so(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Receiver() as receiver:
        with Life(file, settings(receiver)) as life:
            life.open()
            life.ask("0.6")
            life.ask("0.3")
            until(lambda: receiver.taken == ALL[:2], "delivered")
        assert "alerts_relayed_again" not in caplog.text
        file.with_name(file.name + ".alerts").unlink()
        with Life(file, settings(receiver)):
            until(lambda: receiver.taken == ALL[:2] * 2, "delivered again, in their order")
    assert receiver.posts[0].body == receiver.posts[2].body
    assert "alerts_relayed_again" in caplog.text


def test_an_older_copy_of_the_ledger_is_relayed_from_the_fork(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = file.with_name("copy")
    with Receiver() as receiver:
        options = settings(receiver, checkpoints="off")
        with Life(file, options) as life:
            life.open()
            life.ask("0.6")
            until(lambda: receiver.taken == ALL[:1], "delivered")
        with contextlib.closing(apsw.Connection(str(file))) as source:
            source.execute("VACUUM INTO ?", [str(copy)])
        with Life(file, options) as life:
            life.ask("0.25")
            until(lambda: receiver.taken == ALL[:2], "delivered")
        for suffix in ("-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        copy.replace(file)
        with Life(file, load(checkpoints="off")) as life:
            life.ask("0.3")
        with Life(file, options) as life:
            life.ask("0.06")
            until(lambda: ALL[2] in receiver.taken, "the last one")
    assert receiver.taken == [*ALL[:2], *ALL[1:3]], "0.8 is reached again, on the other log"
    assert [post.body["decision"]["number"] for post in receiver.posts] == [2, 3, 3, 4]
    assert "log_is_another" in caplog.text


def test_without_a_writable_file_alerts_are_delivered_again(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    file.with_name("ledger.db.alerts").mkdir()  # not writable, even for root
    with Receiver() as receiver:
        for count in (1, 2):
            with Life(file, settings(receiver)) as life:
                if count == 1:
                    life.open()
                    life.ask("0.5")
                until(lambda n=count: len(receiver.taken) == n, "delivered")
        assert receiver.taken == [ALL[0]] * 2


def test_a_new_file_at_an_old_path_is_another_ledger(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as receiver:
        for number in range(2):
            # Of their own: otherwise a new ledger in place of a lost one is refused.
            monkeypatch.setenv("ACCOUNTANT_CHECKPOINTS", str(tmp_path / f"checkpoints-{number}"))
            with Life(file, settings(receiver)) as life:
                life.open()
                life.ask("0.5")
                until(lambda: receiver.posts, "delivered")
            assert receiver.taken == [ALL[0]]
            for suffix in ("", "-wal", "-shm"):
                file.with_name(file.name + suffix).unlink(missing_ok=True)
            receiver.posts.clear()
            receiver.taken.clear()


def live(file: Path, options: Settings, life_number: int) -> None:
    """Decide until killed."""
    with Life(file, options) as life:
        for number in itertools.count():
            for source, body in bodies_of(f"d{life_number}-{number}"):
                life.send(source, body)


def bodies_of(name: str) -> list[tuple[str, bytes]]:
    """Return a life's requests on one dataset, two ids at their edges and one repeat."""
    life, _, number = name.removeprefix("d").partition("-")
    first = (int(life) * 100_000 + int(number)) * 20 + 1
    costs = ("0.4", "0.2", "0.2", "0.1", "0.07", "0.03")
    asked = [asking(name, BORN, first + i, epsilon=cost) for i, cost in enumerate(costs, 1)]
    edges = [first + 10, first + 11]
    asked += [asking(name, edge_time(BORN, i), i, epsilon="0.01") for i in edges]
    opened = opening(name, BORN, first, **ONE)
    return [("admin", opened), *[("requests", body) for body in [*asked, asked[-1]]]]


def was_sent(body: bytes) -> bool:
    """Return whether a body is one of those that the lives of a ledger send."""
    return any(body == each for _, each in bodies_of(json.loads(body)["dataset"]))


@pytest.mark.faults
def test_over_kills_no_threshold_is_lost_and_none_has_two_ids(file: Path) -> None:
    chance = random.Random(10)
    with Receiver(*[chance.choice([204, 204, 500]) for _ in range(40)]) as receiver:
        options = settings(receiver)
        for number in range(KILLS):
            child = forked(lambda n=number: live(file, options, n))
            time.sleep(chance.uniform(0.8, 2.5))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, "it ended by itself"
        # Nobody asks any more: all datasets are idle.
        with Life(file, options):
            expected = thresholds(file)
            until(lambda: set(receiver.taken) >= expected, "every crossing delivered")
    judged = verdict(file, file.with_name("copy"), was_sent, since(BORN))
    assert {each["outcome"] for each in judged.decisions} >= {"granted", "repeated", "expired"}
    assert len(expected) > 2 * KILLS
    assert {post.key for post in receiver.posts} == expected
    for post in receiver.posts:
        body = post.body
        assert post.key == f"{body['dataset']}/{body['generation']}/{body['threshold']}"
    # Before de-duplication: a kill can come between an answer and its being remembered.
    assert len(receiver.taken) - len(expected) <= KILLS


def test_admission_does_not_wait_for_a_thousand_alerts(file: Path) -> None:
    receiver = Receiver()
    receiver.down()
    with Life(file, settings(receiver)) as life:
        done = threading.Event()

        def ask() -> None:
            for number in range(250):
                life.open(f"d{number}")
                life.ask("1", f"d{number}")
            done.set()

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(PATIENCE_S)
        assert done.is_set()
        waiting = life.service.alert_counts.waiting["webhook"]
        until(lambda: waiting() == 1000, "all wait")
    lines = [json.loads(value) for value in read_decisions(file)]
    assert sum(len(line.get("crossed", ())) for line in lines) == 1000
