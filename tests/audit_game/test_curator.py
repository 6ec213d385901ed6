"""The game with a curator's own drawing and its own store: noise from the operating system.

No seed fixes these bits; `FALSE_ALARM` bounds how often the tests may fail by chance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET

from accountant.answers import decode_answer
from accountant.questions import CheckedQuestion, Schema, derive, parse_noise, parse_question
from accountant.questions.evaluate import evaluate
from accountant.questions.parts import Vector
from accountant.records.requests import MechanismRequest
from streams.answers import NewAnswer, SqliteAnswers
from streams.answers.granted import GrantedQuestion
from streams.curator.data_answering import DataAnswering
from streams.curator.draw_guard import DrawGuard
from streams.testing.answer_heads import MemoryAnswerHeads
from tests.audit_game.auditor import Games, Outcome, audit
from tests.audit_game.neighbours import Row, game_schema, other_units
from tests.audit_game.promises import promise_of, together
from tests.nightly import rounds

GAMES: Final = rounds(300, 600)
KEY: Final = b"key of the contributions of units"
SCHEMA: Final[Schema] = game_schema("add_remove")
OTHERS: Final = other_units("abd" * 4)
UNIT: Final[list[Row]] = [{"unit": "u", "c": "a"}] * 5
QUESTIONS: Final = ("count", "count where c = 'd'")
"""The unit is in the first of them alone, so their difference shows it if noise cancels."""
NOISE: Final = parse_noise("epsilon: 0.2")


class Rows:
    """A source of rows in memory."""

    zone_rules = UNSET

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def open(self, schema: Schema, *, interruptible: Callable[[Any], None]) -> Rows:
        return self

    def close(self) -> None:
        """Nothing is open."""

    def statistics(self, checked: CheckedQuestion, *, key: bytes) -> tuple[Vector, ...]:
        return evaluate(checked, self._rows, key=key)


def granted(question: str, grant: str, request_id: str) -> GrantedQuestion:
    checked = parse_question(question, SCHEMA)
    return GrantedQuestion(
        grant=f"sha256:{grant:0>64}",
        previous=f"sha256:{0:064x}",
        partition=0,
        number=1,
        decided_at=0,
        request=MechanismRequest(
            version=1,
            request_id=request_id,
            analyst="ana",
            dataset="census",
            question=checked.question,
            noise=NOISE,
        ),
        claim=derive(checked, NOISE).claim,
        is_reserved=False,
    )


async def read_twice(
    answering: DataAnswering, store: SqliteAnswers, question: GrantedQuestion
) -> list[int]:
    """Draw and store as two lives of a curator would, and return what a reader sees after each."""
    request, shown = question.request, list[int]()
    for _ in range(2):
        value = answering.open(question, SCHEMA, DrawGuard()).draw()
        answer = NewAnswer(
            grant=question.grant,
            partition=question.partition,
            dataset=request.dataset,
            analyst=request.analyst,
            request_id=request.request_id,
            value=value,
        )
        await store.put_first([answer])
        stored = await store.get(question.grant)
        assert stored is not None
        shown += [int(each) for each in decode_answer(stored.value).values]
    return shown


async def play(directory: Path, *, games: int) -> Games:
    """Grant both questions under one id, which was forgotten in between, on each table in turn."""
    store = SqliteAnswers.open(directory / "ledger.db.answers", MemoryAnswerHeads())
    await store.open_log(0, "0" * 32, 0)
    tables: tuple[list[Outcome], list[Outcome]] = ([], [])
    for game in range(games):
        neighbour = game % 2
        answering = DataAnswering(Rows([*OTHERS, *UNIT[: 5 * neighbour]]), KEY)
        outcome = list[int]()
        for i, question in enumerate(QUESTIONS):
            grant = granted(question, f"{game}{i}", f"id-{game}")
            outcome += await read_twice(answering, store, grant)
        tables[neighbour].append(tuple(outcome))
    await store.close()
    return Games(tables)


def test_two_lives_and_a_repeated_id_show_no_more_than_is_charged(tmp_path: Path) -> None:
    played = asyncio.run(play(tmp_path, games=GAMES))
    claims = [derive(parse_question(each, SCHEMA), NOISE).claim for each in QUESTIONS]
    finding = audit(played, together([promise_of(claim) for claim in claims]))
    assert not finding.is_leak, finding
    for first, again, other, other_again in [*played.tables[0], *played.tables[1]]:
        assert (first, other) == (again, other_again), "a grant has two answers"
