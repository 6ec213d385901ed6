"""Answers from real data: the derivation, the statistics, and noise from the operating system."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import UnsetType

from accountant.answers import (
    Granted,
    answer_of,
    decode_answer,
    encode_answer,
    failed_answer,
    run_question,
)
from accountant.questions import (
    CheckedQuestion,
    Derivation,
    Schema,
    as_claimed,
    check_question,
    derive,
)
from accountant.questions.parts import Vector
from streams.answers.granted import GrantedQuestion
from streams.curator.answering import ClaimDiffers, OpenQuestion
from streams.curator.draw_guard import DrawGuard


class Source(Protocol):
    """A source that is open: `streams.sources.data_sources.OpenSource`."""

    @property
    def zone_rules(self) -> str | UnsetType:
        """The version of the rules of the schema's zone, UNSET where it has none."""
        ...

    def statistics(self, checked: CheckedQuestion, *, key: bytes) -> tuple[Vector, ...]:
        """Return the exact statistics of a question, in the calling thread; close the source."""
        ...

    def close(self) -> None:
        """Close the source, if it is open. Never raises."""
        ...


class Sources(Protocol):
    """Where the data are: `streams.sources.DataSources`."""

    def open(self, schema: Schema, *, interruptible: Callable[[Any], None]) -> Source:
        """Open the source of a schema, in the calling thread.

        Args:
            interruptible: gets what ends its reading.
        """
        ...


@dataclass(frozen=True, slots=True)
class _OpenQuestion:
    """An `OpenQuestion`."""

    granted: Granted
    checked: CheckedQuestion
    derivation: Derivation
    source: Source
    key: bytes
    guard: DrawGuard

    def draw(self) -> bytes:
        """As `OpenQuestion.draw`."""
        statistics = self.source.statistics(self.checked, key=self.key)
        # Nothing is read from here on.
        self.guard.draw()
        stop, bits = self.granted.stop, secrets.randbits
        result = run_question(self.checked, self.derivation, statistics, bits, stop)
        rules = self.source.zone_rules
        return encode_answer(answer_of(self.granted, result, zone_rules=rules))

    def close(self) -> None:
        """As `OpenQuestion.close`."""
        self.source.close()


class DataAnswering:
    """An `Answering` for data that this machine can read.

    Args:
        key: of the hash that chooses which rows of a unit enter a statistic.
    """

    def __init__(self, sources: Sources, key: bytes) -> None:
        self._sources = sources
        self._key = key

    def open(self, question: GrantedQuestion, schema: Schema, guard: DrawGuard) -> OpenQuestion:
        """As `Answering.open`."""
        granted = question.content
        # The very derivation of the ledger. Its claim is charged, so no other noise may be drawn.
        checked = check_question(granted.question, schema)
        derivation = derive(checked, as_claimed(granted.noise, question.claim))
        if derivation.claim != question.claim:
            raise ClaimDiffers
        source = self._sources.open(schema, interruptible=guard.read_by)
        return _OpenQuestion(granted, checked, derivation, source, self._key, guard)

    def failed(self, question: GrantedQuestion) -> bytes:
        """As `Answering.failed`; it needs neither schema nor data."""
        return encode_answer(failed_answer(question.content))

    def is_failed(self, answer: bytes) -> bool:
        """As `Answering.is_failed`."""
        return decode_answer(answer).outcome == "failed"

    def shown(self, answer: bytes) -> str | None:
        """As `Answering.shown`."""
        return decode_answer(answer).shown
