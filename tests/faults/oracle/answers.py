"""What a door answers to a request that was decided: docs/reference/reasons.md and records.md."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from tests.faults.oracle.disagreement import agree

_STATUS: Final = {"conflict": 409, "invalid": 422}


def check_answer(status: int, body: bytes, record: bytes) -> None:
    """Check an HTTP answer against the log's record of the decision.

    Raises: Disagreement.
    """
    decision: dict[str, Any] = json.loads(record)
    answer: dict[str, Any] = {}
    for name, value in decision.items():
        answer[name] = value
        if name == "outcome":
            answer["granted"] = value == "granted"
            answer["hash"] = f"sha256:{hashlib.sha256(record).hexdigest()}"
    if "first" in answer:
        first = answer["first"]
        answer["first"] = {**first, "granted": first["outcome"] == "granted"}
    agree("answer", status, _STATUS.get(decision["outcome"], 200), decision["outcome"])
    agree("answer", json.loads(body), answer, decision["partition_sequence"])
