"""The answers to a log's questions: where they are, and what an audit finds of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accountant.replay.audit import AuditReport
    from streams.answers.answer_file import AnswerFile
    from streams.audit.answer_comparison import AnswerComparison, AnswersReport
    from streams.evidence.comparison import Evidence
    from streams.log.decision_log import DecisionLog


@contextmanager
def comparison_of(
    source: DecisionLog, answers: Path | AnswerFile | None, *, looked: bool
) -> Iterator[AnswerComparison | AnswersReport | None]:
    """Open the answers of a log; yield None if it has none, a report if none can be compared.

    Args:
        answers: a store, or one that is open; None for the one that belongs to the log.
        looked: there may be signed heads of answers, also of answers that are gone.
    """
    from streams.answers.answer_file import AnswerFile
    from streams.audit.answer_comparison import AnswerComparison
    from streams.embedded.sqlite_log import SqliteLog
    from streams.kafka.log.kafka_log import KafkaLog

    if isinstance(answers, AnswerFile):
        yield AnswerComparison(answers)
        return
    if answers is None and isinstance(source, KafkaLog):
        import asyncio

        from streams.audit.answer_comparison import broken_answers
        from streams.kafka.service.answers import ChainBroken, read_all_answers

        try:
            topic = asyncio.run(read_all_answers(source.deployment))
        except ChainBroken as error:
            name = f"topic {source.deployment.topics.answers}"
            yield broken_answers(name, error.partition, str(error))
            return
        is_needed = topic is not None and (looked or bool(topic.ends()))
        yield AnswerComparison(topic) if topic is not None and is_needed else None
        return
    answers = answers or store_beside(source)
    if answers is None:
        yield None
        return
    from streams.answers.answer_file import open_answers

    read_head = None
    if isinstance(source, SqliteLog):
        from streams.embedded.answer_heads import LedgerAnswerHeads

        read_head = partial(LedgerAnswerHeads(source.path).read, 0)
    with open_answers(answers) as store:
        yield AnswerComparison(store, read_head)


def store_beside(source: DecisionLog) -> Path | None:
    """Return the store of answers beside a ledger's file, None where there is none."""
    from streams.answers import answers_path
    from streams.embedded.sqlite_log import SqliteLog

    if not isinstance(source, SqliteLog):
        return None
    beside = answers_path(source.path, None)
    return beside if beside.exists() else None


def answers_report(
    opened: AnswerComparison | AnswersReport,
    reports: list[tuple[int, AuditReport]],
    evidence: Evidence | None,
) -> AnswersReport:
    """Return what was found of the answers to a log that is right."""
    from streams.audit.answer_comparison import AnswersReport

    if isinstance(opened, AnswersReport):
        return opened
    if evidence is not None:
        opened.take_signed(evidence.answers_heads, evidence.trusted)
    return opened.report({number: each.ledger for number, each in reports})


def missing_answers(source: DecisionLog) -> int:
    """Return how many answers a ledger's file names whose store was not found."""
    from streams.embedded.sqlite_log import SqliteLog

    if not isinstance(source, SqliteLog):
        return 0
    from streams.embedded.answer_heads import LedgerAnswerHeads

    head = LedgerAnswerHeads(source.path).read(0)
    return 0 if head is None else head.head.number
