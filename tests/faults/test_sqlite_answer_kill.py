"""A ledger killed between what waits, or an ask for more, and its answer, answers it once."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.partition import hash_of
from accountant.records import Decision
from streams.client import Accountant
from tests.faults.sqlite_life import Disk, decisions_of, forked, verdict
from tests.faults.test_sqlite_kill import killed_at
from tests.nightly import rounds

pytestmark = pytest.mark.faults

KILLS: Final = rounds(12, 50)
COST: Final = Fraction("0.02")
POLICY: Final = {"filter": "basic", "epsilon": "900", "approve_above": "1e-5", "access": "anyone"}
OWNERS: Final = ("olga", "otto")
MORE: Final = {"epsilon": "800"}
Body = dict[str, Any]


def client(file: Path) -> Accountant:
    return Accountant(f"sqlite:///{file}", analyst="ana")


def outcome_of(decision: Decision) -> tuple[str, str | None]:
    """Return what a record came to, which a repeat of it must say, too."""
    first = decision.first if decision.outcome.is_repeat else None
    if first is not None:
        return str(first.outcome), first.reason
    return str(decision.outcome), decision.reason


def ask_and_answer(file: Path, notes: Path, chance: random.Random) -> None:
    """Ask, answer and send again; note each record before it is sent, until killed."""
    sent: list[Body] = []
    answered: list[str] = []
    with client(file) as ledger, notes.open("a") as noted:

        def send(body: Body) -> None:
            noted.write(json.dumps(body) + "\n")
            noted.flush()
            said = outcome_of(ledger.submit(json.dumps(body).encode()))
            noted.write(json.dumps([body["request_id"], *said]) + "\n")
            noted.flush()
            sent.append(body)

        while True:
            head = {"version": 1, "request_id": ledger.new_request_id(), "dataset": "census"}
            waiting = ledger.pending("census")
            asks = [each.ask for each in ledger.asks("census") if each.state == "open"]
            if sent and chance.random() < 0.2:
                send(chance.choice(sent))
            elif waiting and chance.random() < 0.6:
                kind, by = chance.choice(["approve", "approve", "deny"]), chance.choice(OWNERS)
                pending = chance.choice(waiting).pending
                if answered and chance.random() < 0.2:
                    pending = chance.choice(answered)
                answered.append(pending)
                send({**head, "type": kind, "by": by, "pending": pending})
            elif asks and chance.random() < 0.5:
                budget = {"type": "budget", "budget": MORE, "answers": chance.choice(asks)}
                decline = {"type": "decline", "ask": asks[0], "asker": "ana", "reason": "not now"}
                send({**head, "by": chance.choice(OWNERS), **chance.choice([budget, decline])})
            elif chance.random() < 0.3:
                wants = {"wants": "budget", "budget": MORE, "reason": "for table 4"}
                send({**head, "type": "more", "by": "ana", **wants})
            else:
                claim = {"type": "pure", "epsilon": "0.02"}
                terms = {"unit": "person", "neighbours": "add_remove"}
                send({**head, "type": "request", "analyst": "ana", "claim": claim, **terms})


def noted(notes: Path) -> tuple[dict[str, Body], dict[str, tuple[str, str | None]]]:
    """Return the records that were sent, by id, and what the ledger has said of them."""
    sent: dict[str, Body] = {}
    said: dict[str, tuple[str, str | None]] = {}
    for line in notes.read_text().splitlines():
        found = json.loads(line)
        if isinstance(found, dict):
            sent[found["request_id"]] = found
        else:
            name, outcome, reason = found
            said[name] = outcome, reason
    return sent, said


def check_log(file: Path) -> Counter[str]:
    """Check that each grant has an approval of its own, and that the totals are theirs.

    Each ask that was answered was there, and is answered once.
    """
    answered: set[str] = set()
    open_asks: set[int] = set()
    met: Counter[str] = Counter()
    waits: dict[str, str] = {}
    totals: Body = {}
    for value in decisions_of(file):
        each = json.loads(value)
        met[each.get("reason") or each["outcome"]] += 1
        totals = each.get("totals", totals)
        if each["outcome"] == "more_asked":
            open_asks.add(each["sequence"])
        if each["outcome"] in {"budget_set", "more_declined"}:
            open_asks.remove(each["answers"])
        if each["outcome"] == "pending":
            waits[hash_of(value)] = each["request"]["request_id"]
        if each["outcome"] == "granted" or each.get("reason") == "denied":
            pending = each["pending"]["request"]
            assert waits[pending] == each["request"]["request_id"]
            assert pending == each["approval"]["pending"]
            assert pending not in answered, "a request was answered twice"
            answered.add(pending)
    assert Fraction(totals["epsilon"]) == COST * met["granted"]
    return met


def test_a_ledger_killed_around_answers_gives_each_once(tmp_path: Path) -> None:
    chance, file, born = random.Random(1), tmp_path / "ledger.db", time.time_ns() // 1_000_000
    notes, met = tmp_path / "notes", Counter[str]()
    notes.touch()
    with client(file) as ledger:
        ledger.as_owner("olga").open("census", POLICY, owners=OWNERS, as_given=True)
    for _ in range(KILLS):
        nth, torn, seed = chance.randrange(1, 200), chance.random() < 0.5, chance.random()

        def run(nth: int = nth, torn: bool = torn, seed: float = seed) -> None:
            with Disk() as disk:
                killed_at(disk, nth, torn)
                ask_and_answer(file, notes, random.Random(seed))

        _, status = os.waitpid(forked(run), 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, "it ended by itself"
        sent, said = noted(notes)
        with client(file) as ledger:
            for name, body in list(sent.items())[-20:]:
                again = outcome_of(ledger.submit(json.dumps(body).encode()))
                before = said.get(name)
                # Of a request that waited, an answer may have come since; nothing else changes.
                assert before in (None, again) or before == ("pending", None), body
                if before is not None:
                    assert again != ("expired", None), "an answered record is lost"
            for each in ledger.pending("census")[40:]:
                ledger.as_owner("olga").deny("census", each.pending)
        met = check_log(file)
    several = ("granted", "denied", "repeated", "already_answered", "budget_set", "more_declined")
    assert min(met[each] for each in several) > 0, met
    now_ms = time.time_ns() // 1_000_000
    verdict(file, tmp_path / "copy", lambda _: True, (born, now_ms + 60_000))
