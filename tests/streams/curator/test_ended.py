"""A curator that ends by an error: the server is ready, and /readyz has a note."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from streams.answers import NewAnswer, SqliteAnswers, StoredAnswer
from streams.curator.curator import Curator, CuratorOptions
from streams.curator.start import run_curator
from streams.errors import Refused
from streams.server.app import create_app
from streams.settings import Settings
from tests.streams.curator.curated import CuratedLedger, opened, question


class TakenOver(SqliteAnswers):
    """A store whose writes another curator has fenced."""

    async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        raise Refused("another curator has started")


class Broken(SqliteAnswers):
    """A store with a defect."""

    async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        raise AssertionError("the secret cell 4711")


async def readyz(ledger: CuratedLedger) -> httpx.Response:
    app = create_app(ledger.service, Settings(port=0), answers=ledger.store)
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return await http.get("/readyz")


@pytest.mark.parametrize(
    ("store_class", "why"),
    [(TakenOver, "another curator has started"), (Broken, "report this defect, AssertionError")],
)
async def test_a_curator_that_has_ended_is_a_note_of_readyz(
    tmp_path: Path, store_class: type[SqliteAnswers], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        await ledger.store.close()
        ledger.store = store_class.open(ledger.store_path, ledger.heads)
        options = CuratorOptions(tick=0.05)
        curator = Curator(
            ledger.service, ledger.store, ledger.answering, options, access=ledger.access
        )
        await curator.open()
        await ledger.ask(question())
        before: dict[str, Any] = (await readyz(ledger)).json()
        await run_curator(curator, ledger.store)
        after = await readyz(ledger)
    assert before == {"ready": True, "reasons": []}
    note = f"questions get no answers: {why}. Once that is done, start the server again"
    assert after.json() == before | {"notes": [note]}
    assert after.status_code == 200
    assert "curator_ended" in caplog.text
    assert "4711" not in caplog.text
