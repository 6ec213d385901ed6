"""A column of too many candidates is offered a step under which it has quantiles."""

from __future__ import annotations

from msgspec.structs import replace

from accountant.display.quantile_steps import columns_without_quantiles, least_step
from accountant.questions.schema import NumberColumn, check_schema
from tests.accountant.questions.schemas import CENSUS
from tests.every_case import check_rows


def test_the_step_that_is_offered_helps() -> None:
    def check_case(upper: str, places: int, step: str) -> None:
        column = NumberColumn(name="x", lower="0", upper=upper, places=places)
        wide = replace(CENSUS, columns=(column,), unit=CENSUS.unit)
        assert columns_without_quantiles(wide) == [column]
        assert least_step(column) == step
        narrow = replace(wide, columns=(replace(column, step=step),))
        assert columns_without_quantiles(check_schema(narrow)) == []

    check_rows(
        check_case,
        [
            ("10000", 0, "2"),
            ("50000", 0, "10"),
            ("200000", 2, "50"),
            ("500", 2, "0.1"),
            ("100", 12, "0.02"),
            ("999999999999999", 0, "100000000000"),
        ],
    )
