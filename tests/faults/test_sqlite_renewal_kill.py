"""A ledger killed around renewals charges each generation once, and lets nobody ask too early."""

from __future__ import annotations

import os
import random
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from accountant.views.datasets import DatasetView
from streams.client import Accountant
from tests.faults.sqlite_life import Disk, forked, verdict
from tests.faults.test_sqlite_kill import killed_at
from tests.nightly import rounds

pytestmark = pytest.mark.faults

KILLS: Final = rounds(12, 50)
POLICY: Final = {"filter": "basic", "epsilon": "0.5", "delta": "1e-6", "access": "anyone"}
LIFETIME: Final = {"epsilon": "20", "delta": "1e-4"}


def client(file: Path) -> Accountant:
    return Accountant(f"sqlite:///{file}", analyst="ana")


def begin(file: Path) -> None:
    with client(file) as ledger:
        owner = ledger.as_owner("olga")
        owner.open("g::1", POLICY, lifetime=LIFETIME, as_given=True)
        owner.set_member("g::1", "ana", roles=["analyst"], team="red")
        owner.set_limit("g::1", "team", "red", part="0.9")
        owner.set_limit("g::1", "analyst", "ana", part="0.5")


def latest(ledger: Accountant) -> DatasetView:
    """Return the latest generation, after a look at all of them."""
    views = sorted(ledger.datasets(), key=lambda view: view.generation)
    assert [view.generation for view in views] == [*range(1, len(views) + 1)]
    for view, after in pairwise(views):
        assert (view.closed, view.renewed_as) == (True, after.dataset)
    assert (views[-1].closed, views[-1].renewed_as) == (False, "")
    spent = views[-1].lifetime
    assert spent
    assert float(spent.spent["epsilon"]) == 0.5 * len(views)
    return views[-1]


def is_complete(ledger: Accountant, name: str) -> bool:
    limits = {(each.scope, each.name, each.part) for each in ledger.limits(name)}
    members = {each.member for each in ledger.members(name)}
    wanted = {("team", "red", "0.9"), ("analyst", "ana", "0.5")}
    return limits >= wanted and members == {"ana", "olga"}


def renew(file: Path) -> None:
    """Complete the latest generation, and renew it; until killed."""
    with client(file) as ledger:
        owner = ledger.as_owner("olga")
        while True:
            now = latest(ledger)
            if now.generation > 1:
                owner.renew(f"g::{now.generation - 1}", now.dataset)
            ledger.ask(now.dataset, "pure:0.01")
            owner.renew(now.dataset, f"g::{now.generation + 1}")


def test_a_ledger_killed_around_renewals_keeps_its_lifetime(tmp_path: Path) -> None:
    chance, file, born = random.Random(1), tmp_path / "ledger.db", time.time_ns() // 1_000_000
    begin(file)
    cut_off = 0
    for _ in range(KILLS):
        nth, torn = chance.randrange(1, 90), chance.random() < 0.5

        def run(nth: int = nth, torn: bool = torn) -> None:
            with Disk() as disk:
                killed_at(disk, nth, torn)
                renew(file)

        _, status = os.waitpid(forked(run), 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, "it ended by itself"
        with client(file) as ledger:
            now = latest(ledger)
            asked = ledger.ask(now.dataset, "pure:0.001")
            complete = is_complete(ledger, now.dataset)
            cut_off += not complete
            # Nothing is granted before limits and members have followed.
            assert complete or not asked.granted, now.dataset
            if now.generation > 1:
                ledger.as_owner("olga").renew(f"g::{now.generation - 1}", now.dataset)
            assert is_complete(ledger, now.dataset)
            assert ledger.ask(now.dataset, "pure:0.001").granted
    assert cut_off
    now_ms = time.time_ns() // 1_000_000
    verdict(file, tmp_path / "copy", lambda _: True, (born, now_ms + 60_000))
