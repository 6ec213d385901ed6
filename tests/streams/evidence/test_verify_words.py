"""verify.py says what is wrong, of which record, in words and decimals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.evidence import verify
from tests.accountant.world import World, opened
from tests.golden.replayed_logs import played

Row = dict[str, Any]


def words_of(folder: Path, log: list[bytes], place: int, change: Callable[[Row], None]) -> str:
    """Return what the verifier says of one dataset's records, of which one was changed."""
    lines = [json.loads(value) for value in log]
    change(lines[place])
    text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines[1:])
    (folder / "records.jsonl").write_text(text)
    with pytest.raises(verify.Wrong) as raised:
        verify.check_log(folder, {"chained": False}, verify.Log())
    return str(raised.value)


def world() -> World:
    made = opened(filter="basic", epsilon="1")
    made.ask("pure:0.01")
    made.close()
    return made


def _cost(row: Row) -> None:
    row["cost"]["epsilon"] = "0.5"


def _renamed(row: Row) -> None:
    row["dataset"] = "health::costs"


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        (2, _cost, "decision 2, line 2 of records.jsonl: growth of epsilon must be 0.5, got 0.01"),
        (
            2,
            lambda row: row.pop("left"),
            "decision 2, line 2 of records.jsonl: field left is missing",
        ),
        (
            3,
            _renamed,
            "decision 3, line 3 of records.jsonl: dataset health::costs was never opened",
        ),
    ],
)
def test_words_name_decision_field_and_amount(
    tmp_path: Path, place: int, change: Callable[[Row], None], words: str
) -> None:
    assert words_of(tmp_path, world().log, place, change).startswith(words)


def test_a_grant_after_a_stop_is_named() -> None:
    made, log = world(), verify.Log()
    for value in made.log:
        log.take(value)
    again = json.loads(made.log[2]) | {"sequence": 4}
    again["totals"] = {"mechanisms": 2, "epsilon": "0.02", "delta": "0"}
    with pytest.raises(verify.Wrong, match=r"^a grant after a stop: census is closed$"):
        log.decision(again, "")


def test_a_lifetime_says_what_it_has_and_what_is_taken() -> None:
    log, values = verify.Log(), played("populations").log
    log.take(values[0])
    part = json.loads(values[1])
    part["policy"]["epsilon"] = part["request"]["policy"]["epsilon"] = "5"
    part["lifetime"]["spent"]["epsilon"] = "5"
    why = "the lifetime has epsilon 4, and 5 is taken from it"
    with pytest.raises(verify.Wrong, match=f"^{re.escape(why)}$"):
        log.decision(part, "")


def test_an_answer_without_a_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"value":"{}","partition":0}\n')
    with pytest.raises(verify.Wrong, match=r"^line 1 of answers\.jsonl: field grant is missing"):
        verify.check_answers(tmp_path, verify.Log(), {})
