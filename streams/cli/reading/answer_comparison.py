"""Compares a store of answers with a log while the log is audited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from accountant.answers import NoisyAnswer, decode_answer
from accountant.answers.compare import (
    AnswerDifference,
    difference_from_grant,
    difference_from_settlement,
)
from accountant.records import Begin, ReservationStep, Settle, decode_decision
from accountant.records.outcomes import Outcome
from streams.answers import StoredAnswer
from streams.answers.answer_file import AnswerFile
from streams.cli.reading.log_reader import Part
from streams.curator.granted import GrantedQuestion, granted_question

# The encoder writes it so into each decision about a reservation.
_MARK: Final = b'"reservation":'
_STEPS: Final = frozenset({Outcome.BEGUN, Outcome.SETTLED, Outcome.VOIDED})
_decode_step = msgspec.json.Decoder(ReservationStep).decode


class AnswerDisagreement(msgspec.Struct, frozen=True, kw_only=True):
    """The first answer that disagrees with the log.

    Attributes:
        partition, partition_sequence: of its grant, or of the settlement that names another level;
            the second is None where the log has no such grant.
        grant: the hash of the grant, None where the store is another ledger's.
        what, expected, found: as of `AnswerDifference`.
    """

    partition: int
    partition_sequence: int | None
    grant: str | None
    what: str
    expected: str
    found: str


class AnswersReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing answers with a log, up to the first disagreement.

    Attributes:
        store: the file of the answers.
        compared: how many answers are those of their grants.
        waiting: how many grants with a question have no answer.
        archived: how many answers have no grant in the log, whose beginning is in an archive that
            was not given.
        lost: how many sessions were settled by the answers of an earlier store, which is lost.
    """

    ok: bool
    store: str
    compared: int
    waiting: int
    archived: int
    lost: int
    first_disagreement: AnswerDisagreement | None


@dataclass(slots=True)
class _Session:
    question: GrantedQuestion
    has_begun: bool = False


