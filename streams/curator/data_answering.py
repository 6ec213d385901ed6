"""Answers from real data: the derivation, the statistics, and noise from the operating system."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Protocol

from accountant.answers import (
    answer_of,
    decode_answer,
    encode_answer,
    failed_answer,
    run_question,
)
from accountant.questions import CheckedQuestion, Schema, check_question, derive
from accountant.questions.evaluate import Vector
from streams.answers.granted import GrantedQuestion
from streams.curator.answering import ClaimDiffers
from streams.curator.draw_guard import DrawGuard


class Sources(Protocol):
    """Where the data are: `streams.sources.DataSources`."""

    def statistics(
        self, checked: CheckedQuestion, *, key: bytes, interruptible: Callable[[Any], None]
    ) -> tuple[Vector, ...]:
        """Return the exact statistics of a question, in the calling thread.

        Args:
            interruptible: gets the connection that reads.
        """
        ...


class DataAnswering:
    """An `Answering` for data that this machine can read.

    Args:
        key: of the hash that chooses which rows of a unit enter a statistic.
    """

    def __init__(self, sources: Sources, key: bytes) -> None:
        self._sources = sources
        self._key = key

    def draw(self, question: GrantedQuestion, schema: Schema, guard: DrawGuard) -> bytes:
        """As `Answering.draw`."""
        granted = question.content
        # The very derivation of the ledger. Its claim is charged, so no other noise may be drawn.
        checked = check_question(granted.question, schema)
        derivation = derive(checked, granted.noise)
        if derivation.claim != question.claim:
            raise ClaimDiffers
        statistics = self._sources.statistics(checked, key=self._key, interruptible=guard.read_by)
        guard.draw()
        result = run_question(checked, derivation, statistics, secrets.randbits, granted.stop)
        return encode_answer(answer_of(granted, result))

    def failed(self, question: GrantedQuestion) -> bytes:
        """As `Answering.failed`; it needs neither schema nor data."""
        return encode_answer(failed_answer(question.content))

    def is_failed(self, answer: bytes) -> bool:
        """As `Answering.is_failed`."""
        return decode_answer(answer).outcome == "failed"

    def shown(self, answer: bytes) -> str | None:
        """As `Answering.shown`."""
        return decode_answer(answer).shown
