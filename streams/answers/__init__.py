"""The answers to questions: stored once, before anybody reads them."""

from streams.answers.sqlite import SqliteAnswers, answers_path
from streams.answers.store import AnswerReader, AnswerStore, LogPlace, NewAnswer, StoredAnswer

__all__ = [
    "AnswerReader",
    "AnswerStore",
    "LogPlace",
    "NewAnswer",
    "SqliteAnswers",
    "StoredAnswer",
    "answers_path",
]