class AnswerComparison:
    """Compares answers with the decisions of a log that passes by.

    A curator may be at work. It stores an answer after its grant, and before the settlement. So
    each answer that was there when this was made has its grant in a log that is opened later.

    Its memory grows with the answers, by a pair of numbers, and with the open sessions.
    """

    def __init__(self, store: AnswerFile) -> None:
        self._store = store
        self._ends = store.ends()
        self._logs = store.logs()
        self._sessions: dict[str, _Session] = {}
        self._granted = set[tuple[int, int]]()  # places of the answers whose grants passed by
        self._compared = self._waiting = self._lost = 0
        self._has_archive = False
        self._wrong: AnswerDisagreement | None = None

    def watch(self, part: Part) -> Part:
        """Return a partition whose decisions are compared as they are read."""
        self._has_archive |= part.sealed is not None
        return part._replace(values=self._watched(part.number, part.values))

    def report(self, ledgers: dict[int, str | None]) -> AnswersReport:
        """Return the result, after every partition was read to its end.

        Args:
            ledgers: the id of the ledger by each partition of the log.
        """
        for number, bound in self._logs.items():
            if bound.ledger != ledgers.get(number):  # so whatever else differs says nothing
                other = AnswerDifference("ledger", str(ledgers.get(number)), bound.ledger)
                self._disagree(number, None, None, other)
        for session in self._sessions.values():
            self._take_end(session)
        self._sessions.clear()
        archived = self._without_grant()
        return AnswersReport(
            ok=self._wrong is None,
            store=str(self._store.path),
            compared=self._compared,
            waiting=self._waiting,
            archived=archived,
            lost=self._lost,
            first_disagreement=self._wrong,
        )

    def _watched(self, partition: int, values: Iterable[bytes]) -> Iterator[bytes]:
        for value in values:
            if self._wrong is None:
                self._take(partition, value)
            yield value

    def _take(self, partition: int, value: bytes) -> None:
        try:
            question = granted_question(partition, value)
            step = None if question is not None else _step(value)
        except Exception:
            return  # the audit names a record that cannot be read
        if question is not None and question.is_reserved:
            self._sessions[question.grant] = _Session(question)
        elif question is not None:
            self._answer(question)
        elif step is not None:
            self._take_step(*step)

    def _take_step(self, number: int, step: ReservationStep) -> None:
        session = self._sessions.get(step.grant)
        if session is None:
            return  # no question's
        if isinstance(step, Begin):
            session.has_begun = True
            return
        del self._sessions[step.grant]
        if isinstance(step, Settle):
            self._take_settlement(session, number, step.shown or None)
        else:
            self._take_end(session)

    def _take_settlement(self, session: _Session, number: int, shown: str | None) -> None:
        question = session.question
        found = self._answer(question)
        if self._wrong is not None:
            return
        answer = None if found is None else decode_answer(found.value)
        difference = difference_from_settlement(answer, shown)
        if difference is None:
            return
        bound = self._logs.get(question.partition)
        if (answer is None or answer.outcome == "failed") and (
            bound is None or question.number < bound.begins
        ):
            self._lost += 1
        else:
            self._disagree(question.partition, number, question.grant, difference)

    def _take_end(self, session: _Session) -> None:
        """Take a session that was voided, or that the log has not settled."""
        question = session.question
        found = self._answer(question)
        if found is None or self._wrong is not None or session.has_begun:
            return  # what has begun stays charged, and cannot be voided
        is_old = found.number <= self._ends.get(found.partition, 0)
        if is_old and decode_answer(found.value).outcome != "failed":
            difference = AnswerDifference("outcome", "failed: it never began", "answered")
            self._disagree(question.partition, question.number, question.grant, difference)

    def _answer(self, question: GrantedQuestion) -> StoredAnswer | None:
        """Return the answer of a grant, after comparing both; None without one."""
        if self._wrong is not None:
            return None
        stored = self._store.get(question.grant)
        if stored is None:
            self._waiting += 1
            return None
        self._granted.add((stored.partition, stored.number))
        difference = _difference(question, stored)
        if difference is None:
            self._compared += 1
        else:
            self._disagree(question.partition, question.number, question.grant, difference)
        return stored

    def _without_grant(self) -> int:
        """Return how many answers have no grant, if their grants may be in an archive."""
        archived = 0
        if self._wrong is not None:
            return archived
        for partition, number, grant in self._store.places():
            if number > self._ends.get(partition, 0) or (partition, number) in self._granted:
                continue
            if not self._has_archive:
                found = "an answer that no question in the log was granted"
                missing = AnswerDifference("grant", "a grant in the log", found)
                self._disagree(partition, None, grant, missing)
                break
            archived += 1
        return archived

    def _disagree(
        self, partition: int, number: int | None, grant: str | None, difference: AnswerDifference
    ) -> None:
        self._wrong = AnswerDisagreement(
            partition=partition, partition_sequence=number, grant=grant, **difference._asdict()
        )


def _step(value: bytes) -> tuple[int, ReservationStep] | None:
    """Return a step of a reservation that was granted, with its number; None of others."""
    if _MARK not in value:
        return None
    decision = decode_decision(value)
    if decision.outcome not in _STEPS:
        return None
    return decision.partition_sequence, _decode_step(bytes(decision.request))


def _difference(question: GrantedQuestion, stored: StoredAnswer) -> AnswerDifference | None:
    granted = question.content
    for field in ("partition", "dataset", "request_id", "analyst"):  # by which answers are found
        due = question.partition if field == "partition" else getattr(granted, field)
        if getattr(stored, field) != due:
            return AnswerDifference(field, str(due), str(getattr(stored, field)))
    try:
        answer: NoisyAnswer = decode_answer(stored.value)
    except ValueError as error:
        return AnswerDifference("value", "an answer", str(error))
    return difference_from_grant(granted, answer)
