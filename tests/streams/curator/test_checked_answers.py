"""A server shows no answer that no run of its question can show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import apsw
import pytest
from msgspec.structs import replace

from accountant.answers import NoisyAnswer, decode_answer, encode_answer
from accountant.claims import Pure
from streams.curator.checked_answers import AnswerDiffers, CheckedAnswers
from streams.embedded.service import EmbeddedService
from streams.service.ledger_service import LedgerService
from tests.streams.curator.curated import CuratedLedger, opened, question


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[CuratedLedger]:
    made = CuratedLedger(tmp_path)
    async with made.open():
        assert (await made.send(opened("census"), "admin"))["outcome"] == "opened"
        yield made


async def two_answers(ledger: CuratedLedger) -> list[str]:
    async with ledger.curated():
        grants = [await ledger.ask(question(epsilon=each)) for each in ("1", "2")]
        for each in grants:
            assert (await ledger.answer(each)).outcome == "answered"
    return grants


def forge(ledger: CuratedLedger, grant: str, change: Callable[[NoisyAnswer], NoisyAnswer]) -> None:
    db = apsw.Connection(str(ledger.store_path))
    ((value,),) = db.execute("SELECT value FROM answers WHERE grant_hash = ?", (grant,))
    forged = encode_answer(change(decode_answer(value)))
    db.execute("UPDATE answers SET value = ? WHERE grant_hash = ?", (forged, grant))
    db.close()


def less_noise(answer: NoisyAnswer) -> NoisyAnswer:
    return replace(answer, statistics=(replace(answer.statistics[0], scale="1/9"),))


async def test_a_forged_answer_is_shown_to_nobody(ledger: CuratedLedger) -> None:
    forged, sound = await two_answers(ledger)
    checked = CheckedAnswers(ledger.store, ledger.service)
    right = await checked.get(forged)
    assert right is not None
    assert len(await checked.page("census", after=0, limit=10)) == 2
    assert checked.trouble is None
    forge(ledger, forged, less_noise)  # after it was shown: what was found once is not believed
    with pytest.raises(AnswerDiffers, match=r"statistics\[0\].scale") as refused:
        await checked.get(forged)
    assert "accountant audit" in str(refused.value)
    with pytest.raises(AnswerDiffers):
        await checked.find("census", "ana", right.request_id)
    for limit in 1, 10:
        assert [e.grant for e in await checked.page("census", after=0, limit=limit)] == [sound]
    assert checked.trouble is not None
    assert "1 stored answers are not shown" in checked.trouble
    forge(ledger, forged, lambda _: decode_answer(right.value))
    assert await checked.get(forged) == right
    assert checked.trouble is None


async def test_an_answer_to_another_claim_than_its_grant_is_not_shown(
    ledger: CuratedLedger,
) -> None:
    """It agrees with itself: only the decision tells."""
    small, large = await two_answers(ledger)
    other = await ledger.answer(large)

    def dearer(answer: NoisyAnswer) -> NoisyAnswer:
        return replace(other, request_id=answer.request_id, grant=answer.grant)

    forge(ledger, small, dearer)
    with pytest.raises(AnswerDiffers, match="noise"):
        await CheckedAnswers(ledger.store, ledger.service).get(small)


async def test_a_value_that_a_run_could_show_is_not_shown_in_another_ones_place(
    ledger: CuratedLedger,
) -> None:
    forged, sound = await two_answers(ledger)
    checked = CheckedAnswers(ledger.store, ledger.service, ledger.store.is_linked)
    for each in (forged, sound):
        assert await checked.get(each) is not None

    def one_more(answer: NoisyAnswer) -> NoisyAnswer:
        moved = {
            name: tuple([str(int(each or "0") + 1) for each in getattr(answer, name)])
            for name in ("values", "low", "high")
        }
        return replace(answer, **moved)  # type: ignore[arg-type]

    forge(ledger, forged, one_more)
    # By itself it is sound: only the chain of answers tells.
    assert await CheckedAnswers(ledger.store, ledger.service).get(forged) is not None
    with pytest.raises(AnswerDiffers, match="values"):
        await checked.get(forged)
    assert await checked.get(sound) is not None


class Forgetful:
    """The part of a service that finds answers' grants, after it has forgotten their ids."""

    def __init__(self, service: EmbeddedService) -> None:
        self.dataset = service.dataset

    async def find(self, dataset: str, caller: str, request_id: str) -> None: ...


async def test_an_answer_whose_id_is_forgotten_is_compared_with_its_own_claim(
    ledger: CuratedLedger,
) -> None:
    grant, _ = await two_answers(ledger)
    checked = CheckedAnswers(ledger.store, cast("LedgerService", Forgetful(ledger.service)))
    assert await checked.get(grant) is not None
    forge(ledger, grant, lambda answer: replace(answer, claim=Pure(epsilon="2")))
    with pytest.raises(AnswerDiffers, match="claim"):
        await checked.get(grant)


@pytest.mark.parametrize("column", ["dataset", "analyst", "request_id"])
async def test_an_answer_that_another_request_would_find_is_not_shown(
    ledger: CuratedLedger, column: str
) -> None:
    grant, _ = await two_answers(ledger)
    db = apsw.Connection(str(ledger.store_path))
    db.execute(f"UPDATE answers SET {column} = 'another' WHERE grant_hash = ?", (grant,))
    db.close()
    with pytest.raises(AnswerDiffers, match=column):
        await CheckedAnswers(ledger.store, ledger.service).get(grant)
