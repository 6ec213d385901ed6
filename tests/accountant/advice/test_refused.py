"""Who is refused reads which level it was, and when more comes."""

from __future__ import annotations

from typing import Any

import pytest

from accountant.advice.refused import refused_at, when_more
from accountant.limits.wire import LevelLeft, LevelNamed
from accountant.records import FORMAT, RULES, Decision
from accountant.records.outcomes import Outcome, Reason

AT = "2026-12-01T10:00:00.000Z"


def refused(**given: Any) -> Decision:
    return Decision(
        partition_sequence=1,
        decided_at=AT,
        floor=AT,
        version=FORMAT,
        rules=RULES,
        previous="",
        outcome=Outcome.REFUSED,
        reason=Reason.EXHAUSTED,
        **given,
    )


@pytest.mark.parametrize(
    ("level", "at", "more"),
    [
        (None, "", "no more comes"),
        (LevelNamed("team", "blue", "limit"), "the limit of team blue has no room", "raises"),
        (LevelNamed("dataset", None, "reserved"), "the rest of the budget is reserved", "frees"),
        (LevelNamed("each", "blue", "pace"), "the pace of each analyst of team blue", "2026-12-01"),
        (LevelNamed("team", "blue", "pace"), "the pace of team blue", "a whole period has no room"),
    ],
)
def test_a_refusal_says_which_level_and_when_more_comes(
    level: LevelNamed | None, at: str, more: str
) -> None:
    decision = refused(level=level, left_at=(LevelLeft("each", "blue", more_at=AT),))
    assert refused_at(decision).startswith(at)
    assert more in when_more(decision)
