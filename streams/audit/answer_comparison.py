"""Compares a store of answers with a log while the log is audited."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from accountant.answers import NoisyAnswer, decode_answer
from accountant.answers.compare import (
    AnswerDifference,
    difference_from_grant,
    difference_from_settlement,
)
from accountant.answers.rebuild import difference_from_run
from accountant.questions.schema import decode_schema
from accountant.records import DECODE_ERRORS, ReservationStep, decode_decision, decode_snapshot
from accountant.records.dataset_facts import NO_FACTS, facts_after
from accountant.records.parts import by_dataset
from accountant.records.requests import Begin, Settle
from streams.answers import StoredAnswer
from streams.answers.answer_file import AnswerFile
from streams.answers.chain import ChainEnd, difference_from_heads, first_head
from streams.answers.granted import GrantedQuestion, granted_question
from streams.answers.heads import StoredHead
from streams.errors import Refused
from streams.evidence.answers_head import AnswersHead, open_head
from streams.evidence.keys import Verifier
from streams.evidence.signed_checkpoint import CheckpointInvalid
from streams.log.decision_log import Part

# The encoder writes it so into each decision about a reservation.
_MARK: Final = b'"reservation":'
_SCHEMA: Final = b'"schema":'
_NAMED: Final = 100
_CHAIN: Final = "chain"
_HEAD: Final = "head"
_SIGNED: Final = "signed head"
_OF_THE_STORE: Final = frozenset({_CHAIN, _HEAD, _SIGNED})
_UNBROKEN: Final = "an unbroken chain of answers"
_decode_step = msgspec.json.Decoder(ReservationStep).decode


class AnswerDisagreement(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that disagrees with the log, or that no run of its question can show.

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
    """The result of comparing answers with a log.

    Attributes:
        store: the file of the answers.
        compared: how many answers are those of their grants.
        waiting: how many grants with a question have no answer.
        archived: how many answers have no grant in the log, whose beginning is in an archive that
            was not given.
        lost: how many sessions were settled by the answers of an earlier store, which is lost.
        disagreeing: how many answers disagree.
        disagreements: the first 100 of them.
        ledger_head: number of the answer that the ledger's own file names as the last, None where
            it was not compared. Whoever can write both files can forge both.
        signed_heads: how many signed heads were compared.
        last_signed: number of the last answer that one of them names, None without any.
        given_up: how many of them are of an earlier beginning of the answers.
    """

    ok: bool
    store: str
    compared: int
    waiting: int
    archived: int
    lost: int
    disagreeing: int
    disagreements: tuple[AnswerDisagreement, ...]
    first_disagreement: AnswerDisagreement | None
    ledger_head: int | None = None
    signed_heads: int = 0
    last_signed: int | None = None
    given_up: int = 0

    @property
    def in_doubt(self) -> bool:
        """Whether no answer disagrees, but they may not be those that were stored last."""
        return not self.ok and all(each.what in _OF_THE_STORE for each in self.disagreements)


def broken_answers(store: str, partition: int, why: str) -> AnswersReport:
    """Return the report on answers of which none was compared, since their chain is broken."""
    broken = AnswerDisagreement(
        partition=partition,
        partition_sequence=None,
        grant=None,
        what=_CHAIN,
        expected=_UNBROKEN,
        found=why,
    )
    return AnswersReport(
        ok=False,
        store=store,
        compared=0,
        waiting=0,
        archived=0,
        lost=0,
        disagreeing=1,
        disagreements=(broken,),
        first_disagreement=broken,
    )


@dataclass(slots=True)
class _Session:
    question: GrantedQuestion
    has_begun: bool = False


class AnswerComparison:
    """Compares answers with the decisions of a log that passes by.

    A curator may be at work. It stores an answer after its grant, and before the settlement. So
    each answer that was there when this was made has its grant in a log that is opened later.

    Its memory grows with the answers, by a pair of numbers and a hash, and with the open sessions.

    Args:
        read_head: reads the head of the answers in the ledger's own file; None where there is none.
    """

    def __init__(
        self, store: AnswerFile, read_head: Callable[[], StoredHead | None] | None = None
    ) -> None:
        self._store = store
        self._read_head = read_head
        self._head = None if read_head is None else read_head()
        self._signed: list[AnswersHead] = []
        self._ends = store.ends()
        self._logs = store.logs()
        self._schemas: dict[str, bytes] = {}
        self._sessions: dict[str, _Session] = {}
        self._granted = set[tuple[int, int]]()  # places of the answers whose grants passed by
        self._compared = self._waiting = self._lost = self._disagreeing = 0
        self._has_archive = False
        self._wrong: list[AnswerDisagreement] = []

    def watch(self, part: Part) -> Part:
        """Return a partition whose decisions are compared as they are read."""
        if part.sealed is not None:
            self._has_archive = True
            with contextlib.suppress(*DECODE_ERRORS):  # the audit names a row that is damaged
                self._take_rows(part.sealed.state)
        return part._replace(values=self._watched(part.number, part.values))

    def _take_rows(self, rows: Iterable[bytes]) -> None:
        """Take the schemas of datasets that were opened before a seal."""
        for row in rows:
            if _SCHEMA in row:
                snapshot = decode_snapshot(row)
                if snapshot.schema is not msgspec.UNSET:
                    self._schemas[snapshot.dataset] = bytes(snapshot.schema)

    def report(self, ledgers: dict[int, str | None]) -> AnswersReport:
        """Return the result, after every partition was read to its end.

        Args:
            ledgers: the id of the ledger by each partition of the log.
        """
        for session in self._sessions.values():
            self._take_end(session)
        self._sessions.clear()
        archived = self._without_grant()
        self._signed = [each for each in self._signed if each.ledger in ledgers.values()]
        if not self._wrong:  # an answer that differs by itself is the cause
            self._compare_heads(ledgers)
        for number, bound in self._logs.items():
            if bound.ledger != ledgers.get(number):  # so whatever else differs says nothing
                other = AnswerDifference("ledger", str(ledgers.get(number)), bound.ledger)
                self._wrong.clear()
                self._disagreeing = 0
                self._disagree(number, None, None, other)
                break
        return AnswersReport(
            ok=not self._wrong,
            store=str(self._store.path),
            compared=self._compared,
            waiting=self._waiting,
            archived=archived,
            lost=self._lost,
            disagreeing=self._disagreeing,
            disagreements=tuple(self._wrong),
            first_disagreement=self._wrong[0] if self._wrong else None,
            ledger_head=None if self._head is None else self._head.head.number,
            signed_heads=len(self._signed),
            last_signed=max((each.number for each in self._newest()), default=None),
            given_up=len(self._signed) - len(self._newest()),
        )

    def _newest(self) -> list[AnswersHead]:
        """Return the signed heads of the newest beginning of each partition's answers."""
        newest: dict[int, tuple[int, ...]] = {}
        if self._head is not None:
            newest[0] = self._head.order[:2]
        for each in self._signed:
            newest[each.partition] = max(each.order[:2], newest.get(each.partition, ()))
        return [each for each in self._signed if each.order[:2] == newest[each.partition]]

    def take_signed(
        self, heads: Iterable[tuple[str, bytes]], verifiers: Sequence[Verifier]
    ) -> None:
        """Take signed heads of answers, each with its name; those of other ledgers do not count.

        Args:
            verifiers: the trusted keys.
        """
        for name, signed_text in heads:
            try:
                head = open_head(signed_text, verifiers)
            except CheckpointInvalid as error:
                unread = AnswerDifference(_SIGNED, "a text that a key has signed", str(error))
                self._disagree(0, None, None, unread._replace(found=f"{name}: {error}"))
            else:
                self._signed.append(head)

    def _compare_heads(self, ledgers: dict[int, str | None]) -> None:
        """Compare the chain of each partition with the heads outside of the store."""
        for partition, ledger in ledgers.items():
            if ledger is None:
                continue
            try:
                chain = self._store.chain(partition, ledger)
            except Refused as error:
                broken = AnswerDifference(_CHAIN, _UNBROKEN, str(error))
                self._disagree(partition, None, None, broken)
                continue
            if chain is None:
                chain = ChainEnd((first_head(ledger, partition).hash,), 0)
                if self._head is None and not self._signed:
                    continue  # an earlier version's store, which no curator has opened yet
            why = self._difference_from_heads(chain, partition)
            if why is not None:
                differs = AnswerDifference(_HEAD, "a store that continues its heads", why)
                self._disagree(partition, None, None, differs)

    def _difference_from_heads(self, chain: ChainEnd, partition: int) -> str | None:
        signed = [each.stored for each in self._signed if each.partition == partition]
        before, after = self._head, None if self._read_head is None else self._read_head()
        if before is None or after is None:
            why = difference_from_heads(chain, None, signed)
            # Each batch writes its head before the next one is stored.
            if why is None and after is None and self._read_head is not None and chain.batch > 1:
                why = (
                    "a store whose head the ledger's file does not have: somebody removed it, or "
                    "the file is a copy from before the answers"
                )
            return why
        if after.head.number <= chain.head.number:
            return difference_from_heads(chain, after, signed)
        # A curator may have stored more since the chain was read, and before that.
        began_again = after.order[:2] != before.order[:2]
        return difference_from_heads(chain, before, signed, is_newest=began_again)

    def _watched(self, partition: int, values: Iterable[bytes]) -> Iterator[bytes]:
        for value in values:
            self._take(partition, value)
            yield value

    def _take(self, partition: int, value: bytes) -> None:
        try:
            question = granted_question(partition, value)
            step = None if question is not None else _step(value)
            if _SCHEMA in value:
                self._take_opening(value)
        except Exception:
            return  # the audit names a record that cannot be read
        if question is not None and question.is_reserved:
            self._sessions[question.grant] = _Session(question)
        elif question is not None:
            found = self._find(question)
            if found is not None:
                self._compare(question, found, question.number)
        elif step is not None:
            self._take_step(*step)

    def _take_opening(self, value: bytes) -> None:
        for decision in by_dataset(decode_decision(value)):
            if decision.outcome.opens:
                schema = facts_after(NO_FACTS, decision, dates_grants=False).schema
                stored = b"" if schema is msgspec.UNSET else bytes(schema)
                self._schemas[str(decision.dataset)] = stored

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
        found = self._find(question)
        answer = None if found is None else _decoded(found)
        difference = difference_from_settlement(answer, shown)
        if difference is not None and self._is_lost(question, answer):
            self._lost += 1
            difference = None
        if found is not None:
            self._compare(question, found, number, difference)
        elif difference is not None:
            self._disagree(question.partition, number, question.grant, difference)

    def _is_lost(self, question: GrantedQuestion, answer: NoisyAnswer | None) -> bool:
        """Tell whether an earlier store may have had a session's answer."""
        bound = self._logs.get(question.partition)
        is_older = bound is None or question.number < bound.begins
        return is_older and (answer is None or answer.outcome == "failed")

    def _take_end(self, session: _Session) -> None:
        """Take a session that was voided, or that the log has not settled."""
        question, difference = session.question, None
        found = self._find(question)
        if found is None:
            return
        answer = _decoded(found)
        # What has begun stays charged, and cannot be voided.
        is_old = found.number <= self._ends.get(found.partition, 0)
        if is_old and not session.has_begun and answer is not None and answer.outcome != "failed":
            difference = AnswerDifference("outcome", "failed: it never began", "answered")
        self._compare(question, found, question.number, difference)

    def _find(self, question: GrantedQuestion) -> StoredAnswer | None:
        """Return the answer of a grant, None without one."""
        stored = self._store.get(question.grant)
        if stored is None:
            self._waiting += 1
            return None
        self._granted.add((stored.partition, stored.number))
        return stored

    def _compare(
        self,
        question: GrantedQuestion,
        stored: StoredAnswer,
        number: int,
        by_session: AnswerDifference | None = None,
    ) -> None:
        """Compare an answer with its grant, and with what a run of its question can show.

        Args:
            number: of the decision that says how its session ended; otherwise of the grant.
            by_session: how it differs from that.
        """
        difference = _difference_from_grant(question, stored)
        if difference is not None:
            number = question.number
        elif by_session is not None:
            difference = by_session
        else:
            number, difference = question.number, self._difference_from_run(question, stored)
        if difference is None:
            self._compared += 1
        else:
            self._disagree(question.partition, number, question.grant, difference)

    def _difference_from_run(
        self, question: GrantedQuestion, stored: StoredAnswer
    ) -> AnswerDifference | None:
        answer, schema = decode_answer(stored.value), self._schemas.get(question.request.dataset)
        if answer.outcome == "failed":
            return None  # it has no other content than its grant
        if not schema:
            return AnswerDifference("question", "a dataset with a schema", "none in the log")
        return difference_from_run(question.content, decode_schema(schema), answer)

    def _without_grant(self) -> int:
        """Return how many answers have no grant, if their grants may be in an archive."""
        archived = 0
        for partition, number, grant in self._store.places():
            if number > self._ends.get(partition, 0) or (partition, number) in self._granted:
                continue
            if self._has_archive:
                archived += 1
            else:
                found = "an answer that no question in the log was granted"
                missing = AnswerDifference("grant", "a grant in the log", found)
                self._disagree(partition, None, grant, missing)
        return archived

    def _disagree(
        self, partition: int, number: int | None, grant: str | None, difference: AnswerDifference
    ) -> None:
        self._disagreeing += 1
        if len(self._wrong) < _NAMED:
            self._wrong.append(
                AnswerDisagreement(
                    partition=partition,
                    partition_sequence=number,
                    grant=grant,
                    **difference._asdict(),
                )
            )


def _decoded(stored: StoredAnswer) -> NoisyAnswer | None:
    """Return an answer; None of bytes that are none, which the comparison names."""
    try:
        return decode_answer(stored.value)
    except ValueError:
        return None


def _step(value: bytes) -> tuple[int, ReservationStep] | None:
    """Return a step of a reservation that was granted, with its number; None of others."""
    if _MARK not in value:
        return None
    decision = decode_decision(value)
    if not decision.outcome.is_step:
        return None
    return decision.partition_sequence, _decode_step(bytes(decision.request))


def _difference_from_grant(
    question: GrantedQuestion, stored: StoredAnswer
) -> AnswerDifference | None:
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
