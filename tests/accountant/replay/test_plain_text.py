"""What an audit says of values that differ, as people read it."""

from __future__ import annotations

from msgspec import UNSET

from accountant.records.limit_records import LimitUpdate
from accountant.records.outcomes import Outcome
from accountant.replay.sums import same
from tests.every_case import check_rows

MOVED = LimitUpdate(scope="team", name="red", version=1)


def test_a_difference_is_plain_text_and_no_python() -> None:
    def check_case(value: object, text: str) -> None:
        (finding,) = same("field", value, "another")
        assert finding.expected == text
        (finding,) = same("field", "another", value)
        assert finding.found == text

    check_rows(
        check_case,
        [
            (None, "nothing"),
            (UNSET, "nothing"),
            (Outcome.GRANTED, "granted"),
            (b"{}", "{}"),
            (True, "true"),
            ({"epsilon": "1"}, '{"epsilon":"1"}'),
            (("0.5", "0.9"), '["0.5","0.9"]'),
            ((MOVED,), '[{"scope":"team","name":"red","version":1}]'),
        ],
    )
