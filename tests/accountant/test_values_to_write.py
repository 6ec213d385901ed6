"""An amount, a part or a period in another form is refused with the form to write."""

from __future__ import annotations

import pytest

from accountant.amounts import parse
from accountant.errors import RequestInvalid
from accountant.policy import check_horizon, check_ratio
from accountant.values_to_write import decimal_to_write, part_to_write, period_to_write
from tests.every_case import check_rows


def test_a_part_in_another_form() -> None:
    def check_case(text: str, hint: str) -> None:
        assert part_to_write(text) == hint
        with pytest.raises(RequestInvalid) as error:
            check_ratio(text, field="part")
        if text != "0":  # it may be meant: another command says so
            assert error.value.hint == hint
        assert str(error.value).endswith(hint)

    check_rows(
        check_case,
        [
            ("35 %", "write 0.35"),
            ("35%", "write 0.35"),
            ("0.5%", "write 0.005"),
            ("2,5 %", "write 0.025"),
            ("0,35", "write 0.35"),
            (".35", "write 0.35"),
            ("35", "write 0.35 for 35 %"),
            ("100", "write 1 for 100 %"),
            ("101", ""),
            ("0", ""),
            ("1/3", ""),
            ("a third", ""),
        ],
    )


def test_a_period_in_another_form() -> None:
    def check_case(text: str, hint: str) -> None:
        assert period_to_write(text) == hint
        with pytest.raises(RequestInvalid) as error:
            check_horizon(text, field="horizon")
        assert error.value.hint == hint

    check_rows(
        check_case,
        [
            ("7d", "write P7D"),
            ("7 days", "write P7D"),
            ("P7d", "write P7D"),
            ("1w", "write P7D"),
            ("P1W", "write P7D"),
            ("1y", "write P365D"),
            ("48h", "write P2D"),
            ("12h", ""),
            ("1 month", ""),
        ],
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        *[("0,5", "write 0.5"), (".5", "write 0.5"), ("+1", "write 1"), ("-1", "")],
        ("1e-400", "the smallest amount is 1e-40, the largest 1e9"),
        ("1e-", ""),
    ],
)
def test_an_amount_in_another_form(text: str, hint: str) -> None:
    assert decimal_to_write(text) == hint
    with pytest.raises(RequestInvalid) as error:
        parse(text, field="epsilon")
    assert error.value.hint == hint
