"""The oracle: it predicts every decision of a ledger from the documents alone.

It replays the inputs in their order and imports nothing of what it judges: bytes as they were
sent and as they are stored, `docs/` for the rules, mpmath for the numbers. Where the documents
leave room, for rounding and for the moment at which an input was taken in, it predicts a range,
and goes on from what the ledger says within it.
"""

from __future__ import annotations

from tests.faults.oracle.answers import Answer, check_answer, check_answers
from tests.faults.oracle.disagreement import Disagreement
from tests.faults.oracle.files import Contents, contents, inputs_of, judge_file
from tests.faults.oracle.partition import DEAD, INPUTS, MOST_IDS, InputAsSent, Partition
from tests.faults.oracle.topics import (
    Evidence,
    Follower,
    Place,
    Record,
    Verdict,
    amount,
    gathered,
    judge,
    judge_evidence,
    read,
)

__all__ = [
    "DEAD",
    "INPUTS",
    "MOST_IDS",
    "Answer",
    "Contents",
    "Disagreement",
    "Evidence",
    "Follower",
    "InputAsSent",
    "Partition",
    "Place",
    "Record",
    "Verdict",
    "amount",
    "check_answer",
    "check_answers",
    "contents",
    "gathered",
    "inputs_of",
    "judge",
    "judge_evidence",
    "judge_file",
    "read",
]
