"""Who is refused reads which level it was, and when more comes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.display.reasons import NO_ROOM
from accountant.display.refusals import refusal_words, when_more
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
        (None, NO_ROOM, "a dataset's budget is fixed"),
        (LevelNamed("team", "blue", "limit"), "The limit of team blue has no room", "raise"),
        (LevelNamed("dataset", None, "reserved"), "The rest of the budget is reserved", "less"),
        (LevelNamed("each", "blue", "pace"), "The pace of each analyst of team blue", "2026-12-01"),
        (LevelNamed("team", "blue", "pace"), "The pace of team blue", "a whole period has no room"),
    ],
)
def test_a_refusal_says_which_level_and_when_more_comes(
    level: LevelNamed | None, at: str, more: str
) -> None:
    decision = refused(level=level, left_at=(LevelLeft("each", "blue", more_at=AT),))
    assert refusal_words(decision).startswith(at)
    found = when_more(decision)
    assert found is not None
    assert more in found.text


def test_a_delta_that_is_not_there_is_named() -> None:
    asked, left = {"epsilon": "0.1", "delta": "1.23456e-7"}, {"epsilon": "1", "delta": "0"}
    words = refusal_words(refused(asked=asked, left=left))
    assert words.startswith("The claim has a delta of 1.235e-7, and nothing of the dataset's delta")


def test_what_is_no_refusal_says_nothing() -> None:
    granted = msgspec.structs.replace(refused(), outcome=Outcome.GRANTED, reason=None)
    assert refusal_words(granted) == ""
    assert when_more(granted) is None
