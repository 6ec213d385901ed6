"""The status of a decided request: docs/reference/reasons.md and http/errors.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tests.faults.oracle.disagreement import Disagreement, agree
from tests.faults.oracle.repeated import input_of
from tests.faults.oracle.wire import canonical

_STATUS: Final = {"conflict": 409, "invalid": 422}
_NOT_DECIDED: Final = {202, 503}
"""Statuses of answers without a decision: docs/reference/http/errors.md."""


class Answer(NamedTuple):
    """A server's answer to a body."""

    body: bytes
    status: int
    content: bytes


def check_answers(answers: Iterable[Answer], decisions: Iterable[bytes]) -> int:
    """Check that each answer agrees with the log; return how many had a decision.

    Raises: Disagreement.
    """
    records = {_hash(record): record for record in decisions}
    decided = 0
    for answer in answers:
        if answer.status in _NOT_DECIDED:
            continue
        found = json.loads(answer.content)
        shown = found.get("decision", found)
        record = records.get(shown.get("hash", ""))
        if record is None:
            raise Disagreement("answer", shown, "a decision of the log")
        agree("answer", canonical(answer.body), input_of(record), "the request that was sent")
        check_answer(answer.status, answer.content, record)
        decided += 1
    return decided


def check_answer(status: int, content: bytes, record: bytes) -> None:
    """Check an HTTP answer against the log's record of the decision.

    Raises: Disagreement.
    """
    decision: dict[str, Any] = json.loads(record)
    where = decision["partition_sequence"]
    served = {**decision, "granted": decision["outcome"] == "granted", "hash": _hash(record)}
    if "first" in served:
        first = served["first"]
        served["first"] = {**first, "granted": first["outcome"] == "granted"}
    agree("answer", status, _STATUS.get(decision["outcome"], 200), where)
    said = json.loads(content)
    if decision["outcome"] == "invalid":
        agree("answer", said.get("error"), decision["reason"], where)
        said = said.get("decision")
    agree("answer", said, served, where)


def _hash(record: bytes) -> str:
    return f"sha256:{hashlib.sha256(record).hexdigest()}"
