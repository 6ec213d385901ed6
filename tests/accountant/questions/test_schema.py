"""Schemas: what they may hold, and their one form in bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.errors import RequestInvalid
from accountant.questions import Schema, check_schema, encode_schema
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    NumberColumn,
    UnitColumn,
)
from tests.accountant.questions.schemas import CENSUS, SOURCE, replaced
from tests.every_case import check_rows

CANONICAL = (
    b'{"source":{"kind":"parquet","name":"census"},"columns":['
    b'{"type":"number","name":"age","lower":"0","upper":"120","step":"5"},'
    b'{"type":"number","name":"income","lower":"-1000","upper":"250000.5","places":2,'
    b'"missing":"0"},'
    b'{"type":"category","name":"region","categories":["north","south","it\'s"]},'
    b'{"type":"category","name":"job","categories":["yes","no"],"missing":"no"},'
    b'{"type":"boolean","name":"smoker"}],'
    b'"neighbours":"add_remove","unit":{"column":"person","rows":3}}'
)


def test_a_schema_has_one_form_in_bytes() -> None:
    assert encode_schema(CENSUS) == CANONICAL
    loose = msgspec.json.decode(CANONICAL)
    loose["columns"][0]["places"] = 0  # its default
    spelled_otherwise = msgspec.json.encode(dict(reversed(loose.items())))
    decoded = msgspec.json.decode(spelled_otherwise, type=Schema)
    assert decoded == CENSUS
    assert encode_schema(decoded) == CANONICAL


def test_an_unknown_field_is_no_schema() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(CANONICAL[:-1] + b',"rows":3}', type=Schema)
    with pytest.raises(msgspec.ValidationError, match="missing required field `neighbours`"):
        msgspec.json.decode(CANONICAL.replace(b'"neighbours":"add_remove",', b""), type=Schema)


def number(**fields: Any) -> NumberColumn:
    return NumberColumn(**{"name": "x", "lower": "0", "upper": "9"} | fields)


def category(*texts: str, **fields: Any) -> CategoryColumn:
    return CategoryColumn(name="c", categories=texts, **fields)


def test_a_column_that_breaks_a_rule_is_refused() -> None:
    def check_case(column: Column, error: str) -> None:
        with pytest.raises(RequestInvalid, match=error) as raised:
            replaced(CENSUS, columns=(BooleanColumn(name="first"), column))
        assert raised.value.field.startswith("columns[1].")

    check_rows(
        check_case,
        [
            (number(name=""), "name must be 1 to 63 characters"),
            (number(name="x" * 64), "name must be 1 to 63 characters"),
            (number(name="a\tb"), "none of them a control character"),
            (number(lower="1e3"), "lower must be a decimal"),
            (number(lower="-0"), "lower must be a decimal"),
            (number(upper="9.50"), "upper must be a decimal"),
            (number(upper="09"), "upper must be a decimal"),
            (number(upper="1" + "0" * 15), "upper must be a decimal"),
            (number(lower="-inf"), "lower must be a decimal"),
            (number(upper="nan"), "upper must be a decimal"),
            (number(upper="9.5"), "upper must have at most 0 digits after the point"),
            (number(upper="9.25", places=1), "upper must have at most 1 digits after the point"),
            (number(places=13), "places must be between 0 and 12"),
            (number(places=-1), "places must be between 0 and 12"),
            (number(upper="0"), "upper must be greater than lower"),
            (number(missing="10"), "missing must be between lower and upper"),
            (number(missing="0.5"), "missing must have at most 0 digits"),
            (number(step="0"), "step must be greater than 0"),
            (number(step="-1"), "step must be greater than 0"),
            (category(), "categories must be 1 to 1000 texts"),
            (category(*map(str, range(1001))), "categories must be 1 to 1000 texts"),
            (category("a", ""), r"categories\[1\] must be 1 to 100 characters"),
            (category("a" * 101), r"categories\[0\] must be 1 to 100 characters"),
            (
                category("a\nb"),
                r"categories\[0\] must be 1 to 100 characters, none of them a control",
            ),
            (category("a", "a"), "categories must hold each text once"),
            (category("north", missing="nort"), "missing nort: did you mean north?"),
        ],
    )


def test_a_schema_that_breaks_a_rule_is_refused() -> None:
    def check_case(fields: dict[str, Any], error: str) -> None:
        with pytest.raises(RequestInvalid, match=error):
            replaced(CENSUS, **fields)

    check_rows(
        check_case,
        [
            ({"columns": ()}, "columns must be 1 to 100 columns"),
            (
                {"columns": tuple(BooleanColumn(name=f"b{i}") for i in range(101))},
                "1 to 100 columns",
            ),
            (
                {"columns": (BooleanColumn(name="b"),) * 2},
                r"columns\[1\].name must name each column",
            ),
            ({"unit": UnitColumn(column="age", rows=1)}, "unit.column must be no column"),
            ({"unit": UnitColumn(column="", rows=1)}, "unit.column must be 1 to 63 characters"),
            ({"unit": UnitColumn(column="id", rows=0)}, "unit.rows must be between 1 and 1000000"),
            (
                {"source": msgspec.structs.replace(SOURCE, name="/tmp/x")},
                "source.name must be 1 to 63",
            ),
            (
                {
                    "columns": tuple(
                        CategoryColumn(name=f"c{n}", categories=tuple(map(str, range(1000))))
                        for n in range(8)
                    )
                },
                "schema must be at most 32768 bytes",
            ),
        ],
    )


def test_without_a_unit_each_row_is_one() -> None:
    schema = msgspec.json.decode(
        b'{"source":{"kind":"csv","name":"t"},"columns":[{"type":"boolean","name":"b"}],'
        b'"neighbours":"replace"}',
        type=Schema,
    )
    assert check_schema(schema).rows_per_unit == 1
