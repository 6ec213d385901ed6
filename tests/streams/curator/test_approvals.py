"""A question above `approve_above`: it waits, and the approval's grant is what gets the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.client import Accountant, NotGranted
from streams.clock import SystemClock
from streams.settings import Settings
from tests.faults.ledger import new_id, until
from tests.streams.curator.curated import CuratedLedger, opened, question
from tests.streams.gateway.asking import PEOPLE, SCHEMA, data_settings
from tests.streams.gateway.local_server import LocalServer


def answer(kind: str, waiting: dict[str, Any]) -> bytes:
    body = {"version": 1, "type": kind, "request_id": new_id(), "dataset": "census"}
    return json.dumps(body | {"by": "owner", "pending": waiting["hash"]}).encode()


async def test_a_question_that_waits_is_answered_once_it_is_approved(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census", approve_above="0.002"), "admin")
        async with ledger.curated() as curator:
            bodies = [question(epsilon="5") for _ in range(2)]
            waiting, denied = [await ledger.send(body) for body in bodies]
            assert (waiting["outcome"], denied["outcome"]) == ("pending", "pending")
            refused = await ledger.send(answer("deny", denied), "admin")
            assert refused["reason"] == "denied"
            small = await ledger.answer(await ledger.ask(question(epsilon="1")))
            assert ledger.answering.draws == [small.grant], "what waits is not drawn"
            granted = await ledger.send(answer("approve", waiting), "admin")
            assert granted["outcome"] == "granted"
            found = await ledger.answer(granted["hash"])
            assert found.request_id == json.loads(bodies[0])["request_id"]
            assert ledger.answering.draws == [small.grant, granted["hash"]]
            again = await ledger.send(bodies[0])
            assert (again["outcome"], again["first"]["hash"]) == ("repeated", granted["hash"])
            stored = await ledger.store.find("census", "ana", found.request_id)
            assert stored is not None
            assert stored.value == (await ledger.stored(granted["hash"])).value
            await until(lambda: curator.counts.answered == 2, "both are counted")
    async with ledger.open(), ledger.curated():  # what was approved is not drawn again
        await ledger.answer(await ledger.ask(question(epsilon="1")))
        assert ledger.answering.draws.count(granted["hash"]) == 1


async def test_an_approval_while_no_curator_runs_is_answered_by_the_next(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census", approve_above="0.002"), "admin")
        waiting = await ledger.send(question(epsilon="5"))
        async with ledger.curated():
            await ledger.answer(await ledger.ask(question(epsilon="1")))
        granted = await ledger.send(answer("approve", waiting), "admin")
    async with ledger.open(), ledger.curated():
        assert (await ledger.answer(granted["hash"])).outcome == "answered"


def test_a_rerun_of_the_program_finds_the_answer_after_the_approval(tmp_path: Path) -> None:
    settings = Settings(port=0, **data_settings(tmp_path))
    with (
        LocalServer(tmp_path / "l.db", clock := SystemClock(), settings) as server,
        Accountant(server.url, analyst="ana", clock=clock) as ledger,
    ):
        owner = ledger.as_owner("olga")
        policy = {"filter": "basic", "epsilon": "10", "approve_above": "0.1"}
        owner.open("survey", policy, schema=SCHEMA, as_given=True)

        def program() -> Any:
            return ledger.count("survey", epsilon="5", once="table 4", store=tmp_path / "r.db")

        for _ in range(2):
            with pytest.raises(NotGranted) as waits:
                program()
            assert waits.value.reply.waits
        (asked,) = ledger.pending("survey")
        assert asked.asked == "count (epsilon: 5)"
        owner.approve("survey", asked.pending)
        first = program()
        assert abs(first.value - PEOPLE) < 30
        assert program().value == first.value
        assert ledger.dataset("survey").totals["epsilon"] == "5"
        assert len(ledger.answers("survey")) == 1
