"""Sessions in a log: each is settled at what its answer shows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from accountant.answers import NoisyAnswer


def check_session(grant: str, answer: NoisyAnswer, log: list[tuple[str, dict[str, Any]]]) -> str:
    """Check that a session is settled at what its answer shows, or in full; return its outcome."""
    steps = [each for _, each in log if each.get("request", {}).get("grant") == grant]
    outcomes = Counter(each["outcome"] for each in steps)
    assert outcomes["begun"] == 1
    assert outcomes["settled"] == 1
    (settled,) = [each for each in steps if each["outcome"] == "settled"]
    assert settled["request"].get("shown") == answer.shown
    assert (answer.shown is None) is (answer.outcome == "failed")
    return answer.outcome
