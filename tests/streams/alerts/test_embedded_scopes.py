"""Alerts of limits of an embedded ledger: published, posted, and posted again after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from accountant.views.datasets import Alert
from streams.settings import Settings
from tests.streams.alerts.receiver import Receiver, until
from tests.streams.alerts.test_embedded import BORN, Life, settings
from tests.streams.bodies import asking, enrolment, limiting

TEAM = "red:1"
RED = ["census/1/level/team/red:1/1/0.5", "census/1/level/team/red:1/1/0.8"]
ANA = ["census/1/level/each/red:1/ana/1/0.5", "census/1/level/each/red:1/ana/1/0.8"]


class LimitedLedger(Life):
    """A ledger whose `census` gives a tenth to a team, and a twentieth to each of its analysts."""

    def begin(self) -> None:
        self.open(filter="basic", epsilon="10", alert_at=["0.5", "0.8"])
        for name in ("ana", "ben"):
            made = enrolment("census", BORN, next(self._numbers), name, "analyst", team=TEAM)
            self.send("admin", made)
        self.limit("team", part="0.1")
        self.limit("each", part="0.05")

    def limit(self, scope: str, **more: Any) -> None:
        body = limiting("census", BORN, next(self._numbers), scope, TEAM, **more)
        self.send("admin", body)

    def grant(self, epsilon: str, analyst: str = "ana") -> None:
        made = asking("census", BORN, next(self._numbers), epsilon=epsilon, analyst=analyst)
        self.send("requests", made)


def test_thresholds_of_limits_are_posted_once_over_a_restart(file: Path) -> None:
    with Receiver() as receiver, LimitedLedger(file, settings(receiver)) as life:
        life.begin()
        life.grant("0.4")
        life.grant("0.4", "ben")
        until(lambda: len(receiver.taken) == 6, "all delivered")
        expected = {*RED, *ANA, *(name.replace("ana", "ben") for name in ANA)}
        assert set(receiver.taken) == expected
        (post,) = [post for post in receiver.posts if post.key == ANA[1]]
        assert post.body == {
            "alert_id": ANA[1],
            "dataset": "census",
            "generation": 1,
            "threshold": "0.8",
            "spent_ratio": post.body["spent_ratio"],
            "decided_at": post.body["decided_at"],
            "scope": "each",
            "name": TEAM,
            "analyst": "ana",
            "team": TEAM,
            "version": 1,
            "decision": {"partition": 0, "number": 6, "branch": 0},
        }
        assert 0.8 <= post.body["spent_ratio"] < 0.8 + 1e-9
    with Receiver() as other, LimitedLedger(file, settings(other)) as life:
        life.limit("team", part="0.11")
        life.grant("0.1", "ben")
        until(lambda: other.taken, "the limit's next version has crossed one")
    assert other.taken == ["census/1/level/team/red:1/2/0.8"], (
        "and what was delivered is remembered"
    )


def test_a_start_posts_undelivered_alerts_of_limits(file: Path) -> None:
    receiver = Receiver()
    receiver.down()
    with LimitedLedger(file, settings(receiver)) as life:
        life.begin()
        life.grant("0.45")
        life.grant("0.1", "ben")
    with LimitedLedger(file, settings(receiver)) as life:
        receiver.up()
        life.grant("0.26", "ben")
        until(lambda: RED[1] in receiver.taken, "the last one")
    receiver.down()
    assert receiver.taken[:4] == [*ANA, RED[0], RED[1]]


async def test_a_subscriber_sees_alerts_of_limits(file: Path) -> None:
    life = await asyncio.to_thread(LimitedLedger, file, Settings())
    alerts = life.service.alerts()
    await asyncio.to_thread(life.begin)
    await asyncio.to_thread(life.grant, "0.5")
    found: list[Alert] = [await anext(alerts) for _ in range(3)]
    assert [alert.alert_id for alert in found] == [RED[0], *ANA]
    assert [alert.spent_ratio > 0.9 for alert in found] == [False, True, True]
    await life.service.close()
